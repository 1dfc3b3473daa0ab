"""The command line: all commands. Each is imported when it is used, since its libraries load slowly."""

from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from judge.commands.console import one_line_faults
from judge.commands.options import add_command
from judge.utils.files import check_names


class _Judge(TyperGroup):
    """Reports faults, misspelt options among them, in one line."""

    def make_context(self, info_name: Any, args: list[str], *others: Any, **extra: Any) -> Any:
        with one_line_faults():
            check_names(args)
            return super().make_context(info_name, args, *others, **extra)

    def invoke(self, ctx: Any) -> Any:
        with one_line_faults():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Judge,
    help="Does a captioning model describe people more stereotypically than people do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ablates = typer.Typer(help="Ablations: vary the detector or the mask.", no_args_is_help=True)
recipes = typer.Typer(help="Data recipes: list them, or show one.", no_args_is_help=True)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", metavar="", help="Show the version.")] = False) -> None:
    if version:
        typer.echo(f"caption-judge {metadata.version('caption-judge')}")
        raise typer.Exit


app.add_typer(ablates, name="ablate")
app.add_typer(recipes, name="data")
add_command(app, "demo", "demo", "Measure a small drawn world whose true amplification is known. Needs no download.")
add_command(app, "evaluate", "evaluate", "Measure how much captioners amplify the bias of human captions.")
add_command(app, "compare", "compare", "Compare the captioners of several finished runs.")
add_command(app, "report", "report", "Report finished runs: a page, tables to paste, JSON, or a model card section.")
add_command(app, "train", "train", "Train the judges of a run; judge evaluate then scores them.")
add_command(app, "predict", "predict", "Apply a trained judge to new captions: the probability of each class.")
add_command(app, "attribute", "attribute", "Explain a trained judge's answers by words and by parts of images.")
add_command(app, "export", "export", "Export a trained judge to a folder to share: weights, settings, a model card.")
add_command(app, "caption", "caption", "Caption a folder of images with any checkpoint that transformers loads.")
add_command(app, "calibrate", "calibrate", "Measure metrics on your own captions, changed by known doses.")
add_command(app, "mask", "mask", "Hide people or objects in a folder of images.")
add_command(app, "align", "align", "Align human captions with each captioner's vocabulary.")
add_command(app, "doctor", "doctor", "Show installed packages, judges and detectors that can run, GPU, Java, caches.")
add_command(app, "anonymous", "anonymous", "Count captions that name an attribute which cannot be seen.")
add_command(app, "plugins", "plugins", "List metrics, judges, detectors, readers and lexicons of other packages.")
add_command(ablates, "detectors", "ablate:detectors", "Compare detectors with ground truth.")
add_command(ablates, "masks", "ablate:masks", "Vary what is hidden in the images, and measure each time.")
add_command(recipes, "list", "data:data_list", "List the recipes: data sets, who may get them, and their attributes.")
add_command(recipes, "show", "data:data_show", "Show a recipe: files, licence, access, labels and commands.")

"""The command line: all commands. Each is imported when it is used, since its libraries load slowly."""

from collections.abc import Mapping
from importlib import import_module, metadata
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from judge.commands.console import one_line_errors, one_line_faults
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


def add_command(app: typer.Typer, name: str, place: str, summary: str) -> None:
    """Add a command that is imported when it is used; its group's ``--help`` shows ``summary``.

    ``place`` is a module of :mod:`judge.commands`, or ``module:function`` where the function is not called ``command``.
    The function either takes settings (``config``), which are read from a YAML file and options, or is Typer's own.
    """

    class Command(TyperCommand):
        loaded = False
        grouped: Mapping[str, str] = {}  # Field -> "--training epochs", for users who write --epochs.

        def get_params(self, ctx: Any) -> list[Any]:
            if not self.loaded:
                module, _, function = place.partition(":")
                body = getattr(import_module(f"judge.commands.{module}"), function or "command")
                # Rich would keep the docstring's line breaks.
                self.help = "\n\n".join(" ".join(part.split()) for part in str(getdoc(body)).split("\n\n"))
                run = one_line_errors()(body)
                if "config" in body.__annotations__:
                    from judge.commands.options import with_settings

                    run, self.grouped = with_settings(body)
                made = typer.Typer(add_completion=False)
                made.command()(run)
                command = get_command(made)
                self.params, self.callback, self.loaded = command.params, command.callback, True
            params: list[Any] = super().get_params(ctx)
            if self.params and self.params[0].name == "file":
                params[-1].rich_help_panel, params[-1].metavar = "Output", ""  # --help
            return params

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            self.no_args_is_help = any(isinstance(param, TyperArgument) for param in self.get_params(ctx))
            return super().parse_args(ctx, args)

    app.command(name, cls=Command, help=summary)(lambda: None)


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

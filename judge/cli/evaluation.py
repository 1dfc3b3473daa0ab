"""``judge evaluate`` and ``judge demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from judge.cli import options
from judge.cli.shared import one_line_errors, print_result, progress, resolve, say


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter an option: that is how Typer reads them
    run_file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.yaml]", help="settings; options override them")
    ] = None,
    human: Annotated[Path | None, typer.Option(help="human captions, any of the formats in README")] = None,
    captions: Annotated[
        list[str] | None, typer.Option(help="a captioner's captions, or NAME=FILE; may be repeated")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="attribute class of each image; default: derived from the human captions")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results [default: runs/evaluate]")] = None,
    overwrite: options.Overwrite = None,
    metrics: Annotated[
        str | None, typer.Option(help="comma-separated: lic, leakage, sc [default: lic,leakage]")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="comma-separated: linear, lstm [default: linear]")] = None,
    protocol: Annotated[str | None, typer.Option(help="crossfit or paper [default: crossfit]")] = None,
    seeds: Annotated[int | None, typer.Option(help="repetitions [default: 1 under crossfit, 10 under paper]")] = None,
    seed: Annotated[int | None, typer.Option(help="the first seed [default: 0]")] = None,
    folds: Annotated[int | None, typer.Option(help="folds of crossfit [default: 10]")] = None,
    attribute: options.Attribute = None,
    lexicon: options.Lexicon = None,
    text: Annotated[str | None, typer.Option(help="whole or first-sentence [default: whole]")] = None,
    contractions: Annotated[str | None, typer.Option(help="whole or split [default: whole]")] = None,
    refusal: Annotated[
        list[str] | None, typer.Option(help="regular expression that tells a refusal; replaces ours; repeatable")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="of caption tables: image_id=NAME or caption=NAME; repeatable")
    ] = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    label_value: options.LabelValue = None,
    split: Annotated[str | None, typer.Option(help="split of a Karpathy file, e.g. test")] = None,
    several: Annotated[
        bool | None, typer.Option("--several", help="a captioner may have several captions an image")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="overrides the judge's own")] = None,
    batch_size: Annotated[int | None, typer.Option(help="overrides the judge's own")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="overrides the judge's own")] = None,
    precision: Annotated[str | None, typer.Option(help="no, bf16 or fp16 [default: Accelerate's setting]")] = None,
    sharing: Annotated[
        str | None, typer.Option(help="members or data: how several processes share judges [default: the judge's]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="judges trained at a time [default: one a core]")] = None,
    resamples: options.Resamples = None,
    level: options.Level = None,
) -> None:
    """Measure how much captioners amplify the bias of human captions.

    Prints a table and leaves run.yaml, scores.parquet, metrics.json and log.jsonl in --out.
    """
    given = dict(locals())
    with one_line_errors():
        run_settings(given.pop("run_file"), given)


def demo(
    out: Annotated[Path, typer.Option(help="folder for the world and the results")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="of the world")] = 0,
    images: Annotated[int, typer.Option(min=200, help="scenes in the world")] = 3000,
) -> None:
    """The whole story on a small world whose true amplification is known. Needs no download."""
    with one_line_errors():
        from judge.jobs.demo import run_demo

        with progress() as report:
            found = run_demo(out, seed=seed, images=images, report=report)
        print_result(found.result, extra={"true": found.truth})
        say(
            "\ntrue: for an optimal judge with unlimited data. Judges that learn from few images miss faint clues,\n"
            "most of all on the human side, where clues are fainter: amplification then comes out too large."
        )
        say(f"\nThe world is in {found.world}, the results are in {found.results}")


def run_settings(run_file: Path | None, given: dict[str, Any]) -> None:
    """What ``judge evaluate`` and ``scripts/evaluate.py`` do with a file and options."""
    from judge.config import RunConfig
    from judge.jobs.evaluate import run
    from judge.training.members import is_main_process

    config = resolve(run_file, given, RunConfig, out="runs/evaluate")
    with progress() as report:
        result = run(config, report=report)
    if is_main_process():
        print_result(result)
        say(f"\nThe results are in {config.out}")

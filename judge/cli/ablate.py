"""``judge ablate detectors`` and ``judge ablate masks``: a run, several times over, with one thing exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.cli import options
from judge.cli.evaluate import evaluate
from judge.cli.shared import also_takes, one_line_errors, resolve, say, show_progress, tell_failures

if TYPE_CHECKING:
    from judge.commands.ablate_detectors import DetectorAblation


@also_takes(evaluate, without=("detector",))
def ablate_detectors(
    detectors: Annotated[
        str | None, typer.Option(help="comma-separated: gt, yolo, maskrcnn [default: gt,yolo,maskrcnn]")
    ] = None,
    device: options.Device = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results [default: runs/detectors]")] = None,
    **given: Any,
) -> None:
    """Compare detectors with ground truth: what each finds of people and, with captions, what judges then measure.

    Takes the file and the options of judge evaluate; without --human detectors alone are compared. Leaves
    detectors.json, contact_sheet.png and ablate.yaml in --out. Exit code 1: some pictures could not be read.
    """
    with one_line_errors():
        from judge.commands.ablate_detectors import ablate_detectors as run_ablation
        from judge.config import AblateDetectorsConfig
        from judge.masking.images import SHEET_NAME

        given |= {"detectors": detectors, "device": device, "out": out}
        config = resolve(given.pop("run_file"), given, AblateDetectorsConfig, out="runs/detectors")
        with show_progress() as progress:
            found = run_ablation(config, progress=progress)
        if not found.rows:
            tell_failures(found.failures, len(found.failures), "read")
        _print_detectors(found)
        say(f"The results are in {config.out}; look at {config.out / SHEET_NAME}")
        tell_failures(found.failures, len(found.failures) + found.rows[0].pictures, "read")


@also_takes(evaluate, without=("mask", "hide"))
def ablate_masks(
    masks: Annotated[
        str | None, typer.Option(help="comma-separated: none, partial, segment, box [default: all four]")
    ] = None,
    hides: Annotated[str | None, typer.Option(help="comma-separated: person, object, both [default: all]")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results [default: runs/masks]")] = None,
    **given: Any,
) -> None:
    """Hide more and more of pictures, from captioners and from judges, and measure each time.

    Takes the file and the options of judge evaluate. A captioner given with --model captions the masked pictures anew;
    of one given with --captions only the judges see less. Leaves masks.json and ablate.yaml in --out.
    """
    with one_line_errors():
        from judge.commands.ablate_masks import ablate_masks as run_ablation
        from judge.config import AblateMasksConfig
        from judge.report.ablations import mask_table
        from judge.report.render import print_table

        given |= {"masks": masks, "hides": hides, "out": out}
        config = resolve(given.pop("run_file"), given, AblateMasksConfig, out="runs/masks")
        with show_progress() as progress:
            rows = run_ablation(config, progress=progress)
        print_table(mask_table(rows))
        say(f"The results are in {config.out}")


def _print_detectors(found: DetectorAblation) -> None:
    from judge.report.ablations import agreement_lines, detector_scores
    from judge.report.render import print_table
    from judge.report.tables import detector_table

    print_table(detector_table(found.rows))
    say("")
    if found.results:
        print_table(detector_scores(found.results))
        for line in agreement_lines(found.agreements, next(iter(found.results))):
            say(line)
        say("")

"""``judge ablate detectors``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress, tell_failures

if TYPE_CHECKING:
    from judge.config import AblateDetectorsConfig


def ablate_detectors(config: AblateDetectorsConfig) -> None:
    """Compare detectors with ground truth: what each finds of people and, with captions, what judges then measure.

    Takes the settings file and the options of judge evaluate; without --human, only detectors are compared. Leaves
    detectors.json, contact_sheet.png and ablate.yaml in --out. Exit code 1: some images could not be read.
    """
    from judge.commands.ablate_detectors import ablate_detectors as run_ablation
    from judge.masking.images import SHEET_NAME
    from judge.report.ablations import agreement_lines, detector_scores, detector_table
    from judge.report.render import print_table
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        found = run_ablation(config, progress=progress)
    if not is_main_process():
        return
    if not found.rows:
        tell_failures(found.failures, len(found.failures), "read")
    print_table(detector_table(found.rows))
    if found.results:
        print_table(detector_scores(found.results))
        for line in agreement_lines(found.agreements, next(iter(found.results))):
            say(line)
        say("")
    say(f"The results are in {config.out}; look at {config.out / SHEET_NAME}")
    tell_failures(found.failures, len(found.failures) + found.rows[0].pictures, "read")

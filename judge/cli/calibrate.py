"""``judge calibrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import CalibrateConfig


def calibrate(config: CalibrateConfig) -> None:
    """Measure metrics on data whose amplification is known: your own human captions, changed by known doses.

    People's captions are measured against other people's, with nothing amplified, and with doses of stereotypes (A->T,
    T->A) or of changes that are no bias. Metrics that use images are measured on drawn scenes, whose simulated
    captioners have such doses: a trial takes 90 seconds of one core or more, and each detector has trials of its own.
    Leaves a table, a figure of response curves and calibration.json in --out.
    """
    from judge.commands.calibrate import calibrate_metrics
    from judge.report.calibration import calibration_tables, verdict
    from judge.report.render import open_console, print_table, print_text
    from judge.utils.launch import is_main_process

    # A trial of a large judge takes minutes.
    with show_progress(period=3600) as progress:
        found = calibrate_metrics(config, progress=progress)
    if is_main_process():
        for table in calibration_tables(found):
            print_table(table)
            say("")
        for row in found:
            print_text(verdict(row), open_console())
        say(f"Everything is in {config.out}")

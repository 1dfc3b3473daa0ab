"""``judge evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import RunConfig


def evaluate(config: RunConfig) -> None:
    """Measure how much captioners amplify the bias of human captions.

    Prints a table and leaves in --out: report.html (a page to look at), run.yaml (settings), metrics.json, log.jsonl,
    scores.parquet (judges' answers), counts.parquet (counts of captions), replicates.parquet (values on parts of the
    data, for intervals and tests) and examples.parquet.
    """
    from judge.commands.evaluate import run
    from judge.report.directory import REPORT
    from judge.report.printing import print_result
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        result = run(config, progress=progress)
    if is_main_process():
        print_result(result, folder=config.out, verbose=config.verbose)
        assert config.out, "the command has a default"
        say("")
        say(f"The results are in {config.out}; look at {config.out / REPORT}")

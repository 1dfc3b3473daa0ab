"""``judge compare``: differences between the captioners of several runs, e.g. two checkpoints of one model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from judge.report.directory import difference_row
from judge.report.saved_run import name_runs, read_table
from judge.report.several_runs import check_places, check_together, name_apart
from judge.statistics.comparisons import Difference, corrected, difference
from judge.utils.output_file import OutputFile


def compare_runs(folders: Sequence[Path], *, level: float = 0.95, out: Path | None = None) -> list[Difference]:
    """Differences between the captioners of different runs, by every metric and judge that both runs have.

    Args:
        folders: of finished runs, two or more; captioners of one name in several are called RUN/CAPTIONER.
        level: of the intervals.
        out: a JSON file to write; None for none.

    Raises:
        JudgeError: a folder that holds no run, or is named twice; runs of other images, judges or protocol, with what
            differs; ``out`` is there already.
    """
    check_places(folders)
    output = OutputFile(out, mend="name a new file") if out is not None else None
    if output:
        output.check()
    runs = [read_table(folder, name) for folder, name in zip(folders, name_runs(folders), strict=True)]
    for first, second in combinations(runs, 2):
        check_together(first, second)
    named = [[row for row in run.result.summaries if row.amplification is not None] for run in name_apart(runs)]
    found = [
        difference(one, other, same_images=True, level=level)
        for first, second in combinations(named, 2)
        for one in first
        for other in second
        if (one.metric, one.judge) == (other.metric, other.judge)
    ]
    found = corrected(found)
    if output:
        text = json.dumps(
            {"runs": [run.name for run in runs], "differences": list(map(difference_row, found))}, indent=2
        )
        with output.working():
            output.write((text + "\n").encode())
    return found

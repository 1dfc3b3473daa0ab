"""DBAC, Table 2: the verbs of the controlled sets, and how many human captions there are with each."""

from __future__ import annotations

from _commands import Step
from _controlled import candidates, sources
from _job import Job
from _ours import Column, Ours, Value
from _table import PaperTable, Results, main

from judge.calibration.world import CLASSES

COLUMNS = tuple(Column(name, f"images with such a caption, {name}", 0, scale=1) for name in CLASSES)


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """Images whose human captions could be drawn for a set: one task, one of its verbs, the class and task named."""
    return {
        ((cell.task, cell.verb), cell.attribute): Value(float(len(images))) for cell, images in candidates(job).items()
    }


def no_commands(job: Job) -> list[Step]:
    """Captions are counted by the script itself."""
    return []


TABLE = PaperTable(
    "dbac_table2",
    "nair2026dbac",
    "Table 2",
    "verbs of the controlled sets",
    COLUMNS,
    no_commands,
    read=read,
    reads=sources,
    note="The table lists verbs and has no figures. Counted here: images of one task with a human caption that names "
    "the class, the task and one of its two verbs. The paper drew 50 captions for each class and task.",
)

if __name__ == "__main__":
    main(TABLE)

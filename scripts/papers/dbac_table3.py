"""DBAC, Table 3: bias of human captions in which the verb alone tells gender.

BA and DPA are those of annotated classes and tasks, one side. The paper calls 0.5 "no bias".
"""

from __future__ import annotations

import csv
import json

import numpy as np
from _commands import Step
from _controlled import NAMES, sources, write_sets
from _dbac import judge_of
from _job import Job
from _ours import Column, Ours, Value, value_of
from _published import Row
from _table import PaperTable, Results, evaluate_step, main
from _verb_sets import RATIOS, SUBSETS

from judge import ba_mals, dpa
from judge.calibration.world import CLASSES
from judge.metrics.counted.dpa import Dpa

JUDGES = (judge_of("lic", "lstm"),)
METRICS = ("lic", "dbac-at:accuracy")


def steps(job: Job) -> list[Step]:
    """The captions of a set on both sides: nothing is amplified, and the human side's score is what counts."""
    found = []
    for name in NAMES:
        folder = job.out / "sets" / name
        inputs = {"human": folder / "human.json", "captions": {"itself": folder / "itself.json"}}
        inputs |= {"labels": folder / "gender.csv", "objects": folder / "objects.json"}
        found.append(evaluate_step(job, inputs, name=name, metrics=METRICS, **job.judging(JUDGES)))
    return found


def read(table: PaperTable, job: Job, results: Results) -> Ours:
    """What judges find on the human side; counts find nothing."""
    found: dict[tuple[Row, str], Value] = {}
    for (name, result), (more, fewer) in zip(results.items(), RATIOS, strict=True):
        row = (f"{name}, {more}:{fewer:02d}",)
        for key, value in counted(job, name).items():
            found[row, key] = Value(value)
        for line in result.summaries:
            if line.metric.name == "lic":
                found |= {(row, "lic_h"): side} if (side := value_of(result, line, "human")) else {}
            elif line.qualities:
                found[row, "omega"] = Value(line.qualities[0])
    return found


def counted(job: Job, name: str) -> dict[str, float]:
    """BA and DPA of one side: what the annotated class tells of the task."""
    folder = job.out / "sets" / name
    with (folder / "gender.csv").open(encoding="utf-8", newline="") as file:
        classes = {line["image_id"]: CLASSES.index(line["gender"]) for line in csv.DictReader(file)}
    shown = json.loads((folder / "objects.json").read_text(encoding="utf-8"))
    attribute = np.array(list(classes.values()))
    tasks = np.array([[task in shown[image] for task in sorted(SUBSETS)] for image in classes])
    there = dpa(attribute, tasks, variant=Dpa(unit="label", score="balanced"))
    return {"ba": float(ba_mals(attribute, tasks).truth or 0), "dpa": float(there.truth or 0)}


TABLE = PaperTable(
    "dbac_table3",
    "nair2026dbac",
    "Table 3",
    "bias of human captions in which the verb alone tells gender",
    (
        Column("ba", "BA", 2, scale=1),
        Column("dpa", "DPA", 2, scale=1),
        Column("omega", "DBAC (ω_H)", 2, judge=JUDGES[0], scale=1),
        Column("lic_h", "LIC_H", 2, judge=JUDGES[0], scale=1),
    ),
    steps,
    read=read,
    prepare=write_sets,
    reads=sources,
    note="Ours of ω_H is Q, the share of captions whose class is guessed: the published figures are near the rate of "
    "the best guess (0.6, 0.7, 0.8, 0.9) and cannot hold the prior P(t)/P(a), which is 2/3 for three tasks and two "
    "classes. BA and DPA of annotated classes and tasks, one side. Of a judge that only guesses LIC_H is 0.25; the "
    "paper compares it with 0.5. How many captions an image gave to the paper's sets is not known: with one each, as "
    "here, LIC's images are probably too few, and the script then says which kind of captions is short.",
    shared_note="Ours: captions that a grammar makes, 300 a set (50 for each class and task), in which the verb alone "
    "tells the class; labels are exact. Of the real captions at hand there are too few (Table 2).",
)

if __name__ == "__main__":
    main(TABLE)

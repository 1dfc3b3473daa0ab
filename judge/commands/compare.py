"""``judge compare``: differences between the captioners of several runs, e.g. two checkpoints of one model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml

from judge.errors import JudgeError
from judge.measure.refits import COLUMNS
from judge.metrics import find_metric
from judge.report.directory import REPLICATES, difference_row
from judge.statistics.comparisons import Difference, corrected, difference
from judge.statistics.summary import ROW, Replicates, Summary
from judge.utils.files import write_whole, writing

# What must be the same for two runs to be compared: facts of metrics.json, and all settings of run.yaml but those that
# say where things are (images and labels are compared themselves), what else was measured, or how the work was done.
_SAME = ("attribute", "protocol", "folds", "seeds", "lexicon")
_MAY_DIFFER = {
    "human", "captions", "models", "labels", "objects", "images", "instances", "out", "features", "checkpoints",
    "cache", "id_column", "label_column", "label_values", "object_column", "object_id_column", "columns", "split",
    "several", "metrics", "judge", "quality", "human_scores", "chance", "refits", "level", "resamples", "folds",
    "seeds", "seed", "lexicon", "workers", "micro_batch", "caption_batch", "sharing", "trust_weights", "max_pixels",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Run:
    """A run's folder, read.

    Attributes:
        name: of the folder, with as many of those above it as tell it from the others.
        facts: the entry "run" of metrics.json.
        refits: how often judges were trained again, by what they guess.
        marks: of each captioner, by metric, marks of what captioners that are compared must share.
        settings: run.yaml.
        rows: the table.
    """

    name: str
    facts: Mapping[str, Any]
    refits: Mapping[str, int]
    marks: Sequence[Mapping[str, Mapping[str, str]]]
    settings: Mapping[str, Any]
    rows: tuple[Summary, ...]


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
    _check_places(folders, out)
    runs = [_read(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    for first, second in combinations(runs, 2):
        _check(first, second)
    named = _with_names(runs)
    found = [
        difference(one, other, same_images=True, level=level)
        for first, second in combinations(named, 2)
        for one in first
        for other in second
        if (one.metric, one.judge) == (other.metric, other.judge)
    ]
    found = corrected(found)
    if out:
        text = json.dumps(
            {"runs": [run.name for run in runs], "differences": list(map(difference_row, found))}, indent=2
        )
        with writing(out):
            write_whole(out, (text + "\n").encode())
    return found


def _check_places(folders: Sequence[Path], out: Path | None) -> None:
    for first, second in combinations(folders, 2):
        if first.resolve() == second.resolve():
            raise JudgeError("the same run twice", where=str(second), mend="give two folders")
    if out and out.exists():
        raise JudgeError("is there already", where=f"--out {out}", mend="name a new file")


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different."""
    paths = [folder.resolve().parts for folder in folders]
    lengths = range(1, max(map(len, paths)) + 1)
    tried = ([str(Path(*parts[-length:])) for parts in paths] for length in lengths)
    return next((names for names in tried if len(set(names)) == len(names)), [str(folder) for folder in folders])


def _read(folder: Path, name: str) -> _Run:
    mend = "give the folder of a finished judge evaluate, made by this version"
    try:
        found = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        settings = yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))
        path = folder / f"{REPLICATES}.parquet"
        replicates = pd.read_parquet(path) if path.exists() else pd.DataFrame(columns=COLUMNS)
        rows = tuple(_summary(row, replicates) for row in found["results"])
        facts = dict(found["run"])
        marks = [{name: dict(of) for name, of in entry["marks"].items()} for entry in facts["captioners"].values()]
        return _Run(name, facts, dict(facts["refits"]), marks, dict(settings), rows)
    except OSError as error:
        raise JudgeError(f"no run can be read there ({error.strerror})", where=str(folder), mend=mend) from error
    except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        what = "no run can be read there (its files are not those of a finished run)"
        raise JudgeError(what, where=str(folder), mend=mend) from error


def _summary(row: Mapping[str, Any], replicates: pd.DataFrame) -> Summary:
    """What a difference needs of a line of the table."""
    kind: Literal["half", "split"] = "split" if row["basis"] == "splits" else "half"
    parts = None
    if row.get("replicates"):
        mine = (replicates[list(ROW)] == [row[name] for name in ROW]).all(axis=1) & (replicates["kind"] == kind)
        values = replicates[mine].sort_values("number")["amplification"].astype(float)
        parts = Replicates(kind, tuple(values.tolist()), **row["replicates"])
    return Summary(
        row["captioner"],
        find_metric(row["metric"]),
        row["judge"],
        amplification=row["amplification"],
        images=row["images"],
        basis=row["basis"],
        standard_error=row.get("standard_error"),
        degrees=row.get("degrees", 0),
        replicates=parts,
    )


def _check(first: _Run, second: _Run) -> None:
    """Refuse runs whose numbers do not compare."""
    where = f"{first.name} with {second.name}"
    for name, one, other in _unlike(first, second):
        if one == other:
            continue
        what = f"the runs cannot be compared: {name} is {_short(one)} in one and {_short(other)} in the other"
        raise JudgeError(what, where=where, mend="measure both with the same settings")
    rows = [{row.key[1:] for row in run.rows if row.amplification is not None} for run in (first, second)]
    if not rows[0] & rows[1]:
        judged = [", ".join(sorted(f"{metric} ({judge})" for metric, judge in of)) or "no amplification" for of in rows]
        what = f"the runs cannot be compared: {judged[0]} in one, {judged[1]} in the other"
        raise JudgeError(what, where=where, mend="measure both by the same metric and judge")
    for metric in sorted({metric for metric, _ in rows[0] & rows[1]}):
        marks = [of[metric] for of in (*first.marks, *second.marks) if metric in of]
        unlike = [name for name in marks[0] if len({of.get(name) for of in marks}) > 1]
        if unlike:
            counts = [max(row.images for row in run.rows if row.metric.name == metric) for run in (first, second)]
            images = f"{metric}: {counts[0]:,} and {counts[1]:,} images"
            what = f"the runs cannot be compared: they have other {unlike[0]} ({images})"
            raise JudgeError(what, where=where, mend="measure both captioners against the same data")


def _unlike(first: _Run, second: _Run) -> Iterator[tuple[str, object, object]]:
    """Name, and what it is in one run and in the other."""
    for name in _SAME:
        yield name, first.facts.get(name), second.facts.get(name)
    for target in sorted(first.refits.keys() & second.refits.keys()):
        yield "refits", first.refits[target], second.refits[target]
    for name in sorted((first.settings.keys() | second.settings.keys()) - _MAY_DIFFER):
        yield name, first.settings.get(name), second.settings.get(name)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _with_names(runs: Sequence[_Run]) -> list[list[Summary]]:
    """The tables of the runs, captioners named apart; rows without a value left out."""
    names = [{row.captioner for row in run.rows} for run in runs]
    twice = {name for of, other in combinations(names, 2) for name in of & other}
    return [
        [
            replace(row, captioner=f"{run.name}/{row.captioner}") if row.captioner in twice else row
            for row in run.rows
            if row.amplification is not None
        ]
        for run in runs
    ]

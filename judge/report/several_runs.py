"""Several runs together: whether they belong together, and one result of them all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from judge.errors import JudgeError
from judge.measure import Result
from judge.measure.comparing import unlike
from judge.metrics import find_metric
from judge.report.saved_run import SavedRun, name_runs, read_run
from judge.statistics.breakdown import Breakdown
from judge.statistics.summary import Summary
from judge.types import Doubt
from judge.utils.files import resolved

# Said once for all runs of a page, of judged metrics: facts of metrics.json.
_SAID_ONCE = ("attribute", "level", "lexicon")
_SAID_OF_JUDGES = ("protocol", "folds", "seeds")
_ALIKE = "measure both with the same settings"


def read_runs(folders: Sequence[Path]) -> list[SavedRun]:
    """Runs whose names differ.

    Args:
        folders: of finished runs.

    Raises:
        JudgeError: as :func:`~judge.report.saved_run.read_run`; a folder that is named twice.
    """
    check_places(folders)
    return [read_run(folder, name) for folder, name in zip(folders, name_runs(folders), strict=True)]


def join_runs(runs: Sequence[SavedRun]) -> SavedRun:
    """One run of all captioners of several, with every row that one of them has.

    Captioners that share a name are called RUN/CAPTIONER. p-values are corrected, and differences taken, anew; rows
    that do not compare have none, and a note says so.

    Args:
        runs: one or more.

    Raises:
        JudgeError: runs of which no row compares, or that differ in what a page says once for all of them.
    """
    for first, second in combinations(runs, 2):
        for name, one, other in _said(first.result.run, second.result.run):
            if one != other:
                what = f"the runs do not go together: {name} is {_short(one)} in one and {_short(other)} in the other"
                raise JudgeError(what, where=f"{first.name} with {second.name}", mend=_ALIKE)
    joined, notes = put_together(runs)
    if not notes:
        return joined
    told = {**joined.result.run, "input_notes": [*joined.result.run["input_notes"], *map(Doubt, notes)]}
    return replace(joined, result=replace(joined.result, run=told))


def put_together(runs: Sequence[SavedRun]) -> tuple[SavedRun, list[str]]:
    """One run of all captioners of several, and what of them does not compare, a sentence each.

    Args:
        runs: one or more.

    Raises:
        JudgeError: two runs of which no row compares, with what differs.
    """
    if len(runs) == 1:
        return runs[0], []
    apart = name_apart(runs)
    joined = replace(
        runs[0],
        name=", ".join(run.name for run in runs),
        result=_merge(apart),
        texts=tuple(text for run in runs for text in run.texts),
        pictures={image: picture for run in runs for image, picture in run.pictures.items()},
    )
    found = [note for first, second in combinations(apart, 2) for note in _unlike(first, second, joined.result.run)]
    return joined, found


def _unlike(first: SavedRun, second: SavedRun, together: Mapping[str, Any]) -> Iterator[str]:
    """What of two runs does not compare."""
    tables = [[row for row in run.result.summaries if row.amplification is not None] for run in (first, second)]
    pairs = [(one, other) for one in tables[0] for other in tables[1] if one.key[1:] == other.key[1:]]
    where = f"{first.name} with {second.name}"
    if not pairs:
        names = [", ".join(sorted({f"{row.metric.name} ({row.judge})" for row in of})) for of in tables]
        in_one, in_other = (of or "no amplification" for of in names)
        what = f"the runs cannot be compared: {in_one} in one, {in_other} in the other"
        raise JudgeError(what, where=where, mend="measure both by the same metric and judge")
    reasons = {(one.key, other.key): unlike(one, other, together) for one, other in pairs}
    if all(reasons.values()):
        one, other = pairs[0]
        what = f"the runs cannot be compared: {reasons[one.key, other.key]} ({one.title})"
        raise JudgeError(what, where=where, mend="measure both against the same data, with the same settings")
    titles: dict[str, list[str]] = {}
    for one, other in pairs:
        if reason := reasons[one.key, other.key]:
            titles.setdefault(reason, []).append(one.title)
    for reason, rows in titles.items():
        yield f"{', '.join(dict.fromkeys(rows))} of {first.name} and {second.name} do not compare: {reason}."


def _said(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Name, and what it is in one run and in the other."""
    judged = all(any(not find_metric(name).counted for name in of["metrics"]) for of in (one, other))
    for name in (*_SAID_ONCE, *(_SAID_OF_JUDGES if judged else ())):
        yield name, one[name], other[name]
    for name in one["ratios"].keys() & other["ratios"].keys():
        yield f"what {name} compares", one["ratios"][name], other["ratios"][name]


def check_places(folders: Sequence[Path]) -> None:
    """Refuse a folder that is named twice.

    Raises:
        JudgeError: with the second name.
    """
    for first, second in combinations(folders, 2):
        if resolved(first) == resolved(second):
            raise JudgeError("the same run twice", where=str(second), mend="give two folders")


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def name_apart(runs: Sequence[SavedRun]) -> list[SavedRun]:
    """The runs with captioners named apart: RUN/CAPTIONER where several runs have one of the name."""
    names = [set(run.result.run["captioners"]) for run in runs]
    twice = {name for of, other in combinations(names, 2) for name in of & other}
    return [_renamed(run, {name: f"{run.name}/{name}" for name in twice}) for run in runs]


def _renamed(run: SavedRun, names: Mapping[str, str]) -> SavedRun:
    """The run with captioners called by other names, old -> new."""
    held = run.result

    def of_table(table: pd.DataFrame) -> pd.DataFrame:
        return (
            table.assign(captioner=table["captioner"].map(lambda name: names.get(name, name))) if len(table) else table
        )

    def of_row(row: Summary) -> Summary:
        return replace(row, captioner=names.get(row.captioner, row.captioner))

    facts = dict(held.run)
    for part in ("captioners", "human_scores"):
        if part in facts:
            facts[part] = {names.get(name, name): of for name, of in facts[part].items()}
    breakdown = held.breakdown and Breakdown(
        tuple(replace(part, captioner=names.get(part.captioner, part.captioner)) for part in held.breakdown.tasks),
        *(of_table(getattr(held.breakdown, name)) for name in _TABLES),
    )
    result = Result(
        tuple(map(of_row, held.summaries)),
        of_table(held.scores),
        of_table(held.counts),
        of_table(held.replicates),
        facts,
        {names.get(name, name): replace(of, captioner=names.get(name, name)) for name, of in held.quality.items()},
        breakdown,
        of_table(held.examples),
    )
    return replace(run, result=result)


_TABLES = "images", "captions", "words"


def _merge(runs: Sequence[SavedRun]) -> Result:
    """One result of all rows; captioners have different names by now."""
    results = [run.result for run in runs]
    captioners = [name for result in results for name in result.run["captioners"]]
    if len(set(captioners)) < len(captioners):
        raise JudgeError("captioners of the runs cannot be told apart", where=runs[0].name, mend="rename the folders")
    broken = [result.breakdown for result in results if result.breakdown]
    breakdown = Breakdown(
        tuple(part for of in broken for part in of.tasks),
        *(_stack([getattr(of, name) for of in broken]) for name in _TABLES),
    )
    return Result(
        tuple(row for result in results for row in result.summaries),
        _stack([result.scores for result in results]),
        _stack([result.counts for result in results]),
        _stack([result.replicates for result in results]),
        _merge_facts([result.run for result in results]),
        {name: of for result in results for name, of in result.quality.items()},
        breakdown if broken else None,
        _stack([result.examples for result in results]),
    )


def _stack(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    filled = [of for of in tables if len(of)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def _merge_facts(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entry "run" of all: what they share, and of the rest what any of them says."""
    # Protocol, folds and seeds are those of judges.
    judged = (of for of in facts if not all(find_metric(name).counted for name in of["metrics"]))
    found = dict(next(judged, facts[0]))
    for name in ("captioners", "ratios", "refits"):
        found[name] = {key: value for of in facts for key, value in of[name].items()}
    for name in ("judges", "metrics"):
        found[name] = list(dict.fromkeys(part for of in facts for part in of[name]))
    found["input_notes"] = list(dict.fromkeys(note for of in facts for note in of.get("input_notes", ())))
    found["refits_asked"] = max(of["refits_asked"] or 0 for of in facts) or facts[0]["refits_asked"]
    found["labels"] = next((of["labels"] for of in facts if of["labels"]["derived"]), facts[0]["labels"])
    for name in ("prior", "tasks", "sight"):
        if said := [of[name] for of in facts if of.get(name)]:
            found[name] = said[0]
    for of in facts:
        for name in of["captioners"] if of.get("masks") else ():
            found["captioners"][name] = {**of["captioners"][name], "masks": of["masks"]}
    found.pop("masks", None)
    sources = [of["tasks"] for of in facts if of["tasks"] and of["tasks"]["source"]]
    if sources:
        found["tasks"] = sources[0]
    found.pop("human_scores", None)
    if all("human_scores" in of for of in facts):
        found["human_scores"] = {key: value for of in facts for key, value in of["human_scores"].items()}
    return found

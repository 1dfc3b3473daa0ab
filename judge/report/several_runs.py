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
from judge.masking.measured import hide_nobody
from judge.measure import Result
from judge.report.saved_run import SavedRun
from judge.statistics.breakdown import Breakdown
from judge.statistics.summary import Summary
from judge.utils.files import resolved

# What must be the same for two runs to be compared: facts of metrics.json, and all settings of run.yaml but those that
# say where things are (images and labels are compared themselves), what else was measured, or how the work was done.
_SAME = ("attribute", "protocol", "folds", "seeds", "lexicon")
_MAY_DIFFER = {
    "human", "captions", "models", "labels", "objects", "images", "instances", "out", "features", "checkpoints",
    "cache", "id_column", "label_column", "label_values", "object_column", "object_id_column", "columns", "split",
    "where", "label_rule", "own_captions",
    "several", "metrics", "judge", "quality", "human_scores", "chance", "refits", "level", "resamples", "folds",
    "seeds", "seed", "lexicon", "workers", "micro_batch", "caption_batch", "sharing", "trust_weights", "max_pixels",
    "person_categories", "class_names", "allow_unmasked",
}  # fmt: skip
_ALIKE = "measure both with the same settings"


def join_runs(runs: Sequence[SavedRun]) -> SavedRun:
    """One run of all captioners of several, with every row that one of them has.

    Captioners that share a name are called RUN/CAPTIONER. p-values are corrected, and differences taken, anew.

    Args:
        runs: one or more, read whole.

    Raises:
        JudgeError: runs that cannot be compared, with what differs; intervals of other levels.
    """
    for first, second in combinations(runs, 2):
        check_together(first, second)
        levels = [run.result.run["level"] for run in (first, second)]
        if levels[0] != levels[1]:
            raise _unlike(first, second, "level", *levels)
        for name in first.result.run["ratios"].keys() & second.result.run["ratios"].keys():
            classes = [run.result.run["ratios"][name] for run in (first, second)]
            if classes[0] != classes[1]:
                raise _unlike(first, second, f"what {name} compares", *classes)
    if len(runs) == 1:
        return runs[0]
    return replace(
        runs[0],
        name=", ".join(run.name for run in runs),
        result=_merge(name_apart(runs)),
        texts=tuple(text for run in runs for text in run.texts),
        pictures={image: picture for run in runs for image, picture in run.pictures.items()},
    )


def check_places(folders: Sequence[Path]) -> None:
    """Refuse a folder that is named twice.

    Raises:
        JudgeError: with the second name.
    """
    for first, second in combinations(folders, 2):
        if resolved(first) == resolved(second):
            raise JudgeError("the same run twice", where=str(second), mend="give two folders")


def check_together(first: SavedRun, second: SavedRun) -> None:
    """Refuse runs whose numbers do not compare.

    Raises:
        JudgeError: with what differs.
    """
    where = f"{first.name} with {second.name}"
    for name, one, other in _facts(first, second):
        if one != other:
            raise _unlike(first, second, name, one, other)
    tables = first.result.summaries, second.result.summaries
    rows = [{row.key[1:] for row in table if row.amplification is not None} for table in tables]
    if not rows[0] & rows[1]:
        judged = [", ".join(sorted(f"{metric} ({judge})" for metric, judge in of)) or "no amplification" for of in rows]
        what = f"the runs cannot be compared: {judged[0]} in one, {judged[1]} in the other"
        raise JudgeError(what, where=where, mend="measure both by the same metric and judge")
    for metric in sorted({metric for metric, _ in rows[0] & rows[1]}):
        captioners = [of for run in (first, second) for of in run.result.run["captioners"].values()]
        marks = [of["marks"][metric] for of in captioners if metric in of["marks"]]
        unlike = [name for name in marks[0] if len({of.get(name) for of in marks}) > 1]
        if unlike:
            counts = [max(row.images for row in table if row.metric.name == metric) for table in tables]
            images = f"{metric}: {counts[0]:,} and {counts[1]:,} images"
            what = f"the runs cannot be compared: they have other {unlike[0]} ({images})"
            raise JudgeError(what, where=where, mend="measure both captioners against the same data")


def _facts(first: SavedRun, second: SavedRun) -> Iterator[tuple[str, object, object]]:
    """Name, and what it is in one run and in the other."""
    one, other = first.result.run, second.result.run
    for name in _SAME:
        yield name, one.get(name), other.get(name)
    for target in sorted(one["refits"].keys() & other["refits"].keys()):
        yield "refits", one["refits"][target], other["refits"][target]
    for name in sorted((first.settings.keys() | second.settings.keys()) - _MAY_DIFFER):
        yield name, first.settings.get(name), second.settings.get(name)


def _unlike(first: SavedRun, second: SavedRun, name: str, one: object, other: object) -> JudgeError:
    what = f"the runs cannot be compared: {name} is {_short(one)} in one and {_short(other)} in the other"
    return JudgeError(what, where=f"{first.name} with {second.name}", mend=_ALIKE)


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


_TABLES = "images", "captions", "collect", "words"


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
    found = dict(facts[0])
    for name in ("captioners", "ratios", "refits"):
        found[name] = {key: value for of in facts for key, value in of[name].items()}
    found["judges"] = list(dict.fromkeys(judge for of in facts for judge in of["judges"]))
    found["input_notes"] = list(dict.fromkeys(note for of in facts for note in of.get("input_notes", ())))
    found["refits_asked"] = max(of["refits_asked"] or 0 for of in facts) or facts[0]["refits_asked"]
    found["labels"] = next((of["labels"] for of in facts if of["labels"]["derived"]), facts[0]["labels"])
    for name in ("prior", "tasks", "sight"):
        if said := [of[name] for of in facts if of.get(name)]:
            found[name] = said[0]
    if masks := [of["masks"] for of in facts if of.get("masks")]:
        found["masks"] = next((of for of in masks if hide_nobody(of)), masks[0])
    sources = [of["tasks"] for of in facts if of["tasks"] and of["tasks"]["source"]]
    if sources:
        found["tasks"] = sources[0]
    found.pop("human_scores", None)
    if all("human_scores" in of for of in facts):
        found["human_scores"] = {key: value for of in facts for key, value in of["human_scores"].items()}
    return found

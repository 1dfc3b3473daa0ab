"""Several runs together: whether they belong together, and one result of them all."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from judge.errors import JudgeError, shortened
from judge.measure import Result
from judge.measure.comparing import unlike
from judge.metrics import find_metric
from judge.report.saved_run import SavedRun, read_run
from judge.report.table import grouped
from judge.statistics.breakdown import Breakdown
from judge.types import Doubt
from judge.utils.files import resolved

# Facts of metrics.json that a page states once for all runs; the latter for runs with judges.
_COMMON = "attribute", "level", "small", "lexicon"
_COMMON_OF_JUDGES = "protocol", "folds"
_TABLES = ("scores", "counts", "replicates", "examples")
_BROKEN = ("tasks", "images", "captions", "words")


def read_runs(folders: Sequence[Path]) -> list[SavedRun]:
    """Read finished runs; their names differ. A folder that is named twice is refused."""
    for first, second in combinations(folders, 2):
        if resolved(first) == resolved(second):
            raise JudgeError("the same run twice", where=str(second), mend="give two folders")
    return [read_run(folder, name) for folder, name in zip(folders, _name_runs(folders), strict=True)]


def _name_runs(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different."""
    paths = [resolved(folder).parts for folder in folders]
    lengths = range(1, max(map(len, paths)) + 1)
    tried = ([str(Path(*parts[-length:])) for parts in paths] for length in lengths)
    return next((names for names in tried if len(set(names)) == len(names)), [str(folder) for folder in folders])


def join_runs(runs: Sequence[SavedRun]) -> SavedRun:
    """One run of all captioners of several, with every row that one of them has.

    Captioners that share a name are called RUN/CAPTIONER. p-values are corrected, and differences taken, anew; rows
    that do not compare have none, and a note says so.

    Raises:
        JudgeError: runs of which no row compares, or that differ in what a page states once for all of them.
    """
    for first, second in combinations(runs, 2):
        one, other = first.result.run, second.result.run
        judged = _judged(one) and _judged(other)
        common = _COMMON + (_COMMON_OF_JUDGES if judged else ())
        pairs = {name: (one[name], other[name]) for name in common}
        pairs |= {"the first seed": (one["seeds"][0], other["seeds"][0])} if judged else {}
        both = one["ratios"].keys() & other["ratios"].keys()
        pairs |= {f"what {name} compares": (one["ratios"][name], other["ratios"][name]) for name in both}
        for name, (mine, its) in pairs.items():
            if mine != its:
                texts = [shortened(json.dumps(value, ensure_ascii=False), 80) for value in (mine, its)]
                what = f"the runs do not go together: {name} is {texts[0]} in one and {texts[1]} in the other"
                mend = "measure both with the same settings"
                raise JudgeError(what, where=f"{first.name} with {second.name}", mend=mend)
    joined, notes = put_together(runs)
    facts = {**joined.result.run, "input_notes": [*joined.result.run.get("input_notes", ()), *map(Doubt, notes)]}
    return replace(joined, result=replace(joined.result, run=facts))


def put_together(runs: Sequence[SavedRun]) -> tuple[SavedRun, list[str]]:
    """One run of all captioners of several, and a sentence for each metric that does not compare; one must."""
    if len(runs) == 1:
        return runs[0], []
    apart = name_apart(runs)
    joined = replace(
        runs[0],
        name=", ".join(run.name for run in runs),
        result=_merge([run.result for run in apart]),
        texts=tuple(text for run in runs for text in run.texts),
        pictures={image: data for run in runs for image, data in run.pictures.items()},
    )
    found = [note for first, second in combinations(apart, 2) for note in _unlike(first, second, joined.result.run)]
    return joined, found


def _unlike(first: SavedRun, second: SavedRun, together: Mapping[str, Any]) -> Iterator[str]:
    """Notes on rows of two runs that do not compare."""
    tables = [[row for row in run.result.summaries if row.amplification is not None] for run in (first, second)]
    reasons = {
        (one, other): unlike(one, other, together)
        for one in tables[0]
        for other in tables[1]
        if one.key[1:] == other.key[1:]
    }
    where = f"{first.name} with {second.name}"
    if not reasons:
        names = [", ".join(sorted({f"{row.metric.name} ({row.judge})" for row in of})) for of in tables]
        in_one, in_other = (of or "no amplification" for of in names)
        what = f"the runs cannot be compared: {in_one} in one, {in_other} in the other"
        raise JudgeError(what, where=where, mend="measure both by the same metric and judge")
    if all(reasons.values()):
        (one, _), reason = next(iter(reasons.items()))
        mend = "measure both against the same data, with the same settings"
        raise JudgeError(f"the runs cannot be compared: {reason} ({one.title})", where=where, mend=mend)
    for reason, titles in grouped((reason, one.title) for (one, _), reason in reasons.items() if reason).items():
        yield f"{', '.join(dict.fromkeys(titles))} of {first.name} and {second.name} do not compare: {reason}."


def _judged(facts: Mapping[str, Any]) -> bool:
    return any(not (metric.counted or metric.given) for metric in map(find_metric, facts["metrics"]))


def name_apart(runs: Sequence[SavedRun]) -> list[SavedRun]:
    """The runs with captioners named apart: RUN/CAPTIONER where several runs have one of the name."""
    runs_of = Counter(name for run in runs for name in run.result.run["captioners"])
    found = []
    for run in runs:
        own = run.result.run["captioners"]
        names = {name: f"{run.name}/{name}" if runs_of[name] > 1 else name for name in own}
        found.append(replace(run, result=_renamed(run.result, names)))
    return found


def _renamed(result: Result, names: Mapping[str, str]) -> Result:
    """The result of captioners that are called by their new names; ``names``: old -> new."""

    def named(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(captioner=table["captioner"].map(names)) if len(table) else table

    facts = dict(result.run)
    for part in {"captioners", "human_scores"} & facts.keys():
        facts[part] = {names[name]: of for name, of in facts[part].items() if name in names}
    breakdown = result.breakdown
    return replace(
        result,
        summaries=tuple(replace(row, captioner=names[row.captioner]) for row in result.summaries),
        run=facts,
        quality={names[name]: replace(of, captioner=names[name]) for name, of in result.quality.items()},
        breakdown=breakdown and Breakdown(**{name: named(getattr(breakdown, name)) for name in _BROKEN}),
        **{name: named(getattr(result, name)) for name in _TABLES},
    )


def _merge(results: Sequence[Result]) -> Result:
    broken = [result.breakdown for result in results if result.breakdown]
    return Result(
        summaries=tuple(row for result in results for row in result.summaries),
        run=_merge_facts([result.run for result in results]),
        quality={name: of for result in results for name, of in result.quality.items()},
        breakdown=Breakdown(**{name: _stack(broken, name) for name in _BROKEN}) if broken else None,
        **{name: _stack(results, name) for name in _TABLES},
    )


def _stack(parts: Sequence[object], name: str) -> pd.DataFrame:
    tables: list[pd.DataFrame] = [getattr(part, name) for part in parts]
    # Where all are empty, one keeps the columns.
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def _merge_facts(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entry "run" of all: what they share, and of the rest what any of them holds."""
    # Protocol, folds and seeds are those of judges.
    found = dict(next((of for of in facts if _judged(of)), facts[0]))
    for name in ("captioners", "ratios"):
        found[name] = {key: value for of in facts for key, value in of[name].items()}
    kinds = dict.fromkeys(kind for of in facts for kind in of["refits"])
    found["refits"] = {kind: max(of["refits"].get(kind, 0) for of in facts) for kind in kinds}
    for name in ("judges", "metrics"):
        found[name] = list(dict.fromkeys(part for of in facts for part in of[name]))
    found["input_notes"] = list(dict.fromkeys(note for of in facts for note in of.get("input_notes", ())))
    found["refits_asked"] = max(of["refits_asked"] or 0 for of in facts) or facts[0]["refits_asked"]
    found["labels"] = next((of["labels"] for of in facts if of["labels"]["derived"]), facts[0]["labels"])
    for name in ("tasks", "sight"):
        # A run without tasks of its own has the source "".
        known = [of[name] for of in facts if of.get(name) and (name != "tasks" or of[name]["source"])]
        found |= {name: known[0]} if known else {}
    for of in facts:
        for name in of["captioners"] if of["masks"] else ():
            found["captioners"][name] = {**of["captioners"][name], "masks": of["masks"]}
    scores = [of.get("human_scores", {}) for of in facts]
    found = {name: value for name, value in found.items() if name not in {"human_scores", "baseline"}}
    found["masks"] = None
    if all(scores):
        found["human_scores"] = {key: value for of in scores for key, value in of.items()}
    return found

"""Files of a run's folder as what they were written from: rows of the table, caption quality, the breakdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Literal, TypeVar, get_args

import pandas as pd

from judge.errors import JudgeError
from judge.metrics import find_metric
from judge.quality import Gap, GroupScore, Quality
from judge.report.directory import SCORING
from judge.report.saved_files import Unreadable
from judge.statistics.breakdown import TaskPart
from judge.statistics.summary import ROW, Basis, Replicates, Summary
from judge.types import Interval

Record = Mapping[str, Any]
T = TypeVar("T")

# What every line of the table has had since there are folders of runs; the others are there where they have a value.
_ALWAYS = (*ROW, "human", "generated", "amplification", "sd", "ci", "p_value", "images", "seeds", "basis")
_NUMBERS = (
    *("human", "generated", "amplification", "sd", "p_value", "chance_level", "published", "standard_error"),
    *("critical", "human_error"),
)
_COUNTS = "images", "seeds", "degrees"
_PAIRS = "qualities", "priors", "chance"
_SPELT = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def read_summaries(rows: object, replicates: pd.DataFrame, level: float) -> tuple[Summary, ...]:
    """The table of ``metrics.json`` as it was before it was written.

    Args:
        rows: its entry "results".
        replicates: the rows of ``replicates.parquet``.
        level: of its intervals.

    Raises:
        Unreadable: a field that lacks, or is of another kind; the same row twice; a metric that is not known.
    """
    parts = dict(iter(replicates.groupby(ROW, observed=True))) if len(replicates) else {}
    found: dict[tuple[str, str, str], Summary] = {}
    for number, row in enumerate(_list(rows, "results")):
        name = f"results[{number}]"
        for field in _ALWAYS:
            if field not in _mapping(row, name):
                raise Unreadable(f"{name} has no '{field}'")
        key = tuple(_text(row[field], f"{name}, '{field}'") for field in ROW)
        summary = _summary(row, parts.get(key), level)
        if summary.key in found:
            raise Unreadable(f"{_of(row)} stands there twice")
        found[summary.key] = summary
    return tuple(found.values())


def _of(row: Record) -> str:
    return f"{row['captioner']}, {row['metric']} ({row['judge']})"


def _summary(row: Record, replicates: pd.DataFrame | None, level: float) -> Summary:
    name = _of(row)
    row = _with_odd(row, name)
    try:
        metric = find_metric(row["metric"])
    except JudgeError as error:
        raise Unreadable(f"{name}: {error.what}") from error
    basis = row["basis"]
    if basis is not None and basis not in get_args(Basis):
        raise Unreadable(f"{name}, 'basis' is {_short(basis)}")
    numbers: dict[str, Any] = {field: _maybe(number_of, row.get(field), f"{name}, '{field}'") for field in _NUMBERS}
    counts: dict[str, Any] = {field: _count(row.get(field, 0), f"{name}, '{field}'") for field in _COUNTS}
    pairs: dict[str, Any] = {field: _maybe(_pair, row.get(field), f"{name}, '{field}'") for field in _PAIRS}
    return Summary(
        row["captioner"],
        metric,
        row["judge"],
        **numbers | counts | pairs,
        interval=_interval(row["ci"], level, f"{name}, 'ci'"),
        these_judges=_interval(row.get("ci_these_judges"), level, f"{name}, 'ci_these_judges'"),
        basis=basis,
        replicates=_replicates(row, replicates, name),
    )


def _with_odd(row: Record, name: str) -> Record:
    """With the numbers that JSON does not have: "not_finite" spells them."""
    odd = _mapping(row.get("not_finite", {}), f"{name}, 'not_finite'")
    if unknown := odd.keys() - {*_NUMBERS, *_PAIRS, "ci", "ci_these_judges"}:
        raise Unreadable(f"{name}, 'not_finite' holds {_short(min(unknown))}")
    return {**row, **{field: _unspell(value) for field, value in odd.items()}}


def _unspell(value: object) -> object:
    if isinstance(value, list):
        return list(map(_unspell, value))
    return _SPELT.get(value, value) if isinstance(value, str) else value


def _replicates(row: Record, rows: pd.DataFrame | None, name: str) -> Replicates | None:
    """The values that differences between captioners are made of."""
    if row.get("replicates") is None:
        return None
    how = _mapping(row["replicates"], f"{name}, 'replicates'")
    scales = {field: number_of(how.get(field), f"{name}, 'replicates', '{field}'") for field in ("ratio", "scale")}
    kind: Literal["half", "split"] = "split" if row["basis"] == "splits" else "half"
    mine = pd.DataFrame() if rows is None else rows[rows["kind"] == kind].sort_values("number")
    if not len(mine):
        raise Unreadable(f"replicates.parquet lacks the rows of {name}")
    return Replicates(kind, tuple(mine["amplification"].astype(float).tolist()), **scales)


def read_quality(rows: object, scoring: object, level: float) -> dict[str, Quality]:
    """Caption quality by captioner, but for the values of single images, which no file holds.

    Args:
        rows: the entry "quality" of ``metrics.json``.
        scoring: its entry "scoring".
        level: of the intervals.

    Raises:
        Unreadable: a field that lacks, or is of another kind.
    """
    how = _mapping(scoring, "scoring")
    by_captioner: dict[str, list[Record]] = {name: [] for name in how}
    for number, row in enumerate(_list(rows, "quality")):
        name = _text(_mapping(row, f"quality[{number}]").get("captioner"), f"quality[{number}], 'captioner'")
        if name not in by_captioner:
            raise Unreadable(f"quality[{number}] is of '{name}', whom 'scoring' does not know")
        by_captioner[name].append(row)
    return {name: _quality(name, of, how[name], level) for name, of in by_captioner.items()}


def _quality(name: str, rows: Sequence[Record], scoring: object, level: float) -> Quality:
    where = f"quality of {name}"
    how = _mapping(scoring, where)
    if lacking := [field for field in SCORING if field not in how]:
        raise Unreadable(f"{where} has no '{lacking[0]}'")
    groups: list[GroupScore] = []
    gaps: list[Gap] = []
    by_score: dict[str, list[Record]] = {}
    for row in rows:
        by_score.setdefault(_text(row.get("score"), f"{where}, 'score'"), []).append(row)
    for row in rows:
        score, group = row["score"], _text(row.get("group"), f"{where}, 'group'")
        value = row.get("value")
        known = math.nan if value is None else number_of(value, f"{where}, {score}, '{group}'")
        bounds = [row.get("low"), row.get("high")]
        interval = None if bounds == [None, None] else _interval(bounds, level, f"{where}, {score}, '{group}'")
        mine = by_score[score]
        if row is mine[-1] and len(mine) > 1 and (pair := _gap_of(group, mine[1:-1])):
            gaps.append(Gap(score, *pair, known, interval))
            continue
        images = _count(row.get("images"), f"{where}, {score}, 'images'")
        groups.append(GroupScore(score, None if row is mine[0] else group, images, known, interval))
    return Quality(name, images=(), by_image={}, groups=tuple(groups), gaps=tuple(gaps), **_scoring(how, where))


def _gap_of(name: str, classes: Sequence[Record]) -> tuple[str, str] | None:
    """The best class and the worst, of "gap: best - worst"."""
    pairs = permutations([str(row["group"]) for row in classes], 2)
    return next(((best, worst) for best, worst in pairs if name == f"gap: {best} - {worst}"), None)


def _scoring(how: Record, where: str) -> dict[str, Any]:
    found = {field: how[field] for field in SCORING}
    for field, read in (("skipped", _text), ("vocabulary", _count), ("mean_length", number_of)):
        found[field] = {
            key: read(value, f"{where}, '{field}'")
            for key, value in _mapping(how[field], f"{where}, '{field}'").items()
        }
    for field in ("further", "unscored"):
        _count(how[field], f"{where}, '{field}'")
    _text(how["tokenizer"], f"{where}, 'tokenizer'")
    return found


def read_tasks(rows: pd.DataFrame, level: float) -> tuple[TaskPart, ...]:
    """The rows of ``breakdown/tasks.csv``."""
    return tuple(_tasks(rows, level))


def _tasks(rows: pd.DataFrame, level: float) -> Iterator[TaskPart]:
    for row in rows.to_dict("records"):
        values: dict[str, Any] = {str(name): None if _absent(value) else value for name, value in row.items()}
        low, high = values.pop("low"), values.pop("high")
        values |= {side: int(values[side] or 0) for side in ("human", "generated")}
        yield TaskPart(**values, interval=None if low is None else Interval(float(low), float(high or 0.0), level))


def _absent(value: object) -> bool:
    return value == "" or bool(pd.isna(value))  # type: ignore[call-overload]  # Of a cell.


def number_of(value: object, name: str) -> float:
    """A number as Python reads one of JSON.

    Raises:
        Unreadable: anything else, or a number too large to count with.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{name} is {_short(value)}, not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise Unreadable(f"{name} is a number of {len(str(abs(value))):,} digits") from error


def _maybe(read: Callable[[object, str], T], value: object, name: str) -> T | None:
    return None if value is None else read(value, name)


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise Unreadable(f"{name} is {_short(value)}, not a count")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"{name} is {_short(value)}, not a text")
    return value


def _pair(value: object, name: str) -> tuple[float, float]:
    parts = _list(value, name)
    if len(parts) != 2:
        raise Unreadable(f"{name} is {_short(value)}, not two numbers")
    return number_of(parts[0], name), number_of(parts[1], name)


def _interval(value: object, level: float, name: str) -> Interval | None:
    if value is None:
        return None
    low, high = _pair(value, name)
    if low > high:
        raise Unreadable(f"{name} begins at {low:g} and ends at {high:g}")
    return Interval(low, high, level)


def _mapping(value: object, name: str) -> Record:
    if not isinstance(value, dict):
        raise Unreadable(f"{name} is {_short(value)}, not an object")
    return value


def _list(value: object, name: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise Unreadable(f"{name} is {_short(value)}, not a list")
    return value


def _short(value: object) -> str:
    text = ascii(value) if not isinstance(value, int) or abs(value) < 2**64 else "a huge number"
    return text if len(text) <= 40 else f"{text[:37]}..."

"""Whether a run's files agree: the numbers of its table made again from what judges answered and captions say.

Made again are all values, and intervals and tests from judges trained again or from splits: they are arithmetic on
``scores.parquet``, ``counts.parquet`` and ``replicates.parquet``. Those that need thousands of random draws (bootstrap,
exchanged captions) are not; what follows from them by arithmetic is. So are corrected p, verdicts, differences between
captioners and agreement of judges made again from the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from judge.errors import FAULTS, JudgeError
from judge.measure import Plan, Result
from judge.metrics import Metric
from judge.report.breakdown import FOLDER
from judge.report.directory import METRICS, QUALITY, REPLICATES, metrics_json
from judge.report.result import tables_of
from judge.report.saved_examples import check_examples
from judge.report.saved_files import Unreadable
from judge.report.saved_run import AGAIN, SavedRun, refuse
from judge.statistics.count_tables import choose_classes, counted_rows
from judge.statistics.counted import count_row
from judge.statistics.inference import t_interval
from judge.statistics.summary import ROW, JudgedRow, Settings, Summary
from judge.types import Interval
from judge.utils.cells import read_guarded
from judge.utils.opening import read_text

# Sums in another order, on another machine, differ by less.
_RELATIVE, _ABSOLUTE, _SUMS = 1e-6, 1e-9, 1e-7
_SIDES = {"human", "generated"}
# Columns of a row that its draws, or other files, hold.
_FROM_DRAWS = {"captioner", "metric", "judge", "these_judges", "replicates"}
_FROM_PARTS = {"interval", "p_value", "basis", "standard_error", "degrees", "critical", "human_error", "chance_level"}


class Mismatch(NamedTuple):
    """What is said twice, and not alike."""

    file: str
    row: str
    column: str
    made: object
    written: object


def check_run(saved: SavedRun) -> None:
    """Refuse a run whose files contradict each other.

    Args:
        saved: a run's folder, read whole; not several that were joined.

    Raises:
        JudgeError: with the row and the column, what one file gives and what the other says; rows that a file lacks;
            NaN where there must be a number.
    """
    try:
        found = next(_mismatches(saved), None)
    except JudgeError as error:
        raise refuse(saved.folder, error.what, AGAIN) from error
    except Unreadable as error:
        raise refuse(saved.folder, str(error), AGAIN) from error
    except FAULTS as error:
        raise refuse(saved.folder, "its files are not those of a finished run") from error
    if found is None:
        return
    what = f"{found.file} gives {_short(found.made)}, {METRICS} says {_short(found.written)}"
    if found.written is _NOTHING:
        what = f"{found.file} has this row, {METRICS} has not"
    elif found.made is _NOTHING:
        what = f"{METRICS} has this row, {found.file} has not"
    where = ", ".join(part for part in (f"{saved.folder / METRICS}: {found.row}", found.column) if part)
    raise JudgeError(what, where=where, mend=AGAIN)


_NOTHING = object()


def _mismatches(saved: SavedRun) -> Iterator[Mismatch]:
    result = saved.result
    _check_answers(result.scores)
    yield from _judged(result, _settings(saved))
    yield from _counted(result)
    yield from _parts(result)
    yield from _derived(saved)
    yield from _breakdown(result)
    check_examples(result.examples, {row.key for row in result.summaries})


def _settings(saved: SavedRun) -> Settings:
    """How the rows of a run were summarised."""
    run = saved.result.run
    plan = Plan(protocol=run["protocol"], folds=run["folds"] or 2, seeds=len(run["seeds"]), first_seed=run["seeds"][0])
    judged = {row.metric for row in saved.result.summaries if not row.metric.counted}
    ratios = {metric.name: plan.ratio(metric) for metric in judged}
    return Settings(level=run["level"], seed=plan.first_seed, prior=run["prior"] or "joint", ratios=ratios)


def _check_answers(scores: pd.DataFrame) -> None:
    """Refuse what no judge answers."""
    if not len(scores):
        return
    asked = scores["seed"] >= 0
    probability = scores["probability"]
    wrong = {
        "side": ~scores["side"].isin(_SIDES),
        "probability": asked != probability.between(0, 1),
        "loss": asked != scores["loss"].notna(),
    }
    for column, rows in wrong.items():
        if rows.any():
            row = scores[rows].iloc[0]
            name = f"{row['captioner']}, {row['metric']} ({row['judge']}), image {row['image_id']}"
            raise JudgeError(f"scores.parquet: {name}: '{column}' is {row[column]}")


def _judged(result: Result, settings: Settings) -> Iterator[Mismatch]:
    """Rows that judges answered, from their answers."""
    written = {row.key: row for row in result.summaries if not row.metric.counted}
    known = dict(iter(result.replicates.groupby(ROW, observed=True))) if len(result.replicates) else {}
    groups = result.scores.groupby(ROW, sort=False, observed=True) if len(result.scores) else ()
    found = {tuple(map(str, key)): rows for key, rows in groups}
    yield from _unknown("scores.parquet", found, written)
    for key, line in written.items():
        refits = known.get(key, pd.DataFrame())
        row = JudgedRow(line.metric, found[key], settings)
        made = row.plain(refits)
        value = made.amplification
        skipped = _FROM_DRAWS | _FROM_PARTS
        # Of judges that are asked as they are the interval is from images, by draws.
        if line.basis != "images" and value is not None and math.isfinite(value):
            trained = row.trained(made, value, refits)
            # With neither refits nor splits the interval is from draws.
            alone = replace(made, basis="these judges" if line.these_judges else None, interval=line.interval)
            made, skipped = trained or alone, _FROM_DRAWS if trained else _FROM_DRAWS | {"human_error"}
        yield from _fields("scores.parquet", made, line, skipped)
        if made.replicates and line.replicates and not _alike(made.replicates.values, line.replicates.values):
            name = f"{line.captioner}, {line.title}"
            raise JudgeError(f"{REPLICATES}.parquet: {name}: scores.parquet gives other values of the splits")


def _counted(result: Result) -> Iterator[Mismatch]:
    """Rows that are counted, from what captions say."""
    written = {row.key: row for row in result.summaries if row.metric.counted}
    metrics: dict[str, Metric] = {row.metric.name: row.metric for row in written.values()}
    groups = result.counts.groupby("captioner", sort=False, observed=True) if len(result.counts) else ()
    of_captioner = {str(captioner): rows for captioner, rows in groups}
    found = {(captioner, name, metric.judge): None for captioner in of_captioner for name, metric in metrics.items()}
    yield from _unknown("counts.parquet", found, written)
    for line in written.values():
        assert line.metric.counted is not None
        counted = choose_classes(line.metric.counted, result.counts)
        made = count_row(line.captioner, line.metric, counted, counted_rows(of_captioner[line.captioner], counted))
        yield from _fields("counts.parquet", made, line, {*_FROM_DRAWS, *_FROM_PARTS, "amplification"})
        if line.published is not None and line.chance_level is not None:
            excess = replace(line, amplification=line.published - line.chance_level)
            yield from _fields(f"{METRICS}, published less chance_level,", excess, line, set())
        elif line.amplification is not None:
            yield Mismatch("counts.parquet", line.title, "amplification", None, line.amplification)


def _unknown(file: str, found: Mapping[Any, object], written: Mapping[Any, Summary]) -> Iterator[Mismatch]:
    """Rows that one has and the other lacks."""
    for captioner, metric, judge in written.keys() - found.keys():
        yield Mismatch(file, f"{captioner}, {metric} ({judge})", "", _NOTHING, None)
    for captioner, metric, judge in found.keys() - written.keys():
        yield Mismatch(file, f"{captioner}, {metric} ({judge})", "", None, _NOTHING)


def _fields(file: str, made: Summary, written: Summary, skipped: set[str]) -> Iterator[Mismatch]:
    for field in fields(Summary):
        one, other = getattr(made, field.name), getattr(written, field.name)
        if field.name not in skipped and not _alike(one, other):
            column = "ci" if field.name == "interval" else field.name
            yield Mismatch(file, f"{written.captioner}, {written.title}", column, one, other)


def _parts(result: Result) -> Iterator[Mismatch]:
    """Intervals and errors, where they are symmetric, from each other; and that replicates give the errors."""
    level = result.run["level"]
    for row in result.summaries:
        if row.standard_error is None or row.amplification is None:
            continue
        name = f"{row.captioner}, {row.title}"
        if row.interval and (row.metric.counted or row.basis in {"refits", "splits"}):
            made = t_interval(row.amplification, row.standard_error, row.degrees, level)
            if not _alike(made, row.interval):
                yield Mismatch("the standard error", name, "ci", made, row.interval)
        if row.replicates:
            error = row.replicates.error(row.replicates.values)
            # Parts that do not vary keep their own scale.
            if error and not _alike(error, row.standard_error):
                yield Mismatch(f"{REPLICATES}.parquet", name, "standard_error", error, row.standard_error)


def _derived(saved: SavedRun) -> Iterator[Mismatch]:
    """What follows from the table: corrected p, verdicts, differences, agreement of judges."""
    document = json.loads(read_text(saved.folder / METRICS))
    made = json.loads(metrics_json(saved.result))
    for table in tables_of(saved.result):
        table.shown()  # What cannot be shown is found here, not on the page.
    for entry in ("results", "differences", "quality"):
        one, other = made.get(entry, []), document.get(entry, [])
        if len(one) != len(other):
            yield Mismatch("the table", entry, "", f"{len(one)} rows", f"{len(other)} rows")
        for mine, row in zip(one, other, strict=True):
            yield from _entries(_name(mine), mine, row)
    for part, rows in made.get("consistency", {}).items():
        for mine, row in zip(rows, document["consistency"][part], strict=True):
            yield from _entries(f"consistency, {part}", mine, row)
    if saved.result.quality:
        yield from _quality(saved)


def _entries(name: str, made: Mapping[str, Any], written: Mapping[str, Any]) -> Iterator[Mismatch]:
    for column in {**made, **written}:
        if not _alike(made.get(column), written.get(column)):
            yield Mismatch("the table", name, column, made.get(column), written.get(column))


def _name(row: Mapping[str, Any]) -> str:
    if "score" in row:
        return f"{row['captioner']}, {row['score']}, {row['group']}"
    who = row["captioner"] if "captioner" in row else f"{row['first']} - {row['second']}"
    return f"{who}, {row['metric']} ({row['judge']})"


def _quality(saved: SavedRun) -> Iterator[Mismatch]:
    """``quality.csv`` says the same."""
    texts: dict[Any, Any] = dict.fromkeys(("captioner", "score", "group"), str)
    rows = read_guarded(pd.read_csv(saved.folder / QUALITY, dtype=texts))
    table = pd.concat([of.table() for of in saved.result.quality.values()], ignore_index=True)
    if len(rows) != len(table):
        yield Mismatch(QUALITY, "quality", "", f"{len(rows)} rows", f"{len(table)} rows")
    for made, written in zip(rows.to_dict("records"), table.to_dict("records"), strict=True):
        for column, value in written.items():
            if not _alike(made[column], value):
                name = f"{written['captioner']}, {written['score']}, {written['group']}"
                yield Mismatch(QUALITY, name, str(column), made[column], value)


def _breakdown(result: Result) -> Iterator[Mismatch]:
    """Contributions of tasks, and of images to judged metrics, add up to how far the value is from neutral."""
    if result.breakdown is None:
        return
    parts = [[part.captioner, part.metric, part.judge, part.contribution] for part in result.breakdown.tasks]
    tables = {
        f"{FOLDER}/tasks.csv": pd.DataFrame(parts, columns=[*ROW, "contribution"]),
        f"{FOLDER}/images.parquet": result.breakdown.images,
    }
    rows = {row.key: row for row in result.summaries}
    for file, table in tables.items():
        for key, made in table.groupby(ROW, observed=True)["contribution"].sum().items():
            row = rows.get(key)  # type: ignore[call-overload]  # Names, as of any row.
            if row is None:
                yield Mismatch(file, "{}, {} ({})".format(*key), "", None, _NOTHING)  # type: ignore[misc]
            elif row.amplification is not None and not (row.metric.counted and "images" in file):
                written = row.amplification - row.metric.neutral
                if not math.isclose(made, written, rel_tol=_RELATIVE, abs_tol=_SUMS):
                    yield Mismatch(file, f"{row.captioner}, {row.title}", "sum of contributions", float(made), written)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Interval) and isinstance(other, Interval):
        one, other = [one.low, one.high], [other.low, other.high]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, bool) or isinstance(other, bool):
        return bool(one is other)
    if isinstance(one, int | float | np.number) and isinstance(other, int | float | np.number):
        return (np.isnan(one) and np.isnan(other)) or math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(one == other)


def _short(value: object) -> str:
    if isinstance(value, Interval):
        return f"[{value.low:.6g}, {value.high:.6g}]"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return "nothing" if value is None else str(value)[:80]

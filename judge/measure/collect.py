"""What images to collect next, measured: judges trained again on weighed images (:mod:`judge.statistics.collect`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from judge.evidence import Evidence, Resample
from judge.measure.answers import Sums, answer_sums
from judge.measure.jobs import Work, compares, jobs_of
from judge.measure.plan import Plan
from judge.measure.refits import COLUMNS as REPLICATES
from judge.measure.refits import Jobs, chosen_settings, values_of
from judge.statistics.collect import COLUMNS, cells_of
from judge.statistics.comparisons import holm
from judge.statistics.inference import from_splits
from judge.statistics.summary import ROW
from judge.training.members import train_members
from judge.training.setup import TrainingSetup
from judge.types import Progress, TargetKind

MEASURED: dict[TargetKind, int] = {"attribute": 5, "tasks": 2}
"""Cells of each metric for which judges are trained again, those that would lower it most; tasks take longer."""
_CELL = COLUMNS[:3]
_MEASURED = ["measured", "low", "high", "p_value"]
_UNKNOWN = (math.nan,) * len(_MEASURED)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """All judges of some metrics, trained again as if there were more images of a cell; None of images as they are."""

    cell: tuple[object, ...] | None
    jobs: Jobs


def measure_cells(
    table: pd.DataFrame,
    work: Work,
    notes: Sequence[Mapping[str, float]],
    plan: Plan,
    setup: TrainingSetup,
    *,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """What weighing images changes when judges learn from them too.

    Args:
        table: of :func:`~judge.statistics.collect.estimate`.
        work: of the run.
        notes: what each judge chose.
        plan: what to measure.
        setup: how judges are trained.
        progress: called with the progress.

    Returns:
        ``table`` with the columns measured, low, high, p_value and p_holm (corrected for the cells of a row): of the
        change where judges that train in seconds are trained again, for the first ``MEASURED`` cells of each metric,
        from differences within splits. Of counted metrics measured is what was estimated. Of each metric the cells that
        were measured come first, by that.
    """
    again = list(_lay_out(work, notes, table, plan))
    members = [job.member for one in again for job in one.jobs]

    def tell(what: str, done: int, total: int) -> None:
        if progress:
            progress(f"images to collect: {what}", done, total)

    found = iter(train_members(members, setup, then=answer_sums, progress=tell))
    before: dict[tuple[object, ...], list[dict[str, float]]] = {}
    rows: dict[tuple[object, ...], tuple[float | None, ...]] = {}
    for one in again:
        job = one.jobs[0]
        parts = _values(one.jobs, list(islice(found, len(one.jobs))), plan)
        key = job.evidence.captioner, job.judge, tuple(metric.name for metric in job.metrics)
        if one.cell is None:
            before[key] = parts
            continue
        for metric in job.metrics:
            pairs = zip(parts, before[key], strict=True)
            whole, *splits = (after[metric.name] - plain[metric.name] for after, plain in pairs)
            known = from_splits(whole, splits, ratio=plan.ratio(metric), level=plan.level)
            bounds = (known.interval.low, known.interval.high, known.p_value) if known else _UNKNOWN[1:]
            rows[job.evidence.captioner, metric.name, job.judge, *one.cell] = whole, *bounds
    keys = table[[*ROW, *_CELL]].itertuples(index=False, name=None)
    for name, column in zip(
        _MEASURED, np.array([rows.get(key, _UNKNOWN) for key in keys]).reshape(-1, 4).T, strict=True
    ):
        table[name] = column
    of_row = table.groupby(ROW, sort=False, observed=True)["p_value"]
    table["p_holm"] = of_row.transform(lambda column: holm([None if np.isnan(p) else p for p in column]))
    counted = table["metric"].isin([metric.name for metric in work.metrics if metric.counted])
    table = table.assign(measured=table["measured"].where(~counted, table["change"]))
    # What was measured comes first: of judges, the change alone is a rough guide.
    order = table.groupby(ROW, sort=False, observed=True).ngroup()
    return table.assign(order=order).sort_values(["order", "measured"], ignore_index=True).drop(columns="order")


def _lay_out(work: Work, notes: Sequence[Mapping[str, float]], table: pd.DataFrame, plan: Plan) -> Iterator[_Weighed]:
    """The judges of each captioner, of images as they are and weighed for each cell that is to be measured."""
    assert work.said is not None
    for job, settings in chosen_settings(work.jobs, notes):
        if job.member.judge.joint is None or not compares(job.metrics):
            continue
        captioner = job.evidence.captioner
        mine = table[(table["captioner"] == captioner) & (table["judge"] == job.judge)]
        names = [metric.name for metric in job.metrics]
        lower = mine[mine["metric"].isin(names) & (mine["change"] < 0)]
        first = lower.groupby("metric", sort=False).head(MEASURED[job.evidence.target.kind])
        shown = work.said[(work.said["captioner"] == captioner) & (work.said["side"] == "annotated")]
        cells, weights = cells_of(shown)
        places = {(cell.name, cell.task, cell.shows): place for place, cell in enumerate(cells)}
        wanted = list(dict.fromkeys(first[_CELL].itertuples(index=False, name=None)))
        for number, cell in enumerate([None, *wanted] if wanted else []):
            own = {} if cell is None else dict(zip(shown["image_id"], weights[:, places[cell]].tolist(), strict=True))
            evidence = Evidence(job.evidence.sides, Resample("weighted", number, plan.first_seed, own))
            yield _Weighed(cell, tuple(jobs_of(evidence, job.metrics, job.judge, plan, settings)))
            evidence.release()


def _values(jobs: Jobs, found: Sequence[tuple[Sums, float]], plan: Plan) -> list[dict[str, float]]:
    """Metric -> value, of all judges, and of those of each split."""
    splits: dict[object, list[int]] = {}
    for place, job in enumerate(jobs):
        splits.setdefault((job.member.seed, job.member.split.fold), []).append(place)
    parts = [range(len(jobs)), *splits.values()]
    # Priors of a split are of its own captions, as where splits tell how sure a value is.
    images = [None, *(set(jobs[of[0]].member.split.test) for of in splits.values())]
    rows = [
        values_of(tuple(jobs[i] for i in of), [found[i] for i in of], plan, own)
        for of, own in zip(parts, images, strict=True)
    ]
    place = REPLICATES.index("amplification")
    return [{str(row[1]): float(str(row[place])) for row in of} for of in rows]

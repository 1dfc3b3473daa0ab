"""counts.parquet -> the table: counted metrics, their intervals and tests. No judge is asked.

Images count equally on each side, whatever the number of their captions; where all have as many, this is the papers'
plain count. Intervals are bootstraps over images under the pairs, signs and guesses of the data as they are: a resample
that chose its own would prefer them. p exchanges the sides image by image, and chooses anew each time, for then both
sides have the same chance to be preferred.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from judge.counting import freeze
from judge.metrics import Metric, find_metric, spell_out
from judge.statistics.intervals import bootstrap_pooled, permutation_pooled
from judge.statistics.said import ImageTables, image_tables, named_most_and_least
from judge.statistics.summary import Summary
from judge.types import FloatArray, Interval


def summarise_counts(
    counts: pd.DataFrame, metrics: Iterable[str], *, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> list[Summary]:
    """One :class:`Summary` per captioner of ``counts`` and counted row of ``metrics``, captioner by captioner.

    Args:
        counts: the columns of ``counts.parquet`` (``judge.tally``).
        metrics: names of rows; those that ask a judge are passed over.
        resamples: of the bootstrap and of the permutation test.
        level: of the intervals.
        seed: of the generators; every row has its own, so rows do not depend on each other.

    Raises:
        JudgeError: Ratio of a class that no image has.
    """
    asked = [metric for metric in map(find_metric, spell_out(metrics)) if metric.counted]
    if not asked:
        return []
    found = []
    for captioner, rows in counts.groupby("captioner", sort=False, observed=True):
        for metric in asked:
            first, second = ratio_classes(counts, metric)
            tables = image_tables(rows, metric, first=first, second=second)
            generator = np.random.default_rng([seed, *map(ord, f"{captioner}/{metric.name}")])
            found.append(
                _summarise(str(captioner), metric, tables, generator=generator, resamples=resamples, level=level)
            )
    return found


def ratio_classes(counts: pd.DataFrame, metric: Metric) -> tuple[str, str]:
    """Ratio's class above and class below: its variant's, or those that people name most and least, of all rows."""
    assert metric.counted is not None
    if metric.counted.kind == "ratio" and metric.counted.variant.first:
        return metric.counted.variant.first, metric.counted.variant.second
    return named_most_and_least(counts)


def _summarise(
    captioner: str,
    metric: Metric,
    tables: ImageTables,
    *,
    generator: np.random.Generator,
    resamples: int,
    level: float,
) -> Summary:
    from scipy.sparse import csr_array, hstack

    counting, read = metric.counted, tables.read
    assert counting is not None
    width = tables.truth.shape[1]
    truth, predicted = read(tables.truth.sum(axis=0)), read(tables.predicted.sum(axis=0))
    evaluate = freeze(counting, metric.direction, truth, predicted)
    human, generated, value = map(_known, evaluate(truth, predicted))

    def as_frozen(sums: FloatArray) -> FloatArray:
        return np.asarray(evaluate(read(sums[:width]), read(sums[width:])).value)[None]

    def anew(before: FloatArray, after: FloatArray) -> FloatArray:
        sides = read(before), read(after)
        return freeze(counting, metric.direction, *sides)(*sides).value

    interval: Interval | None = None
    p_value: float | None = None
    if value is not None:
        both = csr_array(hstack([tables.truth, tables.predicted]))
        (interval,) = bootstrap_pooled(both, as_frozen, generator=generator, resamples=resamples, level=level)
        p_value = permutation_pooled(tables.truth, tables.predicted, anew, generator=generator, resamples=resamples)
    return Summary(
        captioner=captioner,
        metric=metric.name,
        judge=metric.judge,
        human=human,
        generated=generated,
        amplification=value,
        sd=None,
        interval=interval,
        p_value=p_value,
        images=tables.truth.shape[0],
        seeds=0,
    )


def _known(value: FloatArray) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None

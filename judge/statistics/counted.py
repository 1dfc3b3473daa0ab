"""counts.parquet -> the table: counted metrics, their intervals and tests. No judge is asked.

Images count equally on each side, whatever the number of their captions; where all have as many, this is the papers'
plain count. Intervals are bootstraps over images under the pairs, signs and guesses of the data as they are: a resample
that chose its own would prefer them. p exchanges captions of an image between the sides, as many as each has, and
chooses anew each time: then both sides have the same chance to be preferred. (Exchanging sides whole would not do where
people wrote five captions and the captioner one: shares of five are steadier, so that less is preferred by chance.)
What is counted at all is chosen before, from captions of both sides (BA's words and objects) or from the annotation.
The mean of the exchanged values stands beside a metric's own, as what there is by chance: it is not 0 for metrics that
choose pairs by one side (BA, DBA), or that add up sizes (Multi).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np
import pandas as pd

from judge.counting import NamingVariant, freeze
from judge.metrics import Metric, find_metric, spell_out
from judge.statistics.intervals import Exchanged, bootstrap_pooled, permutation_pooled
from judge.statistics.said import counted_rows, named_most_and_least
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
        JudgeError: Multi-> of too many sets of labels.
    """
    from joblib import Parallel, cpu_count, delayed
    from scipy.stats import DegenerateDataWarning

    asked = [metric for metric in map(find_metric, spell_out(metrics)) if metric.counted]
    if not asked:
        return []
    how = {"resamples": resamples, "level": level, "seed": seed}
    extremes = named_most_and_least(counts)
    jobs = [
        delayed(_summarise)(str(captioner), metric, rows, ratio_classes(metric, extremes), **how)
        for captioner, rows in counts.groupby("captioner", sort=False, observed=True)
        for metric in asked
    ]
    with warnings.catch_warnings():
        # As in the bootstrap, whose own filter is no thread's alone.
        warnings.simplefilter("ignore", DegenerateDataWarning)
        # Threads: sparse products, which take most of the time, leave others free to go on.
        return list(Parallel(n_jobs=min(len(jobs), cpu_count()), prefer="threads")(jobs))


def ratio_classes(metric: Metric, extremes: tuple[str, str]) -> tuple[str, str]:
    """Ratio's class above and class below: its variant's, or those that people name most and least."""
    variant = metric.counted.variant if metric.counted and metric.counted.kind == "ratio" else NamingVariant()
    return variant.first or extremes[0], variant.second or extremes[1]


def _summarise(
    captioner: str,
    metric: Metric,
    counts: pd.DataFrame,
    ratio_of: tuple[str, str],
    *,
    resamples: int,
    level: float,
    seed: int,
) -> Summary:
    from scipy.sparse import hstack

    held = counted_rows(counts, metric, first=ratio_of[0], second=ratio_of[1])
    if held is None:
        return Summary(captioner, metric.name, metric.judge, None, None, None, None, None, None, 0, 0)
    generator = np.random.default_rng([seed, *map(ord, f"{captioner}/{metric.name}")])
    counting, read = metric.counted, held.read
    assert counting is not None
    images = held.rows.by_image()
    width = images[0].shape[1]
    truth, predicted = (read(np.asarray(side.sum(axis=0), dtype=np.float64)) for side in images)
    evaluate = freeze(counting, metric.direction, truth, predicted)
    human, generated, value = map(_known, evaluate(truth, predicted))

    def as_frozen(sums: FloatArray) -> FloatArray:
        return np.asarray(evaluate(read(sums[:width]), read(sums[width:])).value)[None]

    def anew(before: FloatArray, after: FloatArray) -> FloatArray:
        sides = read(before), read(after)
        return freeze(counting, metric.direction, *sides)(*sides).value

    interval: Interval | None = None
    exchanged: Exchanged | None = None
    if value is not None:
        both = hstack(images, format="csr")
        (interval,) = bootstrap_pooled(both, as_frozen, generator=generator, resamples=resamples, level=level)
        exchanged = permutation_pooled(held.rows, anew, generator=generator, resamples=resamples)
    return Summary(
        captioner=captioner,
        metric=metric.name,
        judge=metric.judge,
        human=human,
        generated=generated,
        amplification=value,
        sd=None,
        interval=interval,
        p_value=exchanged and exchanged.p_value,
        images=images[0].shape[0],
        seeds=0,
        by_chance=exchanged and exchanged.mean,
    )


def _known(value: FloatArray) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None

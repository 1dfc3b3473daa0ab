"""counts.parquet -> the table: counted metrics, their intervals and tests. No judge is asked.

Images count equally on each side, whatever the number of their captions; where all have as many, this is the papers'
plain count. A metric that chooses its pairs by one side (BA, DBA), or adds up sizes (Multi), is not 0 where nothing is
amplified: pairs chosen by one side regress. So captions of an image change sides, as many as each has, and pairs are
chosen anew each time: the mean of these values is the chance level, p is against them, and the headline is the
excess over their mean. (Exchanging sides whole would not do where people wrote five captions and the captioner one:
shares of five are steadier, so that less is preferred by chance.) Its interval is from halves of the images, as that of
judged metrics (``inference.py``), each with its own pairs and its own mean of exchanged captions; a bootstrap of the
published value holds 0 in no trial where BA is not amplified. Labels that a few images show vanish from halves, which
then claim too little (0.76 to 0.88 of the sd over trials of 900 images for BA, DBA_G, Multi and DPA T->A): the standard
error is never less than the sd of exchanged values.
What is counted at all is chosen before, from captions of both sides (BA's words and objects) or from the annotation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from judge.evidence import Resample
from judge.metrics import Metric, find_metric, spell_out
from judge.metrics.counted.contingency import ContingencyTable
from judge.metrics.counted.spec import Compared, CountedMetric
from judge.statistics.count_tables import CountedRows, choose_classes, counted_rows
from judge.statistics.inference import HALVES, from_halves
from judge.statistics.intervals import excess_of_parts, permutation_pooled
from judge.statistics.summary import Replicates, Summary
from judge.types import FloatArray

# Exchanges of captions in each half of the images.
EXCHANGES = 40


def summarise_counts(
    counts: pd.DataFrame, metrics: Iterable[str], *, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> list[Summary]:
    """One :class:`Summary` per captioner of ``counts`` and counted row of ``metrics``, captioner by captioner.

    Args:
        counts: the columns of ``counts.parquet`` (``judge.evidence.counts``).
        metrics: names of rows; those that ask a judge are passed over.
        resamples: of the permutation test.
        level: of the intervals.
        seed: of the generators; every metric has its own, so that rows do not depend on each other.

    Raises:
        JudgeError: Multi-> of too many sets of labels.
    """
    from joblib import Parallel, cpu_count, delayed

    asked = [(metric, metric.counted) for metric in map(find_metric, spell_out(metrics)) if metric.counted]
    if not asked:
        return []
    how = {"resamples": resamples, "level": level, "seed": seed}
    jobs = [
        delayed(_summarise)(str(captioner), metric, choose_classes(counted, counts), rows, **how)
        for captioner, rows in counts.groupby("captioner", sort=False, observed=True)
        for metric, counted in asked
    ]
    # Threads: sparse products, which take most of the time, leave others free to go on.
    return list(Parallel(n_jobs=min(len(jobs), cpu_count()), prefer="threads")(jobs))


def _summarise(
    captioner: str,
    metric: Metric,
    counted: CountedMetric,
    counts: pd.DataFrame,
    *,
    resamples: int,
    level: float,
    seed: int,
) -> Summary:
    held = counted_rows(counts, counted)
    line = count_row(captioner, metric, counted, held)
    published = line.published
    if held is None or published is None or not metric.exchangeable:
        return line
    read = held.read
    generator = generator_of(metric, seed)

    def anew(before: FloatArray, after: FloatArray) -> FloatArray:
        return _compare(counted, read(before), read(after)).value

    exchanged = permutation_pooled(held.rows, anew, generator=generator, resamples=resamples)
    if exchanged is None:
        return line
    value = published - exchanged.mean
    line = replace(line, amplification=value, chance_level=exchanged.mean)
    chosen = draw_halves(counts, held, seed)
    excess = excess_of_parts(held.rows, anew, chosen, generator=generator, exchanges=EXCHANGES).tolist()
    inference = from_halves(value, excess, exchanged._replace(mean=0.0), level=level)
    if inference is None:
        return line
    return replace(
        line,
        interval=inference.interval,
        p_value=inference.p_value,
        standard_error=inference.standard_error,
        degrees=inference.degrees,
        critical=inference.critical,
        basis="images",
        replicates=Replicates("half", tuple(excess)).claiming(inference.standard_error),
    )


def count_row(captioner: str, metric: Metric, counted: CountedMetric, held: CountedRows | None) -> Summary:
    """The line of the table as its paper has it, without chance level, interval and p.

    Args:
        captioner: its name.
        metric: a counted row.
        counted: how it counts, its classes chosen.
        held: what captions add; None where there is nothing to count.
    """
    line = Summary(captioner, metric, metric.judge)
    if held is None:
        return line
    images = held.rows.by_image()
    found = _compare(counted, *(held.read(np.asarray(side.sum(axis=0), dtype=np.float64)) for side in images))
    human, generated, published = map(_known, (found.truth, found.predicted, found.value))
    return replace(line, human=human, generated=generated, published=published, images=images[0].shape[0])


def _compare(counted: CountedMetric, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
    return counted.freeze(truth, predicted).compare(truth, predicted)


def draw_halves(counts: pd.DataFrame, held: CountedRows, seed: int) -> npt.NDArray[np.bool_]:
    """Which images each half holds, [P, N]."""
    classes = dict(zip(counts["image_id"].tolist(), counts["class"].tolist(), strict=True))
    return _halves(tuple((image, classes[image]) for image in held.images), seed)


# Metrics and captioners mostly have the same images.
@lru_cache(maxsize=4)
def _halves(images: tuple[tuple[str, str], ...], seed: int) -> npt.NDArray[np.bool_]:
    draws = [Resample("half", number, seed).classes(dict(images)) for number in range(HALVES)]
    return np.array([[image in draw for image, _ in images] for draw in draws])


def generator_of(metric: Metric, seed: int) -> np.random.Generator:
    """The same draws for every captioner: differences between them have no noise of draws."""
    return np.random.default_rng([seed, *map(ord, metric.name)])


def _known(value: FloatArray) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None

"""scores.parquet -> the table. Any number of a report comes from that file, without a judge or a GPU.

One estimate for every protocol: a caption's quantity (``scores.py``) is averaged over an image's captions of a side
and over seeds, images are averaged within each class, classes count equally. Where classes are balanced and every image
has the same number of captions this is the papers' plain mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from judge.amplification import AMPLIFICATIONS
from judge.errors import JudgeError
from judge.metrics import METRICS, Metric
from judge.scores import SCORES
from judge.statistics.intervals import Sides, bootstrap, permutation_test
from judge.types import FloatArray, Interval

ROW = ["captioner", "metric", "judge"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the table; values are fractions, absent ones None.

    Attributes:
        human, generated: score of each side; None where the metric has no such side.
        amplification: the metric's value; positive means amplified (for ``ratio``: above 1).
        sd: sample standard deviation of the amplification over seeds; None for one seed.
        interval: 95% over images: bootstrap within classes, seeds averaged.
        p_value: two-sided, sides exchanged image by image.
        images: distinct images scored.
        seeds: seeds averaged.
    """

    captioner: str
    metric: str
    judge: str
    human: float | None
    generated: float
    amplification: float | None
    sd: float | None
    interval: Interval | None
    p_value: float | None
    images: int
    seeds: int


def summarise(scores: pd.DataFrame, *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> list[Summary]:
    """One :class:`Summary` per captioner, metric and judge of ``scores``, in order of appearance.

    Args:
        scores: the columns of ``scores.parquet``.
        resamples: of the bootstrap and of the permutation test.
        level: of the intervals.
        seed: of the generators; every row has its own, so rows do not depend on each other.
    """
    return [
        _summarise_row((str(key[0]), str(key[1]), str(key[2])), rows, resamples=resamples, level=level, seed=seed)
        for key, rows in scores.groupby(ROW, sort=False, observed=True)
    ]


def _summarise_row(
    key: tuple[str, str, str], rows: pd.DataFrame, *, resamples: int, level: float, seed: int
) -> Summary:
    captioner, name, judge = key
    metric = METRICS[name]
    pool, amplify = SCORES[metric.score].pool, AMPLIFICATIONS[metric.amplification]
    compared = metric.amplification != "one_side"

    def statistic(means: FloatArray) -> FloatArray:
        human, generated = pool(means)
        return amplify(human, generated)

    images = _by_image(rows, metric)
    sides = _sides(images, both=compared)
    human, generated = pool(sides.means())
    by_seed = [float(statistic(_sides(part, both=compared).means())) for _, part in images.groupby("seed")]
    generator = np.random.default_rng([seed, *map(ord, "/".join(key))])
    interval = bootstrap(sides, statistic, generator=generator, resamples=resamples, level=level) if compared else None
    return Summary(
        captioner=captioner,
        metric=name,
        judge=judge,
        human=float(human) if compared else None,
        generated=float(generated),
        amplification=float(amplify(human, generated)) if compared else None,
        sd=float(np.std(by_seed, ddof=1)) if compared and len(by_seed) > 1 else None,
        interval=interval,
        p_value=permutation_test(sides, statistic, resamples=resamples, generator=generator) if compared else None,
        images=int(images["image_id"].nunique()),
        seeds=len(by_seed),
    )


def _by_image(rows: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """One row per seed and image: its class and its mean quantity on each side, over its captions there."""
    correct = (rows["predicted"] == rows["answer"]).to_numpy()
    quantity = SCORES[metric.score].quantity(rows["probability"].to_numpy(dtype=np.float64), correct)
    table = rows[["seed", "image_id", "answer", "side"]].assign(quantity=quantity)
    means = table.groupby(["seed", "image_id", "answer", "side"], observed=True, sort=True)["quantity"].mean()
    images = means.unstack("side")
    if images.isna().any(axis=None) or not np.isfinite(table["quantity"]).all():
        raise JudgeError(
            f"NaN, or images scored on one side only, for '{rows['captioner'].iloc[0]}'",
            where="scores",
            mend="recompute the scores",
        )
    return images.reset_index()


def _sides(images: pd.DataFrame, *, both: bool) -> Sides:
    """Sums over seeds, by class. A metric of the generated side alone reads that side twice."""
    columns = ["human" if both else "generated", "generated"]
    sums: list[FloatArray] = []
    trials: list[FloatArray] = []
    for _, part in images.groupby("answer", observed=True):
        grouped = part.groupby("image_id", observed=True)["generated"]
        first = part.groupby("image_id", observed=True)[columns[0]].sum()
        sums.append(np.stack([first.to_numpy(), grouped.sum().to_numpy()]).astype(np.float64))
        trials.append(grouped.size().to_numpy().astype(np.float64))
    return Sides(tuple(sums), tuple(trials))

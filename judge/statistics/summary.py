"""scores.parquet -> the table. Any number of a report comes from that file, without a judge or a GPU.

One estimate for every protocol: a caption's quantity (``scores.py``) is averaged over an image's captions of a side
and over seeds, images are averaged within each class, classes count equally. Where classes are balanced and every image
has the same number of captions this is the papers' plain mean. Of rows of METRICS that are not balanced, images count
equally. Losses and priors are averaged over seeds before a pooled score (1/CE) and a normalised amplification is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from judge.amplification import AMPLIFICATIONS
from judge.errors import JudgeError
from judge.metrics import Metric, find_metric
from judge.scores import SCORES, Judged
from judge.statistics.intervals import Sides, bootstrap, permutation_test
from judge.types import FloatArray, Interval

ROW = ["captioner", "metric", "judge"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the table; values are fractions, absent ones None.

    Attributes:
        human, generated: score of each side (of DBAC omega, of DPAC psi); None where the metric has no such side, and
            of DBA and Multi->, which are changes and have none.
        amplification: the metric's value; positive means amplified (for ``ratio``: above 1).
        sd: sample standard deviation of the amplification over seeds; None for one seed.
        interval: 95% over images: bootstrap within classes (of rows that are not balanced: among all), seeds averaged.
        p_value: two-sided, sides exchanged image by image; of counted metrics, captions of an image.
        images: distinct images scored.
        seeds: seeds averaged, or chosen from; 0 where no judge was trained.
        qualities: how well judges guess, without priors (Q), of the human and the generated side; None without priors.
        priors: mean weight w of the human and the generated side; None without priors.
        by_chance: of counted metrics, the mean amplification of exchanged captions: what there is without any bias.
    """

    captioner: str
    metric: str
    judge: str
    human: float | None
    generated: float | None
    amplification: float | None
    sd: float | None
    interval: Interval | None
    p_value: float | None
    images: int
    seeds: int
    qualities: tuple[float, float] | None = None
    priors: tuple[float, float] | None = None
    by_chance: float | None = None


def summarise(scores: pd.DataFrame, *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> list[Summary]:
    """One :class:`Summary` per captioner, metric and judge of ``scores``, in order of appearance.

    Args:
        scores: the columns of ``scores.parquet``.
        resamples: of the bootstrap and of the permutation test.
        level: of the intervals.
        seed: of the generators; every row has its own, so rows do not depend on each other.
    """
    if scores.empty:
        return []
    return [
        _summarise_row((str(key[0]), str(key[1]), str(key[2])), rows, resamples=resamples, level=level, seed=seed)
        for key, rows in scores.groupby(ROW, sort=False, observed=True)
    ]


def _summarise_row(
    key: tuple[str, str, str], rows: pd.DataFrame, *, resamples: int, level: float, seed: int
) -> Summary:
    captioner, name, judge = key
    metric = find_metric(name)
    score, amplify = SCORES[metric.score], AMPLIFICATIONS[metric.amplification]
    compared = metric.amplification != "one_side"

    def statistic(means: FloatArray) -> FloatArray:
        return amplify(score.value(means[0]), score.value(means[1]))

    seeds = int(rows["seed"].nunique())
    if metric.aggregate == "best":
        rows = _best(rows)
    prior = rows["prior"].to_numpy(dtype=np.float64) if metric.prior else None
    images = _by_image(rows, score.columns(_judged(rows), prior), balanced=metric.balanced)
    sides = _sides(images, both=compared)
    means = sides.means()
    human, generated = (float(score.value(side)) for side in means)
    by_seed = [float(statistic(_sides(part, both=compared).means())) for _, part in images.groupby("seed")]
    generator = np.random.default_rng([seed, *map(ord, "/".join(key))])
    value = float(statistic(means)) if compared else None
    # Judges that are right and certain everywhere have an infinite Q: there is no value to be uncertain of.
    tested = value is not None and np.isfinite(value)
    interval = bootstrap(sides, statistic, generator=generator, resamples=resamples, level=level) if tested else None
    return Summary(
        captioner=captioner,
        metric=name,
        judge=judge,
        human=human if compared else None,
        generated=generated,
        amplification=value,
        sd=float(np.std(by_seed, ddof=1)) if compared and len(by_seed) > 1 else None,
        interval=interval,
        p_value=permutation_test(sides, statistic, resamples=resamples, generator=generator) if tested else None,
        images=int(images["image_id"].nunique()),
        seeds=seeds,
        qualities=None if prior is None else _values(rows, metric, score.columns(_judged(rows)), score.value),
        priors=None if prior is None else _values(rows, metric, prior[None], lambda means: means[0]),
    )


def _values(
    rows: pd.DataFrame, metric: Metric, columns: FloatArray, value: Callable[[FloatArray], FloatArray]
) -> tuple[float, float]:
    """Of the human and the generated side."""
    human, generated = _sides(_by_image(rows, columns, balanced=metric.balanced), both=True).means()
    return float(value(human)), float(value(generated))


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each side the seed whose judges were the best on held-out captions (DPAC, section 3.2.1)."""
    losses = rows.groupby(["side", "seed"], observed=True)["loss"].mean()
    chosen = {side: losses[side].idxmin() for side in losses.index.unique("side")}
    return rows[rows["seed"] == rows["side"].map(chosen)].assign(seed=0)


def _judged(rows: pd.DataFrame) -> Judged:
    correct = (rows["predicted"] == rows["answer"]).to_numpy()
    probability = rows["probability"].to_numpy(dtype=np.float64)
    if "loss" not in rows:  # Written before tasks were guessed.
        return Judged.of_class(probability, correct)
    return Judged(probability, correct, rows["loss"].to_numpy(dtype=np.float64))


def _by_image(rows: pd.DataFrame, columns: FloatArray, *, balanced: bool) -> pd.DataFrame:
    """One row per seed and image: its stratum, and on each side the means of ``columns`` [S, N] over its captions.

    Columns: (seed, ""), (image_id, ""), (stratum, ""), ("0", "human"), ("0", "generated"), ...
    """
    stratum = rows["answer"] if balanced else ""
    table = rows[["seed", "image_id", "side"]].assign(stratum=stratum, **{str(i): c for i, c in enumerate(columns)})
    means = table.groupby(["seed", "image_id", "stratum", "side"], observed=True, sort=True).mean()
    images = means.unstack("side")
    if images.isna().to_numpy().any() or not np.isfinite(columns).all():
        raise JudgeError(
            f"NaN, or images scored on one side only, for '{rows['captioner'].iloc[0]}'",
            where="scores",
            mend="recompute the scores",
        )
    return images.reset_index()


def _sides(images: pd.DataFrame, *, both: bool) -> Sides:
    """Sums over seeds, by stratum. A metric of the generated side alone reads that side twice."""
    names = ["human" if both else "generated", "generated"]
    columns = [name for name in images.columns.unique(0) if name.isdigit()]
    sums: list[FloatArray] = []
    trials: list[FloatArray] = []
    for _, part in images.groupby("stratum", observed=True):
        grouped = part.groupby("image_id", observed=True)
        added = grouped[[(column, side) for side in names for column in columns]].sum().to_numpy(dtype=np.float64)
        sums.append(added.T.reshape(2, len(columns), -1))
        trials.append(grouped.size().to_numpy().astype(np.float64))
    return Sides(tuple(sums), tuple(trials))

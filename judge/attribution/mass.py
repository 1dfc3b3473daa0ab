"""The attribution score: which share of a map lies outside people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.masking.instances import BoolMask
from judge.statistics.intervals import bootstrap_pooled
from judge.types import FloatArray, Interval


def share_outside(mass: FloatArray, people: BoolMask) -> float | None:
    """The share of a map's mass, [H, W], on pixels outside ``people``, [H, W], in [0, 1]; None for a map of nothing.

    Source: DBAC section 5.2.2, DPAC section 5.3.
    """
    total = float(mass.sum())
    return float(mass[~people].sum()) / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class AttributionScore:
    """Means over images.

    Attributes:
        images: with a map, people or none in them.
        without: images whose map is of nothing: no pixel speaks for the answer. They are left out.
        score: mean share of positive mass outside people, in [0, 1]; None without images.
        interval: of the score, over images; None for fewer than two images.
        area: mean share of the picture outside people, in [0, 1]: the score of maps that are alike everywhere.
    """

    images: int
    without: int
    score: float | None
    interval: Interval | None
    area: float | None


def attribution_score(
    shares: Sequence[float | None],
    areas: Sequence[float],
    *,
    generator: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> AttributionScore:
    """The score of images, with a percentile bootstrap over them.

    Args:
        shares: of :func:`share_outside`, one an image.
        areas: shares of these images' area outside people.
        generator: of the resamples.
        resamples: how many.
        level: of the interval.
    """
    known = [(share, area) for share, area in zip(shares, areas, strict=True) if share is not None]
    without = len(shares) - len(known)
    if not known:
        return AttributionScore(0, without, None, None, None)
    table = np.array([(share, 1.0) for share, _ in known])
    (interval,) = bootstrap_pooled(
        table, lambda sums: sums[:1] / sums[1], generator=generator, resamples=resamples, level=level
    )
    score, area = (float(value) for value in np.mean(known, axis=0))
    return AttributionScore(len(known), without, score, interval, area)

"""The share of an attribution map outside people, and the map drawn over its image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.masking.folder import side_by_side
from judge.masking.instances import BoolMask, Pixels
from judge.statistics.intervals import bootstrap_pooled
from judge.types import FloatArray, Interval

# Orange speaks for the class, blue against it: colours of Okabe and Ito on which black text is readable.
FOR, AGAINST = (230, 159, 0), (86, 180, 233)
_LEAST = 360  # Pixels of the longer side of an image on a sheet.


def share_outside(mass: FloatArray, people: BoolMask) -> float | None:
    """The share of a map's mass, [H, W], on pixels outside ``people``, [H, W], in [0, 1]; None for a map of zeros.

    Source: DBAC section 5.2.2, DPAC section 5.3.
    """
    total = float(mass.sum())
    return float(mass[~people].sum()) / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class AttributionScore:
    """Means over ``images`` with a map; those ``without`` one, whose map is zero everywhere, are excluded.

    ``score``: mean share of positive mass outside people, in [0, 1]; ``interval``: its interval over images, None for
    fewer than two; ``area``: mean share of the image outside people, in [0, 1]: the score of uniform maps.
    """

    images: int
    without: int
    score: float | None
    interval: Interval | None
    area: float | None


def attribution_score(
    shares: Sequence[float | None], areas: Sequence[float], *, generator: np.random.Generator
) -> AttributionScore:
    """The mean score of images, with a 95% percentile bootstrap interval over them (2,000 resamples).

    ``shares`` are from :func:`share_outside`, one per image; ``areas`` are the shares of the images outside people.
    """
    known = [(share, area) for share, area in zip(shares, areas, strict=True) if share is not None]
    without = len(shares) - len(known)
    if not known:
        return AttributionScore(0, without, None, None, None)
    table = np.array([(share, 1.0) for share, _ in known])
    (interval,) = bootstrap_pooled(table, lambda sums: sums[:1] / sums[1], generator=generator)
    score, area = (float(value) for value in np.mean(known, axis=0))
    return AttributionScore(len(known), without, score, interval, area)


def overlay(pixels: Pixels, mass: FloatArray, people: BoolMask) -> Pixels:
    """A map [H, W] drawn over its image [H, W, 3] uint8: the outline of people [H, W] is white.

    Dark purple for little, yellow for most (inferno, colour-blind safe), grey where the map is weak; or, of a map with
    values below 0, orange above 0 and blue below it. The map is blurred by a hundredth of the longer side, and cut at
    its 99.5th percentile, since single pixels (GradientShap) would hardly be visible.
    """
    import cv2

    smooth = cv2.GaussianBlur(mass, (0, 0), max(0.5, 0.01 * max(mass.shape)))
    size = np.abs(smooth)
    level: FloatArray = np.clip(size / (float(np.percentile(size, 99.5)) or float(size.max()) or 1.0), 0, 1)
    colours = cv2.applyColorMap(np.rint(level * 255).astype(np.uint8), cv2.COLORMAP_INFERNO)
    heat = cv2.cvtColor(colours, cv2.COLOR_BGR2RGB)
    if mass.min() < 0:
        heat = np.where(smooth[..., None] > 0, FOR, AGAINST)
    grey = 0.6 * cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[..., None]
    share = 0.85 * np.sqrt(level)[..., None]
    mixed = np.rint(share * heat + (1 - share) * grey).astype(np.uint8)
    contours, _ = cv2.findContours(people.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(mixed, contours, -1, (255, 255, 255), max(1, round(max(mass.shape) / 400)))
    return mixed


def sheet(pixels: Pixels, mass: FloatArray, people: BoolMask, lines: list[str]) -> Pixels:
    """The image, the map over it (see :func:`overlay`), and lines of text below; small images are enlarged."""
    times = -(-_LEAST // max(pixels.shape[:2]))
    size = pixels.shape[1] * times, pixels.shape[0] * times
    return side_by_side([pixels, overlay(pixels, mass, people)], lines, size)

"""Vectors of images for judges that are trained in seconds: pooled features of a frozen encoder, of few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WIDTH, IMAGES_EACH = 256, 8
"""Numbers of a vector, at most, and images for each of them, at least."""
# Of the largest variance: less is rounding.
_LEAST = 1e-6
Reals = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ImageVectors:
    """Vectors of images, [N, D], of length 1 on average.

    Attributes:
        places: image id -> row.
        key: what they depend on.
    """

    places: Mapping[str, int]
    rows: Reals
    key: str

    @classmethod
    def of(cls, features: Mapping[str, Reals], key: str) -> ImageVectors:
        """The vectors of images with these features, of equal length: principal components of standardised features.

        A component has its share of the variance to the power of 1/2: a judge has one penalty for all of them, and what
        tells a class is seldom the largest component.
        """
        names = sorted(features)
        rows = np.stack([features[name] for name in names]).astype(np.float64)
        rows -= rows.mean(axis=0)
        spread = rows.std(axis=0)
        rows = rows[:, spread > _LEAST] / spread[spread > _LEAST]
        variances, axes = np.linalg.eigh(rows.T @ rows / len(rows))
        kept = variances > _LEAST * variances.max(initial=0)
        kept[: -min(WIDTH, len(rows) // IMAGES_EACH) or None] = False
        rows = rows @ (axes[:, kept] / variances[kept] ** 0.25)
        length = np.sqrt((rows**2).sum(axis=1).mean()) if rows.size else 1.0
        return cls({name: row for row, name in enumerate(names)}, (rows / length).astype(np.float32), key)

    def of_images(self, images: Iterable[str | None]) -> Reals:
        """[M, D]; zeros for None."""
        nothing = np.zeros_like(self.rows[0])
        found = [nothing if image is None else self.rows[self.places[image]] for image in images]
        return np.stack(found) if found else self.rows[:0]

"""Learning curves: the values of a row at a quarter, half and all of the images.

Judges learn from more captions what they cannot learn from fewer, and not equally fast on both sides: an amplification
depends on the number of images. A point is the mean over all parts of its draws. The parts of a draw hold every image
once, so what is peculiar to the sample of images adds the same to every point, and the error of a step between points
is about half of the error of a value. Curves are not extrapolated (docs/trust.md says why).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from judge.metrics import Metric
from judge.statistics.summary import ROW, Summary, name_row
from judge.types import FloatArray

_VALUES = ["human", "generated", "amplification"]
# Kind of refit -> number of parts of a draw.
_PARTS = {"quarter": 4, "half": 2}


class Point(NamedTuple):
    """Values of judges that were trained and tested on a share of the images, in (0, 1]; ``images``: their number.

    ``errors``: standard errors of human, generated and amplification, for another sample of images.
    """

    share: float
    images: int
    human: float
    generated: float
    amplification: float
    errors: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """The learning curve of a row of the table; ``points`` by number of images, the last one of all images."""

    captioner: str
    metric: Metric
    judge: str
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        """Metric and judge as tables name them."""
        return name_row(self.metric, self.judge)

    @property
    def step(self) -> float:
        """Amplification of all images less that of halves."""
        return self.points[-1].amplification - self.points[-2].amplification

    @property
    def moves(self) -> bool:
        """Whether the value still moves: by more than its standard error, from halves of the images to all."""
        return abs(self.step) > self.points[-1].errors[-1]


def learning_curves(summaries: Sequence[Summary], replicates: pd.DataFrame) -> list[Curve]:
    """The learning curves of the rows that have one: their judges were trained again on halves of the images.

    Classes with too few images have no quarters, and their curves no point there.
    """
    known = dict(iter(replicates.groupby(ROW, observed=True))) if len(replicates) else {}
    curves = (
        _curve(row, known[row.key])
        for row in summaries
        if row.basis == "refits" and row.key in known and row.human is not None
    )
    return [curve for curve in curves if curve]


def _curve(row: Summary, refits: pd.DataFrame) -> Curve | None:
    """The curve of a row, with the points at which every part has a value; None without halves."""
    points = []
    for kind, parts in _PARTS.items():
        values = refits[refits["kind"] == kind].sort_values("number")[_VALUES].to_numpy(dtype=np.float64)
        if len(values) and np.isfinite(values).all():
            points.append(_point(row.images, values.reshape(-1, parts, len(_VALUES))))
    if not points or points[-1].share != 1 / 2:
        return None
    assert row.human is not None and row.generated is not None  # noqa: PT018 - they are compared
    assert row.amplification is not None and row.standard_error is not None  # noqa: PT018
    errors = *points[-1].errors[:2], row.standard_error
    whole = Point(1.0, row.images, row.human, row.generated, row.amplification, errors)
    return Curve(row.captioner, row.metric, row.judge, (*points, whole))


def _point(images: int, draws: FloatArray) -> Point:
    """The means of the parts, [draws, parts, 3], and the errors of the mean of a draw, whose parts share no image."""
    parts = draws.shape[1]
    errors = np.sqrt(draws.var(axis=1, ddof=1).mean(axis=0) / parts)
    human, generated, amplification = map(float, draws.mean(axis=(0, 1)))
    of = float(errors[0]), float(errors[1]), float(errors[2])
    return Point(1 / parts, round(images / parts), human, generated, amplification, of)

"""Every published metric is one row: what is hidden, aligned, judged, scored, compared.

``measure.py`` walks a row and knows no metric by name. To add one: a row here, its paper in
``references.bib``, an oracle in the tests (CONTRIBUTING, "Add a metric").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from judge.alignment import AlignmentName
from judge.errors import JudgeError, nearest
from judge.types import Direction, TargetKind

Hidden = Literal["attribute words", "task words", "people"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One point in the space of the design's axes.

    Attributes:
        name: the row's key, as users type it.
        title: as papers write it.
        hidden: what is taken from the evidence before the judge sees it.
        alignment: how the human side is made comparable.
        judge: the judge of the metric's own paper.
        target: what the judge guesses.
        direction: for metrics that have two (DBAC, DBA); None for the others.
        score: key of ``scores.SCORES``.
        amplification: key of ``amplification.AMPLIFICATIONS``.
        reference: key in ``references.bib``, and where in the paper.
        holdout: shares of the images, under ``paper``, that judges are scored on, and that choose their epoch.
        variant: what a reader has to know where published codes differ.
    """

    name: str
    title: str
    hidden: tuple[Hidden, ...]
    alignment: AlignmentName
    judge: str
    target: TargetKind
    direction: Direction | None
    score: str
    amplification: str
    reference: str
    variant: str = ""
    holdout: tuple[float, float] = (0.1, 0.0)

    @property
    def evidence(self) -> tuple[tuple[Hidden, ...], AlignmentName, TargetKind, tuple[float, float]]:
        """Rows that agree in this share their judges: LIC and Leakage train once."""
        return self.hidden, self.alignment, self.target, self.holdout

    @property
    def looks(self) -> bool:
        """Whether its judges see images."""
        return "people" in self.hidden


METRICS: dict[str, Metric] = {
    row.name: row
    for row in (
        Metric(
            "lic",
            "LIC",
            hidden=("attribute words",),
            alignment="constant",
            judge="lstm",
            target="attribute",
            direction=None,
            score="confident_accuracy",
            amplification="difference",
            reference="hirota2022quantifying, eq. 9-11",
        ),
        Metric(
            "leakage",
            "Leakage",
            hidden=("attribute words",),
            alignment="constant",
            judge="lstm",
            target="attribute",
            direction=None,
            score="accuracy",
            amplification="difference",
            reference="wang2019balanced, as adapted to captions by hirota2022quantifying, eq. 4-6",
            variant="on captions; both sides judged from captions with constant vocabulary substitution",
        ),
        Metric(
            "sc",
            "SC",
            hidden=("attribute words",),
            alignment="constant",
            judge="lstm",
            target="attribute",
            direction=None,
            score="accuracy",
            amplification="one_side",
            reference="zhao2021understanding, as formulated in hirota2022quantifying, eq. 1",
            variant="generated side alone; no amplification",
        ),
        Metric(
            "imagecaptioner2",
            "ImageCaptioner2",
            hidden=("attribute words", "people"),
            alignment="none",
            judge="sat",
            target="attribute",
            direction=None,
            score="confidence",
            amplification="difference",
            reference="abdelrahman2024imagecaptioner2, eq. 1-2",
            holdout=(0.2, 0.1),
        ),
        Metric(
            "imagecaptioner2-ratio",
            "ImageCaptioner2 (ratio)",
            hidden=("attribute words", "people"),
            alignment="none",
            judge="sat",
            target="attribute",
            direction=None,
            score="confidence",
            amplification="ratio",
            reference="abdelrahman2024imagecaptioner2, eq. 2",
            variant="generated over human; 1 means no amplification",
            holdout=(0.2, 0.1),
        ),
        Metric(
            "vl-lic",
            "VL-LIC",
            hidden=("attribute words", "people"),
            alignment="constant",
            judge="vl-lic",
            target="attribute",
            direction=None,
            score="confident_accuracy",
            amplification="difference",
            reference="abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, eq. 9-11",
            variant="judge vl-lic reads with BERT, as the paper's; vl-lic-lstm with LIC's LSTM",
            holdout=(0.2, 0.1),
        ),
    )
}


def find_metric(name: str) -> Metric:
    """The row called ``name`` (any case).

    Raises:
        JudgeError: no such row; the nearest name is suggested.
    """
    key = name.strip().lower()
    if key not in METRICS:
        raise JudgeError(f"unknown metric '{name}'", where="--metrics", mend=nearest(key, list(METRICS)))
    return METRICS[key]

"""What a row of METRICS says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from judge.metrics.amplification import NEUTRAL
from judge.metrics.counted.spec import CountedMetric
from judge.text.alignment import AlignmentName
from judge.types import Direction, TargetKind

Hidden = Literal["attribute words", "task words", "people"]
Prior = Literal["P(t)/P(a)", "P(a^)/P(T)"]


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
        prior: the weight w of each caption, of frequencies on its side; None where all count alike. P(t): of the
            caption's task words; P(a): of the image's class; P(a^): of the classes that the caption names; P(T): of the
            image's tasks.
        head: layers of the perceptron on the paper's encoders; None where judges keep their own head.
        balanced: whether classes count equally, in training and in the score; else images do.
        aggregate: over seeds: their mean, or the seed whose judges guess best on validation images.
        people_are_tasks: whether what a caption calls people ("a surfer", "a child") is a task too: masked, guessed and
            counted among the tasks that it names.
        counted: how, where no judge is asked; None where one is.
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
    prior: Prior | None = None
    head: Literal[3, 5] | None = None
    balanced: bool = True
    aggregate: Literal["mean", "best"] = "mean"
    people_are_tasks: bool = False
    counted: CountedMetric | None = None

    @property
    def evidence(self) -> tuple[object, ...]:
        """Rows that agree in this share their evidence: DBAC and DPAC of one direction."""
        return self.hidden, self.alignment, self.target, self.prior, self.people_are_tasks

    @property
    def training(self) -> tuple[object, ...]:
        """Rows that agree in this share their judges: LIC and Leakage train once."""
        return self.evidence, self.holdout, self.head, self.balanced, self.aggregate

    @property
    def uses_images(self) -> bool:
        """Whether its judges see images."""
        return "people" in self.hidden

    @property
    def neutral(self) -> float:
        """The amplification where nothing is amplified; of counted metrics an excess over the chance level."""
        return 0.0 if self.counted else NEUTRAL[self.amplification]

    @property
    def exchangeable(self) -> bool:
        """Whether captions of the two sides could change places if nothing were amplified.

        Captions mention a part of what images show, whoever writes them: not with annotated objects (A->T).
        """
        return not (self.counted and self.counted.against == "annotation" and self.direction == "A->T")

    @property
    def reads_tasks(self) -> bool:
        """Whether words that name tasks have to be known."""
        of_counted = self.counted is not None and self.counted.labels == "objects"
        return self.target == "tasks" or self.prior is not None or of_counted

    @property
    def verdicts(self) -> tuple[str, str]:
        """What a significant value says of a captioner: above the chance level, and below."""
        return self.counted.verdicts if self.counted else ("amplifies", "mitigates")

"""The fields of a row of METRICS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from judge.metrics.amplification import NEUTRAL
from judge.metrics.counted.spec import CountedMetric
from judge.metrics.scores import SCORES
from judge.text.alignment import AlignmentName
from judge.types import Direction, TargetKind

Hidden = Literal["attribute words", "task words", "people"]
Prior = Literal["P(t)/P(a)", "P(a^)/P(T)"]
Known = Literal["people", "objects", "image"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, as a choice on each axis on which metrics differ.

        >>> from judge import METRICS
        >>> METRICS["lic"].hidden, METRICS["lic"].score, METRICS["lic"].holdout
        (('attribute words',), 'confident_accuracy', (0.1, 0.0))

    Attributes:
        name, title: the row's key, as users type it, and as papers write it.
        hidden: what is removed from the evidence before a judge sees it.
        alignment: how human captions are aligned with the captioner's vocabulary.
        judge: the judge of the metric's own paper.
        target: what the judge guesses.
        direction: of metrics that have two (DBAC, DBA); None for the others.
        score, amplification: keys of ``scores.SCORES`` and ``amplification.AMPLIFICATIONS``.
        reference: key in ``references.bib``, and where in the paper.
        holdout: under ``paper``, the shares of images for testing and for choosing an epoch, in [0, 1].
        variant: the choices made where published codes differ.
        prior: the weight w of each caption, of frequencies on its side; None where all count alike. P(t): of the
            caption's task words; P(a): of the image's class; P(a^): of the classes that the caption names; P(T): of the
            image's tasks.
        product: with a prior, whether a side's value is Q times the mean of w (DBAC's omega) or the mean of q w over
            captions (DPAC's psi).
        head: layers of the perceptron on the paper's encoders; None where judges keep their own head.
        balanced: whether classes count equally, in training and in the score; else images do.
        aggregate: over seeds: their mean, or the seed whose judges guess best on validation images.
        from_annotation: whether judges guess what a caption names (its class, or its tasks) from what is annotated of
            its image; else they guess what is annotated, from captions.
        people_are_tasks: whether what a caption calls people ("a surfer", "a child") is a task too: masked, guessed and
            counted among the tasks that it names.
        given: what judges know of an image beside the caption: other human captions ("people"), annotated "objects",
            frozen features of the "image" with people hidden.
        counted: how a counted metric is computed; None for metrics with a judge.
        origin: package and version, of a metric of another package; set by ``find_metric``.
    """

    name: str
    title: str
    hidden: tuple[Hidden, ...]
    judge: str
    score: str
    reference: str
    alignment: AlignmentName = "none"
    target: TargetKind = "attribute"
    direction: Direction | None = None
    amplification: str = "difference"
    variant: str = ""
    holdout: tuple[float, float] = (0.1, 0.0)
    prior: Prior | None = None
    product: bool = False
    head: Literal[3, 5] | None = None
    balanced: bool = True
    aggregate: Literal["mean", "best"] = "mean"
    from_annotation: bool = False
    people_are_tasks: bool = False
    given: tuple[Known, ...] = ()
    counted: CountedMetric | None = None
    origin: str = ""

    @property
    def evidence(self) -> tuple[object, ...]:
        """Rows with equal keys share their evidence: DBAC and DPAC of one direction."""
        return self.hidden, self.alignment, self.target, self.prior, self.from_annotation, self.people_are_tasks

    @property
    def training(self) -> tuple[object, ...]:
        """Rows with equal keys share their judges: LIC and Leakage train once."""
        return self.evidence, self.holdout, self.head, self.balanced, self.aggregate

    @property
    def parts(self) -> str:
        """The hold-out in percent: "90/10" (training, testing), "70/10/20" (training, choosing an epoch, testing)."""
        test, validation = self.holdout
        shares = (1 - test - validation, validation, test) if validation else (1 - test, test)
        return "/".join(f"{round(100 * share, 4) + 0:g}" for share in shares)

    def chance(self, images: Mapping[str, int]) -> float:
        """Score, without a prior, of a judge that knows only how frequent classes are.

        ``images``: number of each class; they count equally where classes are balanced.
        """
        even = self.balanced or self.from_annotation
        counts = np.ones(len(images)) if even else np.array([*images.values()], dtype=np.float64)
        return float(SCORES[self.score].chance(counts / counts.sum()))

    @property
    def uses_images(self) -> bool:
        """Whether its judges see images."""
        return "people" in self.hidden or "image" in self.given

    @property
    def reads_annotated_tasks(self) -> bool:
        """Whether its judges need to know the tasks of images, as what they guess or as what they guess from."""
        return not self.counted and (self.target == "tasks") != self.from_annotation

    @property
    def weighs_named_class(self) -> bool:
        """Whether captions weigh by the class that they name (T->A); those that name none or several do not count."""
        return self.prior == "P(a^)/P(T)"

    @property
    def reads_named_class(self) -> bool:
        """Whether the class that captions name is guessed, or weighs them."""
        return self.weighs_named_class or (self.from_annotation and self.target == "attribute")

    @property
    def weighs_tasks(self) -> bool:
        """Whether captions weigh by the tasks that they name (A->T)."""
        return self.prior == "P(t)/P(a)"

    @property
    def neutral(self) -> float:
        """The value without amplification; counted metrics are measured as the excess over their chance level."""
        return 0.0 if self.counted else NEUTRAL[self.amplification]

    @property
    def exchangeable(self) -> bool:
        """Whether the two sides are exchangeable without amplification.

        Captions and annotated objects are not (A->T): all captions mention only a part of what images show.
        """
        return not (self.counted and self.counted.against == "annotation" and self.direction == "A->T")

    @property
    def reads_tasks(self) -> bool:
        """Whether a lexicon of tasks is needed."""
        of_counted = self.counted is not None and self.counted.labels == "objects"
        of_images = of_counted or "objects" in self.given
        return self.target == "tasks" or self.prior is not None or self.from_annotation or of_images

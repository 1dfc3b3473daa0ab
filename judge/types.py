"""Types that the whole package shares; without torch."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Side = Literal["human", "generated"]
SIDES: tuple[Side, Side] = ("human", "generated")
Progress = Callable[[str, int, int], None]
"""Called with (what is being done, units done, units in all)."""
Direction = Literal["A->T", "T->A"]
TargetKind = Literal["attribute", "tasks"]
Words = tuple[str, ...]
"""The words of a caption, in order."""


class Doubt(str):
    """A note that an input is probably not what the user meant; it is always printed."""


@dataclass(frozen=True, slots=True, repr=False)
class Captions:
    """The captions of one side.

    Attributes:
        name: the captioner ("nic_plus"), or "human".
        by_image: image id -> its captions, in file order, at least one each.
        source: the file they came from, for messages and reports.
        empty: captions of nothing but white space, counted and left out.
        refused: captions that refuse to describe, counted and left out.
        cleaned: what :func:`judge.text.cleaning.clean` changed or removed -> in how many captions.
        silent: images that have no other caption than such; they are not in ``by_image``.
        fields: what the file calls its image ids and its captions.
        columns: of a table, the names of all.
        notes: what a reader of results should know of the file, a line each.
    """

    name: str
    by_image: Mapping[str, tuple[str, ...]]
    source: str = ""
    empty: int = 0
    refused: int = 0
    silent: frozenset[str] = frozenset()
    fields: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cleaned: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of captions kept."""
        return sum(len(captions) for captions in self.by_image.values())

    def __repr__(self) -> str:
        return f"Captions({self.name!r}, {self.total:,} captions of {len(self.by_image):,} images)"


@dataclass(frozen=True, slots=True, repr=False)
class Labels:
    """One attribute class per image, always as a string.

    Attributes:
        attribute: "gender", "skin", ...
        classes: the classes in fixed (sorted) order; index k of every probability.
        by_image: image id -> class.
        source: a file, or the rule that derived them.
        derived: whether they only repeat what human captions name.
        ignored: value that means no class ("Both", "Unsure", "" for empty) -> images that are left out for it.
        rule: what the class of an image with several labels is: "one" (they are the same) or "majority" of them.
        votes: of a majority "labels", and images by how they agree: "unanimous", "decided", "ties" (left out). Where
            human captions are chosen by their own labels also "own captions" and "other captions" (left out).
        agreement: of given labels with what human captions name, as ``judge.corpus.labels.compare_labels`` finds it.
        scenes: image id -> the scene that it shows with one of several people (counterfactual pairs and sets): images
            of a scene are in one fold, and labels are exchanged within it; empty where all images are scenes apart.
    """

    attribute: str
    classes: tuple[str, ...]
    by_image: Mapping[str, str]
    source: str
    derived: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)
    rule: str = "one"
    votes: Mapping[str, int] = field(default_factory=dict)
    agreement: Mapping[str, float | None] | None = None
    scenes: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = Counter(self.by_image.values())
        return f"Labels({self.attribute!r}, {', '.join(f'{counts[name]:,} {name}' for name in self.classes)})"


@dataclass(frozen=True, slots=True)
class Target:
    """What a judge predicts; it decides the loss.

    ``attribute``: exactly one of the classes (softmax, cross-entropy).
    ``tasks``: any number of them (sigmoid, binary cross-entropy averaged over classes).
    """

    kind: TargetKind
    classes: tuple[str, ...]

    def spell(self, answers: Iterable[int]) -> str:
        """The names of answers, joined by "|"."""
        return "|".join(self.classes[index] for index in answers)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a judge sees of one caption, and the answer.

    Attributes:
        image_id: canonical image id.
        side: whose caption.
        index: which of the image's captions on that side (0-based).
        words: the caption's words after masking and alignment; () when blanked.
        answers: indices into the target's classes; exactly one for ``attribute``.
        weight: importance in training (balances classes where all data is kept).
        image: id of the caption's image, if the judge sees one; None when blanked.
        scene: that the image shows, where several images show one with different people.
    """

    image_id: str
    side: Side
    index: int
    words: tuple[str, ...]
    answers: tuple[int, ...]
    weight: float = 1.0
    image: str | None = None
    scene: str | None = None

    @property
    def text(self) -> str:
        """The words joined by single spaces, for judges with a tokenizer of their own."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Predictions:
    """A judge's probabilities.

    Attributes:
        probabilities: [N, A] in [0, 1]; rows sum to 1 for an ``attribute`` target, and are independent for ``tasks``.
        target: what the columns mean.
        notes: what the judge chose by itself while fitting (``{"C": 0.1}``), for the report.
    """

    probabilities: FloatArray
    target: Target
    notes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: ``low <= high``, at ``level`` (0.95)."""

    low: float
    high: float
    level: float = 0.95

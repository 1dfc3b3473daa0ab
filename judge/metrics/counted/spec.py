"""What a counted metric is: what it reads, what each caption adds, what is chosen once, and how two tables compare.

The functions on arrays and the command share these objects and one :class:`ContingencyTable`. A new metric is a file in
this folder with a subclass of :class:`CountedMetric`, and a row in ``rows.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from judge.metrics.amplification import AMPLIFICATIONS, NEUTRAL, log_mean
from judge.metrics.counted.contingency import ContingencyTable, Sparse, divide
from judge.types import BoolArray, Direction, FloatArray, IntArray

Against = Literal["people", "annotation"]
LabelKind = Literal["words", "objects"]
# The classes and the labels that rows add to a table: [C, A] and [C, L].
Terms: TypeAlias = tuple[BoolArray | FloatArray, BoolArray | FloatArray | Sparse]


class Compared(NamedTuple):
    """A counted metric of two tables with any leading axes.

    Attributes:
        value: the metric, [...].
        pairs: what each pair of a class and a label adds, signed, [..., A, L]; NaN where it is undefined.
        truth: the value of the truth alone, [...]; NaN where the metric is a change and has no sides.
        predicted: that of the predictions.
    """

    value: FloatArray
    pairs: FloatArray
    truth: FloatArray
    predicted: FloatArray


class Frozen(Protocol):
    """A metric whose pairs, signs and guesses are chosen; resamples are compared under them."""

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """The metric of tables with any leading axes."""
        ...

    def parts(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """What each pair of a class and a label adds to the value less what is neutral, [..., A, L]."""
        ...

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """What each count of either table adds: the metric is linear in them, the rest held.

        The counts of ``predicted`` times its pieces, less those of ``truth`` times its own, are the value less what is
        neutral.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Amplification:
    """A counted metric of arrays.

    Attributes:
        value: fraction, not x100; NaN where no pair is defined.
        pairs: what each pair of a class and a label adds, signed, [A, L]; NaN where it is undefined (and left out).
        truth: the value of the truth alone; NaN where the metric is a change and has no sides (DBA, Multi->).
        predicted: that of the predictions.
    """

    value: float
    pairs: FloatArray
    truth: float
    predicted: float

    @classmethod
    def of(cls, found: Compared, **more: Any) -> Self:
        """The result of two tables without leading axes."""
        return cls(float(found.value), found.pairs, float(found.truth), float(found.predicted), **more)

    @property
    def left_out(self) -> int:
        """Pairs that are undefined: no sample meets their condition."""
        return int(np.isnan(self.pairs).sum())


@dataclass(frozen=True, slots=True, eq=False)
class CaptionTable:
    """What the captions of one side say, or what annotated images show, a row each.

    Attributes:
        image: index of the row's image, [C].
        classes: names of the A' classes: those of images, then others that some caption names.
        annotated: the image's class, [C, A'].
        named: classes that the row names, [C, A'].
        labels: the words or objects that it names, [C, L].
        known: A, the number of classes that images have.
    """

    image: IntArray
    classes: tuple[str, ...]
    annotated: BoolArray
    named: BoolArray
    labels: BoolArray
    known: int


@dataclass(frozen=True, kw_only=True)
class CountedMetric(ABC):
    """A metric that is counted, in one variant.

    It is a function of two contingency tables, whose counts add up over images; whatever it chooses from them is chosen
    once (:meth:`freeze`). A subclass adds a field for each choice on which published codes differ.

    Attributes:
        against: what a captioner's captions are compared with: people's captions, or annotated classes and objects.
        labels: what else captions name: content words or objects; None where only classes count.
        direction: what is predicted: labels ("A->T"), classes ("T->A"), or both (None).
        amplification: how two sides are compared, a key of AMPLIFICATIONS; of a metric that is a change: difference.
        verdicts: what a value above the chance level says of a captioner, and one below.
        variants: what may follow the row's name and a colon ("dba-o:princeton") -> the fields that it sets; several may
            follow one another. The row alone is the paper's own definition.
    """

    against: Against = "people"
    labels: LabelKind | None = "objects"
    direction: Direction | None = None

    amplification: ClassVar[str] = "difference"
    verdicts: ClassVar[tuple[str, str]] = ("amplifies", "mitigates")
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @property
    def variant_names(self) -> list[str]:
        """The variants, for messages."""
        return list(self.variants)

    def in_variant(self, name: str) -> Self | None:
        """The same metric in the variant ``name``; None where there is no such variant."""
        return replace(self, **self.variants[name]) if name in self.variants else None

    @property
    def needs_class_words(self) -> bool:
        """Whether it says nothing of an attribute whose classes have no words."""
        return self.direction == "T->A" or self.labels is None

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that its variant asks for by name."""
        return ()

    def choose_classes(self, most: str, least: str) -> Self:
        """With the classes that its variant leaves open: those that people name most, and least."""
        return self

    def by_construction(self, attribute: str, *, classes: int, has_words: bool, derived: bool) -> Iterator[str]:
        """Sentences on what is so whatever captions say.

        Args:
            attribute: its name.
            classes: how many it has.
            has_words: whether words of the classes are known.
            derived: whether labels are derived from people's captions.
        """
        yield from ()

    def terms(self, truth: CaptionTable, predicted: CaptionTable) -> list[Terms]:
        """What the rows of each side add to its contingency table.

        Raises:
            JudgeError: the side cannot be counted so.
        """
        return [self.side_terms(side) for side in (truth, predicted)]

    def side_terms(self, side: CaptionTable) -> Terms:
        """What the rows of a side add: the class that each names, and its labels."""
        return single_names(side.named)[:, : side.known], side.labels

    def columns(self, truth: CaptionTable, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The labels that each column of the tables stands for, of labels called ``names``."""
        return [(name,) for name in names]

    @abstractmethod
    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> Frozen:
        """The metric with its pairs, signs and guesses chosen, once; tables may have the same leading axes."""


@dataclass(frozen=True, slots=True)
class Quotients:
    """A metric whose sides are a sum over samples by another: there is nothing to choose.

    Its tables have one class, which counts the numerator, and one label, which counts the denominator.
    """

    amplification: str

    @staticmethod
    def terms(added: BoolArray | FloatArray) -> Terms:
        """What rows add above and below, [C, 2], as their classes and labels."""
        return added[:, :1], added[:, 1:]

    def parts(self, truth: ContingencyTable, predicted: ContingencyTable) -> FloatArray:
        """There are no pairs: all of it."""
        return np.asarray(self.compare(truth, predicted).value - NEUTRAL[self.amplification])[..., None, None]

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """What each sample above adds, by its side's sum below; of a ratio of sides also those below.

        The logarithm of a ratio is taken apart, by the logarithmic mean (Ang, Energy Policy 2004).
        """
        above, below = ([getattr(of, name)[..., 0] for of in (truth, predicted)] for name in ("attribute", "tasks"))
        found = self.compare(truth, predicted)
        if self.amplification == "ratio":
            scale = log_mean(found.value, np.ones_like(found.value))
            whole = log_mean(above[0], above[1])
            # Of nobody above there is no logarithm: the difference is taken apart as it is.
            plain = [divide(1.0, found.truth * of) for of in below]
            parts = (
                [np.where(whole > 0, divide(scale, whole), of) for of in plain],
                [np.where(whole > 0, divide(-scale, log_mean(*below)), 0.0)] * 2,
            )
        else:
            whole = found.truth + found.predicted if self.amplification == "normalised" else np.ones_like(found.value)
            parts = [divide(1.0, whole * of) for of in below], [np.zeros_like(of) for of in below]
        sides = [
            pieces_of(table, attribute=upper[..., None], tasks=lower[..., None])
            for table, upper, lower in zip((truth, predicted), *parts, strict=True)
        ]
        return sides[0], sides[1]

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """The sides, their comparison, and no pairs."""
        before, after = (divide(table.attribute[..., 0], table.tasks[..., 0]) for table in (truth, predicted))
        value = AMPLIFICATIONS[self.amplification](before, after)
        return Compared(value, np.full((*before.shape, 1, 1), np.nan), before, after)


def pieces_of(
    table: ContingencyTable,
    together: FloatArray | None = None,
    *,
    attribute: FloatArray | None = None,
    tasks: FloatArray | None = None,
) -> ContingencyTable:
    """What each count of ``table`` adds; nothing where it is not said."""
    return ContingencyTable(
        np.zeros_like(table.together) if together is None else together,
        np.zeros_like(table.attribute) if attribute is None else attribute,
        np.zeros_like(table.tasks) if tasks is None else tasks,
        np.zeros_like(table.samples),
        np.zeros_like(table.blank),
    )


def single_names(named: BoolArray) -> BoolArray:
    """The class that each caption names, [C, K]; captions that name several classes name none."""
    return np.asarray(named & (named.sum(axis=1, keepdims=True) == 1))

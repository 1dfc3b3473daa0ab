"""Counted metrics: their input, what each caption adds to a table, what is chosen once, how two tables are compared.

Functions on arrays and the command share these classes and :class:`ContingencyTable`. A new metric is a file in this
folder with a subclass of :class:`CountedMetric`, and a row in ``rows.py``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from judge.metrics.amplification import AMPLIFICATIONS, log_mean
from judge.metrics.counted.contingency import ContingencyTable, Sparse, divide
from judge.types import BoolArray, Direction, FloatArray

Against = Literal["people", "annotation"]
LabelKind = Literal["words", "objects"]
# Classes, [D, A], and labels, [D, L], that the D kinds of rows of a side add to its table.
Terms: TypeAlias = tuple[BoolArray | FloatArray, BoolArray | FloatArray | Sparse]


class Compared(NamedTuple):
    """A counted metric of two tables with any leading axes.

    Attributes:
        value: the metric, [...].
        pairs: what each pair of a class and a label adds, signed, [..., A, L]; NaN where it is undefined.
        truth, predicted: the value of either side alone, [...]; NaN if the metric is a change.
    """

    value: FloatArray
    pairs: FloatArray
    truth: FloatArray
    predicted: FloatArray


class Frozen(Protocol):
    """A metric whose pairs, signs and guesses are chosen; it compares resamples with this choice."""

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        """The metric of tables with any leading axes."""
        ...

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """Coefficients: counts of ``predicted`` times its own, less those of ``truth``, are the value less neutral."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Amplification:
    """A counted metric of arrays, as fractions.

    Attributes:
        value: NaN where no pair is defined.
        pairs: what each pair of a class and a label adds, signed, [A, L]; NaN where undefined (and left out).
        truth, predicted: the value of either side alone; NaN if the metric is a change (DBA, Multi->).
    """

    value: float
    pairs: FloatArray
    truth: float
    predicted: float

    @classmethod
    def of(cls, found: Compared, **more: Any) -> Self:
        """The result of two tables without leading axes."""
        return cls(float(found.value), found.pairs, float(found.truth), float(found.predicted), **more)


@dataclass(frozen=True, slots=True, eq=False)
class CaptionTable:
    """The captions of one side, or the annotated images: a row for each kind. Kinds differ in what they hold.

    Attributes:
        classes: names of the A' classes: the ``known`` ones of images, then others that captions name.
        annotated, named: the image's class, and classes that the row names, [D, A'] each.
        labels: words or objects that it names, 0 or 1, [D, L], sparse.
    """

    classes: tuple[str, ...]
    annotated: BoolArray
    named: BoolArray
    labels: Sparse
    known: int


@dataclass(frozen=True, kw_only=True)
class CountedMetric(ABC):
    """A counted metric, in one variant.

    It is a function of two contingency tables, whose counts add up over images. What it chooses from them, it chooses
    once (:meth:`freeze`). A subclass adds a field for each choice on which published codes differ.

    Attributes:
        against: what generated captions are compared with: human captions ("people"), or annotated classes and objects.
        labels: what captions name beside classes: content words or objects; None if only classes count.
        direction: what is predicted: labels ("A->T"), classes ("T->A"), or both (None).
        amplification: how two sides are compared, a key of AMPLIFICATIONS; "difference" for a metric that is a change.
        signed: whether values above and below the chance level are opposites; Multi-> is a size.
        directed: whether values above the chance level mean more of a bias; Ratio has no such direction.
        variants: name after the row's name and a colon ("dba-o:princeton") -> the fields that it sets; several may
            follow one another. The row alone is the paper's definition.
    """

    against: Against = "people"
    labels: LabelKind | None = "objects"
    direction: Direction | None = None

    amplification: ClassVar[str] = "difference"
    signed: ClassVar[bool] = True
    directed: ClassVar[bool] = True
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def in_variant(self, name: str) -> Self | None:
        """The metric in the variant ``name``; None if there is none."""
        return replace(self, **self.variants[name]) if name in self.variants else None

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that its variant names."""
        return ()

    def choose_classes(self, most: str, least: str) -> Self:
        """With the open classes of its variant: those that human captions name most, and least."""
        return self

    def by_construction(self, attribute: str, *, has_words: bool, derived: bool) -> Iterator[str]:
        """Sentences on values that hold whatever captions say: if there is a lexicon, if labels are derived."""
        yield from ()

    def terms(self, truth: CaptionTable, predicted: CaptionTable) -> list[Terms]:
        """What each kind of row adds to the table of its side; a JudgeError where a side cannot be counted."""
        return [self.side_terms(side) for side in (truth, predicted)]

    def side_terms(self, side: CaptionTable) -> Terms:
        """What each kind of row adds: the class that it names alone, and its labels."""
        return single_names(side.named)[:, : side.known], side.labels

    def columns(self, truth: CaptionTable, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The labels of each column of the tables; ``names`` are all labels."""
        return [(name,) for name in names]

    @abstractmethod
    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> Frozen:
        """Choose pairs, signs and guesses from tables with the same leading axes."""


@dataclass(frozen=True, slots=True)
class Quotients:
    """A metric whose sides are quotients of sums over samples: there is nothing to choose.

    Its tables have one class, which counts the numerator, and one label, which counts the denominator.
    """

    amplification: str

    @staticmethod
    def terms(added: BoolArray | FloatArray) -> Terms:
        """What rows add to numerator and denominator, [C, 2], as classes and labels."""
        return added[:, :1], added[:, 1:]

    def pieces(self, truth: ContingencyTable, predicted: ContingencyTable) -> tuple[ContingencyTable, ContingencyTable]:
        """The coefficient of each numerator; for a ratio of sides also of each denominator.

        The logarithm of a ratio is decomposed by the logarithmic mean (Ang, Energy Policy 2004).
        """
        above, below = ([getattr(of, name)[..., 0] for of in (truth, predicted)] for name in ("attribute", "tasks"))
        found = self.compare(truth, predicted)
        if self.amplification == "ratio":
            scale = log_mean(found.value, np.ones_like(found.value))
            divisor = log_mean(above[0], above[1])
            # A numerator of 0 has no logarithm: the plain difference is decomposed.
            plain = [divide(1.0, found.truth * of) for of in below]
            parts = (
                [np.where(divisor > 0, divide(scale, divisor), of) for of in plain],
                [np.where(divisor > 0, divide(-scale, log_mean(*below)), 0.0)] * 2,
            )
        else:
            divisor = found.truth + found.predicted if self.amplification == "normalised" else np.ones_like(found.value)
            parts = [divide(1.0, divisor * of) for of in below], [np.zeros_like(of) for of in below]
        upper, lower = parts
        human = pieces_of(truth, attribute=upper[0][..., None], tasks=lower[0][..., None])
        return human, pieces_of(predicted, attribute=upper[1][..., None], tasks=lower[1][..., None])

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
    """Coefficients of the counts of ``table``; 0 where none are given."""
    return ContingencyTable(
        np.zeros_like(table.together) if together is None else together,
        np.zeros_like(table.attribute) if attribute is None else attribute,
        np.zeros_like(table.tasks) if tasks is None else tasks,
        np.zeros_like(table.samples),
    )


def single_names(named: BoolArray) -> BoolArray:
    """The class that each caption names, [C, K]; none for captions that name several."""
    return np.asarray(named & (named.sum(axis=1, keepdims=True) == 1))

"""Ratio and Error: which class captions name, against which class is annotated. Counted, for any number of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import ContingencyTable, divide, hot, same_samples
from judge.metrics.counted.spec import CaptionTable, CountedMetric, LabelKind, Quotients, Terms, single_names
from judge.types import BoolArray, FloatArray

Among = Literal["annotated", "naming"]


@dataclass(frozen=True, kw_only=True)
class _NamingMetric(CountedMetric):
    """A sum over captions by another. A caption that names several classes names none."""

    labels: LabelKind | None = None

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> Quotients:
        """Nothing is chosen from the tables."""
        return Quotients(self.amplification)


@dataclass(frozen=True, kw_only=True)
class Ratio(_NamingMetric):
    """Ratio of two classes: its papers' two genders, or two of any number of classes.

    Attributes:
        first: the class above; None for the one that human captions name most.
        second: the class below; None for the one that they name least, of those that they name.
    """

    first: str | None = None
    second: str | None = None

    amplification: ClassVar[str] = "ratio"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"CLASS/CLASS": {}}
    directed: ClassVar[bool] = False

    def in_variant(self, name: str) -> Self | None:
        """Two classes: "female/male"."""
        first, _, second = name.partition("/")
        return replace(self, first=first, second=second) if first and second else None

    @property
    def classes(self) -> tuple[str, ...]:
        """The class above and the class below, if they are known."""
        return tuple(name for name in (self.first, self.second) if name is not None)

    def choose_classes(self, most: str, least: str) -> Self:
        """With both classes."""
        return replace(self, first=self.first or most, second=self.second or least)

    def side_terms(self, side: CaptionTable) -> Terms:
        """Whether rows name the class above, and the class below."""
        places = [side.classes.index(name) for name in self.classes]
        return Quotients.terms(single_names(side.named)[:, places])


@dataclass(frozen=True, kw_only=True)
class Error(_NamingMetric):
    """Error.

    Attributes:
        among: captions of all annotated images (women-snowboard's tables), or of these the ones that name a class (its
            ``get_error``).
    """

    among: Among = "annotated"

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"naming": {"among": "naming"}}

    def by_construction(self, attribute: str, *, has_words: bool, derived: bool) -> Iterator[str]:
        """Human captions do not err against labels that are derived from them."""
        if derived:
            yield "the Error of human captions is 0 by construction: labels are derived from them."

    def side_terms(self, side: CaptionTable) -> Terms:
        """Whether rows err, and whether they are counted."""
        return Quotients.terms(self.count(side.annotated, side.named))

    def count(self, annotated: BoolArray, named: BoolArray) -> BoolArray:
        """Which samples err, and which are counted, [N, 2], of multi-hot arrays [N, K]."""
        naming = single_names(named)
        counted = annotated.any(axis=1)
        if self.among == "naming":
            counted &= naming.any(axis=1)
        return np.stack([(naming & ~annotated).any(axis=1) & counted, counted], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class NamingShare:
    """Ratio or Error of arrays.

    Attributes:
        value: see :func:`ratio` and :func:`error`; NaN where ``counted`` is 0.
        pairs: the same for every pair of classes, [K, K]: the ratio of class a to b, or the share of captions that name
            b where a is annotated (0 on the diagonal).
        counted: captions in the denominator.
    """

    value: float
    pairs: FloatArray
    counted: int


def ratio(mention: npt.ArrayLike, *, first: int = 0, second: int = 1) -> NamingShare:
    """Captions that name the first class / captions that name the second (Hendricks et al. 2018).

    LIC's paper puts men over women, women-snowboard women over men: the caller says which is first. It is 1 where both
    are named as often, whatever the images show.

    Two of five captions name a man (1), one a woman (0), one both and one nobody:

        >>> ratio([[1, 0], [0, 1], [0, 1], [1, 1], [0, 0]], first=1, second=0).value
        2.0

    Args:
        mention: classes that each caption names, multi-hot, [N, K] (none: all 0); or the one that it names, [N].
        first: index of the class above.
        second: index of the class below.

    Raises:
        ValueError: arrays of other values or shapes, or no such class.
    """
    (named,) = hot("mention", mention)
    if np.ndim(mention) == 1:  # Classes that no caption names.
        named = np.pad(named, ((0, 0), (0, max(0, max(first, second) + 1 - named.shape[1]))))
    if first == second or not {first, second} <= {*range(named.shape[1])}:
        raise ValueError(f"mention: classes {first} and {second} of {named.shape[1]}; give the indices of two")
    naming = single_names(named).sum(axis=0)
    pairs = divide(naming[:, None], naming[None, :])
    return NamingShare(float(pairs[first, second]), pairs, int(naming[second]))


def error(attribute: npt.ArrayLike, mention: npt.ArrayLike, *, among: Among = "annotated") -> NamingShare:
    """Share of captions that name another class than the annotated one; naming none is no error.

    Hendricks et al. 2018, "Women also snowboard". A captioner that never names a class has Error 0: read it beside the
    share of captions that name one.

    The second of these five captions names a man (1) where a woman (0) is annotated; the fifth names nobody:

        >>> error([0, 0, 1, 1, 1], [[1, 0], [0, 1], [0, 1], [0, 1], [0, 0]]).value
        0.2
        >>> error([0, 0, 1, 1, 1], [[1, 0], [0, 1], [0, 1], [0, 1], [0, 0]], among="naming").value
        0.25

    Args:
        attribute: the annotated class, [N], or multi-hot, [N, K]. Samples without any are left out; where there are
            several, each is right.
        mention: classes that each caption names, multi-hot, [N, K], or the one that it names, [N].
        among: see :class:`Error`.

    Raises:
        ValueError: arrays of other values or shapes.
    """
    if among not in get_args(Among):
        raise ValueError(f'among is "annotated" or "naming", not {among!r}')
    annotated, named = hot("attribute and mention", attribute, mention)
    same_samples(attribute=annotated, mention=named)
    wrong, counted = Error(among=among).count(annotated, named).sum(axis=0)
    naming = single_names(named) & ~annotated
    pairs = divide(annotated.T.astype(np.float64) @ naming.astype(np.float64), counted)
    return NamingShare(float(divide(wrong, counted)), pairs, int(counted))

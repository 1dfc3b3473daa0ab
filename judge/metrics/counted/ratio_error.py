"""Ratio and Error: which class captions name, against which class is annotated. Counted, for any number of classes.

Both are a sum over captions by another sum, so that a bootstrap over images needs only what each caption adds:
:func:`ratio_terms` and :func:`error_terms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge.metrics.counted.contingency import BoolArray, divide, hot, same_samples
from judge.types import FloatArray

Both = Literal["neutral", "each"]


@dataclass(frozen=True, slots=True, eq=False)
class MentionShare:
    """Ratio or Error.

    Attributes:
        value: see :func:`ratio` and :func:`error`; NaN where ``counted`` is 0.
        pairs: the same for every pair of classes, [K, K]: the ratio of class a to b, or the share of captions that name
            b where a is annotated (0 on the diagonal).
        counted: captions in the denominator.
    """

    value: float
    pairs: FloatArray
    counted: int


def ratio(
    mention: npt.ArrayLike, *, first: int = 0, second: int = 1, classes: int | None = None, both: Both = "neutral"
) -> MentionShare:
    """Captions that name the first class / captions that name the second (Hendricks et al. 2018).

    LIC's paper puts men over women, women-snowboard women over men: the caller says which is first. It is 1 where both
    are named as often, whatever the images show.

    Args:
        mention: classes that each caption names, multi-hot, [N, K] (none: all 0); or the one that it names, [N].
        first: index of the class above.
        second: index of the class below.
        classes: K, where ``mention`` is [N]; default: the greatest of its labels, ``first`` and ``second``, plus 1.
        both: a caption that names several classes: counts for none ("neutral": women-snowboard, Princeton) or for each
            ("each").

    Raises:
        ValueError: arrays of other values or shapes, or no such class.
    """
    terms = ratio_terms(mention, first=first, second=second, classes=classes, both=both)
    upper, lower = terms.sum(axis=0)
    naming = naming_of(_mentioned(mention, classes, first, second), both).sum(axis=0)
    pairs = divide(naming[:, None], naming[None, :])
    return MentionShare(float(divide(upper, lower)), pairs, int(lower))


def ratio_terms(
    mention: npt.ArrayLike, *, first: int = 0, second: int = 1, classes: int | None = None, both: Both = "neutral"
) -> FloatArray:
    """What each caption adds above and below, [N, 2]: the ratio is their sums' ratio. Arguments: :func:`ratio`."""
    naming = naming_of(_mentioned(mention, classes, first, second), both)
    return naming[:, [first, second]].astype(np.float64)


def error(
    attribute: npt.ArrayLike,
    mention: npt.ArrayLike,
    *,
    among: Literal["annotated", "naming"] = "annotated",
    both: Both = "neutral",
) -> MentionShare:
    """Share of captions that name another class than the annotated one; naming none is no error.

    Hendricks et al. 2018, "Women also snowboard". A captioner that never names a class has Error 0: read it beside the
    share of captions that name one.

    Args:
        attribute: the annotated class, [N], or multi-hot, [N, K]. Samples without any are left out; where there are
            several, each is right.
        mention: classes that each caption names, multi-hot, [N, K], or the one that it names, [N].
        among: captions of all annotated images (women-snowboard's tables), or of these the ones that name a class (its
            ``get_error``).
        both: a caption that names several classes: names none ("neutral": women-snowboard, Princeton) or each, so that
            it errs if one of them is wrong ("each").

    Raises:
        ValueError: arrays of other values or shapes.
    """
    annotated, named = hot("attribute and mention", attribute, mention)
    wrong, counted = error_terms(annotated, named, among=among, both=both).sum(axis=0)
    naming = naming_of(named, both) & ~annotated
    pairs = divide(annotated.T.astype(np.float64) @ naming.astype(np.float64), counted)
    return MentionShare(float(divide(wrong, counted)), pairs, int(counted))


def error_terms(
    attribute: npt.ArrayLike,
    mention: npt.ArrayLike,
    *,
    among: Literal["annotated", "naming"] = "annotated",
    both: Both = "neutral",
) -> FloatArray:
    """Errors and counted captions of each sample, [N, 2]: Error is their sums' ratio. Arguments: :func:`error`."""
    annotated, named = hot("attribute and mention", attribute, mention)
    same_samples(attribute=annotated, mention=named)
    naming = naming_of(named, both)
    counted = annotated.any(axis=1)
    if among == "naming":
        counted &= naming.any(axis=1)
    wrong = (naming & ~annotated).any(axis=1) & counted
    return np.stack([wrong, counted], axis=1).astype(np.float64)


def _mentioned(mention: npt.ArrayLike, classes: int | None, first: int, second: int) -> BoolArray:
    """[N, K], wide enough for the two classes where the mentions are labels."""
    (named,) = hot("mention", mention)
    width = named.shape[1]
    if np.ndim(mention) == 1:
        width = max(first + 1, second + 1, width) if classes is None else classes
        named = np.pad(named, ((0, 0), (0, max(0, width - named.shape[1]))))
    if not (0 <= first < width and 0 <= second < width and named.shape[1] == width):
        raise ValueError(f"mention: classes {first} and {second} of {named.shape[1]}, where {width} were expected")
    return named


def naming_of(named: BoolArray, both: Both = "neutral") -> BoolArray:
    """What captions name, [C, K]; those that name several classes name none ("neutral"), or each."""
    return named & (named.sum(axis=1, keepdims=True) == 1) if both == "neutral" else named

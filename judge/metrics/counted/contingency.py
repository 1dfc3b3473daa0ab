"""Contingency tables of classes and labels, from arrays, for many resamples at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array, hstack

from judge.types import BoolArray, Direction, FloatArray, IntArray

Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]]
Sets = tuple[tuple[int, ...], ...]

# Limits on sets of labels, and on columns made from labels: more are a mistake, such as ids given as labels.
_SETS = 250_000
_WIDEST = 1 << 16
# Sets whose members are multiplied at once, so that memory stays small.
_CHUNK = 4096
# How far the probabilities of a softmax in bfloat16, or written with three digits, may be from a sum of one.
_ROUNDED = 5e-3


@dataclass(frozen=True, slots=True, eq=False)
class ContingencyTable:
    """Counts of samples. Every field adds up over samples, so that weights of samples make resamples of it.

    Attributes:
        together: c_al, samples of class a with label l, [..., A, L].
        attribute: samples of class a, [..., A].
        tasks: samples with label l, [..., L].
        samples: all samples, [...].
    """

    together: FloatArray
    attribute: FloatArray
    tasks: FloatArray
    samples: FloatArray

    @classmethod
    def of_sums(cls, sums: FloatArray, shape: tuple[int, int]) -> ContingencyTable:
        """Sums of the rows of :func:`added`, [S, ...], as tables of ``shape`` (A, L) with the leading axes [...]."""
        classes, labels = shape
        moved = np.moveaxis(sums, 0, -1)
        fields = np.split(moved, np.cumsum([classes * labels, classes, labels]), axis=-1)
        together = fields[0].reshape(*moved.shape[:-1], classes, labels)
        return cls(together, fields[1], fields[2], fields[3][..., 0])

    def sums(self) -> FloatArray:
        """The inverse of :meth:`of_sums`: [S, ...]."""
        leading = self.samples.shape
        fields = self.together, self.attribute, self.tasks, self.samples
        return np.moveaxis(np.concatenate([of.reshape(*leading, -1) for of in fields], axis=-1), -1, 0)


def added(classes: BoolArray | FloatArray, labels: BoolArray | FloatArray | Sparse) -> Sparse:
    """What samples of ``classes``, [N, A], and ``labels``, [N, L], add to the fields of a table, in order, [N, S]."""
    of_labels = labels if isinstance(labels, csr_array) else csr_array(np.asarray(labels, dtype=np.float64))
    of_classes = csr_array(np.asarray(classes, dtype=np.float64))
    together = [of_labels.multiply(of_classes[:, [index]]) for index in range(of_classes.shape[1])]
    return csr_array(hstack([*together, of_classes, of_labels, csr_array(np.ones((len(classes), 1)))]))


def hot(name: str, *sources: npt.ArrayLike | None) -> list[BoolArray]:
    """Labels of the same kind as multi-hot arrays of one width.

    Args:
        name: what they are, for messages ("tasks").
        sources: each multi-hot, [N, K], of bool or of the numbers 0 and 1; or one label a sample, [N], whole numbers
            from 0; or None for the same as the first. Two one-dimensional values of bool are the labels 0 and 1.

    Returns:
        An array [N, K] for each source. Where all are labels, K is the greatest of them plus 1: give multi-hot arrays
        where the last classes may not occur.

    Raises:
        ValueError: anything else than that, no samples, or widths that differ.
    """
    if sources[0] is None:
        raise ValueError(f"{name}: an array is needed, got None")
    arrays = [_checked(name, _array(name, source)) for source in sources if source is not None]
    widths = {array.shape[1] for array in arrays if array.ndim == 2}
    if len(widths) > 1:
        raise ValueError(f"{name}: arrays of {' and '.join(map(str, sorted(widths)))} columns; give all the same")
    greatest = max((int(array.max()) for array in arrays if array.ndim == 1), default=-1)
    width = widths.pop() if widths else greatest + 1
    if greatest >= _WIDEST:
        raise ValueError(f"{name}: labels are indices from 0, and {greatest} is not meant as one")
    if greatest >= width:
        raise ValueError(f"{name}: label {greatest} is beyond the {width} columns of the multi-hot array")
    wide = [array if array.ndim == 2 else array[:, None] == np.arange(width) for array in arrays]
    multi_hot = [np.asarray(array, dtype=np.bool_) for array in wide]
    given = iter(multi_hot)
    return [multi_hot[0] if source is None else next(given) for source in sources]


def read_probabilities(truths: Sequence[BoolArray], *given: npt.ArrayLike, single: bool) -> list[FloatArray]:
    """The probabilities of both sides: of classes, [N, K], or of each task; ``truths`` are multi-hot.

    Probabilities of ``single`` classes sum to one in each row, as far as a softmax in half precision does; they may be
    of further classes, which no sample has.

    Raises:
        ValueError: anything else than that, or widths that differ.
    """
    found = [_read_probabilities(truth, table, single=single) for truth, table in zip(truths, given, strict=True)]
    if len(widths := {table.shape[1] for table in found}) > 1:
        raise ValueError(
            f"probabilities: arrays of {' and '.join(map(str, sorted(widths)))} columns; give all the same"
        )
    return found


def _read_probabilities(truth: BoolArray, given: npt.ArrayLike, *, single: bool) -> FloatArray:
    found = np.asarray(_array("probabilities", given, np.float64), dtype=np.float64)
    width = truth.shape[1]
    if found.ndim != 2 or found.shape[1] < width or (found.shape[1] > width and not single):
        raise ValueError(
            f"probabilities: [N, {width}] are needed, got shape {found.shape}; y numbers {width} classes from 0"
        )
    same_samples(y=truth, probabilities=found)
    if not ((found >= 0) & (found <= 1)).all():
        what = "some are NaN" if np.isnan(found).any() else "give a softmax of logits"
        raise ValueError(f"probabilities are not all in [0, 1]: {what}")
    if single and (wrong := np.flatnonzero(np.abs(found.sum(axis=1) - 1) > _ROUNDED)).size:
        total = found[wrong[0]].sum()
        raise ValueError(f"probabilities: those of sample {wrong[0]} sum to {total:.4g}, not to 1; give a softmax")
    return found


def divide(upper: npt.ArrayLike, lower: npt.ArrayLike) -> FloatArray:
    """Quotients, broadcast; NaN where the lower is 0."""
    above, below = np.broadcast_arrays(np.asarray(upper, dtype=np.float64), np.asarray(lower, dtype=np.float64))
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def same_samples(**arrays: BoolArray | FloatArray) -> None:
    """Raise ValueError unless all arrays have the same number of rows."""
    if len({len(array) for array in arrays.values()}) > 1:
        numbers = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ValueError(f"the arrays differ in their number of samples: {numbers}")


Train = tuple[npt.ArrayLike, npt.ArrayLike]
_Arrays = tuple[BoolArray, BoolArray]


class Samples(NamedTuple):
    """Classes and labels of the same samples as multi-hot arrays, [N, A] and [N, L]; of training samples [M, ...]."""

    truth: _Arrays
    predicted: _Arrays
    train: _Arrays


def read_samples(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    predicted_tasks: npt.ArrayLike | None,
    predicted_attribute: npt.ArrayLike | None,
    direction: Direction | None = None,
    *,
    train: Train | None = None,
) -> Samples:
    """The sides that functions on arrays compare. What the direction does not predict comes from the truth.

    ValueError: see :func:`hot`; or the number of samples differs, or there is no such direction.
    """
    if direction not in ("A->T", "T->A", None):
        raise ValueError(f'the direction is "A->T" or "T->A", not {direction!r}')
    a, a_hat, train_a = hot("attribute", attribute, predicted_attribute, train[0] if train else None)
    t, t_hat, train_t = hot("tasks", tasks, predicted_tasks, train[1] if train else None)
    same_samples(attribute=a, tasks=t, predicted_tasks=t_hat, predicted_attribute=a_hat)
    predicted = (a if direction == "A->T" else a_hat, t if direction == "T->A" else t_hat)
    return Samples((a, t), predicted, (train_a, train_t))


def contingency(
    attribute: npt.ArrayLike, tasks: npt.ArrayLike, *, sets: Sequence[tuple[int, ...]] | None = None
) -> ContingencyTable:
    """Counts of classes and labels that occur together.

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N], see :func:`hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        sets: sets of labels; then there is a column for each, of the samples that have all of its labels.

    Raises:
        ValueError: see :func:`hot`; or the number of samples differs.
    """
    (classes,), (labels,) = hot("attribute", attribute), hot("tasks", tasks)
    same_samples(attribute=classes, tasks=labels)
    columns = labels if sets is None else holding(labels, sets)
    sums = np.asarray(added(classes, columns).sum(axis=0), dtype=np.float64)
    return ContingencyTable.of_sums(sums, (classes.shape[1], columns.shape[1]))


def label_sets(tasks: npt.ArrayLike, *, largest: int | None = None) -> Sets:
    """The sets of at most ``largest`` labels (None: any number) that samples have, with others or alone.

    Small sets come first; none is empty. ``tasks`` are multi-hot, [N, L], or one label a sample, [N]. ValueError: more
    than 250,000 of them; or see :func:`hot`.
    """
    (labels,) = hot("tasks", tasks)
    most = labels.shape[1] if largest is None else largest
    if most < 1:
        raise ValueError(f"largest: sets have one label or more, got {most}")
    found: list[tuple[int, ...]] = []
    # Each set is extended from a smaller one.
    grown: list[tuple[tuple[int, ...], IntArray]] = [((), np.arange(len(labels)))]
    while grown:
        members, holders = grown.pop()
        after = members[-1] + 1 if members else 0
        held = labels[holders, after:]
        for label in np.flatnonzero(held.any(axis=0)).tolist():
            found.append((*members, after + label))
            if len(members) + 1 < most:
                grown.append((found[-1], holders[held[:, label]]))
        if len(found) > _SETS:
            raise ValueError(f"more than {_SETS:,} sets of labels occur; name the largest=")
    return tuple(sorted(found, key=lambda labels: (len(labels), labels)))


def holding(labels: BoolArray | Sparse, sets: Sequence[tuple[int, ...]]) -> Sparse:
    """Which samples, [N, L], have all labels of each set: 0 or 1, [N, len(sets)]."""
    columns = csc_array(labels, dtype=np.float64)
    parts = []
    for start in range(0, len(sets), _CHUNK):
        # Products of columns: all sets' first labels by their second ones and so on; short sets repeat their last.
        part = sets[start : start + _CHUNK]
        longest = max(map(len, part))
        members = np.array([[*labels, *[labels[-1]] * (longest - len(labels))] for labels in part])
        held = columns[:, members[:, 0]]
        for place in range(1, longest):
            held = held.multiply(columns[:, members[:, place]])
        parts.append(csc_array(held))
    return csr_array(hstack(parts)) if parts else csr_array((labels.shape[0], 0))


def _array(name: str, given: npt.ArrayLike, dtype: Any = None) -> npt.NDArray[Any]:
    """An array of any values; a ValueError for rows of different lengths, and for what is not of ``dtype``."""
    try:
        return np.asarray(given, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: no array of numbers with rows of one length ({error})") from error


def _checked(name: str, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Multi-hot as bool, or labels as int64."""
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: [N, K] of 0 and 1 or [N] labels are needed, got shape {array.shape}")
    if not array.size:
        raise ValueError(f"{name}: no samples or no columns, shape {array.shape}")
    if array.dtype.kind not in "biuf":
        mend = "number the labels: np.unique(labels, return_inverse=True)[1]"
        raise ValueError(f"{name}: bool, int or float is needed, got {array.dtype}; {mend}")
    if array.ndim == 2:
        if array.dtype != np.bool_ and (array.astype(np.bool_) != array).any():
            raise ValueError(f"{name}: a multi-hot array holds 0 and 1 only")
        return array.astype(np.bool_, copy=False)
    with np.errstate(invalid="ignore"):  # NaN as an integer: refused below.
        labels = array.astype(np.int64)
    if (labels != array).any() or labels.min() < 0:
        raise ValueError(f"{name}: labels must be whole numbers from 0; give [N, K] of 0 and 1 where some have none")
    return labels

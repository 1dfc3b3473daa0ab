"""Contingency tables of classes and labels, from plain arrays; of many resamples at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from judge.types import BoolArray, Direction, FloatArray, IntArray
from judge.utils.parallel import thread_pools

# Rows that are counted at once: single precision counts them exactly, they fit the processor's cache, and BLAS takes
# one thread for them. Twice as many, and its threads wait for each other (20 times slower on two busy cores).
_ROWS = 4096

# Of so many labels all pairs are counted at once, by their products; of more, one label at a time is quicker.
_NARROW = 128

# More sets of labels, or columns made of labels, than these are refused: they were not meant (ids given as labels).
_SETS = 250_000
_WIDEST = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class ContingencyTable:
    """Counts of samples. Every field adds up over samples, so that weights of samples make resamples of it.

    Attributes:
        together: c_al, samples of class a with label l, [..., A, L].
        attribute: samples of class a, [..., A].
        tasks: samples with label l, [..., L].
        samples: all samples, [...].
        blank: samples without any class and any label, [...].
    """

    together: FloatArray
    attribute: FloatArray
    tasks: FloatArray
    samples: FloatArray
    blank: FloatArray


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
    arrays = [_checked(name, np.asarray(source)) for source in sources if source is not None]
    widths = {array.shape[1] for array in arrays if array.ndim == 2}
    if len(widths) > 1:
        raise ValueError(f"{name}: arrays of {' and '.join(map(str, sorted(widths)))} columns; give all the same")
    greatest = max((int(array.max()) for array in arrays if array.ndim == 1), default=-1)
    width = widths.pop() if widths else greatest + 1
    if greatest >= _WIDEST:
        raise ValueError(f"{name}: labels are indices from 0, and {greatest} is not meant as one")
    if greatest >= width:
        raise ValueError(f"{name}: label {greatest} is beyond the {width} columns of the multi-hot array")
    spread = [_spread(array, width) for array in arrays]
    given = iter(spread)
    return [spread[0] if source is None else next(given) for source in sources]


def divide(upper: npt.ArrayLike, lower: npt.ArrayLike) -> FloatArray:
    """Quotients, broadcast; NaN where the lower is 0."""
    above, below = np.broadcast_arrays(np.asarray(upper, dtype=np.float64), np.asarray(lower, dtype=np.float64))
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def same_samples(**arrays: BoolArray) -> None:
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
    """What functions on arrays compare. What the direction does not predict is the truth's; None predicts both.

    Raises:
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
    attribute: npt.ArrayLike, tasks: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> ContingencyTable:
    """Counts of classes and labels that occur together.

    Args:
        attribute: multi-hot, [N, A], or one class a sample, [N], see :func:`hot`.
        tasks: multi-hot, [N, L], or one label a sample, [N].
        weights: how often each sample counts, [..., N]; [R, N] makes R resamples with a few matrix products. Default:
            once. A table of images where rows are captions: give each caption its image's weight.

    Returns:
        Counts with the leading axes of ``weights``; none without.

    Raises:
        ValueError: see :func:`hot`; or the number of samples differs.
    """
    (classes,), (labels,) = hot("attribute", attribute), hot("tasks", tasks)
    same_samples(attribute=classes, tasks=labels)
    return _count(classes, labels) if weights is None else _weigh(classes, labels, weights)


def label_sets(
    tasks: npt.ArrayLike, *, exact: bool = False, largest: int | None = None, least: int = 1
) -> tuple[tuple[int, ...], ...]:
    """The sets of labels that samples have, small ones first.

    Args:
        tasks: multi-hot, [N, L], or one label a sample, [N].
        exact: the label sets of samples as they are, instead of all their subsets. The empty set is never among them.
        largest: labels in a set at most; None: any number.
        least: samples that must have the set (``exact``: and no other label).

    Raises:
        ValueError: there are more than 250,000 of them; or see :func:`hot`.
    """
    (labels,) = hot("tasks", tasks)
    most = labels.shape[1] if largest is None else largest
    found = _exact(labels, most, least) if exact else _subsets(labels, most, least)
    if len(found) > _SETS:
        raise ValueError(f"more than {_SETS:,} sets of labels occur; name the largest= or the least= of them")
    return tuple(sorted(found, key=lambda labels: (len(labels), labels)))


def set_contingency(
    attribute: npt.ArrayLike,
    tasks: npt.ArrayLike,
    sets: Sequence[tuple[int, ...]],
    *,
    weights: npt.ArrayLike | None = None,
) -> ContingencyTable:
    """Like :func:`contingency`, with a column for each set of labels: the samples that have all of them.

    ``blank`` still counts samples without any class and any label.
    """
    (classes,), (labels,) = hot("attribute", attribute), hot("tasks", tasks)
    whole = contingency(classes, labels, weights=weights)
    together = np.empty((*whole.together.shape[:-1], len(sets)))
    per_set = np.empty((*whole.tasks.shape[:-1], len(sets)))
    groups: dict[tuple[int, ...], list[int]] = {}
    pairs: list[int] = []
    narrow = weights is None and labels.shape[1] <= _NARROW
    for index, members in enumerate(sets):
        (pairs if narrow and len(members) == 2 else groups.setdefault(members[:-1], [])).append(index)
    if pairs:
        members_of = np.array([sets[index] for index in pairs]).T
        together[:, pairs] = of_class = _pairs(labels, members_of, *classes.T)
        one_each = bool((classes.sum(axis=1) == 1).all())
        per_set[pairs] = of_class.sum(axis=0) if one_each else _pairs(labels, members_of, slice(None))[0]
    columns = _columns(labels) if any(groups) else labels.T
    # Sets that differ in their last label are counted at once, among the samples that have the others.
    for shared, chosen in groups.items():
        last = [sets[index][-1] for index in chosen]
        if shared:
            rows = np.flatnonzero(columns[shared[0]])
            for label in shared[1:]:
                rows = rows[columns[label][rows]]
            low = min(last)
            near = [label - low for label in last]
            few = classes[rows], labels[:, low : max(last) + 1][rows]
            drawn = None if weights is None else np.asarray(weights)[..., rows]
            part = _count(*few) if drawn is None else _weigh(*few, drawn)
            together[..., chosen], per_set[..., chosen] = part.together[..., near], part.tasks[..., near]
        else:
            together[..., chosen], per_set[..., chosen] = whole.together[..., last], whole.tasks[..., last]
    return ContingencyTable(together, whole.attribute, per_set, whole.samples, whole.blank)


def _pairs(labels: BoolArray, pairs: IntArray, *choices: BoolArray | slice) -> FloatArray:
    """Samples that have both labels of each pair, for each choice of samples, [S, P]. A pair of one label counts it."""
    counted = np.empty((len(choices), len(pairs[0])))
    with thread_pools().limit(limits=1, user_api="blas"):  # Several threads wait for each other: three times slower.
        for row, choice in zip(counted, choices, strict=True):
            chosen = labels[choice]
            both = np.zeros((labels.shape[1], labels.shape[1]))
            for start in range(0, len(chosen), _ROWS):
                block = chosen[start : start + _ROWS].astype(np.float32)
                both += block.T @ block
            row[:] = both[pairs[0], pairs[1]]
    return counted


def _columns(labels: BoolArray) -> BoolArray:
    """The transpose [L, N], contiguous in memory; block by block, which is four times as fast as numpy."""
    turned = np.empty(labels.shape[::-1], dtype=np.bool_)
    for start in range(0, len(labels), _ROWS):
        turned[:, start : start + _ROWS] = labels[start : start + _ROWS].T
    return turned


def _weigh(classes: BoolArray, labels: BoolArray, weights: npt.ArrayLike) -> ContingencyTable:
    """The counts of resamples: a few matrix products."""
    drawn = np.asarray(weights, dtype=np.float64)
    if not drawn.ndim or drawn.shape[-1] != len(classes):
        raise ValueError(f"weights: one for each of {len(classes)} samples is needed, got shape {drawn.shape}")
    together = np.zeros((*drawn.shape[:-1], classes.shape[1], labels.shape[1]))
    for index in range(classes.shape[1]):  # Each sample is looked at once for each class it has, not for every class.
        rows = np.flatnonzero(classes[:, index])
        together[..., index, :] = drawn[..., rows] @ labels[rows].astype(np.float64)
    neither = ~(classes.any(axis=1) | labels.any(axis=1))
    return ContingencyTable(
        together,
        drawn @ classes.astype(np.float64),
        drawn @ labels.astype(np.float64),
        drawn.sum(axis=-1),
        drawn[..., neither].sum(axis=-1),
    )


def _count(classes: BoolArray, labels: BoolArray) -> ContingencyTable:
    """The counts of all samples, block by block."""
    together = np.zeros((classes.shape[1], labels.shape[1]))
    per_class, per_label, blank = np.zeros(classes.shape[1]), np.zeros(labels.shape[1]), 0
    for start in range(0, len(classes), _ROWS):
        left, right = (array[start : start + _ROWS].astype(np.float32) for array in (classes, labels))
        # Of zeros and ones nothing is invalid: BLAS has raised that flag, under load, and not again of the same ones.
        with np.errstate(invalid="ignore"):
            together += left.T @ right
            ones = np.ones(len(left), dtype=np.float32)
            per_class += ones @ left
            per_label += ones @ right
            blank += int(np.count_nonzero((left.sum(axis=1) + right @ np.ones(right.shape[1], dtype=np.float32)) == 0))
    return ContingencyTable(together, per_class, per_label, np.asarray(float(len(classes))), np.asarray(float(blank)))


def _exact(labels: BoolArray, most: int, least: int) -> list[tuple[int, ...]]:
    """The label sets of samples, by their bits."""
    rows, counted = np.unique(np.packbits(labels, axis=1), axis=0, return_counts=True)
    held = np.unpackbits(rows, axis=1, count=labels.shape[1])
    sizes = held.sum(axis=1)
    chosen = held[(sizes > 0) & (sizes <= most) & (counted >= least)]
    return [tuple(np.flatnonzero(row).tolist()) for row in chosen[: _SETS + 1]]


def _subsets(labels: BoolArray, most: int, least: int) -> list[tuple[int, ...]]:
    """All sets of labels that samples have, each grown from a smaller one; it stops when they are too many."""
    if most == 2 and labels.shape[1] <= _NARROW:
        pairs = np.array(np.triu_indices(labels.shape[1]))
        held = _pairs(labels, pairs, slice(None))[0] >= max(1, least)
        return [(first,) if first == second else (first, second) for first, second in pairs[:, held].T.tolist()]
    sizes = np.concatenate(
        [part.sum(axis=1, dtype=np.int32) for part in np.array_split(labels, -(-len(labels) // _ROWS))]
    )
    frequent = np.flatnonzero(_count(labels[:, :0], labels).tasks >= max(1, least))
    found: list[tuple[int, ...]] = [(int(label),) for label in frequent] if most else []
    rows = labels[sizes > 1]  # Only these have larger sets.
    columns = _columns(rows)
    grown = [(members, np.flatnonzero(columns[members[0]])) for members in found if len(rows) and most > 1]
    while grown and len(found) <= _SETS:
        members, holders = grown.pop()
        after = members[-1] + 1
        held = rows[holders, after:]
        for label in np.flatnonzero(held.sum(axis=0, dtype=np.int32) >= max(1, least)).tolist():
            found.append((*members, after + label))
            if len(members) + 1 < most:
                grown.append((found[-1], holders[held[:, label]]))
    return found


def _checked(name: str, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Multi-hot as bool, or labels as int64."""
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: [N, K] of 0 and 1 or [N] labels are needed, got shape {array.shape}")
    if not array.size:
        raise ValueError(f"{name}: no samples or no columns, shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: bool, int or float is needed, got {array.dtype}")
    if array.ndim == 2:
        return _as_bool(name, array)
    with np.errstate(invalid="ignore"):  # NaN as an integer: seen right after.
        labels = array.astype(np.int64)
    if (labels != array).any() or labels.min() < 0:
        raise ValueError(f"{name}: labels must be whole numbers from 0; give [N, K] of 0 and 1 where some have none")
    return labels


def _as_bool(name: str, array: npt.NDArray[np.generic]) -> BoolArray:
    """0 and 1 as bool, checked block by block."""
    if array.dtype == np.bool_:
        return np.asarray(array, dtype=np.bool_)
    held = np.empty(array.shape, dtype=np.bool_)
    for start in range(0, len(array), _ROWS):
        block = array[start : start + _ROWS]
        held[start : start + _ROWS] = block
        if (held[start : start + _ROWS] != block).any():
            raise ValueError(f"{name}: a multi-hot array holds 0 and 1 only")
    return held


def _spread(array: npt.NDArray[np.generic], width: int) -> BoolArray:
    """[N] labels as [N, width]; multi-hot arrays as they are."""
    if array.ndim == 2:
        return np.asarray(array, dtype=np.bool_)
    held = np.zeros((len(array), width), dtype=np.bool_)
    held.reshape(-1)[np.arange(len(array)) * width + array.astype(np.int64)] = True
    return held

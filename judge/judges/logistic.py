"""Logistic regressions on the same features, sparse and dense ones, solved side by side.

Judges are trained many times on the same captions: for every fold, seed, refit and task. Each training is a problem
with its own sample weights (0 for samples that are not used), and one product serves all problems that are not solved
yet. BENCHMARKS.md compares it with scikit-learn's ``LogisticRegression``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from judge.types import FloatArray, IntArray

# Largest entry of the mean gradient. Do not loosen it: at 1e-3, a captioner's LIC moved by its standard error, 0.005.
TOLERANCE = 1e-5
MAX_ITERATIONS = 1000
FORCING = 0.1  # Residual at which conjugate gradients end. Values from 0.1 to 0.5 take the same time.
_COLUMNS = 32  # Solved at a time: more are not faster.
_BLOCK = 16  # Columns of a dense product.
_TOGETHER = 1000  # Rows of a product with an embedding.
# Words whose block of the Hessian is inverted for the preconditioner, with the embedding's. The others' penalties are
# larger than what they add to it. 128 and 400 take as long.
_FREQUENT = 256
# At most one such word for so many samples. With few samples the inverse takes longer than the rest: LIC of 100 images
# took 20.9 s with all these words, and 15.6 s with one for ten samples.
_SAMPLES = 8
_CURVATURE = 0.2  # Second derivative of a sample's loss in that block: p (1 - p) of a judge that is unsure of a class.
_TINY = 1e-30
_SURE = 36.0  # Log-odds are clipped here: at 37 a probability is 1 in float64, and the loss of a miss infinite.

Single = npt.NDArray[np.float32]
Reals = npt.NDArray[np.floating[Any]]
"""In float64, or, for the steps of conjugate gradients, which need no more digits, in float32."""
Dense = tuple[Any, Reals]
"""A dense block of N samples: a sparse table [N, V] and the vectors [V, D] whose product it is; or None and itself."""


class Features:
    """Features of samples, from a sparse table of words [N, F] and ``dense`` blocks, such as an embedding.

    ``blocks`` are the places of words and of each dense block among the G + D features; each has a penalty of its own.

    ``merge``, [F, G], sparse, adds up features that occur in the same samples, such as all that occur once and in one
    caption. Exact: k equal columns get equal weights u and penalty k u^2; one column sqrt(k) times as large with weight
    sqrt(k) u gives the same log-odds and penalty. A sixth (human) to a third (generated) of COCO's columns are merged.

    ``often`` are the places of the most frequent words, dense blocks and the intercept: correlated features, for which
    the diagonal of the Hessian alone would be a poor preconditioner. ``squares`` are those of words, [G, N].
    """

    def __init__(self, table: Any, dense: Sequence[Dense] = ()) -> None:
        # Features of the same samples have the same sum of two random numbers of each; others do not.
        first, second = np.random.default_rng(0).random((2, table.shape[0]))
        self.merge = merging(np.unique(table.T @ (first + 1j * second), return_inverse=True)[1])
        self.rows, words = Rows(table, self.merge, dense), self.merge.shape[1]
        ends = np.cumsum([words, *(vectors.shape[1] for _, vectors in dense)]).tolist()
        self.blocks = (slice(words), *(slice(*ends) for ends in pairwise(ends)))
        self.squares = self.rows.columns[:words].power(2)
        number = min(_FREQUENT, table.shape[0] // _SAMPLES)
        frequent = np.sort(np.argsort(-self.squares.sum(axis=1).A1, kind="stable")[:number])
        self.often = np.append(frequent, np.arange(words, self.rows.shape[1]))
        self._inverses: dict[tuple[tuple[float, ...], float], Single] = {}
        held, others = self.rows.single.columns[frequent], _side_by_side(dense, table.shape[0])
        across = held @ others
        self._products = np.block([[(held @ held.T).toarray(), across], [across.T, others.T @ others]])

    def inverse(self, c: tuple[float, ...], curvature: float) -> Single:
        """About the inverse of the Hessian's block of features ``often``, 0 for ``blocks`` of C 0 (left out)."""
        from scipy.linalg import inv

        key = c, curvature
        if key not in self._inverses:
            each = np.full(self.rows.shape[1], np.inf)
            for part, value in zip(self.blocks, c, strict=True):
                each[part] = value
            kept = each[self.often] > 0
            places = slice(None) if kept.all() else np.ix_(kept, kept)
            block = single(curvature) * self._products[places]
            # With a little more, which float32 needs to invert those of many samples.
            block[np.diag_indices(len(block))] += single(1 / each[self.often[kept]] + 1e-5 * block.diagonal().max())
            self._inverses[key] = np.zeros_like(self._products)
            self._inverses[key][places] = inv(block)
        return self._inverses[key]


class Rows:
    """Features of samples as the left factor of products, [M, G + D + 1]: merged words, dense blocks, a column of ones.

    Blocks that are products are not multiplied out: products with their factors take a fraction of the time. They stand
    before the others. A column of a product has the same digits whatever the other columns are. BLAS must have one
    thread (:func:`judge.utils.parallel.threads`).

    Attributes:
        table: words, shares of the vectors of each block that is a product, and ones, [M, G + V + 1], sparse.
        vectors: of each such block, [V, D]. Elsewhere V and D are sums over the blocks.
        own: the other dense blocks, side by side, [M, D], in float32.
    """

    def __init__(self, table: Any, merge: Any, dense: Sequence[Dense] = ()) -> None:
        from scipy.sparse import csr_matrix, hstack

        words, ones = csr_matrix(table @ merge), csr_matrix(np.ones((table.shape[0], 1)))
        products = [(shares, vectors) for shares, vectors in dense if shares is not None]
        self.table: Any = hstack([words, *(shares for shares, _ in products), ones], format="csr")
        self.vectors: list[Reals] = [np.ascontiguousarray(vectors) for _, vectors in products]
        own = [single(vectors) for shares, vectors in dense if shares is None]
        # One block is not copied: captions of several indices share the vectors of their images.
        self.own = own[0] if len(own) == 1 else np.hstack([np.zeros((table.shape[0], 0), np.float32), *own])
        self.words = words.shape[1]
        width = sum(vectors.shape[1] for vectors in (*self.vectors, self.own))
        self.shape = table.shape[0], self.words + width + 1

    @cached_property
    def columns(self) -> Any:
        """The transposed table."""
        return self.table.T.tocsr()

    @cached_property
    def single(self) -> Rows:
        """The same in float32."""
        found = copy(self)
        found.table, found.columns = self.table.astype(np.float32), self.columns.astype(np.float32)
        found.vectors = [*map(single, self.vectors)]
        return found

    def __matmul__(self, factor: Reals) -> Reals:
        start = len(factor) - 1 - self.own.shape[1]
        found = self.table @ self._over_blocks(self.vectors, factor[:start], factor[-1:])
        return found + _product(self.own, single(factor[start:-1])) if self.own.shape[1] else np.asarray(found)

    def transposed(self, factor: Reals) -> Reals:
        """The product of the transposed features with ``factor``, [M, Q] -> [G + D + 1, Q]."""
        found = self.columns @ factor
        own = [_product(self.own.T, single(factor))] if self.own.shape[1] else []
        return self._over_blocks([vectors.T for vectors in self.vectors], found[:-1], *own, found[-1:])

    def _over_blocks(self, left: Sequence[Reals], values: Reals, *more: Reals) -> Reals:
        """``values`` in which each of ``left`` multiplies its rows after those of words; and ``more`` rows."""
        parts, start = [values[: self.words]], self.words
        for one in left:
            parts.append(_product(one, values[start : start + one.shape[1]]))
            start += one.shape[1]
        return np.concatenate([*parts, *more])


def _side_by_side(dense: Sequence[Dense], size: int) -> Single:
    """Dense blocks and a column of ones, [N, D + 1], in float32."""
    found = np.ones((size, sum(vectors.shape[1] for _, vectors in dense) + 1), dtype=np.float32)
    end = 0
    for shares, vectors in dense:
        first, end = end, end + vectors.shape[1]
        # Some rows at a time: a product in float64 of all would not fit into the processor's cache.
        for rows in (slice(start, start + _TOGETHER) for start in range(0, size, _TOGETHER)):
            found[rows, first:end] = vectors[rows] if shares is None else shares[rows] @ vectors
    return found


def _product(left: Reals, right: Reals) -> Reals:
    """A matrix product by blocks of columns of one size: BLAS sums products of other sizes in another order."""
    height, columns = right.shape
    padded = np.zeros((height, -(-columns // _BLOCK) * _BLOCK), dtype=right.dtype)
    padded[:, :columns] = right
    parts = [left @ padded[:, first : first + _BLOCK] for first in range(0, padded.shape[1], _BLOCK)]
    return np.hstack(parts)[:, :columns]


def merging(groups: IntArray) -> Any:
    """[F, G]: adds up the features of each group, numbered from 0; k of them weigh 1 / sqrt(k) each."""
    from scipy.sparse import csr_matrix

    shares = 1 / np.sqrt(np.bincount(groups))
    return csr_matrix((shares[groups], (np.arange(len(groups)), groups)), shape=(len(groups), len(shares)))


@dataclass
class Solved:
    """P regressions with A answers. Two exclusive answers are solved as one question, A' = 1; else A' = A.

    Attributes:
        coefficients: of G merged features, D dense ones and, last, the intercept, [G + D + 1, P, A'].
        open: answers that some but not all of a problem's samples have, [P, A'].
        shown: answers that any of them has, [P, A'].
        learnt: number of training samples, [P, 1].
        two: whether there are two answers that exclude each other.
        softmax: whether there are three or more that do.
    """

    coefficients: FloatArray
    open: npt.NDArray[np.bool_]
    shown: npt.NDArray[np.bool_]
    learnt: IntArray
    two: bool
    softmax: bool

    def only(self, problem: int) -> Solved:
        """One of the problems."""
        part = slice(problem, problem + 1)
        own = self.coefficients[:, part].copy()  # A view would keep all of them in memory.
        return Solved(own, self.open[part], self.shown[part], self.learnt[part], self.two, self.softmax)

    def probabilities(self, rows: Any) -> FloatArray:
        """Probabilities [M, P, A], in (0, 1), of samples' features [M, G + D + 1]."""
        from scipy.special import expit, softmax

        odds = self.odds(rows)
        if not self.softmax:
            found = np.asarray(expit(odds))
            return np.concatenate([1 - found, found], axis=2) if self.two else found
        found = np.where(self.shown, softmax(odds, axis=2), 0.5 / (self.learnt + 1))
        return np.asarray(found / found.sum(axis=2, keepdims=True))

    def odds(self, rows: Any) -> FloatArray:
        """Log-odds [M, P, A'], clipped at 36; of three or more exclusive answers up to a constant for all."""
        flat = np.asarray(rows @ self.coefficients.reshape(len(self.coefficients), -1))
        found = flat.reshape(rows.shape[0], *self.coefficients.shape[1:])
        if not self.softmax:
            found = np.where(self.open, found, np.where(self.shown, 1, -1) * np.log(2 * self.learnt + 2))
        return np.clip(found, -_SURE, _SURE)

    def weights(self, merge: Any) -> FloatArray:
        """What each of F features adds to the log-odds of an answer, [P, F, A]; ``merge`` is the features', [F, G].

        Exclusive answers: to log-probabilities, up to a constant for all (with two answers all of it to the second),
        except that the probability of one of three or more that training never shows is the same for all samples.
        """
        problems, answers = self.coefficients.shape[1:]
        flat = self.coefficients.reshape(len(self.coefficients), -1)
        found = np.asarray(merge @ flat[:-1]).reshape(-1, problems, answers).transpose(1, 0, 2)
        return np.concatenate([np.zeros_like(found), found], axis=2) if self.two else found


class Logistic(Solved):
    """P problems that share samples, features and answers; each fit starts from the last.

    An answer that all of a problem's samples have, or none, is not fitted: the opposite has the share of half a sample.

    ``answers``: [N, A] of 0 and 1; ``weights``: of each sample in each problem, [N, P]; ``exclusive``: each sample has
    exactly one of the answers (softmax; of two answers one sigmoid), else each answer is a question of its own.
    """

    def __init__(self, features: Features, answers: IntArray, weights: FloatArray, *, exclusive: bool) -> None:
        two = exclusive and answers.shape[1] == 2
        self.features, self.sample_weights = features, weights
        self.answers = (answers[:, 1:] if two else answers).astype(np.float64)
        learnt = np.count_nonzero(weights, axis=0)[:, None]
        count = self._count((weights > 0).astype(np.float64))
        coefficients = np.zeros((features.rows.shape[1], *count.shape))
        super().__init__(coefficients, (count > 0) & (count < learnt), count > 0, learnt, two, exclusive and not two)
        shares = np.clip(self._count(weights) / _total(weights)[:, None], 1e-15, 1 - 1e-15)
        coefficients[-1] = np.log(shares) if self.softmax else np.log(shares) - np.log1p(-shares)

    def start(self, problem: int, coefficients: FloatArray) -> None:
        """Start the next fit of a problem from the coefficients of others, [G + D + 1, A']."""
        fitted = self.open[problem]
        self.coefficients[:, problem, fitted] = coefficients[:, fitted]

    def _count(self, weights: FloatArray) -> FloatArray:
        """Summed weights [N, P] of the samples with each answer, [P, A']."""
        return np.stack([_total(weights * column[:, None]) for column in self.answers.T], axis=1)

    @property
    def _width(self) -> int:
        """Columns of a problem: one, or one for each answer of a softmax."""
        return self.answers.shape[1] if self.softmax else 1

    def fit(self, c: FloatArray, tolerance: float | None = None) -> None:
        """Fit with L2 penalties 1/``c`` [blocks, P], not on the intercept; none of problems whose ``c`` is NaN.

        A block whose ``c`` is 0 is left out: its coefficients are 0.

        Newton's method with conjugate gradients, like scikit-learn's "newton-cg" and to the same tolerance, but for
        several problems at once; one whose gradient is within ``tolerance``, by default TOLERANCE, is not changed any
        more. No digit depends on the other problems.
        """
        fitted = self.open.any(axis=1, keepdims=True) if self.softmax else self.open
        problems, questions = np.nonzero(fitted & np.asarray(np.isfinite(c).all(axis=0))[:, None])
        step, unsolved = max(1, _COLUMNS // self._width), 0
        for first in range(0, len(problems), step):
            some, asked = problems[first : first + step], questions[first : first + step]
            columns = np.arange(self._width) if self.softmax else asked[:, None]
            columns = np.broadcast_to(columns, (len(some), self._width))
            found = self.coefficients[:, some[:, None], columns]
            flat = np.ascontiguousarray(found.reshape(len(found), -1))
            weights, answers = self.sample_weights[:, some], self.answers[:, columns.ravel()]
            apart = not (self.two or self.softmax)
            some_problems = _Problems(self.features, weights, answers, c[:, some], self._width, apart)
            unsolved += some_problems.solve(flat, tolerance or TOLERANCE)
            self.coefficients[:, some[:, None], columns] = flat.reshape(found.shape)
        if unsolved:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(f"{unsolved} problems have not converged", ConvergenceWarning, stacklevel=2)

    def loss(self, weights: FloatArray) -> FloatArray:
        """Log loss [P] of the samples, weighted by ``weights`` [N, P] and summed; over all questions."""
        odds = self.odds(self.features.rows)
        answers = np.tile(self.answers, (1, odds.shape[1]))
        losses = _log_loss(odds.reshape(len(odds), -1), answers, self._width).reshape(*weights.shape, -1)
        return _total((weights[:, :, None] * losses).sum(axis=2))


@dataclass
class _Problems:
    """Q problems on the same N samples: ``weights`` [N, Q], ``answers`` 0 or 1, [N, Q * width].

    ``c``: inverse penalty of each block of features, [blocks, Q]; 0 for one that is left out. ``width``: columns of a
    problem: 1, or A for a softmax. ``apart``: whether each answer is a question of its own, as for tasks.
    """

    features: Features
    weights: FloatArray
    answers: FloatArray
    c: FloatArray
    width: int
    apart: bool

    def __post_init__(self) -> None:
        self.each, c = self.spread(self.weights), self.spread(self.c)
        self.penalties = np.divide(1, c, out=np.ones_like(c), where=c > 0)
        self.left_out = [np.flatnonzero(of == 0) for of in c]

    def spread(self, values: Reals) -> FloatArray:
        """Values of problems, [..., Q], for each of their columns, [..., Q * width]."""
        return np.repeat(values, self.width, axis=-1)

    def gather(self, values: Reals) -> FloatArray:
        """Sums over the columns of each problem, [..., Q * width] -> [..., Q]."""
        return np.asarray(values.reshape(*values.shape[:-1], -1, self.width).sum(axis=-1))

    def penalised(self, values: Reals, found: Reals) -> Reals:
        """``values`` + penalty times ``found``, [F, Q * width] all, except for the intercept, the last row."""
        for block, penalties in zip(self.features.blocks, self.penalties, strict=True):
            values[block] += penalties * found[block]
        return self.leave_out(values)

    def leave_out(self, values: Reals) -> Reals:
        """``values``, [F, Q * width], with 0 for blocks that are left out."""
        for block, columns in zip(self.features.blocks, self.left_out, strict=True):
            values[block, columns] = 0.0
        return values

    def solve(self, found: FloatArray, tolerance: float) -> int:
        """Update the coefficients, [F, Q * width], in place; returns the number of problems that have not converged."""
        from scipy.special import expit, softmax

        limits, odds = tolerance * _total(self.weights), self.features.rows @ self.leave_out(found)
        for _ in range(MAX_ITERATIONS):
            grouped = odds.reshape(len(odds), -1, self.width)
            shares = expit(odds) if self.width == 1 else softmax(grouped, axis=2).reshape(odds.shape)
            p = np.asarray(shares, dtype=np.float64)
            gradient = self.penalised(self.features.rows.transposed(self.each * (p - self.answers)), found)
            steepest = np.abs(gradient).max(axis=0).reshape(-1, self.width).max(axis=1)
            unsolved = np.flatnonzero(steepest > limits)
            if not len(unsolved):
                return 0
            columns = (unsolved[:, None] * self.width + np.arange(self.width)).ravel()
            weights, answers = self.weights[:, unsolved], self.answers[:, columns]
            part = _Problems(self.features, weights, answers, self.c[:, unsolved], self.width, self.apart)
            step = part.newton_step(p[:, columns], gradient[:, columns])
            change = self.features.rows @ step
            slope = part.gather(_total(gradient[:, columns] * step))
            length = part.spread(part.step_length((odds[:, columns], change), (found[:, columns], step), slope))
            found[:, columns] += length * step
            odds[:, columns] += length * change
        return len(unsolved)

    def newton_step(self, p: FloatArray, gradient: Reals) -> FloatArray:
        """-H^-1 gradient of each problem, approximately: preconditioned conjugate gradients.

        H = X^T D X + penalty, D the second derivatives of the samples' losses at probabilities ``p``. Ends when the
        residual of every problem is FORCING times the first one, in the preconditioner's norm.
        """
        # Above 0 even where all samples are certain: the intercept has no penalty to divide by instead.
        own = self.each * np.maximum(p * (1 - p), 1e-12)
        precondition, rows, residual = self._preconditioner(own), self.features.rows.single, -single(gradient)
        curvature, shares, weighed = single(own), single(p), single(self.each * p)
        step = np.zeros_like(residual)
        direction = precondition(residual)
        size = self._dot(residual, direction)
        goal = FORCING**2 * size
        for _ in range(MAX_ITERATIONS):
            odds = rows @ direction
            if self.width > 1:  # D of a softmax is not diagonal.
                odds = weighed * (odds - self.spread(self.gather(shares * odds)))
            else:
                odds *= curvature
            image = self.penalised(rows.transposed(odds), direction)
            length = single(np.where(size > goal, size / np.maximum(self._dot(direction, image), _TINY), 0.0))
            step += length * direction
            residual -= length * image
            solved = precondition(residual)
            size, before = self._dot(residual, solved), size
            if not (size > goal).any():
                break
            direction = direction * single(size / np.maximum(before, _TINY)) + solved
        return step.astype(np.float64)

    def _preconditioner(self, own: FloatArray) -> Callable[[Single], Single]:
        """Multiplication by an approximation of H^-1, where D is ``own``, [N, Q * width].

        From the diagonal of H; for frequent words, embedding and intercept from their block of H, as if D were the same
        for all samples: that of an unsure judge or, where many answers are rare, its mean to a power of 2. (For tasks
        this takes a third of the iterations.)
        """
        often, words = self.features.often, self.features.blocks[0]
        scale = single(1 / np.maximum(self.features.squares @ own + self.penalties[0], _TINY))
        curvatures = [_CURVATURE] * own.shape[1]
        if self.apart:
            mean = _total(own) / np.maximum(_total(self.each), _TINY)
            curvatures = (2.0 ** np.round(np.log2(mean))).tolist()
        groups: dict[tuple[tuple[float, ...], float], list[int]] = {}
        for column, (*c, curvature) in enumerate(zip(*self.spread(self.c).tolist(), curvatures, strict=True)):
            groups.setdefault((tuple(c), curvature), []).append(column)
        places: list[Any] = [np.ix_(often, np.array(of)) for of in groups.values()]
        if len(groups) == 1:
            places = [often]  # Whole rows are copied faster.
        inverses = [(place, self.features.inverse(*group)) for place, group in zip(places, groups, strict=True)]

        def precondition(residual: Single) -> Single:
            found = np.empty_like(residual)
            found[words] = scale * residual[words]
            for place, inverse in inverses:
                found[place] = _product(inverse, residual[place])
            return found

        return precondition

    def _dot(self, left: Reals, right: Reals) -> FloatArray:
        """Products of each problem's vectors, [F, Q * width] both, for each of its columns."""
        return self.spread(self.gather(_total(left * right)))

    def step_length(self, odds: tuple[Reals, Reals], found: tuple[Reals, Reals], slope: FloatArray) -> FloatArray:
        """For each problem the first of 1, 1/2, 1/4, ... that lowers its loss enough (Armijo's rule), up to rounding.

        ``odds`` and ``found`` are log-odds and coefficients before the step, and their changes; ``slope``, [Q], is that
        of the penalised log loss along the step.
        """
        blocks = list(zip(self.features.blocks, self.penalties, strict=True))
        zero = np.zeros(odds[0].shape[1])
        tilt = self.gather(sum((_total(p * found[0][part] * found[1][part]) for part, p in blocks), zero))
        bend = self.gather(sum((_total(p * found[1][part] ** 2) for part, p in blocks), zero)) / 2

        def loss(part: FloatArray) -> FloatArray:
            losses = self.weights * _log_loss(odds[0] + self.spread(part) * odds[1], self.answers, self.width)
            return np.asarray(_total(losses) + part * tilt + part**2 * bend)

        length, start = np.ones_like(slope), loss(np.zeros_like(slope))
        for _ in range(50):
            far = loss(length) > start + 1e-4 * length * slope + 1e-12 * (1 + start)
            if not far.any():
                break
            length[far] /= 2
        return length


def single(values: Any) -> Single:
    """``values`` in float32."""
    return np.asarray(values, dtype=np.float32)


def _log_loss(odds: Reals, answers: FloatArray, width: int) -> FloatArray:
    """Log loss of log-odds and answers 0 or 1, both [N, Q * width], to [N, Q]; stable for large odds."""
    if width == 1:
        return np.asarray(np.log1p(np.exp(-np.abs(odds))) + np.maximum(odds, 0) - answers * odds)
    grouped, truth = (values.reshape(len(odds), -1, width) for values in (odds, answers))
    return np.asarray(np.logaddexp.reduce(grouped, axis=2) - (truth * grouped).sum(axis=2))


def _total(values: FloatArray) -> FloatArray:
    """Sums over the rows of [N, Q], row by row: the sum of a column does not depend on other columns."""
    (found,) = np.asarray(_ones(len(values)) @ values)
    return np.asarray(found)


@lru_cache(maxsize=8)
def _ones(size: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(np.ones((1, size)))

"""Answers of judges as sums over captions: every value of a judged metric is a function of such sums.

A caption adds to one cell, by what it names and by the answer of its image: a count, and its score. Sums of members,
of images and of resamples are then sums of cells, and a metric's value a function of them (:class:`Statistic`). Priors
are frequencies of what captions say, and are estimated anew wherever sums are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from judge.metrics import Metric
from judge.metrics.amplification import AMPLIFICATIONS, log_mean
from judge.metrics.counted.contingency import divide
from judge.metrics.scores import SCORES, Judged, frequency
from judge.statistics.intervals import Rows
from judge.types import BoolArray, FloatArray
from judge.utils.cells import in_text

CELL = ["named", "tasks", "answer"]
CAPTION = ["side", "image_id", "index"]


class SideValue(NamedTuple):
    """A side's score (omega, psi), Q without priors, and the mean prior, with the trailing axes [...] of sums."""

    value: FloatArray
    quality: FloatArray
    prior: FloatArray


class Measured(NamedTuple):
    """Both sides, and the metric with the trailing axes [...] of the sums."""

    human: SideValue
    generated: SideValue
    value: FloatArray


def caption_table(rows: pd.DataFrame, score: str, asked: BoolArray | None = None) -> pd.DataFrame:
    """Captions of ``scores.parquet``, sorted: side, image_id, index, cell; and sums over the judges that scored each.

    ``score`` is a name in SCORES; ``asked`` are the answers that count, [R], by default all. n: their number; q: sum
    of their scores; baseline: sum of the loss of frequencies, where the score is relative to it.
    """
    asked = rows["probability"].notna().to_numpy() if asked is None else asked
    answer, predicted = (rows[name].astype("category").cat for name in ("answer", "predicted"))
    guess = predicted.set_categories(answer.categories).cat.codes.to_numpy()  # -1: what nobody has, or nobody asked.
    correct = guess == answer.codes.to_numpy()
    known = rows["baseline"].to_numpy(dtype=np.float64) if score == "gain" else 0.0
    probability, loss = (rows[name].to_numpy(dtype=np.float64) for name in ("probability", "loss"))
    judged = Judged(probability, correct, loss, known)
    scores = np.where(asked, SCORES[score].quantity(judged), 0.0)
    caption = rows.groupby(CAPTION, observed=True, sort=True).ngroup().to_numpy()
    _, first = np.unique(caption, return_index=True)
    table = in_text(rows[[*CAPTION, *CELL]].iloc[first].reset_index(drop=True))
    table = table.assign(n=np.bincount(caption, asked), q=np.bincount(caption, scores))
    if SCORES[score].relative:
        table["baseline"] = np.bincount(caption, np.where(asked, rows["baseline"], 0.0))
    return table


class Statistic:
    """A judged metric as a function of sums over captions; ``cells``: named, tasks and answer of each that occurs."""

    def __init__(self, metric: Metric, cells: pd.DataFrame) -> None:
        self.metric = metric
        self.score = SCORES[metric.score]
        self.amplify = AMPLIFICATIONS[metric.amplification]
        self._product = metric.product or self.score.pool is not None
        self.cells = pd.MultiIndex.from_frame(cells[CELL].drop_duplicates().sort_values(CELL))
        named, tasks, answer = (self.cells.get_level_values(name) for name in CELL)
        above = {"P(t)/P(a)": tasks, "P(a^)/P(T)": named, None: answer}[metric.prior]
        self._above, self.aboves = pd.factorize(above, sort=True)
        self._below, self.belows = pd.factorize(answer, sort=True)
        single = np.array([bool(name) and "|" not in name for name in self.aboves], dtype=np.bool_)
        # Captions that name no class, or several, have no P(a^): they are left out.
        self._counts = single if metric.weighs_named_class else np.ones(len(self.aboves), dtype=np.bool_)

    @property
    def width(self) -> int:
        """Number of sums of a side: scored captions, scores, and all captions (or their baseline), of each cell."""
        return 3 * len(self.cells)

    def side(self, sums: FloatArray) -> SideValue:
        """The value of one side, of sums [width, ...]; NaN where no caption counts."""
        scored, q, every = np.split(sums, 3)
        kept = self._counts[self._above]
        n, q = scored[kept], q[kept]
        if self.score.relative:
            value = np.asarray(1 - divide(q.sum(axis=0), every.sum(axis=0)))
            return SideValue(value, value, np.ones_like(value))
        if self.metric.prior is None:
            return self._plain(n, q)
        weights = self._weights(every)[kept]
        total = n.sum(axis=0)
        mean, prior = divide(q.sum(axis=0), total), divide((n * weights).sum(axis=0), total)
        quality = self.score.pool(mean) if self.score.pool else mean
        value = quality * prior if self._product else divide((q * weights).sum(axis=0), total)
        return SideValue(value, quality, prior)

    def _plain(self, n: FloatArray, q: FloatArray) -> SideValue:
        groups = self._below if self.metric.balanced else np.zeros_like(self._below)
        sums, counts = (_group(part, groups, int(groups.max()) + 1) for part in (q, n))
        mean = np.asarray(divide(sums, counts).mean(axis=0))
        value = self.score.pool(mean) if self.score.pool else mean
        return SideValue(value, value, np.ones_like(value))

    def _weights(self, every: FloatArray) -> FloatArray:
        """Prior weights w of the cells, [S, ...]."""
        above = _group(every, self._above, len(self.aboves))
        below = _group(every, self._below, len(self.belows))
        above[~self._counts] = 0
        # A cell that a resample does not hold counts nothing, whatever it would weigh.
        return np.nan_to_num(divide(frequency(above)[self._above], frequency(below)[self._below]))

    def __call__(self, human: FloatArray, generated: FloatArray) -> Measured:
        """Both sides and the metric, of sums [width, ...] each; of one side, with chance in the place of the other."""
        sides = self.side(human), self.side(generated)
        if self.metric.amplification == "one_side":
            chance = self.metric.chance(dict.fromkeys(self.belows, 1))
            sides = sides[0]._replace(value=np.full_like(sides[1].value, chance)), sides[1]
        return Measured(*sides, self.amplify(sides[0].value, sides[1].value))

    def pieces(self, human: FloatArray, generated: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each unit of the sums adds to the metric, [width] of each side, as the sums stand.

        The sums of the generated side times its pieces, less those of the human side times its own, are the metric less
        what is neutral. Scores without priors count from the chance level. With priors the logarithm is decomposed by
        the logarithmic mean of both sides (Ang, Energy Policy 2004): a caption adds by how much its weight, or its
        score, is above both sides' mean.
        """
        found = self(human, generated)
        if self.score.relative:
            # A caption adds by how much its answer is guessed better than from frequencies.
            return self._relative_pieces(human), self._relative_pieces(generated)
        if self.metric.prior is None:
            # The human side may be 0, of which only a ratio has no pieces.
            scale = 1 / found.human.value if self.metric.amplification == "ratio" else 1.0
            return self._plain_pieces(human) * scale, self._plain_pieces(generated) * scale
        if not min(found.human.value, found.generated.value) > 0:
            return self._unlogged_pieces(human, found), self._unlogged_pieces(generated, found)
        change = np.log(found.generated.value / found.human.value)
        scale = float(found.value / change) if change else 0.5
        loss = log_mean(1 / found.human.quality, 1 / found.generated.quality)
        value, quality, prior = map(log_mean, found.human, found.generated)
        kept = self._counts[self._above].astype(np.float64)
        sides = []
        for sums in (human, generated):
            scored, _, every = np.split(sums, 3)
            share = scale * kept / (scored * kept).sum()
            weights = self._weights(every)
            if self.score.pool:  # Q is one over the mean loss.
                parts = share * weights / prior, -share / loss
            elif self._product:
                parts = share * (weights / prior - 2), share / quality
            else:
                parts = -share, share * weights / value
            sides.append(np.concatenate([*parts, np.zeros_like(share)]))
        return sides[0], sides[1]

    def _unlogged_pieces(self, sums: FloatArray, found: Measured) -> FloatArray:
        """Pieces of a side with priors where one side is 0 and has no logarithm: those of the difference itself."""
        scored, _, every = np.split(sums, 3)
        kept = self._counts[self._above].astype(np.float64)
        total = found.human.value + found.generated.value
        each = kept * self._weights(every) / (scored * kept).sum() / total if total else np.zeros_like(kept)
        nothing = np.zeros_like(each)
        parts = (each * self.side(sums).quality, nothing) if self._product else (nothing, each)
        return np.concatenate([*parts, nothing])

    def _relative_pieces(self, sums: FloatArray) -> FloatArray:
        scored, _, every = np.split(sums, 3)
        each = np.full_like(scored, 1 / every.sum())
        return np.concatenate([np.zeros_like(each), -each, each])

    def _plain_pieces(self, sums: FloatArray) -> FloatArray:
        assert self.score.pool is None
        scored, *_ = np.split(sums, 3)
        groups = self._below if self.metric.balanced else np.zeros_like(self._below)
        counts = _group(scored, groups, int(groups.max()) + 1)
        each = 1 / (len(counts) * counts[groups])
        shares = _group(scored * each, self._below, len(self.belows))
        return np.concatenate([-self.score.chance(shares) * each, each, np.zeros_like(each)])

    def rows(self, captions: pd.DataFrame) -> Rows:
        """What each caption of :func:`caption_table` adds; images are numbered in the order of their ids."""
        cell = self.cells.get_indexer(pd.MultiIndex.from_frame(captions[CELL]))
        place = np.arange(len(captions))
        every = captions["baseline"].to_numpy() if self.score.relative else np.ones(len(captions))
        parts = [
            csr_array((values, (place, cell)), shape=(len(captions), len(self.cells)))
            for values in (captions["n"].to_numpy(), captions["q"].to_numpy(), every)
        ]
        image = pd.factorize(captions["image_id"], sort=True)[0]
        return Rows(csr_array(hstack(parts)), image, (captions["side"] == "generated").to_numpy())


def names_of(column: pd.Series[str] | pd.Index[str]) -> list[str]:
    """All names of a column whose rows join them by "|", sorted."""
    return sorted({name for names in column.unique() for name in names.split("|")} - {""})


def hot(column: pd.Series[str] | pd.Index[str], names: Sequence[str]) -> BoolArray:
    """Which of ``names`` each row holds, of names joined by "|", [C, len(names)]."""
    return np.asarray(held_names(column, names).toarray() > 0)


def held_names(column: pd.Series[str] | pd.Index[str], names: Sequence[str]) -> csr_array:
    """The same as 0 and 1, sparse."""
    codes, texts = pd.factorize(column)
    place = {name: number for number, name in enumerate(names)}
    held = [[place[name] for name in text.split("|") if name in place] for text in texts]
    ends, columns = np.cumsum([0, *map(len, held)]), np.array([*chain.from_iterable(held)], dtype=np.int64)
    return csr_array((np.ones(ends[-1]), columns, ends), (len(held), len(names)))[codes]


def _group(values: FloatArray, groups: np.ndarray, size: int) -> FloatArray:
    """Sums of ``values`` [S, ...] by ``groups`` [S], [size, ...]."""
    places = csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(size, len(groups)))
    return np.asarray(places @ values.reshape(len(values), -1)).reshape(size, *values.shape[1:])

"""Linear judges: logistic regression on a caption's words and word pairs, its static embedding, and vectors.

Vectors are of the caption's image, or what a captioner that is a frozen reader makes of image and caption.

Deterministic, fast, without torch but for images. They are not published attackers. Tables name them "linear" (words
alone), "embedding" and "words+embedding", and those that also see "linear+image" and "words+embedding+image". The
strength of regularisation changes LIC by more than captioners differ. Therefore C of each block (words, embedding,
vectors) is chosen within the training images by log loss, from fixed grids, and reported. Each third of these images is
held out in turn: one third alone made LIC's standard deviation a sixth larger. C is chosen once for both sides of a
captioner, from the first captions of each side together: chosen separately, its noise made up half of LIC's variance
beyond that of the test captions. Only "best" chooses C for each side, and may leave out the words or the embedding.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from judge.judges import Assignment, Backbone, Blueprint, Explanation, Keep, Materials, Modality, logistic
from judge.judges.image_vectors import ImageVectors, Reals
from judge.judges.logistic import Dense, Features, Logistic, Rows, Solved, merging
from judge.metrics.scores import centre
from judge.text.coded import Coded, SampleTable
from judge.text.embedding import WORDLLAMA, load_embedding
from judge.types import BoolArray, FloatArray, IntArray, Predictions, Sample, Target, Words

# Note of a judge -> the grid of the inverse penalty of its block of features, and the value at which others are chosen.
GRIDS = {
    "C": ((0.01, 0.03, 0.1, 0.3, 1.0, 3.0), 0.03),
    "C of embedding": ((0.1, 0.3, 1.0, 3.0, 10.0, 30.0), 0.3),
    "C of vectors": ((0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), 0.3),
}
INNER_FOLDS = 3  # Parts of the training images. Each is held out in turn to choose C; with tasks, only the first.
CHOOSING = 1e-4  # The solver's tolerance meanwhile. All of 40 folds chose as at 1e-6, in half the time; not at 1e-3.
_NEAR = 1e-3  # The solver's tolerance for a fit that others start from. At 1e-4 it costs more than it saves them.
# The solver's tolerance in refits, as a multiple. Values of COCO's refits move by 1% (DBAC) to 10% (U A->T) of their
# standard deviation, which makes errors larger by 0.5% at most.
_REFIT = 10.0
_COLUMNS = 128  # Problems times answers that are in memory at a time.


@dataclass(frozen=True, slots=True)
class Reading:
    """The features that a judge reads: ``words`` and word pairs, an ``embedding`` by its name, ``vectors``.

    With ``best``, each side chooses which of them, and C, by itself: C is 0 for what it leaves out.
    """

    words: bool = True
    embedding: str = ""
    best: bool = False
    vectors: bool = False

    @property
    def blocks(self) -> list[str]:
        """The keys of GRIDS of its blocks of features."""
        return [name for name, read in zip(GRIDS, (self.words, self.embedding, self.vectors), strict=True) if read]


WORDS = Reading()


class LinearJudge:
    """L2-penalised logistic regression, multinomial, or binary for each task.

    Words and word pairs are present or not; embeddings have length 1.
    """

    def __init__(self, target: Target, reading: Reading = WORDS) -> None:
        self.target, self.reading = target, reading
        self.c: dict[str, float] = {}
        self.images: ImageVectors | None = None

    def fit(
        self,
        samples: Sequence[Sample],
        *,
        seed: int,
        validation: Sequence[Sample] = (),  # noqa: ARG002 - of the protocol; there are no epochs to choose among
    ) -> Self:
        """Choose C by weighted log loss on held-out images, then fit on all of ``samples``."""
        places, weights = np.arange(len(samples)), np.array([sample.weight for sample in samples])
        alone = Assignment("human", samples, places, weights, places[:0], seed)
        train_together(self.target, [alone], lambda _, judge: vars(self).update(vars(judge)), reading=self.reading)
        return self

    def _set(
        self, terms: _Vocabulary, merge: Any, solved: Solved, c: Mapping[str, float], images: ImageVectors | None
    ) -> Self:
        self._terms, self._merge, self.solved, self.c, self.images = terms, merge, solved, dict(c), images
        return self

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], all above 0; of tasks also below 1."""
        return Predictions(self.solved.probabilities(self._rows(samples))[:, 0], self.target, self.c)

    def log_odds(self, samples: Sequence[Sample]) -> FloatArray:
        """[N, A]: log p of a class minus the mean log p of the others; of a task log p / (1 - p). Natural logarithms.

        More exact than from probabilities, which lose digits near 1.
        """
        if self.solved.softmax and not self.solved.shown.all():
            return centre(np.log(self.predict(samples).probabilities))
        found = self.solved.odds(self._rows(samples))[:, 0]
        if self.solved.two:
            return np.concatenate([-found, found], axis=1)
        return centre(found) if self.solved.softmax else found

    def weights(self, samples: Sequence[Sample]) -> tuple[Words, Any, FloatArray]:
        """Words and word pairs [F], how much of each a caption has [N, F], and what one adds to log-odds [F, A]."""
        captions = Coded.of(sample.words for sample in samples)
        terms, contains, maps = _terms_in(captions, self._terms, self._merge, self.reading)
        return terms, contains, self._added(maps, 0)

    def image_weights(self) -> FloatArray:
        """What a feature of the image adds to log-odds beyond its mean, the offset of ``images``: [F, A]."""
        assert self.images is not None
        return self._added(self.images.axes, len(self.solved.coefficients) - 1 - self.images.axes.shape[1])

    def _added(self, maps: Any, start: int) -> FloatArray:
        """What things add to log-odds, [F, A], if they are made of the features from ``start`` on, [F, some]."""
        from scipy.sparse import csr_matrix, hstack

        rest = len(self.solved.coefficients) - 1 - start - maps.shape[1]
        sides = [csr_matrix((maps.shape[0], width)) for width in (start, rest)]
        found = self.solved.weights(hstack([sides[0], csr_matrix(maps), sides[1]], format="csr"))[0]
        return found if self.target.kind == "tasks" else centre(found)

    def _rows(self, samples: Sequence[Sample]) -> Any:
        captions = Coded.of(sample.words for sample in samples)
        vectors = self.images.named(map(self.images.name, samples)) if self.images else None
        return Rows(self._terms.table(captions), self._merge, [*_dense(captions, self.reading, vectors)])

    @property
    def vocabulary(self) -> Words:
        """The words to which :meth:`tensors` refer."""
        return self._terms.words

    def tensors(self) -> dict[str, Any]:
        """The state of a trained judge besides its vocabulary, for :meth:`restore`."""
        state = {name: getattr(self.solved, name)[0] for name in ("open", "shown", "learnt")}
        state |= {"coefficients": self.solved.coefficients[:, 0], "C": np.array(list(self.c.values()))}
        state |= {"embedding": _key_of(self.reading)} if self.reading.embedding else {}
        state |= {"offset": self.images.offset, "axes": self.images.axes} if self.images else {}
        return state | {"terms": self._terms.known, "groups": self._merge.indices.astype(np.int64)}

    @classmethod
    def restore(cls, target: Target, vocabulary: Words, tensors: Mapping[str, Any], reading: Reading = WORDS) -> Self:
        """The judge with these :meth:`tensors`; its predictions are the same to the last digit.

        Its ``images`` hold no vectors: :meth:`~judge.judges.image_vectors.ImageVectors.of_others` adds them.

        Raises:
            ValueError, KeyError: the tensors are not those of such a judge.
        """
        size, answers = len(vocabulary), len(target.classes)
        exclusive = target.kind == "attribute"
        two = exclusive and answers == 2
        terms, merge = tensors["terms"], merging(tensors["groups"])
        of_answers = dict.fromkeys(("open", "shown"), (1 if two else answers,))
        expected = of_answers | {"learnt": (1,), "C": (len(reading.blocks),), "groups": terms.shape}
        dense = load_embedding(reading.embedding).width if reading.embedding else 0
        images = ImageVectors.fitted(tensors["offset"], tensors["axes"]) if reading.vectors else None
        seen = images.rows.shape[1] if images else 0
        expected |= {"offset": images.axes.shape[:1]} if images else {}
        expected["coefficients"] = merge.shape[1] + dense + seen + 1, *of_answers["open"]
        wrong = [name for name, shape in expected.items() if tensors[name].shape != shape]
        if dense and not np.array_equal(tensors["embedding"], _key_of(reading)):
            raise ValueError(f"it was trained with another table of the name '{reading.embedding}'")
        rising = bool((np.diff(terms, prepend=-1) > 0).all()) and bool((terms < size + size**2).all())
        known = _Vocabulary(vocabulary, terms) if rising else None
        if wrong or known is None or len(set(vocabulary)) < size:
            raise ValueError(f"{wrong[0] if wrong else 'terms'} of another judge")
        masks = tensors["open"][None], tensors["shown"][None], tensors["learnt"][None]
        solved = Solved(tensors["coefficients"][:, None], *masks, two, exclusive and not two)
        c = dict(zip(reading.blocks, tensors["C"].tolist(), strict=True))
        return cls(target, reading)._set(known, merge, solved, c, images)


def train_together(
    target: Target,
    assignments: Sequence[Assignment],
    keep: Keep | None = None,
    images: ImageVectors | None = None,
    reading: Reading = WORDS,
) -> list[Predictions]:
    """Train the judges of all sides and splits of one captioner; assignments with the same captions share features.

    C is that of an assignment's ``settings``, or is chosen for each split from the first captions of both sides; of
    each side by itself if the ``reading`` is the best.
    """
    by_captions: dict[int, list[int]] = {}
    for place, assignment in enumerate(assignments):
        by_captions.setdefault(id(assignment.samples), []).append(place)
    groups = [[assignments[place] for place in places] for places in by_captions.values()]
    made = dict[int, _Captions]()  # Features of all captions at a time would take hundreds of megabytes.
    chosen = {(one.side, one.split): one.settings for one in assignments if one.settings}
    if len(chosen) < len({(one.side, one.split) for one in assignments}):
        sides = [group[0].side for group in groups]
        first = {side: sides.index(side) for side in sides}
        made = {place: _Captions(target, groups[place][0].samples, reading, images) for place in first.values()}
        for together in [[side] for side in first] if reading.best else [list(first)]:
            places = [first[side] for side in together]
            found_c = _choose_c([made[place] for place in places], [groups[place] for place in places])
            chosen |= {(side, split): c for split, c in found_c.items() for side in together}
    found: dict[int, Predictions] = {}
    step = max(1, _COLUMNS // len(target.classes))
    for number, (group, places) in enumerate(zip(groups, by_captions.values(), strict=True)):
        captions = made.pop(number, None) or _Captions(target, group[0].samples, reading, images)
        features = captions.features
        for start in range(0, len(group), step):
            part = group[start : start + step]
            c = [chosen[one.side, one.split] for one in part]
            refits = keep is None and all(one.settings for one in part)
            model = captions.fit(part, c, _REFIT if refits else 1.0)
            probabilities = model.probabilities(features.rows)
            for column, (one, place) in enumerate(zip(part, places[start : start + step], strict=True)):
                found[place] = Predictions(probabilities[one.predict, column], target, dict(c[column]))
                if keep:
                    judge = LinearJudge(target, reading)
                    keep(place, judge._set(captions.terms, features.merge, model.only(column), c[column], images))
    return [found[place] for place in range(len(assignments))]


def explain(target: Target, assignments: Sequence[Assignment], reading: Reading = WORDS) -> Explanation:
    """Weights of words and word pairs in judges of the same captions, whose ``settings`` have C; always the same."""
    samples = assignments[0].samples
    captions = _Captions(target, samples, reading)
    model = captions.fit(assignments, [one.settings for one in assignments])
    found = model.probabilities(captions.features.rows)
    answers = [Predictions(found[one.predict, p], target, dict(one.settings)) for p, one in enumerate(assignments)]
    coded = SampleTable.of(samples, len(target.classes)).coded
    terms, contains, maps = _terms_in(coded, captions.terms, captions.features.merge, reading)
    return Explanation(terms, contains, model.weights(maps), answers)


def _dense(captions: Coded, reading: Reading, images: Reals | None = None) -> Iterator[Dense]:
    """The embedding of captions, and the vectors of their images, [N, D]."""
    if reading.embedding:
        embedding = load_embedding(reading.embedding)
        yield embedding.factors(captions)
    if images is not None:
        yield None, images


def _key_of(reading: Reading) -> IntArray:
    """The checksum of the embedding's table."""
    return np.frombuffer(bytes.fromhex(load_embedding(reading.embedding).key), dtype=np.uint8).astype(np.int64)


def _terms_in(captions: Coded, terms: _Vocabulary, merge: Any, reading: Reading) -> tuple[Words, Any, Any]:
    """Terms [F], how much of each captions have [N, F], and what features each is made of, [F, G + D].

    With an embedding words follow once more: the part of each in it.
    """
    from scipy.sparse import block_diag, hstack

    names, contains = terms.terms, terms.table(captions)
    if not reading.embedding:
        return names, contains, merge
    embedding = load_embedding(reading.embedding)
    shares, vectors = embedding.factors(captions)
    maps = block_diag([merge, vectors], format="csr")
    return (*names, *captions.words), hstack([contains, shares], format="csr"), maps


class _Vocabulary:
    """Words and pairs of neighbours, the terms of captions.

    ``known``: codes of the terms, rising, [F]: the code of a word is its place among ``words``; that of a pair is the
    number of words plus the two places, as digits in that base.
    """

    def __init__(self, words: Words, known: IntArray) -> None:
        self.words, self.known = words, known

    @property
    def terms(self) -> Words:
        """The terms, [F]."""
        size, words = len(self.words), self.words
        pairs = (divmod(code - size, size) for code in self.known[self.known >= size].tolist())
        return *(words[code] for code in self.known[self.known < size]), *(f"{words[a]} {words[b]}" for a, b in pairs)

    def table(self, captions: Coded) -> Any:
        """Which terms captions contain, [N, F], sparse, 0 or 1."""
        return self.table_of(len(captions), *_codes(captions, self.words))

    def table_of(self, size: int, rows: IntArray, codes: IntArray) -> Any:
        """The table of ``size`` captions, from :func:`_codes`."""
        from scipy.sparse import csr_matrix

        places = np.searchsorted(self.known, codes)
        places[places == len(self.known)] = 0
        held = self.known[places] == codes if len(self.known) else np.zeros(len(codes), dtype=np.bool_)
        found = csr_matrix((np.ones(held.sum()), (rows[held], places[held])), shape=(size, len(self.known)))
        found.data[:] = 1.0  # It held how often a caption repeats a term.
        return found


def _codes(captions: Coded, words: Words) -> tuple[IntArray, IntArray]:
    """The caption of each word and pair, by its place, and its code with the words of a vocabulary; -1: unknown."""
    codes, rows, size = captions.among(words), np.repeat(np.arange(len(captions)), captions.lengths), len(words)
    first, second = codes[:-1], codes[1:]
    pairs = (rows[:-1] == rows[1:]) & (first >= 0) & (second >= 0)
    return np.append(rows, rows[:-1][pairs]), np.append(codes, size + first[pairs] * size + second[pairs])


def _terms_of(captions: Coded, reading: Reading, vectors: Reals | None) -> tuple[_Vocabulary, Features]:
    """All terms of captions, and the features of captions and of what is seen, whose vectors are [N, D]."""
    words = captions.words if reading.words else ()
    found = _codes(captions, words) if reading.words else (np.zeros(0, dtype=np.int64),) * 2
    terms = _Vocabulary(words, np.unique(found[1]))
    return terms, Features(terms.table_of(len(captions), *found), [*_dense(captions, reading, vectors)])


@lru_cache(maxsize=2)
def _vectors_of(seen: tuple[str | None, ...], images: ImageVectors) -> Reals:
    """The vectors of images by their names; several captions of the same images share the array."""
    return images.named(seen)


class _Captions:
    """The captions of one side and index, and the regressions on them."""

    def __init__(
        self, target: Target, samples: Sequence[Sample], reading: Reading, images: ImageVectors | None = None
    ) -> None:
        table, self.reading = SampleTable.of(samples, len(target.classes)), reading
        self.images, self.scenes = table.images, table.scenes
        vectors = _vectors_of(images.names(samples, table.seen), images) if images else None
        self.terms, self.features = _terms_of(table.coded, reading, vectors)
        self.exclusive = target.kind == "attribute"
        self.answers = table.truth.astype(np.int64)
        self._fitted = dict[tuple[float, ...], FloatArray]()

    def fit(self, assignments: Sequence[Assignment], c: Sequence[Mapping[str, float]], loose: float = 1.0) -> Logistic:
        """A fitted problem for each assignment, to ``loose`` times the solver's tolerance.

        Problems of tasks start from a fit to all captions, which takes half the steps of a start from nothing.
        """
        model = self.problems(self.weights(assignments))
        if not self.exclusive:
            for problem, of in enumerate(c):
                model.start(problem, self._of_all(of))
        penalties = self.penalties({name: np.array([of[name] for of in c]) for name in self.reading.blocks})
        model.fit(penalties, loose * logistic.TOLERANCE)
        return model

    def _of_all(self, c: Mapping[str, float]) -> FloatArray:
        """Coefficients of a fit to all captions, [G + D + 1, A], near enough to start from."""
        key = tuple(c[name] for name in self.reading.blocks)
        if key not in self._fitted:
            model = self.problems(np.ones((len(self.images), 1)))
            model.fit(self.penalties({name: np.array([c[name]]) for name in self.reading.blocks}), _NEAR)
            self._fitted[key] = model.coefficients[:, 0]
        return self._fitted[key]

    def penalties(self, c: Mapping[str, FloatArray]) -> FloatArray:
        """Inverse penalties of the blocks of features, [blocks, P], from those that it reads, [P] each."""
        found = [c[name] for name in self.reading.blocks]
        return np.array(found if self.reading.words else [np.ones_like(found[0]), *found])

    def problems(self, weights: FloatArray) -> Logistic:
        """Problems with these sample weights, [N, P]."""
        return Logistic(self.features, self.answers, weights, exclusive=self.exclusive)

    def weights(self, assignments: Sequence[Assignment]) -> FloatArray:
        """The weight of each caption in the training of each assignment, [N, P]."""
        found = np.zeros((len(self.images), len(assignments)))
        for column, assignment in enumerate(assignments):
            found[assignment.train, column] = assignment.weights
        return found


def _choose_c(each: Sequence[_Captions], groups: Sequence[Sequence[Assignment]]) -> dict[Hashable, Mapping[str, float]]:
    """C of each block of features for each split, by the held-out log loss of all captions: the last block's first."""
    splits = list(dict.fromkeys(assignment.split for group in groups for assignment in group))
    classes = [captions.answers.argmax(axis=1) * captions.exclusive for captions in each]
    held_out = {split: _held_out(each, groups, classes, split) for split in splits}
    trials = []
    parts = range(INNER_FOLDS if each[0].exclusive else 1)
    for captions, group in zip(each, groups, strict=True):
        weights = np.tile(captions.weights(group), len(parts))
        out = np.array([np.isin(captions.images, held_out[one.split][part]) for part in parts for one in group]).T
        columns = [splits.index(one.split) for one in group] * len(parts)
        trials.append((captions, captions.problems(weights * ~out), weights * out, columns))
    c = {name: np.full(len(splits), GRIDS[name][1]) for name in each[0].reading.blocks}
    for name in reversed(c):
        c[name] = _choose_one(trials, c, name)
    return {split: {name: float(c[name][place]) for name in c} for place, split in enumerate(splits)}


def _choose_one(
    trials: Sequence[tuple[_Captions, Logistic, FloatArray, list[int]]], c: Mapping[str, FloatArray], name: str
) -> FloatArray:
    """C of a block for each split, [S]; others as in ``c``.

    Up its grid from the value at which others are chosen, with warm starts, until the loss rises; and where it rises at
    once, down. The best judge goes up from nothing.
    """
    grid, start = GRIDS[name]
    grid, first = ((0.0, *grid), 0) if trials[0][0].reading.best else (grid, grid.index(start))

    def loss_at(value: float, splits: BoolArray) -> FloatArray:
        """The loss of some of the splits, [S]; 0 of others."""
        found, tried = np.zeros(len(splits)), {**c, name: np.where(splits, value, np.nan)}
        for captions, model, held_out, column in trials:
            model.fit(captions.penalties({block: of[column] for block, of in tried.items()}), CHOOSING)
            np.add.at(found, column, model.loss(held_out))
        return found

    best = np.full_like(c[name], grid[first])
    least = loss_at(grid[first], best == grid[first])
    for further in (grid[first + 1 :], grid[:first][::-1]):
        falling = best == grid[first]
        for value in further:
            loss = loss_at(value, falling)
            falling &= loss < least
            best[falling], least[falling] = value, loss[falling]
            if not falling.any():
                break
    return best


def _held_out(
    each: Sequence[_Captions], groups: Sequence[Sequence[Assignment]], classes: Sequence[IntArray], split: Hashable
) -> list[list[str]]:
    """Thirds of the training images of a split, stratified by class where possible; the same on both sides.

    Images of a scene are together.
    """
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

    truth, scenes = dict[str, int](), dict[str, str]()
    for captions, group, known in zip(each, groups, classes, strict=True):
        for assignment in group:
            if assignment.split == split:
                scenes |= captions.scenes
                images = [captions.images[row] for row in assignment.train.tolist()]
                truth |= dict(zip(images, known[assignment.train].tolist(), strict=True))
                seed = assignment.seed
    images = sorted(truth)
    answers = np.unique([truth[image] for image in images], return_inverse=True)[1]
    # A class may have fewer images than there are folds; sets of tasks are mostly rare.
    rare = not each[0].exclusive or np.bincount(answers).min() < INNER_FOLDS
    kind = StratifiedGroupKFold if scenes else KFold if rare else StratifiedKFold
    folds = kind(INNER_FOLDS, shuffle=True, random_state=seed % 2**32)
    apart = [scenes.get(image, image) for image in images] if scenes else None
    return [[images[row] for row in held] for _, held in folds.split(answers, answers, apart)]


_READ = {"linear": "1-2-grams", "embedding": "static embeddings", "best": "1-2-grams, static embeddings, or both"}


def make_blueprint(name: str) -> Blueprint:
    """The judge "linear", "embedding", "words+embedding", "best", or one of these with "+image"; ":NAME" may follow."""
    kind, _, reference = name.partition(":")
    image, kind = kind.endswith("+image"), kind.removesuffix("+image")
    embedding = "" if kind == "linear" else reference or WORDLLAMA
    reading = Reading(kind != "embedding", embedding, best=kind == "best", vectors=image)
    if embedding:
        load_embedding(embedding)
    what = _READ.get(kind, "1-2-grams, static embeddings") + (", image features" if image else "")
    found = Blueprint(
        name,
        f"this project; {what} and logistic regression",
        judge=partial(LinearJudge, reading=reading),
        joint=partial(train_together, reading=reading),
        explain=partial(explain, reading=reading),
        restore=partial(LinearJudge.restore, reading=reading),
        fingerprint=(lambda _: {"embedding": load_embedding(embedding).key}) if embedding else None,
        reads=frozenset({"embedding"} if embedding else ()),
    )
    if not image:
        return found
    # One that also sees is always trained with others, from vectors of the run's images.
    both: frozenset[Modality] = frozenset({"caption", "image"})
    reads = found.reads | {"image_features"}
    return replace(found, judge=None, explain=None, modalities=both, backbone=make_encoder, reads=reads)


def make_encoder(materials: Materials) -> Backbone:
    """The frozen network whose vectors of images linear judges read."""
    from judge.judges.backbones import ENCODER, make_backbone

    return make_backbone(materials, ENCODER, pooled=True)


BLUEPRINTS = {name: make_blueprint(name) for name in ("linear", "linear+image")}

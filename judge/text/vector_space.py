"""Captions as vectors of a few hundred numbers: their words, weighed by how rare they are, and their embedding.

Words are reduced by latent semantic analysis (Deerwester et al., JASIS 1990), and both parts are scaled to length 1. A
rotation then keeps the directions in which captions vary most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from judge.text.embedding import WORDLLAMA, load_embedding
from judge.types import FloatArray, Words

Reals = npt.NDArray[np.float32]
FEATURES = ("words+embedding", "embedding", "linear")
"""Names of judges whose features of captions these are: words and embedding, or one of them."""
TOPICS, WIDTH = 300, 200
# Words of fewer captions tell a judge of thousands of images nothing.
_LEAST = 3
# Captions from which directions are learnt, at most (of COCO's 21,600 captions even 5,000 moved no value by more than a
# fifth of its standard error); and those of which vectors are made together, in float64.
_LEARNT, TOGETHER = 50_000, 20_000


class VectorSpace:
    """The vectors of captions that vary like ``captions``, which count by ``weights``, [N].

    At most 50,000 captions are read, drawn at random: more would take more memory.
    ``judge``: "words+embedding", "embedding", or "linear" for words alone; a name of an embedding may follow a colon.
    """

    def __init__(self, captions: Sequence[Words], weights: FloatArray, judge: str) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        if len(captions) > _LEARNT:
            some = np.sort(np.random.default_rng(0).permutation(len(captions))[:_LEARNT])
            captions, weights = [captions[place] for place in some.tolist()], weights[some]
        kind, _, reference = judge.partition(":")
        # Its name: processes send vector spaces to each other, and each reads the table once.
        self._embedding = None if kind == "linear" else reference or WORDLLAMA
        self._mean = np.zeros(1, dtype=np.float32)
        found = Counter(word for words in captions for word in {*words})
        known = [word for word, count in found.items() if count >= _LEAST and kind != "embedding"]
        self._counter = (
            TfidfVectorizer(analyzer=tuple, vocabulary=sorted(known), sublinear_tf=True) if len(known) > 1 else None
        )
        if self._counter:
            counts = self._counter.fit_transform(captions)
            topics = min(TOPICS, len(known))
            self._topics = TruncatedSVD(topics, algorithm="randomized", n_iter=2, random_state=0).fit(counts)
        words, rows = self.parts(captions)
        self._mean = rows.mean(axis=0)
        rows = _blocks(words, rows - self._mean)
        _, axes = np.linalg.eigh((rows.T @ (weights[:, None] * rows)).astype(np.float64))
        self._axes = axes[:, -WIDTH:].astype(np.float32)

    def parts(self, captions: Sequence[Words]) -> tuple[Reals, Reals]:
        """Words and embedding of captions, [N, W] and [N, E]; those of several captions may be added up."""
        starts = range(0, max(1, len(captions)), TOGETHER)
        words, rows = zip(*(self._parts_of(captions[start : start + TOGETHER]) for start in starts), strict=True)
        return np.concatenate(words), np.concatenate(rows)

    def _parts_of(self, captions: Sequence[Words]) -> tuple[Reals, Reals]:
        nothing = np.zeros((len(captions), 0), dtype=np.float32)
        words = self._topics.transform(self._counter.transform(captions)) if self._counter else nothing
        rows = load_embedding(self._embedding).captions(captions) if self._embedding else nothing
        return words.astype(np.float32), rows.astype(np.float32) - self._mean

    def vectors(self, words: Reals, embedding: Reals) -> Reals:
        """[N, D] of captions, or of sums of captions, of these parts."""
        return np.asarray(_blocks(words, embedding) @ self._axes)


def _blocks(*parts: Reals) -> Reals:
    """The parts, each of length 1, side by side."""
    return np.concatenate([unit(part) for part in parts], axis=1)


def unit(rows: Reals) -> Reals:
    """Rows of length 1, [N, D]; rows of zeros stay as they are."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0))

"""Word vectors: read from files, or learnt from captions.

Only the words in use are in memory, however large the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.text.vectors.files import FloatArray32, Rows, read_file
from judge.text.vectors.learnt import learn
from judge.types import Words

CORPUS = "corpus"
# The cosine distance below which one word may replace another. DBAC (supplement, A) chose 0.4 for GloVe, the least at
# which 60% of the tokens that a captioner lacks find a word. By the same rule, in steps of 0.05, on the four captioners
# of the shared captions: with vectors learnt from the corpus, 53 to 56% find one at 0.6 and 64 to 66% at 0.65 (objects
# hidden; with gender hidden 60 to 63% and 71 to 73%).
DELTA = 0.4
DELTA_LEARNT = 0.65


@dataclass(frozen=True, slots=True)
class Vectors:
    """Words and their vectors.

    Attributes:
        rows: word -> row of ``matrix``; words in alphabetical order.
        matrix: [V, D], finite, no row all zero.
        source: where they come from, for reports.
        missing: number of requested words without a vector.
        delta: the default cosine distance below which one word may replace another.
    """

    rows: Mapping[str, int]
    matrix: FloatArray32
    source: str
    missing: int
    delta: float = DELTA


def load_vectors(reference: str, words: Iterable[str], *, captions: Sequence[Sequence[str]] = ()) -> Vectors:
    """Vectors of ``words``, spelt exactly so (our tokeniser's words are lower case).

    Args:
        reference: ``corpus``: learnt from ``captions`` (:func:`judge.text.vectors.learnt.learn`); else a file
            (:func:`judge.text.vectors.files.read_file`): GloVe text, word2vec text or binary, fastText ``.vec``,
            gzip of each, recognised by content.
        words: the words in use.
        captions: masked human captions as words; needed for ``corpus`` alone.

    Raises:
        JudgeError: as ``read_file``.
    """
    wanted = frozenset(words)
    if reference == CORPUS:
        source = f"{CORPUS}: learnt from {len(captions):,} human captions"
        return make_vectors(learn(captions, wanted), wanted, source, delta=DELTA_LEARNT)
    return make_vectors(read_file(reference, wanted), wanted, reference)


def make_vectors(found: Rows, wanted: Iterable[str], source: str, *, delta: float = DELTA) -> Vectors:
    """``found`` as one matrix, without vectors of zeros alone, which have no direction."""
    known = sorted(word for word, row in found.items() if row.any())
    matrix = np.stack([found[word] for word in known]) if known else np.zeros((0, 1), dtype=np.float32)
    rows = {word: index for index, word in enumerate(known)}
    return Vectors(rows, matrix, source, sum(word not in rows for word in set(wanted)), delta)


class VectorCache:
    """The vectors of a run, read or learnt once.

    Args:
        reference: as of :func:`load_vectors`.
        vocabulary: returns every word of the run, so that a file is read once.
    """

    def __init__(self, reference: str, vocabulary: Callable[[], Iterable[str]]) -> None:
        self.reference, self._vocabulary = reference, vocabulary
        self._known: dict[tuple[Words, ...], Vectors] = {}

    def vectors(self, captions: Sequence[Words]) -> Vectors:
        """The vectors of the reference; for ``corpus``, learnt from these masked human captions.

        Raises:
            JudgeError: as ``load_vectors``.
        """
        key = tuple(captions) if self.reference == CORPUS else ()
        if key not in self._known:
            words = {word for caption in key for word in caption} if key else self._vocabulary()
            self._known[key] = load_vectors(self.reference, words, captions=key)
        return self._known[key]

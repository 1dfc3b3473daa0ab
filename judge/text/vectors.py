"""Word vectors: read from files, or learnt from captions, in which words used in similar contexts get similar vectors.

Only the words in use are in memory, however large the file. Source of learnt vectors: Levy, Goldberg and Dagan, TACL
2015 (positive pointwise mutual information, its context distribution smoothed by 0.75, and the truncated SVD with
singular values to the power of 0.5); 1 / distance as in GloVe (Pennington et al., EMNLP 2014).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from judge.text.vector_files import FloatArray32, Rows, read_file
from judge.types import FloatArray, Words
from judge.utils.parallel import thread_pools

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CORPUS = "corpus"
# The cosine distance below which one word may replace another. DBAC (supplement, A) chose 0.4 for GloVe, the least at
# which 60% of the tokens that a captioner lacks find a word. By the same rule, in steps of 0.05, on the four captioners
# of the shared captions: with vectors learnt from the corpus, 53 to 56% find one at 0.6 and 64 to 66% at 0.65 (objects
# hidden; with gender hidden 60 to 63% and 71 to 73%).
DELTA = 0.4
DELTA_LEARNT = 0.65
# Two words on either side: wider windows bring together what occurs together (umpire, baseball), not what is alike.
WINDOW = 2
# As in word2vec and GloVe: rarer words have too few contexts.
MINIMUM = 5
# On COCO's captions, near-synonyms (sofa and couch, motorbike and motorcycle) then lie 0.1 to 0.3 apart; with 300
# dimensions they lie 0.2 to 0.5 apart. How far apart a word and its substitute may lie: ``DELTA_LEARNT``.
DIMENSION = 100
_SMOOTHING = 0.75
# Up to as many words the whole matrix is quickly decomposed.
_FEW = 300


@dataclass(frozen=True, slots=True)
class Vectors:
    """Words in alphabetical order, with their rows of ``matrix``, [V, D], finite, no row all zero.

    ``source``: where they come from, for reports; ``missing``: number of requested words without a vector; ``delta``:
    the default cosine distance below which one word may replace another.
    """

    rows: Mapping[str, int]
    matrix: FloatArray32
    source: str
    missing: int
    delta: float = DELTA


def load_vectors(reference: str, words: Iterable[str], *, captions: Sequence[Sequence[str]] = ()) -> Vectors:
    """Vectors of ``words``, spelt exactly so (our tokeniser's words are lower case).

    ``reference``: ``corpus``: learnt from ``captions``, masked human ones as words (:func:`learn`); else a file of
    :func:`judge.text.vector_files.read_file`.
    """
    wanted, learnt = frozenset(words), reference == CORPUS
    found = learn(captions, wanted) if learnt else read_file(reference, wanted)
    known = sorted(word for word, row in found.items() if row.any())  # Zeros alone have no direction.
    matrix = np.stack([found[word] for word in known]) if known else np.zeros((0, 1), dtype=np.float32)
    rows = {word: index for index, word in enumerate(known)}
    source = f"{CORPUS}: learnt from {len(captions):,} human captions" if learnt else reference
    return Vectors(rows, matrix, source, len(wanted - rows.keys()), DELTA_LEARNT if learnt else DELTA)


class VectorCache:
    """The vectors of a run, read or learnt once; ``vocabulary`` returns all of its words."""

    def __init__(self, reference: str, vocabulary: Callable[[], Iterable[str]]) -> None:
        self.reference, self._vocabulary = reference, vocabulary
        self._known: dict[tuple[Words, ...], Vectors] = {}

    def vectors(self, captions: Sequence[Words]) -> Vectors:
        """The vectors of the reference; for ``corpus``, learnt from these masked human captions."""
        key = tuple(captions) if self.reference == CORPUS else ()
        if key not in self._known:
            words = {word for caption in key for word in caption} if key else self._vocabulary()
            self._known[key] = load_vectors(self.reference, words, captions=key)
        return self._known[key]


def learn(
    captions: Sequence[Sequence[str]], wanted: Set[str], *, dimension: int = DIMENSION, minimum: int = MINIMUM
) -> Rows:
    """Vectors of the words ``wanted`` that occur ``minimum`` times or more in masked captions; deterministic.

    Special tokens count as words here, so that words near a hidden one are alike. Fewer words give smaller vectors.
    """
    counts = Counter(word for caption in captions for word in caption)
    words = sorted(word for word, count in counts.items() if count >= minimum)
    if not words:
        return {}
    index = {word: number for number, word in enumerate(words)}
    # Rare words keep their positions, so that their neighbours come no closer to each other.
    flat = np.array([index.get(word, -1) for caption in captions for word in caption], dtype=np.int64)
    caption_of = np.repeat(np.arange(len(captions)), [len(caption) for caption in captions])
    ppmi = _ppmi(_cooccurrence(flat, caption_of, len(words)))
    if not ppmi.nnz:
        return {}
    matrix = _truncated_svd(ppmi, dimension).astype(np.float32)
    # A word that occurs beside no other more often than at chance level has no row: what the SVD gives it is rounding.
    known = np.flatnonzero(np.diff(ppmi.indptr))
    return {words[row]: matrix[row] for row in known.tolist() if words[row] in wanted}


def _truncated_svd(ppmi: csr_array, dimension: int) -> FloatArray:
    """Left singular vectors times the roots of their singular values: [V, min(dimension, V)].

    Exact: a randomised SVD, of 7 power iterations even, moved cosines by up to 0.2.
    """
    from scipy.sparse.linalg import svds

    words = ppmi.shape[0]
    # The products are many and small: on a busy machine, several threads take ten times as long.
    with thread_pools().limit(limits=1, user_api="blas"):
        if words <= max(dimension + 1, _FEW):
            left, singular, _ = np.linalg.svd(ppmi.toarray())
        else:
            start = np.random.default_rng(0).normal(size=words)
            left, singular, _ = svds(ppmi, dimension, v0=start, ncv=min(words - 1, dimension * 3 // 2 + 10))
    order = np.argsort(-singular)[:dimension]
    truncated: FloatArray = left[:, order] * np.sqrt(singular[order])
    return truncated


def _cooccurrence(flat: np.ndarray, caption_of: np.ndarray, words: int) -> csr_array:
    """How often words occur within ``WINDOW`` of each other, weighted by 1 / distance: [V, V], symmetric."""
    from scipy.sparse import coo_array, csr_array

    found = csr_array((words, words), dtype=np.float64)
    for distance in range(1, min(WINDOW, len(flat) - 1) + 1):
        near = (caption_of[distance:] == caption_of[:-distance]) & (flat[distance:] >= 0) & (flat[:-distance] >= 0)
        left, right = flat[:-distance][near], flat[distance:][near]
        weights = np.full(len(left), 1 / distance)
        found = csr_array(found + coo_array((weights, (left, right)), shape=(words, words)).tocsr())
    return csr_array(found + found.T)


def _ppmi(cooccurrence: csr_array) -> csr_array:
    """Positive PMI, [V, V]: log P(w, c) / (P(w) P(c)^0.75), where above 0."""
    from scipy.sparse import coo_array

    pairs = cooccurrence.tocoo()
    totals = np.asarray(cooccurrence.sum(axis=1), dtype=np.float64)
    smoothed = totals**_SMOOTHING
    smoothed /= smoothed.sum() or 1.0
    row, column = pairs.coords
    values = np.log(pairs.data / (totals[row] * smoothed[column]))
    kept = values > 0
    return coo_array((values[kept], (row[kept], column[kept])), shape=cooccurrence.shape).tocsr()

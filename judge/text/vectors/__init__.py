"""Word vectors: read from files, taken from an encoder, or learnt from captions.

Only the words in use are kept: a file of 5 GB costs the memory of a vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.text.vectors.files import FloatArray32, Rows, read_file
from judge.text.vectors.learnt import learn
from judge.types import Words

CORPUS = "corpus"
HUGGING_FACE = "hf:"
# The cosine distance below which one word may replace another; vectors of different sources need different ones.
# DBAC (supplement, A) chose 0.4 for GloVe, the least at which 60% of what a captioner lacks finds a word of its own. By
# the same rule, in steps of 0.05, on the shared captions: the share of lacking tokens (occurrences of people's words
# that a captioner never uses) that find one, over the captioners nic_balanced, nic_equalizer, nic_plus, nic_upweight,
# gender hidden (A->T) and objects hidden (T->A):
#            delta   0.4       0.5       0.6       0.65      0.7       0.75
# corpus     A->T    .19-.22   .38-.40   .60-.63   .71-.73   .76-.79   .78-.81
#            T->A    .15-.17   .30-.34   .53-.56   .64-.66   .73-.76   .76-.79
# MiniLM     A->T    .20-.23   .29-.34   .44-.47   .56-.59   .71-.73   .87-.89
#            T->A    .16-.18   .24-.29   .39-.42   .51-.53   .65-.68   .84-.87
# That is of the 3,597 images with a label. On all 10,301, gender hidden, more words have a vector: corpus .81-.83 at
# 0.65, MiniLM .74-.75 at 0.7.
DELTA = 0.4
DELTA_LEARNT = 0.65
DELTA_EMBEDDINGS = 0.7


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
        reference: ``corpus``: learnt from ``captions`` (:func:`judge.text.vectors.learnt.learn`); ``hf:NAME`` or
            ``hf:FOLDER``: the input embeddings of a Hugging Face encoder
            (:func:`judge.text.vectors.pretrained.read_embeddings`); else a file
            (:func:`judge.text.vectors.files.read_file`): GloVe text, word2vec text or binary, fastText ``.vec``,
            gzip of each, recognised by content.
        words: the words in use.
        captions: masked human captions as words; needed for ``corpus`` alone.

    Raises:
        JudgeError: no such file or model; a file that is empty, cut off, damaged, of mixed width, not UTF-8, or of
            no known format; a value of a word in use that is no finite number.
    """
    wanted = frozenset(words)
    if reference == CORPUS:
        source = f"{CORPUS}: learnt from {len(captions):,} human captions"
        return make_vectors(learn(captions, wanted), wanted, source, delta=DELTA_LEARNT)
    if reference.startswith(HUGGING_FACE):
        from judge.text.vectors.pretrained import read_embeddings

        name = reference.removeprefix(HUGGING_FACE).strip()
        found = read_embeddings(name, wanted)
        return make_vectors(found, wanted, f"input embeddings of {name}", delta=DELTA_EMBEDDINGS)
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
        self._known: dict[object, Vectors] = {}

    def vectors(self, captions: Sequence[Words]) -> Vectors:
        """The vectors of the reference; for ``corpus``, learnt from these masked human captions, once.

        Raises:
            JudgeError: as ``load_vectors``.
        """
        learnt = self.reference == "corpus"
        key = tuple(captions) if learnt else self.reference
        if key not in self._known:
            words = {word for caption in captions for word in caption} if learnt else set(self._vocabulary())
            self._known[key] = load_vectors(self.reference, words, captions=captions if learnt else ())
        return self._known[key]

"""Word vectors: read from the files that people hold, taken from an encoder, or learnt from captions.

Only the words in use are kept: a file of 5 GB costs the memory of a vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.vectors.files import read_file
from judge.vectors.learnt import learn
from judge.vectors.rows import FloatArray32, Rows

CORPUS = "corpus"
HUGGING_FACE = "hf:"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Words and their vectors.

    Attributes:
        rows: word -> row of ``matrix``; words in alphabetical order.
        matrix: [V, D], finite, no row all zero.
        source: where they come from, for reports.
        missing: words asked for that have no vector.
    """

    rows: Mapping[str, int]
    matrix: FloatArray32
    source: str
    missing: int


def load_vectors(reference: str, words: Iterable[str], *, captions: Sequence[Sequence[str]] = ()) -> Vectors:
    """Vectors of ``words``, spelt exactly so (our tokeniser's words are lower case).

    Args:
        reference: ``corpus``: learnt from ``captions`` (:func:`judge.vectors.learnt.learn`); ``hf:NAME`` or
            ``hf:FOLDER``: the input embeddings of a Hugging Face encoder
            (:func:`judge.vectors.pretrained.read_embeddings`); else a file (:func:`judge.vectors.files.read_file`):
            GloVe text, word2vec text or binary, fastText ``.vec`` or ``.bin``, gzip of each, recognised by content.
        words: those in use.
        captions: masked human captions as words; needed for ``corpus`` alone.

    Raises:
        JudgeError: no such file or model; a file that is empty, cut off, damaged, of mixed width, not UTF-8, or of
            no known format; a value of a word in use that is no finite number.
    """
    wanted = frozenset(words)
    if reference == CORPUS:
        return make_vectors(learn(captions, wanted), wanted, f"{CORPUS}: learnt from {len(captions):,} human captions")
    if reference.startswith(HUGGING_FACE):
        from judge.vectors.pretrained import read_embeddings

        name = reference.removeprefix(HUGGING_FACE).strip()
        return make_vectors(read_embeddings(name, wanted), wanted, f"input embeddings of {name}")
    return make_vectors(read_file(reference, wanted), wanted, reference)


def make_vectors(found: Rows, wanted: Iterable[str], source: str) -> Vectors:
    """``found`` as one matrix; a vector of nothing but zeros has no direction, so its word has none."""
    known = sorted(word for word, row in found.items() if row.any())
    matrix = np.stack([found[word] for word in known]) if known else np.zeros((0, 1), dtype=np.float32)
    rows = {word: index for index, word in enumerate(known)}
    return Vectors(rows, matrix, source, sum(word not in rows for word in set(wanted)))

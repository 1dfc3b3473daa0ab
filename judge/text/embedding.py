"""Static embeddings of captions: a table of token vectors that was distilled from a language model. No torch.

A word's vector is the sum of those of its tokens, and a caption's the sum of its words', scaled to length 1: the mean
of the caption's tokens, up to its length. Tokens of these tables never cross a space, so words can be embedded one by
one, and what each word adds to a linear function of the embedding is known exactly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from judge.errors import JudgeError
from judge.text.coded import Coded
from judge.text.vector_files import FloatArray32, read_file
from judge.types import FloatArray, Words
from judge.utils.files import from_home
from judge.utils.hub import advice_on_path, fetch, loading
from judge.utils.reading import memory_limit, opening, regular

#: Miller's wordllama (MIT): 256 numbers for each of 32,000 tokens. Its wheel holds the table; it needs no hub.
WORDLLAMA = "wordllama"
_ROWS = 1000  # Embeddings in memory at a time: 2 MB.
_INSTEAD = f"use --embedding {WORDLLAMA}, or none"


class Embedding:
    """A table of word vectors.

    ``reference`` is ``wordllama``; a folder of model2vec's (``model.safetensors``, ``tokenizer.json``), or its name on
    the hub; or a file of word vectors (:func:`judge.text.vector_files.read_file`). ``key``: checksum of the files.
    """

    def __init__(self, reference: str) -> None:
        self._known: dict[str, FloatArray32] = {}
        files = _find(reference)
        self._embed = _of_file(reference) if len(files) == 1 else _of_tokens(files[0], files[1], reference)
        self.key = _checksum(files)

    @property
    def width(self) -> int:
        """D, the numbers of an embedding."""
        return len(self.words([""])[0])

    def words(self, words: Sequence[str]) -> FloatArray32:
        """Vectors of words, [V, D]; zeros for unknown ones. Each word is looked up once."""
        new = sorted(set(words) - self._known.keys())
        if new:
            self._known.update(zip(new, self._embed(new), strict=True))
        return np.stack([self._known[word] for word in words]) if words else self.words([""])[:0]

    def captions(self, captions: Iterable[Words]) -> FloatArray:
        """Embeddings of captions, [N, D], of length 1, or 0 without known words."""
        coded = Coded.of(captions)
        rows = np.asarray(_counts(coded) @ self.words(coded.words).astype(np.float64))
        return np.asarray(rows * _inverse(np.linalg.norm(rows, axis=1))[:, None])

    def factors(self, captions: Coded) -> tuple[Any, FloatArray]:
        """Embeddings as a product: what each word counts in each caption, [N, V], sparse; vectors of words, [V, D]."""
        from scipy.sparse import diags

        counts, vectors = _counts(captions), self.words(captions.words).astype(np.float64)
        # All embeddings at a time, which only their lengths are needed of, would not fit into the processor's cache.
        starts = range(0, len(captions), _ROWS)
        lengths = [np.linalg.norm(counts[start : start + _ROWS] @ vectors, axis=1) for start in starts]
        return diags(_inverse(np.concatenate([*lengths, np.zeros(0)]))) @ counts, vectors


def _counts(captions: Coded) -> Any:
    """How often each caption has each word, [N, V], sparse."""
    from scipy.sparse import csr_matrix

    shape = len(captions), len(captions.words)
    counts = csr_matrix((np.ones(len(captions.codes)), captions.codes, captions.starts), shape=shape)
    counts.sum_duplicates()
    return counts


def _inverse(lengths: FloatArray) -> FloatArray:
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


@lru_cache(maxsize=2)
def load_embedding(reference: str) -> Embedding:
    """The table with this name, read once in a process."""
    return Embedding(reference)


def _find(reference: str) -> list[Path]:
    """The files of a table: weights and tokenizer, or one file of word vectors."""
    where = f"--embedding {reference}"
    if reference == WORDLLAMA:
        package = find_spec(WORDLLAMA)
        if package is None or not package.submodule_search_locations:
            raise JudgeError("the package wordllama is not installed", where=where, mend="pip install wordllama")
        root = Path(package.submodule_search_locations[0])
        return [
            root / "weights" / "l2_supercat_256.safetensors",
            root / "tokenizers" / "l2_supercat_tokenizer_config.json",
        ]
    path = from_home(reference)
    if path.is_dir():
        return [path / "model.safetensors", path / "tokenizer.json"]
    if path.exists():
        return [path]
    if advice_on_path(reference) or reference.partition("@")[0].count("/") != 1:
        mend = "check the path; a name on the hub is OWNER/NAME"
        raise JudgeError("no such file or folder", where=where, mend=mend)
    folder = fetch(reference, where, what="cannot be fetched", mend=_INSTEAD)
    return [folder / "model.safetensors", folder / "tokenizer.json"]


def _of_file(reference: str) -> Callable[[Sequence[str]], FloatArray32]:
    (first,) = read_file(reference, None).values()

    def embed(words: Sequence[str]) -> FloatArray32:
        found = read_file(reference, frozenset(words))
        return np.stack([found.get(word, np.zeros_like(first)) for word in words])

    return embed


def _of_tokens(weights: Path, tokenizer: Path, reference: str) -> Callable[[Sequence[str]], FloatArray32]:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    where = f"--embedding {reference}"
    with opening(weights, folder="name the folder", absent=_INSTEAD, where=where):
        size = regular(weights).stat().st_size
    if size > memory_limit():
        raise JudgeError(f"{weights.name} has {size:,} bytes, more than fit into memory", where=where, mend=_INSTEAD)
    with loading("cannot be read", where, _INSTEAD):
        tensors = load_file(weights)
        tokens = Tokenizer.from_file(str(regular(tokenizer)))
    tables = [table for table in tensors.values() if table.ndim == 2 and table.dtype.kind == "f"]
    if len(tables) != 1 or len(tables[0]) < tokens.get_vocab_size() or not np.isfinite(tables[0]).all():
        raise JudgeError("holds no table with a finite vector for each token", where=where, mend=_INSTEAD)
    table = tables[0].astype(np.float32)
    tokens.no_padding()
    tokens.no_truncation()

    def embed(words: Sequence[str]) -> FloatArray32:
        encoded = tokens.encode_batch(list(words), add_special_tokens=False)
        return np.stack([table[np.array(one.ids, dtype=np.int64)].sum(axis=0) for one in encoded])

    return embed


def _checksum(files: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        with opening(file, folder="name the file", absent=_INSTEAD), regular(file).open("rb") as opened:
            hashlib.file_digest(opened, lambda: digest)
    return digest.hexdigest()

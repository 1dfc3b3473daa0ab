"""Vectors out of every format, byte by byte as their descriptions say; learnt ones; and files with faults."""

from __future__ import annotations

import gzip
import math
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers import fault_of

from judge.corpus.captions import read_captions
from judge.corpus.labels import read_labels
from judge.text import vectors as module
from judge.text.alignment import Aligner, find_gaps, is_special
from judge.text.lexicon import load_lexicon, mask
from judge.text.tokens import tokenize
from judge.text.vectors import Vectors, learn, load_vectors

Table = dict[str, np.ndarray]
RNG = np.random.default_rng(0)
TABLE: Table = {
    word: RNG.normal(size=7).astype(np.float32)
    for word in ["</s>", "a", "couch", "sofa", "2020", ".", "naïve", "犬", "dog", "puppy"]
}
TABLE["sofa"] = TABLE["couch"] + np.float32(0.1)


def numbers(row: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in row)


def glove(table: Table) -> bytes:
    return "".join(f"{word} {numbers(row)}\n" for word, row in table.items()).encode()


def word2vec_text(table: Table) -> bytes:
    return f"{len(table)} {len(next(iter(table.values())))}\n".encode() + glove(table)


def fasttext_vec(table: Table) -> bytes:
    """fastText puts a space behind every number."""
    return word2vec_text(table).replace(b"\n", b" \n").replace(b" \n", b"\n", 1)


FORMATS = {"glove": glove, "word2vec text": word2vec_text, "fastText .vec": fasttext_vec}


def write(folder: Path, data: bytes, *, packed: bool = False) -> str:
    """A file whose name says nothing."""
    path = folder / "vectors.dat"
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    return str(path)


def row(vectors: Vectors, word: str) -> np.ndarray:
    return vectors.matrix[vectors.rows[word]]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same(name: str, packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path, FORMATS[name](TABLE), packed=packed)
    vectors = load_vectors(path, [*TABLE, "absent"])
    assert list(vectors.rows) == sorted(TABLE)
    assert (vectors.missing, vectors.source, vectors.matrix.dtype) == (1, path, np.float32)
    assert vectors.delta == 0.4
    for word, expected in TABLE.items():
        np.testing.assert_array_equal(row(vectors, word), expected)
    human = [("a", "sofa", "puppy", "<gender>", "absent", "naïve")]
    aligned, _ = Aligner("contextual", vectors).align(human, [("couch", "a", "dog", ".")])
    assert aligned == [("a", "couch", aligned[0][2], "<gender>", "<unk>", aligned[0][5])]
    kept = load_vectors(path, ["dog"])
    assert (list(kept.rows), kept.matrix.shape, kept.missing) == (["dog"], (1, 7), 0)


def test_words_of_glove_may_hold_spaces(tmp_path: Path) -> None:
    """As some of GloVe 840B's do: ". . ." and "at name@domain.com"."""
    path = write(tmp_path, b"the 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\n5 10 11 12\n")
    vectors = load_vectors(path, ["the", ". . .", "at name@domain.com", "at", "5"])
    assert list(vectors.rows) == [". . .", "5", "at name@domain.com", "the"]
    assert row(vectors, ". . .").tolist() == [4, 5, 6]
    assert row(vectors, "5").tolist() == [10, 11, 12]


def test_memory_is_that_of_the_words_in_use(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = {f"word{number}": rng.integers(1, 9, 1000).astype(np.float32) for number in range(2500)}
    data = word2vec_text(table)
    path = write(tmp_path, data, packed=True)
    tracemalloc.start()
    vectors = load_vectors(path, ["word7", "word2499"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(row(vectors, "word2499"), table["word2499"])
    assert peak < 5e6 < len(data)


NAN = {**TABLE, "dog": np.full(7, np.nan, dtype=np.float32)}
FAULTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"vectors\.dat: file is empty"),
    "glove cut": (b"a 1 2 3\nb 1 2 3\nc 1 2", "line 3: holds 2 numbers where others hold 3"),
    "word2vec text a line short": (
        b"\n".join(word2vec_text(TABLE).split(b"\n")[:-2]),
        "line 10: its first line says 10 vectors, and it holds 9",
    ),
    "no vectors": (b"2 7\n", "holds no vectors after its first line"),
    "mixed, longer": (b"a 0.1 0.2\nb 0.1 0.2 0.3\n", "line 2: holds 3 numbers where others hold 2"),
    "nan in text": (glove(NAN), "line 9: the vector of 'dog' holds a value that is no finite number"),
    "too large": (b"dog 1e300 1\n", "line 1: the vector of 'dog'"),
    "not UTF-8": (b"a 1 2\ncaf\xe9 1 2\n", "line 2: its word is not UTF-8"),
    "word2vec binary": (b"2 7\na " + TABLE["a"].tobytes(), "known format.*gensim converts word2vec's binary files"),
    "prose": (b"Dear reader, this is a letter.\nYours\n", "holds no word vectors of a known format"),
    "pickle": (b"\x80\x04" + bytes(99), "is a pickle"),
    "no line ends": (b"a 1 2 " + b"3 " * 2**22, "line 1: too long for a vector.* JUDGE_NO_LIMITS"),
    "wide": (b"a" + b" 3" * 100_001 + b"\n", "line 1: has over 100,000 numbers.* JUDGE_NO_LIMITS"),
    "gzip cut": (gzip.compress(glove(TABLE))[:300], "cut off or damaged"),
    "gzip damaged": (gzip.compress(glove(TABLE))[:-8] + bytes(8), "cut off or damaged"),
    "zip": (b"PK\x03\x04" + bytes(99), "is an archive. Unpack it first"),
    "fastText model": (b"\xba\x16O/\x0c" + bytes(99), "is a fastText model. Give the .vec that is published"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_in_one_line(fault: str, tmp_path: Path) -> None:
    data, expected = FAULTS[fault]
    path = write(tmp_path, data)
    line = fault_of(load_vectors, path, [*TABLE])
    assert re.search(expected, line)
    assert line.startswith(path)


def test_places_that_are_no_file(tmp_path: Path) -> None:
    assert "is a folder. Give one file" in fault_of(load_vectors, str(tmp_path), ["a"])
    assert "no such file. Give corpus, or a file" in fault_of(load_vectors, str(tmp_path / "absent.vec"), ["a"])


def information(captions: list[tuple[str, ...]], minimum: int) -> tuple[list[str], np.ndarray]:
    """Positive PMI by its definition: loops, window 2, 1 / distance, contexts to the power of 0.75."""
    spoken = [word for caption in captions for word in caption]
    words = sorted({word for word in spoken if spoken.count(word) >= minimum})
    pairs = dict[tuple[str, str], float]()
    for caption in captions:
        for i, one in enumerate(caption):
            for j, other in enumerate(caption):
                if i != j and abs(i - j) <= 2 and one in words and other in words:
                    pairs[one, other] = pairs.get((one, other), 0) + 1 / abs(i - j)
    of = {word: sum(count for (one, _), count in pairs.items() if one == word) for word in words}
    total = sum(of.values())
    smoothed = sum(count**0.75 for count in of.values())
    found = np.zeros((len(words), len(words)))
    for (one, other), count in pairs.items():
        joint = count / total
        alone, context = of[one] / total, of[other] ** 0.75 / smoothed
        found[words.index(one), words.index(other)] = max(0, math.log(joint / (alone * context)))
    return words, found


def cosines(matrix: np.ndarray) -> np.ndarray:
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize("few", [0, 300], ids=["sparse", "whole"])
def test_learnt_vectors_are_those_of_the_definition(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    rng = np.random.default_rng(4)
    spoken = [f"w{number}" for number in range(12)]
    captions = [tuple(spoken[n] for n in rng.zipf(1.6, size=6) % 12) for _ in range(60)]
    words, expected = information(captions, minimum=3)
    left, singular, _ = np.linalg.svd(expected)
    for dimension in (4, 100):
        found = learn(captions, set(words), dimension=dimension, minimum=3)
        assert sorted(found) == [word for word, any_ in zip(words, expected.any(axis=1), strict=True) if any_]
        exact = (left * np.sqrt(singular))[:, :dimension][[words.index(word) for word in found]]
        np.testing.assert_allclose(cosines(np.stack(list(found.values()))), cosines(exact), atol=1e-4)


@pytest.mark.slow
def test_the_default_delta_suits_real_captions(coco: Path) -> None:
    """DBAC's rule: 60% of the lacking tokens of each captioner are substituted; 0.05 less would be too little."""
    human = read_captions(coco / "captions_human.json", side="human").by_image
    images = read_labels(coco / "gender.csv", attribute="gender").by_image
    lexicon = load_lexicon("coco-objects")
    substituted, before = [], []
    for path in sorted((coco / "results").iterdir()):
        sides = [human, read_captions(path, side="generated").by_image]
        people, captioner = [[mask(tokenize(text), lexicon) for i in images for text in side[i]] for side in sides]
        words = {word for side in (people, captioner) for caption in side for word in caption if not is_special(word)}
        gaps = find_gaps(people, captioner, load_vectors("corpus", words, captions=people))
        for shares, delta in ((substituted, 0.65), (before, 0.6)):
            shares.append(gaps.report(delta).lacking_substituted)
    assert len(substituted) == 4
    assert min(substituted) > 0.6 > min(before)

"""Align human captions with the generated side's vocabulary.

A captioner's vocabulary is smaller than that of human captions, which alone would let a judge tell the sides apart.
LIC: CVPR 2022, section 4. Unlike in DPAC and DBAC, function words replace function words only, and content words
content words: learnt vectors have "during" next to "tennis".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Self

import numpy as np

from judge.errors import some
from judge.text.tokens import kind_of
from judge.text.vectors import Vectors
from judge.types import FloatArray, Words

AlignmentName = Literal["none", "constant", "contextual"]
UNKNOWN = "<unk>"
#: If a smaller share of the lacking tokens finds a word, DBAC (supplement, A) calls the threshold too low.
ENOUGH = 0.6
#: Thresholds of the delta curve.
DELTAS = tuple(step / 20 for step in range(21))

_BLOCK = 2**23  # Cosines in memory at a time: 64 MB.
_TIE = 1e-9  # Distances that differ by less are equal: the last bits of a product depend on the position of a column.


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """What an alignment did to the human side; shares in [0, 1], kept + substituted + unknown = 1.

    ``words``: distinct words; ``tokens``: occurrences. Special tokens count as neither. ``delta``: 0 if nothing is
    substituted. ``lacking_substituted``: of the tokens that the generated side lacks; None if it lacks none.
    """

    words: int
    words_kept: float
    words_substituted: float
    words_unknown: float
    tokens: int
    tokens_kept: float
    tokens_substituted: float
    tokens_unknown: float
    delta: float
    lacking_substituted: float | None


@dataclass(frozen=True, slots=True)
class Substitution:
    """A word of the human side, the generated side's word in its place, their cosine distance, and how often."""

    word: str
    substitute: str
    distance: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """Words of the human side that the generated side lacks, with distances that serve every threshold.

    ``counts``: word of the human side, without special tokens -> its occurrences. ``nearest``: lacking word -> its
    neighbour on the generated side, as :func:`nearest` finds it.
    """

    counts: Counter[str]
    lacking: Words
    nearest: Mapping[str, tuple[str, float]]

    @classmethod
    def between(cls, human: Mapping[str, int], generated: Collection[str], vectors: Vectors | None) -> Self:
        """The gaps between the words of both sides; ``human``: word -> its occurrences."""
        counts = Counter({word: count for word, count in human.items() if not is_special(word)})
        vocabulary = set(generated)
        lacking = sorted(counts.keys() - vocabulary)
        return cls(counts, tuple(lacking), nearest(lacking, vocabulary, vectors) if vectors else {})

    def substitutes(self, delta: float) -> dict[str, str]:
        """Lacking word -> its neighbour, if nearer than ``delta``, which lies in [0, 2] (ValueError); else "<unk>"."""
        if not 0 <= delta <= 2:
            raise ValueError(f"a cosine distance lies between 0 and 2, not at {delta}")
        near = {word: neighbour for word, (neighbour, distance) in self.nearest.items() if distance < delta}
        return dict.fromkeys(self.lacking, UNKNOWN) | near

    def substitutions(self, delta: float) -> list[Substitution]:
        """What is substituted at ``delta``, the most frequent words first, then in alphabetical order."""
        near = {word: neighbour for word, neighbour in self.nearest.items() if neighbour[1] < delta}
        found = [Substitution(word, *neighbour, self.counts[word]) for word, neighbour in near.items()]
        return sorted(found, key=lambda row: (-row.tokens, row.word))

    def report(self, delta: float) -> AlignmentReport:
        """Shares at ``delta``."""
        table = self.substitutes(delta)
        unknown = [word for word, near in table.items() if near == UNKNOWN]
        words, tokens = len(self.counts), self.counts.total()
        gone, lost = (sum(self.counts[word] for word in these) for these in (table, unknown))
        found = (gone - lost) / gone if gone else None
        of_words = _shares(len(table), len(unknown), words)
        return AlignmentReport(words, *of_words, tokens, *_shares(gone, lost, tokens), delta, found)


@dataclass(frozen=True, slots=True)
class Aligner:
    """Aligns masked human captions with the vocabulary of masked generated ones.

    For a word that the generated side never uses, ``none`` keeps it; ``constant`` puts ``<unk>`` (LIC); ``contextual``
    (DPAC, DBAC) puts the generated side's word of its kind (content or not) at the least cosine distance, if that is
    less than ``delta``, in [0, 2] (None: the vectors' own), else ``<unk>``, as for a word without a vector. Special
    tokens such as "<gender>" are never substituted nor chosen.
    """

    how: AlignmentName = "none"
    vectors: Vectors | None = None
    delta: float | None = None

    def align(self, human: Sequence[Words], generated: Iterable[Words]) -> tuple[list[Words], AlignmentReport]:
        """The aligned human captions, in order and of unchanged lengths, and a report."""
        gaps, delta = self.gaps(_counts(human), _counts(generated))
        return substitute(human, gaps.substitutes(delta)), gaps.report(delta)

    def gaps(self, human: Mapping[str, int], generated: Collection[str]) -> tuple[Gaps, float]:
        """Find the ``human`` words that the ``generated`` side lacks; return them with the threshold of substitutes."""
        if self.how == "contextual" and self.vectors is None:
            raise ValueError("contextual alignment needs vectors")
        near = self.vectors if self.how == "contextual" else None
        delta = 0.0 if near is None else near.delta if self.delta is None else self.delta
        return Gaps.between(human, human if self.how == "none" else generated, near), delta


def find_gaps(human: Iterable[Words], generated: Iterable[Words], vectors: Vectors | None) -> Gaps:
    """The words that ``generated`` lacks, and their neighbours in it; none without ``vectors``."""
    return Gaps.between(_counts(human), _counts(generated), vectors)


def _counts(captions: Iterable[Words]) -> Counter[str]:
    return Counter(chain.from_iterable(captions))


def substitute(captions: Iterable[Words], table: Mapping[str, str]) -> list[Words]:
    """``captions`` with each word of ``table`` replaced."""
    get, spares = table.get, table.keys().isdisjoint
    return [words if spares(words) else tuple([get(word, word) for word in words]) for words in captions]


def nearest(words: Iterable[str], candidates: Iterable[str], vectors: Vectors) -> dict[str, tuple[str, float]]:
    """Word -> the candidate at the least cosine distance, and that distance, in [0, 2].

    Words are compared within their kind (``judge.text.tokens``). Of candidates at the same distance (to 1e-9) the first
    in alphabetical order is taken. Special tokens and words without a vector are left out.
    """
    rows = vectors.rows
    left, right = dict[str, list[str]](), dict[str, list[str]]()
    for side, these in ((left, words), (right, sorted(set(candidates)))):
        for word in these:
            if word in rows and not is_special(word):
                side.setdefault(kind_of(word), []).append(word)
    found = {}
    for kind in sorted(left.keys() & right.keys()):
        one, other = (_unit(vectors.matrix[[rows[word] for word in side[kind]]]) for side in (left, right))
        step = max(1, _BLOCK // len(other))
        for start in range(0, len(one), step):
            cosines = one[start : start + step] @ other.T
            best = cosines.max(axis=1)
            columns = np.argmax(cosines >= best[:, None] - _TIE, axis=1)
            distances = 1 - np.clip(best, -1, 1)
            for word, column, distance in zip(left[kind][start : start + step], columns, distances, strict=True):
                found[word] = right[kind][column], float(distance)
    return found


def hardly_contextual(shares: Mapping[str, float | None], delta: float) -> Iterator[str]:
    """A warning if less than ``ENOUGH`` of the lacking tokens find a substitute; ``shares`` are by captioner."""
    few = {name: share for name, share in shares.items() if share is not None and share < ENOUGH}
    if few:
        each = some([f"{name} {share:.1%}" for name, share in few.items()])
        yield (
            f"At delta {delta:g} alignment finds a word for less than {ENOUGH:.0%} of the human tokens that the "
            f"captioner lacks ({each}): it is hardly contextual. Raise --delta, or give other --vectors."
        )


def is_special(word: str) -> bool:
    """Whether ``word`` is a special token such as "<gender>"; the tokeniser never writes "<" beside a letter."""
    return len(word) > 2 and word[0] == "<" and word[-1] == ">"


def _unit(matrix: np.ndarray) -> FloatArray:
    long = matrix.astype(np.float64)
    # Dividing by the largest value first avoids squares that overflow or vanish.
    long /= np.abs(long).max(axis=1, keepdims=True)
    unit: FloatArray = long / np.linalg.norm(long, axis=1, keepdims=True)
    return unit


def _shares(gone: int, unknown: int, total: int) -> tuple[float, float, float]:
    """Kept, substituted, unknown."""
    if not total:
        return 1.0, 0.0, 0.0
    return (total - gone) / total, (gone - unknown) / total, unknown / total

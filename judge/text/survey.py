"""How many captions name the attribute, what masking misses in them, their language, and one text for many images."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import ne

import regex

from judge.text.cleaning import LOOK_ALIKES
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.tokens import content_of, is_content, kind_of
from judge.types import Captions, Words

# A token decides the class if this share of its captions, classes counting equally, is of one class, and a share of the
# captions of that class have it and no masked word: one share for a token that the other side never uses, one for
# others. (Stereotypes such as "a woman playing tennis" stand in captions with a masked word.) The largest shares of
# COCO's human captions and four captioners (91 draws of 300, 900 and 3,597 images) are 0.021 ("players") and 0.100
# ("baseball"); the demo's worlds and all doses of judge calibrate stay below as well.
_LEAST, _PURE, _STRANGE, _KNOWN = 10, 0.95, 0.05, 0.5
# Function words, and those of English lexicons, are a third or more of the words of English captions, terse or not,
# and 0 to 18% in 20 other languages. (Words of one or two letters are in many.) Keywords alone, with a mark for every
# second word, do not tell their language; an English other side has most of them. An English lexicon finds French "son"
# and German "man" in a few captions; if it finds words in more, it is in their language.
_ENGLISH = "coco-objects", "activities", "gender-wide"
_FEW, _MOST, _FOUND = 0.2, 0.5, 0.3
_DIGITS = str.maketrans("013457", "oieast")
_PART = regex.compile(r"[a-z]+|\p{Latin}+|\p{Cyrillic}+|\p{Greek}+|[\p{L}\p{M}]+")
# Scripts without spaces: a token may contain a word.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Captions of one side: counts, and shares in [0, 1] of those that were judged.

    ``one``, ``none``, ``several``: shares that name so many classes; ``classes``: class -> share that names it.
    """

    captions: int
    one: float
    none: float
    several: float
    classes: dict[str, float]


def measure_coverage(mentions: Sequence[frozenset[str]], classes: Iterable[str]) -> Coverage:
    """Coverage of captions, given the ``classes`` that each names. Shares are NaN without captions."""
    sizes, found = Counter(map(len, mentions)), Counter(name for named in mentions for name in named)
    total = len(mentions) or float("nan")
    several = len(mentions) - sizes[0] - sizes[1]
    shares = {name: found[name] / total for name in classes}
    return Coverage(
        captions=len(mentions), one=sizes[1] / total, none=sizes[0] / total, several=several / total, classes=shares
    )


@dataclass(frozen=True, slots=True)
class Survey:
    """Facts about the captions of one side, as they are read.

    Attributes:
        repeated: how many are the most frequent text, ``text``, its tokens joined by spaces.
        foreign: whether they are in another language than the lexicon.
        revealing: unmasked token -> captions, for the five most frequent tokens that contain a word of the lexicon
            or nearly decide the class.
        affected: captions with any such token.
        empty, refused: captions of white space alone, and refusals to describe, that were left out, in the whole file.
        cleaned: what cleaning changed or removed -> captions of the whole file.
        several: captions of several sentences that are read whole, by choice or because too many others have one.
        twins: captions whose words, after masking, are those of another one.
        words, words_read: mean number of different content words, after masking, of a caption, and of what judges read:
            captions, or sentences.
        content: share of the words, without marks, that are content words; about a half in sentences, 1 in lists.
        kappa, likeness, misplaced: whether the captions are of their images (:mod:`judge.evidence.belonging`).
    """

    captions: int
    repeated: int
    text: str
    foreign: bool
    revealing: Mapping[str, int]
    affected: int
    empty: int
    refused: int
    cleaned: Mapping[str, int]
    several: int = 0
    twins: int = 0
    words: float = 0.0
    words_read: float = 0.0
    content: float = 0.0
    kappa: float | None = None
    likeness: float | None = None
    misplaced: str = ""


@dataclass(frozen=True)
class SideWords:
    """The words of one side's captions, as they are and after masking, and the class of each caption's image."""

    raw: Sequence[Words]
    masked: Sequence[Words]
    classes: Sequence[str]

    @cached_property
    def used(self) -> Counter[str]:
        """The number of occurrences of each token in the captions, before masking."""
        return Counter(word for words in self.raw for word in words)

    def share(self, words: Container[str]) -> float:
        """The share of the captions' words of three letters or more that are among ``words``."""
        found = {word: count for word, count in self.used.items() if word[:1].isalpha() and len(word) > 2}
        return sum(count for word, count in found.items() if word in words) / max(1, sum(found.values()))

    @cached_property
    def _english(self) -> float:
        return self.share({word for word in self.used if kind_of(word) == "function"} | _english_words())

    @cached_property
    def _found(self) -> bool:
        """Whether the lexicon finds words in many captions."""
        return bool(sum(map(ne, self.raw, self.masked)) >= _FOUND * len(self.raw))

    def is_foreign(self, other: SideWords, language: str) -> bool:
        """Whether captions in which the lexicon finds little are in another ``language`` than it."""
        if self._found:
            return False
        unlike = self.share(other.used) < _MOST
        if language != "en":
            return self._english > _MOST / 2 or (unlike and other._found)
        marks = sum(count for word, count in self.used.items() if kind_of(word) == "mark")
        return self._english < _FEW and (unlike or (other._english < _FEW and 3 * marks < self.used.total()))

    @cached_property
    def _held(self) -> dict[str, Counter[tuple[str, bool]]]:
        """Token -> (class, whether nothing was masked) -> captions that hold it after masking."""
        found: dict[str, Counter[tuple[str, bool]]] = {}
        for raw, masked, name in zip(self.raw, self.masked, self.classes, strict=True):
            for word in set(masked):
                found.setdefault(word, Counter())[name, raw == masked] += 1
        return found

    def survey(self, other: SideWords, lexicon: Lexicon | None, source: Captions) -> Survey:
        """Facts about these captions, beside those of the ``other`` side; ``source`` is their whole file.

        If all images are of one class, no token decides it. ``lexicon``: the words that were masked; None for none.
        """
        text, repeated = Counter(self.raw).most_common(1)[0]
        left, entries = (self._held.keys() - {lexicon.token}, lexicon.words) if lexicon else (set(), frozenset())
        sizes = Counter(self.classes)
        revealing = {word for word in left if _holds(word, entries) or self._decides(word, sizes, other)}
        words = mean_content(self.masked)
        said = {word: count for word, count in self.used.items() if kind_of(word) != "mark"}
        return Survey(
            captions=len(self.raw),
            repeated=repeated,
            text=" ".join(text),
            foreign=bool(lexicon and self.is_foreign(other, lexicon.language)),
            revealing=dict(Counter({word: self._held[word].total() for word in sorted(revealing)}).most_common(5)),
            affected=sum(not revealing.isdisjoint(masked) for masked in self.masked),
            empty=source.empty,
            refused=source.refused,
            cleaned=source.cleaned,
            twins=sum(count for count in Counter(self.masked).values() if count > 1),
            words=words,
            words_read=words,
            content=sum(count for word, count in said.items() if is_content(word)) / max(1, sum(said.values())),
        )

    def _decides(self, word: str, sizes: Counter[str], other: SideWords) -> bool:
        held = self._held[word]
        shares = {name: (held[name, True] + held[name, False]) / size for name, size in sizes.items()}
        name = max(shares, key=lambda one: shares[one])
        if len(sizes) < 2 or shares[name] < _PURE * sum(shares.values()):
            return False
        if word in other.used:
            return held[name, True] >= max(_LEAST, _KNOWN * sizes[name])
        # Captions with a tag or a second language may have masked words too.
        return held[name, True] >= max(_LEAST, _STRANGE * sizes[name]) or shares[name] >= _KNOWN


@cache
def _english_words() -> frozenset[str]:
    return frozenset[str]().union(*(load_lexicon(name).words for name in _ENGLISH))


def mean_content(masked: Sequence[Words]) -> float:
    """The mean number of different content words of captions, in which the attribute is masked."""
    return sum(map(len, map(content_of, masked))) / len(masked)


def _holds(token: str, words: frozenset[str]) -> bool:
    """Whether a token that is not in ``words`` contains one of them.

    It is split at digits, marks and changes of script; look-alike letters and digits count as letters. In scripts
    without spaces any part of it may be a word.
    """
    if token.isascii() and token.isalpha():
        return False
    if _UNSPACED.search(token):
        return any(word in token for word in words if _UNSPACED.search(word))
    plain = regex.sub(r"\p{Mn}", "", unicodedata.normalize("NFKD", token)).translate(LOOK_ALIKES)
    parts = {part for form in (token, plain, plain.translate(_DIGITS)) for part in _PART.findall(form)}
    return not words.isdisjoint(parts)

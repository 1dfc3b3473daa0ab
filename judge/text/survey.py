"""How many captions name the attribute, what masking misses in them, and their language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import chain
from operator import ne

import numpy as np
import pandas as pd
import regex

from judge.text.cleaning import LOOK_ALIKES
from judge.text.coded import Coded
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.tokens import kind_of
from judge.types import BoolArray, Captions, FloatArray, IntArray, Words

# A token guesses the class of a caption if at least _SURE of the other captions that hold it are of one class, classes
# counting equally. Tokens tell the class if their guesses raise the balanced accuracy, from chance to 1, by at least:
# the words of a wider lexicon; tokens that hold a word; tokens that the other side uses less than a twentieth as often,
# in captions that say nobody; any token there; and tags, or a second language, in captions that may say somebody too.
# (Stereotypes such as "a woman playing tennis" stand in captions that say somebody, masked or not.) The gains of
# COCO's captions, and of captioners with and without bias, are what scripts/bench_unmasked_words.py prints.
_SURE, _STRANGE, _LEAST = 0.8, 20, 5
_WIDER, _HOLDING, _RARE, _ANY, _TAGS = 0.005, 0.01, 0.05, 0.15, 0.6
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
        foreign: whether they are in another language than the lexicon.
        revealing: unmasked token -> captions, for the five most frequent tokens that contain a word of the lexicon
            or nearly decide the class, alone or together.
        affected: captions with any such token.
        empty, refused: captions of white space alone, and refusals to describe, that were left out, in the whole file.
        cleaned: what cleaning changed or removed -> captions of the whole file.
        kappa, likeness, misplaced: whether the captions are of their images (:mod:`judge.evidence.belonging`).
    """

    captions: int
    foreign: bool
    revealing: Mapping[str, int]
    affected: int
    empty: int
    refused: int
    cleaned: Mapping[str, int]
    kappa: float | None = None
    likeness: float | None = None
    misplaced: str = ""


@dataclass(frozen=True)
class SideWords:
    """The words of one side's captions, as they are and after masking, and the class of each caption's image.

    ``images``: the image of each, where several captions may be of one.
    """

    raw: Sequence[Words]
    masked: Sequence[Words]
    classes: Sequence[str]
    images: Sequence[str] | None = None

    @cached_property
    def used(self) -> Counter[str]:
        """The number of occurrences of each token in the captions, before masking."""
        return Counter(chain.from_iterable(self.raw))

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
    def vocabulary(self) -> list[str]:
        """The tokens of the captions after masking, sorted."""
        return sorted(self._coded.words)

    @cached_property
    def _coded(self) -> Coded:
        return Coded.of(self.masked)

    @cached_property
    def held(self) -> tuple[IntArray, IntArray]:
        """Pairs of a token (its place in ``vocabulary``) and a caption that holds it after masking, by caption."""
        coded, size = self._coded, max(1, len(self.vocabulary))
        captions = np.repeat(np.arange(len(coded)), coded.lengths)
        return np.divmod(np.unique(captions * size + coded.among(tuple(self.vocabulary))), size)[::-1]

    @cached_property
    def captions(self) -> dict[str, int]:
        """Token -> the number of captions that hold it after masking."""
        numbers = np.bincount(self.held[0], minlength=len(self.vocabulary))
        return dict(zip(self.vocabulary, numbers.tolist(), strict=True))

    def release(self) -> None:
        """Free what was computed from the words; it is computed again when it is used."""
        for name in vars(self).keys() - {part.name for part in fields(self)}:
            del vars(self)[name]

    @cached_property
    def _nobody(self) -> BoolArray:
        """Captions in which nothing was masked, and that have no word for anybody."""
        pairs = zip(self.raw, self.masked, strict=True)
        return np.array([raw == masked and _anybody().isdisjoint(raw) for raw, masked in pairs], dtype=np.bool_)

    @cached_property
    def _of_class(self) -> tuple[IntArray, IntArray]:
        """The number of each caption's class, in the order in which classes occur, and the number of its image."""
        return _numbered(self.classes), _numbered(self.images) if self.images else np.arange(len(self.raw))

    def _holders(self, words: Collection[str], among: BoolArray | None = None) -> dict[str, list[int]]:
        """Token -> the captions that hold it; ``among``: the captions that count, None for all."""
        token, caption = self.held
        wanted = np.array([word in words for word in self.vocabulary], dtype=np.bool_)[token]
        kept = wanted if among is None else wanted & among[caption]
        found: dict[str, list[int]] = {word: [] for word in sorted(words)}
        for word, place in zip(token[kept].tolist(), caption[kept].tolist(), strict=True):
            found[self.vocabulary[word]].append(place)
        return found

    def _tell(self, keys: Mapping[str, str], among: BoolArray | None, least: float) -> dict[str, list[int]]:
        """The tokens, and their captions, of those that tell the class together; none if they raise accuracy by less.

        ``keys``: token -> what it is pooled by; ``among``: the captions that count, None for all.
        """
        sizes = np.array([*Counter(self.classes).values()])
        if len(sizes) < 2 or not keys:
            return {}
        places = {key: place for place, key in enumerate(dict.fromkeys(keys.values()))}
        pooled = np.array([places[keys[word]] if word in keys else -1 for word in self.vocabulary], dtype=np.int64)
        token, caption = self.held
        kept = pooled[token] >= 0 if among is None else (pooled[token] >= 0) & among[caption]
        token, caption = token[kept], caption[kept]
        key, (classes, images) = pooled[token], self._of_class
        _, first = np.unique(key * len(self.raw) + images[caption], return_index=True)
        counts = np.bincount(key[first] * len(sizes) + classes[caption[first]], minlength=len(places) * len(sizes))
        own = classes[caption]
        # There may be many keys and classes: a guess is made for those that occur together.
        pairs, place = np.unique(key * len(sizes) + own, return_inverse=True)
        sure, guess = (of[place] for of in _guesses(counts.reshape(-1, len(sizes)), sizes, *divmod(pairs, len(sizes))))
        certain = np.flatnonzero(sure >= _SURE)
        token, caption, own = token[certain], caption[certain], own[certain]
        right = guess[certain] == own
        # Each caption's surest token; of equally sure ones, one that is right.
        order = np.lexsort((token, right, sure[certain], caption))
        last = order[np.append(np.diff(caption[order]) > 0, True)] if len(order) else order
        gain = (np.where(right[last], 1.0, -1 / (len(sizes) - 1)) / sizes[own[last]]).sum()
        if len(last) < _LEAST or gain < least * len(sizes):
            return {}
        return self._holders({self.vocabulary[word] for word in np.unique(token[last[right[last]]]).tolist()}, among)

    def survey(self, other: SideWords, lexicon: Lexicon | None, source: Captions) -> Survey:
        """Facts about these captions, beside those of the ``other`` side; ``source`` is their whole file.

        If all images are of one class, no token decides it. ``lexicon``: the words that were masked; None for none.
        """
        left = self.captions.keys() - ({lexicon.token} if lexicon else set())
        revealing = self._revealing(left, other, lexicon)
        affected = {place for places in revealing.values() for place in places}
        return Survey(
            captions=len(self.raw),
            foreign=bool(lexicon and self.is_foreign(other, lexicon.language)),
            revealing=dict(Counter({word: len(places) for word, places in revealing.items()}).most_common(5)),
            affected=len(affected),
            empty=source.empty,
            refused=source.refused,
            cleaned=source.cleaned,
        )

    def _revealing(self, left: Collection[str], other: SideWords, lexicon: Lexicon | None) -> dict[str, list[int]]:
        """The tokens, of those ``left`` by masking, that tell the class, with their captions."""
        entries = lexicon.words if lexicon else frozenset(map(str.lower, self.classes))
        often = _STRANGE * len(self.raw) / max(1, len(other.raw))
        strange = {word: word for word in left if self.captions[word] > often * other.captions.get(word, 0)}
        named = lexicon.unmasked if lexicon else {word: word for word in entries}
        long = tuple(word for word in entries if len(word) > 2)
        holding = {word: held for word in strange if (held := _glued(word, long))}
        every = dict(zip(left, left, strict=True))
        found = self._tell(strange, self._nobody, _RARE) or self._tell(every, self._nobody, _ANY)
        found |= self._tell(holding, None, _HOLDING) | self._tell(strange, None, _TAGS)
        found |= self._tell({word: named[word] for word in left & named.keys()}, None, _WIDER)
        return found | self._holders({word for word in left if _holds(word, entries)})


def _numbered(names: Sequence[str]) -> IntArray:
    """Names as numbers, in the order in which they occur."""
    return np.asarray(pd.factorize(np.array(names, dtype=object))[0])


def _guesses(counts: IntArray, sizes: IntArray, keys: IntArray, own: IntArray) -> tuple[FloatArray, IntArray]:
    """How sure the most frequent class of the images of each of ``keys`` is, and this class, [P] each.

    One image of the class ``own`` is left out of each. ``counts``: images by key and class, [K, A]; ``sizes``: captions
    by class.
    """
    others = counts[keys]
    others[np.arange(len(keys)), own] -= 1
    weights = np.maximum(0, others) * sizes.mean() / sizes
    return (weights.max(axis=-1) + 1) / (weights.sum(axis=-1) + len(sizes)), weights.argmax(axis=-1)


@cache
def _anybody() -> frozenset[str]:
    """Words for people that name no class."""
    return frozenset(load_lexicon("coco-objects").classes["person"])


def _glued(token: str, words: tuple[str, ...]) -> str:
    """The longest word that a longer token begins or ends with: "man" of "manriding" or "postman"; "" if none."""
    if not token.startswith(words) and not token.endswith(words):  # One call for all words: most tokens end here.
        return ""
    found = (word for word in words if token != word and (token.startswith(word) or token.endswith(word)))
    return max(found, key=len, default="")


@cache
def _english_words() -> frozenset[str]:
    return frozenset[str]().union(*(load_lexicon(name).words for name in _ENGLISH))


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

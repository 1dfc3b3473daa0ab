"""What captions hold after masking: words that masking cannot see, another language, one text again and again."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import regex

from judge.text.cleaning import LOOK_ALIKES
from judge.text.lexicon import Lexicon
from judge.types import Words

# A token decides the class where so much of what stands in it, classes counting equally, is of one class, and so many
# captions of that class hold it of which nothing was masked: one share for a token that the other side never uses, one
# for others. Captions with a masked word do not count, since stereotypes ("a woman playing tennis") stand in these. Of
# human captions and the four captioners of COCO (91 draws of 300, 900 and 3,597 images) the largest shares are 0.021
# ("players") and 0.100 ("baseball"). The worlds of the demo and all doses of judge calibrate stay below as well.
_LEAST, _PURE, _STRANGE, _KNOWN = 10, 0.95, 0.05, 0.5
_SHOWN = 5
# Short words that other languages hardly have.
_ENGLISH = frozenset(
    {"the", "of", "and", "with", "at", "are", "to", "from", "by", "that", "this", "while", "their", "his"}
)
_LEET = str.maketrans("013457", "oieast")
_PART = regex.compile(r"[a-z]+|\p{Latin}+|\p{Cyrillic}+|\p{Greek}+|[\p{L}\p{M}]+")
# Scripts without spaces: a word stands inside of a token.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


@dataclass(frozen=True, slots=True)
class Survey:
    """Of the captions of one side, as they are read.

    Attributes:
        captions: how many there are.
        repeated: how many are the most frequent text.
        text: that text, its tokens joined by spaces.
        english: share of their words that are short function words of English.
        shared: share of their words that the other side uses too.
        holding: token that masking left and that holds a word of the lexicon -> captions; the most frequent ones.
        held: captions with such a token.
        deciding: token that masking left and that nearly decides the class -> captions; the most frequent ones.
        decided: captions with such a token of which nothing was masked.
        empty: captions of white space alone in the file, left out.
        refused: refusals to describe in the file, left out.
        cleaned: what was changed or removed in captions of the file -> in how many.
    """

    captions: int
    repeated: int
    text: str
    english: float
    shared: float
    holding: Mapping[str, int] = field(default_factory=dict)
    held: int = 0
    deciding: Mapping[str, int] = field(default_factory=dict)
    decided: int = 0
    empty: int = 0
    refused: int = 0
    cleaned: Mapping[str, int] = field(default_factory=dict)


class SideWords:
    """The words of one side's captions.

    Args:
        raw: the words of each caption.
        masked: the same after masking.
        classes: of each caption's image.
    """

    def __init__(self, raw: Sequence[Words], masked: Sequence[Words], classes: Sequence[str]) -> None:
        self.raw, self.masked, self.classes = raw, masked, classes

    @cached_property
    def used(self) -> Counter[str]:
        """How often each token stands in the captions, before masking."""
        return Counter(word for words in self.raw for word in words)

    @cached_property
    def _held(self) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
        """Token -> class -> captions that hold it after masking: all, and those of which nothing was masked."""
        every: dict[str, Counter[str]] = {}
        bare: dict[str, Counter[str]] = {}
        for raw, masked, name in zip(self.raw, self.masked, self.classes, strict=True):
            for word in set(masked):
                every.setdefault(word, Counter())[name] += 1
                if raw == masked:
                    bare.setdefault(word, Counter())[name] += 1
        return every, bare

    def survey(self, other: SideWords, lexicon: Lexicon | None) -> Survey:
        """What is said of these captions, beside those of the ``other`` side; without a lexicon nothing was masked."""
        text, repeated = Counter(self.raw).most_common(1)[0]
        words = {word: count for word, count in self.used.items() if word[:1].isalpha()}
        total = max(1, sum(words.values()))
        english = sum(count for word, count in words.items() if word in _ENGLISH) / total
        shared = sum(count for word, count in words.items() if word in other.used) / total
        found = Survey(len(self.raw), repeated, " ".join(text), english, shared)
        if lexicon is None:
            return found
        holding = {word for word in self._held[0] if word != lexicon.token and holds(word, lexicon.words)}
        deciding = {word for word in self._held[0] if word not in holding and self._decides(word, other)}
        return replace(
            found,
            holding=self._counts(holding),
            held=sum(not holding.isdisjoint(words) for words in self.masked),
            deciding=self._counts(deciding),
            decided=sum(
                raw == masked and not deciding.isdisjoint(masked)
                for raw, masked in zip(self.raw, self.masked, strict=True)
            ),
        )

    def _decides(self, word: str, other: SideWords) -> bool:
        every, bare = (held.get(word, Counter[str]()) for held in self._held)
        if bare.total() < _LEAST:
            return False
        sizes = Counter(self.classes)
        shares = {name: count / sizes[name] for name, count in every.items()}
        name = max(shares, key=lambda one: shares[one])
        often = _KNOWN if word in other.used else _STRANGE
        return shares[name] >= _PURE * sum(shares.values()) and bare[name] >= often * sizes[name]

    def _counts(self, words: set[str]) -> dict[str, int]:
        counts = {word: self._held[0][word].total() for word in words}
        return {word: counts[word] for word in sorted(counts, key=lambda one: (-counts[one], one))[:_SHOWN]}


def holds(token: str, words: frozenset[str]) -> bool:
    """Whether a token that is none of ``words`` holds one.

    It is cut at digits, underscores, apostrophes and where the script changes; accents are left out, look-alike
    letters and digits that stand for letters replaced. Of scripts without spaces any part of it may be a word.
    """
    if token.isascii() and token.isalpha():
        return False
    if _UNSPACED.search(token):
        return any(word in token for word in words if _UNSPACED.search(word))
    folded = "".join(_fold(letter) for letter in unicodedata.normalize("NFKD", token))
    spelled = folded.translate(_LEET)
    parts = {part for form in (token, folded) for part in _PART.findall(form)}
    return not words.isdisjoint(parts | ({spelled} if spelled.isalpha() else set()))


_NAMED = re.compile(r"LATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL |TURNED |SIDEWAYS )?([A-Z])(?: WITH.*)?$")


def _fold(letter: str) -> str:
    """A letter as the one of ASCII that it looks like; nothing for marks."""
    if letter.isascii():
        return letter
    if unicodedata.category(letter) == "Mn":
        return ""
    named = _NAMED.match(unicodedata.name(letter, ""))
    return named[1].lower() if named else letter.translate(LOOK_ALIKES)


def is_foreign(own: Mapping[str, float], other: Mapping[str, float], *, named: float) -> bool:
    """Whether captions are probably in another language than an English lexicon.

    Keywords without function words are English where the other side's captions are and have most of these words.

    Args:
        own: ``english`` and ``shared`` of the captions.
        other: the same of the other side.
        named: share of the captions that name a class: a lexicon that finds one so often is for them.
    """
    return own["english"] < _FEW and (other["english"] < _FEW or own["shared"] < _MOST) and named < _NAMED


# English captions hold 9 to 20% of such words, other languages next to none. Words such as French "son" and German
# "man" make an English lexicon find classes where there are none.
_FEW, _MOST, _NAMED = 0.03, 0.5, 0.3

"""Captions as words: the one tokeniser, for captions and for the entries of lexicons; and which words have content."""

import re
import unicodedata
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from sys import intern
from typing import Literal

import regex

from judge.errors import require
from judge.utils.reading import read_yaml

Contractions = Literal["whole", "split"]

# A word: letters, combining marks and digits of any script (with the joiners that Indic and
# Persian words hold inside), its contractions attached. Anything else that is neither white space nor a
# control character is one user-perceived character: a punctuation mark, or a whole emoji sequence.
_LETTER = r"[\p{L}\p{M}\p{N}_\u200c\u200d]"
_OTHER = r"(?![\s\p{Cc}])\X"
_WHOLE = regex.compile(rf"{_LETTER}+(?:'{_LETTER}+)*|{_OTHER}")
_SPLIT = regex.compile(rf"'?{_LETTER}+|{_OTHER}")
# The same of lower-case ASCII, which nearly all captions are: the standard library's engine is twice as fast.
_ASCII = {"whole": re.compile(r"[a-z0-9_]+(?:'[a-z0-9_]+)*|[!-~]"), "split": re.compile(r"'?[a-z0-9_]+|[!-~]")}
SEGMENTED = frozenset({"ja", "zh", "th", "lo", "km", "my"})
"""Languages without spaces between words, of which ICU has a dictionary."""
_VOWEL_SIGNS = regex.compile(r"[\u0640\u064b-\u0652\u0670]")  # Of Arabic; most writers leave them out.
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})
_CLOSING = r"[\"'\u201d\u2019)\]*_\u00bb\u300d\u300f\uff09]"
# Where a line of a caption is cut into sentences.
_ENDS = regex.compile(
    rf"(?<=[.!?\u2026\u061f\u06d4\u0964\u0965]{_CLOSING}*)\s+|(?<=[\u3002\uff01\uff1f]{_CLOSING}*)(?!\s*{_CLOSING})"
)
_ABBREVIATED = regex.compile(
    r"\b(?:(?P<title>mr|mrs|ms|dr|prof|st|mt|sgt|capt|rev)|(?:\p{L}\.)*\p{L}|jr|sr|vs|etc|approx|no|inc|ltd|co|fig)\.$",
    regex.IGNORECASE,
)
WordKind = Literal["content", "function", "number", "mark"]


def tokenize(caption: str, *, contractions: Contractions = "whole", language: str = "en") -> tuple[str, ...]:
    """Lower-case words and punctuation marks of ``caption``.

        >>> tokenize("The woman's T-shirt."), tokenize("She's out", contractions="split")
        (('the', "woman's", 't', '-', 'shirt', '.'), ('she', "'s", 'out'))

    Unicode NFC; hyphens split ("t-shirt" is three tokens). ``whole`` keeps "woman's" and "don't" as one
    word, so that a possessive does not count as a mention; ``split`` gives "woman", "'s". Words of a ``language``
    without spaces are those of ICU's dictionary (JudgeError if it is not installed); Arabic loses its vowel signs.
    """
    if caption.isascii():
        found = _ASCII[contractions].findall(caption.lower())
    else:
        text = unicodedata.normalize("NFC", caption).lower().translate(_APOSTROPHES)
        text = _VOWEL_SIGNS.sub("", text) if language == "ar" else text
        found = (_WHOLE if contractions == "whole" else _SPLIT).findall(text)
        if language in SEGMENTED:
            require("languages", "icu4py")
            from icu4py.breakers import WordBreaker

            found = [part for word in found for part in WordBreaker(word, language)]
    # One object for each word, however often it occurs.
    return tuple(map(intern, found))


def sentences(caption: str) -> tuple[str, ...]:
    """The sentences of a caption, in order, one at least; each has a letter or digit, if the caption has any.

    A sentence ends at a line break; at full stops, question and exclamation marks (Latin, Arabic, Devanagari) and the
    quotes and brackets that close it, where white space follows; and at such marks of Chinese or Japanese; but not at a
    title ("Mr."), another abbreviation ("U.S.", "etc."; "in the U.S. The" ends), or three dots before a small letter.
    """
    found: list[str] = []
    for line in caption.splitlines():
        for place, part in enumerate(_ENDS.split(line.strip())):
            apart = found and any(map(str.isalnum, found[-1])) and any(map(str.isalnum, part))
            if found and (not apart or (place and _goes_on(found[-1], part))):
                found[-1] = f"{found[-1]} {part}".strip()
            else:
                found.append(part)
    return tuple(found) or ("",)


def first_sentence(caption: str) -> str:
    """The first of the :func:`sentences` of a long caption."""
    return sentences(caption)[0]


def _goes_on(before: str, after: str) -> bool:
    """Whether a full stop between two parts of a line is one of an abbreviation, or of dots inside a sentence."""
    found = _ABBREVIATED.search(before)
    if not found:
        return before.endswith(("...", "\u2026")) and after[:1].islower()
    return bool(found["title"]) or not (after[:1].isupper() and kind_of(tokenize(after)[0]) == "function")


def is_content(word: str) -> bool:
    """Whether a token is a content word."""
    return kind_of(word) == "content"


@cache
def kind_of(word: str) -> WordKind:
    """Whether a token is a content word, a function word of English, a number (digits or a word), or a mark.

    Function words are scikit-learn's stop words, nouns, verbs and adjectives among them apart, a few more, and single
    letters. Contractions and possessives are of the kind of their stem: "it's" is "it".
    """
    stem = word.partition("'")[0]
    functions, numbers = _words()
    if stem in numbers or word[:1].isdigit():
        return "number"
    if not word[:1].isalpha():
        return "mark"
    return "function" if stem in functions else "content"


@cache
def _words() -> tuple[frozenset[str], frozenset[str]]:
    """Function words, and numbers."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    listed = read_yaml(Path(__file__).with_name("words.yaml"), mend="install the package again")
    found = {kind: frozenset(words.split()) for kind, words in listed.items()}
    letters = frozenset(ascii_lowercase)  # The "t" of "t-shirt".
    return (ENGLISH_STOP_WORDS - found["content"]) | found["function"] | letters, found["number"]

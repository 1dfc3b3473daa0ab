"""How a caption becomes the words that a judge reads, in a form that a file of weights can hold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from judge.text.alignment import UNKNOWN, is_special
from judge.text.combined import ProductLexicon
from judge.text.lexicon import Lexicon, mask
from judge.text.tokens import Contractions, first_sentence, sentences, tokenize
from judge.types import Words


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How captions, in the ``language`` of the lexicons, become words; ``contractions`` and ``text`` as in commands."""

    contractions: Contractions = "whole"
    text: Literal["sentences", "whole", "first-sentence"] = "sentences"
    language: str = "en"

    def words(self, caption: str) -> Words:
        """The tokens of a caption, or of one of its :func:`texts_of`, before any masking."""
        text = first_sentence(caption) if self.text == "first-sentence" else caption
        return tokenize(text, contractions=self.contractions, language=self.language)


DEFAULT_TEXT = TextOptions()


def texts_of(captions: Sequence[str], most: int) -> Iterator[tuple[int, str]]:
    """(index, text) of what judges read of an image's captions on a side: ``most`` sentences of each caption.

    The sentence at place p of caption n has the index n x ``most`` + p. Of more sentences the first is read, and
    others at equal distances, up to the last one. If ``most`` is 1, captions are read whole.
    """
    if most == 1:
        yield from enumerate(captions)
        return
    for number, caption in enumerate(captions):
        found = sentences(caption)
        step = max(1.0, (len(found) - 1) / (most - 1))
        for place in range(min(most, len(found))):
            yield number * most + place, found[round(place * step)]


@dataclass(frozen=True, slots=True)
class Preparation:
    """From a written caption to the words that a judge reads.

    Attributes:
        attribute: the protected attribute of the run, whether judges guess it or not.
        options: how captions become words.
        lexicon: the words to mask; None for none.
        spared: its classes whose words are not masked.
        vocabulary: words that alignment with a captioner keeps; None without alignment.
        substitutes: other word -> its substitute; a word in neither becomes ``<unk>``.
    """

    attribute: str
    options: TextOptions = DEFAULT_TEXT
    lexicon: Lexicon | None = None
    spared: frozenset[str] = frozenset()
    vocabulary: frozenset[str] | None = None
    substitutes: Mapping[str, str] = field(default_factory=dict)

    def texts(self, caption: str) -> tuple[str, ...]:
        """What the judge reads one by one of ``caption``: its sentences, or the caption."""
        return sentences(caption) if self.options.text == "sentences" else (caption,)

    def words(self, caption: str) -> Words:
        """The words of ``caption``, or of one of its :meth:`texts`, masked and aligned."""
        words, known = mask(self.options.words(caption), self.lexicon, spared=self.spared), self.vocabulary
        if known is None:
            return words
        near = self.substitutes
        return tuple(word if word in known or is_special(word) else near.get(word, UNKNOWN) for word in words)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; :meth:`from_json` reads it."""
        return {
            "attribute": self.attribute,
            "contractions": self.options.contractions,
            "text": self.options.text,
            "language": self.options.language,
            "lexicon": self.lexicon and _lexicon_json(self.lexicon),
            "spared": sorted(self.spared),
            "vocabulary": None if self.vocabulary is None else sorted(self.vocabulary),
            "substitutes": dict(self.substitutes),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` wrote; KeyError, TypeError or AttributeError of an object of another form."""
        lexicon, vocabulary = entry["lexicon"], entry["vocabulary"]
        return cls(
            str(entry["attribute"]),
            TextOptions(entry["contractions"], entry["text"], entry.get("language", "en")),
            None if lexicon is None else _read_lexicon(lexicon),
            frozenset(entry["spared"]),
            None if vocabulary is None else frozenset(vocabulary),
            dict(entry["substitutes"]),
        )


def _lexicon_json(lexicon: Lexicon) -> dict[str, Any]:
    parts = lexicon.parts if isinstance(lexicon, ProductLexicon) else None
    return {
        "name": lexicon.name,
        "token": lexicon.token,
        "source": lexicon.source,
        "classes": {name: sorted(words) for name, words in lexicon.classes.items()},
        "hidden_only": sorted(lexicon.hidden_only),
        "parts": parts and [part and _lexicon_json(part) for part in parts],
        **({} if lexicon.language == "en" else {"language": lexicon.language}),
    }


def _read_lexicon(entry: Mapping[str, Any]) -> Lexicon:
    classes = {str(name): frozenset(words) for name, words in entry["classes"].items()}
    about = str(entry["name"]), str(entry["token"]), classes, frozenset(entry["hidden_only"])
    if entry["parts"] is None:
        return Lexicon(*about, source=entry["source"], language=entry.get("language", "en"))
    parts = tuple(None if part is None else _read_lexicon(part) for part in entry["parts"])
    return ProductLexicon(*about, source=entry["source"], parts=parts)

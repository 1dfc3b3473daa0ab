"""Several attributes at once: their words as one lexicon, and how classes of their product are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from judge.text.lexicon import Lexicon

AND = " & "
"""Between the classes of a product, "female & darker", and between the names of attributes."""


def join_classes(parts: Sequence[Iterable[str]]) -> list[str]:
    """All classes of a product, of the classes in each attribute."""
    return [AND.join(names) for names in product(*parts)]


@dataclass(frozen=True)
class ProductLexicon(Lexicon):
    """The words of several attributes. What any of them hides is hidden, and one token stands for all.

    (A token for each attribute would tell which of them was named, and so the class that is named more often.)
    ``classes`` is empty: the classes are those of the labels.

    Attributes:
        parts: the words of each attribute, in the order of its classes' names; None where it has none.
    """

    parts: tuple[Lexicon | None, ...] = ()

    @property
    def without_words(self) -> list[str]:
        """The attributes that have none."""
        return [name for name, part in zip(self.name.split(AND), self.parts, strict=True) if part is None]

    @property
    def words(self) -> frozenset[str]:
        """All entries of one word, of each attribute."""
        return frozenset[str]().union(*(part.words for part in self.parts if part))

    def find(self, words: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
        """The entries of each attribute, with its own class; those of two attributes may overlap."""
        return (span for part in self.parts if part for span in part.find(words))

    def named(self, words: Sequence[str], annotated: str) -> frozenset[str]:
        """One class of every attribute that has words; of the others the annotated one.

        Of an attribute without words captions of either side say nothing, so that the image's own class stands for both
        alike, as where it is asked for alone: it adds no difference between the sides.
        """
        known = zip(self.parts, annotated.split(AND), strict=True)
        return frozenset(join_classes([part.mentions(words) if part else {name} for part, name in known]))

    def without_words_for(self, classes: Iterable[str]) -> list[str]:
        """Those of ``classes`` of which one attribute's class has no words; attributes without any count as named."""
        known = {name: zip(self.parts, name.split(AND), strict=True) for name in classes}
        return [name for name, of in known.items() if any(part and part.without_words_for([one]) for part, one in of)]


def multiply_lexicons(parts: Mapping[str, Lexicon | None]) -> ProductLexicon | None:
    """The words of all attributes, attribute -> its words; None where none has any."""
    known = [part for part in parts.values() if part]
    if not known:
        return None
    # Where one attribute alone has words, they are hidden as if it were asked for alone.
    token = known[0].token if len(known) == 1 else f"<{'-and-'.join(part.token[1:-1] for part in known)}>"
    source = "; ".join(f"{name}: {part.source if part else 'no words'}" for name, part in parts.items())
    language = next((part.language for part in known if part.language != "en"), "en")
    return ProductLexicon(AND.join(parts), token, {}, source=source, language=language, parts=tuple(parts.values()))

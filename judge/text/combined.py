"""Several lexicons as one: the product of attributes, and the union of lists of tasks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from judge.errors import JudgeError
from judge.text.lexicon import Lexicon, load_lexicon

AND = " & "
"""Joins the classes of a product ("female & darker") and the names of attributes."""


def join_classes(parts: Sequence[Iterable[str]]) -> list[str]:
    """All classes of a product, from the classes of each attribute."""
    return [AND.join(names) for names in product(*parts)]


@dataclass(frozen=True)
class ProductLexicon(Lexicon):
    """The words of several attributes: words of any of them are hidden, behind one token.

    (A token for each attribute would reveal which of them was named, and so the class that is named more often.)
    ``classes`` is empty: the classes are those of the labels. ``parts``: the words of each attribute, in the order of
    the product's names; None for an attribute without words.
    """

    parts: tuple[Lexicon | None, ...] = ()

    @property
    def without_words(self) -> list[str]:
        """The attributes without words."""
        return [name for name, part in zip(self.name.split(AND), self.parts, strict=True) if part is None]

    @property
    def words(self) -> frozenset[str]:
        """All entries of one word, of every attribute."""
        return frozenset[str]().union(*(part.words for part in self.parts if part))

    def find(self, words: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
        """The entries of each attribute, with its own class; those of two attributes may overlap."""
        return (span for part in self.parts if part for span in part.find(words))

    def named(self, words: Sequence[str], annotated: str) -> frozenset[str]:
        """The product classes that a caption names; for attributes without words, the image's annotated class counts.

        Captions of neither side name such a class, so the annotated one adds no difference between the sides.
        """
        known = zip(self.parts, annotated.split(AND), strict=True)
        return frozenset(join_classes([part.mentions(words) if part else {name} for part, name in known]))

    def without_words_for(self, classes: Iterable[str]) -> list[str]:
        """The ``classes`` in which one attribute's class has no words; attributes without words do not count."""
        known = {name: zip(self.parts, name.split(AND), strict=True) for name in classes}
        return [name for name, of in known.items() if any(part and part.without_words_for([one]) for part, one in of)]


def multiply_lexicons(parts: Mapping[str, Lexicon | None]) -> ProductLexicon | None:
    """One lexicon from attribute -> its words; None if no attribute has words."""
    known = [part for part in parts.values() if part]
    if not known:
        return None
    # The words of a single attribute are hidden behind its own token.
    token = known[0].token if len(known) == 1 else f"<{'-and-'.join(part.token[1:-1] for part in known)}>"
    source = "; ".join(f"{name}: {part.source if part else 'no words'}" for name, part in parts.items())
    language = next((part.language for part in known if part.language != "en"), "en")
    return ProductLexicon(AND.join(parts), token, {}, source=source, language=language, parts=tuple(parts.values()))


@dataclass(frozen=True)
class TaskUnion(Lexicon):
    """The tasks of several lexicons, ``parts``."""

    parts: tuple[Lexicon, ...] = ()


def load_tasks(names: Sequence[str]) -> Lexicon:
    """The words of tasks: one lexicon (a shipped name, or a file), or the union of several."""
    if not names:
        raise JudgeError("no lexicon of tasks is named", mend="give --tasks coco-objects")
    lexicons = [load_lexicon(name) for name in names]
    return lexicons[0] if len(lexicons) == 1 else unite_lexicons(lexicons)


def unite_lexicons(lexicons: Sequence[Lexicon]) -> TaskUnion:
    """All tasks of several lexicons. As within one, the longest entry wins: a "surf board" is no surfing.

    They share one token (one for each lexicon would reveal which of them was named). A word that one lexicon only hides
    and another has as a task is a task: "skiing" reveals skis, and names the activity. Two lexicons with the same task,
    or the same word for two tasks, are refused.
    """
    classes: dict[str, frozenset[str]] = {}
    owner: dict[str, str] = {}
    for name, words in (pair for lexicon in lexicons for pair in lexicon.classes.items()):
        if name in classes:
            raise JudgeError(f"two lexicons have a task '{name}'", where="--tasks", mend="rename it in one of them")
        for word in sorted(words & owner.keys()):
            what = f"'{word}' names '{owner[word]}' and '{name}'"
            raise JudgeError(what, where="--tasks", mend="keep it in one of the lexicons")
        classes[name] = words
        owner |= dict.fromkeys(words, name)
    return TaskUnion(
        name=",".join(lexicon.name for lexicon in lexicons),
        token=f"<{'-or-'.join(lexicon.token[1:-1] for lexicon in lexicons)}>",
        classes=classes,
        hidden_only=frozenset().union(*(lexicon.hidden_only for lexicon in lexicons)) - owner.keys(),
        source="; ".join(f"{lexicon.name}: {lexicon.source}" for lexicon in lexicons),
        language=next((lexicon.language for lexicon in lexicons if lexicon.language != "en"), "en"),
        parts=tuple(lexicons),
    )


def unlisted_tasks(lexicon: Lexicon | None, listed: Collection[str]) -> frozenset[str]:
    """Tasks of those lexicons in a union that share no task with ``listed``: a list of objects has no activities."""
    parts = lexicon.parts if isinstance(lexicon, TaskUnion) else ()
    return frozenset().union(*(part.classes for part in parts if part.classes.keys().isdisjoint(listed)))

"""Attribute classes and the words that reveal them, and hiding these words."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import resources
from itertools import chain, islice, product
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from judge.errors import JudgeError, nearest, shortened
from judge.text.tokens import kind_of, tokenize
from judge.types import Words
from judge.utils.plugins import load_plugin, origin, plugins
from judge.utils.reading import parse_yaml, read_small_text, validated

_SUFFIXES = {".yaml", ".yml"}
WITHOUT_WORDS = frozenset({"race", "skin"})
"""Attributes that captions hardly ever name: nothing is hidden by default. Any other needs a lexicon, or "none"."""
_BRACES, _MOST = re.compile(r"\{([^{}]*)\}"), 10_000
_CLASSES = "write 'classes: {class: [words]}', and quote words that YAML reads otherwise, like 'no'"
NO_CLASS = "none"
"""The key of a row of counterparts for the word that names no class."""


@dataclass(frozen=True)
class Lexicon:
    """Words that name each class of an attribute (or each task).

        >>> gender, words = load_lexicon("gender"), ["a", "young", "woman", "rides"]
        >>> list(gender.find(words)), gender.mentions(words), gender.counterpart("woman", "male")
        ([(2, 3, 'female')], frozenset({'female'}), 'man')
        >>> gender.named(words, annotated="male"), gender.without_words_for(["male", "unsure"])
        (frozenset({'female'}), ['unsure'])

    Attributes:
        name: the attribute, e.g. "gender".
        token: replaces a hidden word, e.g. "<gender>"; the tokeniser never writes it.
        classes: class -> its words, lower case; an entry may be several words ("hot dog").
        hidden_only: words that are hidden too but name no class.
        spellings: class -> its spellings in label tables, lower case.
        counterparts: rows of words with one meaning, for each class and for none: {"female": "woman", "male": "man",
            "none": "person"}; the counterparts of a word are in the first row that has it.
        source: where the lists come from (the file's first line).
        language: the language of the words; for "en", captions in another language are reported.
        wider: the name of a lexicon with more words; where many captions hold these, they are reported as unmasked.
    """

    name: str
    token: str
    classes: Mapping[str, frozenset[str]]
    hidden_only: frozenset[str] = frozenset()
    spellings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    counterparts: tuple[Mapping[str, str], ...] = ()
    source: str = ""
    language: str = "en"
    wider: str = ""

    def counterpart(self, entry: str, to: str | None) -> str | None:
        """The word for the class ``to`` (None: for no class) that corresponds to ``entry``; None if unknown."""
        row = next((row for row in self.counterparts if entry in row.values()), {})
        return row.get(NO_CLASS if to is None else to)

    @cached_property
    def _entries(self) -> dict[str, list[tuple[Words, str | None]]]:
        """First word -> [(the entry's words, its class or None)], longest entry first."""
        table: dict[str, list[tuple[Words, str | None]]] = {}
        named = [(word, name) for name, words in self.classes.items() for word in words]
        for entry, name in [*named, *((word, None) for word in self.hidden_only)]:
            # As the captions' own tokeniser cuts them, whichever way contractions go: "dark-skinned", "ma'am".
            cut = partial(tokenize, entry, language=self.language)
            for words in {cut(), cut(contractions="split")} - {()}:
                table.setdefault(words[0], []).append((words, name))
        for entries in table.values():
            entries.sort(key=lambda entry: -len(entry[0]))
        return table

    @cached_property
    def words(self) -> frozenset[str]:
        """All entries of one word."""
        return frozenset(first for first, of in self._entries.items() if any(len(entry) == 1 for entry, _ in of))

    @cached_property
    def unmasked(self) -> Mapping[str, str]:
        """Words that name a class in the ``wider`` lexicon and are none of this one, with their class."""
        classes = load_lexicon(self.wider).classes if self.wider else {}
        return {word: name for name, words in classes.items() for word in words - self.words}

    def find(self, words: Sequence[str]) -> Iterable[tuple[int, int, str | None]]:
        """Non-overlapping (start, stop, class) of the entries in ``words``, longest first; None: only hidden."""
        entries, free = self._entries, 0
        if entries.keys().isdisjoint(words):
            return
        for start, word in enumerate(words):
            if start < free or word not in entries:
                continue
            for entry, name in entries[word]:
                stop = start + len(entry)
                if tuple(words[start:stop]) == entry:
                    yield start, stop, name
                    free = stop
                    break

    def mentions(self, words: Sequence[str]) -> frozenset[str]:
        """The classes that ``words`` name: "he's" and "she'd" name one, "the woman's bag" nobody."""
        words = [_stem(word) if "'" in word else word for word in words] if "'" in "".join(words) else words
        return frozenset(name for _, _, name in self.find(words) if name is not None)

    def named(self, words: Sequence[str], annotated: str) -> frozenset[str]:  # noqa: ARG002 - for several attributes
        """The classes that a caption names, whatever class its image is ``annotated`` as."""
        return self.mentions(words)

    def without_words_for(self, classes: Iterable[str]) -> list[str]:
        """The ``classes`` that no caption can name: "something else" has no words."""
        return [name for name in classes if not self.classes.get(name)]


def _stem(word: str) -> str:
    """What is contracted with a verb, without it: "he" of "he's"; a noun with "'s" is taken for a possessive."""
    stem, _, end = word.partition("'")
    return stem if end in {"d", "ll"} or (end == "s" and kind_of(stem) == "function") else word


def mask(words: Sequence[str], lexicon: Lexicon | None, *, spared: Collection[str] = ()) -> tuple[str, ...]:
    """Replace every entry of ``lexicon`` in ``words`` by its token: one token for an entry of several words.

    (One token per word would tell "fire hydrant" from "bench".) Entries of the classes ``spared`` stay, with the words
    in them: a "bike rider" is no bike. Possessives of a lexicon word ("woman's") are hidden too, though
    :meth:`Lexicon.mentions` does not count them. Idempotent.
    """
    if lexicon is None:
        return tuple(words)
    spellings = [words]
    if "'" in "".join(words):
        spellings.append([word.partition("'")[0] or word for word in words])
    hidden: list[str | None] = list(words)
    for spelling in spellings:
        for start, stop, name in lexicon.find(spelling):
            if name in spared:
                continue
            bare = [place for place in range(start, stop) if hidden[place] == words[place]]
            for place in bare:
                hidden[place] = lexicon.token if len(bare) == stop - start and place == start else None
    # Of a caption in which nothing is hidden there is one tuple.
    return tuple(words) if hidden == list(words) else tuple(word for word in hidden if word is not None)


def named_lexicons() -> list[str]:
    """Names of the lexicons that come with this package, or with others."""
    return sorted({*_shipped(), *plugins("lexicons")})


def _shipped() -> list[str]:
    return [entry.name[:-5] for entry in (resources.files("judge.text") / "lexicons").iterdir()]


def load_lexicon(name_or_path: str) -> Lexicon:
    """A lexicon of this package, or of another, by its name ("gender"); a YAML file of the user's; or its text.

        >>> list(load_lexicon("age").classes)
        ['child', 'adult', 'old']

    A lexicon with ``extends: gender`` also has the words and spellings of that lexicon (a shipped name or a file), and
    its name and token unless it has its own.

    Raises:
        JudgeError: no such lexicon; not YAML; wrong shape; one word in two classes; lexicons that extend each other.
    """
    return _load(name_or_path) if Path(name_or_path).suffix in _SUFFIXES else _load_shipped(name_or_path)


def spell(words: Lexicon | Mapping[str, Collection[str]], name: str) -> str:
    """A lexicon, or class -> words, as :func:`load_lexicon` reads them: the text of a lexicon file, as JSON.

        >>> list(load_lexicon(spell({"child": ["boy", "girl"], "adult": ["man", "woman"]}, "who")).classes)
        ['child', 'adult']

    ``name``: of the attribute, for words that have none.
    """
    if not isinstance(words, Lexicon):
        lists = {key: [of] if isinstance(of, str) else of for key, of in words.items()}
        for key, of in lists.items():
            if not isinstance(key, str) or not isinstance(of, Collection) or not all(isinstance(w, str) for w in of):
                what = f"the words of {shortened(repr(key), 50)} are no list of texts"
                raise JudgeError(what, where="lexicon", mend="give {class: [words]}")
        # Sorted: the text must not depend on the order of a set.
        classes = {key: sorted(of) for key, of in lists.items()}
        return json.dumps({"name": name, "classes": classes}, ensure_ascii=False)
    tables = {"classes": words.classes, "spellings": words.spellings}
    found = {part: {key: sorted(of) for key, of in table.items()} for part, table in tables.items()}
    found |= {part: getattr(words, part) for part in ("name", "token", "counterparts", "language", "wider")}
    return json.dumps(found | {"hidden_only": sorted(words.hidden_only)}, ensure_ascii=False)


def _load(name_or_path: str, within: tuple[str, ...] = ()) -> Lexicon:
    """``within``: the lexicons that extend this one, the outermost first."""
    if name_or_path in within:
        what = f"lexicons extend each other ({' by '.join([name_or_path, *reversed(within)])})"
        raise JudgeError(what, where=within[-1], mend="take 'extends' out of one of them")
    path, shipped, owner = Path(name_or_path), _shipped(), origin("lexicons", name_or_path)
    if name_or_path.startswith("{"):
        text, where = name_or_path, "words in memory"
    elif path.suffix in _SUFFIXES:
        text, where = read_small_text(path), str(path)
    elif plugin := load_plugin("lexicons", name_or_path, Path, shipped):
        text, where = read_small_text(plugin), f"lexicon '{name_or_path}' of {owner}"
    elif name_or_path in shipped:
        file = resources.files("judge.text") / "lexicons" / f"{name_or_path}.yaml"
        text, where = file.read_text(encoding="utf-8"), f"lexicon '{name_or_path}'"
    else:
        meant = nearest(name_or_path, named_lexicons())
        mend = f"{meant} Else give a .yaml path" if meant.endswith("?") else f"{meant}; or give a .yaml path"
        extending = f"{within[-1]}, 'extends'" if within else ""
        raise JudgeError(f"no lexicon '{name_or_path}'", where=extending, mend=mend)
    found = validated(_LexiconFile, parse_yaml(text, where=where, mend=_CLASSES), where=where, mend=_CLASSES)
    base = _load(found.extends, (*within, name_or_path)) if found.extends else Lexicon("", "", {})
    source = text.splitlines()[0].removeprefix("# source:").strip() if text.startswith("# source:") else where
    source += f" ({owner})" if owner and owner not in source else ""
    return _extend(found, base, source, where)


_load_shipped = cache(_load)  # Reading the YAML takes a tenth of a second.


def _word(text: str) -> str:
    """An entry in lower case, its words separated by one space."""
    if not text.strip():
        raise ValueError("is empty")
    return " ".join(text.lower().split())


def _expand(text: str) -> Iterator[str]:
    """``text`` with each of the alternatives in braces, as shells expand them: "{his,her} 20s", "aged {1..12}"."""
    parts = [[part] if place % 2 == 0 else _alternatives(part) for place, part in enumerate(_BRACES.split(text))]
    return map("".join, product(*parts))


def _alternatives(text: str) -> list[str]:
    found = re.fullmatch(r"(\d{1,4})\.\.(\d{1,4})", text)
    return [str(one) for one in range(int(found[1]), int(found[2]) + 1)] if found else text.split(",")


def _words(entries: Collection[str]) -> frozenset[str]:
    found = tuple(islice(chain.from_iterable(map(_expand, entries)), _MOST + 1))
    if len(found) > _MOST:
        raise ValueError(f"stands for more than {_MOST:,} words")
    return frozenset(map(_word, found))


_Word = Annotated[str, AfterValidator(_word)]
_Words = Annotated[frozenset[_Word], AfterValidator(_words)]


class _LexiconFile(BaseModel):
    """A lexicon's YAML file; the fields are those of :class:`Lexicon`. Its words stand with its ``prefixes`` too.

    Braces in a word stand for several: "{his,her} 20s", "aged {1..12}".
    """

    model_config = ConfigDict(extra="forbid")

    name: str = ""
    token: str = ""
    language: str = ""
    extends: str = ""
    wider: str = ""
    classes: dict[str, _Words] = {}
    hidden_only: _Words = frozenset()
    prefixes: tuple[_Word, ...] = ()
    spellings: dict[str, frozenset[_Word]] = {}
    counterparts: tuple[dict[str, _Word], ...] = ()


def _extend(file: _LexiconFile, base: Lexicon, source: str, where: str) -> Lexicon:
    """The lexicon of a file that extends ``base``, which has no words if the file extends none."""
    name = file.name or base.name or Path(where).stem
    token = file.token or base.token or f"<{name}>"
    if not re.fullmatch(r"<[^<>\s]+>", token) or token in {"<unk>", "<pad>"}:
        raise JudgeError(f"token '{token}' could be a word", where=where, mend=f"write it like '<{name}>'")
    lists, prefixes = {**file.classes, "": file.hidden_only}, ("", *file.prefixes)
    own = {name: frozenset(prefix + word for prefix in prefixes for word in words) for name, words in lists.items()}
    hidden_only = own.pop("") | base.hidden_only
    classes, spellings = _joined(base.classes, own), _joined(base.spellings, file.spellings)
    if not classes:
        raise JudgeError("no 'classes'", where=where, mend=_CLASSES)
    first: dict[str, str] = {}
    for key, words in {**classes, "hidden_only": hidden_only}.items():
        for word in sorted(words):
            if first.setdefault(word, key) != key:
                what = f"'{word}' is in '{first[word]}' and in '{key}'"
                raise JudgeError(what, where=where, mend="keep it in one of them")
    for number, row in enumerate(file.counterparts, start=1):
        named = {word: key for key, words in classes.items() for word in words}
        if {key: named.get(word, NO_CLASS) for key, word in row.items()} != {key: key for key in (*classes, NO_CLASS)}:
            mend = f"give a word of each of {', '.join(classes)}, and as '{NO_CLASS}' a word that names no class"
            raise JudgeError("is no row of counterparts", where=f"{where}, counterparts, row {number}", mend=mend)
    # If the file adds a class, rows of the extended lexicon lack a word of it.
    counterparts = (*file.counterparts, *(row for row in base.counterparts if {*row} == {*classes, NO_CLASS}))
    language, wider = file.language or base.language, file.wider or base.wider
    return Lexicon(name, token, classes, hidden_only, spellings, counterparts, source, language, wider)


def _joined(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in {**one, **other}}


@dataclass(frozen=True, slots=True)
class Lexicons:
    """The words of a run that reveal the attribute, and those that reveal tasks (objects, activities).

    None where no words do (skin tone is rarely named), or no metric reads tasks.
    """

    attribute: Lexicon | None
    tasks: Lexicon | None = None

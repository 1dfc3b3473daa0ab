"""Attribute classes and the words that reveal them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

from judge.errors import JudgeError, nearest
from judge.text.tokens import tokenize
from judge.utils.reading import parse_yaml, read_small_text

_FIELDS = {"name", "token", "language", "extends", "classes", "hidden_only", "spellings", "counterparts"}
_SUFFIXES = {".yaml", ".yml"}
# How a row of counterparts calls the word that names no class.
NO_CLASS = "none"


@dataclass(frozen=True)
class Lexicon:
    """Words that name each class of an attribute (or each task).

    Attributes:
        name: the attribute, e.g. "gender".
        token: replaces a hidden word, e.g. "<gender>"; the tokeniser never writes it.
        classes: class -> its words, lower case; an entry may be several words ("hot dog").
        hidden_only: words that are hidden too but name no class.
        spellings: class -> its spellings in label tables, lower case.
        counterparts: rows of words that say the same of each class, and of none: {"female": "woman", "male": "man",
            "none": "person"}; in the first row that holds it a word finds its counterparts.
        source: where the lists come from (the file's first line).
        language: of the words; for "en", captions in another language are reported.
    """

    name: str
    token: str
    classes: Mapping[str, frozenset[str]]
    hidden_only: frozenset[str] = frozenset()
    spellings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    counterparts: tuple[Mapping[str, str], ...] = ()
    source: str = ""
    language: str = "en"

    def counterpart(self, entry: str, to: str | None) -> str | None:
        """The word for the class ``to`` (None: for no class) that corresponds to ``entry``; None if unknown."""
        row = next((row for row in self.counterparts if entry in row.values()), {})
        return row.get(NO_CLASS if to is None else to)

    @cached_property
    def _entries(self) -> dict[str, list[tuple[tuple[str, ...], str | None]]]:
        """First word -> [(the entry's words, its class or None)], longest entry first."""
        table: dict[str, list[tuple[tuple[str, ...], str | None]]] = {}
        named = [(word, name) for name, words in self.classes.items() for word in words]
        for entry, name in [*named, *((word, None) for word in self.hidden_only)]:
            # As the captions' own tokeniser cuts them, whichever way contractions go: "dark-skinned", "ma'am".
            for words in {tokenize(entry), tokenize(entry, contractions="split")} - {()}:
                table.setdefault(words[0], []).append((words, name))
        for entries in table.values():
            entries.sort(key=lambda entry: -len(entry[0]))
        return table

    @cached_property
    def words(self) -> frozenset[str]:
        """All entries of one word."""
        return frozenset(first for first, of in self._entries.items() if any(len(entry) == 1 for entry, _ in of))

    def find(self, words: Sequence[str]) -> Iterable[tuple[int, int, str | None]]:
        """Non-overlapping (start, stop, class) of the entries in ``words``, longest match first.

        The class is None for words that are hidden without naming a class.
        """
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
        """The classes that ``words`` name. Only whole words count: "a woman's bag" names nobody."""
        return frozenset(name for _, _, name in self.find(words) if name is not None)

    def named(self, words: Sequence[str], annotated: str) -> frozenset[str]:  # noqa: ARG002 - for several attributes
        """The classes that a caption names, whatever class its image is ``annotated`` as."""
        return self.mentions(words)

    def without_words_for(self, classes: Iterable[str]) -> list[str]:
        """Those of ``classes`` that no caption can name: "something else" has no words."""
        return [name for name in classes if not self.classes.get(name)]


def shipped_lexicons() -> list[str]:
    """Names of the lexicons that come with the package."""
    return sorted(entry.name[:-5] for entry in (resources.files("judge.text") / "lexicons").iterdir())


def load_lexicon(name_or_path: str) -> Lexicon:
    """A lexicon shipped with the package by name ("gender"), or a YAML file of the user's.

    One with ``extends: gender`` has the words and spellings of that one too, and its name and token unless it says
    others. What is extended is named as here, a shipped name or a file.

    Raises:
        JudgeError: no such lexicon; not YAML; wrong shape; one word in two classes; lexicons that extend each other.
    """
    if Path(name_or_path).suffix in _SUFFIXES:
        return _load(name_or_path, within=())
    return _load_shipped(name_or_path)


@cache
def _load_shipped(name: str) -> Lexicon:
    """Cached: reading the YAML takes a tenth of a second."""
    return _load(name, within=())


def _load(name_or_path: str, *, within: Sequence[str]) -> Lexicon:
    """``within``: the lexicons that extend this one, the outermost first."""
    if name_or_path in within:
        what = f"lexicons extend each other ({' by '.join([name_or_path, *reversed(within)])})"
        raise JudgeError(what, where=within[-1], mend="take 'extends' out of one of them")
    shipped = resources.files("judge.text") / "lexicons" / f"{name_or_path}.yaml"
    path = Path(name_or_path)
    if path.suffix in _SUFFIXES:
        text, where = read_small_text(path), str(path)
    elif name_or_path in shipped_lexicons():
        text, where = shipped.read_text(encoding="utf-8"), f"lexicon '{name_or_path}'"
    else:
        extending = f"{within[-1]}, 'extends'" if within else ""
        meant = nearest(name_or_path, shipped_lexicons())
        mend = f"{meant} Else give a .yaml path" if meant.endswith("?") else f"{meant}; or give a .yaml path"
        raise JudgeError(f"no lexicon '{name_or_path}'", where=extending, mend=mend)
    data = parse_yaml(text, where=where, mend="write 'classes: {class: [words]}'")
    source = text.splitlines()[0].removeprefix("# source:").strip() if text.startswith("# source:") else where
    extended = data.get("extends") if isinstance(data, dict) else None
    base = None if extended is None else _load(str(extended), within=[*within, name_or_path])
    return _parse(data, where, source, base or Lexicon("", "", {}))


def _parse(data: object, where: str, source: str, base: Lexicon) -> Lexicon:
    """``base``: the lexicon that it extends; one without words if it extends none."""
    given = data.get("classes", base.classes) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(given, Mapping) or len(given) < 1:
        raise JudgeError("no 'classes'", where=where, mend="write 'classes: {class: [words]}'")
    unknown = sorted(set(map(str, data)) - _FIELDS)
    if unknown:
        raise JudgeError(f"unknown key '{unknown[0]}'", where=where, mend=nearest(unknown[0], sorted(_FIELDS)))
    name = str(data.get("name") or base.name or Path(where).stem)
    token = str(data.get("token") or base.token or f"<{name}>")
    if not re.fullmatch(r"<[^<>\s]+>", token) or token in {"<unk>", "<pad>"}:
        raise JudgeError(f"token '{token}' could be a word", where=where, mend=f"write it like '<{name}>'")
    classes = _lists(data.get("classes", {}), where, "classes", base.classes)
    hidden_only = _words(data.get("hidden_only") or [], where, "hidden_only") | base.hidden_only
    _refuse_shared(classes, hidden_only, where)
    spellings = _lists(data.get("spellings") or {}, where, "spellings", base.spellings)
    own = _counterparts(data.get("counterparts") or [], where)
    _check_counterparts(own, classes, where)
    # If this lexicon adds a class, rows of the extended one lack a word of it.
    counterparts = (*own, *(row for row in base.counterparts if {*row} == {*classes, NO_CLASS}))
    language = str(data.get("language") or base.language)
    return Lexicon(name, token, classes, hidden_only, spellings, counterparts, source, language)


def _counterparts(rows: object, where: str) -> list[dict[str, str]]:
    """Rows as mappings of classes to words, lower case."""
    mend = "write rows like '{female: woman, male: man, none: person}'"
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise JudgeError("'counterparts' is no list of rows", where=where, mend=mend)
    found = []
    for number, row in enumerate(rows, 1):
        if not all(isinstance(word, str) and word.strip() for word in row.values()):
            raise JudgeError("holds something else than words", where=f"{where}, counterparts, row {number}", mend=mend)
        found.append({str(name): " ".join(word.lower().split()) for name, word in row.items()})
    return found


def _check_counterparts(rows: Sequence[Mapping[str, str]], classes: Mapping[str, frozenset[str]], where: str) -> None:
    """Each row has a word of each class, and one of none of them."""
    for number, row in enumerate(rows, 1):
        place = f"{where}, counterparts, row {number}"
        if {*row} != {*classes, NO_CLASS}:
            what = f"says words of {', '.join(map(str, row))}"
            raise JudgeError(what, where=place, mend=f"say one of each of {', '.join([*classes, NO_CLASS])}")
        for name, word in row.items():
            fits = word in classes[name] if name != NO_CLASS else not any(word in words for words in classes.values())
            if not fits:
                what = f"'{word}' is no word of '{name}'" if name != NO_CLASS else f"'{word}' names a class"
                raise JudgeError(what, where=place, mend="exchange it, or change the lists of words")


def _lists(value: object, where: str, at: str, base: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Class -> words, those of ``base`` among them."""
    if not isinstance(value, Mapping):
        raise JudgeError(f"'{at}' is no mapping of classes", where=where, mend=f"write '{at}: {{class: [words]}}'")
    own = {str(key): _words(words, where, f"{at}.{key}") for key, words in value.items()}
    return {name: own.get(name, frozenset()) | base.get(name, frozenset()) for name in {**base, **own}}


def _words(value: object, where: str, at: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) and word.strip() for word in value):
        mend = "quote words that YAML reads otherwise, like 'no'"
        raise JudgeError(f"'{at}' is not a list of words", where=where, mend=mend)
    return frozenset(" ".join(word.lower().split()) for word in value)


def _refuse_shared(classes: Mapping[str, frozenset[str]], hidden_only: frozenset[str], where: str) -> None:
    first: dict[str, str] = {}
    for name, words in [*classes.items(), ("hidden_only", hidden_only)]:
        for word in sorted(words):
            if word in first:
                what = f"'{word}' stands in '{first[word]}' and in '{name}'"
                raise JudgeError(what, where=where, mend="keep it in one of them")
            first[word] = name


@dataclass(frozen=True, slots=True)
class Lexicons:
    """The words of a run.

    Attributes:
        attribute: words that reveal the attribute; None if none do (skin tone is rarely named).
        tasks: words that reveal tasks (objects, activities); None if no metric reads them.
    """

    attribute: Lexicon | None
    tasks: Lexicon | None = None

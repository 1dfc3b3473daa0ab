"""Settings of one attribute, or of several: which attribute each text is of. Faults are told by the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from judge.utils.files import split_name


def attribute_names(parts: Sequence[str]) -> tuple[str, ...]:
    """The attributes named; ``gender,skin`` is two.

    Raises:
        ValueError: none, or one twice.
    """
    names = tuple(name.strip() for part in parts for name in part.split(",") if name.strip())
    if len(set(names)) != max(1, len(names)):
        raise ValueError(f"'{max(names, key=names.count)}' twice: give each attribute once" if names else "no name")
    return names


def by_attribute(value: object, names: Sequence[str], *, shared: bool) -> object:
    """Of several attributes a mapping, out of texts ``NAME=TEXT``; of one the text alone. Others stay as they are.

    Args:
        value: a text, a list of texts or a mapping.
        names: of the attributes.
        shared: whether one text without a name may stand for all of them.

    Raises:
        ValueError: a text of no attribute; two of one.
    """
    if isinstance(value, str | Path | list | tuple):
        entries, named = [value] if isinstance(value, str | Path) else value, dict[str, str]()
        for entry in entries:
            name, text = split_name(str(entry))
            if name in named:
                raise ValueError(f"'{name}' twice: give one of each attribute")
            if name in names:
                named[name] = text
            elif len(entries) == 1 and (len(names) == 1 or (shared and not name)):
                return entry
            elif len(names) == 1:
                raise ValueError(f"{' and '.join(map(str, entries))} are of one attribute: give one")
            else:
                raise ValueError(f"'{entry}' is of none of {', '.join(names)}: write {names[0]}=VALUE")
        value = named
    if not isinstance(value, dict):
        return value
    _check(value, names)
    return value if len(names) > 1 else next(iter(value.values()), None)


def dropped_by_attribute(value: object, names: Sequence[str]) -> object:
    """Values that mean "no class"; of several attributes a mapping, out of texts ``NAME=VALUE``.

    Raises:
        ValueError: a text, or a key, that is of no attribute.
    """
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, list | tuple):
        listed = _pairs(listed, "NAME=VALUE") if len(names) > 1 else [str(one) for one in listed]
    if isinstance(listed, dict):
        _check(listed, names)
    return listed


def spellings_by_attribute(value: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    """Of each attribute class -> spellings; texts ``CLASS=TEXT`` become such a mapping.

    Raises:
        ValueError: a key that is no attribute; a text that is not ``CLASS=TEXT``.
    """
    _check(value, names)
    return {name: _pairs(of, "CLASS=TEXT") if isinstance(of, list | tuple) else of for name, of in value.items()}


def _pairs(entries: Sequence[object], shape: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in entries:
        name, _, text = str(entry).partition("=")
        if not text:
            raise ValueError(f"'{entry}' is not {shape}")
        found.setdefault(name, []).append(text)
    return found


def _check(value: Mapping[str, object], names: Sequence[str]) -> None:
    if strange := [name for name in value if name not in names]:
        raise ValueError(f"'{strange[0]}' is none of the attributes {', '.join(names)}: write {names[0]}=VALUE")

"""Which categories are people: annotation files and detectors name them in several ways."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from judge.corpus.records import canonical_id
from judge.errors import JudgeError, nearest
from judge.masking.instances import PERSON
from judge.types import Doubt
from judge.utils.reading import parse_yaml, read_small_text

# Whole names of categories, as COCO, LVIS, Objects365, OpenImages, Cityscapes, VisDrone and Visual Genome spell them.
_PEOPLE = {
    *("person", "people", "persons", "human", "humans", "man", "men", "woman", "women", "boy", "boys", "girl", "girls"),
    *("child", "children", "kid", "kids", "baby", "babies", "toddler", "infant", "teenager", "adult", "adults", "lady"),
    *("guy", "gentleman", "pedestrian", "pedestrians", "rider", "riders", "cyclist", "bicyclist", "motorcyclist"),
    *("driver", "passenger", "player", "crowd", "male", "female", "surfer", "skier", "skater", "athlete", "face", "人"),
}
_NAMES = "give a text file with one name per line (the first is 0), or YAML or JSON of id: name"


def names_people(name: str) -> bool:
    """Whether ``name`` is a name of people, by its last word ("Sports player"); "Human body" and "person_male" are."""
    words = name.casefold().replace("_", " ").replace("-", " ").split()
    return bool(words) and (words[-1] in _PEOPLE or words[0] in {"human", PERSON})


def people_among(names: Iterable[str], named: Collection[str], also: Collection[str] = ()) -> set[str]:
    """The categories that are hidden as people: "person" and those in ``named``.

    If there are none of these, all that name people, and what the source itself calls people (``also``).
    """
    known = set(names)
    return known & {PERSON, *named} or {name for name in known if names_people(name) or name in also}


def stays_visible(name: str, source: str) -> Doubt:
    """The note on a category that names people and is not hidden."""
    return Doubt(f"'{name}' of {source} names people too, and stays visible: hide it with --person-category '{name}'.")


def check_categories(wanted: Iterable[str], known: Collection[str], source: str) -> None:
    """Refuse a category that a source does not have."""
    for name in wanted:
        if name not in known:
            mend = nearest(name, sorted(known))
            if name == PERSON:
                mend += "" if mend.endswith("?") else "."
                mend += " Name its categories of people with --person-category, or a network's classes by --class-names"
            raise JudgeError(f"no category '{name}'", where=source, mend=mend)


def read_names(path: Path | None) -> dict[str, str] | None:
    """Class id (as text) -> name, from a file of class names; None for no file.

    A text file has one name per line, and the first is class 0. YAML and JSON hold a list (from 0), ``{id: name}``,
    Ultralytics' ``{names: ...}`` or COCO's ``{categories: [{id, name}]}``; a file that holds no such names is refused.
    """
    if path is None:
        return None
    text = read_small_text(path)
    found: Any = [line.strip() for line in text.strip().splitlines()]
    if path.suffix.lower() in {".yaml", ".yml", ".json"}:
        found = parse_yaml(text, where=str(path), mend=_NAMES)
        found = found.get("names", found.get("categories", found)) if isinstance(found, dict) else found
    if isinstance(found, list):
        found = {row.get("id"): row.get("name") for row in found if isinstance(row, dict)} or dict(enumerate(found))
    try:
        names = {canonical_id(key): name for key, name in found.items()}
    except (ValueError, AttributeError):
        names = {}
    if not names or not all(isinstance(name, str) and name for name in names.values()):
        raise JudgeError("holds no names of classes", where=str(path), mend=_NAMES)
    return names

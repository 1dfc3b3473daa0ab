"""Metrics, judges, detectors, readers of captions and lexicons of other packages: entry points ``judge.metrics``, ...

Names come from the metadata of installed packages; an object is imported when something of its name is asked for.
"""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, TypeVar, get_args

from judge.errors import JudgeError

Kind = Literal["metrics", "judges", "detectors", "readers", "lexicons"]
KINDS: tuple[Kind, ...] = get_args(Kind)
T = TypeVar("T")


@cache
def plugins(kind: Kind) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Name in lower case -> its entry points, sorted; there are several if packages share the name."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in sorted(entry_points(group=f"judge.{kind}"), key=lambda entry: (entry.name, entry.value)):
        found[entry.name.lower()] = (*found.get(entry.name.lower(), ()), entry)
    return found


def origin(kind: Kind, name: str) -> str:
    """Package and version of a plugin ("judge-hair 1.0"); "" for what is no plugin."""
    return " and ".join(f"{of.dist.name} {of.dist.version}" for of in plugins(kind).get(name, ()) if of.dist)


def unusable(kind: Kind, name: str, what: str) -> JudgeError:
    """The error of a plugin that is not as it must be."""
    where = f"{kind[:-1]} '{name}' of {origin(kind, name)}"
    return JudgeError(what, where=where, mend="update the package, or uninstall it")


def load_plugin(kind: Kind, name: str, shape: type[T], shipped: Collection[str] = ()) -> T | None:
    """The plugin called ``name``, an instance of ``shape``, that is none of ``shipped``; None if no package has one."""
    if not (entries := plugins(kind).get(name, ())):
        return None
    if name in shipped or len(entries) > 1:
        raise unusable(kind, name, f"{'caption-judge has' if name in shipped else 'they have'} one of the same name")
    try:
        found = entries[0].load()
    except Exception as error:
        raise unusable(kind, name, f"cannot be imported ({type(error).__name__}: {error})") from error
    if not isinstance(found, shape):
        raise unusable(kind, name, f"{entries[0].value} is of type {type(found).__name__}, not {shape.__name__}")
    return found

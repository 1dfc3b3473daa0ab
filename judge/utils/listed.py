"""The list of its files that a folder holds which a command made: nothing else is ever replaced or removed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from judge.utils.files import write_whole

LIST = ".caption-judge"


def write_list(folder: Path, kind: str) -> None:
    """Write ``.caption-judge`` into ``folder``: its kind, this package's version, and what lies in it by now."""
    content = {"kind": kind, "version": version("caption-judge"), "files": _within(folder)}
    write_whole(folder / LIST, (json.dumps(content, indent=0, ensure_ascii=True) + "\n").encode())


def read_list(folder: Path, kind: str | None = None) -> frozenset[str] | None:
    """What the list of ``folder`` names; None where there is no such list, or it is of another kind."""
    try:
        content = json.loads((folder / LIST).read_bytes())
        known = isinstance(content["kind"], str) and kind in {None, content["kind"]}
        return frozenset(map(str, content["files"])) if known else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def find_stranger(folder: Path, listed: Collection[str]) -> str | None:
    """The first file, link or folder at any depth of ``folder`` that ``listed`` does not name."""
    return next((name for name in _within(folder) if name not in listed), None)


def remove_listed(folder: Path) -> None:
    """Remove what the list of ``folder`` names, and the folder if nothing else is in it; faults are passed over."""
    listed = read_list(folder) or ()
    for name in reversed(_within(folder)):  # Folders after what they hold.
        if name in listed:
            with suppress(OSError):
                (folder / name).rmdir() if name.endswith("/") else (folder / name).unlink()
    with suppress(OSError):
        if not _within(folder):
            (folder / LIST).unlink(missing_ok=True)
            folder.rmdir()


def _within(folder: Path) -> list[str]:
    """Everything in ``folder`` but the list, sorted: "figures/", "figures/sides.svg"; links are files."""
    found = []
    for base, folders, files in os.walk(folder, onerror=_raise):
        place = Path(base)
        paths = [(place / name, "/" if not (place / name).is_symlink() else "") for name in folders]
        paths += [(place / name, "") for name in files]
        found += [path.relative_to(folder).as_posix() + ending for path, ending in paths]
    return sorted(name for name in found if name != LIST)


def _raise(error: OSError) -> None:
    raise error

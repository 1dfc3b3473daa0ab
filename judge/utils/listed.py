"""The list of its files that a folder holds which a command made: nothing else is ever replaced or removed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from judge.errors import FAULTS
from judge.utils.files import write_whole
from judge.utils.opening import read_bytes

LIST = ".caption-judge"
Listed = Mapping[str, int]
"""Name, relative to the folder -> bytes; folders ("figures/") have none."""


def write_list(folder: Path, kind: str) -> None:
    """Write ``.caption-judge`` into ``folder``: its kind, this package's version, and what lies in it by now."""
    _save(folder, {"kind": kind, "version": version("caption-judge"), "files": _within(folder)})


def read_list(folder: Path, kind: str | None = None) -> Listed | None:
    """What the list of ``folder`` names; None where there is no such list, or it is of another kind."""
    try:
        content = json.loads(read_bytes(folder / LIST))
        known = isinstance(content["kind"], str) and kind in {None, content["kind"]}
        return {str(name): int(size) for name, size in content["files"].items()} if known else None
    except (OSError, *FAULTS):
        return None


def write_again(path: Path, data: bytes) -> None:
    """Write a file whole; one that is listed in its folder is listed as it is then."""
    write_whole(path, data)
    if path.name in (read_list(path.parent) or ()):
        content = json.loads(read_bytes(path.parent / LIST))
        content["files"][path.name] = len(data)
        _save(path.parent, content)


def forget_folder(folder: Path, name: str) -> None:
    """Remove a folder in ``folder``, where its list names it, and then from the list; nothing of any other."""
    if f"{name}/" in (read_list(folder) or ()):
        shutil.rmtree(folder / name, ignore_errors=True)
        if (folder / name).exists():
            return
        content = json.loads(read_bytes(folder / LIST))
        content["files"] = {one: size for one, size in content["files"].items() if not one.startswith(f"{name}/")}
        _save(folder, content)


def find_stranger(folder: Path, listed: Listed) -> tuple[str, str] | None:
    """The first file, link or folder at any depth of ``folder`` that is not as ``listed``, and what it is."""
    for name, size in _within(folder).items():
        if name not in listed:
            return name, "is no part"
        if listed[name] != size:
            return name, "is no more the file"
    return None


def remove_listed(folder: Path) -> None:
    """Remove what lies in ``folder`` as its list says, and the folder if nothing else is in it; faults are passed over.

    The list is the last to go.
    """
    listed = read_list(folder) or {}
    for name, size in reversed(_within(folder).items()):  # Folders after what they hold.
        if listed.get(name) == size:
            with suppress(OSError):
                (folder / name).rmdir() if name.endswith("/") else (folder / name).unlink()
    with suppress(OSError):
        if not _within(folder):
            (folder / LIST).unlink(missing_ok=True)
            folder.rmdir()


def _save(folder: Path, content: Mapping[str, object]) -> None:
    write_whole(folder / LIST, (json.dumps(content, indent=0) + "\n").encode())


def _within(folder: Path) -> dict[str, int]:
    """Everything in ``folder`` but the list, sorted, with its size; links are files of their own."""
    found = {}
    for base, folders, files in os.walk(folder, onerror=_raise):
        for path in (Path(base, name) for name in (*folders, *files)):
            inner = path.is_dir() and not path.is_symlink()
            found[path.relative_to(folder).as_posix() + "/" * inner] = 0 if inner else path.lstat().st_size
    found.pop(LIST, None)
    return dict(sorted(found.items()))


def _raise(error: OSError) -> None:
    raise error

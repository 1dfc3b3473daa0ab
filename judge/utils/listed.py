"""The list of its files that a folder holds which a command made: nothing else is ever replaced or removed."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from judge.errors import FAULTS
from judge.utils.files import write_whole
from judge.utils.kept import digest, digest_rest
from judge.utils.opening import read_bytes

LIST = ".caption-judge"
Listed = Mapping[str, str]
"""Name, relative to the folder -> checksum of its content; "" of folders ("figures/")."""
_known = dict[tuple[int, ...], str]()  # State of a file -> checksum: of large ones it is found once.
_SOON = 0.1  # Seconds in which a file may change without a new time.


def write_list(folder: Path, kind: str, names: Iterable[str] | None = None) -> None:
    """Write ``.caption-judge`` into ``folder``: its kind, this package's version, and what it holds.

    ``names``: as of :func:`within`; all that lies there unless given.
    """
    listed = {name: _digest(folder / name) for name in (within(folder) if names is None else names)}
    _save(folder, {"kind": kind, "version": version("caption-judge"), "files": listed})


def read_list(folder: Path, kind: str | None = None) -> Listed | None:
    """What the list of ``folder`` names; None where there is no such list, or it is of another kind or form."""
    try:
        content = json.loads(read_bytes(folder / LIST))
        files = dict(content["files"])
        known = isinstance(content["kind"], str) and kind in {None, content["kind"]}
        return files if known and all(isinstance(found, str) for found in files.values()) else None
    except (OSError, *FAULTS):
        return None


def write_again(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file whole (see ``write_whole``); one that is listed in its folder is listed as it is then."""
    write_whole(path, data, new=new)
    if path.name in (read_list(path.parent) or ()):
        content = json.loads(read_bytes(path.parent / LIST))
        content["files"][path.name] = _digest(path)
        _save(path.parent, content)


def forget_folder(folder: Path, name: str) -> None:
    """Remove what the list of ``folder`` names in a folder of it, and then from the list; nothing else."""
    listed, below = read_list(folder) or {}, f"{name}/"
    if below in listed:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            _remove(folder, lambda one: _is_as_listed(folder, one, listed), below)
        content = json.loads(read_bytes(folder / LIST))
        left = {one: of for one, of in listed.items() if not one.startswith(below) or os.path.lexists(folder / one)}
        _save(folder, {**content, "files": left})


def find_stranger(folder: Path, listed: Listed) -> tuple[str, str] | None:
    """The first file, link or folder at any depth of ``folder`` that is not as ``listed``, and what it is."""
    for name in within(folder):
        if name not in listed:
            return name, "is no part"
        if not _is_as_listed(folder, name, listed):
            return name, "is no more the file"
    return None


def remove_listed(folder: Path) -> None:
    """Remove what lies in ``folder`` as its list says, and the folder if nothing else is in it; faults are passed over.

    The list is the last to go.
    """
    listed = read_list(folder) or {}
    remove_own(folder, lambda name: _is_as_listed(folder, name, listed))


def remove_own(folder: Path, is_own: Callable[[str], bool]) -> None:
    """As :func:`remove_listed`, of whatever ``is_own`` says so of."""
    with suppress(OSError):
        _remove(folder, is_own)
        if not within(folder):
            (folder / LIST).unlink(missing_ok=True)
            folder.rmdir()


def within(folder: Path) -> list[str]:
    """Everything in ``folder`` but the list, sorted; folders end in "/", links are files of their own."""
    found = set[str]()
    for base, folders, files in os.walk(folder, onerror=_raise):
        paths = [Path(base, name) for name in (*folders, *files)]
        found |= {p.relative_to(folder).as_posix() + "/" * (p.is_dir() and not p.is_symlink()) for p in paths}
    return sorted(found - {LIST})


def _remove(folder: Path, is_own: Callable[[str], bool], below: str = "") -> None:
    """What ``is_own`` says so of; ``below``: of one folder of it alone ("members/"), and that folder."""
    names = [below + name for name in within(folder / below)]
    for name in [*reversed(names), *([below] if below else [])]:  # Folders after what they hold.
        with suppress(OSError):
            if is_own(name):
                (folder / name).rmdir() if name.endswith("/") else (folder / name).unlink()


def _is_as_listed(folder: Path, name: str, listed: Listed) -> bool:
    return name in listed and listed[name] == _digest(folder / name)


def _digest(path: Path) -> str:
    """Of a file or of where a link leads; "" of all else, of which a pipe would be waited for."""
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        return digest(os.fsencode(path.readlink()))
    if not stat.S_ISREG(state.st_mode):
        return ""
    key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    if (found := _known.get(key)) is None:
        with path.open("rb") as file:
            found = digest_rest(file)
        if time.time() - state.st_ctime > _SOON:
            _known[key] = found
    return found


def _save(folder: Path, content: Mapping[str, object]) -> None:
    write_whole(folder / LIST, (json.dumps(content, indent=0) + "\n").encode())


def _raise(error: OSError) -> None:
    raise error

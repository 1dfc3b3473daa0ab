"""Identities of results: what a stored answer, feature, detection or caption depends on, by content.

A folder or file is its bytes; a name on the hub is the commit that its cache holds. So other weights under an old name
are another identity, and a file that is written again with the same bytes is the same one. What decides a judge's
answers is listed by :mod:`judge.training.member`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from judge.utils.files import from_home
from judge.utils.hub import READ, locate


def digest_of(*parts: str | bytes) -> str:
    """A hash, of 32 letters, of texts or bytes joined."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()


def key_of(ingredients: Mapping[str, str]) -> str:
    """The key of a result that depends on ``ingredients``: name -> value or hash."""
    return digest_of(json.dumps(sorted(ingredients.items())))


def content_of(reference: str, *, where: str = "") -> str:
    """A hash of a file, or of a checkpoint's files that loaders read; the commit of ``NAME`` or ``NAME@REVISION``.

    Raises:
        JudgeError: no such folder; a name that is neither on the hub nor in its cache.
    """
    path = from_home(reference)
    if path.is_file():
        return _hash(path, *_stamp(path))
    folder = Path(locate(reference, where or reference))
    if folder.parent.name == "snapshots" and not path.is_dir():
        return f"commit {folder.name}"
    files = sorted(file for ending in READ for file in folder.glob(ending) if file.is_file())
    return digest_of(repr([(file.name, _hash(file, *_stamp(file))) for file in files]))


def content_of_tensors(tensors: Mapping[str, Any]) -> str:
    """A hash of the tensors of a network, by name, on the CPU."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors.items():
        found.update(f"{name} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().contiguous().numpy())
    return found.hexdigest()


def stamps_of(places: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Name, size and time in ns of every file that is or lies in one of ``places``, sorted."""
    files = {file for place in places for file in (place, *place.rglob("*")) if file.is_file()}
    return sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)


def _stamp(path: Path) -> tuple[int, int, int]:
    """Size, and times of writing and of any change in ns: ``cp -p`` keeps the first time."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


@lru_cache(maxsize=4096)
def _hash(path: Path, *stamp: int) -> str:
    """The hash of a file; it is read again if its stamp is another."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

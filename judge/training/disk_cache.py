"""Files of what is computed once for each image or caption, shared by runs, networks and processes.

Each network has a folder; each file in it (safetensors) holds the results of some images or captions and, in its notes,
their keys and hashes. A key hashes the input (an image's content and mask, a caption's words), the folder's name hashes
the network: epochs, seeds, folds, sides and later runs compute nothing again.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from judge.errors import JudgeError
from judge.utils.files import warn_damaged
from judge.utils.identity import digest_of
from judge.utils.parallel import usable_cores
from judge.utils.tensors import peek_notes, read_sound, write_tensors

Place = tuple[Path, int]
"""A file, and the row in it."""
_NAME = "features"  # Of the tensor in each file.


def write_rows(folder: Path, network: str, keys: Sequence[str], rows: npt.NDArray[Any]) -> None:
    """Write a file with a row for each key, [N, ...]."""
    notes = {"network": network, "keys": [*keys], "rows": [digest_of(row.tobytes()) for row in rows]}
    write_tensors(folder / f"{digest_of(repr([*keys]))}.safetensors", {_NAME: rows}, notes)


def find_rows(folder: Path, network: str, wanted: Collection[str]) -> dict[str, Place]:
    """Key -> place of the cached results of ``wanted``.

    Headers are read, and of rows only those wanted. The user is warned of damaged files, which are not used.
    """

    def look(path: Path) -> dict[str, Place]:
        with suppress(FileNotFoundError):  # Another process may empty the cache.
            written = path.stat().st_mtime_ns
            held = [(row, *of) for row, of in enumerate(_rows_in(path, written, network)) if of[0] in wanted]
            if _are_sound(path, written, tuple((row, digest) for row, _, digest in held)):
                return {key: (path, row) for row, key, _ in held}
        return {}

    with ThreadPoolExecutor(usable_cores()) as pool:  # Hashes take time.
        parts = pool.map(look, sorted(folder.glob("*.safetensors")))
        return {key: place for part in parts for key, place in part.items()}


@cache
def _rows_in(path: Path, written: int, network: str) -> list[tuple[str, str]]:
    """Key and hash of each row of a file, ``written`` at a time in ns; none if it is damaged, or another network's."""
    notes = read_sound(path, peek_notes) or {}
    return list(zip(notes["keys"], notes["rows"], strict=True)) if notes.get("network") == network else []


@cache
def _are_sound(path: Path, written: int, rows: tuple[tuple[int, str], ...]) -> bool:
    """Whether rows have the hashes that they were written with."""
    held = open_rows(path) if rows else ()
    sound = all(digest_of(np.ascontiguousarray(held[row : row + 1]).tobytes()) == digest for row, digest in rows)
    if not sound:
        warn_damaged(path)
    return sound


def open_rows(path: Path) -> Any:
    """The rows of a file, mapped: slices of them are arrays of numpy."""
    try:
        file: Any = safe_open(path, framework="np")
        return file.get_slice(_NAME)
    except (OSError, SafetensorError) as error:
        mend = "give the same command again: what is missing is computed again"
        raise JudgeError("features are gone, or damaged", where=str(path), mend=mend) from error

"""Files of what is computed once for each image or caption, shared by runs, networks and processes.

Each network has a folder; each file in it (safetensors) holds the results of some images or captions and, in its notes,
their keys and hashes. A key hashes the input (an image's content and mask, a caption's words), the folder's name hashes
the network: epochs, seeds, folds, sides and later runs compute nothing again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from judge.errors import JudgeError
from judge.types import Sample, Words
from judge.utils.files import warn_damaged
from judge.utils.identity import digest_of
from judge.utils.parallel import usable_cores
from judge.utils.tensors import peek_notes, read_sound, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

Place = tuple[Path, int]
"""A file, and the row in it."""
_NAME = "features"  # The name of the tensor in each file.


@dataclass
class FeatureStore:
    """Features of images or captions, [N, P, D] float16, read from files.

    Attributes:
        shape: positions of an image, and features of each: (P, D); a caption has one position.
        places: image id, or name of a caption's words or of a captioned image -> (file, row).
        key: of the network, and of the boxes that it takes.
        regions: how many of the positions, the last ones, are regions of things rather than of the grid.
        kind: what the features are of: "image", "caption", "captioned image".
        learnt: name -> array, what the network learnt from the images of a run; empty for most.
    """

    shape: tuple[int, ...]
    places: Mapping[str, Place]
    key: str
    regions: int = 0
    kind: str = "image"
    learnt: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open = lru_cache(maxsize=128)(open_rows)  # A process may usually open 1,024 files.

    def __reduce__(self) -> tuple[object, ...]:
        """Another process opens the files itself."""
        return FeatureStore, (self.shape, self.places, self.key, self.regions, self.kind, self.learnt)

    def name(self, sample: Sample) -> str | None:
        """The name of a sample's row; None if it has no image, where features are of images."""
        return name_words(sample.words) if self.kind == "caption" else sample.image

    def rows(self, samples: Sequence[Sample]) -> Tensor:
        """[B, P, D]; zeros for a sample without an image."""
        import torch

        rows = np.zeros((len(samples), *self.shape), dtype=np.float16)
        for place, sample in enumerate(samples):
            name = self.name(sample)
            if name is not None:
                rows[place] = self.row(self.places[name])
        return torch.from_numpy(rows)

    def row(self, place: Place) -> npt.NDArray[np.float16]:
        """[P, D]."""
        path, row = place
        return np.asarray(self._open(path)[row : row + 1][0])


def name_words(words: Words) -> str:
    """A key for a caption; ("a", "b") and ("ab",) differ."""
    return digest_of(repr(words))


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

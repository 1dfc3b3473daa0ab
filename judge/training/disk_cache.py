"""Files of what is computed once for each image or caption, shared by runs, networks and processes.

Each network or processor has a folder; each file in it (safetensors) holds the results of some images or captions and,
in its notes, their keys. A key hashes the input (an image's content and mask, a caption's words), the folder's name
hashes what computes: epochs, seeds, folds, sides and later runs compute nothing again.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from safetensors import SafetensorError, safe_open

from judge.errors import JudgeError
from judge.types import Progress
from judge.utils.files import writing
from judge.utils.parallel import usable_cores
from judge.utils.tensors import read_notes, read_sound

T = TypeVar("T")
Place = tuple[Path, int]
"""A file, and the row in it."""


@cache
def _keys_in(path: Path, written: int, network: str) -> list[str]:
    """The keys of the rows of a file, ``written`` at a time in ns; none if it is damaged, or another network's."""
    notes = read_sound(path, read_notes) or {}
    return notes.get("keys", []) if notes.get("network") == network else []


class DiskCache(ABC, Generic[T]):
    """Results of one network or processor, of the key ``network``, in a folder that is made if need be.

    ``keys``: image id, or name of a caption -> key of its result. ``version`` changes whenever the results, or files,
    of a network are others.
    """

    BATCH: ClassVar[int]  # Of which each process of a launch computes a share.

    def __init__(self, network: str, keys: Mapping[str, str], folder: Path, *, version: int | str) -> None:
        self.keys, self.key = keys, network
        self.folder = folder / hashlib.blake2b(f"{version} {network}".encode(), digest_size=12).hexdigest()
        self._network, self._where = network, f"--features {folder}"
        with writing(self._where):
            self.folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def compute(self, names: Sequence[str], *, device: torch.device, progress: Progress | None = None) -> None:
        """Compute the results of ``names`` and write them."""

    @abstractmethod
    def open(self) -> T:
        """The results of all names."""

    def missing(self) -> list[str]:
        """Names of those whose results are not cached; the first name of several with one key."""
        known = self._known()
        first: dict[str, str] = {}
        for name, key in self.keys.items():
            first.setdefault(key, name)
        return [name for key, name in first.items() if key not in known]

    def _known(self) -> dict[str, Place]:
        """Key -> its place, of all cached results; the user is warned of damaged files, which are not used."""
        wanted, found = set(self.keys.values()), dict[str, Place]()
        files = sorted(self.folder.glob("*.safetensors"))

        def read_keys(path: Path) -> list[str]:
            with suppress(FileNotFoundError):  # Another process may empty the cache.
                return _keys_in(path, path.stat().st_mtime_ns, self._network)
            return []

        with ThreadPoolExecutor(usable_cores()) as pool:  # Checksums take time.
            for path, keys in zip(files, pool.map(read_keys, files), strict=True):
                found |= {key: (path, row) for row, key in enumerate(keys) if key in wanted}
        return found


def open_cached(path: Path, framework: str = "np") -> Any:
    """A file of a cache, mapped; ``framework``: "np" for arrays of numpy, "pt" for tensors of torch."""
    try:
        return safe_open(path, framework=framework)
    except (OSError, SafetensorError) as error:
        mend = "give the same command again: what is missing is computed again"
        raise JudgeError("features are gone, or damaged", where=str(path), mend=mend) from error

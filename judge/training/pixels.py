"""Tensors that captioners of transformers read of images, cached on disk: every epoch needs them again.

They are as large as what the network reads, 4 bytes a number. A folder that is full takes no more: the other images are
read, masked and resized in every epoch. The numbers are the same.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from judge.judges import ImageProcessor
from judge.masking.masked_images import MaskedImages
from judge.training.disk_cache import DiskCache, Place, open_cached
from judge.training.member import digest_of
from judge.types import Progress
from judge.utils.hub import quiet
from judge.utils.parallel import in_order, threads, usable_cores
from judge.utils.tensors import write_tensors

LIMIT = 32 << 30
"""Bytes of a processor's folder: 25,000 images of LLaVA-1.5, 336 pixels a side."""
_FORMAT = "pixels 1"  # Changed whenever files are.
_FILE = 128 << 20  # Bytes of a file, about.
Prepared = Mapping[str, Any]
"""Tensors and lists of numbers that a processor makes of an image, by name."""


@dataclass
class PixelStore:
    """Tensors that a captioner's image processor made of images, read from files; ``places``: of cached images."""

    places: Mapping[str, Place]

    def __post_init__(self) -> None:
        self._open = lru_cache(maxsize=128)(_open)  # A process may usually open 1,024 files.

    def __reduce__(self) -> tuple[object, ...]:
        """Another process opens the files itself."""
        return PixelStore, (self.places,)

    def find(self, image: str) -> Prepared | None:
        """As :meth:`~judge.judges.ImageProcessor.prepare` returned it; None for an image that is not cached."""
        if image not in self.places:
            return None
        path, row = self.places[image]
        file, rows = self._open(path)
        return {name: file.get_tensor(f"{row} {name}") if value is None else value for name, value in rows[row].items()}


def _open(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    """The mapped file, and the lists of each row; None in the place of a tensor."""
    file = open_cached(path, "pt")
    return file, json.loads(file.metadata()["notes"])["rows"]


class PixelCache(DiskCache[PixelStore]):
    """The tensors of one image processor; ``keys``: image id -> ``images.key``, of the masked image."""

    BATCH = 16

    def __init__(self, processor: ImageProcessor, images: MaskedImages, keys: Mapping[str, str], folder: Path) -> None:
        super().__init__(processor.key, keys, folder, version=_FORMAT)
        self.processor, self.images = processor, images

    def compute(self, names: Sequence[str], *, progress: Progress | None = None, **_: object) -> None:
        """Prepare ``names`` on the CPU and write the tensors, until the folder is full."""
        jobs: list[Callable[[], Prepared]] = [partial(self._prepare, name) for name in names]
        held, size, room = list[tuple[str, Prepared]](), 0, self._room()
        with quiet(), threads(1), closing(in_order(jobs, usable_cores(), ahead=usable_cores())) as ready:
            try:
                for done, (name, made) in enumerate(zip(names, ready, strict=True), 1):
                    size += _size(made)
                    if size > room:
                        return
                    held.append((name, made))
                    if size >= _FILE:
                        self._write(held)
                        held, size, room = [], 0, self._room()
                    if progress:
                        progress("preparing images", done, len(names))
            finally:  # Also what was prepared before an image that cannot be used.
                if held:
                    self._write(held)

    def open(self) -> PixelStore:
        """The tensors of the images that are cached."""
        known = self._known()
        return PixelStore({name: known[key] for name, key in self.keys.items() if key in known})

    def _prepare(self, image: str) -> Prepared:
        return self.processor.prepare(Image.fromarray(self.images.read(image)), image)

    def _room(self) -> int:
        """Bytes left of the limit, and at most half of the free disk."""
        used = sum(path.stat().st_size for path in self.folder.glob("*.safetensors"))
        return min(LIMIT - used, shutil.disk_usage(self.folder).free // 2)

    def _write(self, made: Sequence[tuple[str, Prepared]]) -> None:
        keys = [self.keys[name] for name, _ in made]
        rows = [{name: None if isinstance(value, Tensor) else value for name, value in one.items()} for _, one in made]
        tensors = {
            f"{row} {name}": value.numpy()
            for row, (_, one) in enumerate(made)
            for name, value in one.items()
            if isinstance(value, Tensor)
        }
        path = self.folder / f"{digest_of(repr(keys))}.safetensors"
        write_tensors(path, tensors, {"network": self.key, "keys": keys, "rows": rows})


def _size(made: Prepared) -> int:
    """Bytes of its tensors."""
    return sum(value.nbytes for value in made.values() if isinstance(value, Tensor))

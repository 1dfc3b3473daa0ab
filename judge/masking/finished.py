"""What an unfinished ``judge mask`` has finished: batches of pictures, taken up again where nothing has changed."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from judge.errors import JudgeError
from judge.masking.images import read_bytes
from judge.masking.sheet import Tile
from judge.utils.files import read_cache, read_json_lines, write_whole

_BATCHES = "batches.jsonl"


class Finished:
    """Batches that are done: a line of JSON each, and their tiles of the contact sheet.

    Args:
        folder: where both are kept.
        out: the folder of masked pictures.
        key: of all that decides these, the pictures apart.
    """

    def __init__(self, folder: Path, out: Path, key: str) -> None:
        self.folder, self.out, self.key = folder, out, key
        self._lock = threading.Lock()
        self._known: dict[str, Mapping[str, Any]] = {}
        for entry in read_json_lines(folder / _BATCHES):
            self._known.pop(entry["key"], None)  # Made anew, it is last.
            self._known[entry["key"]] = entry
        # A picture is of the last batch that wrote it: a command of other settings may have worked here since.
        self._of = {row[1]: key for key, entry in self._known.items() for row in entry["rows"]}
        if (folder / _BATCHES).exists():  # A kill may have cut the last line.
            write_whole(
                folder / _BATCHES, b"".join(json.dumps(entry).encode() + b"\n" for entry in self._known.values())
            )

    def key_of(self, images: Path, batch: Mapping[str, str], shown: Collection[str]) -> str | None:
        """Of a batch: its pictures by name and content, their places, and which of them the contact sheet may show.

        A network finds what it finds in a picture among others: a batch is finished as a whole or not at all. None
        where a picture cannot be read.
        """
        found = hashlib.blake2b(self.key.encode(), digest_size=16)
        for name, target in batch.items():
            try:
                content = hashlib.blake2b(read_bytes(images, name), digest_size=16).digest()
            except JudgeError:
                return None
            found.update(repr((name, target, content, name in shown)).encode())
        return found.hexdigest()

    def take(self, key: str) -> tuple[list[Any], list[Tile]] | None:
        """The rows and tiles of a batch, if it is finished, and what was written of it is there; damage is told.

        Raises:
            JudgeError: it cannot be read.
        """
        entry = self._known.get(key)
        if entry is None or any(self._of[row[1]] != key for row in entry["rows"]):
            return None
        if not all((self.out / row[1]).is_file() for row in entry["rows"]):
            return None
        panels = read_cache(self.folder / f"{key}.npz") if entry["tiles"] else b""
        return None if panels is None else (entry["rows"], _tiles(panels, entry["tiles"]))

    def add(self, key: str, rows: Sequence[Sequence[Any]], tiles: Sequence[Tile]) -> None:
        """A batch is done; ``rows``: of ``masks.parquet``, the masked picture's place second.

        Raises:
            OSError: it cannot be written.
        """
        buffer = BytesIO()
        if tiles:
            np.savez(buffer, *(panel for tile in tiles for panel in tile.panels))
            write_whole(self.folder / f"{key}.npz", buffer.getvalue())
        about = [(tile.title, tile.telling) for tile in tiles]
        entry = {"key": key, "rows": rows, "tiles": about}
        with self._lock, (self.folder / _BATCHES).open("ab") as file:
            file.write(
                b"\n" + json.dumps(entry).encode() + b"\n"
            )  # Whatever a full disk may have made of the line before.


def _tiles(panels: bytes, about: Sequence[Sequence[Any]]) -> list[Tile]:
    if not about:
        return []
    with np.load(BytesIO(panels)) as file:
        pairs = [(file[f"arr_{2 * n}"], file[f"arr_{2 * n + 1}"]) for n in range(len(about))]
    return [Tile(title, pair, telling) for (title, telling), pair in zip(about, pairs, strict=True)]

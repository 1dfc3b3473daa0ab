"""Mask a folder of images on all cores, in constant memory; errors of single images do not stop the others."""

import hashlib
import json
import threading
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple, cast

import numpy as np

from judge.errors import JudgeError
from judge.masking import MAX_PIXELS
from judge.masking.detectors import Detector, Failures, collected
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import checksum_of, encode, path_inside, read_bytes, read_image
from judge.masking.instances import BoolMask, Pixels
from judge.masking.measured import MaskStatistics
from judge.masking.people import Hiding
from judge.types import Progress
from judge.utils.parallel import in_order

# Images on a contact sheet: evenly spread, and those first in which something is hidden.
SHEET = 24
_CANDIDATES = 4 * SHEET
# Images submitted for each worker while the first is awaited; finished ones are small.
_AHEAD = 8
# Most bytes of a file's name on every usual file system.
_LONGEST = 255
# Of a contact sheet, in pixels.
HEIGHT, _WIDTH, _WIDEST, _GAP, _CAPTION, _LETTER = 160, 1600, 280, 6, 14, 7
_WHITE, _OUTLINE = 255, (255, 0, 255)


class Tile(NamedTuple):
    """One image of a sheet: before and after masking, [160, w, 3], under a title.

    ``has_mask``: whether something is hidden; other tiles are shown if there is room left.
    """

    title: str
    panel: Pixels
    has_mask: bool = True


def before_and_after(title: str, before: Pixels, after: Pixels, region: BoolMask) -> Tile:
    """A tile of an image with the outline of what will be hidden, and of the masked image."""
    import cv2

    outlined = before.copy()
    contours, _ = cv2.findContours(region.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(outlined, contours, -1, _OUTLINE, max(1, round(before.shape[0] / HEIGHT)))
    gap = np.full((HEIGHT, 2, 3), _WHITE, dtype=np.uint8)
    return Tile(title, np.concatenate([_shrink(outlined), gap, _shrink(after)], axis=1), bool(region.any()))


def contact_sheet(tiles: Sequence[Tile]) -> Pixels:
    """The tiles in rows, [H, W, 3], white between them, their titles in small letters above."""
    import cv2

    places, left, top, right = [], _GAP, _GAP, _GAP
    for tile in tiles:
        if left + tile.panel.shape[1] > _WIDTH and left > _GAP:
            left, top = _GAP, top + HEIGHT + _CAPTION + _GAP
        places.append((left, top))
        left += tile.panel.shape[1] + _GAP
        right = max(right, left)
    sheet = np.full((top + HEIGHT + _CAPTION + _GAP, right, 3), _WHITE, dtype=np.uint8)
    for (title, panel, _), (left, top) in zip(tiles, places, strict=True):
        room = panel.shape[1] // _LETTER
        fits = title if len(title) <= room else f"...{title[len(title) + 3 - room :]}"
        cv2.putText(sheet, fits, (left, top + 10), cv2.FONT_HERSHEY_SIMPLEX, 0.35, (0, 0, 0), 1, cv2.LINE_AA)
        sheet[top + _CAPTION : top + _CAPTION + HEIGHT, left : left + panel.shape[1]] = panel
    return sheet


def _shrink(pixels: Pixels) -> Pixels:
    """To the height of a sheet's row; very wide images are squeezed."""
    import cv2

    width = round(pixels.shape[1] * HEIGHT / pixels.shape[0])
    return cast("Pixels", cv2.resize(pixels, (min(max(1, width), _WIDEST), HEIGHT), interpolation=cv2.INTER_AREA))


class Row(NamedTuple):
    """A row of ``masks.parquet``: names of the image and of the masked image, and what is hidden."""

    image: str
    masked: str
    statistics: MaskStatistics


@dataclass
class Masked:
    """A masked folder: a row for each image, the failures, and tiles of the contact sheet."""

    rows: list[Row] = field(default_factory=list)
    failures: Failures = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)

    def sheet(self) -> Pixels:
        """A contact sheet, [H, W, 3]."""
        order = sorted(range(len(self.tiles)), key=lambda index: not self.tiles[index].has_mask)
        return contact_sheet([self.tiles[index] for index in sorted(order[:SHEET])])


class Finished:
    """Images that an unfinished ``judge mask`` has masked into ``out``: a line of JSON in ``log`` with the row of each.

    ``key``: everything that determines a masked image except the image.
    """

    def __init__(self, log: Path, out: Path, key: str) -> None:
        self.log, self.out, self.key = log, out, key
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Row, list[int]]] = {}
        for line in log.read_bytes().splitlines() if log.exists() else ():
            with suppress(ValueError, TypeError):  # A kill may have cut a line.
                of, (image, masked, values), state = json.loads(line)
                self._known[of] = Row(image, masked, MaskStatistics(*values)), state

    def find(self, images: Path, name: str) -> Row | None:
        """The row of an image that was masked already, from the same file in the same way, and still exists."""
        with suppress(JudgeError, OSError, KeyError):
            row, state = self._known[self._key(images, name)]
            return row if self._state(row) == state else None
        return None

    def add(self, images: Path, row: Row) -> None:
        """Note that an image is masked."""
        line = json.dumps([self._key(images, row.image), row, self._state(row)])
        with self._lock, self.log.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # The line before may have been cut.

    def _key(self, images: Path, name: str) -> str:
        content = checksum_of(read_bytes(images, name))
        return hashlib.blake2b(f"{self.key} {name} {content}".encode(), digest_size=16).hexdigest()

    def _state(self, row: Row) -> list[int]:
        found = (self.out / row.masked).stat()
        return [found.st_size, found.st_mtime_ns]


@dataclass(frozen=True)
class MaskFolder:
    """Mask a folder of images.

    Attributes:
        images: the folder; or shards, or a data set.
        out: where masked images are written, at the same places, as PNG; must exist.
        max_pixels: larger images are refused as decompression bombs.
        reserved: names in ``out`` that no masked image may have.
        finished: images that a killed command has masked, which are not masked again; None for none.
        truth: ground truth beside the detector, to measure it by; None for none.
    """

    images: Path
    out: Path
    detector: Detector
    hiding: Hiding
    max_pixels: int = MAX_PIXELS
    reserved: Collection[str] = ()
    finished: Finished | None = None
    truth: GroundTruth | None = None
    _detecting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def run(self, names: Sequence[str], *, workers: int | None = None, progress: Progress | None = None) -> Masked:
        """Mask the images ``names``; errors of single images are collected, not raised.

        Threads suffice: decoding, masking and encoding release Python's lock.
        """
        import cv2
        from joblib import cpu_count

        result = Masked()
        targets = list(self._targets(names, result).items())
        step = max(1, len(targets) // _CANDIDATES)
        shown = {name for name, _ in targets[::step][:_CANDIDATES]}
        jobs = (partial(self._mask, name, target, name in shown) for name, target in targets)
        workers, threads = workers or cpu_count(), cv2.getNumThreads()
        cv2.setNumThreads(1)  # Threads of OpenCV would compete with ours.
        try:
            with closing(in_order(jobs, workers, ahead=_AHEAD * workers)) as results:
                for done in results:
                    result.rows += done.rows
                    result.failures += done.failures
                    result.tiles += done.tiles
                    if progress:
                        progress("masking images", len(result.rows) + len(result.failures), len(names))
        finally:
            cv2.setNumThreads(threads)
        return result

    def _targets(self, names: Sequence[str], result: Masked) -> dict[str, str]:
        """Image -> masked image; if two would be written to the same path the second fails."""
        targets: dict[str, str] = {}
        files, folders = {place: place for place in self.reserved}, dict[str, str]()
        for name in names:
            with collected(result.failures, name):
                path_inside(self.images, name)
                path = PurePosixPath(name.replace("\\", "/")).with_suffix(".png")
                target, above = path.as_posix(), [parent.as_posix() for parent in path.parents]
                clash = next((files[place] for place in (target, *above) if place in files), folders.get(target))
                if clash is not None:
                    what = f"would be written where '{clash}' is"
                    raise JudgeError(what, where=f"image '{name}'", mend="rename one of them")
                if len(path.name.encode()) > _LONGEST:
                    raise JudgeError("has too long a name", where=f"image '{name}'", mend="rename it")
                files[target], targets[name] = name, target
                folders |= dict.fromkeys(above, name)
        return targets

    def _mask(self, name: str, target: str, shown: bool) -> Masked:
        """Mask one image; one for the contact sheet is masked again even if it is finished."""
        done = Masked()
        if self.finished and not shown and (row := self.finished.find(self.images, name)):
            if isinstance(self.detector, GroundTruth):
                with suppress(JudgeError):
                    self.detector.instances(name)  # Which notes contradictions among its annotations.
            return Masked([row])
        with collected(done.failures, name):
            image = read_image(self.images, name, max_pixels=self.max_pixels)
            with self._detecting:  # One image at a time: networks use all cores, and memory, by themselves.
                instances = self.detector.detect(image)
            pixels, region = self.hiding.apply(image, instances)
            path = self.out / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(pixels))
            measured = MaskStatistics.of(image, self.hiding, self.hiding.chosen(instances), region, self.truth)
            done.rows.append(Row(name, target, measured))
            if self.finished:
                self.finished.add(self.images, done.rows[0])
            if shown:
                done.tiles.append(before_and_after(name, image.pixels, pixels, region))
        return done

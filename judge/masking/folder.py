"""Mask a folder of images on all cores, in constant memory; errors of single images do not stop the others."""

import json
import threading
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from judge.errors import JudgeError
from judge.masking.detectors import Detector, Failures, collected
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import encode, path_inside, read_bytes, read_image
from judge.masking.instances import BoolMask, Pixels
from judge.masking.measured import MaskStatistics
from judge.masking.people import Hiding
from judge.types import Progress
from judge.utils.identity import digest_of
from judge.utils.parallel import in_order

# Images on a contact sheet: evenly spread, and those first in which something is hidden.
SHEET = 24
_CANDIDATES = 4 * SHEET
# Images submitted for each worker while the first is awaited; finished ones are small.
_AHEAD = 8
# Most bytes of a file's name on every usual file system.
_LONGEST = 255
# Sizes on sheets, in pixels: an image on a contact sheet (width, height), gaps, and lines of text.
CELL, GAP, LINE = (214, 160), 8, 18
_COLUMNS, _LETTERS = 3, 50
_OUTLINE = (255, 0, 255)


def before_and_after(title: str, before: Pixels, after: Pixels, region: BoolMask) -> Pixels:
    """An image with the outline of what will be hidden, and the masked image, [h, w, 3], over their title."""
    import cv2

    outlined = before.copy()
    contours, _ = cv2.findContours(region.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(outlined, contours, -1, _OUTLINE, max(1, round(before.shape[0] / CELL[1])))
    return side_by_side([outlined, after], [title[-_LETTERS:]], CELL)


def side_by_side(images: Sequence[Pixels], lines: Sequence[str], cell: tuple[int, int]) -> Pixels:
    """Images, [H, W, 3], as large as fits into cells of ``cell`` (width, height), over lines of text."""
    from PIL import Image, ImageDraw, ImageFont

    width, height = cell
    made = Image.new("RGB", (len(images) * (width + GAP), height + GAP + LINE * len(lines)), "white")
    for place, image in enumerate(map(Image.fromarray, images)):
        scale = min(width / image.width, height / image.height)
        size = max(1, round(scale * image.width)), max(1, round(scale * image.height))
        how = Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST
        made.paste(image.resize(size, how), (place * (width + GAP), 0))
    draw, font = ImageDraw.Draw(made), ImageFont.load_default(LINE - 4)
    for number, line in enumerate(lines):
        draw.text((2, height + LINE * number), line, fill="black", font=font)
    return np.asarray(made)


def contact_sheet(panels: Sequence[Pixels]) -> Pixels:
    """Panels of one size, [h, w, 3], in rows, [H, W, 3]."""
    padded = [*panels, *[np.full_like(panels[0], 255)] * (-len(panels) % _COLUMNS)]
    starts = range(0, len(padded), _COLUMNS)
    return np.concatenate([np.concatenate(padded[start : start + _COLUMNS], axis=1) for start in starts])


class Row(NamedTuple):
    """A row of ``masks.parquet``: names of the image and of the masked image, and what is hidden."""

    image: str
    masked: str
    statistics: MaskStatistics


@dataclass
class Masked:
    """A masked folder: a row for each image, the failures, and panels for the contact sheet.

    ``tiles``: whether something is hidden, and the panel; others are shown if there is room left.
    """

    rows: list[Row] = field(default_factory=list)
    failures: Failures = field(default_factory=list)
    tiles: list[tuple[bool, Pixels]] = field(default_factory=list)

    def sheet(self) -> Pixels:
        """A contact sheet, [H, W, 3]."""
        order = sorted(range(len(self.tiles)), key=lambda index: not self.tiles[index][0])
        shown = [self.tiles[index][1] for index in sorted(order[:SHEET])]
        return contact_sheet(shown or [np.full((1, 1, 3), 255, dtype=np.uint8)])


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
        return digest_of(f"{self.key} {name} ", read_bytes(images, name))

    def _state(self, row: Row) -> list[int]:
        found = (self.out / row.masked).stat()
        return [found.st_size, found.st_mtime_ns]


@dataclass(frozen=True)
class MaskFolder:
    """Mask a folder of images, shards, or a data set.

    Masked images are written into ``out``, which must exist, at the same places, as PNG; ``reserved`` are names that
    none may have. Images that a killed command has ``finished`` are not masked again. ``truth``: ground truth beside
    the detector, to measure it by.
    """

    images: Path
    out: Path
    detector: Detector
    hiding: Hiding
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
        on_sheet = {name for name, _ in targets[::step][:_CANDIDATES]}
        jobs = (partial(self._mask, name, target, name in on_sheet) for name, target in targets)
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

    def _mask(self, name: str, target: str, on_sheet: bool) -> Masked:
        """Mask one image; one for the contact sheet is masked again even if it is finished."""
        done = Masked()
        if self.finished and not on_sheet and (row := self.finished.find(self.images, name)):
            if isinstance(self.detector, GroundTruth):
                with suppress(JudgeError):
                    self.detector.instances(name)  # It notes contradictions among its annotations.
            return Masked([row])
        with collected(done.failures, name):
            image = read_image(self.images, name)
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
            if on_sheet:
                done.tiles.append((bool(region.any()), before_and_after(name, image.pixels, pixels, region)))
        return done

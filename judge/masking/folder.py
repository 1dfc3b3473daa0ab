"""Mask a folder of pictures on all cores, in constant memory; faults of single pictures do not stop the others."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from judge.errors import JudgeError
from judge.masking import MAX_PIXELS
from judge.masking.detectors import Detector, Failures, collected, detect_pictures
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.finished import Finished
from judge.masking.images import ImageFormat, encode, inside
from judge.masking.instances import PERSON, BoolMask, Foreground, Instance, Picture, Pixels, select
from judge.masking.measured import Look
from judge.masking.people import PARTIAL_SHARE, Fill, Mode, hidden_region, hide
from judge.masking.sheet import Tile, before_and_after, contact_sheet
from judge.types import Progress
from judge.utils.parallel import in_order

# Pictures on a contact sheet: evenly spread, and those first in which something is hidden.
SHEET = 24
_CANDIDATES = 4 * SHEET
# Batches submitted for each worker while the first is awaited; finished ones are small.
_AHEAD = 8
# Of a file's name, in bytes, on every usual file system.
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Hiding:
    """What is hidden in a picture, and how; the arguments of ``select``, ``hidden_region`` and ``hide``."""

    labels: tuple[str, ...] = (PERSON,)
    threshold: float = 0.5
    foreground: Foreground = "all"
    mode: Mode = "segment"
    share: float = PARTIAL_SHARE
    dilation: int = 0
    fill: Fill = "black"
    seed: int = 0

    def chosen(self, instances: Sequence[Instance]) -> tuple[Instance, ...]:
        """Those of ``instances`` that are hidden."""
        return select(instances, labels=self.labels, threshold=self.threshold, foreground=self.foreground)

    def region(self, chosen: Sequence[Instance], size: tuple[int, int]) -> BoolMask:
        """The pixels that are hidden, [H, W]."""
        return hidden_region(chosen, size, mode=self.mode, share=self.share, dilation=self.dilation)

    def known(self, truth: GroundTruth | None, picture: Picture) -> tuple[Instance, ...] | None:
        """Those of ground truth that should be hidden; None where they are not known."""
        found = truth.known(picture) if truth else None
        return None if found is None else self.chosen(found)

    def apply(self, picture: Picture, instances: Sequence[Instance]) -> tuple[Pixels, BoolMask]:
        """The masked picture, and the region hidden in it.

        Noise differs from picture to picture.
        """
        region = self.region(self.chosen(instances), picture.size)
        pixels = hide(picture.pixels, region, fill=self.fill, seed=[self.seed, *picture.name.encode()])
        return pixels, region


@dataclass(frozen=True, slots=True)
class Row:
    """A line of ``masks.parquet``.

    Attributes:
        image: the picture's name in its folder.
        masked: the masked picture's name in the output folder.
        look: what is hidden in it.
    """

    image: str
    masked: str
    look: Look


@dataclass
class Masked:
    """A masked folder: a row for each picture, the failures, and tiles of the contact sheet."""

    rows: list[Row] = field(default_factory=list)
    failures: Failures = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)

    def sheet(self) -> Pixels:
        """A contact sheet, [H, W, 3]."""
        order = sorted(range(len(self.tiles)), key=lambda index: not self.tiles[index].telling)
        return contact_sheet([self.tiles[index] for index in sorted(order[:SHEET])])


@dataclass(frozen=True)
class MaskFolder:
    """Mask pictures one batch after the other.

    Attributes:
        images: the folder of pictures; or shards, or a data set.
        out: where masked pictures are written, at the same places, with the format's suffix; must exist.
        detector: finds the instances.
        hiding: what is hidden, and how.
        kind: "png" or "webp" (lossless; smaller, and some twenty times slower to write).
        max_pixels: more is taken for a decompression bomb.
        reserved: names in ``out`` that no masked picture may have.
        finished: what a killed run has finished, which is taken over, and takes what this one finishes; None for none.
        truth: ground truth beside the detector, to measure it by; None for none.
    """

    images: Path
    out: Path
    detector: Detector
    hiding: Hiding
    kind: ImageFormat = "png"
    max_pixels: int = MAX_PIXELS
    reserved: Collection[str] = ()
    finished: Finished | None = None
    truth: GroundTruth | None = None
    _detecting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def run(self, names: Sequence[str], *, workers: int | None = None, progress: Progress | None = None) -> Masked:
        """Mask the pictures ``names``; faults of single pictures are collected, not raised.

        Threads suffice: decoding, masking and encoding release Python's lock. The detector works for one at a time.
        """
        from joblib import cpu_count

        result = Masked()
        targets = list(self._targets(names, result).items())
        step = max(1, len(targets) // _CANDIDATES)
        shown = {name for name, _ in targets[::step][:_CANDIDATES]}
        size = self.detector.batch
        batches = (dict(targets[start : start + size]) for start in range(0, len(targets), size))
        jobs = (partial(self._batch, batch, shown) for batch in batches)
        workers = workers or cpu_count()
        with _one_thread_each(), closing(in_order(jobs, workers, ahead=_AHEAD * workers)) as results:
            for done in results:
                result.rows += done.rows
                result.failures += done.failures
                result.tiles += done.tiles
                if progress:
                    progress("masking pictures", len(result.rows) + len(result.failures), len(names))
        return result

    def _targets(self, names: Sequence[str], result: Masked) -> dict[str, str]:
        """Picture -> masked picture; of two that would be written to the same path the second fails."""
        targets: dict[str, str] = {}
        taken = {place: place for place in self.reserved}
        folders: dict[str, str] = {}
        for name in names:
            with collected(result.failures, name, what="cannot be masked"):
                inside(self.images, name)
                path = PurePosixPath(name.replace("\\", "/")).with_suffix(f".{self.kind}")
                target, above = path.as_posix(), [parent.as_posix() for parent in path.parents]
                clash = next((taken[place] for place in (target, *above) if place in taken), folders.get(target))
                if clash is not None:
                    what = f"would be written where '{clash}' is"
                    raise JudgeError(what, where=f"picture '{name}'", mend="rename one of them")
                if len(path.name.encode()) > _LONGEST:
                    raise JudgeError("has too long a name", where=f"picture '{name}'", mend="rename it")
                taken[target], targets[name] = name, target
                folders |= dict.fromkeys(above, name)
        return targets

    def _batch(self, targets: Mapping[str, str], shown: set[str]) -> Masked:
        key = self.finished.key_of(self.images, targets, shown) if self.finished else None
        if self.finished is None or key is None:
            return self._mask(targets, shown)
        if known := self.finished.take(key):
            if isinstance(self.detector, GroundTruth):
                for name in targets:  # What its annotations contradict is noted anew.
                    with suppress(JudgeError):
                        self.detector.instances(name)
            return Masked([Row(image, masked, Look(*look)) for image, masked, look in known[0]], tiles=known[1])
        done = self._mask(targets, shown)
        if not done.failures:
            self.finished.add(key, [astuple(row) for row in done.rows], done.tiles)
        return done

    def _mask(self, targets: Mapping[str, str], shown: set[str]) -> Masked:
        done = Masked()
        # One batch at a time is looked at: networks take all cores, and memory, by themselves.
        found = detect_pictures(
            self.images,
            [*targets],
            self.detector,
            failures=done.failures,
            max_pixels=self.max_pixels,
            lock=self._detecting,
        )
        for picture, [instances] in found:
            with collected(done.failures, picture.name, what="cannot be masked"):
                pixels, region = self.hiding.apply(picture, instances)
                self._write(targets[picture.name], pixels)
                known = self.hiding.known(self.truth, picture)
                look = Look.at(self.hiding.chosen(instances), region, known, turned=picture.turned)
                done.rows.append(Row(picture.name, targets[picture.name], look))
                if picture.name in shown:
                    done.tiles.append(before_and_after(picture.name, picture.pixels, pixels, region))
        return done

    def _write(self, target: str, pixels: Pixels) -> None:
        path = self.out / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(pixels, self.kind))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """OpenCV without threads of its own, which would compete with ours."""
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)

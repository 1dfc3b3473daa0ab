"""``yolo``: any YOLO model of Ultralytics that segments or detects.

The network is Ultralytics' (or ONNX Runtime's); what surrounds it is ours: pictures are fitted, boxes chosen and masks
drawn here, the same for every kind of file, with no picture's result depending on which others share its batch.
Ultralytics' own prediction pads by batch and drops pictures when its suppression takes too long.

A ``.pt`` file is a pickle. Reading one can run code, so none is read that does not lie in a folder the user names.
ONNX and our own safetensors files hold numbers alone.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from judge.errors import JudgeError, nearest, require
from judge.masking.detectors.isolation import import_ultralytics
from judge.masking.detectors.weights import (
    SCORES_FROM,
    check_options,
    choose_device,
    detect_by_shape,
    filled,
    fingerprint,
    parse_safetensors,
    read_weights,
    to_channels,
)
from judge.masking.detectors.yolo_networks import (
    DEFAULT_SIZE,
    Network,
    build,
    of_model,
    read_checkpoint,
    read_onnx,
)
from judge.masking.instances import BoolMask, Instance, Picture, Pixels, from_box, from_mask
from judge.utils.files import resolved

if TYPE_CHECKING:
    from torch import Tensor

IOU = 0.7
"""Least overlap of two boxes of a class at which the weaker is dropped: Ultralytics' own default."""

_MOST = 300
_CANDIDATES = 30_000
GREY = 114
"""The grey that pads pictures, as in Ultralytics."""


class Yolo:
    """A YOLO network as a detector.

    Args:
        network: computes.
        weights: fingerprint of its file.
        batch: pictures at a time.
        image_size: pixels of a picture's longer side; None: what the network was made for.
        iou: see :data:`IOU`.
        mask_threshold: probability from which a pixel belongs to a mask.

    Raises:
        JudgeError: an option that is out of range, or a size that the network cannot take.
    """

    name = "yolo"

    def __init__(
        self,
        network: Network,
        weights: str,
        *,
        batch: int = 8,
        image_size: int | None = None,
        iou: float = IOU,
        mask_threshold: float = 0.5,
    ) -> None:
        where = "--detector yolo"
        check_options(where, batch=batch, image_size=image_size, iou=iou, mask_threshold=mask_threshold)
        if network.fixed and image_size not in {None, max(network.fixed)}:
            what = f"its size is fixed to {network.fixed[1]} x {network.fixed[0]}"
            raise JudgeError(what, where=where, mend="leave the image size away, or export with dynamic=True")
        self.network, self.batch = network, batch
        self.image_size = math.ceil((image_size or network.image_size) / network.stride) * network.stride
        self.iou, self.mask_threshold = iou, mask_threshold
        self.key = fingerprint("yolo", weights, self.image_size, iou, mask_threshold, network.version)

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories that it detects."""
        return self.network.categories

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; at most 300 a picture, the likeliest first."""
        return detect_by_shape(pictures, self.batch, lambda picture: self._fit(picture).outer, self._detect)

    def _detect(self, pictures: Sequence[Picture]) -> Iterator[tuple[Instance, ...]]:
        fits = [self._fit(picture) for picture in pictures]
        pixels = np.stack([fit.place(picture.pixels) for fit, picture in zip(fits, pictures, strict=True)])
        rows, prototypes = self.network.run(to_channels(pixels))
        for place, fit in enumerate(fits):
            yield self._read(rows[place].float(), None if prototypes is None else prototypes[place].float(), fit)

    def _fit(self, picture: Picture) -> _Fit:
        return _Fit.of(picture.size, self.network.fixed or self.image_size, self.network.stride)

    def _read(self, rows: Tensor, prototypes: Tensor | None, fit: _Fit) -> tuple[Instance, ...]:
        """The instances of one picture, each a mask in run lengths before the next is drawn."""
        if self.network.suppressed:  # Its rows are those of ``_suppress`` already.
            picked = rows[rows[:, 4] >= SCORES_FROM][:_MOST]
        else:
            picked = _suppress(rows, len(self.categories), self.iou)
        level = math.log(self.mask_threshold / (1 - self.mask_threshold))
        found = []
        for place, (*corners, likelihood, number) in enumerate(picked[:, :6].tolist()):
            box, label = fit.back(corners), self.categories[int(number)]
            x, y, right, bottom = box
            frame, score = (x, y, right - x, bottom - y), min(1.0, likelihood)
            if prototypes is None:
                instance = from_box(frame, fit.size, label, score=score)
            else:
                logits = (picked[place, 6:] @ prototypes.flatten(1)).view(prototypes.shape[1:])
                instance = from_mask(fit.mask(logits, box, level), label, box=frame, score=score)
            found.append(instance)
        return tuple(instance for instance in found if instance.area)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Where a picture lies in the network's input: scaled to ``inner``, at ``top`` and ``left`` of ``outer``.

    All sizes are height, width in pixels.
    """

    size: tuple[int, int]
    inner: tuple[int, int]
    outer: tuple[int, int]
    top: int
    left: int

    @classmethod
    def of(cls, size: tuple[int, int], room: int | tuple[int, int], stride: int) -> _Fit:
        """As Ultralytics does: the longer side fills ``room``, the other is padded to the next multiple of ``stride``.

        Of a ``room`` with two sides all is filled, by padding.
        """
        full = room if isinstance(room, tuple) else (room, room)
        scale = min(full[0] / size[0], full[1] / size[1])
        inner = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        spare = [whole - part for whole, part in zip(full, inner, strict=True)]
        if not isinstance(room, tuple):
            spare = [pixels % stride for pixels in spare]
        outer = (inner[0] + spare[0], inner[1] + spare[1])
        return cls(size, inner, outer, round(spare[0] / 2 - 0.1), round(spare[1] / 2 - 0.1))

    def place(self, pixels: Pixels) -> Pixels:
        """``pixels``, [*size, 3], scaled and padded with grey to [*outer, 3]."""
        import cv2

        canvas = np.full((*self.outer, 3), GREY, dtype=np.uint8)
        if self.inner != self.size:
            pixels = cast("Pixels", cv2.resize(pixels, self.inner[::-1], interpolation=cv2.INTER_LINEAR))
        canvas[self.top : self.top + self.inner[0], self.left : self.left + self.inner[1]] = pixels
        return canvas

    def back(self, box: Sequence[float]) -> tuple[float, float, float, float]:
        """Corners (x, y, right, bottom) in the picture, cut at its border, of corners in the network's input."""
        height, width = self.size
        ends = ((self.left, width / self.inner[1], width), (self.top, height / self.inner[0], height))
        moved = [(value - ends[i % 2][0]) * ends[i % 2][1] for i, value in enumerate(box)]
        x, y, right, bottom = (min(max(value, 0.0), float(ends[i % 2][2])) for i, value in enumerate(moved))
        return x, y, right, bottom

    def mask(self, logits: Tensor, box: tuple[float, float, float, float], level: float) -> BoolMask:
        """[*size] bool: pixels of the picture within ``box`` (its corners) where ``logits`` exceed ``level``.

        Each pixel's centre is looked up in ``logits``, [h, w] over the whole of ``outer``, bilinearly: one
        interpolation, whatever the sizes, and only inside the box.
        """
        import torch

        mask = np.zeros(self.size, dtype=np.bool_)
        left, top, right, bottom = math.floor(box[0]), math.floor(box[1]), math.ceil(box[2]), math.ceil(box[3])
        if right <= left or bottom <= top:
            return mask
        x = (torch.arange(left, right, device=logits.device) + 0.5) * (self.inner[1] / self.size[1]) + self.left
        y = (torch.arange(top, bottom, device=logits.device) + 0.5) * (self.inner[0] / self.size[0]) + self.top
        rows, columns = torch.meshgrid(2 * y / self.outer[0] - 1, 2 * x / self.outer[1] - 1, indexing="ij")
        grid = torch.stack([columns, rows], dim=-1)[None]
        sample = torch.nn.functional.grid_sample
        drawn = sample(logits[None, None], grid, mode="bilinear", padding_mode="border", align_corners=False)
        mask[top:bottom, left:right] = (drawn[0, 0] > level).cpu().numpy()
        return mask


def load_yolo(
    weights: str | Path,
    *,
    trust: Path | None = None,
    device: str | None = None,
    batch: int = 8,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Yolo:
    """A detector of a file, or of a name that Ultralytics can fetch.

    Args:
        weights: a ``.safetensors`` of ``judge train detector``; an ``.onnx`` of ``yolo export``; a ``.pt``; or a
            model's name ("yolo11n-seg").
        trust: the folder of ``--trust-weights``: pickles in it are read, and named models fetched into it.
        device: "cpu", "cuda", "cuda:1"; None: CUDA where there is any.
        batch: pictures at a time.
        say: called with a line on what is fetched.
        options: ``image_size``, ``iou``, ``mask_threshold``, as :class:`Yolo` has them.

    Raises:
        JudgeError: no such file or model; a pickle outside ``trust``; a file that is damaged, of another kind or does
            not fit; a device or an option that cannot be had; a package that is not installed.
    """
    path = find_weights(weights, trust=trust, say=say)
    require("detectors", "torch", "torchvision", "cv2")
    place = choose_device(device)
    data = read_weights(path)
    if path.suffix == ".onnx":
        network = read_onnx(data, str(path), place)
    else:
        model, size = read_model(path, data)
        network = of_model(model, image_size=size, device=place)
    return Yolo(network, fingerprint(data), batch=batch, **options)


def find_weights(weights: str | Path, *, trust: Path | None, say: Callable[[str], None] | None = None) -> Path:
    """The file of ``weights``, fetched if need be; pickles only from the trusted folder.

    Raises:
        JudgeError: see :func:`load_yolo`.
    """
    path = Path(weights)
    if trust is not None and not trust.is_dir():
        raise JudgeError("is no folder", where=f"--trust-weights {trust}", mend="make it, or name another")
    if not path.exists() and re.fullmatch(r"[\w.-]+", str(weights)) and path.suffix in {"", ".pt"}:
        path = _fetched(path.stem if path.suffix == ".pt" else str(weights), trust, say)
    if path.suffix not in {".safetensors", ".onnx", ".pt"}:
        mend = "give a .safetensors, .onnx or .pt file, or a model's name such as yolo11n-seg"
        raise JudgeError("is no file of YOLO weights", where=str(weights), mend=mend)
    trusted = trust is not None and resolved(path).is_relative_to(resolved(trust))
    if path.suffix == ".pt" and path.exists() and not trusted:
        mend = "export it to ONNX on a machine that may run it, or, if you trust whoever made it, name its folder: "
        mend += f"--trust-weights {path.parent}"
        raise JudgeError("is a pickle, and reading one can run code", where=str(path), mend=mend)
    return path


def read_model(path: Path, data: bytes | None = None) -> tuple[Any, int]:
    """The Ultralytics model in a ``.safetensors`` or (trusted, see :func:`find_weights`) ``.pt``; its image size.

    Raises:
        JudgeError: see :func:`load_yolo`.
    """
    data = read_weights(path) if data is None else data
    if path.suffix == ".pt":
        return read_checkpoint(path)
    header, tensors = parse_safetensors(data, str(path), "yolo")
    if header is None:
        mend = "give a file of 'judge train detector --kind yolo'"
        raise JudgeError("does not say what it holds", where=str(path), mend=mend)
    model = filled(lambda: build(header.architecture, header.categories, str(path)), tensors, str(path))
    return model, header.image_size or DEFAULT_SIZE


def _fetched(name: str, trust: Path | None, say: Callable[[str], None] | None) -> Path:
    """The file of a model that Ultralytics publishes, in the trusted folder."""
    file = f"{name}.pt"
    if trust is not None and (trust / file).exists():
        return trust / file
    import_ultralytics()
    from ultralytics.utils import downloads

    known = sorted(entry[:-3] for entry in downloads.GITHUB_ASSETS_NAMES if re.match(r"yolo.*\.pt$", entry))
    if name not in known:
        raise JudgeError(f"no such file, and Ultralytics has no model '{name}'", mend=nearest(name, known))
    if trust is None:
        mend = "if you trust Ultralytics, name a folder to keep it in: --trust-weights FOLDER"
        raise JudgeError("would be fetched as a pickle, and reading one can run code", where=name, mend=mend)
    if say is not None:
        say(f"Fetching {file} from Ultralytics into {trust}")
    with tempfile.TemporaryDirectory(dir=trust) as beside:
        try:
            downloads.attempt_download_asset(str(Path(beside) / file))
            shutil.move(Path(beside) / file, trust / file)
        except Exception as error:  # curl, urllib, zip and disk each have their own.
            mend = f"download it elsewhere and put it into {trust}"
            raise JudgeError(f"cannot be fetched ({type(error).__name__})", where=name, mend=mend) from error
    return trust / file


def _suppress(rows: Tensor, classes: int, iou: float) -> Tensor:
    """[n, 6 + coefficients] (corners, score, class, coefficients), likeliest first, of [4 + classes + c, N]."""
    import torch
    from torchvision.ops import batched_nms

    rows = rows.T
    scores, labels = rows[:, 4 : 4 + classes].max(dim=1)
    kept = torch.nonzero(scores >= SCORES_FROM).flatten()
    if len(kept) > _CANDIDATES:
        kept = kept[scores[kept].topk(_CANDIDATES).indices]
    rows, scores, labels = rows[kept], scores[kept], labels[kept]
    centre, half = rows[:, :2], rows[:, 2:4] / 2
    boxes = torch.cat([centre - half, centre + half], dim=1)
    chosen = batched_nms(boxes, scores, labels, iou)[:_MOST]
    return torch.cat([boxes, scores[:, None], labels[:, None].to(boxes), rows[:, 4 + classes :]], dim=1)[chosen]

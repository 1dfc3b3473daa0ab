"""Annotations of COCO and of other tools (results, PNG masks, YOLO labels): read, checked, and made instances."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from judge.corpus.files import Document, read_document
from judge.corpus.records import canonical_id, records
from judge.errors import JudgeError
from judge.masking.archives import SUFFIXES
from judge.masking.categories import read_names
from judge.masking.detectors.labels import read_labels
from judge.masking.images import list_images, read_mask
from judge.masking.instances import PERSON, Instance, PixelBox, box_mask, from_mask
from judge.text.lexicon import load_lexicon

SHAPES = (
    "give COCO instances (images, annotations, categories), COCO results ([{image_id, category_id, segmentation or "
    "bbox, score}]), a folder of PNG masks, or a folder of YOLO labels"
)
# COCO's numbers of categories, in the order of its categories.
_COCO = [str(number) for number in range(1, 91) if number not in {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}]
_CLASSES = "classes.txt"  # LabelImg leaves it beside its labels.
# COCO's own polygons reach over the border by a fraction of a pixel.
_TOLERANCE = 2.0
_GROWTH = np.array([-_TOLERANCE, -_TOLERANCE, 2 * _TOLERANCE, 2 * _TOLERANCE])
# Reported: boxes that overlap less (intersection over union), areas that differ by a larger factor. The 1,363
# annotations of coco-mini overlap by 0.68 at least, and differ by a factor of 1.3 at most.
_OVERLAP, _FACTOR = 0.5, 2.0
# Refused: a mask so many times smaller than its area, of so many pixels at least.
_GROSS, _LARGE = 10.0, 100.0
_CROWD = {"0": False, "1": True, "0.0": False, "1.0": True, "False": False, "True": True}
_REPAIR = "correct the annotation, or remove it"
_SAME_IMAGES = "use the images that were annotated, at their size"


def read_masks(
    path: Path, *, images: Path | None, names: Mapping[str, str] | None, found: bool = False
) -> tuple[Document, bool]:
    """The file or folder of ``--instances`` as COCO's ``{"images", "annotations", "categories"}``.

    COCO instances list their images; the second value says so. For other formats, images are found by id in ``images``:
    an image without a record or a label file is one in which nothing was found; an image without a mask file is not
    listed, unless a tool ``found`` the masks. ``names``: class id -> name (``--class-names``).
    """
    files = _files(path) if path.is_dir() else {}
    masks = {key: file for key, file in files.items() if file.suffix.lower() == ".png"}
    if masks and len(masks) < len(files):
        raise JudgeError("holds PNG masks and .txt labels", where=str(path), mend="give a folder of one kind")
    rows: list[dict[str, Any]] = []
    if masks:
        names = {"1": PERSON}
        rows = [{"image_id": key, "category_id": 1, "segmentation": file} for key, file in masks.items()]
    elif files:
        names = names or read_names(path / _CLASSES if (path / _CLASSES).is_file() else None)
        rows = read_labels(files)
    elif path.is_dir() and (other := next((file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES), None)):
        what, mend = f"holds no PNG masks, but {other.name}", "save masks as PNG: JPEG changes their values"
        raise JudgeError(what, where=str(path), mend=mend)
    else:
        document = read_document(path)
        if not isinstance(document.value, list):
            return document, True
        rows = records(document.value, source=document.source, shapes=SHAPES)
        if not rows[0].keys() & {"segmentation", "bbox"}:
            raise JudgeError("holds neither instances nor results", where=document.source, mend=SHAPES)
        names = names or dict(zip(_COCO, load_lexicon("coco-objects").classes, strict=True))
    if names is None or images is None:
        what, mend = "its classes have no names", "give them with --class-names, e.g. the data.yaml of the training"
        if images is None:
            what, mend = "lists no images", "give their folder with --images"
        raise JudgeError(what, where=f"--instances {path}", mend=mend)
    listed = [(canonical_id(name), name) for name in list_images(images)]
    value = {
        "images": [{"id": key, "file_name": name} for key, name in listed if found or not masks or key in masks],
        "annotations": rows,
        "categories": [{"id": key, "name": name} for key, name in names.items()],
    }
    return Document(value, str(path)), False


def _files(folder: Path) -> dict[str, Path]:
    """Image id -> file, of a folder of masks (.png) or of labels (.txt); two files of one image are refused."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in {".png", ".txt"} and path.name != _CLASSES:
            key = canonical_id(path.relative_to(folder).with_suffix("").as_posix())
            if (other := found.setdefault(key, path)) is not path:
                raise JudgeError(f"is of image '{key}', as {other} is", where=str(path), mend="remove one of them")
    return found


def read_annotation(annotation: Mapping[str, Any], label: str, size: tuple[int, int], *, where: str) -> Instance:
    """One annotation as an instance; ``size``: height and width of the image.

    It has ``segmentation`` (polygons, run lengths, or the path of a mask file) or, without, ``bbox``, whose area is the
    mask; or ``shares``, YOLO's numbers. ``iscrowd`` and ``score`` count. An annotation that is not sound is refused.
    """
    from pycocotools import mask as coco

    shares = annotation.get("shares")
    # YOLO's numbers: x and y of the centre, width, height; or x1, y1, x2, y2 and so on. No COCO file has a tuple.
    if isinstance(shares, tuple):
        values = [share * size[1 - place % 2] for place, share in enumerate(shares)]
        x, y, across, down = values[:4]
        bbox = [x - across / 2, y - down / 2, across, down]
        annotation = {**annotation, **({"segmentation": [values]} if len(values) > 4 else {"bbox": bbox})}
    shape, box, score = annotation.get("segmentation"), annotation.get("bbox"), annotation.get("score")
    crowd = _CROWD.get(str(annotation.get("iscrowd") or 0))
    score = 1.0 if score is None else score
    if crowd is None or type(score) not in {int, float} or not 0 <= score < 1.0001:  # Rounded by a softmax.
        what = f"'iscrowd' is {annotation.get('iscrowd')!a:.20}" if crowd is None else f"'score' is {score!a:.20}"
        raise JudgeError(what, where=where, mend="write 0 or 1, or as a score a number from 0 to 1")
    score, pixels = float(min(score, 1)), not isinstance(shares, tuple)
    if box is not None:
        box = _read_box(box, size, where, pixels=pixels)
    if isinstance(shape, Path):
        if (mask := read_mask(shape) > 0).shape != size:
            what = f"its mask is {mask.shape[1]} x {mask.shape[0]}, the image {size[1]} x {size[0]}"
            raise JudgeError(what, where=str(shape), mend="give masks of the size of their images")
        return from_mask(mask, label)
    if isinstance(shape, dict):
        rle = read_rle(shape, size, where=where)
    elif isinstance(shape, list) and shape:
        polygons = [_read_polygon(polygon, size, where, pixels=pixels) for polygon in shape]
        rle = coco.merge(coco.frPyObjects(polygons, *size))
    elif shape in (None, []) and box is not None:
        return from_mask(box_mask(box, size), label, box=box, score=score, crowd=crowd)
    else:
        raise JudgeError("has neither segmentation nor bbox", where=where, mend="add one, or remove it")
    x, y, width, height = box or map(float, coco.toBbox(rle))
    return Instance(label, (x, y, width, height), rle["counts"], size, score, crowd)


def find_contradiction(annotation: Mapping[str, Any], instance: Instance, *, where: str) -> tuple[str, str] | None:
    """A contradiction, or another way to read it: what annotations like this one do, and the figures; None without.

    Refused is a thing that would stay visible: its mask is empty, lies mostly outside of its box, or has less than a
    tenth of its area.
    """
    from pycocotools import mask as coco

    area, declared, shape = instance.area, annotation.get("area", math.nan), annotation.get("segmentation")
    if isinstance(shape, Path):  # It has no other fields, and an empty mask file shows nobody.
        values = [value for value in np.unique(read_mask(shape)).tolist() if value]
        several = ", ".join(f"#{value:06x}" if value > 0xFFFF else str(value) for value in values[:6])
        what = "have several values beside 0, all hidden: set other classes, borders and noise to 0"
        return (what, f"values {several}") if len(values) > 1 else None
    if not area and isinstance(shape, list) and any(len({*points[::2]}) > 1 for points in shape):
        return "are lower than a pixel and hide nothing", "its polygon"  # COCO has some.
    own, box = coco.toBbox(instance.rle), np.array(instance.box)
    figures = f"bbox {box.round(1).tolist()}, box of the mask {own.tolist()}, area {declared}, pixels {area}"
    apart = coco.iou((own + _GROWTH)[None], (box + _GROWTH)[None], [0])[0, 0] < _OVERLAP
    outside = apart and 2 * (instance.mask & box_mask(tuple(box + _GROWTH), instance.size)).sum() < area
    known = isinstance(declared, int | float) and math.isfinite(declared)
    for fault, holds in {
        "hides nothing: its mask is empty": not area,
        "its mask lies outside of its bbox": outside,
        "its mask is much smaller than its area": known and declared >= max(_LARGE, _GROSS * area),
    }.items():
        if holds:
            mend = f"see that coordinates are pixels of this image; else {_REPAIR}"
            raise JudgeError(f"{fault} ({figures})", where=where, mend=mend)
    if apart:
        return "have a bbox that is not the box of their mask", figures
    if known and max(declared, area) >= _LARGE and not declared / _FACTOR <= area <= declared * _FACTOR:
        return "have an area that differs from their mask by more than a factor of 2", figures
    if isinstance(shares := annotation.get("shares"), tuple) and len(shares) == 4 and annotation["given"] > 5:
        return "are read as boxes with keypoints, or with the number of a track", f"{annotation['given']} numbers"
    return None


def guess_fault(annotations: Sequence[tuple[Mapping[str, Any], tuple[int, int]]]) -> str:
    """A probable fault of most of ``annotations``, each with the height and width of its image; "" for none."""
    scores = [score for one, _ in annotations if isinstance(score := one.get("score"), int | float)]
    if scores and 1 < max(scores) <= 100:
        return "are scores from 0 to 100? Divide by 100"
    boxes = corners = 0
    for one, size in annotations:
        with suppress(JudgeError, ValueError):
            x, y, right, bottom = _numbers(one.get("bbox"), "bbox", "")
            height, width = (side + _TOLERANCE for side in size)
            outside = x + right > width or y + bottom > height
            boxes, corners = boxes + 1, corners + (outside and x < right <= width and y < bottom <= height)
    return "are boxes xyxy in place of xywh? Write x, y, width, height" if 2 * corners > boxes else ""


def _numbers(values: object, what: str, where: str) -> list[float]:
    if not isinstance(values, list) or not all(type(value) in {int, float} for value in values):
        raise JudgeError(f"{what} is no list of numbers", where=where, mend=_REPAIR)
    if not all(abs(value) < math.inf and abs(value) < 1e308 for value in values):
        raise JudgeError(f"{what} holds a number that is not finite", where=where, mend=_REPAIR)
    return values


def _read_polygon(polygon: object, size: tuple[int, int], where: str, *, pixels: bool) -> list[float]:
    points = _numbers(polygon, "polygon", where)
    if len(points) < 6 or len(points) % 2:
        mend = "a polygon is x1, y1, x2, y2, x3, y3 and so on"
        raise JudgeError(f"polygon of {len(points)} values", where=where, mend=mend)
    _check_coordinates("segmentation", points if pixels else (), points, size, where)
    return points


def _read_box(box: object, size: tuple[int, int], where: str, *, pixels: bool) -> PixelBox:
    numbers = _numbers(box, "bbox", where)
    if len(numbers) != 4 or numbers[2] < 0 or numbers[3] < 0:
        mend = "a box is x, y, width, height, none of the last below 0"
        raise JudgeError(f"bbox is {numbers}", where=where, mend=mend)
    x, y, width, height = map(float, numbers)
    _check_coordinates("bbox", numbers if pixels else (), [x, y, x + width, y + height], size, where)
    return x, y, width, height


def _check_coordinates(
    field: str, numbers: Sequence[float], points: Sequence[float], size: tuple[int, int], where: str
) -> None:
    """Refuse ``points`` (x1, y1, x2, y2 and so on) outside the image; and ``numbers`` that look like shares of it."""
    if min(size) > _TOLERANCE and any(numbers) and all(0 <= number <= 1 for number in numbers):
        what = "holds numbers from 0 to 1 alone: shares of the image, not pixels"
        mend = "multiply x by the width and y by the height of the image"
        raise JudgeError(what, where=f"{where}, field '{field}'", mend=mend)
    for values, limit in ((points[::2], size[1]), (points[1::2], size[0])):
        for value in (min(values), max(values)):
            if not -_TOLERANCE <= value <= limit + _TOLERANCE:
                what = f"coordinate {value:g} lies outside the image (0 to {limit})"
                raise JudgeError(what, where=where, mend=_SAME_IMAGES)


def read_rle(shape: Mapping[str, Any], size: tuple[int, int], *, where: str) -> dict[str, Any]:
    """Compressed run lengths, checked: with wrong ones pycocotools reads and writes out of bounds.

    Empty runs between others are removed: pycocotools' ``merge`` stops where two masks have one at the same place.
    """
    from pycocotools import mask as coco

    counts, given = shape.get("counts"), shape.get("size")
    if given != list(size):
        what = f"run lengths for size {given}, the image is [{size[0]}, {size[1]}] (height, width)"
        raise JudgeError(what, where=where, mend=_SAME_IMAGES)
    runs: Sequence[float] = _numbers(counts, "counts", where) if isinstance(counts, list) else ()
    if isinstance(counts, str):
        with suppress(ValueError):
            runs = run_lengths(counts.encode())
    if not runs or any(run < 0 or run != int(run) for run in runs) or sum(runs) != size[0] * size[1]:
        what = f"run lengths do not add up to {size[0] * size[1]:,} pixels"
        raise JudgeError(what, where=where, mend="export the annotation again")
    if isinstance(counts, list):
        rle = dict(coco.frPyObjects({"size": list(size), "counts": runs}, *size))
    else:
        rle = {"size": list(size), "counts": str(counts).encode()}
    return dict(coco.encode(coco.decode(rle))) if 0 in runs[1:] else rle


def run_lengths(counts: bytes) -> list[int]:
    """The run lengths in COCO's compressed form, which pycocotools does not return.

    Six bits a character from "0" on: five of the value, the least first, and one that says "more follows". From the
    fourth run on the difference to the run before the last is stored, with a sign (``rleToString`` in maskApi.c).
    Raises ValueError where C's own reader would go on beyond the end, or shift by more bits than an int has.
    """
    runs: list[int] = []
    value = shift = 0
    for character in counts:
        bits = character - 48
        if not 0 <= bits < 64 or shift >= 30:
            raise ValueError(f"character {character} of run lengths")
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            value -= (1 << shift) if bits & 16 else 0
            runs.append(value + runs[-2] if len(runs) > 2 else value)
            value = shift = 0
    if shift:
        raise ValueError("run lengths end within a number")
    return runs

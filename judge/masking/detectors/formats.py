"""Masks of other tools as COCO instances: COCO results, a folder of PNG masks, a folder of YOLO labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judge.corpus.files import Document, read_document
from judge.corpus.records import canonical_id, records
from judge.errors import JudgeError
from judge.masking.categories import read_names
from judge.masking.images import list_images
from judge.masking.instances import PERSON
from judge.text.lexicon import load_lexicon
from judge.utils.reading import read_small_text

SHAPES = (
    "give COCO instances (images, annotations, categories), COCO results ([{image_id, category_id, segmentation or "
    "bbox, score}]), a folder of PNG masks, or a folder of YOLO labels"
)
# COCO's numbers of categories, in the order of its categories.
_COCO = [str(number) for number in range(1, 91) if number not in {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}]
_CLASSES = "classes.txt"  # As LabelImg leaves it beside its labels.


def read_masks(path: Path, *, images: Path | None, names: Mapping[str, str] | None) -> tuple[Document, bool]:
    """The file or folder of ``--instances`` as COCO's ``{"images", "annotations", "categories"}``.

    COCO instances list their images; the second value says so. For other formats, images are found by id in ``images``:
    an image without a record or a label file is one in which nothing was found; an image without a mask file is not
    listed. ``names``: class id -> name (``--class-names``).

    Raises:
        JudgeError: a path that cannot be read; no such format; no folder of images where one is needed.
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
        rows = [{"image_id": key, **label} for key, file in files.items() for label in _labels(file)]
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
    shown = {canonical_id(name): name for name in list_images(images)}
    value = {
        "images": [{"id": key, "file_name": name} for key, name in shown.items() if not masks or key in masks],
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


def _labels(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a YOLO label file: a class, then a box (x, y, width, height) or a polygon, and perhaps a score."""
    for number, line in enumerate(read_small_text(path).strip().splitlines(), start=1):
        try:
            category, *shares = map(float, line.split())
        except ValueError:
            shares = []
        score = shares.pop() if len(shares) % 2 else None
        if len(shares) < 4:
            mend = "write: class x y width height, or class x1 y1 x2 y2 x3 y3 and so on, as shares of width and height"
            raise JudgeError("is no YOLO label", where=f"{path}, line {number}", mend=mend)
        yield {"category_id": category, "shares": shares, "score": score}

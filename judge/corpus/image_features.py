"""Vectors of images that another tool computed: CLIP's, SigLIP's, DINO's ..."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from judge.corpus.datasets import faults
from judge.corpus.records import image_id
from judge.errors import JudgeError, some
from judge.utils.files import from_home
from judge.utils.hub import explaining
from judge.utils.reading import memory_limit, opening, read_bytes

_IDS, _FEATURES = "image_id", "features"
_SHAPES = (
    f"give .npz or .safetensors with '{_IDS}' [N] and '{_FEATURES}' [N, D], or a vector for each image by its id; or "
    f"Parquet with a column {_IDS} and a column of lists, or a column for each number"
)
Vector = npt.NDArray[np.float32]


def read_image_features(path: Path) -> dict[str, Vector]:
    """Image id -> its vector, [D], of which every value is finite.

    The file is numpy's ``.npz`` or a safetensors file, with ``image_id`` [N] and ``features`` [N, D], or with a vector
    of each image by its id; or Parquet with a column ``image_id``, and one of lists or D of numbers.
    """
    source, found = str(path), dict[str, Vector]()
    with opening(path, folder="name the file in it", where=f"--image-features {path}"):
        data = read_bytes(from_home(str(path)), memory_limit())
    named = _of_table(data, source) if data.startswith(b"PAR1") else _of_arrays(_arrays(data, source), source)
    for number, (name, values) in enumerate(named, start=1):
        at = f"{source}, image {number}"
        image = image_id(name, at)
        if image in found:
            raise JudgeError(f"image '{image}' occurs twice", where=at, mend="keep one of its vectors")
        vector = _vector(values, at)
        width = len(next(iter(found.values()), vector))
        if len(vector) != width:
            raise JudgeError(f"has {len(vector)} numbers, the first image {width}", where=at, mend=_SHAPES)
        if not np.isfinite(vector).all():
            what = f"the vector of image '{image}' holds a value that is not finite"
            raise JudgeError(what, where=at, mend="compute it again, or leave the image out")
        found[image] = vector
    if not found:
        raise JudgeError("holds no vectors", where=source, mend=_SHAPES)
    return found


def choose_features(known: Mapping[str, Vector], images: Iterable[str], source: str) -> dict[str, Vector]:
    """The vectors of ``images``; refused where some have none."""
    wanted = sorted({*images})
    if lacking := [image for image in wanted if image not in known]:
        what = f"{len(lacking):,} of {len(wanted):,} images have no vector: {some(lacking)}"
        raise JudgeError(what, where=source, mend="check that ids mean the same, or compute the others too")
    return {image: known[image] for image in wanted}


def _arrays(data: bytes, source: str) -> dict[str, Any]:
    with explaining("is no such file, is damaged, or holds Python objects", source, _SHAPES):
        if not data.startswith(b"PK"):
            from safetensors.numpy import load

            return dict(load(data))
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


def _of_arrays(arrays: Mapping[str, Any], source: str) -> Iterator[tuple[object, object]]:
    if _FEATURES not in arrays:
        yield from arrays.items()
        return
    ids, rows = arrays.get(_IDS), arrays[_FEATURES]
    if ids is None or ids.ndim != 1 or rows.ndim != 2 or len(ids) != len(rows):
        shapes = f"'{_IDS}' {'is missing' if ids is None else [*ids.shape]}, '{_FEATURES}' {[*rows.shape]}"
        raise JudgeError(f"holds no vector for each id ({shapes})", where=source, mend=_SHAPES)
    yield from zip(ids.tolist(), rows, strict=True)


def _of_table(data: bytes, source: str) -> Iterator[tuple[object, object]]:
    with faults("Parquet", source):
        table = pd.read_parquet(io.BytesIO(data))
    if _IDS not in table:
        raise JudgeError(f"has no column {_IDS}", where=source, mend=_SHAPES)
    rows = table.drop(columns=_IDS)
    yield from zip(table[_IDS], rows.iloc[:, 0] if rows.shape[1] == 1 else rows.to_numpy(), strict=True)


def _vector(values: object, at: str) -> Vector:
    try:
        found = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise JudgeError("holds something else than numbers", where=at, mend=_SHAPES) from error
    if found.ndim != 1 or not found.size:
        raise JudgeError(f"is no vector, but an array {[*found.shape]}", where=at, mend=_SHAPES)
    return found

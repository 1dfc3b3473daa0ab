"""Captions, labels and images in the containers in which data sets are published, as their own tools write them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

Row = Mapping[str, Any]


def small_picture(seed: int, size: tuple[int, int] = (12, 16), kind: str = "PNG") -> bytes:
    """Noise, [H, W] pixels, as a file."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def tar_bytes(members: Sequence[tuple[str, bytes]], *, form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar archive of (name, content)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name, content in members:
            found = tarfile.TarInfo(name)
            found.size = len(content)
            archive.addfile(found, io.BytesIO(content))
    return file.getvalue()


def sample_members(sample: Row) -> list[tuple[str, bytes]]:
    """The members of a sample of `webdataset`: ``__key__``, and suffix -> content."""
    found = []
    for kind, held in sample.items():
        if kind != "__key__":
            content = (
                held if isinstance(held, bytes) else (held if isinstance(held, str) else json.dumps(held)).encode()
            )
            found.append((f"{sample['__key__']}.{kind}", content))
    return found


def write_shards(folder: Path, samples: Sequence[Row], *, shards: int = 2, form: int = tarfile.GNU_FORMAT) -> Path:
    """Write samples in order to ``00000.tar`` and so on in ``folder``; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(samples)), shards)):
        members = [member for place in part for member in sample_members(samples[place])]
        (folder / f"{number:05d}.tar").write_bytes(tar_bytes(members, form=form))
    return folder


def as_table(rows: Sequence[Row], classes: Mapping[str, Sequence[str]] | None = None) -> pa.Table:
    """Rows as an Arrow table; ``classes`` are columns that `datasets` describes as ClassLabel."""
    table = pa.Table.from_pylist(list(map(dict, rows)))
    features = {name: {"names": list(names), "_type": "ClassLabel"} for name, names in (classes or {}).items()}
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write_parquet(folder: Path, tables: Mapping[str, pa.Table], *, files: int = 2) -> Path:
    """A folder as on the Hugging Face hub, with ``data/SPLIT-00000-of-00002.parquet``."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for split, table in tables.items():
        for number, part in enumerate(np.array_split(np.arange(table.num_rows), files)):
            path = folder / "data" / f"{split}-{number:05d}-of-{files:05d}.parquet"
            parquet.write_table(table.take(pa.array(part)), path, row_group_size=2)
    return folder

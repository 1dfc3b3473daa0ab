"""Captions and labels from shards and folders of Parquet files: the same as from a file."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from containers import as_table, tar_bytes, write_parquet, write_shards
from helpers import Write, fault
from pyarrow import parquet

from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.labels import read_labels
from judge.corpus.tasks import read_tasks
from judge.text.lexicon import load_lexicon

GENDER = load_lexicon("gender")
PUBLISHED = Path(__file__).parent / "published"


@pytest.mark.parametrize("name", ["parquet", "shards"])
def test_as_published(name: str) -> None:
    """What `datasets` 5.2.0 (to_parquet) and `webdataset` 1.0.2 (ShardWriter) wrote."""
    said = {str(n): (f"a person on picture {n}",) for n in (range(1, 4) if "shards" in name else range(1, 6))}
    assert dict(read_captions(PUBLISHED / name, side="human").by_image) == said
    labels = {"1": "male", "2": "female", "3": "male"} | ({} if "shards" in name else {"4": "female"})
    # Image 5 has no class: -1.
    assert dict(read_labels(PUBLISHED / name, lexicon=GENDER).by_image) == labels


def test_members_and_fields(tmp_path: Path) -> None:
    """A text member wins over a field of its name; fields are columns, labels and objects among them."""
    samples: list[dict[str, Any]] = [
        {"__key__": "1", "caption": "a man", "json": {"caption": None, "gender": "male", "objects": ["tie"]}},
        {"__key__": "2", "json": {"caption": "a dog", "gender": "unsure", "objects": ["dog", "cat"], "split": "val"}},
    ]
    folder = write_shards(tmp_path / "mine", samples)
    (folder / "00000.parquet").write_bytes(b"img2dataset leaves one beside each shard")
    assert read_captions(folder, side="human").by_image == {"1": ("a man",), "2": ("a dog",)}
    assert read_captions(folder, ReadOptions(split="val"), side="human").by_image == {"2": ("a dog",)}
    assert read_labels(folder, lexicon=GENDER).by_image == {"1": "male"}
    tasks = read_tasks(folder)
    assert {image: tasks.shown(image) for image in tasks.by_image} == {"1": ["tie"], "2": ["cat", "dog"]}
    classes = write_shards(tmp_path / "classes", [{"__key__": "7", "cls": "woman"}])
    assert read_labels(classes, lexicon=GENDER).by_image == {"7": "female"}


def with_type(kind: bytes, name: str = "2.txt") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        found = tarfile.TarInfo(name)
        found.type, found.linkname = kind, "1.txt"
        archive.addfile(found)
    return file.getvalue()


GOOD = tar_bytes([("1.txt", b"a man")])


@pytest.mark.parametrize(("content", "expected"), [
    (with_type(tarfile.SYMTYPE), "'2.txt': is a link, a device or a sparse file, not a plain file. Write"),
    (tar_bytes([("/etc/x.txt", b"a")]), "'/etc/x.txt': the name leads out of the shard. Use relative names."),
    (tar_bytes([("C:\\x.txt", b"a")]), "'C:\\\\x.txt': the name leads out of the shard."),
    (tar_bytes([("1.txt", b"a"), ("1.txt", b"b")]), "1.txt: occurs twice in the shard. Keep one of the two."),
    (tar_bytes([("1.txt", b"\xff")]), "1.txt: not UTF-8 (byte 1). Save it as UTF-8."),
    (tar_bytes([("1.txt", b"x" * 2**21)]), "1.txt: has over 1,048,576 bytes. Leave it out, or set "),
    (tar_bytes([("1.json", b'{"caption": 3}')]), "sample '1', field 'caption': caption is a number."),
    (tar_bytes([("1.txt", b"a"), ("2.jpg", b"")]), "sample '2', field 'txt': caption is missing."),
    (GOOD[:1024], "tar archive has no end. It may be cut off: copy or download it again."),
    (GOOD[:514], "1.txt: cannot be read (the shard ends before the end of it)."),
    (GOOD[:800], "tar archive cannot be read (unexpected end of data)."),
    (GOOD[:1024] + b"x" * 512 + GOOD[1024:], "tar archive holds something else after 1,024 bytes."),
])  # fmt: skip
def test_bad_shards(write: Write, content: bytes, expected: str) -> None:
    assert fault(write(content), "human").startswith(expected)


def test_bad_folders_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_shards(tmp_path / "set", [{"__key__": "1", "txt": "a man"}, {"__key__": "1", "txt": "a dog"}])
    assert fault(folder) == "00001.tar: sample '1' is in 00000.tar too. Give each sample a name of its own."
    (folder / "00001.tar").write_bytes(b"\x1f\x8b\x08")
    assert fault(folder).startswith("00001.tar: tar archive cannot be read (")
    monkeypatch.setattr("judge.utils.reading.memory_limit", lambda: 600)
    whole = write_shards(tmp_path / "whole", [{"__key__": str(n), "txt": "a man"} for n in range(2)])
    assert "of memory when it is read. Give fewer shards" in fault(whole)


def test_a_few_bytes_of_parquet_that_claim_much(tmp_path: Path) -> None:
    """5 million rows in a few bytes; and a text of 2 MB that 4,000 rows repeat."""
    many = pa.table({"caption": pa.array(["a man"]).take(pa.array(np.zeros(5_000_000, int))).dictionary_encode()})
    long = pa.table({"caption": pa.DictionaryArray.from_arrays(np.zeros(4000, int), ["x" * 2**21])})
    for number, table in enumerate((many, long)):
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(table, path)
        assert path.stat().st_size < 2**21
        tracemalloc.start()
        told = "takes over 1 GB of memory when it is read. Keep only the columns and records needed"
        assert fault(path).startswith(told)
        assert tracemalloc.get_traced_memory()[1] < 2**29
        tracemalloc.stop()


def test_splits_of_data_sets(tmp_path: Path) -> None:
    tables = {
        name: as_table([{"image_id": n, "caption": f"a {name}"}]) for n, name in enumerate(("train", "test", "own"))
    }
    folder = write_parquet(tmp_path / "hub", tables)
    assert read_captions(folder, side="human").total == 3
    for side in ("human", "generated"):
        assert read_captions(folder, ReadOptions(split="own"), side=side).by_image == {"2": ("a own",)}
    assert fault(folder, split="val") == "no captions of split 'val'. Splits in the file: own, test, train."


def test_records_of_data_sets(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"image_id": n, "caption": f"a {n}", "license": "x"} for n in range(5)]
    rows[4]["caption"] = None
    folder, place = write_parquet(tmp_path / "hub", {"t": as_table(rows)}), "data/t-00001-of-00002.parquet, record 2"
    assert fault(folder).startswith(f"{place}, field 'caption': caption is null. Give the record a text")
    assert "among 'image_id', 'caption', 'license'" in fault(folder, read=read_labels)


@pytest.mark.parametrize("name", ["state.json", "dataset_dict.json"])
def test_saved_data_sets_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    assert fault(tmp_path).startswith("is a folder of save_to_disk. Write Parquet files instead: dataset.to_parquet(")


def test_regions_of_visual_genome_are_refused(write: Write) -> None:
    rows = [{"id": 61512, "regions": [{"region_id": 1382, "image_id": 61512, "phrase": "the clock is green"}]}]
    assert fault(write(rows), "human").startswith("holds Visual Genome's regions, which are not read. Write a table of")
    # A table that has such a column beside captions is read.
    assert read_captions(write([rows[0] | {"caption": "a clock"}]), side="human").by_image == {"61512": ("a clock",)}

"""Bad files, bad records and image ids: one line each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import Write, fault, fault_of
from hypothesis import given
from hypothesis import strategies as st

from judge.corpus.captions import read_captions
from judge.corpus.labels import read_labels
from judge.corpus.records import canonical_id
from judge.corpus.tasks import read_tasks
from judge.utils.files import is_encodable


@pytest.mark.parametrize(("record", "field", "expected"), [
    ({"caption": "x"}, "image_id", "is missing"),
    ({"image_id": 1.5, "caption": "x"}, "image_id", "is 1.5"),
    ({"image_id": 2}, "caption", "is missing"),
    ({"image_id": 2, "caption": None}, "caption", "is null"),
    ({"image_id": 2, "caption": ["x", "y"]}, "caption", "is a list"),
    ({"image_id": 2, "caption": "x" * 100_000}, "caption", "has over 50,000 characters"),
    ({"image_id": 2, "caption": "\ud83d"}, "caption", "is not valid Unicode (half of a surrogate pair)"),
])  # fmt: skip
@pytest.mark.parametrize("lines", [False, True])
def test_bad_record(write: Write, record: object, field: str, expected: str, lines: bool) -> None:
    what = {
        "image_id": f"image id {expected}. Give the record a number or a file name.",
        "caption": f"caption {expected}. Give the record a text, or remove it.",
    }
    records = [{"image_id": 1, "caption": "a man"}, record, {"image_id": 3, "caption": "a dog"}]
    path = write("\n".join(map(json.dumps, records)) if lines else records)
    told = fault(path).replace(", or set the environment variable JUDGE_NO_LIMITS=1 if you trust the file", "")
    assert told == f"record 2, field '{field}': {what[field]}".replace("caption has", "has")


def test_other_bad_records(write: Write) -> None:
    names = ["000000000001.jpg", "2.jpg", "COCO_val2014_000000000001.jpg"]
    assert fault(write([{"image_id": name, "caption": "x"} for name in names])) == (
        "record 3, field 'image_id': duplicate results for image '1' (record 1 has one). "
        "Keep one record per image, or allow several captions with --several."
    )
    for content in ([{"image_id": 1, "caption": "a man"}, "x"], '{"image_id": 1, "caption": "a man"}\n"x"'):
        assert fault(write(content)).startswith("record 2: is a text, not an object. Give COCO captions")
    captions = [{"id": 55, "image_id": 1, "caption": "a man"}, {"id": 56, "image_id": 1, "caption": None}]
    null = "annotation 56, field 'caption': caption is null. Give the record a text, or remove it."
    assert fault(write({"annotations": captions}), "human") == null
    boxes = [{"id": 1, "image_id": 1, "bbox": [], "category_id": 1}]
    instances = "holds object instances, not captions. Give captions_*.json in place of instances_*.json."
    assert fault(write({"annotations": boxes}), "human") == instances
    # The longest caption that is allowed.
    assert read_captions(write({"1": "x" * 50_000}), side="generated").total == 1


def test_images_whose_names_differ_by_their_suffix(write: Write) -> None:
    """1.jpg and 1.png are two images with one id: they are never put together. In two files they are one image."""
    told = "image '1' is a file .png here and .jpg in another record. "
    told += "Rename one of the two images, as ids have no endings."
    names = ["1.jpg", "2.png", "1.JPG", "1.jpeg", "b/1.png", "1", 1, "1.png"]
    path = write([{"image_id": name, "caption": "a dog", "gender": "male", "objects": ["dog"]} for name in names])
    assert fault(path, "human") == fault(path, several=True) == f"record 8, field 'image_id': {told}"
    assert fault(path, read=read_labels) == fault(path, read=read_tasks) == f"record 8: {told}"
    for suffix in ("jpg", "png", "JPEG"):
        found = read_captions(write({f"{n}.{suffix}": "a dog" for n in (1, 2)}), side="human")
        assert found.by_image.keys() == {"1", "2"}


@pytest.mark.parametrize(("content", "expected"), [
    (b"", "file is empty. Give a file with captions or labels in it."),
    (b"[]", "holds no records. Give at least one."),
    (b"{}", "holds no captions. Give at least one."),
    (b'[{"image_id": 1,', "not JSON (Expecting property name enclosed in double quotes at line 1, column 17)."),
    (b'{"a": 1}\n{"a": ', "line 2: not JSON (Expecting value at line 1, column 7)."),
    (b"[" * 100_000, "not JSON that can be read (maximum recursion depth exceeded"),
    (b"[" + b"9" * 5000 + b"]", "holds a number of over 4,300 digits. Write it shorter, or set the environment"),
    (b'{"images": [{"id": 1}]}', "'images' without 'annotations' or 'sentences'."),
    (b'{"images": [{"sentences": "x"}]}', "record 1, field 'sentences': is not a list of objects."),
    (b"image_id,caption\n1,\xe9t\xe9\n", "not UTF-8 (byte 0xe9 on line 2). Save it as UTF-8."),
    ("image_id,caption\n".encode("utf-16"), "is UTF-16 text. Save it as UTF-8."),
    ("image_id,caption\n".encode("utf-32"), "is UTF-32 text. Save it as UTF-8."),
    (b"\x89PNG\r\n\x1a\n\0\0", "is an image. Give JSON or a table."),
    (b"\xff\xd8\xff\xe0\0\x10JFIF", "is an image. Give JSON or a table."),
    (b"\0" * 100, "holds zero bytes, so it is no text (the first on line 1). Give JSON or CSV as UTF-8, or Parq"),
    (b"PAR1\x00\x00", "Parquet cannot be read ("),
    (b"PK\x03\x04\x00", "is an Excel file or an archive. Save the sheet as CSV, or unpack it."),
    (b"image_id,caption\n1,a,b\n", "record 1: row of 3 under a header of 2."),
    (b'image_id,caption\n1,"a man\n2,a dog\n', "line 3: table cannot be read (unexpected end of data)."),
    (b"image_id,image_id\n1,2\n", "column 'image_id' occurs twice. Rename one of the two."),
])  # fmt: skip
def test_bad_file(write: Write, content: bytes, expected: str) -> None:
    assert fault(write(content)).startswith(expected)


def test_paths(tmp_path: Path) -> None:
    assert fault(tmp_path / "none.json") == "no such file. Check the path."
    assert fault(tmp_path) == "is a folder. Give one file, or a folder of .tar shards or of Parquet files."
    assert fault(Path("/dev/null")) == "is not a regular file. Give a file on disk."
    line = fault_of(read_captions, tmp_path / "a\0b", side="human")
    assert line == f"{tmp_path}/a\\x00b: cannot be read (embedded null byte). Check the path and its permissions."


@pytest.mark.parametrize(("expected", "values"), [
    ("139", [139, 139.0, np.int64(139), np.float64(139.0), "139", " 000139 ", "139.0", "139.jpg"]),
    ("139", ["000000000139.JPG", "C:\\coco\\val2017\\000000000139.jpg"]),
    ("0", [0, "-0", "000000000000.png"]),
    ("-7", [-7]),
    ("522418", ["COCO_val2014_000000522418.jpg", "/data/coco/val2014/COCO_val2014_000000522418.jpg"]),
    ("cat", ["./cat.jpeg"]),
    ("391895", ["http://images.cocodataset.org/train2017/000000391895.jpg"]),  # LAION's ids are addresses
    ("https://c.org/000000391895", ["https://c.org/000000391895.jpg"]),
    ("猫", ["猫.webp"]),
    *((name, [f"{name}.jpg"]) for name in ("a/cat", "b/cat", "1000092795", "صورة")),
    ("folder/139", ["folder/139.jpg"]),  # not twelve digits: the folder may tell two of them apart
    *((name, [name]) for name in ("n02084071_1", "index:5")),
    ("\u00e9", ["\u00e9.jpg", "e\u0301.jpg"]),  # e and a combining accent, as macOS writes it
])  # fmt: skip
def test_spelling(expected: str, values: list[object]) -> None:
    assert [canonical_id(value) for value in values] == [expected] * len(values)


def test_refused() -> None:
    faults = {None: "is null", 1.5: "is 1.5", float("nan"): "is nan", "": "is empty", "\ud83d": "is not valid Unicode"}
    for value, message in (faults | {".jpg": "is '.jpg', which names no image"}).items():
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            canonical_id(value)


@given(
    st.one_of(st.text(), st.integers(), st.from_regex(r"\A(\./|a/|COCO_val2014_)?[0-9]{1,13}(\.0)?(\.jpg|\.png)*\Z"))
)
def test_twice_is_once(value: object) -> None:
    try:
        once = canonical_id(value)
    except ValueError:
        return
    assert once
    assert is_encodable(once)
    assert canonical_id(once) == once

"""One spelling per image."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.corpus.records import canonical_id
from judge.utils.files import is_encodable


@pytest.mark.parametrize(
    ("expected", "values"),
    [
        ("139", [139, 139.0, np.int64(139), np.float64(139.0), "139", " 000139 ", "139.0", "139.jpg"]),
        ("139", ["000000000139.JPG", "C:\\coco\\val2017\\000000000139.jpg"]),
        ("0", [0, "-0", "000000000000.png"]),
        ("-7", [-7]),
        ("522418", ["COCO_val2014_000000522418.jpg", "/data/coco/val2014/COCO_val2014_000000522418.jpg"]),
        ("522418", ["COCO_train2014_000000522418"]),
        ("cat", ["./cat.jpeg"]),
        ("photo.final", ["photo.final.png"]),
        ("猫", ["猫.webp"]),
        *((name, [f"{name}.jpg"]) for name in ("a/cat", "b/cat", "1000092795", "صورة")),
        ("folder/139", ["folder/139.jpg"]),  # not twelve digits: the folder may tell two of them apart
        *((name, [name]) for name in ("n02084071_1", "index:5")),
        ("\u00e9", ["\u00e9.jpg", "e\u0301.jpg"]),  # e and a combining accent, as macOS writes it
    ],
)
def test_spelling(expected: str, values: list[object]) -> None:
    assert [canonical_id(value) for value in values] == [expected] * len(values)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "is null"),
        (True, "is true"),
        (1.5, "is 1.5"),
        (float("nan"), "is nan"),
        ("", "is empty"),
        (".jpg", "is '.jpg', which names no image"),
        ([1], "is a list"),
        (b"139", "is bytes"),
        ("\ud83d", "is not valid Unicode"),
    ],
)
def test_refused(value: object, message: str) -> None:
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

"""Detections kept on disk: asked once, by what is in the picture; what is damaged is asked again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from detector_samples import FakeDetector

from judge.errors import JudgeError
from judge.masking.cache import Cached
from judge.masking.instances import Picture, from_mask

MASK = np.zeros((20, 30), dtype=bool)
MASK[3:9, 4:20] = True
FOUND = (from_mask(MASK, "person", score=0.75), from_mask(MASK, "dog", score=0.5, crowd=True))


def fake(key: str = "one") -> FakeDetector:
    return FakeDetector(lambda picture: FOUND if picture.pixels.any() else (), key=key)


def picture(name: str, number: int) -> Picture:
    return Picture(name, np.full((20, 30, 3), number, dtype=np.uint8))


def test_asked_once_by_content(tmp_path: Path) -> None:
    detector = fake()
    first = [picture("a", 1), picture("empty", 0)]
    assert Cached(detector, tmp_path).detect(first) == [FOUND, ()]
    again = [picture("empty", 0), picture("new", 2), picture("a, renamed", 1)]
    assert Cached(detector, tmp_path).detect(again) == [(), FOUND, FOUND]
    assert detector.asked == [["a", "empty"], ["new"]]
    # The same numbers in another shape are another picture; so is the same one to another detector.
    turned = Picture("turned", np.full((30, 20, 3), 0, dtype=np.uint8))
    assert Cached(detector, tmp_path).detect([turned]) == [()]
    other = fake("other")
    assert Cached(other, tmp_path).detect([picture("a", 1)]) == [FOUND]
    assert (detector.asked[-1], other.asked) == (["turned"], [["a"]])


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "{}", "null", "7", '"person"', "[7]", "[{}]", "[" * 100_000, '[{"size": [1e999, 2]}]',
        '[{"label": "person", "box": [0, 0, 1, 1], "counts": "0", "size": [20, 30], "score": 1, "crowd": false}]',
        '[{"label": "person", "box": [0, 0, 1, 1], "counts": [600], "size": [1e999, 30], "score": 1, "crowd": false}]',
    ],
)  # fmt: skip
def test_what_is_damaged_is_made_anew(tmp_path: Path, content: str) -> None:
    """Never "nothing found": people would stay visible."""
    detector = fake()
    Cached(detector, tmp_path).detect([picture("a", 1)])
    [kept] = tmp_path.rglob("*.json")
    whole = kept.read_bytes()
    kept.write_text(content)
    assert Cached(detector, tmp_path).detect([picture("a", 1)]) == [FOUND]
    assert detector.asked == [["a"], ["a"]]
    assert kept.read_bytes() == whole
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_a_full_disk_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Cached(fake(), tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert cached.detect([picture("a", 1)]) == [FOUND]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match=r"--cache .*file: cannot be written"):
        Cached(fake(), tmp_path / "file")

"""Detections on disk: by the content of the image; what is damaged is computed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from detector_samples import FakeDetector

from judge.masking.cache import Cached
from judge.masking.instances import LoadedImage, from_mask

MASK = np.zeros((20, 30), dtype=bool)
MASK[3:9, 4:20] = True
FOUND = (from_mask(MASK, "person", score=0.75), from_mask(MASK, "dog", score=0.5, crowd=True))


def fake(key: str = "one") -> FakeDetector:
    return FakeDetector(lambda image: FOUND if image.pixels.any() else (), key=key)


def image(name: str, number: int, size: tuple[int, int] = (20, 30)) -> LoadedImage:
    return LoadedImage(name, np.full((*size, 3), number, dtype=np.uint8))


def test_detected_once_by_content(tmp_path: Path) -> None:
    detector, other = fake(), fake("other")
    for one, expected in [(image("a", 1), FOUND), (image("empty", 0), ()), (image("a, renamed", 1), FOUND)]:
        assert Cached(detector, tmp_path).detect(one) == expected
    # The same numbers in another shape are another image; so is the same image for another detector.
    assert Cached(detector, tmp_path).detect(image("turned", 0, (30, 20))) == ()
    assert Cached(other, tmp_path).detect(image("a", 1)) == FOUND
    assert (detector.called, other.called) == (["a", "empty", "turned"], ["a"])


@pytest.mark.parametrize(
    "content",
    ["", "{}", "null", "[7]", "[{}]", "[" * 100_000, '[{"size": [1e999, 2]}]',
     '[{"label": "person", "box": [0, 0, 1, 1], "counts": "0", "size": [20, 30], "score": 1, "crowd": false}]'],
)  # fmt: skip
def test_damaged_detections_are_computed_again(tmp_path: Path, content: str) -> None:
    """They never count as "nothing found": people would stay visible."""
    detector = fake()
    Cached(detector, tmp_path).detect(image("a", 1))
    [path] = tmp_path.rglob("*.json")
    whole = path.read_bytes()
    path.write_text(content)
    assert Cached(detector, tmp_path).detect(image("a", 1)) == FOUND
    assert detector.called == ["a", "a"]
    assert path.read_bytes() == whole

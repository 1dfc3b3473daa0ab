"""Images that a trained judge is given: files and images of Pillow alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from judge.training.scorer import _in_folder


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_opened_image_is_turned_as_its_file_is(orientation: int, tmp_path: Path) -> None:
    """By the orientation in its EXIF data; four of the eight change its shape."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[:20, :30] = 255, 128, 0
    image, exif = Image.fromarray(pixels), Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "image.jpg", exif=exif, quality=95)
    images = _in_folder([tmp_path / "image.jpg", Image.open(tmp_path / "image.jpg"), image], tmp_path)
    assert np.array_equal(images.read("0"), images.read("1"))
    assert images.read("1").shape == ((40, 60, 3) if orientation < 5 else (60, 40, 3))
    assert np.array_equal(images.read("2"), pixels)

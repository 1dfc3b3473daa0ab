"""Images in shards and data sets, and detections on disk: the same as those of a folder, or made again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from containers import as_table, small_picture, tar_bytes, write_parquet, write_shards
from detector_samples import FakeDetector
from helpers import fault_of, one_line

from judge.commands.images import known_images
from judge.masking.cache import Cached
from judge.masking.images import has_image, list_images, read_bytes, read_image
from judge.masking.instances import LoadedImage, from_mask
from judge.masking.masked_images import MaskedImages
from judge.utils.reading import PICTURE

PUBLISHED = Path(__file__).parents[1] / "corpus" / "published"
IMAGES = {n: small_picture(n) for n in range(5)}


def containers(place: Path, images: Mapping[int, bytes]) -> dict[str, Path]:
    """The same images, by number, in a folder and in everything else."""
    folder = place / "folder"
    folder.mkdir(parents=True)
    for number, data in images.items():
        (folder / f"{number:012d}.png").write_bytes(data)
    shards = write_shards(place / "shards", [{"__key__": f"{n:012d}", "png": data} for n, data in images.items()])
    rows = [{"image_id": n, "image": {"bytes": data, "path": "x.png"}} for n, data in images.items()]
    return {
        "folder": folder,
        "shards": shards,
        "parquet": write_parquet(place / "parquet", {"test": as_table(rows)}),
        "splits": write_parquet(place / "splits", {"a": as_table(rows[:2]), "b": as_table(rows[2:])}, files=1),
    }


def test_every_container_has_the_same_images(tmp_path: Path) -> None:
    found = containers(tmp_path, IMAGES)
    folder = MaskedImages(found["folder"], known_images(found["folder"], None))
    for place in found.values():
        known = known_images(place, None)
        assert [*known] == [str(n) for n in IMAGES]
        shown = MaskedImages(place, known)
        for number, data in IMAGES.items():
            assert read_bytes(place, known[str(number)]) == data
            assert np.array_equal(shown.read(str(number)), folder.read(str(number)))
            # Kept features and detections serve too, wherever the image lies.
            assert shown.key(str(number)) == folder.key(str(number))
            assert has_image(place, f"{number:012d}.png")
        assert not has_image(place, "absent.png")
        with one_line("absent.png: no such image. Check --images"):
            read_image(place, "absent.png")


def test_as_published() -> None:
    """What `datasets` and `webdataset` wrote themselves: 4 x 5 pixels, of a generator seeded by the image id."""
    for name in ("parquet", "shards", "shards/00000.tar"):
        known = known_images(PUBLISHED / name, None)
        assert len(known) == {"shards": 3, "shards/00000.tar": 2}.get(name, 5)
        for image, name_of in known.items():
            expected = np.random.default_rng(int(image)).integers(0, 256, (4, 5, 3), dtype=np.uint8)
            assert np.array_equal(read_image(PUBLISHED / name, name_of).pixels, expected)


def test_which_image_of_a_sample(tmp_path: Path) -> None:
    def shard(**members: bytes) -> Path:
        path = tmp_path / "one.tar"
        path.write_bytes(tar_bytes([(name.replace("_", "."), data) for name, data in members.items()]))
        os.utime(path, ns=(0, len(members)))
        return path

    assert list_images(shard(a_jpg=b"1", a_seg_png=b"2", a_txt=b"3")) == ["a.jpg"]
    several = fault_of(list_images, shard(a_image_jpg=b"1", a_depth_png=b"2", b_jpg=b"3", c_txt=b""))
    assert "sample 'a' has several images (depth.png, image.jpg). Keep one" in several
    assert "holds no image" in fault_of(list_images, shard(a_txt=b"1", b_txt=b"", c_txt=b"", d_txt=b"", e_txt=b""))


def test_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = containers(tmp_path, IMAGES | {9: b"broken"})
    with one_line(f"{place['shards']}, 00001.tar, 000000000009.png: is not an image"):
        read_image(place["shards"], "000000000009.png")
    with one_line(f"{place['parquet']}, data/test-00001-of-00002.parquet, record 3, field 'image': is not an image"):
        read_image(place["parquet"], "9.jpg")
    with monkeypatch.context() as patch, one_line("00000.tar, 000000000000.png: has over 10 bytes. Leave it out"):
        patch.setattr("judge.masking.archives.PICTURE", replace(PICTURE, most=10))
        read_image(place["shards"], "000000000000.png")
    other = {"bytes": b"", "path": ""}
    rows: list[dict[str, Any]] = [{"id": 1, "left": other, "right": other}]
    expected = "columns 'left' and 'right' all hold images. Call the right one 'image'."
    assert fault_of(list_images, write_parquet(tmp_path / "sides", {"test": as_table(rows)})).endswith(expected)
    rows = [{"id": 1, "image": {"bytes": None, "path": "/x/1.png"}}, {"id": 2, "image": {"bytes": b"x", "path": None}}]
    absent = write_parquet(tmp_path / "absent", {"test": as_table(rows)})
    assert "record 1, field 'image': holds no image, or only its path" in fault_of(read_bytes, absent, "1")
    rows = [{"id": None, "image": {"bytes": b"x", "path": ""}}] * 2
    null = write_parquet(tmp_path / "null", {"test": as_table(rows)})
    assert "data/test-00000-of-00002.parquet, record 1, field 'id': image id is null" in fault_of(list_images, null)


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

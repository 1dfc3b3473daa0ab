"""Images in shards and data sets are listed, read, masked and judged like those of a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands.test_mask import DOG, HEIGHT, SQUARE, WIDTH, tree, write_instances
from containers import as_table, small_picture, tar_bytes, write_dict, write_parquet, write_saved, write_shards
from helpers import done_well, fault_of, one_line, refusal
from mutations import mutated_bytes, read_or_refused

from judge.commands.images import known_images
from judge.masking import archives
from judge.masking.images import encode, has_image, list_images, read_bytes, read_image
from judge.masking.masked_images import MaskedImages
from judge.utils.outputs import MANIFEST
from judge.utils.reading import PICTURE

PUBLISHED = Path(__file__).parents[1] / "corpus" / "published"
PICTURES = {n: small_picture(n) for n in range(5)}


def containers(place: Path, pictures: Mapping[int, bytes]) -> dict[str, Path]:
    """The same pictures, by number, in a folder and in everything else."""
    folder = place / "folder"
    folder.mkdir(parents=True)
    for number, data in pictures.items():
        (folder / f"{number:012d}.png").write_bytes(data)
    shards = write_shards(place / "shards", [{"__key__": f"{n:012d}", "png": data} for n, data in pictures.items()])
    rows = [{"image_id": n, "image": {"bytes": data, "path": "x.png"}} for n, data in pictures.items()]
    return {
        "folder": folder,
        "shards": shards,
        "range": shards / "{00000..00001}.tar",
        "saved": write_saved(place / "saved", as_table(rows)),
        "dict": write_dict(place / "dict", {"a": as_table(rows[:2]), "b": as_table(rows[2:])}),
        "parquet": write_parquet(place / "parquet", {"test": as_table(rows)}),
    }


def test_every_container_has_the_same_pictures(tmp_path: Path) -> None:
    found = containers(tmp_path, PICTURES)
    folder = MaskedImages(found["folder"], known_images(found["folder"], None))
    for place in found.values():
        known = known_images(place, None)
        assert [*known] == [str(n) for n in PICTURES]
        shown = MaskedImages(place, known)
        for number, data in PICTURES.items():
            assert read_bytes(place, known[str(number)]) == data
            assert np.array_equal(shown.read(str(number)), folder.read(str(number)))
            # Kept features and detections serve too, wherever the picture lies.
            assert shown.key(str(number)) == folder.key(str(number))
            assert has_image(place, f"{number:012d}.png")
        assert not has_image(place, "absent.png")
        with one_line("absent.png: no such image. Check --images"):
            read_image(place, "absent.png")


def test_as_published() -> None:
    """What `datasets` and `webdataset` wrote themselves: 4 x 5 pixels, of a generator seeded by the image id."""
    for name in ("saved", "parquet", "shards", "shards/00000.tar"):
        known = known_images(PUBLISHED / name, None)
        assert len(known) == {"shards": 3, "shards/00000.tar": 2}.get(name, 5)
        for image, picture in known.items():
            expected = np.random.default_rng(int(image)).integers(0, 256, (4, 5, 3), dtype=np.uint8)
            assert np.array_equal(read_image(PUBLISHED / name, picture).pixels, expected)


def test_any_order_and_many_threads(tmp_path: Path) -> None:
    rows = [{"id": f"{n}.png", "image": {"bytes": bytes([n]) * (n + 1), "path": None}} for n in range(12)]
    order = np.random.default_rng(0).permutation(12).tolist()
    for folder in (
        write_saved(tmp_path / "saved", as_table(rows), files=3),
        write_parquet(tmp_path / "parquet", {"train": as_table(rows)}, files=2),
    ):
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda n, folder=folder: read_bytes(folder, f"{n}.png"), order))
        assert found == [bytes([n]) * (n + 1) for n in order]


def test_which_picture_of_a_sample(tmp_path: Path) -> None:
    def shard(**members: bytes) -> Path:
        path = tmp_path / "one.tar"
        path.write_bytes(tar_bytes([(name.replace("_", "."), data) for name, data in members.items()]))
        os.utime(path, ns=(0, len(members)))
        return path

    assert list_images(shard(a_jpg=b"1", a_seg_png=b"2", a_txt=b"3")) == ["a.jpg"]
    assert list_images(shard(a_image_jpg=b"1")) == ["a.jpg"]
    assert "sample 'a' has several images (depth.png, image.jpg). Keep one" in fault_of(
        list_images, shard(a_image_jpg=b"1", a_depth_png=b"2", b_jpg=b"3", c_txt=b"")
    )
    assert "holds no image" in fault_of(list_images, shard(a_txt=b"1", b_txt=b"", c_txt=b"", d_txt=b"", e_txt=b""))
    twice = write_shards(tmp_path / "twice", [{"__key__": "1", "png": b""}, {"__key__": "1", "jpg": b""}])
    assert "00001.tar: sample '1' is in 00000.tar too" in fault_of(list_images, twice)


def test_folders_stay_folders(tmp_path: Path) -> None:
    """Beside images, archives and tables are ignored."""
    place = containers(tmp_path, PICTURES)["folder"]
    write_shards(place, [{"__key__": "7", "png": b""}])
    assert len(list_images(place)) == len(PICTURES)
    words = write_saved(tmp_path / "words", as_table([{"image_id": 1, "caption": "a man"}]))
    assert "holds no image" in fault_of(list_images, words)


def test_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = containers(tmp_path, PICTURES | {9: b"broken"})
    with one_line(f"{place['shards']}, 00001.tar, 000000000009.png: is not an image"):
        read_image(place["shards"], "000000000009.png")
    with one_line(f"{place['saved']}, data-00001-of-00002.arrow, record 3, field 'image': is not an image"):
        read_image(place["saved"], "9.jpg")
    with monkeypatch.context() as patch, one_line("00000.tar, 000000000000.png: has over 10 bytes. Leave it out"):
        patch.setattr("judge.masking.archives.PICTURE", replace(PICTURE, most=10))
        read_image(place["shards"], "000000000000.png")
    other = {"bytes": b"", "path": ""}
    rows: list[dict[str, Any]] = [{"id": 1, "image": {"bytes": b"x", "path": "x"}, "depth": other}]
    assert read_bytes(write_saved(tmp_path / "two", as_table(rows)), "1") == b"x"
    rows = [{"id": 1, "left": other, "right": other}]
    expected = "columns 'left' and 'right' all hold images. Call the right one 'image'."
    assert fault_of(list_images, write_saved(tmp_path / "sides", as_table(rows))).endswith(expected)
    rows = [{"id": 1, "image": {"bytes": None, "path": "/x/1.png"}}, {"id": 2, "image": {"bytes": b"x", "path": None}}]
    absent = write_saved(tmp_path / "absent", as_table(rows))
    assert "record 1, field 'image': holds no image, or only its path" in fault_of(read_bytes, absent, "1")
    null = write_saved(tmp_path / "null", as_table([{"id": None, "image": {"bytes": b"x", "path": ""}}] * 2))
    assert "data-00000-of-00002.arrow, record 1, field 'id': image id is null" in fault_of(list_images, null)


def test_what_changes_is_read_anew(tmp_path: Path) -> None:
    samples = [{"__key__": str(n), "png": small_picture(n)} for n in range(4)]
    folder = write_shards(tmp_path / "shards", samples)
    assert len(list_images(folder)) == 4
    # In place, the folder's own time of change stays as it was.
    before = folder.stat().st_mtime_ns
    content = tar_bytes([("8.png", small_picture(8))])
    with (folder / "00000.tar").open("r+b") as file:
        file.truncate(0)
        file.write(content)
    os.utime(folder, ns=(before, before))
    assert "00000.tar: has changed since its images were listed" in fault_of(read_bytes, folder, "0.png")
    assert list_images(folder) == ["2.png", "3.png", "8.png"]
    assert read_bytes(folder, "8.png") == small_picture(8)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Six pictures, a dog in each and a person in some, in every container; and their instances."""
    place = tmp_path_factory.mktemp("scene")
    noise = {n: np.random.default_rng(n).integers(1, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8) for n in range(6)}
    found = containers(place, {n: encode(pixels) for n, pixels in noise.items()})
    people = [{"image_id": n, "category_id": 1, "segmentation": SQUARE} for n in (0, 2, 4)]
    dogs = [{"image_id": n, "category_id": 2, "segmentation": DOG} for n in range(6)]
    names = [f"{n:012d}.png" for n in range(6)]
    return found | {"instances": write_instances(place / "instances.json", names, [*people, *dogs])}


def test_masked_alike(scene: dict[str, Path], tmp_path: Path) -> None:
    """``judge mask`` writes the same bytes, whatever the pictures lie in."""
    found = {}
    for name in ("folder", "shards", "range", "saved", "parquet"):
        out = tmp_path / name
        done_well("mask", "--images", scene[name], "--instances", scene["instances"], "--out", out)
        found[name] = {path: data for path, data in tree(out).items() if path not in {MANIFEST, "mask.yaml"}}
    assert len(found["folder"]) == 6 + 3
    assert all(written == found["folder"] for written in found.values())
    again = refusal(
        "mask", "--images", tmp_path / "{0..9}.tar", "--instances", scene["instances"], "--out", tmp_path / "x"
    )
    assert again.startswith(f"judge: {tmp_path}/0.tar: no such file")


@pytest.mark.parametrize("kind", ["shard", "saved", "parquet"])
def test_damaged_archives(kind: str, tmp_path: Path) -> None:
    """A thousand faults: every picture that is listed is read, or refused in one line."""
    rows = [{"image_id": n, "image": {"bytes": small_picture(n, (3, 3)), "path": "x"}} for n in range(2)]
    if kind == "shard":
        place = path = tmp_path / "one.tar"
        path.write_bytes(tar_bytes([(f"{row['image_id']}.png", small_picture(0, (3, 3))) for row in rows]))
    elif kind == "saved":
        place = write_saved(tmp_path / "set", as_table(rows), files=1)
        path = place / "data-00000-of-00001.arrow"
    else:
        place = write_parquet(tmp_path / "set", {"test": as_table(rows)}, files=1)
        path = place / "data" / "test-00000-of-00001.parquet"

    def read(_: Path) -> None:
        archives._find.cache_clear()
        for name in list_images(place):
            read_bytes(place, name)

    told = read_or_refused(read, path, mutated_bytes(path.read_bytes(), 1000))
    assert min(told["read"], told["refused"]) > 50

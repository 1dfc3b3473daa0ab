"""Features computed once: the backbone's own to half precision, kept by what is seen, made anew where damaged."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GENDER
from torch import Tensor, nn

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.judges import Materials
from judge.judges.backbones import TimmBackbone, make_backbone
from judge.judges.names import find_judge
from judge.masking.images import encode
from judge.masking.instances import from_mask
from judge.masking.masked_images import MaskedImages
from judge.masking.people import Hiding
from judge.training.disk_cache import FeatureStore
from judge.training.feature_caches import ImageCache
from judge.training.features import precompute
from judge.training.member import Member
from judge.types import Sample

IMAGES = 18  # More than one batch.
CPU = torch.device("cpu")
EYES = Materials(backbone="test_resnet", backbone_weights="random", image_size=64)
HIDDEN = np.zeros((40, 50), dtype=bool)
HIDDEN[5:20, 10:40] = True


ALL = tuple(range(IMAGES))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Drawn pictures; the last two are the same."""
    made = tmp_path / "pictures"
    made.mkdir()
    for image in ALL:
        draw(made, image, number=min(image, IMAGES - 2))
    return made


def draw(folder: Path, image: int, *, number: int) -> None:
    pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    (folder / f"{image}.png").write_bytes(encode(pixels))


def seen(folder: Path, hiding: Hiding | None = None) -> MaskedImages:
    names = {str(image): f"{image}.png" for image in range(IMAGES)}
    return MaskedImages(folder, names, hiding, dict.fromkeys(names.values(), (from_mask(HIDDEN, "person"),)))


@cache
def eyes(materials: Materials) -> TimmBackbone:
    return make_backbone(materials, "resnet18")


def cache_of(pictures: MaskedImages, kept: Path, backbone: Any = None) -> ImageCache:
    """Of the backbone ``EYES`` where no other is given."""
    keys = {image: pictures.key(image) for image in pictures.names}
    return ImageCache(backbone or eyes(EYES), pictures, keys, kept)


def filled(pictures: MaskedImages, kept: Path) -> tuple[FeatureStore, list[str]]:
    """What is kept afterwards, and what had to be computed."""
    cache = cache_of(pictures, kept)
    missing = cache.missing()
    cache.compute(missing, device=CPU)
    assert cache.missing() == []
    return cache.open(), missing


def test_those_that_a_disk_does_not_give_back_are_told(folder: Path, tmp_path: Path) -> None:
    pictures = seen(folder)
    filled(pictures, tmp_path)
    (path,) = tmp_path.rglob("*.safetensors")
    path.unlink()
    with pytest.raises(JudgeError, match=r": features of 17 images cannot be read again\. Check the disk, and start"):
        cache_of(pictures, tmp_path).open()


def test_to_find_one_image_headers_are_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And its own row: damage to another row is seen by whoever uses that."""
    filled(seen(folder), tmp_path)
    (path,) = tmp_path.rglob("*.safetensors")
    content = path.read_bytes()
    row = len(content[8 + int.from_bytes(content[:8], "little") :]) // (IMAGES - 1)
    path.write_bytes(content[:-row] + bytes([content[-row] ^ 1]) + content[1 - row :])
    monkeypatch.setattr("judge.utils.tensors._checksum", lambda *_: pytest.fail("every byte is read"))
    pictures = seen(folder)
    first, last = (ImageCache(eyes(EYES), pictures, {image: pictures.key(image)}, tmp_path) for image in ("0", "16"))
    assert first.missing() == []
    assert first.open().rows(samples_of(0)).any()
    assert caplog.messages == []
    assert last.missing() == ["16"]
    assert f"{path} is damaged: it is computed again" in caplog.text


def samples_of(*images: object) -> list[Sample]:
    return [Sample(str(n), "human", 0, (), (0,), image=str(i) if i is not None else None) for n, i in enumerate(images)]


def own(pictures: MaskedImages, image: str) -> Tensor:
    """The backbone's features of one picture alone, in full precision."""
    backbone = eyes(EYES)
    with torch.inference_mode():
        return backbone(backbone.prepare(pictures.read(image))[None])[0]


def test_they_are_the_backbones_own_to_half_precision(folder: Path, tmp_path: Path) -> None:
    pictures = seen(folder, Hiding())
    store, _ = filled(pictures, tmp_path / "kept")
    assert store.shape == tuple(own(pictures, "0").shape)
    rows = store.rows(samples_of(17, None, 3, 3))
    assert (rows.dtype, rows.shape) == (torch.float16, (4, *store.shape))
    rows = rows.float()
    # Half precision has 11 significant bits; batches of another size may add up otherwise in the last of 24.
    for row, image in ((rows[0], "17"), (rows[2], "3"), (rows[3], "3")):
        torch.testing.assert_close(row, own(pictures, image), rtol=2**-11 + 1e-4, atol=1e-5)
    assert not rows[1].any()
    assert rows[0].any()
    # It travels to other processes without its numbers.
    sent = pickle.dumps(store)
    assert len(sent) < store.rows(samples_of(*ALL)).numel()
    assert torch.equal(pickle.loads(sent).rows(samples_of(*ALL)), store.rows(samples_of(*ALL)))


def test_nothing_is_computed_twice(folder: Path, tmp_path: Path) -> None:
    """Not in another run, not for another name of a picture, not for pictures that are added later."""
    pictures, kept = seen(folder), tmp_path / "kept"
    store, missing = filled(pictures, kept)
    assert missing == [str(image) for image in range(IMAGES - 1)]
    assert store.places["16"] == store.places["17"]
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    again, missing = filled(pictures, kept)
    assert missing == []
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before
    assert torch.equal(again.rows(samples_of(*ALL)), store.rows(samples_of(*ALL)))
    draw(folder, 4, number=99)
    assert filled(pictures, kept)[1] == ["4"]


def test_another_mask_content_backbone_or_size_is_another_row(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    stores = [filled(seen(folder, hiding), kept)[0] for hiding in (None, Hiding(), Hiding(dilation=3))]
    draw(folder, 7, number=99)
    stores.append(filled(seen(folder), kept)[0])
    rows = [store.rows(samples_of(7))[0] for store in stores]
    assert len({row.numpy().tobytes() for row in rows}) == 4
    # A file for each: no other picture was computed anew, and none was lost.
    assert len({path for store in stores for path, _ in store.places.values()}) == 4
    for materials in (replace(EYES, image_size=32), replace(EYES, backbone="test_byobnet")):
        cache = cache_of(seen(folder), kept, eyes(materials))
        assert len(cache.missing()) == IMAGES - 1


class Loud(nn.Module):
    """A backbone beyond half precision."""

    key, regions = "loud", 0

    def prepare(self, pixels: np.ndarray) -> Tensor:
        return torch.zeros(3, 4, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        return torch.full((len(pictures), 2, 3), 7e4)


def test_faults(folder: Path, tmp_path: Path) -> None:
    pictures = seen(folder)
    with pytest.raises(JudgeError, match="--backbone: its features do not fit into half precision"):
        cache_of(pictures, tmp_path / "kept", Loud()).compute(["0"], device=CPU)
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match=r"--cache: .*file: cannot be written"):
        cache_of(pictures, tmp_path / "file", Loud())
    picture = (folder / "16.png").read_bytes()
    (folder / "16.png").write_bytes(b"no picture")
    with pytest.raises(JudgeError, match=r"16\.png.*is not an image"):
        filled(seen(folder), tmp_path / "kept")
    # The batch before it is kept, and nothing half done.
    (folder / "16.png").write_bytes(picture)
    store, missing = filled(seen(folder), tmp_path / "kept")
    assert missing == ["16"]
    whole, _ = filled(seen(folder), tmp_path / "whole")
    assert torch.equal(store.rows(samples_of(*ALL)), whole.rows(samples_of(*ALL)))
    with pytest.raises(JudgeError, match="--images: there are no images for sat"):
        precompute(members("sat"), EYES, tmp_path)


class Large(Loud):
    """Memory holds ``room`` images a pass, and no more; the features are the pixels at an edge."""

    key, room = "large", 16

    def prepare(self, pixels: np.ndarray) -> Tensor:
        return torch.from_numpy(pixels[:4, :4].transpose(2, 0, 1) / 255).float()

    def forward(self, pictures: Tensor) -> Tensor:
        torch.empty((len(pictures) > self.room) << 60, dtype=torch.uint8)
        return pictures.flatten(2)[..., :3]


def test_as_many_images_at_a_time_as_memory_holds(folder: Path, tmp_path: Path) -> None:
    pictures, found, backbone = seen(folder), [], Large()
    for backbone.room in (16, 5):
        cache = cache_of(pictures, tmp_path / str(backbone.room), backbone)
        cache.compute(cache.missing(), device=CPU)
        found.append(cache.open().rows(samples_of(*ALL)))
    assert torch.equal(*found)
    backbone.room = 0
    with pytest.raises(JudgeError, match=r"--backbone: memory does not hold a single sample a forward pass\. Take a"):
        cache_of(pictures, tmp_path / "0", backbone).compute(["0"], device=CPU)


def members(*names: str) -> list[Member]:
    samples = samples_of(*ALL)
    return [Member(find_judge(name), GENDER, samples, Split((), (), {}), 0) for name in names]


def test_judges_with_one_backbone_look_once(folder: Path, tmp_path: Path) -> None:
    """Both variants of a judge, and two judges that are told of one backbone, share what is computed."""
    materials = replace(EYES, images=seen(folder))
    told: list[tuple[str, int, int]] = []
    looking = members("sat", "sat-image-only", "vl-lic-lstm", "linear")
    precomputed = precompute(looking, materials, tmp_path / "kept", progress=lambda *units: told.append(units))
    assert set(precomputed.features) == {"sat", "sat-image-only", "vl-lic-lstm"}
    assert len({features.key for features in precomputed.features.values()}) == 1
    assert told == [("computing features of images", IMAGES - 1, IMAGES - 1)]
    assert precomputed.keys == {image: materials.images.key(image) for image in map(str, range(IMAGES))}
    expected = filled(seen(folder), tmp_path / "other")[0].rows(samples_of(*ALL))
    for found in precomputed.features.values():
        torch.testing.assert_close(found.rows(samples_of(*ALL)), expected)

"""Cached pixels: batches, answers and weights are those of images that are read each time; the cache has a limit."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import captioners
import families
import numpy as np
import pytest
import torch
from captioners import ANSWERS, PROMPT, Checkpoints
from helpers import GENDER, fault_of, judge_of, network_of
from PIL import Image

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.judges import Materials, Tuning, find_judge
from judge.judges.hf_models import load_captioner
from judge.judges.hf_pixels import open_processor
from judge.masking.images import encode
from judge.masking.instances import from_mask
from judge.masking.masked_images import MaskedImages
from judge.masking.people import Hiding
from judge.training import pixels
from judge.training.features import precompute
from judge.training.member import Member, TrainingSetup
from judge.training.pixels import PixelCache, PixelStore
from judge.training.run_members import prepare_members
from judge.types import Sample
from judge.utils.hub import quiet
from judge.utils.tensors import read_notes

SIZES = (40, 56), (96, 60), (40, 56), (64, 64), (70, 130)
IMAGES = [str(number) for number in range(len(SIZES))]
WORDS = ("a", "<gender>", "rides", "the", "dog", "a")
SAMPLES = [
    *(Sample(image, "human", 0, WORDS[: 1 + n % 6], (n % 2,), image=image) for n, image in enumerate(IMAGES * 3)),
    Sample("none", "human", 0, ("dog",), (0,)),
]
PEOPLE = Hiding()
BATCHES = SAMPLES[:4], SAMPLES[3:9], SAMPLES[9:], SAMPLES[4:5]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of several sizes: noise."""
    made = tmp_path / "images"
    made.mkdir()
    for image, size in zip(IMAGES, SIZES, strict=True):
        noise = np.random.default_rng(int(image)).integers(0, 256, (*size, 3), dtype=np.uint8)
        (made / f"{image}.png").write_bytes(encode(noise))
    return made


def seen(folder: Path, hiding: Hiding | None = PEOPLE) -> MaskedImages:
    hidden = {}
    for image, size in zip(IMAGES, SIZES, strict=True):
        mask = np.zeros(size, dtype=bool)
        mask[5:20, 10:40] = True
        hidden[f"{image}.png"] = (from_mask(mask, "person"),)
    return MaskedImages(folder, {image: f"{image}.png" for image in IMAGES}, hiding, hidden)


def stored(checkpoint: Path, images: MaskedImages, kept: Path, **materials: Any) -> tuple[Materials, Materials]:
    """What a judge is given to read images, and to read cached pixels."""
    name = f"hf:{checkpoint}"
    given = Materials(images, prompt=PROMPT, **materials)
    found = precompute([Member(find_judge(name), GENDER, SAMPLES, Split((), (), {}), 0)], given, kept)
    return given, replace(given, pixels=found.pixels[name])


def flat(batch: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors and numbers of a batch, by the way to them."""
    if isinstance(batch, dict):
        for key, value in batch.items():
            yield from flat(value, f"{name}/{key}")
    elif isinstance(batch, list | tuple):
        for number, value in enumerate(batch):
            yield from flat(value, f"{name}/{number}")
    else:
        yield name, batch


def check_equal(checkpoint: Path, without: Materials, cached: Materials) -> None:
    """Batches have the same tensors, to the bit and in the same order in memory, and the judge the same answers."""
    plain, quick = (network_of(f"hf:{checkpoint}", SAMPLES, given) for given in (without, cached))
    for samples in BATCHES:
        with torch.no_grad():
            expected, found = plain.collate(samples), quick.collate(samples)
            assert torch.equal(quick(found), plain(expected))
        ours, theirs = dict(flat(found)), dict(flat(expected))
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            if isinstance(value, torch.Tensor):
                assert (ours[name].dtype, ours[name].stride()) == (value.dtype, value.stride()), name
                assert torch.equal(ours[name], value), name
            else:
                assert ours[name] == value, name


@pytest.mark.parametrize("family", captioners.FAMILIES)
def test_batches_and_answers_are_the_same(family: str, checkpoint: Checkpoints, folder: Path, tmp_path: Path) -> None:
    """Of fixed shapes (LLaVA, PaliGemma ...), of native resolution (Qwen-VL), of tiles (Llama Vision)."""
    without, cached = stored(checkpoint(family), seen(folder), tmp_path / "kept")
    assert isinstance(cached.pixels, PixelStore)
    assert cached.pixels.places.keys() == {*IMAGES}
    check_equal(checkpoint(family), without, cached)
    # No image is read again.
    network = network_of(f"hf:{checkpoint(family)}", SAMPLES, replace(cached, images=None))
    assert len(network.answers) == len(ANSWERS)
    network.collate(SAMPLES)


# Padded to the largest image or the most tiles of a batch; tiles one after another; sequences of patches.
SHAPES = ["idefics2", "idefics3", "internvl", "lfm2_vl", "lighton_ocr", "llava_next"]


@pytest.mark.parametrize("family", SHAPES)
def test_families_with_shapes_of_their_own(family: str, folder: Path, tmp_path: Path) -> None:
    with quiet():
        families.save(family, tmp_path / family)
    without, cached = stored(tmp_path / family, seen(folder), tmp_path / "kept")
    assert cached.pixels is not None
    check_equal(tmp_path / family, without, cached)


def test_a_family_that_packs_images_reads_them_each_time(folder: Path, tmp_path: Path) -> None:
    """MiniCPM's processor puts the patches of all images into one row: what it makes of one is no part of a batch."""
    with quiet():
        families.save("minicpm_ocr", tmp_path / "packs")
    judge = find_judge(f"hf:{tmp_path / 'packs'}")
    member = Member(judge, GENDER, SAMPLES, Split((), (), {}), 0)
    assert precompute([member], Materials(seen(folder)), tmp_path / "kept").pixels == {}
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("extra", "cached"), [([[1, 2]], True), ([torch.ones(1)], False)])
def test_what_a_file_cannot_give_back_is_not_cached(extra: list[Any], cached: bool, checkpoint: Checkpoints) -> None:
    """A list of numbers can be; not a list of tensors."""
    captioner = load_captioner(str(checkpoint("llava")), empty=True)
    own = captioner.images

    class Adds(type(own)):  # type: ignore[misc]
        def __call__(self, images: Any, **settings: Any) -> Any:
            made = own(images, **settings)
            made["extra"] = extra * len(made["pixel_values"])
            return made

    captioner.processor.image_processor = adds = Adds(**own.to_dict())
    assert (open_processor(replace(captioner, images=adds)) is not None) == cached


@pytest.mark.parametrize(("family", "tuning"), [("llava", "full"), ("qwen2_vl", "lora"), ("mllama", "frozen")])
def test_trained_judges_are_the_same(
    family: str, tuning: Tuning, checkpoint: Checkpoints, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, weights and answers; the images are read once, whatever the number of epochs."""
    reads: list[str] = []
    read = MaskedImages.read

    def counted(images: MaskedImages, image_id: str) -> np.ndarray:
        reads.append(image_id)
        return read(images, image_id)

    monkeypatch.setattr(MaskedImages, "read", counted)
    without, cached = stored(checkpoint(family), seen(folder), tmp_path / "kept", tuning=tuning)
    assert sorted(reads) == IMAGES
    trained, counts = [], []
    for given in (without, cached):
        reads.clear()
        how: dict[str, Any] = {"epochs": 2, "learning_rate": 1e-2, "batch_size": 6, "micro_batch": 4}
        judge = judge_of(f"hf:{checkpoint(family)}", given, **how, keep="best")
        judge.fit(SAMPLES, seed=3, validation=SAMPLES[:7])
        counts.append(len(reads))
        trained.append((judge.history, judge.predict(SAMPLES).probabilities.tobytes(), judge.module.state_dict()))
    assert counts == [2 * (15 + 7), 0]
    (history, answers, weights), (quick, quick_answers, quick_weights) = trained
    assert quick == history
    assert quick_answers == answers
    assert all(torch.equal(quick_weights[name], weight) for name, weight in weights.items())
    assert history.training[0] != history.training[1]


def cache_of(checkpoint: Path, images: MaskedImages, kept: Path, change: Callable[[Any], None] | None = None) -> Any:
    """The cache of a captioner, whose image processor is changed first."""
    captioner = load_captioner(str(checkpoint), empty=True)
    if change:
        change(captioner.images)
    processor = open_processor(captioner)
    assert processor
    return PixelCache(processor, images, {image: images.key(image) for image in IMAGES}, kept)


def test_all_that_changes_pixels_is_in_the_key(checkpoint: Checkpoints, folder: Path, tmp_path: Path) -> None:
    """The image's bytes, what is hidden and how, the processor's settings; neither weights nor the chat's template."""
    llava, kept = checkpoint("llava"), tmp_path / "kept"
    first = cache_of(llava, seen(folder), kept)
    assert first.missing() == IMAGES
    first.compute(IMAGES)
    assert cache_of(llava, seen(folder), kept).missing() == []
    assert cache_of(checkpoint("llava_without_chat"), seen(folder), kept).missing() == []
    for hiding in (None, Hiding(dilation=3), Hiding(fill="mean"), Hiding(mode="box")):
        assert cache_of(llava, seen(folder, hiding), kept).missing() == IMAGES
    for name, value in (("image_mean", [0.1, 0.2, 0.3]), ("resample", 0), ("do_center_crop", False)):
        changed = cache_of(llava, seen(folder), kept, lambda images, n=name, v=value: setattr(images, n, v))  # type: ignore[misc]
        assert changed.missing() == IMAGES, name
    # The masked image is cached.
    own = load_captioner(str(llava), empty=True).images
    masked, whole = (
        own(Image.fromarray(seen(folder, hiding).read("1")), return_tensors="pt")["pixel_values"]
        for hiding in (Hiding(), None)
    )
    found = first.open().find("1")["pixel_values"]
    assert torch.equal(found, masked)
    assert not torch.equal(found, whole)
    (folder / "3.png").write_bytes(encode(np.zeros((64, 64, 3), dtype=np.uint8)))
    assert cache_of(llava, seen(folder), kept).missing() == ["3"]


@pytest.mark.parametrize(("family", "room"), [("llava", 50_000), ("qwen2_vl", 70_000)])
def test_a_full_cache_takes_no_more(
    family: str, room: int, checkpoint: Checkpoints, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of cached images and others is the same; with more room the others are added, and no more."""
    kept, images = tmp_path / "kept", seen(folder)
    monkeypatch.setattr(pixels, "_FILE", 1)  # A file an image.
    for limit, expected in ((20_000, {"0"}), (room, {"0", "1", "2"}), (room, {"0", "1", "2"})):
        monkeypatch.setattr(pixels, "LIMIT", limit)
        without, cached = stored(checkpoint(family), images, kept)
        assert isinstance(cached.pixels, PixelStore)
        assert {*cached.pixels.places} == expected
        assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) <= limit
        check_equal(checkpoint(family), without, cached)
    monkeypatch.setattr(pixels.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
    monkeypatch.setattr(pixels, "LIMIT", 1 << 30)
    assert {*stored(checkpoint(family), images, kept)[1].pixels.places} == expected  # type: ignore[union-attr]


def test_damaged_files_are_made_again(checkpoint: Checkpoints, folder: Path, tmp_path: Path) -> None:
    kept, images = tmp_path / "kept", seen(folder)
    without, cached = stored(checkpoint("qwen2_vl"), images, kept)
    (path,) = kept.rglob("*.safetensors")
    assert read_notes(path)["keys"] == [images.key(image) for image in IMAGES]
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    without, cached = stored(checkpoint("qwen2_vl"), images, kept)
    check_equal(checkpoint("qwen2_vl"), without, cached)
    path.unlink()
    fresh = pickle.loads(pickle.dumps(cached.pixels))
    assert f"{path}: features are gone, or damaged. Give the same command again" in fault_of(fresh.find, "0")


def test_an_image_that_cannot_be_used_is_named_and_those_before_it_are_kept(
    checkpoint: Checkpoints, folder: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    (folder / "3.png").write_bytes(b"no image")
    with pytest.raises(JudgeError, match=r"3\.png.*is not an image"):
        stored(checkpoint("qwen2_vl"), seen(folder), kept)
    assert cache_of(checkpoint("qwen2_vl"), seen(folder), kept).missing() == ["3", "4"]
    (folder / "3.png").write_bytes(encode(np.zeros((2, 900, 3), dtype=np.uint8)))
    told = fault_of(stored, checkpoint("qwen2_vl"), replace(seen(folder), hiding=None), kept)
    assert told.startswith("image '3': the captioner's processor fails at it (")


def test_images_that_are_read_once_are_not_cached(checkpoint: Checkpoints, folder: Path, tmp_path: Path) -> None:
    """A judge that only answers, about one caption an image; not one that learns from them."""
    judge, given = find_judge(f"hf:{checkpoint('llava')}"), Materials(seen(folder))
    for samples, train, tuning, cached in (
        (SAMPLES[:5], (), "full", False),
        (SAMPLES[:5], ("0", "1"), "zero-shot", False),
        (SAMPLES[:5], ("0", "1"), "lora", True),
        (SAMPLES[:6], (), "full", True),
    ):
        member = Member(judge, GENDER, samples, Split(train, (), {}), 0)
        found = precompute([member], replace(given, tuning=tuning), tmp_path / "kept")  # type: ignore[arg-type]
        assert (judge.name in found.pixels) == cached


def test_judges_of_blanked_images_need_none_and_keys_of_results_stay(
    checkpoint: Checkpoints, folder: Path, tmp_path: Path
) -> None:
    """The numbers are the same, so results of runs without cached pixels are found."""
    names = [f"hf:{checkpoint('llava')}{suffix}" for suffix in ("", "-image-only", "-caption-only")]
    members = [Member(find_judge(name), GENDER, SAMPLES, Split((), (), {}), 0) for name in names]
    setup = TrainingSetup(materials=Materials(seen(folder)), features=tmp_path / "kept")
    named, made = prepare_members(members, setup)
    assert made.precomputed
    assert [*made.precomputed.pixels] == names[:2]
    without = replace(made, precomputed=replace(made.precomputed, pixels={}))
    assert [member.key for member in prepare_members(members, without)[0]] == [member.key for member in named]

"""Detectors trained from nothing: they learn, the same way every time, and write one file and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from detector_samples import agreement, check_contract, odd_pictures, run_apart
from helpers import fault_of

from judge.calibration.scenes import write_pictures
from judge.calibration.world import draw_scenes
from judge.masking.detectors import make_detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.detectors.weights import Kind, parse_safetensors
from judge.masking.images import read_picture
from judge.masking.instances import Instance, Picture, from_mask
from judge.training import detector_models
from judge.training.detector_models import DetectorRecipe, Example, Examples
from judge.training.detectors import TrainedDetector, split_pictures, train_detector

KINDS: tuple[Kind, ...] = ("yolo", "maskrcnn")
SIZE = 96
# Half a minute each on one core; scripts/bench_detectors.py trains for longer.
RECIPES = {"yolo": {"epochs": 11, "validation": 0.15}, "maskrcnn": {"epochs": 3, "validation": 0.15}}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_pictures(draw_scenes(160, seed=5), folder, seed=5, size=SIZE)
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    write_pictures(draw_scenes(10, seed=6), folder, seed=6, size=SIZE, workers=1)
    return folder


def fit(kind: Kind, folder: Path, out: Path, **options: Any) -> TrainedDetector:
    recipe = DetectorRecipe(kind, **{"categories": ["person"], "device": "cpu", "image_size": SIZE, **options})
    return train_detector(recipe, folder / "images", folder / "instances.json", out)


@pytest.fixture(scope="module")
def trained(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainedDetector]:
    out = tmp_path_factory.mktemp("trained")
    return {kind: fit(kind, drawn, out / f"{kind}.safetensors", **RECIPES[kind]) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_to_find_people(kind: Kind, trained: dict[str, TrainedDetector], drawn: Path, tmp_path: Path) -> None:
    found = trained[kind]
    untrained = fit(kind, drawn, tmp_path / "untrained.safetensors", epochs=0, validation=0.15)
    assert untrained.losses == ()
    assert (found.pictures, found.held_out, found.categories) == (136, 24, ("person",))
    assert found.overlap.iou > untrained.overlap.iou + 0.25
    assert found.overlap.recall > 0.4
    assert found.overlap.visible == pytest.approx(1 - found.overlap.recall)
    assert found.losses[-1] < 0.7 * found.losses[0]
    assert [path.name for path in found.path.parent.iterdir() if kind in path.name] == [f"{kind}.safetensors"]


def test_it_finds_what_ultralytics_finds(
    trained: dict[str, TrainedDetector], drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same network in Ultralytics' own prediction, at sizes that need padding: the same people and masks."""
    from judge.masking.detectors.isolation import import_ultralytics
    from judge.masking.detectors.yolo import load_yolo, read_model

    monkeypatch.chdir(tmp_path)
    detector = load_yolo(trained["yolo"].path, device="cpu")
    model, _ = read_model(trained["yolo"].path)
    own = import_ultralytics().YOLO("yolov8n-seg.yaml", verbose=False)
    own.model, own.overrides = model.eval(), {"task": "segment", "mode": "predict"}
    names = GroundTruth.read(drawn / "instances.json").pictures
    pictures = [read_picture(drawn / "images", name) for name in names[:24]]
    odd = [(80, 96), (96, 61), (70, 90)]
    pictures += [
        Picture(f"cut {place}", np.ascontiguousarray(picture.pixels[: odd[place % 3][0], : odd[place % 3][1]]))
        for place, picture in enumerate(pictures)
    ]
    shares = []
    for picture in pictures:
        options = {"imgsz": SIZE, "conf": 0.05, "iou": 0.7, "retina_masks": True, "device": "cpu", "verbose": False}
        [result] = own.predict(np.ascontiguousarray(picture.pixels[..., ::-1]), **options)
        found, theirs = result.boxes, []
        masks = () if result.masks is None else result.masks.data.numpy()
        for (x, y, right, bottom), score, mask in zip(found.xyxy.tolist(), found.conf.tolist(), masks, strict=True):
            counts = from_mask(mask > 0, "person").counts
            theirs.append(Instance("person", (x, y, right - x, bottom - y), counts, mask.shape, score))
        [ours] = detector.detect([picture])
        sure = [instance for instance in ours if instance.score > 0.3 and instance.area > 100]
        if sure:
            shares.append(agreement(sure, theirs))
    assert len(shares) > 20
    assert np.mean(shares) > 0.95
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_weights(kind: Kind, few: Path, tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> dict[str, torch.Tensor]:
        fit(kind, few, tmp_path / name, epochs=1, batch_size=4, image_size=64, validation=0.2, seed=seed)
        return parse_safetensors((tmp_path / name).read_bytes(), name, kind)[1]

    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one = weights("one.safetensors", 0)
    assert torch.equal(torch.rand(3), expected)  # the process's own random numbers are left alone
    two, other = weights("two.safetensors", 0), weights("other.safetensors", 1)
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_from_weights_with_other_categories(
    kind: Kind, trained: dict[str, TrainedDetector], few: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"epochs": 1, "validation": 0.0, "categories": None}
    fresh = fit(kind, few, tmp_path / "fresh.safetensors", **options)
    on = fit(kind, few, tmp_path / "on.safetensors", start=trained[kind].path, **options)
    assert on.categories == GroundTruth.read(few / "instances.json").categories
    assert on.losses[0] < fresh.losses[0]
    assert np.isnan(on.overlap.recall)  # nothing was held out
    check_contract(make_detector(kind, weights=str(on.path), device="cpu"), odd_pictures())


@pytest.mark.parametrize("kind", KINDS)
def test_real_pictures(kind: Kind, shared: Path, tmp_path: Path) -> None:
    """Crowds, empty pictures, both orientations, 80 categories."""
    mini = shared / "coco-mini"
    document = json.loads((mini / "annotations" / "instances_val2017.json").read_text(encoding="utf-8"))
    crowds = {a["image_id"] for a in document["annotations"] if a["iscrowd"]}
    document["images"] = sorted(document["images"], key=lambda image: image["id"] not in crowds)[:5]
    kept = {image["id"] for image in document["images"][:4]}  # the last has nothing in it
    document["annotations"] = [a for a in document["annotations"] if a["image_id"] in kept]
    (tmp_path / "instances.json").write_text(json.dumps(document), encoding="utf-8")
    recipe = DetectorRecipe(kind, device="cpu", epochs=1, batch_size=2, image_size=128, validation=0.2)
    found = train_detector(recipe, mini / "val2017", tmp_path / "instances.json", tmp_path / "out.safetensors")
    assert (found.pictures, found.held_out, len(found.categories)) == (4, 1, 80)
    assert np.isfinite(found.losses[0])


def test_training_leaves_no_trace(few: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"""
import torch, torchvision, cv2, numpy
from pathlib import Path
from judge.training.detectors import train_detector
from judge.training.detector_models import DetectorRecipe
def state():
    return (dict(os.environ), cv2.getNumThreads(), torch.get_num_threads(), torch.save, torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(), torch.get_rng_state().sum().item())
before = state()
few, out = Path({str(few)!r}), Path({str(out)!r})
for kind in ("yolo", "maskrcnn"):
    path = out / (kind + ".safetensors")
    recipe = DetectorRecipe(kind, device="cpu", epochs=1, image_size=64, validation=0.2)
    train_detector(recipe, few / "images", few / "instances.json", path)
print(state() == before)
"""
    done = run_apart(code, tmp_path)
    assert done.stdout == "True\n"
    assert not done.stderr.strip()
    assert sorted(path.name for path in out.iterdir()) == ["maskrcnn.safetensors", "yolo.safetensors"]


def test_examples_keep_their_shape(tmp_path: Path) -> None:
    """Boxes are the masks' own; a mirror image is one; a picture is scaled, not stretched."""
    mask = np.zeros((40, 80), dtype=bool)
    mask[10:20, 8:32] = True
    picture = Picture("a", np.zeros((40, 80, 3), dtype=np.uint8))
    tiny = from_mask(np.eye(40, 80, dtype=bool) & (np.arange(80) == 3), "dot")
    data = Examples(tmp_path, ["a"], GroundTruth.__new__(GroundTruth), ("thing", "dot"), 40)
    example = data._resized(picture, [from_mask(mask, "thing"), tiny])
    assert example.pixels.shape == (20, 40, 3)
    assert example.boxes.tolist() == [[4, 5, 16, 10]]  # the dot is less than half a pixel now
    assert example.flipped().boxes.tolist() == [[24, 5, 36, 10]]
    assert detector_models._coarse(np.ones((8, 12), dtype=bool), 4).sum() == 6
    assert Example(example.pixels, example.masks[:0], example.labels[:0]).boxes.shape == (0, 4)


def test_split_is_of_all_pictures(few: Path) -> None:
    truth = GroundTruth.read(few / "instances.json")
    train, held = split_pictures(truth, 0.3, seed=1)
    assert sorted([*train, *held]) == sorted(truth.pictures)
    assert len(held) == 3
    assert split_pictures(truth, 0.3, seed=2)[1] != held
    assert len(split_pictures(truth, 0.99, seed=1)[0]) == 1


def test_faults(
    few: Path, tmp_path: Path, trained: dict[str, TrainedDetector], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"epochs": 1, "image_size": 64}
    out = tmp_path / "out.safetensors"
    (tmp_path / "x.onnx").write_bytes(b"")
    torch.save({}, tmp_path / "x.pt")
    for kind, options, fault in (
        ("yolo", {"categories": ["persn"]}, "no category 'persn'"),
        ("detr", {}, "unknown kind of detector 'detr'"),
        ("yolo", {"start": tmp_path / "x.onnx"}, "an ONNX file cannot be trained further"),
        ("yolo", {"start": tmp_path / "x.pt"}, "is a pickle"),
        ("yolo", {"start": trained["maskrcnn"].path}, "holds a Mask R-CNN"),
        ("maskrcnn", {"start": trained["yolo"].path}, "holds a YOLO model"),
        ("maskrcnn", {"device": "cuda:99"}, "cannot be used here"),
    ):
        assert fault in fault_of(fit, kind, few, out, **quick, **options)
    assert "ends in .safetensors" in fault_of(fit, "yolo", few, tmp_path / "out.pt", **quick)
    (tmp_path / "file").write_bytes(b"")
    assert "cannot be written" in fault_of(fit, "yolo", few, tmp_path / "file" / "out.safetensors", epochs=0)
    taken = tmp_path / "folder.safetensors"
    taken.mkdir()
    assert "folder.safetensors: is a folder. Name a file." in fault_of(fit, "yolo", few, taken, **quick)
    monkeypatch.setattr(detector_models.MaskRcnnModel, "loss", lambda *_: torch.full((), torch.nan, requires_grad=True))
    line = fault_of(fit, "maskrcnn", few, out, **quick)
    assert re.search(r"loss is nan in epoch 1.*[Ll]ower --learning-rate", line)
    assert not out.exists()


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"epochs": -1}, "epochs is -1"),
        ({"batch_size": 0}, "batch size is 0"),
        ({"learning_rate": 1.0}, "learning rate is 1.0"),
        ({"learning_rate": 0.0}, "learning rate is 0.0"),
        ({"image_size": 100}, "multiple of 32"),
        ({"validation": 1.0}, "validation share is 1.0"),
    ],
)
def test_recipes_at_fault(settings: dict[str, Any], fault: str) -> None:
    assert fault in fault_of(DetectorRecipe, "yolo", **settings)

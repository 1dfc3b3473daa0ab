"""Mask R-CNN: results against torchvision's own, files good and bad."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError

import detector_samples as samples
import pytest
import torch

from judge.errors import JudgeError
from judge.masking.detectors import maskrcnn
from judge.masking.detectors.maskrcnn import SMALL, MaskRcnn, build, load_maskrcnn
from judge.masking.detectors.weights import Header, write_detector

CLASSES = ("person", "dog")
TINY = {**SMALL, "channels": 16, "hidden": 32, "mask_layers": [16], "proposals": 40}


def tiny(seed: int = 0) -> Any:
    """An untrained network, small heads on its ResNet-18."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build(TINY, len(CLASSES), "test")
        boxes, masks = network.roi_heads.box_predictor, network.roi_heads.mask_predictor
        for layer, spread in ((boxes.cls_score, 0.5), (boxes.bbox_pred, 0.3), (masks.mask_fcn_logits, 3)):
            torch.nn.init.normal_(layer.weight, std=spread)
    return network.eval()


def save(network: Any, path: Path) -> Path:
    write_detector(path, Header("maskrcnn", TINY, CLASSES, 96), network.state_dict())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("maskrcnn")


@pytest.fixture(scope="module")
def weights(folder: Path) -> Path:
    return save(tiny(), folder / "tiny.safetensors")


@pytest.fixture(scope="module")
def detector(weights: Path) -> MaskRcnn:
    return load_maskrcnn(weights, device="cpu")


def test_contract(detector: MaskRcnn) -> None:
    found = samples.check_contract(detector)
    assert sum(map(len, found)) > 10
    assert {instance.label for instances in found for instance in instances} == set(CLASSES)
    samples.check_independence(detector)


def test_real_pictures(detector: MaskRcnn, shared: Path) -> None:
    samples.check_contract(detector, samples.real_pictures(shared))


def test_it_finds_what_torchvision_finds(detector: MaskRcnn) -> None:
    """The network's own forward pass pastes masks at the picture's size: boxes, scores and masks are the same."""
    for picture in samples.odd_pictures([(137, 401), (96, 96), (300, 150)]):
        pixels = torch.from_numpy(picture.pixels).permute(2, 0, 1).float() / 255
        with torch.no_grad():
            [own] = detector.network([pixels])
        masks = (own["masks"][:, 0] >= 0.5).numpy()
        kept = masks.any(axis=(1, 2))
        [found] = detector.detect([picture])
        assert len(found) == kept.sum()
        assert [instance.score for instance in found] == pytest.approx(own["scores"][kept].tolist(), abs=1e-5)
        assert [instance.label for instance in found] == [CLASSES[k - 1] for k in own["labels"][kept].tolist()]
        for instance, box, mask in zip(found, own["boxes"][kept].numpy(), masks[kept], strict=True):
            x, y, w, h = instance.box
            assert [x, y, x + w, y + h] == pytest.approx(box.tolist(), abs=1e-3)
            assert samples.overlap(instance.mask, mask) > 0.99


def test_the_key_tells_weights_and_options_apart(folder: Path, weights: Path) -> None:
    other = save(tiny(seed=1), folder / "other.safetensors")
    samples.check_keys(load_maskrcnn, weights, other, [{"iou": 0.7}, {"mask_threshold": 0.4}, {"image_size": 128}])


@pytest.fixture(scope="module")
def first(folder: Path) -> Path:
    """A state dict as torchvision's v1 has it, with random weights."""
    network = build({"variant": "v1"}, 90, "test")
    torch.save(network.state_dict(), folder / "v1.pth")
    return folder / "v1.pth"


def test_a_state_dict_of_v1(first: Path, folder: Path, shared: Path) -> None:
    loaded = load_maskrcnn(first, device="cpu", image_size=160)
    assert (len(loaded.categories), loaded.categories[0], loaded.categories[-1]) == (90, "person", "toothbrush")
    assert loaded.network.backbone.body.bn1.eps == 0
    samples.check_contract(loaded, samples.real_pictures(shared, 1))
    from safetensors.torch import save_file

    state = torch.load(first, weights_only=True)
    # torchvision's own file lacks the counters, and its training script keeps more than the weights.
    bare = {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    save_file(bare, folder / "v1.safetensors")
    torch.save({"model": bare, "epoch": 3}, folder / "script.pth")
    for name in ("v1.safetensors", "script.pth"):
        again = load_maskrcnn(folder / name, device="cpu", image_size=160).network.state_dict()
        assert all(torch.equal(again[key], tensor) for key, tensor in bare.items())
    assert load_maskrcnn(first, device="cpu").network.transform.min_size == (800,)


def test_v1_and_v2_are_told_apart_by_their_names(folder: Path) -> None:
    with torch.device("meta"):
        states = {variant: build({"variant": variant}, 90, "test").state_dict() for variant in ("v1", "v2")}
    for variant, state in states.items():
        header = maskrcnn._header_of(state, "test")
        assert header.architecture == {"variant": variant}
        assert header.categories[:2] == ("person", "bicycle")


def test_torchvisions_own_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetched with the hash checked and unpickling restricted; without a network, one line."""
    import torchvision.models._api as api

    seen: dict[str, Any] = {}

    def fetch(url: str, **options: Any) -> Mapping[str, torch.Tensor]:
        seen.update(options, url=url)
        return build({"variant": "v1"}, 90, "test").state_dict()

    def fail(url: str, **options: Any) -> None:
        raise URLError("no network")

    monkeypatch.setattr(api, "load_state_dict_from_url", fetch)
    loaded = load_maskrcnn("maskrcnn_resnet50_fpn", device="cpu")
    assert loaded.categories[0] == "person"
    assert seen["check_hash"] is seen["weights_only"] is True
    monkeypatch.setattr(api, "load_state_dict_from_url", fail)
    unfetched = r"maskrcnn_resnet50_fpn_v2: cannot be fetched \(URLError\).*download https://"
    with pytest.raises(JudgeError, match=unfetched):
        load_maskrcnn("maskrcnn_resnet50_fpn_v2", device="cpu")
    with pytest.raises(JudgeError, match=r"no such model. Did you mean 'maskrcnn_resnet50_fpn'"):
        load_maskrcnn("maskrcnn_resnet50_fnp", device="cpu")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    torch.save({"model": samples.Bomb(tmp_path / "mark")}, tmp_path / "bomb.pth")
    torch.save(tiny(), tmp_path / "module.pth")
    for name in ("bomb.pth", "module.pth"):
        with pytest.raises(JudgeError, match="holds more than weights"):
            load_maskrcnn(tmp_path / name, device="cpu")
    assert not (tmp_path / "mark").exists()


def test_files_at_fault(tmp_path: Path, weights: Path, first: Path) -> None:
    data = weights.read_bytes()
    seven = {"roi_heads.box_head.fc6.weight": torch.zeros(1), "roi_heads.box_predictor.cls_score.bias": torch.zeros(7)}
    for name, content in (("seven", seven), ("other", {"a": torch.zeros(1)}), ("list", [1, 2])):
        torch.save(content, tmp_path / f"{name}.pth")
    state = torch.load(first, weights_only=True)
    torch.save({name: tensor for name, tensor in state.items() if "fpn" not in name}, tmp_path / "part.pth")
    (tmp_path / "cut.pth").write_bytes(first.read_bytes()[:10_000])
    (tmp_path / "cut.safetensors").write_bytes(data[:1000])
    (tmp_path / "weights.bin").write_bytes(data)
    write_detector(tmp_path / "yolo.safetensors", Header("yolo", {}, ("person",), 96), {"a": torch.zeros(1)})
    for variant in ("v9", "small"):
        write_detector(tmp_path / f"{variant}.safetensors", Header("maskrcnn", {"variant": variant}, ("a",), 96), {})
    for name, fault in {
        "seven.pth": "tells 7 classes apart, whose names nobody knows",
        "other.pth": "does not fit a Mask R-CNN of torchvision's",
        "list.pth": "holds no state dict",
        "part.pth": "does not fit the network: lacks",
        "cut.pth": "no whole file of weights|is damaged",
        "cut.safetensors": "no whole safetensors file",
        "weights.bin": "is no file of weights",
        "yolo.safetensors": "Take --detector yolo",
        "v9.safetensors": "unknown variant 'v9'",
        "small.safetensors": "cannot be built",
        "absent.pth": "no such file of weights",
    }.items():
        with pytest.raises(JudgeError, match=fault) as caught:
            load_maskrcnn(tmp_path / name, device="cpu")
        assert name in str(caught.value)


def test_it_leaves_no_trace(tmp_path: Path, weights: Path) -> None:
    code = f"""
import numpy
from judge.masking.detectors import make_detector
from judge.masking.instances import Picture
detector = make_detector("maskrcnn", weights={str(weights)!r}, device="cpu")
print(len(detector.detect([Picture("a", numpy.zeros((50, 90, 3), numpy.uint8))])), "ultralytics" in sys.modules)
"""
    assert samples.run_apart(code, tmp_path).stdout == "1 False\n"

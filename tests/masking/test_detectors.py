"""YOLO and Mask R-CNN: what their libraries find, files good and bad, and an import that reports nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError

import detector_samples as samples
import numpy as np
import pytest
import torch
import yaml
from helpers import refusal

from judge.commands.ablate import AblateDetectorsConfig
from judge.commands.images import open_detector
from judge.commands.mask import MaskConfig
from judge.config import make_config
from judge.errors import JudgeError
from judge.masking.cache import make_detector
from judge.masking.detectors.maskrcnn import MaskRcnn, load_maskrcnn
from judge.masking.detectors.yolo import Yolo, load_yolo

NOISE = samples.noise_images()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.tiny_yolo(tmp_path_factory.mktemp("detectors"))


@pytest.fixture(scope="module")
def exported(weights: Path) -> Path:
    """For images of 96 x 96 alone, one at a time."""
    return samples.tiny_onnx(weights)


@pytest.fixture(scope="module")
def yolo(weights: Path) -> Yolo:
    return load_yolo(weights, trust=weights.parent, device="cpu")


@pytest.fixture(scope="module")
def maskrcnn() -> MaskRcnn:
    return samples.tiny_maskrcnn()


def test_contract(yolo: Yolo, maskrcnn: MaskRcnn, exported: Path, tmp_path: Path) -> None:
    boxes_alone = load_yolo(samples.tiny_yolo(tmp_path, task="detect"), trust=tmp_path, device="cpu")
    image = NOISE[0]
    for detector in (yolo, maskrcnn, load_yolo(exported, device="cpu"), boxes_alone):
        found = detector.detect(image)
        assert len(found) > 5
        for instance in found:
            assert instance.label in samples.CLASSES
            assert instance.mask.shape == instance.size == image.size
            assert instance.area > 0
            assert 0.05 <= instance.score <= 1
            x, y, w, h = instance.box
            assert min(x, y, w, h, image.size[1] + 1e-3 - x - w, image.size[0] + 1e-3 - y - h) >= 0


def test_yolo_finds_what_ultralytics_finds(yolo: Yolo, weights: Path) -> None:
    from ultralytics import YOLO

    model: Any = YOLO(weights)
    for image in NOISE:
        [own] = model.predict(image.pixels[..., ::-1], conf=0.05, retina_masks=True, verbose=False, device="cpu")
        found = yolo.detect(image)
        masks = own.masks.data.numpy().astype(bool)
        kept = masks.any(axis=(1, 2))
        assert [instance.score for instance in found] == own.boxes.conf[kept].tolist()
        assert [instance.label for instance in found] == [samples.CLASSES[int(k)] for k in own.boxes.cls[kept]]
        for instance, mask in zip(found, masks[kept], strict=True):
            np.testing.assert_array_equal(instance.mask, mask)


def test_maskrcnn_finds_what_torchvision_finds(maskrcnn: MaskRcnn) -> None:
    image = NOISE[1]
    with torch.no_grad():
        [own] = maskrcnn.network([torch.from_numpy(image.pixels).permute(2, 0, 1).float() / 255])
    masks = (own["masks"][:, 0] >= 0.5).numpy()
    kept = masks.any(axis=(1, 2))
    found = maskrcnn.detect(image)
    assert [instance.score for instance in found] == pytest.approx(own["scores"][kept].tolist(), abs=1e-5)
    assert [instance.label for instance in found] == [samples.CLASSES[k - 1] for k in own["labels"][kept].tolist()]
    for instance, mask in zip(found, masks[kept], strict=True):
        assert samples.overlap(instance.mask, mask) > 0.99


def test_onnx_finds_what_the_model_finds(yolo: Yolo, exported: Path) -> None:
    """Untrained scores are close to each other, so a few boxes may be suppressed by others."""
    others = [(of.label, of.mask) for of in load_yolo(exported, device="cpu").detect(NOISE[0])]
    found = [(of.label, of.mask) for of in yolo.detect(NOISE[0])]
    alike = [any(a == b and samples.overlap(x, y) > 0.9 for b, y in others) for a, x in found]
    assert np.mean(alike) > 0.9


@pytest.mark.parametrize(("notes", "fault"), [
    ({"names": "__import__('pathlib').Path('{mark}').touch() or {0: 'person'}"}, "does not run as a model"),
    ({"imgsz": "[90000, 90000]"}, "metadata cannot be read"),
    ({"task": "pose"}, "made for the task 'pose'"),
])  # fmt: skip
def test_onnx_metadata_are_never_run(tmp_path: Path, exported: Path, notes: dict[str, str], fault: str) -> None:
    import onnx

    graph = onnx.load(exported)
    for entry in graph.metadata_props:
        entry.value = notes.get(entry.key, entry.value).replace("{mark}", str(tmp_path / "mark"))
    onnx.save(graph, tmp_path / "bad.onnx")
    with pytest.raises(JudgeError, match=fault):
        load_yolo(tmp_path / "bad.onnx", device="cpu")
    assert not (tmp_path / "mark").exists()


def test_a_pickle_needs_trust(tmp_path: Path, weights: Path) -> None:
    trusted, elsewhere = tmp_path / "trusted", tmp_path / "elsewhere"
    trusted.mkdir()
    elsewhere.mkdir()
    (trusted / "tiny.pt").write_bytes(weights.read_bytes())
    # A link into the folder does not move the file there, and ".." leads out of it.
    (elsewhere / "link.pt").symlink_to(trusted / "tiny.pt")
    pickle = r"is a pickle.*ONNX.*--trust-weights"
    torch.save({"model": samples.Bomb(tmp_path / "mark")}, trusted / "bomb.pt")
    (tmp_path / "noise.onnx").write_bytes(b"no onnx")
    (tmp_path / "weights.bin").write_bytes(b"")
    (tmp_path / "cut.pt").write_bytes(weights.read_bytes()[:5000])
    for trust, path, fault in [
        (None, trusted / "tiny.pt", pickle),
        (elsewhere, trusted / "tiny.pt", pickle),
        (elsewhere, elsewhere / "link.pt", pickle),
        (elsewhere, elsewhere / ".." / "trusted" / "tiny.pt", pickle),
        # Even a trusted one runs nothing.
        (trusted, trusted / "bomb.pt", "does not run as a model of Ultralytics"),
        (tmp_path, tmp_path / "cut.pt", "does not run as a model of Ultralytics"),
        (tmp_path / "absent", weights, "is no folder"),
        (None, "yolo11n-seg", "--trust-weights FOLDER"),
        (None, tmp_path / "noise.onnx", "cannot be read as ONNX"),
        (None, tmp_path / "absent.onnx", "no such file"),
        (tmp_path, tmp_path / "weights.bin", "is no file of YOLO weights"),
    ]:
        with pytest.raises(JudgeError, match=fault):
            load_yolo(path, trust=trust, device="cpu")
    assert not (tmp_path / "mark").exists()
    with pytest.raises(JudgeError, match="--device toaster: cannot be used here"):
        load_yolo(weights, trust=weights.parent, device="toaster")
    with pytest.raises(JudgeError, match=r"unknown detector 'yollo'. Did you mean 'yolo'\?"):
        make_detector("yollo")


@pytest.mark.slow
def test_ultralytics_and_onnxruntime_report_nothing(tmp_path: Path, weights: Path, exported: Path) -> None:
    """In a fresh process whose home and working directory is empty, and which may not connect."""
    code = f"""
import socket, sys
def refuse(*arguments, **options):
    print("connected")
    raise OSError("no network in this test")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
import numpy
from pathlib import Path
from judge.masking.cache import make_detector
from judge.masking.instances import LoadedImage
for weights in ({str(weights)!r}, {str(exported)!r}):
    detector = make_detector("yolo", weights=weights, trust=Path({str(weights.parent)!r}), device="cpu")
    detector.detect(LoadedImage("a", numpy.zeros((50, 90, 3), numpy.uint8)))
import ultralytics
print(ultralytics.settings["sync"])
"""
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert not [*tmp_path.rglob("*")]


def test_classes_are_named_by_a_file(weights: Path, yolo: Yolo, tmp_path: Path) -> None:
    """All that name people are people, or those that the user names."""
    (tmp_path / "names.txt").write_text("kite\npedestrian\nman\n")
    given = {"images": tmp_path, "out": tmp_path / "out", "cache": tmp_path / "cache", "detector": "yolo"}
    given |= {"weights": {"yolo": str(weights)}, "class_names": tmp_path / "names.txt", "device": "cpu"}
    given |= {"trust_weights": weights.parent}
    raw = yolo.detect(NOISE[0])
    for people, other in (([], "person"), (["pedestrian"], "man")):
        config = make_config(given | {"person_categories": people}, MaskConfig)
        named: Any = open_detector("yolo", config, ("person",))
        assert set(named.categories) == {"kite", "person", other}
        new = {"person": "kite", "dog": "person", "kite": other}
        assert [one.label for one in named.detect(NOISE[0])] == [new[one.label] for one in raw]
        note = "'man' of detector 'yolo' names people too, and stays visible: hide it with --person-category 'man'."
        assert list(named.doubts) == ([note] if people else [])
    (tmp_path / "names.txt").write_text("man\n")
    with pytest.raises(JudgeError, match=r"--class-names .*names.txt: does not name the 3 classes of detector 'yolo'"):
        open_detector("yolo", config, ("person",))


def test_each_detector_may_have_names_of_its_own(tmp_path: Path) -> None:
    """As COCO's 80 classes of a YOLO, and 91 of a Mask R-CNN; a path alone names those of all others."""
    given = {"images": tmp_path, "instances": tmp_path / "none.json", "detectors": "yolo,hf:a/b"}
    given |= {"weights": "x.onnx", "cache": tmp_path / "cache", "out": tmp_path / "out"}
    names = ["yolo=yolo.txt", "hf:a/b=model.txt", "all.txt"]
    config = make_config(given | {"class_names": names}, AblateDetectorsConfig)
    assert make_config(yaml.safe_load(config.to_yaml()), AblateDetectorsConfig) == config
    found = [str(config.names_of(name)) for name in ("yolo", "hf:a/b", "gt")]
    assert found == ["yolo.txt", "model.txt", "all.txt"]
    options = ["--images", tmp_path, "--instances", tmp_path / "none.json", "--detectors", "yolo,hf:a/b"]
    again = ["--class-names", "yollo=yolo.txt"]
    assert "unknown detector 'yollo'; did you mean 'yolo'?" in refusal("ablate", "detectors", *options, *again)
    again = ["--class-names", names[0], "--class-names", names[0]]
    assert "two files for one detector" in refusal("ablate", "detectors", *options, *again)


@pytest.mark.slow
def test_state_dicts_of_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With COCO's classes or others; from files, or downloaded with the hash checked and unpickling restricted."""
    import torchvision.models._api as api
    from safetensors.torch import save_file
    from torchvision.models import get_model

    new: Any = get_model("maskrcnn_resnet50_fpn", weights=None, weights_backbone=None, num_classes=91)
    # torchvision's own file lacks the counters, and its training script saves more than the weights.
    state = {name: tensor for name, tensor in new.state_dict().items() if not name.endswith("num_batches_tracked")}
    save_file(state, tmp_path / "v1.safetensors")
    torch.save({"model": state, "epoch": 3}, tmp_path / "script.pth")
    for name in ("v1.safetensors", "script.pth"):
        loaded = load_maskrcnn(str(tmp_path / name), device="cpu")
        assert (len(loaded.categories), loaded.categories[0], loaded.categories[-1]) == (90, "person", "toothbrush")
        assert loaded.network.backbone.body.bn1.eps == 0
        assert all(torch.equal(loaded.network.state_dict()[key], tensor) for key, tensor in state.items())
    torch.save({name: tensor for name, tensor in state.items() if "fpn" not in name}, tmp_path / "part.pth")
    with pytest.raises(JudgeError, match=r"part.pth: does not fit maskrcnn_resnet50_fpn \("):
        load_maskrcnn(str(tmp_path / "part.pth"), device="cpu")
    seen: dict[str, Any] = {}

    def fetch(url: str, **options: Any) -> Mapping[str, torch.Tensor]:
        seen.update(options)
        return state

    monkeypatch.setattr(api, "load_state_dict_from_url", fetch)
    assert load_maskrcnn("maskrcnn_resnet50_fpn", device="cpu").categories[0] == "person"
    assert seen["check_hash"] is seen["weights_only"] is True


@pytest.mark.slow
def test_maskrcnn_runs_at_the_size_of_its_file(tmp_path: Path) -> None:
    """Of two classes, it keeps what torch adds to the variance; torchvision's own 91 have nothing added."""
    from safetensors.torch import save_file
    from torchvision.models import get_model

    new: Any = get_model("maskrcnn_resnet50_fpn", weights=None, weights_backbone=None, num_classes=2)
    save_file(new.state_dict(), tmp_path / "plain.safetensors")
    save_file(new.state_dict(), tmp_path / "small.safetensors", {"min_size": "64", "max_size": "96", "by": "me"})
    plain, small = (load_maskrcnn(str(tmp_path / f"{name}.safetensors"), device="cpu") for name in ("plain", "small"))
    assert small.network.backbone.body.bn1.eps == new.backbone.body.bn1.eps > 0
    for loaded, sizes in ((plain, (800, 1333)), (small, (64, 96))):
        assert (loaded.network.transform.min_size, loaded.network.transform.max_size) == ((sizes[0],), sizes[1])
    assert plain.key != small.key
    save_file({"a": torch.zeros(1)}, tmp_path / "wrong.safetensors", {"min_size": "-64"})
    with pytest.raises(JudgeError, match=r"wrong.safetensors: min_size '-64' in its metadata is no size\. Save"):
        load_maskrcnn(str(tmp_path / "wrong.safetensors"), device="cpu")


def test_maskrcnn_files_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision.models._api as api

    torch.save({"model": samples.Bomb(tmp_path / "mark")}, tmp_path / "bomb.pth")
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pth")
    (tmp_path / "cut.pth").write_bytes((tmp_path / "other.pth").read_bytes()[:300])
    (tmp_path / "cut.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "results.json").write_text("[]")

    def fail(url: str, **options: Any) -> None:
        raise URLError("no network")

    monkeypatch.setattr(api, "load_state_dict_from_url", fail)
    for weights, fault in {
        tmp_path / "bomb.pth": r"weights cannot be read \(UnpicklingError\). Give a whole state_dict",
        tmp_path / "other.pth": "holds no Mask R-CNN of torchvision",
        tmp_path / "cut.pth": "weights cannot be read",
        tmp_path / "cut.safetensors": "weights cannot be read",
        tmp_path / "absent.pth": "no such file",
        tmp_path / "results.json": r"is no file of weights\. Give a whole state_dict\(\); or, if a tool found this",
        "maskrcnn_resnet50_fpn_v2": r"_fpn_v2: weights cannot be read \(URLError\). Download https://",
        "maskrcnn_resnet50_fnp": r"no such model. Did you mean 'maskrcnn_resnet50_fpn'",
    }.items():
        with pytest.raises(JudgeError, match=fault):
            load_maskrcnn(str(weights), device="cpu")
    assert not (tmp_path / "mark").exists()
    given = ["--images", tmp_path / "images", "--detector", "maskrcnn", "--out", tmp_path / "out"]
    mend = "Give torchvision's maskrcnn_resnet50_fpn_v2, or the file of a state dict"
    assert f"detector 'maskrcnn' needs weights. {mend}" in refusal("mask", *given)

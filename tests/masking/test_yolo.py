"""YOLO: geometry against Ultralytics' own, files good and bad, and an import that leaves no trace."""

from __future__ import annotations

import json
import warnings
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import detector_samples as samples
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.commands.images import open_detector
from judge.commands.mask import MaskConfig
from judge.config import make_config
from judge.errors import JudgeError
from judge.masking.detectors import yolo_networks
from judge.masking.detectors.isolation import import_ultralytics
from judge.masking.detectors.weights import Header, write_detector
from judge.masking.detectors.yolo import Yolo, _Fit, load_yolo
from judge.masking.detectors.yolo_networks import Network
from judge.masking.instances import Picture

CLASSES = ("person", "dog", "kite")
SCALE = (0.33, 0.0625, 1024)


def tiny(name: str = "yolov8n-seg", seed: int = 0) -> Any:
    """An untrained model whose scores are not all next to nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = yolo_networks.build(yolo_networks.packaged(name, SCALE), CLASSES, "test")
        for scores in model.model[-1].cv3:
            torch.nn.init.normal_(scores[-1].weight, std=3)
            torch.nn.init.constant_(scores[-1].bias, -2)
        for coefficients in getattr(model.model[-1], "cv4", ()):
            torch.nn.init.normal_(coefficients[-1].bias, std=3)
        model.train()(torch.rand(8, 3, 96, 96))
    return model.eval()


def save(model: Any, path: Path, size: int = 96) -> Path:
    write_detector(path, yolo_networks.header_of(model, size), model.state_dict())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yolo")


@pytest.fixture(scope="module")
def weights(folder: Path) -> Path:
    return save(tiny(), folder / "tiny.safetensors")


@pytest.fixture(scope="module")
def detector(weights: Path) -> Yolo:
    return load_yolo(weights, device="cpu", batch=4)


def export(model: Any, path: Path, *, size: int | None) -> Path:
    """What ``yolo export format=onnx`` writes, without the packages that it would install."""
    import onnx

    model = deepcopy(model).fuse(verbose=False)
    head = model.model[-1]
    head.export, head.format, head.dynamic = True, "onnx", size is None
    outputs = ["output0", "output1"] if hasattr(head, "nm") else ["output0"]
    free = {"images": {0: "batch", 2: "height", 3: "width"}, **{name: {0: "batch"} for name in outputs}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's older exporter, which Ultralytics uses as well, warns of its age
        torch.onnx.export(
            model, (torch.zeros(1, 3, size or 96, size or 96),), str(path), dynamo=False, input_names=["images"],
            output_names=outputs, dynamic_axes=None if size else free, opset_version=17,
        )  # fmt: skip
    graph = onnx.load(path)
    written = {"task": "segment" if hasattr(head, "nm") else "detect", "names": str(dict(enumerate(CLASSES)))}
    written |= {"imgsz": str([size or 96] * 2), "args": str({"nms": False, "dynamic": size is None}), "stride": "32"}
    for key, value in written.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(graph, path)
    return path


@pytest.fixture(scope="module")
def fixed(folder: Path) -> Path:
    """An ONNX file for pictures of 96 x 96 alone."""
    return export(tiny(), folder / "fixed.onnx", size=96)


# Geometry


@given(st.integers(1, 700), st.integers(1, 700), st.sampled_from([64, 96, 160, 640]))
@settings(max_examples=60, deadline=None)
def test_pictures_are_fitted_as_ultralytics_fits_them(height: int, width: int, size: int) -> None:
    import_ultralytics()
    from ultralytics.data.augment import LetterBox

    pixels = samples.odd_pictures([(height, width)])[0].pixels
    expected = LetterBox((size, size), auto=True, stride=32)(image=pixels)
    assert np.array_equal(_Fit.of((height, width), size, 32).place(pixels), expected)
    square = LetterBox((size, size), auto=False)(image=pixels)
    assert np.array_equal(_Fit.of((height, width), (size, size), 32).place(pixels), square)


def seeing(size: int = 320) -> Network:
    """A network that sees what is white: a perfect box, a prototype that is the picture at a quarter of its size."""

    def run(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        light = pixels[:, 0]
        rows = torch.zeros(len(pixels), 4 + 1 + 1, 2)
        for place, white in enumerate(light > 0.7):
            ys, xs = torch.nonzero(white, as_tuple=True)
            ends = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
            x, y, right, bottom = (float(end) for end in ends)
            rows[place, :, 0] = torch.tensor([(x + right) / 2, (y + bottom) / 2, right - x, bottom - y, 0.9, 1.0])
        return rows, (torch.nn.functional.avg_pool2d(light[:, None], 4) - 0.7) * 20

    return Network(run, ("person",), size, 32, coefficients=1, suppressed=False, version="test")


@pytest.mark.parametrize("size", [(320, 320), (480, 640), (137, 401), (500, 90), (64, 64), (900, 1300)])
def test_boxes_and_masks_come_back_to_the_picture(size: tuple[int, int]) -> None:
    height, width = size
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    rows, columns = np.mgrid[:height, :width]
    true = ((rows - 0.6 * height) / (0.3 * height)) ** 2 + ((columns - 0.3 * width) / (0.2 * width)) ** 2 < 1
    pixels[true] = 255
    [[found]] = Yolo(seeing(), "test").detect([Picture("white", pixels)])
    x, y, w, h = found.box
    slack = max(1.0, 1.5 * max(size) / 320)
    ys, xs = np.nonzero(true)
    assert np.abs(np.array([x, y, x + w, y + h]) - [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]).max() <= slack
    assert samples.overlap(found.mask, true) > (0.9 if min(size) > 100 else 0.85)
    # Not shifted: the centres agree to a fraction of a pixel of what the network saw.
    assert np.abs(np.array([ys.mean(), xs.mean()]) - [axis.mean() for axis in np.nonzero(found.mask)]).max() < slack / 2
    assert (found.label, found.crowd) == ("person", False)


def test_the_prototypes_never_reach_out_of_the_box() -> None:
    network = replace(seeing(), run=lambda pixels: (seeing().run(pixels)[0], torch.ones(len(pixels), 1, 80, 80)))
    pixels = np.zeros((320, 320, 3), dtype=np.uint8)
    pixels[40:100, 60:90] = 255
    [[found]] = Yolo(network, "test").detect([Picture("white", pixels)])
    assert found.area == 60 * 30
    assert found.mask[40:100, 60:90].all()


# Contract


def test_contract(detector: Yolo) -> None:
    found = samples.check_contract(detector)
    assert sum(map(len, found)) > 10
    assert {instance.label for instances in found for instance in instances} <= set(CLASSES)
    samples.check_independence(detector)


def test_real_pictures(detector: Yolo, shared: Path) -> None:
    samples.check_contract(detector, samples.real_pictures(shared))


def test_boxes_only_serve_as_masks(folder: Path) -> None:
    boxes = load_yolo(save(tiny("yolov8n"), folder / "boxes.safetensors"), device="cpu")
    found = samples.check_contract(boxes, samples.odd_pictures())
    instance = max((i for instances in found for i in instances), key=lambda instance: instance.area)
    x, y, w, h = instance.box
    assert instance.mask[int(y) : int(np.ceil(y + h)), int(x) : int(np.ceil(x + w))].all()


@pytest.mark.parametrize("name", ["yolo11n-seg", "yolo26n-seg", "yolov10n"])
def test_other_generations(folder: Path, name: str) -> None:
    samples.check_contract(load_yolo(save(tiny(name), folder / f"{name}.safetensors"), device="cpu"))


def test_the_key_tells_weights_and_options_apart(folder: Path, weights: Path) -> None:
    other = save(tiny(seed=1), folder / "other.safetensors")
    samples.check_keys(load_yolo, weights, other, [{"iou": 0.5}, {"mask_threshold": 0.4}, {"image_size": 128}])


# ONNX


@pytest.mark.parametrize("size", [96, None])
def test_onnx_finds_what_the_model_finds(folder: Path, fixed: Path, detector: Yolo, size: int | None) -> None:
    path = fixed if size else export(tiny(), folder / "free.onnx", size=None)
    exported = load_yolo(path, device="cpu", batch=3)
    pictures = samples.odd_pictures([(96, 96)] * 4 if size else [(96, 96), (60, 200), (96, 96)])
    for one, two in zip(detector.detect(pictures), exported.detect(pictures), strict=True):
        assert samples.agreement(one, two) > 0.9
    samples.check_contract(exported)
    assert exported.key != detector.key


def test_onnx_boxes(folder: Path) -> None:
    samples.check_contract(load_yolo(export(tiny("yolov8n"), folder / "boxes.onnx", size=96), device="cpu"))


@pytest.mark.parametrize(
    ("notes", "fault"),
    [
        ({"names": "__import__('pathlib').Path('{mark}').touch() or {0: 'person'}"}, "metadata cannot be read"),
        ({"args": "[" * 5000 + "]" * 5000}, "metadata cannot be read"),
        ({"names": "{1: 'person'}"}, "not numbered from 0"),
        ({"task": "pose"}, "made for the task 'pose'"),
        ({"task": ""}, "no metadata of Ultralytics"),
        ({"stride": "'wide'"}, "inputs and outputs"),
    ],
)
def test_onnx_metadata_are_never_run(tmp_path: Path, fixed: Path, notes: dict[str, str], fault: str) -> None:
    import onnx

    graph = onnx.load(fixed)
    for entry in graph.metadata_props:
        entry.value = notes.get(entry.key, entry.value).replace("{mark}", str(tmp_path / "mark"))
    onnx.save(graph, tmp_path / "bad.onnx")
    with pytest.raises(JudgeError, match=fault):
        load_yolo(tmp_path / "bad.onnx", device="cpu")
    assert not (tmp_path / "mark").exists()


# Pickles


def test_a_pickle_needs_trust(tmp_path: Path) -> None:
    model = tiny()
    path, elsewhere = tmp_path / "trusted" / "tiny.pt", tmp_path / "elsewhere"
    for made in (path.parent, elsewhere):
        made.mkdir()
    torch.save({"model": model, "ema": None, "train_args": {"imgsz": 96}}, path)
    for trust in (None, elsewhere):
        with pytest.raises(JudgeError, match=r"is a pickle.*ONNX.*--trust-weights"):
            load_yolo(path, trust=trust, device="cpu")
    # A link into the folder does not move the file there, and ".." does not lead out of it.
    (elsewhere / "link.pt").symlink_to(path)
    for way in (elsewhere / "link.pt", elsewhere / ".." / "trusted" / "tiny.pt"):
        with pytest.raises(JudgeError, match="is a pickle"):
            load_yolo(way, trust=elsewhere, device="cpu")
    found = load_yolo(path, trust=path.parent, device="cpu")
    same = load_yolo(save(model, tmp_path / "same.safetensors"), device="cpu")
    assert found.image_size == 96
    for one, two in zip(found.detect(samples.odd_pictures()), same.detect(samples.odd_pictures()), strict=True):
        assert samples.agreement(one, two) > 0.9


def test_even_a_trusted_pickle_runs_nothing(tmp_path: Path) -> None:
    torch.save({"model": samples.Bomb(tmp_path / "mark")}, tmp_path / "bomb.pt")
    with pytest.raises(JudgeError, match="cannot be read as a checkpoint of Ultralytics"):
        load_yolo(tmp_path / "bomb.pt", trust=tmp_path, device="cpu")
    assert not (tmp_path / "mark").exists()


# Names


def test_names_are_fetched_into_the_trusted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_ultralytics()
    from ultralytics.utils import downloads

    def fail(file: str) -> str:
        raise ConnectionError

    def fetch(file: str) -> str:
        torch.save({"model": tiny()}, file)
        return file

    monkeypatch.setattr(downloads, "attempt_download_asset", fail)
    with pytest.raises(JudgeError, match=r"yolov8n: cannot be fetched .*put it into"):
        load_yolo("yolov8n", trust=tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())
    with pytest.raises(JudgeError, match="Did you mean 'yolo11n-seg'"):
        load_yolo("yolo11n-sgm", trust=tmp_path, device="cpu")
    monkeypatch.setattr(downloads, "attempt_download_asset", fetch)
    with pytest.raises(JudgeError, match="--trust-weights FOLDER"):
        load_yolo("yolo11n-seg", device="cpu")
    said: list[str] = []
    for name in ("yolo11n-seg", "yolo11n-seg.pt"):
        load_yolo(name, trust=tmp_path, device="cpu", say=said.append)
    assert said == [f"Fetching yolo11n-seg.pt from Ultralytics into {tmp_path}"]
    assert [path.name for path in tmp_path.iterdir()] == ["yolo11n-seg.pt"]


# Faults


def test_files_at_fault(tmp_path: Path, weights: Path) -> None:
    data = weights.read_bytes()
    for name, content, fault in (
        ("cut.safetensors", data[: len(data) // 2], "no whole safetensors file. Copy or download it again"),
        ("none.safetensors", b"", "no whole safetensors file"),
        ("noise.onnx", b"no onnx", "cannot be read as ONNX"),
        ("weights.bin", data, "no file of YOLO weights"),
        ("noise.pt", b"no pickle", "cannot be read as a checkpoint"),
        ("absent.safetensors", None, "no such file of weights"),
        ("absent/best.pt", None, "no such file of weights"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(JudgeError, match=fault) as caught:
            load_yolo(tmp_path / name, trust=tmp_path, device="cpu")
        assert name in str(caught.value)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    model = tiny()
    header, state = yolo_networks.header_of(model, 96), model.state_dict()
    first = next(iter(state))
    cases = {
        "lacks 1 weights": {name: tensor for name, tensor in state.items() if name != first},
        "has in excess 1": {**state, "more": torch.zeros(1)},
        "in another shape": {**state, first: torch.zeros(1)},
        "NaN": {**state, first: torch.full_like(state[first], torch.nan)},
    }
    for fault, tensors in cases.items():
        write_detector(tmp_path / "bad.safetensors", header, tensors)
        with pytest.raises(JudgeError, match=fault):
            load_yolo(tmp_path / "bad.safetensors", device="cpu")
    write_detector(tmp_path / "other.safetensors", Header("maskrcnn", {"variant": "small"}, ("person",), 96), state)
    with pytest.raises(JudgeError, match="Take --detector maskrcnn"):
        load_yolo(tmp_path / "other.safetensors", device="cpu")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"activation": "__import__('pathlib').Path('mark').touch()"}, "no plain torch.nn class"),
        ({"backbone": [[-1, 1, "Path", ["mark"]]]}, "'Path', which is no layer"),
        ({"backbone": [[-1, 1, "nn.functional", []]]}, "which is no layer"),
        ({"backbone": [[-1, 1, "TorchVision", [8, "resnet18", "DEFAULT"]]]}, "which is no layer"),
        ({"backbone": [["Conv"]]}, r"no|row that is not"),
        ({"hook": 1}, "has a key 'hook'"),
        ({"head": [[-1, 1, "Classify", ["nc"]]]}, "ends in Classify"),
        ({"scales": {"own": [1, 1]}}, "cannot be built"),
    ],
)
def test_architectures_name_layers_and_nothing_else(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    model = tiny()
    header = yolo_networks.header_of(model, 96)
    path = tmp_path / "bad.safetensors"
    write_detector(path, replace(header, architecture={**header.architecture, **change}), model.state_dict())
    with pytest.raises(JudgeError, match=fault):
        load_yolo(path, device="cpu")


@pytest.mark.parametrize("text", ["{", "[]", "{}", json.dumps({"kind": "x", "architecture": {}, "categories": ["a"]})])
def test_headers_at_fault(tmp_path: Path, text: str) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "bad.safetensors", {"caption_judge_detector": text})
    with pytest.raises(JudgeError, match="its header"):
        load_yolo(tmp_path / "bad.safetensors", device="cpu")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare.safetensors")
    with pytest.raises(JudgeError, match="does not say what it holds"):
        load_yolo(tmp_path / "bare.safetensors", device="cpu")


def test_options_at_fault(weights: Path, folder: Path, fixed: Path) -> None:
    for options, fault in (
        ({"device": "cuda:99"}, "--device cuda:99: cannot be used here"),
        ({"device": "toaster"}, "--device toaster"),
        ({"batch": 0}, "batch is 0"),
        ({"image_size": 5}, "image size is 5"),
        ({"iou": 1.5}, "iou is 1.5"),
        ({"mask_threshold": 0.0}, "mask threshold is 0"),
        ({"trust": folder / "absent"}, "is no folder"),
    ):
        with pytest.raises(JudgeError, match=fault):
            load_yolo(weights, **({"device": "cpu"} | options))
    with pytest.raises(JudgeError, match="fixed to 96 x 96"):
        load_yolo(fixed, device="cpu", image_size=128)


def test_a_missing_package_is_named(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import util

    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(JudgeError, match=r"needs the package 'torch'. Install it: pip install '.*\[detectors\]'"):
        load_yolo(weights, device="cpu")


# Isolation


def test_ultralytics_leaves_no_trace(tmp_path: Path, weights: Path) -> None:
    code = f"""
import os, sys, warnings
import cv2, numpy, torch, torchvision
from PIL import Image
from judge.masking.detectors import make_detector
from judge.masking.instances import Picture
def state():
    return (dict(os.environ), cv2.getNumThreads(), torch.get_num_threads(), str(numpy.get_printoptions()), torch.save,
            torch.load, Image.open, cv2.imread, cv2.imshow, list(warnings.filters), sys.excepthook,
            torch.are_deterministic_algorithms_enabled(), repr(torch.tensor([1.23456])))
before = state()
detector = make_detector("yolo", weights={str(weights)!r}, device="cpu")
detector.detect([Picture("a", numpy.zeros((50, 90, 3), numpy.uint8))])
after = state()
print([one == two for one, two in zip(before, after)])
import ultralytics
print(ultralytics.settings["sync"])
"""
    done = samples.run_apart(code, tmp_path)
    assert done.stdout.splitlines() == [str([True] * 13), "False"]
    assert not done.stderr.strip()


def test_onnx_does_without_ultralytics(tmp_path: Path, fixed: Path) -> None:
    """And ONNX Runtime does without its reports, whose store would lie in the home folder."""
    code = f"""
import sys, numpy
from judge.masking.detectors.yolo import load_yolo
from judge.masking.instances import Picture
load_yolo({str(fixed)!r}, device="cpu").detect([Picture("a", numpy.zeros((50, 90, 3), numpy.uint8))])
print("ultralytics" in sys.modules, [name for name in os.environ if name.startswith(("ORT", "YOLO"))])
"""
    assert samples.run_apart(code, tmp_path).stdout == "False []\n"


def test_classes_are_named_by_a_file(weights: Path, detector: Yolo, tmp_path: Path) -> None:
    """For networks whose classes are numbers; all that name people are people, or those that the user names."""
    (tmp_path / "names.txt").write_text("kite\npedestrian\nman\n")
    given = {"images": tmp_path, "out": tmp_path / "out", "cache": tmp_path / "cache", "detector": "yolo"}
    given |= {"weights": {"yolo": str(weights)}, "class_names": tmp_path / "names.txt", "device": "cpu"}
    picture = Picture("noise", np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8))
    [raw] = detector.detect([picture])
    for people, other in (([], "person"), (["pedestrian"], "man")):
        config = make_config(given | {"person_categories": people}, MaskConfig)
        named = open_detector("yolo", config, ("person",), device="cpu")
        assert set(named.categories) == {"kite", "person", other}
        [found] = named.detect([picture])
        new = {"person": "kite", "dog": "person", "kite": other}
        assert [one.label for one in found] == [new[one.label] for one in raw]
        assert {one.label for one in raw} >= {"person", "dog"}
        told = "'man' of detector 'yolo' names people too, and stays visible: hide it with --person-category 'man'."
        assert list(named.doubts) == ([told] if people else [])
    (tmp_path / "names.txt").write_text("man\n")
    with pytest.raises(JudgeError, match="does not name the 3 classes of detector 'yolo'"):
        open_detector("yolo", config, ("person",), device="cpu")

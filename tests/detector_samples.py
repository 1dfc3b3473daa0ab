"""Small detectors for tests, and images for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from judge.masking.detectors.maskrcnn import MaskRcnn
from judge.masking.detectors.yolo import import_ultralytics
from judge.masking.instances import Instance, LoadedImage

CLASSES = ("person", "dog", "kite")
SIZES = [(96, 96), (137, 401), (401, 37), (1, 60)]
"""Height and width: square, wide, tall, a line."""


class FakeDetector:
    """Finds what ``find`` returns; ``called`` holds the names of the images."""

    name, categories = "fake", ("person", "dog")

    def __init__(self, find: Callable[[LoadedImage], tuple[Instance, ...]], *, key: str = "one") -> None:
        self.find, self.key, self.called = find, key, list[str]()

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        self.called.append(image.name)
        return self.find(image)


def noise_images(sizes: Sequence[tuple[int, int]] = SIZES) -> list[LoadedImage]:
    """Coarse noise."""
    rng = np.random.default_rng(0)
    images = []
    for number, (height, width) in enumerate(sizes):
        coarse = rng.integers(0, 256, (-(-height // 8), -(-width // 8), 3), dtype=np.uint8)
        pixels = np.kron(coarse, np.ones((8, 8, 1), dtype=np.uint8))[:height, :width]
        images.append(LoadedImage(f"{number}.png", np.ascontiguousarray(pixels)))
    return images


def tiny_yolo(folder: Path, *, task: str = "segment", seed: int = 0) -> Path:
    """An untrained model of Ultralytics (``.pt``, 96 pixels) with scores that are not all near 0."""
    ultralytics = import_ultralytics()
    from ultralytics.nn.tasks import yaml_model_load

    name = "yolov8n-seg" if task == "segment" else "yolov8n"
    architecture = yaml_model_load(f"{name}.yaml") | {"scales": {"n": [0.33, 0.0625, 1024]}, "nc": len(CLASSES)}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(architecture), encoding="utf-8")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = ultralytics.YOLO(folder / f"{name}.yaml", task=task)
        for scores in model.model.model[-1].cv3:
            torch.nn.init.normal_(scores[-1].weight, std=3)
            torch.nn.init.constant_(scores[-1].bias, -2)
        for coefficients in getattr(model.model.model[-1], "cv4", ()):
            torch.nn.init.normal_(coefficients[-1].bias, std=3)
        model.model.train()(torch.rand(8, 3, 96, 96))
    model.model.eval().names = dict(enumerate(CLASSES))
    model.ckpt = {"train_args": {"imgsz": 96}}
    model.save(folder / f"{name}-{seed}.pt")
    return folder / f"{name}-{seed}.pt"


def tiny_onnx(weights: Path, **options: Any) -> Path:
    """``weights``, a ``.pt`` file, exported to ONNX beside it."""
    copy = weights.with_name(f"{weights.stem}{'-'.join(options)}.pt")
    copy.write_bytes(weights.read_bytes())
    model: Any = import_ultralytics().YOLO(copy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ultralytics uses torch's older exporter.
        return Path(model.export(format="onnx", imgsz=96, verbose=False, **options))


def tiny_maskrcnn(**options: Any) -> MaskRcnn:
    """An untrained Mask R-CNN of torchvision with a ResNet-18 and few proposals."""
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None)
        network: Any = MaskRCNN(
            backbone, 1 + len(CLASSES), min_size=96, max_size=96, rpn_post_nms_top_n_test=40, box_nms_thresh=0.5
        )
        heads = network.roi_heads
        for layer, spread in ((heads.box_predictor.cls_score, 0.5), (heads.mask_predictor.mask_fcn_logits, 3)):
            torch.nn.init.normal_(layer.weight, std=spread)
    return MaskRcnn(network, CLASSES, "tiny", device=torch.device("cpu"), **options)


def overlap(one: np.ndarray, two: np.ndarray) -> float:
    """Intersection over union of masks."""
    return float((one & two).sum() / max(1, (one | two).sum()))


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.marker = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)

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


def tiny_onnx(weights: Path) -> Path:
    """``weights``, a ``.pt`` file, exported to ONNX beside it, for images of 96 x 96."""
    model: Any = import_ultralytics().YOLO(weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ultralytics uses torch's older exporter.
        return Path(model.export(format="onnx", imgsz=96, verbose=False))


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


def tiny_huggingface(folder: Path, family: str, *, seed: int = 0) -> Path:
    """An untrained model of transformers and its image processor, 96 pixels, with scores that are not all near 0."""
    import transformers

    hf: Any = transformers
    labels = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: n for n, name in enumerate(CLASSES)}}
    resnet = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    stages = [f"stage{number}" for number in range(1, 5)]
    sides, square = {"shortest_edge": 96, "longest_edge": 128}, {"height": 112, "width": 112}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 12}
    model: Any
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if family == "mask2former":
            swin = hf.SwinConfig(
                image_size=64, patch_size=4, embed_dim=8, depths=[1] * 4, num_heads=[1, 1, 2, 2], window_size=4,
                out_features=stages,
            )  # fmt: skip
            config = hf.Mask2FormerConfig(
                backbone_config=swin, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_layers=1,
                encoder_feedforward_dim=16, dim_feedforward=16, decoder_layers=2, num_attention_heads=2,
                num_queries=12, **labels,
            )  # fmt: skip
            model = hf.Mask2FormerForUniversalSegmentation(config)
            processor = hf.Mask2FormerImageProcessor(size=sides, size_divisor=32)
        elif family == "maskformer":
            config = hf.MaskFormerConfig(
                backbone_config=hf.ResNetConfig(**resnet, out_features=stages), fpn_feature_size=32,
                mask_feature_size=32, decoder_config={"model_type": "detr", "d_model": 16, **layers, **heads}, **labels,
            )  # fmt: skip
            model = hf.MaskFormerForInstanceSegmentation(config)
            processor = hf.MaskFormerImageProcessor(size=sides, size_divisor=32)
        elif family == "eomt":
            config = hf.EomtConfig(
                hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=96,
                patch_size=8, num_blocks=1, num_queries=12, num_upscale_blocks=1, num_register_tokens=1, **labels,
            )  # fmt: skip
            model = hf.EomtForUniversalSegmentation(config)
            processor = hf.EomtImageProcessor(size={"shortest_edge": 96, "longest_edge": 96}, do_pad=True)
        elif family == "rf-detr-seg":
            dinov2 = hf.RfDetrDinov2Config(
                hidden_size=32, num_hidden_layers=4, num_attention_heads=2, image_size=112, num_windows=2,
                out_indices=[2, 4],
            )  # fmt: skip
            config = hf.RfDetrConfig(
                backbone_config=dinov2, d_model=32, decoder_layers=1, decoder_ffn_dim=32, num_queries=12,
                decoder_self_attention_heads=2, decoder_cross_attention_heads=2, group_detr=1, **labels,
            )  # fmt: skip
            model, processor = hf.RfDetrForInstanceSegmentation(config), hf.RfDetrImageProcessor(size=square)
        elif family == "rt-detr":
            backbone = hf.RTDetrResNetConfig(**resnet, out_features=stages[1:])
            config = hf.RTDetrConfig(
                backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[16, 24, 32], d_model=16,
                decoder_in_channels=[16] * 3, num_denoising=0, **layers, **heads, **labels,
            )  # fmt: skip
            model = hf.RTDetrForObjectDetection(config)
            processor = hf.RTDetrImageProcessor(size={"height": 96, "width": 96})
        elif family == "yolos":
            config = hf.YolosConfig(
                hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=[96, 96],
                num_detection_tokens=12, **labels,
            )  # fmt: skip
            model, processor = hf.YolosForObjectDetection(config), hf.YolosImageProcessor(size=sides)
        else:
            config = hf.DetrConfig(
                backbone_config=hf.ResNetConfig(**resnet, out_features=stages), use_timm_backbone=False, d_model=32,
                **layers, **(heads | {"encoder_attention_heads": 8, "decoder_attention_heads": 8}), **labels,
            )  # fmt: skip
            kind = hf.DetrForSegmentation if family == "detr-seg" else hf.DetrForObjectDetection
            model, processor = kind(config), hf.DetrImageProcessor(size=sides)
        for name, tensor in model.named_parameters():
            if "class" in name and name.endswith("weight") and tensor.ndim == 2:
                torch.nn.init.normal_(tensor, std=0.4 if family in {"yolos", "detr-seg"} else 1)
            elif "class" in name and name.endswith("bias"):
                torch.nn.init.zeros_(tensor)
    path = folder / family
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path

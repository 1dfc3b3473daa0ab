"""``maskrcnn``: torchvision's Mask R-CNN, ResNet-50 FPN v1 and v2 with COCO's classes, or one trained here."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.errors import FAULTS, JudgeError, nearest, require
from judge.masking.detectors.weights import (
    SCORES_FROM,
    Header,
    check_options,
    choose_device,
    detect_by_shape,
    filled,
    fingerprint,
    parse_safetensors,
    read_weights,
    to_channels,
)
from judge.masking.instances import Instance, Picture, from_mask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

VARIANTS = {"v1": "maskrcnn_resnet50_fpn", "v2": "maskrcnn_resnet50_fpn_v2"}
"""Networks that torchvision fetches, trained on COCO."""

SMALL: Mapping[str, Any] = {
    "variant": "small",
    "channels": 64,
    "hidden": 256,
    "mask_layers": [64, 64, 64, 64],
    "anchors": [12, 24, 48, 96, 192],
    "proposals": 100,
    "rois": 32,
}
"""A network that a CPU can train: ResNet-18, narrow heads, few proposals."""

_FULL_SIZE = (800, 1333)


class MaskRcnn:
    """A Mask R-CNN as a detector.

    Args:
        network: torchvision's ``MaskRCNN``.
        categories: names of the classes, without the background; COCO's unused numbers are "N/A".
        weights: fingerprint of its file.
        device: to run on.
        batch: pictures at a time.
        image_size: pixels of a picture's longer side; None: torchvision's 800 for the shorter, up to 1333.
        iou: least overlap of two boxes of a class at which the weaker is dropped.
        mask_threshold: probability from which a pixel belongs to a mask.

    Raises:
        JudgeError: an option that is out of range.
    """

    name = "maskrcnn"

    def __init__(  # noqa: PLR0913 - a network, its names, and how to use it
        self,
        network: Any,
        categories: Sequence[str],
        weights: str,
        *,
        device: torch.device,
        batch: int = 4,
        image_size: int | None = None,
        iou: float = 0.5,
        mask_threshold: float = 0.5,
    ) -> None:
        import torch
        import torchvision

        check_options("--detector maskrcnn", batch=batch, image_size=image_size, iou=iou, mask_threshold=mask_threshold)
        self.network, self.categories, self.device = network.to(device).eval(), tuple(categories), device
        self.batch, self.mask_threshold = batch, mask_threshold
        shorter, longer = (image_size, image_size) if image_size else _FULL_SIZE
        network.transform.min_size, network.transform.max_size = (shorter,), longer
        network.roi_heads.nms_thresh, network.roi_heads.score_thresh = iou, SCORES_FROM
        versions = f"torchvision {torchvision.__version__}, torch {torch.__version__}"
        self.key = fingerprint("maskrcnn", weights, shorter, longer, iou, mask_threshold, versions)

    def detect(self, pictures: Sequence[Picture]) -> list[tuple[Instance, ...]]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; at most 100 a picture, the likeliest first."""
        return detect_by_shape(pictures, self.batch, lambda picture: picture.size, self._detect)

    def _detect(self, pictures: Sequence[Picture]) -> Iterator[tuple[Instance, ...]]:
        import torch

        tensors = list(to_channels(np.stack([picture.pixels for picture in pictures])).to(self.device))
        with torch.no_grad():
            batch, _ = self.network.transform(tensors)
            features = self.network.backbone(batch.tensors)
            proposals, _ = self.network.rpn(batch, features)
            detections, _ = self.network.roi_heads(features, proposals, batch.image_sizes)
        return map(self._read, detections, batch.image_sizes, pictures)

    def _read(self, detection: Mapping[str, Tensor], inner: tuple[int, int], picture: Picture) -> tuple[Instance, ...]:
        """The instances of one picture, whose size within the network was ``inner``.

        torchvision's own postprocessing draws all masks of a picture at once, as floats: 120 MB at COCO's size.
        """
        from torchvision.models.detection.roi_heads import paste_masks_in_image

        height, width = picture.size
        scale = detection["boxes"].new_tensor([width / inner[1], height / inner[0]] * 2)
        boxes = detection["boxes"] * scale
        found = []
        for place, (box, score, label) in enumerate(zip(boxes, detection["scores"], detection["labels"], strict=True)):
            drawn = paste_masks_in_image(detection["masks"][place : place + 1], box[None], (height, width))
            mask = (drawn[0, 0] >= self.mask_threshold).cpu().numpy()
            x, y, right, bottom = box.tolist()
            frame, name = (x, y, right - x, bottom - y), self.categories[int(label) - 1]
            found.append(from_mask(mask, name, box=frame, score=float(score)))
        return tuple(instance for instance in found if instance.area)


def load_maskrcnn(
    weights: str | Path = "maskrcnn_resnet50_fpn_v2", *, device: str | None = None, batch: int = 4, **options: Any
) -> MaskRcnn:
    """A detector of a file, or of a name that torchvision can fetch.

    Args:
        weights: a ``.safetensors`` of ``judge train detector``; a state dict of torchvision's v1 or v2 with COCO's
            classes (``.safetensors``; ``.pth`` or ``.pt``, read with ``weights_only=True``); or a name in
            :data:`VARIANTS`.
        device: "cpu", "cuda", "cuda:1"; None: CUDA where there is any.
        batch: pictures at a time.
        options: ``image_size``, ``iou``, ``mask_threshold``, as :class:`MaskRcnn` has them.

    Raises:
        JudgeError: no such file; a file that is damaged, of another kind or does not fit; a name that cannot be
            fetched; a device or an option that cannot be had; a package that is not installed.
    """
    require("detectors", "torch", "torchvision")
    place = choose_device(device)
    header, tensors, mark = read_maskrcnn(weights)
    where = str(weights)
    network = filled(lambda: build(header.architecture, len(header.categories), where), tensors, where)
    options.setdefault("image_size", header.image_size)
    return MaskRcnn(network, header.categories, mark, device=place, batch=batch, **options)


def read_maskrcnn(weights: str | Path) -> tuple[Header, dict[str, Tensor], str]:
    """Header, weights and the weights' fingerprint, of a file or of a published name.

    Raises:
        JudgeError: see :func:`load_maskrcnn`.
    """
    where, path = str(weights), Path(weights)
    if not path.exists() and where in VARIANTS.values():
        return _fetched(where)
    if not path.exists() and not path.suffix:
        mend = nearest(where, [*VARIANTS.values()])
        raise JudgeError("no such file, and torchvision has no such model", where=where, mend=mend)
    data = read_weights(path)
    header = None
    if path.suffix == ".safetensors":
        header, tensors = parse_safetensors(data, where, "maskrcnn")
    elif path.suffix in {".pt", ".pth"}:
        tensors = _parse_state(data, where)
    else:
        raise JudgeError("is no file of weights", where=where, mend="give a .safetensors, .pth or .pt file")
    return header or _header_of(tensors, where), tensors, fingerprint(data)


def build(architecture: Mapping[str, Any], classes: int, where: str) -> Any:
    """A Mask R-CNN with fresh weights.

    Args:
        architecture: ``{"variant": "v1"}``, ``{"variant": "v2"}``, or as :data:`SMALL`.
        classes: without the background.
        where: names the source in messages.

    Raises:
        JudgeError: another variant, or numbers that it cannot be built with.
    """
    from torch import nn
    from torchvision.models import get_model

    variant = architecture.get("variant")
    if variant == "small":
        return _build_small(architecture, classes, where)
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise JudgeError(f"unknown variant '{variant}'", where=where, mend=f"known: {', '.join(VARIANTS)}, small")
    network: Any = get_model(VARIANTS[variant], weights=None, weights_backbone=None, num_classes=classes + 1)
    if variant == "v1":
        # torchvision's weights were trained with frozen statistics and nothing added to the variance.
        for module in network.backbone.body.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = 0.0
    return network


def _build_small(architecture: Mapping[str, Any], classes: int, where: str) -> Any:
    """See :data:`SMALL`."""
    from torch import nn
    from torchvision.models import resnet18
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import BackboneWithFPN
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
    from torchvision.models.detection.rpn import AnchorGenerator

    try:
        channels, hidden, layers = architecture["channels"], architecture["hidden"], architecture["mask_layers"]
        anchors = AnchorGenerator(tuple((size,) for size in architecture["anchors"]), ((0.5, 1.0, 2.0),) * 5)
        levels = {f"layer{level + 1}": str(level) for level in range(4)}
        # Batch normalisation in the pyramid as well: from nothing, it learns several times faster with it.
        body = resnet18(weights=None, norm_layer=nn.BatchNorm2d)
        backbone = BackboneWithFPN(body, levels, [64, 128, 256, 512], channels, norm_layer=nn.BatchNorm2d)
        return MaskRCNN(
            backbone,
            rpn_anchor_generator=anchors,
            box_head=TwoMLPHead(channels * 7 * 7, hidden),
            box_predictor=FastRCNNPredictor(hidden, classes + 1),
            mask_head=MaskRCNNHeads(channels, layers, 1, norm_layer=nn.BatchNorm2d),
            mask_predictor=MaskRCNNPredictor(layers[-1], layers[-1], classes + 1),
            rpn_pre_nms_top_n_train=4 * architecture["proposals"],
            rpn_post_nms_top_n_train=architecture["proposals"],
            rpn_pre_nms_top_n_test=4 * architecture["proposals"],
            rpn_post_nms_top_n_test=architecture["proposals"],
            rpn_batch_size_per_image=64,
            box_batch_size_per_image=architecture["rois"],
        )
    except (*FAULTS, RuntimeError) as error:
        what = f"its architecture cannot be built ({type(error).__name__})"
        mend = "write it again with 'judge train detector'"
        raise JudgeError(what, where=where, mend=mend) from error


def _fetched(name: str) -> tuple[Header, dict[str, Tensor], str]:
    """Weights of torchvision's own, from its cache or the network."""
    from torchvision.models import get_model_weights

    weights: Any = get_model_weights(name).DEFAULT
    try:
        # The hash in the file's name is checked; unpickling is torch's restricted one.
        tensors = weights.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        mend = f"where there is a network download {weights.url}, and give that file"
        raise JudgeError(f"cannot be fetched ({type(error).__name__})", where=name, mend=mend) from error
    return _header_of(tensors, name), tensors, fingerprint(weights.url)


def _header_of(tensors: Mapping[str, Tensor], where: str) -> Header:
    """What a bare state dict is: v1's box head begins with a dense layer, v2's with a convolution."""
    from torchvision.models import get_model_weights

    first = {"v1": "roi_heads.box_head.fc6.weight", "v2": "roi_heads.box_head.0.0.weight"}
    variant = next((variant for variant, name in first.items() if name in tensors), "")
    classes = tensors.get("roi_heads.box_predictor.cls_score.bias")
    if not variant or classes is None:
        mend = f"give a state dict of {' or '.join(VARIANTS.values())}, or a file of 'judge train detector'"
        raise JudgeError("does not fit a Mask R-CNN of torchvision's", where=where, mend=mend)
    published: Any = get_model_weights(VARIANTS[variant])
    names = published.DEFAULT.meta["categories"]
    if len(classes) != len(names):
        what = f"tells {len(classes)} classes apart, whose names nobody knows (COCO has {len(names)})"
        raise JudgeError(what, where=where, mend="give a file of 'judge train detector', which names them")
    return Header("maskrcnn", {"variant": variant}, tuple(names[1:]), None)


def _parse_state(data: bytes, where: str) -> dict[str, Tensor]:
    """The tensors of a ``torch.save``d state dict, by torch's restricted reader."""
    import torch

    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        mend = "save the network's state_dict() instead, best as safetensors"
        raise JudgeError("holds more than weights, or is damaged", where=where, mend=mend) from error
    except Exception as error:  # A damaged file leads torch's reader into every kind of error.
        raise JudgeError("is no whole file of weights", where=where, mend="copy or download it again") from error
    if isinstance(found, dict) and isinstance(found.get("model"), dict):
        found = found["model"]  # torchvision's training script keeps the optimiser beside it.
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise JudgeError("holds no state dict", where=where, mend="save the network's state_dict()")
    return found

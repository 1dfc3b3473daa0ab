"""``maskrcnn``: torchvision's Mask R-CNN with a ResNet-50 FPN, v1 or v2: its own COCO weights or a user's."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.errors import JudgeError, nearest, require
from judge.masking.detectors.weights import MIN_SCORE, choose_device, fingerprint, read_weights
from judge.masking.instances import Instance, LoadedImage, from_mask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Name in torchvision -> a weight that only this network has: v1's box head starts with a dense layer, v2's with a
# convolution.
_NETWORKS = {
    "maskrcnn_resnet50_fpn": "roi_heads.box_head.fc6.weight",
    "maskrcnn_resnet50_fpn_v2": "roi_heads.box_head.0.0.weight",
}


class MaskRcnn:
    """A Mask R-CNN of torchvision as a detector.

    Args:
        network: torchvision's ``MaskRCNN``.
        categories: names of the classes, without the background.
        weights: fingerprint of its file.
        device: to run on.
        mask_threshold: least probability of a mask's pixels, in (0, 1).
    """

    name = "maskrcnn"

    def __init__(
        self,
        network: Any,
        categories: Sequence[str],
        weights: str,
        *,
        device: torch.device,
        mask_threshold: float = 0.5,
    ) -> None:
        import torch
        import torchvision

        self.network, self.categories, self.device = network.to(device).eval(), tuple(categories), device
        self.network.roi_heads.score_thresh = MIN_SCORE
        self.mask_threshold = mask_threshold
        versions = f"torchvision {torchvision.__version__}, torch {torch.__version__}"
        self.key = fingerprint("maskrcnn", weights, mask_threshold, versions)

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; at most 100 instances.

        This is the network's forward pass with masks drawn one by one: torchvision draws them all at once, as floats
        (120 MB at COCO's size).
        """
        import torch
        from torchvision.models.detection.roi_heads import paste_masks_in_image
        from torchvision.models.detection.transform import resize_boxes

        pixels = torch.from_numpy(np.ascontiguousarray(image.pixels)).permute(2, 0, 1).to(self.device).float() / 255
        with torch.no_grad():
            batch, _ = self.network.transform([pixels])
            features = self.network.backbone(batch.tensors)
            proposals, _ = self.network.rpn(batch, features)
            [detection], _ = self.network.roi_heads(features, proposals, batch.image_sizes)
        boxes = resize_boxes(detection["boxes"], batch.image_sizes[0], image.size)
        found = []
        for place, (score, label) in enumerate(zip(detection["scores"], detection["labels"], strict=True)):
            drawn = paste_masks_in_image(detection["masks"][place : place + 1], boxes[place : place + 1], image.size)
            mask = (drawn[0, 0] >= self.mask_threshold).cpu().numpy()
            x, y, right, bottom = boxes[place].tolist()
            box, name = (x, y, right - x, bottom - y), self.categories[int(label) - 1]
            found.append(from_mask(mask, name, box=box, score=float(score)))
        return tuple(instance for instance in found if instance.area)


def load_maskrcnn(
    weights: str | Path = "maskrcnn_resnet50_fpn_v2", *, device: str | None = None, mask_threshold: float = 0.5
) -> MaskRcnn:
    """A detector from a file, or from torchvision's own weights.

    Classes of weights with as many classes as COCO have COCO's names; those of others are called by their numbers from
    0 on, and ``--class-names`` names them.

    Args:
        weights: the state dict of a ``maskrcnn_resnet50_fpn`` or ``maskrcnn_resnet50_fpn_v2`` (``.safetensors``;
            ``.pth`` or ``.pt``, read with ``weights_only=True``); or one of these names, for torchvision's weights.
        device: "cpu", "cuda", "cuda:1"; None: CUDA if available.
        mask_threshold: least probability of a mask's pixels, in (0, 1).

    Raises:
        JudgeError: no such file; a file that is damaged, of another kind or does not fit; weights that cannot be
            downloaded; a device or package that is missing.
    """
    require("detectors", "torch", "torchvision")
    import torch
    from torchvision.models import get_model, get_model_weights

    place, where = choose_device(device), str(weights)
    tensors, mark = _read(where)
    name = next((name for name, key in _NETWORKS.items() if key in tensors), "")
    scores = tensors.get("roi_heads.box_predictor.cls_score.weight")
    if not name or scores is None or scores.ndim != 2:
        mend = f"give a state dict of {' or '.join(_NETWORKS)}"
        raise JudgeError("does not fit a Mask R-CNN of torchvision's", where=where, mend=mend)
    with torch.random.fork_rng(devices=[]):  # Keep the process's random numbers.
        network: Any = get_model(name, weights=None, weights_backbone=None, num_classes=len(scores))
    try:
        network.load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[-1].strip()[:200]
        raise JudgeError(f"does not fit {name} ({reason})", where=where, mend="give its whole state dict") from error
    if not all(tensor.isfinite().all() for tensor in tensors.values() if tensor.is_floating_point()):
        raise JudgeError("holds NaN or infinity", where=where, mend="train again, at a lower rate")
    if name == "maskrcnn_resnet50_fpn":  # torchvision's weights were trained with nothing added to the variance.
        for module in network.backbone.body.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eps = 0.0
    coco: Any = get_model_weights(name)
    names = coco.DEFAULT.meta["categories"][1:]
    categories = names if len(names) + 1 == len(scores) else [str(number) for number in range(len(scores) - 1)]
    return MaskRcnn(network, categories, mark, device=place, mask_threshold=mask_threshold)


def _read(where: str) -> tuple[dict[str, Tensor], str]:
    """A state dict and its fingerprint, from a file or by a name of torchvision's."""
    path = Path(where)
    if not path.exists() and where in _NETWORKS:
        return _download(where)
    if not path.exists() and not path.suffix:
        mend = nearest(where, [*_NETWORKS])
        raise JudgeError("no such file, and torchvision has no such model", where=where, mend=mend)
    data = read_weights(path)
    if path.suffix not in {".safetensors", ".pt", ".pth"}:
        raise JudgeError("is no file of weights", where=where, mend="give a .safetensors, .pth or .pt file")
    tensors = _parse_safetensors(data, where) if path.suffix == ".safetensors" else _unpickle(data, where)
    return tensors, fingerprint(data)


def _download(name: str) -> tuple[dict[str, Tensor], str]:
    """Weights of torchvision's own, from its cache or the network."""
    from torchvision.models import get_model_weights

    weights: Any = get_model_weights(name).DEFAULT
    try:  # The hash in the file's name is checked; unpickling is torch's restricted one.
        tensors = weights.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        mend = f"where there is a network download {weights.url}, and give that file"
        raise JudgeError(f"cannot be downloaded ({type(error).__name__})", where=name, mend=mend) from error
    return tensors, fingerprint(weights.url)


def _parse_safetensors(data: bytes, where: str) -> dict[str, Tensor]:
    import safetensors.torch

    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError) as error:
        raise JudgeError("is no whole safetensors file", where=where, mend="copy or download it again") from error


def _unpickle(data: bytes, where: str) -> dict[str, Tensor]:
    """The tensors of a ``torch.save``d state dict, by torch's restricted unpickler."""
    import torch

    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        mend = "save the network's state_dict() instead, best as safetensors"
        raise JudgeError("holds more than weights, or is damaged", where=where, mend=mend) from error
    except Exception as error:  # A damaged file leads torch's reader into every kind of error.
        raise JudgeError("is no whole file of weights", where=where, mend="copy or download it again") from error
    if isinstance(found, Mapping) and isinstance(found.get("model"), Mapping):
        found = found["model"]  # torchvision's training script keeps the optimiser beside it.
    if not isinstance(found, Mapping) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise JudgeError("holds no state dict", where=where, mend="save the network's state_dict()")
    return dict(found)

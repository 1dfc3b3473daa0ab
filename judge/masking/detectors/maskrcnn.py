"""``maskrcnn``: torchvision's Mask R-CNN with a ResNet-50 FPN, v1 or v2, with its own COCO weights or a user's."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge.errors import JudgeError, nearest, require
from judge.masking.detectors import MIN_SCORE, read_weights
from judge.masking.instances import Instance, LoadedImage, from_mask
from judge.utils.identity import digest_of
from judge.utils.parallel import choose_device

if TYPE_CHECKING:
    import torch

# Name in torchvision -> a weight that only this network has.
_NETWORKS = {
    "maskrcnn_resnet50_fpn": "roi_heads.box_head.fc6.weight",
    "maskrcnn_resnet50_fpn_v2": "roi_heads.box_head.0.0.weight",
}
_NO_WEIGHTS = {".json", ".jsonl", ".csv", ".txt", ".yaml", ".yml"}
_SIZES = "min_size", "max_size"
_SCORES = "roi_heads.box_predictor.cls_score.weight"


class MaskRcnn:
    """A ``MaskRCNN`` of torchvision as a detector, with the hash of its ``weights``."""

    name = "maskrcnn"

    def __init__(self, network: Any, categories: Sequence[str], weights: str, *, device: torch.device) -> None:
        import torch
        import torchvision

        self.network, self.categories, self.device = network.to(device).eval(), tuple(categories), device
        self.network.roi_heads.score_thresh = MIN_SCORE
        self.key = f"maskrcnn {weights}, torchvision {torchvision.__version__}, torch {torch.__version__}"

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; at most 100 instances."""
        import torch

        # A copy: torch warns of arrays that cannot be written.
        pixels = torch.from_numpy(image.pixels.copy()).permute(2, 0, 1).to(self.device).float() / 255
        with torch.no_grad():
            [made] = self.network([pixels])
        found = []
        for drawn, (x, y, right, bottom), score, label in zip(
            made["masks"][:, 0], made["boxes"].tolist(), made["scores"].tolist(), made["labels"].tolist(), strict=True
        ):
            mask, box = (drawn >= 0.5).cpu().numpy(), (x, y, right - x, bottom - y)
            found.append(from_mask(mask, self.categories[label - 1], box=box, score=score))
        return tuple(instance for instance in found if instance.area)


def load_maskrcnn(weights: str, *, device: str | None = None) -> MaskRcnn:
    """A detector from a file, or from torchvision's own weights.

    ``weights``: the state dict of a ``maskrcnn_resnet50_fpn`` or ``maskrcnn_resnet50_fpn_v2`` (``.safetensors``;
    ``.pth`` or ``.pt``, read with ``weights_only=True``); or one of these names, for torchvision's weights. Images are
    resized to 800 to 1,333 pixels, or to ``min_size`` and ``max_size`` in the metadata of a ``.safetensors`` file.
    Classes of weights with as many classes as COCO have COCO's names; others are called by their numbers from 0 on, and
    ``--class-names`` names them.
    """
    require("detectors", "torch", "torchvision", "safetensors")
    import torch
    from torchvision.models import get_model, get_model_weights

    place, (tensors, sizes, mark) = choose_device(device), _read(weights)
    name = next((name for name, key in _NETWORKS.items() if {key, _SCORES} <= {*tensors}), "")
    mend = f"give the state_dict() of a {' or '.join(_NETWORKS)}"
    if not name:
        raise JudgeError("holds no Mask R-CNN of torchvision", where=weights, mend=mend)
    try:
        with torch.random.fork_rng(devices=[]):  # Keep the process's random numbers.
            network: Any = get_model(
                name, weights=None, weights_backbone=None, num_classes=len(tensors[_SCORES]), **sizes
            )
        network.load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[-1].strip()[:200]
        raise JudgeError(f"does not fit {name} ({reason})", where=weights, mend=mend) from error
    if not all(tensor.isfinite().all() for tensor in tensors.values() if tensor.is_floating_point()):
        raise JudgeError("holds NaN or infinity", where=weights, mend="train again, at a lower rate")
    coco: Any = get_model_weights(name)
    names, classes = coco.DEFAULT.meta["categories"][1:], len(tensors[_SCORES]) - 1
    # torchvision's weights of version 1 were trained with nothing added to the variance, unlike a user's.
    if name == "maskrcnn_resnet50_fpn" and len(names) == classes:
        for module in network.backbone.body.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eps = 0.0
    categories = names if len(names) == classes else [str(number) for number in range(classes)]
    return MaskRcnn(network, categories, mark, device=place)


def _read(where: str) -> tuple[dict[str, torch.Tensor], dict[str, int], str]:
    """A state dict, the sizes that its file names, and its hash; from a file or by a name of torchvision's."""
    import safetensors.torch
    import torch
    from torchvision.models import get_model_weights

    path = Path(where)
    if not path.exists() and not path.suffix and where not in _NETWORKS:
        what = "no such file, and torchvision has no such model"
        raise JudgeError(what, where=where, mend=nearest(where, [*_NETWORKS]))
    weights: Any = None if path.exists() or path.suffix else get_model_weights(where)
    data = where.encode() if weights else read_weights(path)
    notes: dict[str, str] = {}
    try:
        if weights:  # The hash in the file's name is checked.
            found = weights.DEFAULT.get_state_dict(progress=False, check_hash=True, weights_only=True)
        elif path.suffix == ".safetensors":
            found = safetensors.torch.load(data)  # Tensors alone: nothing is unpickled.
            notes = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
        else:
            found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            found = found.get("model", found)  # torchvision's training script saves the optimiser beside it.
        found = {str(name): tensor.detach() for name, tensor in found.items()}
    except Exception as error:  # Damaged files, pickles of other things and networks fail in many ways.
        what = f"weights cannot be read ({type(error).__name__})"
        mend = f"download {weights.DEFAULT.url} elsewhere, and give that" if weights else "give a whole state_dict()"
        if path.suffix.lower() in _NO_WEIGHTS:
            what, mend = "is no file of weights", f"{mend}; or, if a tool found this, name it with --instances"
        raise JudgeError(what, where=where, mend=mend) from error
    wrong = [f"{key} '{notes[key][:20]}'" for key in _SIZES if not re.fullmatch(r"[1-9]\d{1,3}", notes.get(key, "800"))]
    if wrong:
        raise JudgeError(f"{wrong[0]} in its metadata is no size", where=where, mend="save 10 to 9999 pixels")
    return found, {key: int(notes[key]) for key in _SIZES if key in notes}, digest_of(data)

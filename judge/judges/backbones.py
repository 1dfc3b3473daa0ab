"""Frozen backbones that compute features of images: of timm or transformers, or random patches of the images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import HUGGING_FACE, PATCHES, Materials
from judge.judges.patches import RandomPatches, prepared
from judge.judges.vision_encoders import VisionEncoder, load_vision_encoder
from judge.utils.hub import explaining, quiet_hub
from judge.utils.identity import content_of_tensors
from judge.utils.reading import memory_limit, opening, read_bytes

if TYPE_CHECKING:
    from judge.masking.instances import Pixels

RANDOM, PRETRAINED = "random", "pretrained"
# With the tag of the weights: timm's default weights of a name change with its releases, and scores would change too.
# The ResNets' are torchvision's first, as in the public codes of SAT and LIC.
RESNET101, RESNET50, SWIN = "resnet101.tv_in1k", "resnet50.tv_in1k", "swin_base_patch4_window12_384.ms_in22k_ft_in1k"
# For judges that read one vector of each image: SigLIP 2 (Tschannen et al., 2025; Apache 2.0), which was trained to
# find the caption of an image.
ENCODER = "vit_base_patch16_siglip_224.v2_webli"
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SIZE = 224
_USED = 0.9  # Share of a network's weights that a file must contain.
_HEAD, _SPARE = 8, 0.25  # A file may contain so many other tensors (a classifier), and such a share (resized tables).
_ITS_OWN = "give weights of the network that --backbone names"


class TimmBackbone(nn.Module):
    """The last feature map of a timm network made with ``features_only=True``: [B, 3, S, S] -> [B, P, D].

    Of another network its pooled vector, with P = 1, by the network's own way of pooling, such as SigLIP's attention.
    ``size`` is S; ``mean`` and ``std`` are those of the colours in its training, in [0, 1].
    """

    regions, margin = 0, 0.0

    def __init__(self, network: Any, key: str, *, size: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network, self.size = network.eval().requires_grad_(requires_grad=False), size
        self.mean, self.std = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
        self.key = f"{key} at {size}"

    def prepare(self, pixels: Pixels) -> Tensor:
        """An image [H, W, 3] uint8 as [3, S, S] float32; resized to a square, not cropped."""
        return prepared(pixels, self.size, self.mean, self.std)

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> the map that :meth:`pool` pools: [B, D, g, k], [B, g, k, D] or, with tokens, [B, T, D]."""
        found: Tensor = self.network.forward_features(images)
        return found

    def pool(self, maps: Tensor) -> Tensor:
        """The pooled vector of :meth:`maps`, [B, 1, D]."""
        found: Tensor = self.network.forward_head(maps)[:, None]
        return found

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, P, D], positions row by row."""
        features = self.network(images)
        if isinstance(features, Tensor):
            return features[:, None]
        features = features[-1]
        # Swin's channels come last; EfficientNet has no ``output_fmt``.
        if getattr(self.network, "output_fmt", "NCHW") != "NHWC":
            features = features.permute(0, 2, 3, 1)
        found: Tensor = features.flatten(1, 2)
        return found


def make_backbone(
    materials: Materials, default: str, *, pooled: bool = False
) -> TimmBackbone | RandomPatches | VisionEncoder:
    """The backbone that ``materials`` names, or ``default``; judges of all seeds have the same random weights.

    ``pooled``: one vector for each image, in place of one for each position.

    Raises:
        JudgeError: timm has no such network; its weights cannot be downloaded or read, or do not fit; timm is missing.
            As :func:`~judge.judges.vision_encoders.load_vision_encoder`, of a network of transformers.
    """
    require("vision", "torch", "timm", "cv2")
    import timm

    name, weights = materials.backbone or default, materials.backbone_weights
    if name == PATCHES:
        return RandomPatches.of(materials)
    if name.startswith(HUGGING_FACE):
        if weights == RANDOM:
            what = f"'{name}' has weights of its own"
            raise JudgeError(what, where=f"--backbone-weights {RANDOM}", mend="leave it out")
        moved = weights != PRETRAINED  # The checkpoint has moved to this folder.
        where = f"--backbone-weights {weights}" if moved else f"--backbone {name}"
        reference = weights if moved else name.removeprefix(HUGGING_FACE)
        return load_vision_encoder(reference, where, size=materials.image_size, pooled=pooled)
    config = _config(name)
    tensors: dict[str, Tensor] | None = None
    overlay = dict[str, Any]()
    what, where, mend = f"weights of '{name}' cannot be loaded", "--backbone", "give --backbone-weights FILE, or random"
    if weights not in {RANDOM, PRETRAINED}:
        what, where, mend = f"its weights do not fit into '{name}'", f"--backbone-weights {weights}", _ITS_OWN
        tensors = _read(Path(weights), where)
        # Pass tensors: timm would unpickle files with another suffix. Without "file" it would download weights.
        overlay = {"file": weights, "state_dict": dict(tensors)}
    # Swin and similar networks are built for one size.
    fixed = materials.image_size and config and config.fixed_input_size
    sized: dict[str, Any] = {"img_size": materials.image_size} if fixed else {}
    kind: dict[str, Any] = {"num_classes": 0} if pooled else {"features_only": True}
    with torch.random.fork_rng(devices=[]), quiet_hub(), explaining(what, where, mend):
        torch.manual_seed(0)
        network = timm.create_model(
            name, pretrained=weights != RANDOM, pretrained_cfg_overlay=overlay or None, **kind, **sized
        )
    if tensors is not None:
        _check(network, tensors, where)
    size = materials.image_size or (config.input_size[1] if config else _SIZE)
    mean, std = (config.mean, config.std) if config else (IMAGENET_MEAN, IMAGENET_STD)
    content = content_of_tensors(network.state_dict())  # timm may get other weights under the same name.
    of = "pooled " if pooled else ""
    backbone = TimmBackbone(network, f"timm {timm.__version__} {of}{name} {content}", size=size, mean=mean, std=std)
    if materials.image_size:  # timm refuses sizes only when it computes.
        what, mend = f"'{name}' does not take images of {size} pixels", "leave it out, or take a multiple of 32"
        with explaining(what, "--image-size", mend), torch.inference_mode():
            backbone(torch.zeros(1, 3, size, size))
    return backbone


def _config(name: str) -> Any:
    """Timm's configuration of a network's weights ("resnet50.a1_in1k"); None if it has none."""
    import timm

    if not timm.is_model(name):
        close = get_close_matches(name.lower(), timm.list_models(), n=1)
        mend = f"did you mean '{close[0]}'?" if close else "see timm.list_models()"
        raise JudgeError(f"timm has no network '{name}'", where="--backbone", mend=mend)
    try:
        return timm.get_pretrained_cfg(name)
    except RuntimeError as error:
        stem, _, tag = name.partition(".")
        what = f"timm has no weights '{tag}' of '{stem}'"
        raise JudgeError(what, where="--backbone", mend=f"use '{stem}', or see timm.list_pretrained()") from error


def _read(path: Path, where: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors.torch import load

    with opening(path, folder="name the file in it", where=where):
        data = read_bytes(path, memory_limit())
    with explaining("is no safetensors file, or damaged", where, "give a .safetensors file with timm's names"):
        return load(data)


def _check(network: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse a file whose weights are not in the network: timm silently ignores tensors that do not fit.

    Compared by value, since timm renames some tensors; not all, since it resizes tables of positions. The file of a
    deeper network (resnet34 for resnet18) contains all names of a shallower one, and many others.
    """
    given = {_digest(tensor) for tensor in tensors.values()}
    held = {_digest(tensor) for tensor in network.state_dict().values()}
    own = list(network.parameters())
    numbers = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    found, spare = sum(_digest(t) in given for t in own), sum(_digest(t) not in held for t in numbers)
    if found < _USED * len(own) or spare > _HEAD + _SPARE * len(numbers):
        what = f"{found} of the network's {len(own)} weights are in it, and {spare} of its {len(numbers)} are not used"
        raise JudgeError(what, where=where, mend=_ITS_OWN)


def _digest(tensor: Tensor) -> bytes:
    data = tensor.detach().float().cpu().contiguous().numpy().tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()

"""Frozen backbones that compute features of images: of timm or transformers, or random patches of the images.

Networks of transformers (``--backbone hf:NAME_OR_FOLDER``) are safetensors, and no code of a checkpoint runs. Of a
model of images and texts (CLIP, SigLIP) the vision part alone computes. The vector of an image is the model's own: the
embedding that CLIP compares with texts, or else the pooled output. Without one, or without its weights, it is the mean
of the last hidden states over all positions.

Random patches: Coates, Lee and Ng, "An analysis of single-layer networks in unsupervised feature learning", AISTATS
2011, sections 3 and 4: patches of 6 x 6 pixels, normalised in contrast and whitened; as many random ones of them for a
dictionary; triangle activation; pooled over the quarters of an image. Drawn scenes have few kinds of things, which such
patches tell apart better than a random network. Photographs need a pretrained encoder.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, unfold

from judge.errors import JudgeError, require
from judge.judges import Materials
from judge.judges.hf_models import find
from judge.judges.names import HUGGING_FACE, PATCHES
from judge.utils.hub import explaining, load_image_processor, load_with_notes, quiet, quiet_hub
from judge.utils.identity import content_of, content_of_tensors
from judge.utils.parallel import threads
from judge.utils.reading import memory_limit, opening, read_bytes

if TYPE_CHECKING:
    from judge.masking.instances import Pixels

Colours = npt.NDArray[np.float32]
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
_OTHER = "choose a vision encoder: CLIP, SigLIP, DINOv2, ViT, Swin, ConvNeXt"
_RESIZED = "interpolate_pos_encoding"
_SIDE, _STRIDE, _QUARTERS = 6, 2, 2
_DICTIONARY, _IMAGES, _FROM_EACH, _PATCHED_SIZE = 256, 256, 64, 96
_LEARNT = "mean", "whitening", "dictionary"
# These are for pixels in [0, 1]. The paper has 10 for pixels in [0, 255], and 0.1 for whitened contrasts.
_CONTRAST, _WHITENING = 10 / 255**2, 0.1


class _Squares(nn.Module):
    """Base of the backbones: their input are square images of ``size`` pixels, S.

    ``colours``: mean and standard deviation of those in its training, in [0, 1].
    """

    regions = 0
    key: str
    size: int
    colours: tuple[Colours | float, Colours | float] = (0.0, 1.0)

    def prepare(self, pixels: Pixels) -> Tensor:
        """An image [H, W, 3] uint8 as [3, S, S] float32; resized to a square, not cropped."""
        return _prepared(pixels, self.size, *self.colours)


def _prepared(pixels: Pixels, size: int, mean: Colours | float = 0.0, std: Colours | float = 1.0) -> Tensor:
    import cv2

    way = cv2.INTER_AREA if max(pixels.shape[:2]) > size else cv2.INTER_LINEAR
    square = np.asarray(cv2.resize(pixels, (size, size), interpolation=way), dtype=np.float32) / np.float32(255)
    return torch.from_numpy(np.ascontiguousarray(((square - mean) / std).transpose(2, 0, 1)))


class TimmBackbone(_Squares):
    """The last feature map of a timm network made with ``features_only=True``: [B, 3, S, S] -> [B, P, D].

    Of another network its pooled vector, with P = 1, by the network's own way of pooling, such as SigLIP's attention.
    """

    margin = 0.0

    def __init__(self, network: Any, key: str, *, size: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network, self.size = network.eval().requires_grad_(requires_grad=False), size
        self.colours = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
        self.key = f"{key} at {size}"

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


class VisionEncoder(_Squares):
    """A vision encoder: [B, 3, S, S] -> its vector of each image, [B, 1, D], or its last hidden states, [B, P, D].

    Args:
        network: a model of transformers.
        processor: its image processor, which says how the colours of its training were scaled.
        key: its content.
        size: S; None for the processor's.
        pooled: whether its output is one vector for each image.
        pools: whether the weights of its own pooling are known.
    """

    def __init__(
        self, network: Any, processor: Any, key: str, *, size: int | None, pooled: bool, pools: bool = True
    ) -> None:
        super().__init__()
        self.network, self.pooled, self.pools = network.eval().requires_grad_(requires_grad=False), pooled, pools
        self.compute = getattr(network, "get_image_features", network.forward)
        # Tables of positions are for the size of the training.
        resized = size is not None and _RESIZED in inspect.signature(self.compute).parameters
        self.options = {_RESIZED: True} if resized else {}
        self.config = getattr(network.config, "vision_config", network.config)
        cropped = getattr(processor, "do_center_crop", False) and processor.crop_size
        sides = dict(cropped or getattr(processor, "size", None) or {})
        known = (sides[name] for name in ("height", "shortest_edge", "longest_edge") if name in sides)
        self.size = size or int(next(known, _SIZE))
        scale = 255 * processor.rescale_factor if processor.do_rescale else 255
        mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else (0, 1)
        scaled = [np.array(of, dtype=np.float32) / np.float32(scale) for of in (mean, std)]
        self.colours = scaled[0], scaled[1]
        self.key = f"{key} {'pooled' if pooled else 'positions'} at {self.size}"

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, P, D], positions row by row."""
        found = self.compute(pixel_values=images, **self.options)
        states: Tensor = found.last_hidden_state
        own: Tensor | None = getattr(found, "pooler_output", None) if self.pools else None
        if states.ndim == 4 and states.shape[2] == states.shape[3]:  # [B, D, H, W] of a convolutional network.
            states = states.flatten(2).transpose(1, 2)
        if states.ndim != 3 or (own is not None and own.ndim == 3):
            raise ValueError(f"its states are {states.ndim}-dimensional, or it pools into several vectors")
        if not self.pooled:
            return self._grid(states)
        return (states.mean(dim=1) if own is None else own.flatten(1))[:, None]

    def _grid(self, states: Tensor) -> Tensor:
        """The states of the image's cells, without those of other tokens, which come first."""
        patch, positions = getattr(self.config, "patch_size", None), states.shape[1]
        cells = (self.size // patch) ** 2 if isinstance(patch, int) else positions
        cells = cells if cells <= positions else positions  # Swin's last layers have fewer cells than patches.
        others = 2 + getattr(self.config, "num_register_tokens", 0)
        if positions - cells > others or isqrt(cells) ** 2 != cells:
            raise ValueError(f"its {positions} positions are no square grid")
        return states[:, -cells:]


class RandomPatches(_Squares):
    """[B, 3, S, S] -> [B, 4, D]: how near a quarter's patches are to each of D patches of the dictionary."""

    margin = (_SIDE - _STRIDE) / 2
    """Pixels of the input at each edge in which no patch has its centre."""
    mean: Tensor
    whitening: Tensor
    dictionary: Tensor

    def __init__(self, learnt: Mapping[str, Tensor], size: int) -> None:
        super().__init__()
        self.size, self.learnt = size, {name: tensor.numpy() for name, tensor in learnt.items()}
        for name, tensor in learnt.items():
            self.register_buffer(name, tensor)
        self.key = f"{PATCHES} {content_of_tensors(dict(self.named_buffers()))} at {size}"

    @classmethod
    def of(cls, materials: Materials) -> RandomPatches:
        """The encoder of a run's images, or of those that a trained judge learnt from.

        Raises:
            JudgeError: there are no images.
        """
        size = materials.image_size or _PATCHED_SIZE
        if materials.patches:
            return cls({name: torch.from_numpy(materials.patches[name]) for name in _LEARNT}, size)
        if materials.images is None:
            what, mend = "random patches are of a run's images, and there are none", "give --images"
            raise JudgeError(what, where=f"--backbone {PATCHES}", mend=mend)
        names, draws = sorted(materials.images.names), np.random.default_rng(0)
        found = []
        for place in draws.permutation(len(names))[:_IMAGES]:
            pixels = _prepared(materials.images.read(names[place]), size)
            patches = _patches(pixels[None])[0]
            found.append(patches[draws.permutation(len(patches))[:_FROM_EACH]])
        with threads(1):  # All processes of a launch have the same encoder, to the last digit.
            patches = _normalised(torch.cat(found))
            centred = patches - patches.mean(dim=0)
            values, axes = torch.linalg.eigh((centred.T @ centred / len(patches)).double())
            whitening = ((axes / (values + _WHITENING).sqrt()) @ axes.T).float()
            chosen = torch.randperm(len(patches), generator=torch.Generator().manual_seed(0))[:_DICTIONARY]
            learnt = patches.mean(dim=0), whitening, (centred @ whitening)[chosen]
        return cls(dict(zip(_LEARNT, learnt, strict=True)), size)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, 4, D], quarters row by row."""
        return self.pool(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, D, g, g]: how near each patch is to those of the dictionary."""
        whitened = (_normalised(_patches(images)) - self.mean) @ self.whitening
        distances = torch.cdist(whitened, self.dictionary.expand(len(images), -1, -1))
        near = (distances.mean(dim=2, keepdim=True) - distances).clamp(min=0)
        side = (self.size - _SIDE) // _STRIDE + 1
        return near.transpose(1, 2).reshape(len(images), -1, side, side)

    def pool(self, maps: Tensor) -> Tensor:
        """[B, D, g, g] -> [B, 4, D]: means over quarters."""
        return adaptive_avg_pool2d(maps, _QUARTERS).flatten(2).transpose(1, 2)


def _patches(images: Tensor) -> Tensor:
    """[B, 3, S, S] -> [B, P, 108]."""
    return unfold(images, _SIDE, stride=_STRIDE).transpose(1, 2)


def _normalised(patches: Tensor) -> Tensor:
    """Patches of mean 0 and about equal contrast."""
    centred = patches - patches.mean(dim=-1, keepdim=True)
    return centred / (centred.var(dim=-1, keepdim=True) + _CONTRAST).sqrt()


def make_backbone(
    materials: Materials, default: str, *, pooled: bool = False
) -> TimmBackbone | RandomPatches | VisionEncoder:
    """The backbone that ``materials`` names, or ``default``; judges of all seeds have the same random weights.

    ``pooled``: one vector for each image, in place of one for each position.

    Raises:
        JudgeError: timm has no such network; its weights cannot be downloaded or read, or do not fit; timm is missing.
            As :func:`load_vision_encoder`, of a network of transformers.
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


def load_vision_encoder(reference: str, where: str, *, size: int | None, pooled: bool) -> VisionEncoder:
    """The vision encoder in a folder, or of a name on the hub.

    ``where``: what users typed to name it; ``size``: side of its input in pixels, None for that of its image processor;
    ``pooled``: one vector for each image, in place of one for each position.

    Raises:
        JudgeError: no such folder or name; no encoder of images; needs code of its own; no or broken safetensors; its
            image processor is missing or does more than scale colours; it does not take this size; it draws numbers
            at random; its positions are no square grid, where these are wanted.
    """
    name = find(reference, where, _sees, "reads no images", _OTHER)
    import transformers

    with quiet():
        network, unsaved = load_with_notes(transformers.AutoModel, name, where, dtype=torch.float32)
        processor = load_image_processor(name, where)
        pools = not any("pooler" in weight and not weight.startswith("text_") for weight in unsaved)
        key = f"transformers {transformers.__version__} {content_of(reference, where=where)}"
        with explaining("its image processor cannot be used", where, _OTHER):
            made = VisionEncoder(network, processor, key, size=size, pooled=pooled, pools=pools)
            noise = np.random.default_rng(0).integers(0, 256, (made.size, made.size, 3), dtype=np.uint8)
            kept: dict[str, Any] = {"do_resize": False, "do_center_crop": False, "input_data_format": "channels_last"}
            [own] = processor(images=noise, return_tensors="pt", **kept)["pixel_values"]
            if not torch.allclose(image := made.prepare(noise), own, atol=1e-4):
                raise ValueError("it does more than resize images and scale their colours")
        what = "it does not turn an image into " + ("a vector" if pooled else "positions that this judge can read")
        fault = (f"it does not take images of {size} pixels", "--image-size", "leave it out") if size else None
        with explaining(*(fault or (what, where, _OTHER))), torch.inference_mode():
            first, second = made(image[None]), made(image[None])
    if not torch.equal(first, second):
        raise JudgeError("it gives an image other vectors each time (as ViT-MAE does)", where=where, mend=_OTHER)
    return made


def _sees(kind: str) -> bool:
    """Whether transformers' base model of this architecture takes images."""
    from transformers import CONFIG_MAPPING, MODEL_MAPPING

    made = MODEL_MAPPING.get(CONFIG_MAPPING[kind], None)
    return made is not None and "pixel_values" in inspect.signature(getattr(made, "forward", len)).parameters

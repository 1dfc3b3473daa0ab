"""Frozen networks that turn pictures into features: timm's, by any name."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from judge.errors import JudgeError, require
from judge.judges import Materials
from judge.utils.hub import first_line

if TYPE_CHECKING:
    from judge.masking.instances import Pixels

RANDOM, PRETRAINED = "random", "pretrained"
# With the tag of their weights: what timm takes for a bare name changes with its releases, and scores would with it.
# The ResNets' are torchvision's first, as the public codes of SAT and LIC took them.
RESNET101, RESNET50, SWIN = "resnet101.tv_in1k", "resnet50.tv_in1k", "swin_base_patch4_window12_384.ms_in22k_ft_in1k"
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SIZE = 224
_MOST = 0.9
_HEAD, _SPARE = 8, 0.25  # Weights of a file that may go unused: of a classifier, of tables that are resized.
_ITS_OWN = "give weights of the network that --backbone names"
_SEED = 0  # Of random weights: judges of all seeds see the same features.


class TimmBackbone(nn.Module):
    """The last feature map of a timm network: [B, 3, S, S] -> [B, P, D].

    Args:
        network: a timm model made with ``features_only=True``.
        key: what its features depend on.
        size: S.
        mean, std: of the colours that it was trained with, in [0, 1].
    """

    def __init__(self, network: Any, key: str, *, size: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network, self.size = network.eval().requires_grad_(requires_grad=False), size
        self.mean, self.std = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
        self.key = f"{key} at {size}"

    def prepare(self, pixels: Pixels) -> Tensor:
        """A picture [H, W, 3] uint8 as [3, S, S] float32; squeezed to a square, so that no border is lost."""
        import cv2

        smaller = max(pixels.shape[:2]) > self.size
        way = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
        square = cv2.resize(pixels, (self.size, self.size), interpolation=way).astype(np.float32) / 255
        return torch.from_numpy(np.ascontiguousarray(((square - self.mean) / self.std).transpose(2, 0, 1)))

    def forward(self, pictures: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, P, D], positions row by row."""
        features = self.network(pictures)[-1]
        # Swin and its like put the channels last.
        if getattr(self.network, "output_fmt", "NCHW") != "NHWC":  # EfficientNet and its like do not say.
            features = features.permute(0, 2, 3, 1)
        found: Tensor = features.flatten(1, 2)
        return found


def make_backbone(materials: Materials, default: str) -> TimmBackbone:
    """The backbone that ``materials`` names, or ``default``.

    Raises:
        JudgeError: timm has no such network; weights that cannot be fetched, read, or do not fit; timm is missing.
    """
    require("vision", "torch", "timm", "cv2")
    import timm

    name, weights = materials.backbone or default, materials.backbone_weights
    config = _config(name)
    kept = _read(Path(weights)) if weights not in {RANDOM, PRETRAINED} else None
    # Given as read: timm would unpickle a file of another suffix. (A name too, or it would fetch in place of none.)
    overlay = {"file": weights, "state_dict": dict(kept.tensors)} if kept else None
    size = materials.image_size or (config.input_size[1] if config else _SIZE)
    # Swin and its like are built for one size.
    sized: dict[str, Any] = {"img_size": size} if materials.image_size and config and config.fixed_input_size else {}
    with torch.random.fork_rng(devices=[]), _silent("timm", "huggingface_hub"):
        torch.manual_seed(_SEED)
        try:
            network = timm.create_model(
                name, pretrained=weights != RANDOM, pretrained_cfg_overlay=overlay, features_only=True, **sized
            )
        except Exception as error:  # The hub's client, the file system and timm each have errors of their own.
            if kept:
                what = f"its weights do not fit into '{name}' ({first_line(error)})"
                raise JudgeError(what, where=f"--backbone-weights {weights}", mend=_ITS_OWN) from error
            what = f"weights of '{name}' cannot be had ({first_line(error)})"
            mend = "give --backbone-weights FILE, or random"
            raise JudgeError(what, where="--backbone", mend=mend) from error
    if kept:
        _check(network, kept.tensors, weights)
    key = f"timm {timm.__version__} {name} {kept.fingerprint if kept else weights}"
    mean, std = (config.mean, config.std) if config else (IMAGENET_MEAN, IMAGENET_STD)
    backbone = TimmBackbone(network, key, size=size, mean=mean, std=std)
    if materials.image_size:
        _try(backbone, name)
    return backbone


def _config(name: str) -> Any:
    """What timm knows of a network's weights; None where it has none.

    Raises:
        JudgeError: timm has no such network, or not with these weights ("resnet50.a1_in1k").
    """
    import timm

    if not timm.is_model(name):
        close = get_close_matches(name.lower(), timm.list_models(), n=1)  # All of them would fill a screen.
        mend = f"did you mean '{close[0]}'?" if close else "see timm.list_models()"
        raise JudgeError(f"timm has no network '{name}'", where="--backbone", mend=mend)
    try:
        return timm.get_pretrained_cfg(name)
    except RuntimeError as error:
        stem, _, tag = name.partition(".")
        what = f"timm has no weights '{tag}' of '{stem}'"
        raise JudgeError(what, where="--backbone", mend=f"use '{stem}', or see timm.list_pretrained()") from error


@contextmanager
def _silent(*names: str) -> Iterator[None]:
    """No lines of these libraries beside our own."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in names}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _try(backbone: TimmBackbone, name: str) -> None:
    """Look at one black picture: timm refuses sizes only then.

    Raises:
        JudgeError: the network cannot.
    """
    try:
        with torch.inference_mode():
            backbone(torch.zeros(1, 3, backbone.size, backbone.size))
    except Exception as error:  # Assertions and torch's own.
        what = f"'{name}' cannot look at pictures of {backbone.size} pixels ({first_line(error)})"
        raise JudgeError(what, where="--image-size", mend="leave it out, or take a multiple of 32") from error


class _Kept(NamedTuple):
    tensors: dict[str, Tensor]
    fingerprint: str


def _read(path: Path) -> _Kept:
    """The tensors of a safetensors file, and the fingerprint of its bytes.

    Raises:
        JudgeError: unreadable, damaged, something else.
    """
    from safetensors.torch import load

    where = f"--backbone-weights {path}"
    try:
        data = path.read_bytes()
        tensors = load(data)
    except OSError as error:
        raise JudgeError(f"cannot be read ({error.strerror})", where=where, mend="check the path") from error
    except Exception as error:  # safetensors has an error of its own, from Rust.
        mend = "give a whole .safetensors file of timm's names"
        raise JudgeError("is no safetensors file, or damaged", where=where, mend=mend) from error
    return _Kept(tensors, hashlib.blake2b(data, digest_size=16).hexdigest())


def _check(network: nn.Module, tensors: dict[str, Tensor], weights: str) -> None:
    """Whether the file's weights are in the network: timm passes over what does not fit, and says nothing.

    By value, since timm renames some on the way; and not all, since it resizes tables of positions.

    Raises:
        JudgeError: they are of another network.
    """
    given = {_digest(tensor) for tensor in tensors.values()}
    own = list(network.parameters())
    found = sum(_digest(tensor) in given for tensor in own)
    if found < _MOST * len(own):
        what = f"only {found} of the network's {len(own)} weights are in it"
        raise JudgeError(what, where=f"--backbone-weights {weights}", mend=_ITS_OWN)
    # A deeper network's file (resnet34's for resnet18) holds all of a shallower one's names, and much beside.
    kept = {_digest(tensor) for tensor in network.state_dict().values()}
    numbers = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    spare = sum(_digest(tensor) not in kept for tensor in numbers)
    if spare > _HEAD + _SPARE * len(numbers):
        what = f"{spare} of the {len(numbers)} weights in it have no place in the network"
        raise JudgeError(what, where=f"--backbone-weights {weights}", mend=_ITS_OWN)


def _digest(tensor: Tensor) -> bytes:
    data = tensor.detach().float().cpu().contiguous().numpy().tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()

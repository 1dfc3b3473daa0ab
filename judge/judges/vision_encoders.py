"""Vision encoders of transformers as frozen backbones: ``--backbone hf:NAME_OR_FOLDER``.

Of a model of images and texts (CLIP, SigLIP) the vision part alone computes. Weights are safetensors, and no code of a
checkpoint runs. The vector of an image is the model's own: the embedding that CLIP compares with texts, or else the
pooled output. A model may have no pooled output, or a checkpoint may lack the weights for it; the vector is then the
mean of the last hidden states over all positions.
"""

from __future__ import annotations

import inspect
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges.hf_models import find
from judge.judges.patches import prepared
from judge.utils.hub import explaining, load_image_processor, load_with_notes, quiet
from judge.utils.identity import content_of

if TYPE_CHECKING:
    from judge.masking.instances import Pixels

_SIZE = 224
_OTHER = "choose a vision encoder: CLIP, SigLIP, DINOv2, ViT, Swin, ConvNeXt"
_RESIZED = "interpolate_pos_encoding"


class VisionEncoder(nn.Module):
    """A vision encoder: [B, 3, S, S] -> its vector of each image, [B, 1, D], or its last hidden states, [B, P, D].

    Args:
        network: a model of transformers.
        processor: its image processor, which says how the colours of its training were scaled.
        key: its content.
        size: S; None for the processor's.
        pooled: whether its output is one vector for each image.
        pools: whether the weights of its own pooling are known.
    """

    regions = 0

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
        self.mean, self.std = (np.array(of, dtype=np.float32) / np.float32(scale) for of in (mean, std))
        self.key = f"{key} {'pooled' if pooled else 'positions'} at {self.size}"

    def prepare(self, pixels: Pixels) -> Tensor:
        """An image [H, W, 3] uint8 as [3, S, S] float32; resized to a square, not cropped."""
        return prepared(pixels, self.size, self.mean, self.std)

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


def load_vision_encoder(reference: str, where: str, *, size: int | None, pooled: bool) -> VisionEncoder:
    """The vision encoder in a folder, or of a name on the hub.

    Args:
        reference: the folder or the name.
        where: what users typed to name it.
        size: side of its input in pixels; None for that of its image processor.
        pooled: one vector for each image, in place of one for each position.

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

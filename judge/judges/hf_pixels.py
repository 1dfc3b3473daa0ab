"""Pictures as a Hugging Face captioner's image processor resizes them, kept for all judges, epochs and sides.

What is kept is what the processor makes of a picture before it rescales and normalises: bytes, a quarter of what the
network gets. The rest is done where the network is. Processors of which that is not exactly the whole, or that make
tensors of many shapes (Qwen2-VL), see every picture anew.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from judge.errors import JudgeError
from judge.judges.hf_models import Captioner, load_processors
from judge.masking.instances import Pixels

PIXELS = "pixel_values"
_PROBES = (48, 64), (96, 40)


class PictureProcessor:
    """Resizes and crops pictures as a captioner's image processor does.

    Args:
        images: the image processor.
    """

    def __init__(self, images: Any) -> None:
        self.images = images
        content = f"{type(images).__name__} {sorted(images.to_dict().items(), key=str)}"
        self.key = f"{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()} {version('transformers')}"

    def prepare(self, pixels: Pixels) -> Tensor:
        """A picture [H, W, 3] uint8 -> [3, S, S] uint8."""
        made = self.images(Image.fromarray(pixels), do_rescale=False, do_normalize=False, return_tensors="pt")
        found: Tensor = made[PIXELS][0]
        return found

    def is_exact(self) -> bool:
        """Whether pictures of any size become tensors of one shape, and normalising them later is the same."""
        noise = np.random.default_rng(0)
        found = []
        try:
            for size in _PROBES:
                picture = noise.integers(0, 256, (*size, 3), dtype=np.uint8)
                whole = self.images(Image.fromarray(picture), return_tensors="pt")
                kept = self.prepare(picture)
                exact = [*whole] == [PIXELS] and kept.dtype == torch.uint8
                found.append(exact and torch.equal(normalise(self.images, kept[None]), whole[PIXELS]) and kept.shape)
        except Exception:  # Image processors have no error of their own.
            return False
        return bool(found[0]) and found[0] == found[1]


def normalise(images: Any, pixels: Tensor) -> Tensor:
    """[B, 3, S, S] uint8 -> float32 as the network takes it, by the image processor's own settings; on any device."""
    found: Tensor = images.rescale_and_normalize(
        pixels, images.do_rescale, images.rescale_factor, images.do_normalize, images.image_mean, images.image_std
    )
    return found


def make_processor(reference: str) -> PictureProcessor | None:
    """That of a checkpoint; None where its pictures cannot be kept, or cannot be had: its judge then says why."""
    try:
        processor = PictureProcessor(load_processors(reference)[1])
    except JudgeError:
        return None
    return processor if processor.is_exact() else None


class _Kept:
    """An image processor that has seen the pictures already."""

    def __init__(self, images: Any, pixels: Tensor) -> None:
        self._images, self._pixels = images, pixels

    def __call__(self, *_: object, **__: object) -> Mapping[str, Tensor]:
        from transformers import BatchFeature

        found: Mapping[str, Tensor] = BatchFeature({PIXELS: self._pixels})
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._images, name)


def with_pixels(captioner: Captioner, pixels: Tensor) -> Captioner:
    """The captioner, whose processors take ``pixels`` [B, 3, S, S] for what any pictures become."""
    images = _Kept(captioner.images, pixels)
    processor = copy.copy(captioner.processor)
    if processor is not None:
        processor.image_processor = images
    return replace(captioner, images=images, processor=processor)

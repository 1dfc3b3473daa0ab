"""Features of images by random patches of the same images: an encoder without weights.

Source: Coates, Lee and Ng, "An analysis of single-layer networks in unsupervised feature learning", AISTATS 2011,
sections 3 and 4: patches of 6 x 6 pixels, normalised in contrast and whitened; as many random ones of them for a
dictionary; triangle activation; pooled over the quarters of an image. Drawn scenes have few kinds of things, which such
patches tell apart better than a random network. Photographs need a pretrained encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, unfold

from judge.errors import JudgeError
from judge.judges import PATCHES
from judge.utils.identity import content_of_tensors
from judge.utils.parallel import threads

if TYPE_CHECKING:
    from judge.judges import Materials
    from judge.masking.instances import Pixels

_SIDE, _STRIDE, _QUARTERS = 6, 2, 2
_DICTIONARY, _IMAGES, _FROM_EACH = 256, 256, 64
_SIZE = 96
_LEARNT = "mean", "whitening", "dictionary"
# These are for pixels in [0, 1]. The paper has 10 for pixels in [0, 255], and 0.1 for whitened contrasts.
_CONTRAST, _WHITENING = 10 / 255**2, 0.1
Colours = npt.NDArray[np.float32]


class RandomPatches(nn.Module):
    """[B, 3, S, S] -> [B, 4, D]: how near a quarter's patches are to each of D patches of the dictionary."""

    regions = 0
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
        size = materials.image_size or _SIZE
        if materials.patches:
            return cls({name: torch.from_numpy(materials.patches[name]) for name in _LEARNT}, size)
        if materials.images is None:
            what, mend = "random patches are of a run's images, and there are none", "give --images"
            raise JudgeError(what, where=f"--backbone {PATCHES}", mend=mend)
        names, draws = sorted(materials.images.names), np.random.default_rng(0)
        found = []
        for place in draws.permutation(len(names))[:_IMAGES]:
            pixels = prepared(materials.images.read(names[place]), size)
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

    def prepare(self, pixels: Pixels) -> Tensor:
        """An image [H, W, 3] uint8 as [3, S, S] float32; resized to a square, not cropped."""
        return prepared(pixels, self.size)

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


def prepared(pixels: Pixels, size: int, mean: Colours | float = 0.0, std: Colours | float = 1.0) -> Tensor:
    """An image [H, W, 3] uint8 as [3, S, S] float32: resized, not cropped.

    ``mean`` and ``std`` are those of the colours, in [0, 1].
    """
    import cv2

    way = cv2.INTER_AREA if max(pixels.shape[:2]) > size else cv2.INTER_LINEAR
    square = np.asarray(cv2.resize(pixels, (size, size), interpolation=way), dtype=np.float32) / np.float32(255)
    return torch.from_numpy(np.ascontiguousarray(((square - mean) / std).transpose(2, 0, 1)))


def _patches(images: Tensor) -> Tensor:
    """[B, 3, S, S] -> [B, P, 108]."""
    return unfold(images, _SIDE, stride=_STRIDE).transpose(1, 2)


def _normalised(patches: Tensor) -> Tensor:
    """Patches of mean 0 and about equal contrast."""
    centred = patches - patches.mean(dim=-1, keepdim=True)
    return centred / (centred.var(dim=-1, keepdim=True) + _CONTRAST).sqrt()

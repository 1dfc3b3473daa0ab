"""Tensors that a captioner's image processor makes of one image, to be cached, and joined to a batch again.

A processor of text and images is a function of its text and of what its image processor returns. It is called as
always, with an image processor that returns tensors which are there already. Families pad, cut and count images in
different ways: whether a batch is the same to the bit is tried for each checkpoint, on images of several sizes.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from typing import Any

import numpy as np
import torch
from accelerate.utils.operations import recursively_apply
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

from judge.judges.hf_models import Captioner
from judge.judges.hf_prompts import Prompts, blank, lay_out, processing

# What decides the pixels besides an image and the processor's settings.
_PACKAGES = ("transformers", "torch", "torchvision", "pillow")
# Height and width. Families group images of one size, and cut long ones into more tiles.
_PROBES = (480, 640), (200, 300), (480, 640), (640, 320)
_TEXTS = ("a", "a dog", "a dog rides a dog", "")


class _Instead:
    """An image processor that calls another function; everything else is its own."""

    def __init__(self, images: Any, call: Callable[..., Any]) -> None:
        self._images, self._call = images, call

    def __call__(self, *given: Any, **settings: Any) -> Any:
        return self._call(*given, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._images, name)


class CaptionerProcessor:
    """A captioner's image processor, called for one image as the captioner's processor calls it for a batch.

    Raises:
        ValueError: the processor does not call it exactly once, or it does not return tensors by name.
    """

    def __init__(self, captioner: Captioner) -> None:
        self.captioner, self._blank = captioner, blank()
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        def call(*given: Any, **settings: Any) -> Any:
            calls.append((given, settings))
            return captioner.images(*given, **settings)

        lay_out(_with_images(captioner, call), [self._blank], [_TEXTS[0]])
        (self._call,) = calls
        parts = [part for part in (captioner.images, captioner.processor) if part is not None]
        settings = [f"{type(part).__name__} {sorted(part.to_dict().items(), key=str)}" for part in parts]
        versions = [version(package) for package in _PACKAGES]
        content = repr((settings, sorted(self._call[1].items(), key=str), versions))
        self.key = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def prepare(self, image: Image.Image, name: str = "") -> dict[str, Any]:
        """Tensors, and lists of numbers, of an RGB image, by the names that the image processor gives them."""
        with processing(f"image '{name}'"):
            given, settings = recursively_apply(
                lambda _: image, self._call, test_type=lambda value: isinstance(value, Image.Image)
            )
            return dict(self.captioner.images(*given, **settings))

    def lay_out(self, made: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> Prompts:
        """As :func:`~judge.judges.hf_prompts.lay_out`, of images that :meth:`prepare` prepared."""
        from transformers import BatchFeature

        joined = _join(made)
        captioner = _with_images(self.captioner, lambda *_, **__: BatchFeature(dict(joined)))
        return lay_out(captioner, [self._blank] * len(texts), texts)

    def is_exact(self) -> bool:
        """Whether batches of images that were prepared, and stored, one by one are those of the images themselves."""
        noise = np.random.default_rng(0)
        shown = [Image.fromarray(noise.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in _PROBES]
        try:
            made = [_as_stored(self.prepare(image)) for image in shown]
            pairs = [
                (self.lay_out(made[:size], _TEXTS[:size]), lay_out(self.captioner, shown[:size], _TEXTS[:size]))
                for size in (1, len(shown))
            ]
            return all(
                found.rows == expected.rows
                and found.shared.keys() == expected.shared.keys()
                and all(_equal(tensor, expected.shared[name]) for name, tensor in found.shared.items())
                for found, expected in pairs
            )
        except Exception:  # Of a library: processors have no error of their own.
            return False


def open_processor(captioner: Captioner) -> CaptionerProcessor | None:
    """The image processor of a captioner if its tensors can be cached; else None."""
    try:
        found = CaptionerProcessor(captioner)
    except Exception:  # Of a library, too.
        return None
    return found if found.is_exact() else None


def _with_images(captioner: Captioner, call: Callable[..., Any]) -> Captioner:
    """The captioner, whose image processor is ``call``."""
    images, processor = _Instead(captioner.images, call), copy.copy(captioner.processor)
    if processor is not None:
        processor.image_processor = images
    return replace(captioner, images=images, processor=processor)


def _as_stored(made: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors through numpy, and lists through JSON; raises TypeError for what cannot be stored."""
    return {
        name: torch.from_numpy(value.numpy()) if isinstance(value, Tensor) else json.loads(json.dumps(value))
        for name, value in made.items()
    }


def _join(made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Tensors of several images in a row, padded with zeros at the end to one shape; lists one after another."""
    joined = dict[str, Any]()
    for name in made[0]:
        values = [one[name] for one in made]
        if isinstance(values[0], Tensor):
            most = torch.tensor([value.shape[1:] for value in values]).amax(dim=0).tolist()
            joined[name] = torch.cat([_extend(value, most) for value in values])
        else:
            joined[name] = list(chain.from_iterable(values))
    return joined


def _extend(value: Tensor, shape: Sequence[int]) -> Tensor:
    """[N, ...] -> [N, *shape], with zeros at the end of each dimension."""
    missing = [most - size for most, size in zip(shape, value.shape[1:], strict=True)]
    return pad(value, [number for more in reversed(missing) for number in (0, more)]) if any(missing) else value


def _equal(found: Tensor, expected: Tensor) -> bool:
    """Whether two tensors have the same numbers, in the same order in memory, which kernels depend on."""
    return found.dtype == expected.dtype and found.stride() == expected.stride() and torch.equal(found, expected)

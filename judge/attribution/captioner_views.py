"""Captioners of transformers as functions of an image.

The grid is what the vision tower passes on to the text part: the last hidden states (BLIP, BLIP-2 before its Q-Former,
GIT, ViT-GPT2, PaliGemma, Florence-2's last map), those of the layer that LLaVA's configuration names, Qwen-VL's patches
merged two by two. Tokens before the patches ([CLS]) are left out. The position of the input in the image is measured
with the model's own image processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from judge.attribution.maps import Placement, View, fitted, log_odds, ramps, sum_colours
from judge.errors import JudgeError
from judge.judges.hf_models import PIXELS, Captioner
from judge.judges.huggingface import AnswerJudge
from judge.masking.instances import Box, Pixels
from judge.types import FloatArray, Sample, Target
from judge.utils.hub import quiet

# Numbers of tokens before an image's patches: none, [CLS], [CLS] and a distillation token, [CLS] and four registers.
_OTHERS = (0, 1, 2, 5)
_INSTEAD = "choose --method gradient-shap"


class CheckpointViews:
    """The vision tower's grid and the image processor's placement, which judges and captioners share.

    Args:
        captioner: in evaluation mode; gradients of its weights are switched off.
        device: to compute on.
        where: how the user named it, for messages.
    """

    def __init__(self, captioner: Captioner, device: torch.device, where: str) -> None:
        self.captioner, self.device, self.where = captioner, device, where
        captioner.model.to(device).eval().requires_grad_(requires_grad=False)
        self._placements: dict[tuple[int, int], Placement] = {}

    def make(self, pixels: Pixels, shared: Mapping[str, Tensor], score: Callable[[Tensor], Tensor]) -> View:
        """The view of an image, from its processor's tensors and a function from one input to its scores [1, A]."""
        shown = self._input(shared[PIXELS])
        raster = partial(self._raster, pieces=shared.get("image_grid_thw"))
        placement = self._find_placement((pixels.shape[0], pixels.shape[1]), raster)

        def scores(inputs: Tensor) -> Tensor:
            # One at a time, as other inputs of the model would have to be repeated in ways that differ by family.
            return torch.cat([score(one.flatten(0, 1) if one.dim() == 3 else one) for one in torch.split(inputs, 1)])

        def grid(answer: int) -> tuple[Tensor, Tensor]:
            return self._grid(lambda: scores(shown)[0, answer], placement.shown)

        return View(shown, scores, grid, raster, placement, lambda other: self._show([other]))

    def _show(self, images: Sequence[Pixels]) -> Tensor:
        """[N, ...]; images of one size."""
        with quiet():
            made = self.captioner.images([Image.fromarray(one) for one in images], return_tensors="pt")[PIXELS]
        return self._input(made, len(images))

    def _input(self, made: Tensor, images: int = 1) -> Tensor:
        # Qwen-VL's processor puts the patches of all images in one row.
        split = made.view(images, -1, made.shape[1]) if made.dim() == 2 else made
        if split.dim() not in {3, 4}:
            raise self._refusal(f"its processor turns an image into {tuple(made.shape)}, which has no map yet")
        return split.to(self.device).float()

    def _raster(self, values: Tensor, pieces: Tensor | None = None) -> FloatArray:
        """[3, h, w] -> [h, w]; Qwen-VL's patches [n, 3 * frames * p * p] -> the image that they are cut from."""
        if values.dim() == 3:
            return sum_colours(values)
        assert pieces is not None
        patch, merged = self.captioner.images.patch_size, self.captioner.images.merge_size
        _, high, wide = map(int, pieces[0])
        # Patches are ordered by groups that are merged, and row by row within a group.
        parts = values.reshape(len(values), -1, patch, patch).sum(dim=1)
        parts = parts.view(-1, high // merged, wide // merged, merged, merged, patch, patch).sum(dim=0)
        return sum_colours(parts.permute(0, 2, 4, 1, 3, 5).reshape(1, high * patch, wide * patch))

    def _find_placement(self, size: tuple[int, int], raster: Callable[[Tensor], FloatArray]) -> Placement:
        if size not in self._placements:
            found = fitted(size, np.stack([raster(one) for one in self._show(ramps(size))]))
            if found is None:
                raise self._refusal("its processor does more to an image than resize, crop and pad it")
            self._placements[size] = found
        return self._placements[size]

    def _refusal(self, what: str, mend: str = "choose another captioner") -> JudgeError:
        what = f"maps of a '{self.captioner.architecture}' model cannot be made: {what}"
        return JudgeError(what, where=self.where, mend=mend)

    def _grid(self, score: Callable[[], Tensor], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The one output of the vision tower that the score depends on, and the score's gradient, both [D, g, k]."""
        try:
            tower = self.captioner.vision
        except JudgeError as error:
            raise self._refusal(error.what, mend=_INSTEAD) from error
        leaves: list[Tensor] = []

        def make_leaf(tensor: Tensor) -> Tensor:
            leaves.append(tensor.detach().clone().requires_grad_())
            return leaves[-1]

        # The tower is frozen: its outputs have gradients only as leaves.
        hook = tower.register_forward_hook(lambda _, __, output: _replaced(output, make_leaf))
        try:
            value = score()
        finally:
            hook.remove()
        gradients = torch.autograd.grad(value, leaves, allow_unused=True)
        used = [(leaf, slope) for leaf, slope in zip(leaves, gradients, strict=True) if slope is not None]
        if len(used) != 1:
            raise self._refusal(f"its vision tower passes on {len(used)} grids", mend=_INSTEAD)
        leaf, slope = used[0]
        return self._cells(leaf, size), self._cells(slope, size)

    def _cells(self, values: Tensor, size: tuple[int, int]) -> Tensor:
        """One image's map [1, D, g, k], tokens [1, T, D] or merged patches [T, D] as a grid [D, g, k]."""
        if values.dim() == 4:
            return values[0]
        tokens = values.reshape(-1, values.shape[-1])
        high, wide = self._layout(len(tokens), size)
        return tokens[len(tokens) - high * wide :].T.reshape(-1, high, wide)

    def _layout(self, tokens: int, size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of a vision tower's tokens, without those before the patches; ``size`` is the input's."""
        height, width = size
        for count in (tokens - others for others in _OTHERS if others < tokens):
            side = math.sqrt(height * width / count)
            high, wide = round(height / side), round(width / side)
            if high * wide == count:
                return high, wide
        raise self._refusal(f"the layout of its {tokens} visual tokens is unknown", _INSTEAD)


def _replaced(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A module's output with its floating-point tensors changed."""
    if isinstance(output, Tensor):
        return change(output) if output.is_floating_point() else output
    if isinstance(output, tuple | list):
        return type(output)(_replaced(one, change) for one in output)
    if isinstance(output, dict):  # All of transformers' outputs are.
        for name, one in list(output.items()):
            output[name] = _replaced(one, change)
    return output


class AnswerViews:
    """An ``hf:`` judge as a function of an image; scores are the log-odds of its answers.

    Args:
        network: the judge's.
        target: what the judge predicts.
        device, where: as for :class:`CheckpointViews`.
    """

    def __init__(self, network: AnswerJudge, target: Target, device: torch.device, where: str) -> None:
        self.network, self.target = network, target
        self.common = CheckpointViews(network.captioner, device, where)

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:  # noqa: ARG002 - for others
        """See :class:`~judge.attribution.judge_views.Views`."""
        from accelerate.utils import send_to_device

        batch = send_to_device(self.network.collate([sample], [Image.fromarray(pixels)]), self.common.device)
        shared = batch["shared"]

        def score(shown: Tensor) -> Tensor:
            return log_odds(self.network({**batch, "shared": {**shared, PIXELS: shown}}), self.target)

        return self.common.make(pixels, shared, score)

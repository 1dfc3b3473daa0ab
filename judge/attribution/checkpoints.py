"""Pictures as captioners of transformers see them: judges (``hf:``), and captioners about their own words.

The grid is what the vision tower hands on to the part that reads and writes, whatever of its outputs that is: the last
hidden states (BLIP, BLIP-2 before its Q-Former, GIT, ViT-GPT2, PaliGemma, Florence-2's last map), those of the layer
that LLaVA's configuration names, Qwen-VL's patches merged by two and two. What stands before the patches ([CLS]) is
left out of it. Where the vision tower's numbers lie in the picture, its own image processor tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from judge.attribution.odds import log_odds
from judge.attribution.placement import Placement, fitted, ramps
from judge.attribution.views import View, sum_colours
from judge.errors import JudgeError
from judge.judges.hf_masks import masks_unseen
from judge.judges.hf_models import Captioner
from judge.judges.hf_pixels import PIXELS
from judge.judges.hf_prompts import go_on, lay_out, processing, usual_prompt
from judge.judges.huggingface import AnswerJudge
from judge.masking.instances import Box, Pixels
from judge.types import FloatArray, Sample, Target
from judge.utils.hub import quiet

Place = tuple[str | int, ...]
"""Keys that lead to a tensor in what a module returns."""

# Tokens before a picture's: none, [CLS], also that of distillation, also four registers.
_OTHERS = (0, 1, 2, 5)


class CheckpointViews:
    """What judges and captioners have in common: the vision tower's grid, and the image processor's doings.

    Args:
        captioner: in evaluation mode; its weights lose their gradients.
        device: to compute on.
        where: what users typed to name it, for messages.
    """

    def __init__(self, captioner: Captioner, device: torch.device, where: str) -> None:
        self.captioner, self.device, self.where = captioner, device, where
        captioner.model.to(device).eval().requires_grad_(requires_grad=False)
        self.grid = nn.Identity()
        self._placements: dict[tuple[int, int], Placement] = {}
        self._place: Place | None = None
        self._found: list[tuple[Place, Tensor]] | None = None
        # Of the scores that are being computed; no inputs where the captioner just writes.
        self._inputs, self._size = 0, (0, 0)

    def make(self, pixels: Pixels, shared: Mapping[str, Tensor], run: Callable[[Tensor], Tensor]) -> View:
        """The view of a picture, of what its processor made of it, and of how scores come of inputs like that."""
        shown = self._input(shared[PIXELS])
        raster = partial(self._raster, pieces=shared.get("image_grid_thw"))
        placement = self._find_placement((pixels.shape[0], pixels.shape[1]), raster)

        def scores(inputs: Tensor) -> Tensor:
            self._inputs, self._size = len(inputs), placement.shown
            try:
                return run(inputs.flatten(0, 1) if inputs.dim() == 3 else inputs)
            finally:
                self._inputs = 0

        return View(
            shown, scores, partial(self._find_grid, scores, shown), raster, placement, lambda other: self._show([other])
        )

    def _show(self, pictures: Sequence[Pixels]) -> Tensor:
        """[N, ...]; pictures of one size."""
        with quiet():
            made = self.captioner.images([Image.fromarray(one) for one in pictures], return_tensors="pt")[PIXELS]
        return self._input(made, len(pictures))

    def _input(self, made: Tensor, pictures: int = 1) -> Tensor:
        # Qwen-VL's patches, of all pictures in one row.
        split = made.view(pictures, -1, made.shape[1]) if made.dim() == 2 else made
        if split.dim() not in {3, 4}:
            what = f"its processor makes tensors of {tuple(made.shape)} of a picture, of which no map can be made yet"
            raise self._refusal(what)
        return split.to(self.device).float()

    def _raster(self, values: Tensor, pieces: Tensor | None = None) -> FloatArray:
        """[3, h, w] -> [h, w]; of Qwen-VL's patches [n, 3 * frames * p * p] the picture that they are cut from."""
        if values.dim() == 3:
            return sum_colours(values)
        assert pieces is not None
        images = self.captioner.images
        patch, merged = images.patch_size, images.merge_size
        _, high, wide = map(int, pieces[0])
        # As its processor lays them out: by groups that are merged, in each of them row by row.
        parts = values.reshape(len(values), -1, patch, patch).sum(dim=1)
        parts = parts.view(-1, high // merged, wide // merged, merged, merged, patch, patch).sum(dim=0)
        return sum_colours(parts.permute(0, 2, 4, 1, 3, 5).reshape(1, high * patch, wide * patch))

    def _find_placement(self, size: tuple[int, int], raster: Callable[[Tensor], FloatArray]) -> Placement:
        if size not in self._placements:
            import numpy as np

            shown = self._show(ramps(size))
            found = fitted(size, np.stack([raster(one) for one in shown]))
            if found is None:
                raise self._refusal("its processor does more to a picture than resize, crop and pad it")
            self._placements[size] = found
        return self._placements[size]

    def _refusal(self, what: str, mend: str = "choose another captioner") -> JudgeError:
        what = f"maps of a '{self.captioner.architecture}' model cannot be made: {what}"
        return JudgeError(what, where=self.where, mend=mend)

    # The vision tower's grid.

    def _find_grid(self, scores: Callable[[Tensor], Tensor], shown: Tensor) -> nn.Identity:
        """The module that passes it on; which of the tower's outputs it is, is found where gradients arrive."""
        if self._place is None:
            try:
                tower = self.captioner.vision
            except JudgeError as error:
                raise self._refusal(error.what, mend="choose --method gradient-shap") from error
            tower.register_forward_hook(self._pass_on)
            self._found = []
            # Of a weight of its own the tower's outputs are not aware: they are made leaves here.
            value = scores(shown).sum()
            found, self._found = self._found, None
            gradients = torch.autograd.grad(value, [tensor for _, tensor in found], allow_unused=True)
            used = [place for (place, _), of in zip(found, gradients, strict=True) if of is not None]
            if len(used) != 1:
                raise self._refusal(
                    f"its vision tower hands on {len(used)} grids", mend="choose --method gradient-shap"
                )
            self._place = used[0]
        return self.grid

    def _pass_on(self, _: nn.Module, __: object, output: Any) -> Any:
        if not self._inputs:
            return output
        if self._found is not None:
            return _replaced(output, (), self._leave)
        return _replaced(output, (), self._through) if self._place is not None else output

    def _leave(self, place: Place, tensor: Tensor) -> Tensor:
        assert self._found is not None
        leaf = tensor.detach().clone().requires_grad_()
        self._found.append((place, leaf))
        return leaf

    def _through(self, place: Place, tensor: Tensor) -> Tensor:
        """The grid [N, D, g, k] of a tensor goes through the module, and back into the tensor's own shape."""
        if place != self._place:
            return tensor
        if tensor.dim() == 4:
            whole: Tensor = self.grid(tensor)
            return whole
        tokens = tensor.reshape(self._inputs, -1, tensor.shape[1]) if tensor.dim() == 2 else tensor
        high, wide = self._layout(tokens.shape[1])
        others = tokens.shape[1] - high * wide
        cells = tokens[:, others:].transpose(1, 2)
        grid = self.grid(cells.reshape(*cells.shape[:2], high, wide))
        passed = torch.cat([tokens[:, :others], grid.flatten(2).transpose(1, 2)], dim=1)
        return passed.reshape(tensor.shape)

    def _layout(self, tokens: int) -> tuple[int, int]:
        """Rows and columns of a vision tower's tokens; those before them are no part of the picture."""
        height, width = self._size
        for count in (tokens - others for others in _OTHERS if others < tokens):
            side = math.sqrt(height * width / count)
            high, wide = round(height / side), round(width / side)
            if high * wide == count:
                return high, wide
        raise self._refusal(
            f"how its {tokens} visual tokens lie in the picture is not known", "choose --method gradient-shap"
        )


def _replaced(output: Any, place: Place, change: Callable[[Place, Tensor], Tensor]) -> Any:
    """What a module returned, its floating-point tensors changed."""
    if isinstance(output, Tensor):
        return change(place, output) if output.is_floating_point() else output
    if isinstance(output, tuple | list):
        return type(output)(_replaced(one, (*place, number), change) for number, one in enumerate(output))
    if isinstance(output, dict):  # As all of transformers' are.
        for name, one in list(output.items()):
            output[name] = _replaced(one, (*place, name), change)
    return output


class _Fixed:
    """A picture in place of a folder of them."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels

    def read(self, _: str) -> Pixels:
        return self.pixels


class AnswerViews:
    """Pictures as an ``hf:`` judge sees them; scores are log-odds of its answers.

    Args:
        network: the judge's.
        target: what it guesses.
        device, where: as of :class:`CheckpointViews`.
    """

    def __init__(self, network: AnswerJudge, target: Target, device: torch.device, where: str) -> None:
        self.network, self.target = network, target
        self.network.features = None
        self.common = CheckpointViews(network.captioner, device, where)

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:  # noqa: ARG002 - of others
        """See :class:`~judge.attribution.views.Views`."""
        self.network.pictures = _Fixed(pixels)  # type: ignore[assignment]
        batch = self.network.collate([sample])

        def run(shown: Tensor) -> Tensor:
            from accelerate.utils import send_to_device

            repeated = send_to_device(_repeated(batch, self._count(shown, batch)), self.common.device)
            found: Tensor = self.network({**repeated, "shared": {**repeated["shared"], PIXELS: shown}})
            return log_odds(found, self.target)

        return self.common.make(pixels, batch["shared"], run)

    def _count(self, shown: Tensor, batch: Mapping[str, Any]) -> int:
        return len(shown) // len(batch["shared"][PIXELS]) if shown.dim() == 2 else len(shown)


def _repeated(value: Any, count: int) -> Any:
    """A batch of one sample as one of several that are alike; its pictures stay out of it."""
    if isinstance(value, dict):
        return {
            name: [] if name == PIXELS else _positions(one, count) if name == "position_ids" else _repeated(one, count)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_repeated(one, count) for one in value]
    return value.expand(count, *value.shape[1:]) if isinstance(value, Tensor) else value


def _positions(value: Tensor, count: int) -> Tensor:
    """Qwen-VL's are [axes, B, T]."""
    return value.expand(*value.shape[:-2], count, value.shape[-1])


class WordViews:
    """Pictures as a captioner sees them that has written so far; the score is a token's log-probability.

    Args:
        captioner: asked for a caption as its family usually is.
        device, where: as of :class:`CheckpointViews`.
    """

    def __init__(self, captioner: Captioner, device: torch.device, where: str) -> None:
        self.captioner = captioner
        self.common = CheckpointViews(captioner, device, where)
        # Florence-2's encoder reads the prompt, as it does of itself.
        self.prompt = "" if captioner.layout == "decoder" else usual_prompt(captioner)

    def begun(self, pixels: Pixels) -> list[int]:
        """The tokens that stand before a caption, [CLS] and prompt."""
        (row,) = lay_out(self.captioner, [Image.fromarray(pixels)], [self.prompt]).rows
        return next(iter(row.values()))

    def view(self, pixels: Pixels, before: Sequence[int], token: int) -> View:
        """How probable a token is after those ``before`` it; the score is [N, 1]."""
        with processing("picture"):
            prompts = lay_out(self.captioner, [Image.fromarray(pixels)], [self.prompt])
        architecture = self.captioner.architecture
        text = {
            name: torch.tensor([[*values, *go_on(architecture, name, tuple(before))]])
            for name, values in prompts.rows[0].items()
        }
        given = {**prompts.shared, **text}

        def run(shown: Tensor) -> Tensor:
            return self._score(given, shown)[:, token, None]

        return self.common.make(pixels, prompts.shared, run)

    def _score(self, given: Mapping[str, Tensor], shown: Tensor) -> Tensor:
        """[N, V]: log-probabilities of the next token."""
        count = len(shown) // len(given[PIXELS]) if shown.dim() == 2 else len(shown)
        repeated = {name: one.to(self.common.device) for name, one in _repeated(dict(given), count).items() if len(one)}
        with masks_unseen():
            logits = self.captioner.model(**{**repeated, PIXELS: shown}).logits
        found: Tensor = logits[:, -1].float().log_softmax(dim=-1)
        return found

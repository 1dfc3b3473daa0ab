"""Captioners of transformers as functions of an image, and maps of the words of the attribute that they write.

The grid is what the vision tower passes on to the text part: the last hidden states (BLIP, BLIP-2 before its Q-Former,
GIT, ViT-GPT2, PaliGemma, Florence-2's last map), those of the layer that LLaVA's configuration names, Qwen-VL's patches
merged two by two. Tokens before the patches ([CLS]) are left out. The position of the input in the image is measured
with the model's own image processor.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from accelerate.utils.operations import recursively_apply
from PIL import Image
from torch import Tensor

from judge.attribution.maps import ImageExplanation, Method, Placement, View, attribute, fitted, ramps, sum_colours
from judge.captioning.checkpoints import CheckpointWriter
from judge.captioning.writing import Writing
from judge.errors import JudgeError
from judge.judges.hf_models import PIXELS, Captioner, load_captioner
from judge.judges.hf_prompts import Prompts, go_on, lay_out, processing, usual_prompt
from judge.masking.instances import Pixels
from judge.masking.masked_images import MaskedImages
from judge.text.lexicon import Lexicon
from judge.text.tokens import tokenize
from judge.types import FloatArray, Progress
from judge.utils.hub import quiet

# Numbers of tokens before an image's patches: none, [CLS], [CLS] and a distillation token, [CLS] and four registers.
_OTHERS = (0, 1, 2, 5)
_INSTEAD = "choose --methods gradient-shap"


class CheckpointViews:
    """The vision tower's grid and the image processor's placement, which judges and captioners share."""

    def __init__(self, captioner: Captioner, device: torch.device, where: str) -> None:
        self.captioner, self.device, self.where = captioner, device, where
        captioner.model.to(device).eval().requires_grad_(requires_grad=False)
        self._placements: dict[tuple[int, int], Placement] = {}

    def make(self, pixels: Pixels, shared: Mapping[str, Tensor], score: Callable[[Tensor], Tensor]) -> View:
        """The view of an image, from its processor's tensors and a function from one input to its scores [1, A]."""
        if PIXELS not in shared:
            raise self._refusal("its processor makes no pixels of an image, but patches")
        model_input = self._input(shared[PIXELS])
        raster = partial(self._raster, pieces=shared.get("image_grid_thw"))
        size = pixels.shape[0], pixels.shape[1]
        if (placement := self._placements.get(size)) is None:
            placement = fitted(size, np.stack([raster(one) for one in self._show(ramps(size))]))
            if placement is None:
                raise self._refusal("its processor does more to an image than resize, crop and pad it")
            self._placements[size] = placement
        shape = placement.input_size

        def scores(inputs: Tensor) -> Tensor:
            # One at a time, as other inputs of the model would have to be repeated in ways that differ by family.
            return torch.cat([score(one.flatten(0, 1) if one.dim() == 3 else one) for one in torch.split(inputs, 1)])

        def grid(answer: int) -> tuple[Tensor, Tensor]:
            return self._grid(lambda: scores(model_input)[0, answer], shape)

        return View(model_input, scores, grid, raster, placement, lambda other: self._show([other]))

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

    def _refusal(self, what: str, mend: str = "choose another captioner") -> JudgeError:
        what = f"maps of a '{self.captioner.architecture}' model cannot be made: {what}"
        return JudgeError(what, where=self.where, mend=mend)

    def _grid(self, score: Callable[[], Tensor], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The one output of the vision tower that the score depends on, and the score's gradient, both [D, g, k]."""
        if (tower := self.captioner.vision) is None:
            raise self._refusal("its vision part is unknown", mend=_INSTEAD)
        leaves: list[Tensor] = []

        def make_leaf(tensor: Tensor) -> Tensor:
            if tensor.is_floating_point():
                tensor = tensor.detach().clone().requires_grad_()
                leaves.append(tensor)
            return tensor

        # The tower is frozen: its outputs have gradients only as leaves.
        hook = tower.register_forward_hook(lambda _, __, output: recursively_apply(make_leaf, output))
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
        tokens, (height, width) = values.reshape(-1, values.shape[-1]), size
        # Without the tokens before the patches, the layout has the proportions of the input.
        for count in (len(tokens) - others for others in _OTHERS if others < len(tokens)):
            side = math.sqrt(height * width / count)
            high, wide = round(height / side), round(width / side)
            if high * wide == count:
                return tokens[len(tokens) - count :].T.reshape(-1, high, wide)
        raise self._refusal(f"the layout of its {len(tokens)} visual tokens is unknown", _INSTEAD)


class AttributeWord(NamedTuple):
    """An entry of the lexicon in a caption, its first ``token``, and the tokens ``before`` it."""

    caption: str
    word: str
    before: tuple[int, ...]
    token: int


class ExplainedCaptioner:
    """A captioner that writes captions of images, and is a function of an image for each of their words."""

    def __init__(self, captioner: Captioner, lexicon: Lexicon, device: torch.device, where: str) -> None:
        self.captioner, self.lexicon = captioner, lexicon
        # Greedy decoding: each word is the most probable one after the previous ones.
        captioner.model.to(device)
        self.writer = CheckpointWriter(captioner, Writing())
        self.views = CheckpointViews(captioner, device, where)
        # Florence-2's prompt goes to its encoder.
        self.prompt = "" if captioner.layout == "decoder" else usual_prompt(captioner)

    def write(self, pixels: Pixels) -> AttributeWord | None:
        """The first word of the image's caption that names a class; None if no word does."""
        with quiet():
            with processing("image"):
                given = self.writer.prepare(Image.fromarray(pixels))
            written = self.writer.tokens([given])[0].tolist()
        if self.captioner.layout != "causal":
            begun = next(iter(self._prompts(pixels).rows[0].values()))
            written = written[len(begun) :] if written[: len(begun)] == begun else written
        caption = self._text(written)
        found = first_word(caption, self.lexicon)
        if found is None:
            return None
        start, word, _ = found
        place = next(place for place in range(len(written)) if len(self._text(written[: place + 1])) > start)
        return AttributeWord(caption, word, tuple(written[:place]), written[place])

    def view(self, pixels: Pixels, before: Sequence[int], token: int) -> View:
        """The score, [N, 1], is the natural log-probability of a token after those ``before`` it."""
        shared, (row,) = self._prompts(pixels)
        text = {
            name: torch.tensor([[*values, *go_on(self.captioner.architecture, name, tuple(before), row)]])
            for name, values in row.items()
        }
        given = {name: value.to(self.views.device) for name, value in {**shared, **text}.items()}

        def score(model_input: Tensor) -> Tensor:
            logits: Tensor = self.captioner.model(**{**given, PIXELS: model_input}).logits[:, -1]
            return logits.float().log_softmax(dim=-1)[:, token, None]

        return self.views.make(pixels, shared, score)

    def _prompts(self, pixels: Pixels) -> Prompts:
        with processing("image"):
            return lay_out(self.captioner, [Image.fromarray(pixels)], [self.prompt])

    def _text(self, tokens: Sequence[int]) -> str:
        return " ".join(self.captioner.tokenizer.decode(tokens, skip_special_tokens=True).split())


def first_word(caption: str, lexicon: Lexicon) -> tuple[int, str, str] | None:
    """The first entry of the lexicon in a caption that names a class: its position, the entry, and its class."""
    words = tokenize(caption, language=lexicon.language)
    text, places, at = caption.lower(), [], 0
    for word in words:
        # A word with another spelling in the caption (form of the apostrophe) begins where the last one ended.
        at = max(at, text.find(word, at))
        places.append(at)
        at += len(word) if text.startswith(word, at) else 0
    for start, stop, class_ in lexicon.find(words):
        if class_:
            return places[start], " ".join(words[start:stop]), class_
    return None


def explain_captions(
    model: str,
    images: MaskedImages,
    lexicon: Lexicon,
    methods: Sequence[Method],
    *,
    device: torch.device,
    progress: Progress | None = None,
) -> Iterator[ImageExplanation]:
    """Maps of the first word of the attribute in the caption of each image; images without such a word have no map.

    They explain the log-probability of the word's first token, given the image and the tokens before it; nothing is
    hidden in ``images``.

    Raises:
        JudgeError: no such captioner; an unusable image; a family that a method cannot explain.
    """
    where = f"--model {model}"
    explained = ExplainedCaptioner(load_captioner(model, where=where), lexicon, device, where)
    for number, image in enumerate(images.names):
        if progress:
            progress("explaining words", number, len(images.names))
        pixels = images.read(image)
        word = explained.write(pixels)
        if word is None:
            continue
        view = explained.view(pixels, word.before, word.token)
        with torch.no_grad():
            value = float(view.scores(view.model_input)[0, 0])
        for method in methods:
            mass = attribute(method, view, pixels, 0, seed=image)
            yield ImageExplanation(image, word.caption, word.word, value, method, mass)

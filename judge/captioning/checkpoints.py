"""Captions by a checkpoint that transformers loads, in batches of images whose tensors have one shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from judge.captioning.writing import Caption, Writing, in_batches
from judge.errors import JudgeError
from judge.judges.hf_models import Captioner, computing, load_captioner
from judge.judges.hf_prompts import blank, generation_inputs, processing, usual_prompt
from judge.masking.masked_images import MaskedImages
from judge.training.loop import run_fitting
from judge.utils.hub import loading, quiet

Prepared = tuple[dict[str, Tensor], list[int]]
"""Inputs of the model for one image, and the tokens of the prompt."""
_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
# Images of these sizes have tensors of one shape if a captioner resizes all images to one size.
_SIZES = (25, 25), (224, 224), (1024, 256), (256, 1024), (1024, 1024)


def _shape(prepared: Prepared) -> object:
    return tuple((name, value.shape) for name, value in prepared[0].items())


def load_writer(model: str, writing: Writing, device: torch.device | Literal["auto"]) -> CheckpointWriter:
    """A checkpoint, loaded straight to ``device``; "auto" for all GPUs together, for models larger than one."""
    on_cpu = not torch.cuda.is_available() if device == "auto" else device.type == "cpu"
    own: torch.dtype | Literal["auto"] = torch.float32 if on_cpu else "auto"
    dtype = own if writing.dtype == "auto" else _DTYPES[writing.dtype]
    place = None if on_cpu else device
    return CheckpointWriter(load_captioner(model, where=f"--model {model}", dtype=dtype, device_map=place), writing)


class CheckpointWriter:
    """A captioner with a prompt and settings, on the device that it was loaded to."""

    notes = ()

    def __init__(self, captioner: Captioner, writing: Writing) -> None:
        self.captioner, self.writing = captioner, writing
        self.prompt = usual_prompt(captioner) if writing.prompt is None else writing.prompt
        self.where = f"--model {captioner.reference}"
        mend = "choose another prompt or captioner"
        with loading("its processor takes the prompt and images in a way not known here", self.where, mend):
            prepared = self.prepare(blank())
        if captioner.limit is not None and len(prepared[1]) > captioner.limit:
            what = f"is {len(prepared[1])} tokens long, and the captioner has positions for {captioner.limit}"
            raise JudgeError(what, where="--prompt", mend="shorten it")
        on_cpu = captioner.model.device.type == "cpu"
        self.readers = 1 if on_cpu else 4  # On CPUs captioning needs the cores itself.
        self.at_a_time = (8 if on_cpu else 64) if writing.caption_batch == "auto" else writing.caption_batch
        # Faults of its files appear when it writes.
        with computing("it cannot caption", self.where), quiet():
            alone = self._first_logits([prepared])
        self.most = self.at_a_time if self._joins(prepared, alone) else 1

    def _joins(self, prepared: Prepared, alone: Tensor) -> bool:
        """Whether ``prepared`` and noise have the logits in a batch that each has alone (not MiniCPM-V, Molmo2)."""
        pixels = np.random.default_rng(0).integers(256, size=(*blank().size, 3), dtype=np.uint8)
        try:
            with quiet():
                noise = self.prepare(Image.fromarray(pixels))
                apart = torch.cat([alone, self._first_logits([noise])])
                together = self._first_logits([prepared, noise])
        except Exception:  # Models raise anything at tensors of another shape.
            return False
        # Logits in bf16 differ by about a hundredth; images that change each other, by as much as two images.
        spread = float((apart[0] - apart[1]).abs().max())
        return torch.allclose(together, apart, rtol=0.02, atol=0.1 * spread + 1e-4)

    def prepare(self, image: Image.Image) -> Prepared:
        """See :func:`~judge.judges.hf_prompts.generation_inputs`."""
        return generation_inputs(self.captioner, image, self.prompt)

    def batches(self, images: MaskedImages) -> list[list[str]]:
        """The ids of images in batches whose tensors have one shape, in the order of their first images.

        The shape depends on the size of the image alone. Images that cannot be read are a batch of their own.
        """

        @cache
        def shape(of: tuple[int, int] | None) -> object:
            try:
                with processing("an image of this size"):
                    return of and _shape(self.prepare(Image.new("RGB", of[::-1])))
            except JudgeError:  # Raised again, with its name, for the image itself.
                return None

        one_shape = len({shape(of) for of in _SIZES}) == 1
        groups: dict[object, list[str]] = {}
        for image in images.names:
            groups.setdefault(None if one_shape else shape(images.size(image)), []).append(image)
        place = {image: number for number, image in enumerate(images.names)}
        batches = (in_batches(ids, self.at_a_time) for ids in groups.values())
        return sorted(chain.from_iterable(batches), key=lambda batch: place[batch[0]])

    @torch.no_grad()
    def write(self, prepared: Sequence[Prepared]) -> list[Caption]:
        """A caption for each image; as many at a time as memory holds.

        Nothing is ever padded, as models with absolute positions would give other captions.
        """
        by_shape: dict[object, list[int]] = {}
        for row, one in enumerate(prepared):
            by_shape.setdefault(_shape(one), []).append(row)
        captions = [Caption("")] * len(prepared)
        # What ends captions, or pads those of a batch that have ended before others.
        tokenizer, own = self.captioner.tokenizer, self.captioner.model.generation_config
        known = {tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, own.pad_token_id}
        known |= {*own.eos_token_id} if isinstance(own.eos_token_id, list) else {own.eos_token_id}
        ends = torch.tensor(sorted(known - {None}))

        def write(size: int, rows: Sequence[int]) -> None:
            self.most = size
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                tokens = self.tokens([prepared[row] for row in part])
                texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
                cut = ~torch.isin(tokens[:, -1], ends)
                for row, text, is_cut in zip(part, texts, cut.tolist(), strict=True):
                    captions[row] = Caption(" ".join(text.split()), is_cut)

        for rows in by_shape.values():
            mend = "load it in bf16 (judge caption --dtype bf16), or use a larger device"
            run_fitting(partial(write, rows=rows), self.most, where=self.where, mend=mend)
        return captions

    def tokens(self, prepared: Sequence[Prepared]) -> Tensor:
        """Tokens of captions of images of one shape, [N, T] int64, special ones too, without the prompt."""
        begun, room = prepared[0][1], self.writing.max_tokens
        if self.captioner.limit is not None:  # It has no positions for more.
            room = max(1, min(room, self.captioner.limit - len(begun)))
        written: Tensor = self._generate(prepared, max_new_tokens=room, num_beams=self.writing.beams).sequences.cpu()
        if begun and written[:, : len(begun)].tolist() == [list(prompt) for _, prompt in prepared]:
            written = written[:, len(begun) :]
        return written

    def _first_logits(self, prepared: Sequence[Prepared]) -> Tensor:
        """Logits of the first token of captions, [N, V] float32."""
        logits: Tensor = self._generate(prepared, max_new_tokens=1, output_logits=True).logits[0]
        return logits.float().cpu()

    @torch.no_grad()
    def _generate(self, prepared: Sequence[Prepared], **settings: Any) -> Any:
        joined = {name: torch.cat([inputs[name] for inputs, _ in prepared]) for name in prepared[0][0]}
        model = self.captioner.model
        given = {
            name: value.to(model.device, model.dtype if value.is_floating_point() else None)
            for name, value in joined.items()
        }
        # A checkpoint's own settings may sample (Qwen2-VL), or return more.
        usual = {"num_beams": 1, "do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        return model.generate(**given, **{**usual, **settings}, num_return_sequences=1, return_dict_in_generate=True)

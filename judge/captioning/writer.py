"""A captioner that writes captions of images; nothing is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from judge.errors import JudgeError
from judge.judges.hf_models import Captioner, computing, loading
from judge.judges.hf_prompts import blank, generation_inputs, usual_prompt
from judge.training.batches import run_fitting
from judge.utils.hub import quiet


@dataclass(frozen=True, slots=True)
class Writing:
    """How captions are written; everything that decides them except images and checkpoint.

    Attributes:
        prompt: the question to the captioner, or (BLIP, GIT, VisionEncoderDecoder) how its captions begin; not part of
            the caption. None for the usual prompt of its family.
        beams: of the beam search; 1 for greedy search.
        max_tokens: of a caption; fewer if the model has fewer positions.
        caption_batch: images at a time; "auto" for 8 on CPUs and 64 elsewhere. Fewer if memory does not hold them. In
            float32 it changes nothing but the rounding of sums.
        precision: "bf16" for weights and products of half the size.
    """

    prompt: str | None = None
    beams: int = 1
    max_tokens: int = 30
    caption_batch: int | Literal["auto"] = "auto"
    precision: Literal["no", "bf16"] = "no"

    def images_at_a_time(self, device: torch.device) -> int:
        """``caption_batch``, resolved for ``device``."""
        if self.caption_batch != "auto":
            return self.caption_batch
        return 8 if device.type == "cpu" else 64


Prepared = tuple[dict[str, Tensor], list[int]]
"""Inputs of the model for one image, and the tokens of the prompt."""


class Writer:
    """A captioner with a prompt, a device and settings.

    Raises:
        JudgeError: it takes images in no known way; memory does not hold it.
    """

    def __init__(self, captioner: Captioner, writing: Writing, device: torch.device) -> None:
        self.captioner, self.writing, self.device = captioner, writing, device
        self.dtype = torch.bfloat16 if writing.precision == "bf16" else torch.float32
        self.prompt = usual_prompt(captioner) if writing.prompt is None else writing.prompt
        self.where = f"--model {captioner.reference}"
        mend = "choose another prompt or captioner"
        with loading("its processor takes the prompt and images in a way not known here", self.where, mend):
            prepared = self.prepare(blank())
        if captioner.limit is not None and len(prepared[1]) > captioner.limit:
            what = f"is {len(prepared[1])} tokens long, and the captioner has positions for {captioner.limit}"
            raise JudgeError(what, where="--prompt", mend="shorten it")
        self.most = writing.images_at_a_time(device)
        captioner.model.to(device, self.dtype).eval()
        # Faults of its files appear when it writes; two tokens take no time.
        with computing("it cannot caption", self.where), quiet():
            self.tokens([prepared], most=2)

    def prepare(self, image: Image.Image) -> Prepared:
        """See :func:`~judge.judges.hf_prompts.generation_inputs`."""
        return generation_inputs(self.captioner, image, self.prompt)

    @torch.no_grad()
    def write(self, prepared: Sequence[Prepared]) -> list[str]:
        """A caption for each image, in one line; as many at a time as memory holds.

        Images whose tensors differ in shape (Qwen2-VL) are captioned apart: nothing is ever padded, as models with
        absolute positions would give other captions.

        Raises:
            JudgeError: too little memory.
        """
        by_shape: dict[object, list[int]] = {}
        for row, (inputs, _) in enumerate(prepared):
            by_shape.setdefault(tuple((name, value.shape) for name, value in inputs.items()), []).append(row)
        captions = [""] * len(prepared)

        def write(size: int, rows: Sequence[int]) -> None:
            self.most = size
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                tokens = self.tokens([prepared[row] for row in part])
                texts = self.captioner.tokenizer.batch_decode(tokens, skip_special_tokens=True)
                for row, text in zip(part, texts, strict=True):
                    captions[row] = " ".join(text.split())

        for rows in by_shape.values():
            mend = "choose --precision bf16, or a larger device"
            run_fitting(partial(write, rows=rows), self.most, where=self.where, mend=mend)
        return captions

    @torch.no_grad()
    def tokens(self, prepared: Sequence[Prepared], *, most: int | None = None) -> Tensor:
        """Tokens of captions of images whose tensors have one shape, [N, T] int64, without the prompt.

        At most ``most`` of them, or ``max_tokens``; with the special tokens that begin, end or pad them.
        """
        joined = {name: torch.cat([inputs[name] for inputs, _ in prepared]) for name in prepared[0][0]}
        given = {
            name: value.to(self.device, self.dtype if value.is_floating_point() else None)
            for name, value in joined.items()
        }
        begun, room = prepared[0][1], self.writing.max_tokens
        if self.captioner.limit is not None:  # It has no positions for more.
            room = max(1, min(room, self.captioner.limit - len(begun)))
        written: Tensor = self.captioner.model.generate(
            **given,
            max_new_tokens=min(room, most or room),
            num_beams=self.writing.beams,
            # A checkpoint's own settings may sample (Qwen2-VL), or return more.
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            num_return_sequences=1,
            return_dict_in_generate=False,
        ).cpu()
        if begun and written[:, : len(begun)].tolist() == [list(prompt) for _, prompt in prepared]:
            written = written[:, len(begun) :]
        return written

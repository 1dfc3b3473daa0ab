"""A captioner at work: pictures in, captions out; nothing is sampled."""

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
from judge.judges.hf_prompts import ask, blank, usual_prompt
from judge.training.memory import OutOfMemory, watched
from judge.utils.hub import quiet


@dataclass(frozen=True, slots=True)
class Writing:
    """How captions are written; everything that decides them, pictures and checkpoint apart.

    Attributes:
        prompt: what the captioner is asked, or (BLIP, GIT, VisionEncoderDecoder) how its captions begin; the prompt
            is no part of the caption. None for what its family is usually asked.
        beams: of the beam search; 1 for greedy search.
        max_tokens: of a caption; fewer where the model's positions end.
        caption_batch: pictures at a time, see ``pictures_at_a_time``; fewer where memory does not hold them. In float32
            it changes nothing but the rounding of sums.
        precision: "bf16" for weights and products of half the size.
    """

    prompt: str | None = None
    beams: int = 1
    max_tokens: int = 30
    caption_batch: int | Literal["auto"] = "auto"
    precision: Literal["no", "bf16"] = "no"

    def pictures_at_a_time(self, device: torch.device) -> int:
        """``caption_batch``; of "auto" what keeps ``device`` busy."""
        if self.caption_batch != "auto":
            return self.caption_batch
        return 8 if device.type == "cpu" else 64


Asked = tuple[dict[str, Tensor], list[int]]


class Writer:
    """A captioner with a prompt, a device and settings.

    Raises:
        JudgeError: it takes pictures in no known way; memory does not hold it.
    """

    def __init__(self, captioner: Captioner, writing: Writing, device: torch.device) -> None:
        self.captioner, self.writing, self.device = captioner, writing, device
        self.dtype = torch.bfloat16 if writing.precision == "bf16" else torch.float32
        self.prompt = usual_prompt(captioner) if writing.prompt is None else writing.prompt
        where, mend = f"--model {captioner.reference}", "choose another prompt or captioner"
        with loading("its processor takes the prompt and pictures in a way not known here", where, mend):
            asked = self.ask(blank())
        if captioner.limit is not None and len(asked[1]) > captioner.limit:
            what = f"is {len(asked[1])} tokens long, and the captioner has positions for {captioner.limit}"
            raise JudgeError(what, where="--prompt", mend="shorten it")
        self.most = writing.pictures_at_a_time(device)
        try:
            watched(lambda: captioner.model.to(device, self.dtype).eval())
        except OutOfMemory:
            raise self._too_large("the captioner") from None
        # What its files say is only used by then; two tokens tell, and take a large one no time.
        try:
            with computing("it cannot caption", where), quiet():
                watched(partial(self.tokens, [asked], most=2))
        except OutOfMemory:
            raise self._too_large("one picture's caption") from None

    def ask(self, picture: Image.Image) -> Asked:
        """See :func:`~judge.judges.hf_prompts.ask`."""
        return ask(self.captioner, picture, self.prompt)

    @torch.no_grad()
    def write(self, asked: Sequence[Asked]) -> list[str]:
        """A caption for each, in one line.

        Pictures whose tensors differ in shape (Qwen2-VL's may) are captioned apart: nothing is ever padded, which
        models of absolute positions would not stand.

        Raises:
            JudgeError: too little memory.
        """
        alike: dict[object, list[int]] = {}
        for row, (inputs, _) in enumerate(asked):
            alike.setdefault(tuple((name, value.shape) for name, value in inputs.items()), []).append(row)
        found: dict[int, str] = {}
        for rows in alike.values():
            found |= dict(zip(rows, self._fitting([asked[row] for row in rows]), strict=True))
        return [found[row] for row in range(len(asked))]

    def _fitting(self, asked: Sequence[Asked]) -> list[str]:
        """Captions of as many at a time as memory holds; a batch size that did not fit is not tried again."""
        found: list[str] = []
        while left := asked[len(found) : len(found) + self.most]:
            try:
                found += watched(partial(self._generate, left))
            except OutOfMemory:
                if len(left) == 1:
                    raise self._too_large("one picture's caption") from None
                self.most = len(left) // 2
        return found

    def _too_large(self, what: str) -> JudgeError:
        mend = "choose --precision bf16, or a device with more memory"
        return JudgeError(f"memory does not hold {what}", where=f"--model {self.captioner.reference}", mend=mend)

    def _generate(self, asked: Sequence[Asked]) -> list[str]:
        texts = self.captioner.tokenizer.batch_decode(self.tokens(asked), skip_special_tokens=True)
        return [" ".join(text.split()) for text in texts]

    @torch.no_grad()
    def tokens(self, asked: Sequence[Asked], *, most: int | None = None) -> Tensor:
        """The tokens of captions of pictures whose tensors are of one shape, [N, T] int64, the prompt left out.

        ``most`` of them at most; without it as many as were asked for. Special ones are among them: those that begin
        what a decoder writes, and those that end or pad it.
        """
        joined = {name: torch.cat([inputs[name] for inputs, _ in asked]) for name in asked[0][0]}
        given = {
            name: value.to(self.device, self.dtype if value.is_floating_point() else None)
            for name, value in joined.items()
        }
        begun = asked[0][1]
        written: Tensor = self.captioner.model.generate(
            **given,
            max_new_tokens=min(self._room(len(begun)), most or self.writing.max_tokens),
            num_beams=self.writing.beams,
            # A checkpoint's own settings may draw (Qwen2-VL), or return more.
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            num_return_sequences=1,
            return_dict_in_generate=False,
        ).cpu()
        if begun and written[:, : len(begun)].tolist() == [list(prompt) for _, prompt in asked]:
            written = written[:, len(begun) :]
        return written

    def _room(self, used: int) -> int:
        """Tokens that may be written: as many as asked for, if the model has positions for them."""
        room = self.captioner.limit
        return self.writing.max_tokens if room is None else max(1, min(self.writing.max_tokens, room - used))

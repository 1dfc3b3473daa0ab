"""A Hugging Face captioner as a frozen reader (``--tuning reading``): a linear judge of its states.

The captioner reads the image with people hidden, the masked caption and the prompt, once for each captioned image. Its
output layer multiplies the state at the end of the prompt to predict the answer. A logistic regression on this state
trains ImageCaptioner2's judge (Abdelrahman et al., AAAI 2024) with all weights frozen except the answers' rows of the
output layer, which is a convex problem. The judge also reads the mean state over caption and prompt, since a captioner
that has only written captions forgets the caption by the end of the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from itertools import takewhile
from threading import local
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import torch
from accelerate.utils import recursively_apply
from torch import Tensor, nn

from judge.errors import JudgeError
from judge.judges import Batch, Blueprint, Materials, hf_models, hf_prompts
from judge.judges.encoders import OutputLayer
from judge.judges.hf_models import Captioner, place
from judge.judges.huggingface import Prompted, fingerprint, load
from judge.judges.linear import Reading, train_together
from judge.judges.names import HUGGING_FACE, READING
from judge.types import Sample
from judge.utils.identity import content_of, digest_of

if TYPE_CHECKING:
    from PIL.Image import Image

_READING = Reading(words=False, vectors=True)


class StateReader:
    """A captioner that is loaded when it first reads: states that are cached need none of its weights."""

    def __init__(self, reference: str, materials: Materials) -> None:
        self.reference, self.materials = reference, materials
        question = hf_prompts.plain(Prompted.prompt_of(materials).question)
        how = question, materials.dtype, materials.attention
        content = content_of(reference, where=place(reference))
        self.key = f"{content} {digest_of(repr(how))} transformers {version('transformers')}"

    @cached_property
    def states(self) -> States:
        """The captioner."""
        return States(load(self.reference, replace(self.materials, tuning="zero-shot")), self.materials)

    def to(self, device: torch.device) -> None:
        """Move the captioner to a device."""
        self.states.to(device)

    def prepare(self, sample: Sample) -> tuple[Sample, Image]:
        """The sample, and its image with people hidden."""
        return self.states.prepare(sample)

    def collate(self, prepared: Sequence[tuple[Sample, Image]]) -> Batch:
        """The captioner's tensors: see :meth:`States.collate`."""
        return self.states.collate(prepared)

    def __call__(self, batch: Batch) -> Tensor:
        """[B, 2 D] float32."""
        return cast(Tensor, self.states(batch))


class States(Prompted):
    """Images with a caption, [B] -> states that the output layer reads, [B, 2 D]: the last one, and the mean.

    Several threads may call it at once.
    """

    def __init__(self, captioner: Captioner, materials: Materials) -> None:
        super().__init__(captioner, materials)
        self.model.eval().requires_grad_(requires_grad=False)
        hf_models.spell_exactly(captioner)
        self.store_frozen()
        self._see = lru_cache(maxsize=8)(self.see)  # The captions of an image follow each other.
        self._pass, self._tail = _pass_of(captioner), 0
        if captioner.layout != "encoder":
            # Tokens between the question and the answer: a chat template's beginning of the assistant's turn.
            other = hf_prompts.lay_out(captioner, [self._blank], [f"{self.question} ?"]).rows[0]
            same = zip(reversed(self.asked), reversed(next(iter(other.values()))), strict=False)
            self._tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], same))

    def prepare(self, sample: Sample) -> tuple[Sample, Image]:
        """The sample, and its image with people hidden."""
        return sample, self._see(sample.image)

    def collate(self, prepared: Sequence[tuple[Sample, Image]]) -> Batch:  # type: ignore[override]
        """The captioner's tensors; ``lengths`` of the texts; the ``first`` sample of each image, and the ``places``.

        The place of a sample is that of its image among the images of ``first``.
        """
        samples, images = zip(*prepared, strict=True)
        seen = [sample.image for sample in samples]
        distinct = [*dict.fromkeys(seen)]
        first, places = (torch.tensor([*map(of.index, by)]) for of, by in ((seen, distinct), (distinct, seen)))
        made = super().collate(samples, images)
        lengths = torch.tensor([self._length(sample) for sample in samples])
        keep = int((made["ends"][0] + lengths).max()) + self._tail
        return {**made, "keep": [keep], "lengths": lengths, "first": first, "places": places}

    def _length(self, sample: Sample) -> int:
        """Tokens of caption and question; 1 where an encoder reads these, and the decoder's text begins."""
        tokenizer = self.captioner.tokenizer
        decodes = self.captioner.layout != "encoder"
        return max(1, len(hf_prompts.encode(tokenizer, self._text(sample.words)))) if decodes else 1

    def forward(self, batch: Batch) -> Tensor:
        """[B, 2 D] float32."""
        with self._pass.of(batch["first"], batch["places"]):
            self.logits(batch, 0)
            state, (end,), lengths = self._pass.state.float(), batch["ends"], batch["lengths"]
        # From the right end, since the image's positions may come first.
        place, last = torch.arange(-state.shape[1], 0, device=end.device), -end[:, None] - self._tail
        read = ((place <= last) & (place > last - lengths[:, None])).float()
        answering = state[torch.arange(len(end), device=end.device), -end]
        return torch.cat([answering, (read / read.sum(dim=1, keepdim=True))[:, None].bmm(state)[:, 0]], dim=1)


class _Pass(local):
    """One thread's pass through a captioner: its hooks keep the state, and show an image of several samples once.

    Outside :meth:`of`, the hooks do nothing, since other judges may use the same captioner.
    """

    state: Tensor
    first: Tensor | None = None
    places: Tensor
    selected = False

    @contextmanager
    def of(self, first: Tensor, places: Tensor) -> Iterator[None]:
        """A pass over samples whose images are those of ``first``, [U], by their ``places`` in it, [B]."""
        self.first, self.places, self.selected = first, places, False
        try:
            yield
        finally:
            self.first = None
            vars(self).pop("state", None)

    def keep(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        """Keep what the output layer reads, which then computes the last position alone."""
        if self.first is None:
            return None
        self.state = inputs[0]
        return (inputs[0][:, -1:],)

    def select(self, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Give the vision part each image once, if it takes one for each sample, and nothing else.

        What takes sizes too (Pixtral, Qwen2-VL) may pack the images of a batch into one row.
        """
        if self.first is None or len(self.first) == len(self.places):
            return None
        given = [one for one in (*inputs, *named.values()) if isinstance(one, Tensor)]
        self.selected = len(given) == 1 and len(given[0]) == len(self.places)
        return self._pick((inputs, named), len(self.places), self.first) if self.selected else None

    def spread(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        """Give each sample what was computed of its image."""
        return self._pick(output, len(self.first), self.places) if self.first is not None and self.selected else None

    def _pick(self, data: Any, size: int, places: Tensor) -> Any:
        def pick(tensor: Tensor) -> Tensor:
            return tensor[places.to(tensor.device)] if len(tensor) == size else tensor

        return recursively_apply(pick, data)


_PASSES: WeakKeyDictionary[nn.Module, _Pass] = WeakKeyDictionary()


def _pass_of(captioner: Captioner) -> _Pass:
    """The pass of a captioner, to which hooks are attached once."""
    model: nn.Module = captioner.model
    if model not in _PASSES:
        made, layers = _Pass(), [layer for layer in model.modules() if isinstance(layer, OutputLayer)]
        if not layers:
            what, mend = "its output layer is unknown", "choose --tuning full, lora or zero-shot"
            raise JudgeError(what, where=place(captioner.reference), mend=mend)
        for layer in layers:
            layer.register_forward_pre_hook(made.keep)
        if captioner.vision is not None:
            captioner.vision.register_forward_pre_hook(made.select, with_kwargs=True)
            captioner.vision.register_forward_hook(made.spread)
        _PASSES[model] = made
    return _PASSES[model]


@dataclass(frozen=True, slots=True)
class StateReaderLoader:
    """Makes a reader of a captioner; equal makers share its states."""

    reference: str

    def __call__(self, materials: Materials) -> StateReader:  # noqa: D102 - required by Blueprint.reader
        return StateReader(self.reference, materials)


def make_blueprint(name: str) -> Blueprint:
    """The judge of a captioner, a folder or a name on the hub with "+reading" after it."""
    reference = name.removesuffix(READING)
    return Blueprint(
        f"{HUGGING_FACE}{name}",
        "abdelrahman2024imagecaptioner2, with a frozen captioner of transformers and logistic regression on its state",
        joint=partial(train_together, reading=_READING),
        reader=StateReaderLoader(reference),
        fingerprint=lambda _: fingerprint(reference),
        modalities=frozenset({"caption", "image"}),
        reads=frozenset({"template", "tuning", "dtype", "attn_implementation"}),
    )

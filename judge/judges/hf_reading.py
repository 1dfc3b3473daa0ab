"""A Hugging Face captioner as a frozen reader (``--tuning reading``): a linear judge of its state.

The captioner reads the image with people hidden, the masked caption and the prompt, once for each captioned image. Its
state at the end of the prompt is what its output layer multiplies to predict the answer. A logistic regression on this
state is ImageCaptioner2's judge (Abdelrahman et al., AAAI 2024) of which only the rows of the answers in the output
layer are trained: a convex problem, with refits, intervals and p-values in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.metadata import version
from threading import local
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import recursively_apply
from torch import Tensor, nn

from judge.judges import HUGGING_FACE, READING, Batch, Blueprint, Materials, hf_models, hf_prompts
from judge.judges.encoders import OutputLayer
from judge.judges.hf_models import Captioner, place
from judge.judges.huggingface import Prompted, fingerprint, load
from judge.judges.linear import Reading, train_together
from judge.types import Sample
from judge.utils.identity import content_of, digest_of

if TYPE_CHECKING:
    from PIL.Image import Image

_READING = Reading(words=False, vectors=True)


class StateReader(Prompted):
    """Images with a caption, [B] -> states, [B, D]: what the output layer reads at the end of the prompt.

    Several threads may call it at once.
    """

    def __init__(self, captioner: Captioner, materials: Materials, content: str) -> None:
        super().__init__(captioner, materials)
        how = self.question, materials.dtype, materials.attention
        self.key = f"{content} {digest_of(repr(how))} transformers {version('transformers')}"
        self.model.eval().requires_grad_(requires_grad=False)
        hf_models.spell_exactly(captioner)
        self.store_frozen()
        self._see = lru_cache(maxsize=8)(self.see)  # The captions of an image follow each other.
        self._pass = _Pass()
        for layer in self.model.modules():
            if isinstance(layer, OutputLayer):
                layer.register_forward_pre_hook(self._pass.keep)
        if captioner.vision is not None:
            captioner.vision.register_forward_pre_hook(self._pass.select, with_kwargs=True)
            captioner.vision.register_forward_hook(self._pass.spread)

    def prepare(self, sample: Sample) -> tuple[Sample, Image]:
        """The sample, and its image with people hidden."""
        return sample, self._see(sample.image)

    def collate(self, prepared: Sequence[tuple[Sample, Image]]) -> Batch:  # type: ignore[override]
        """The captioner's tensors, and the place of each sample's image among the first samples of each image."""
        samples, images = zip(*prepared, strict=True)
        first = {image: place for place, image in reversed([*enumerate(sample.image for sample in samples)])}
        order = sorted(first.values())
        places = torch.tensor([order.index(first[sample.image]) for sample in samples])
        made = super().collate(samples, images)
        lengths = torch.tensor([self._length(sample) for sample in samples])
        keep = [max(kept, int((end + lengths).max())) for kept, end in zip(made["keep"], made["ends"], strict=True)]
        return {**made, "keep": keep, "lengths": lengths, "first": torch.tensor(order), "places": places}

    def _length(self, sample: Sample) -> int:
        """Tokens of the caption and the prompt, the last ones before the answer."""
        tokenizer = self.captioner.tokenizer
        return len(hf_prompts.encode(tokenizer, self._text(sample.words))) if self.captioner.layout != "encoder" else 1

    def forward(self, batch: Batch) -> Tensor:
        """[B, 2 D] float32: the last state, and the mean."""
        with self._pass.of(batch["first"], batch["places"]):
            self.logits(batch, 0)
            state, (end,), lengths = self._pass.state.float(), batch["ends"], batch["lengths"]
        # From the right end, since the image's positions may come first.
        place = torch.arange(-state.shape[1], 0, device=end.device)
        read = ((place <= -end[:, None]) & (place > -end[:, None] - lengths[:, None])).float()
        last = state[torch.arange(len(end), device=end.device), -end]
        return torch.cat([last, (read / read.sum(dim=1, keepdim=True))[:, None].bmm(state)[:, 0]], dim=1)


class _Pass(local):
    """What happens inside a captioner in one pass of this thread: an image of several samples is seen once.

    Outside :meth:`of`, the hooks do nothing: other judges may use the same captioner.
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

    def keep(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        """Keep what the output layer reads, which then computes the last position alone."""
        if self.first is None:
            return None
        self.state = inputs[0]
        return (inputs[0][:, -1:],)

    def select(self, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Give the vision part each image once, if it takes one for each sample."""
        if self.first is None or len(self.first) == len(self.places):
            return None
        given = [one for one in (*inputs, *named.values()) if isinstance(one, Tensor)]
        self.selected = bool(given) and all(len(one) == len(self.places) for one in given)
        return self._pick((inputs, named), len(self.places), self.first) if self.selected else None

    def spread(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        """Give each sample what was computed of its image."""
        return self._pick(output, len(self.first), self.places) if self.first is not None and self.selected else None

    def _pick(self, data: Any, size: int, places: Tensor) -> Any:
        def pick(tensor: Tensor) -> Tensor:
            return tensor[places.to(tensor.device)] if len(tensor) == size else tensor

        return recursively_apply(pick, data)


@dataclass(frozen=True, slots=True)
class StateReaderLoader:
    """Loads a captioner as a reader; equal loaders share its states."""

    reference: str

    def __call__(self, materials: Materials) -> StateReader:  # noqa: D102 - required by Blueprint.reader
        loaded = load(self.reference, replace(materials, tuning="zero-shot"))
        return StateReader(loaded, materials, content_of(self.reference, where=place(self.reference)))


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

"""Any Hugging Face captioner as a judge: the probability of each answer after the prompt.

The evidence is ImageCaptioner2's (Abdelrahman et al., AAAI 2024): the image with people hidden, the masked caption, a
cloze sentence. The captioner is teacher-forced: it reads the prompt as if it had written it, or as a user's turn in a
chat, and nothing is generated. The probability of an answer of several tokens is their product. A hidden word becomes
the tokenizer's mask token, as in the paper's prompts, or a plain word ("gender") if it has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from judge.errors import JudgeError
from judge.judges import PROMPTED, Batch, Blueprint, Materials, Recipe, hf_models, hf_prompts
from judge.judges.hf_models import Captioner, place
from judge.judges.hf_prompts import Row, Tokens
from judge.judges.names import HUGGING_FACE
from judge.judges.prompts import Prompt, make_prompt
from judge.types import Sample, Target, Words
from judge.utils.hub import loading, locate, quiet
from judge.utils.identity import content_of

if TYPE_CHECKING:
    from PIL.Image import Image

_RECIPE = Recipe(epochs=5, learning_rate=2e-5, batch_size=64, micro_batch="usual", keep="best", sharing="data")


class Prompted(nn.Module):
    """A captioner that reads an image, its caption and a question.

    A batch has ``shared`` (tensors of the model's own), ``passes`` (a dict of int64 tensors [B, T], padded on the
    right, for each forward pass) and ``ends`` ([B] for each pass: the distance of the prompt's last token from the
    right end), and ``keep`` (how many of the last positions have logits). A pass reads one of ``prefixes``, the first
    tokens of answers, after the prompt.
    """

    def __init__(self, captioner: Captioner, materials: Materials) -> None:
        super().__init__()
        self.has_answered = False
        self.captioner, self.images, self.model = captioner, materials.images, captioner.model
        if captioner.facts.mixes:
            what = f"a '{captioner.architecture}' model cannot judge yet: in transformers, images of a batch mix"
            raise JudgeError(what, where=place(captioner.reference), mend="choose another captioner")
        self.prompt = self.prompt_of(materials)
        self.question, self._blank = hf_prompts.plain(self.prompt.question), hf_prompts.blank()
        what = "its processor takes images and text in an unknown way"
        with loading(what, place(captioner.reference), "choose another captioner"):
            alone = hf_prompts.lay_out(captioner, [self._blank], [self.question]).rows[0]
        self.asked: list[int] = next(iter(alone.values()))
        self.prefixes: list[Tokens] = [()]
        self.limit = self._room(1)
        self.arguments = captioner.arguments
        self._text = cache(self._make_text)  # Every epoch needs the same texts.
        self.bf16 = materials.dtype == "bf16"

    @staticmethod
    def prompt_of(materials: Materials) -> Prompt:
        """The prompt of a run, or that of gender."""
        return materials.prompt or make_prompt("gender")

    def _room(self, answer: int) -> int | None:
        """Tokens that the model has positions for besides the question and an answer of ``answer`` tokens."""
        limit, used = self.captioner.limit, len(self.asked) + answer
        if limit is not None and used > limit:
            what = f"question and answer are {used} tokens long, and the captioner has positions for {limit}"
            raise JudgeError(what, where="--template", mend="shorten it")
        return None if limit is None else limit - used

    def store_frozen(self) -> None:
        """Convert each weight to the type that it is stored in."""
        for weight in self.model.parameters():
            # Vectors (of norms) are few, and CPUs cannot mix types in them.
            halves = self.bf16 and not weight.requires_grad and weight.dim() > 1
            weight.data = weight.data.to(torch.bfloat16 if halves else torch.float32)

    def collate(self, samples: Sequence[Sample], images: Sequence[Image] = ()) -> Batch:
        """The captioner's tensors for these samples, one padded text for each forward pass.

        ``images``: RGB images that replace those of the samples; empty: the samples' own are used.
        """
        texts = [self._text(sample.words) for sample in samples]
        images = images or [self.see(sample.image) for sample in samples]
        try:
            prompts = hf_prompts.lay_out(self.captioner, images, texts)
        except Exception:
            for sample, image, text in zip(samples, images, texts, strict=True):  # Find the image that fails.
                with hf_prompts.processing(f"image '{sample.image_id}'"):
                    hf_prompts.lay_out(self.captioner, [image], [text])
            raise
        lengths = torch.tensor([len(next(iter(row.values()))) for row in prompts.rows])
        passes = [self._pad(prompts.rows, prefix) for prefix in self.prefixes]
        passes = [{**text, **self._places({**prompts.shared, **text})} for text in passes]
        ends = [int(lengths.max()) + len(prefix) + 1 - lengths for prefix in self.prefixes]
        return {"shared": prompts.shared, "passes": passes, "ends": ends, "keep": [int(end.max()) for end in ends]}

    def logits(self, batch: Batch, number: int) -> Tensor:
        """Logits over the vocabulary of pass ``number``, [B, T, V], from the end of the shortest prompt on at least."""
        # The logits of all positions would take most of the memory.
        wanted = {"use_cache": False, "logits_to_keep": batch["keep"][number]}
        extra = {name: value for name, value in wanted.items() if name in self.arguments}
        device = batch["ends"][0].device.type
        # Weights of two types are multiplied in bf16.
        mixed = self.bf16 and not torch.is_autocast_enabled(device)
        precision = torch.autocast(device, torch.bfloat16) if mixed else nullcontext()
        # An error in the first pass is probably the fault of the checkpoint's files.
        first = hf_models.computing("it cannot answer", place(self.captioner.reference))
        with nullcontext() if self.has_answered else first, precision:
            found: Tensor = self.model(**batch["shared"], **batch["passes"][number], **extra).logits
        self.has_answered = True
        return found

    def see(self, image: str | None) -> Image:
        """The image with this id, people hidden; a grey one for None."""
        from PIL import Image

        if image is None:
            return self._blank
        if self.images is None:
            what = f"the judge has no image '{image}'"
            raise JudgeError(what, where=place(self.captioner.reference), mend="give --images")
        return Image.fromarray(self.images.read(image))

    def _make_text(self, words: Words) -> str:
        """The caption and the question; a caption too long for the model's positions is truncated."""
        tokenizer = self.captioner.tokenizer
        while words and self.limit is not None:
            length = len(hf_prompts.encode(tokenizer, hf_prompts.spell_words(tokenizer, words)))
            if length <= self.limit:
                break
            words = words[: min(len(words) - 1, len(words) * self.limit // length)]
        return f"{hf_prompts.spell_words(tokenizer, words)} {self.question}".strip()

    def _places(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Positions of tokens, computed on the CPU: Qwen2-VL would wait for the GPU at every sample."""
        find = getattr(getattr(self.captioner.model, "model", None), "get_rope_index", None)
        if find is None or "position_ids" not in self.arguments:
            return {}
        taken = signature(find).parameters
        return {"position_ids": find(**{name: value for name, value in batch.items() if name in taken})[0]}

    def _pad(self, rows: Sequence[Row], prefix: Tokens) -> dict[str, Tensor]:
        """The rows, each with the first tokens of an answer after it, padded on the right."""
        captioner, padded = self.captioner, dict[str, Tensor]()
        for name in rows[0]:
            padding = (captioner.tokenizer.pad_token_id or 0) if name.endswith("input_ids") else 0
            more = [hf_prompts.go_on(captioner.architecture, name, prefix, row) for row in rows]
            unpadded = [torch.tensor([*row[name], *after]) for row, after in zip(rows, more, strict=True)]
            padded[name] = pad_sequence(unpadded, batch_first=True, padding_value=padding)
        return padded


class AnswerJudge(Prompted):
    """Log-probability of each class's answer.

    ``forward`` returns natural log-probabilities [B, A] over the model's whole vocabulary, each at most 0. The trainer
    applies the softmax over classes (``answering == "restricted"``). One pass serves all answers that differ in their
    last token only.
    """

    def __init__(self, captioner: Captioner, target: Target, materials: Materials) -> None:
        super().__init__(captioner, materials)
        self.answering = materials.answering
        words = self.prompt.words(target.classes)
        self.answers = hf_prompts.spell_answers(captioner.tokenizer, self.asked, words)
        # The tokens before the last one of each answer; a prefix of another one needs no pass of its own.
        read = sorted({tokens[:-1] for tokens in self.answers})
        self.prefixes = [one for one in read if not any(one != other and one == other[: len(one)] for other in read)]
        self.limit = self._room(max(map(len, self.answers)))
        self.frozen = hf_models.tune(captioner, materials.tuning)
        # In a list, so that its weights are not registered twice.
        self._lora = [hf_models.add_lora(captioner)] if materials.tuning == "lora" else []
        hf_models.spell_exactly(captioner)
        self.store_frozen()
        if materials.checkpointing and materials.tuning != "zero-shot":
            hf_models.checkpoint_layers(captioner)

    def train(self, mode: bool = True) -> AnswerJudge:
        """Frozen parts stay in evaluation mode."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self

    def save_merged(self, folder: Path) -> None:
        """Save weights (LoRA adapters merged), tokenizer and image processor as a checkpoint of transformers."""
        captioner = self.captioner
        with quiet():
            (self._lora[0].merge_and_unload(safe_merge=True) if self._lora else captioner.model).save_pretrained(folder)
            for part in (captioner.processor,) if captioner.processor else (captioner.tokenizer, captioner.images):
                part.save_pretrained(folder)

    def tie_weights(self) -> None:
        """Tie the captioner's shared weights again, after moving them has made copies."""
        self.model.tie_weights()

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities [B, A], float32."""
        found: dict[Tokens, list[Tensor]] = {}
        for number, (prefix, end) in enumerate(zip(self.prefixes, batch["ends"], strict=True)):
            logits = self.logits(batch, number)
            # Positions are counted from the right end, since GIT's begin with the image.
            rows = torch.arange(len(end), device=logits.device)
            found[prefix] = [logits[rows, step - end].float().log_softmax(dim=-1) for step in range(len(prefix) + 1)]
        answers = []
        for tokens in self.answers:
            # From the first pass that reads all its tokens but the last.
            steps = next(found[prefix] for prefix in self.prefixes if prefix[: len(tokens) - 1] == tokens[:-1])
            each = [step[:, token] for step, token in zip(steps, tokens, strict=False)]
            answers.append(torch.stack(each).sum(dim=0))
        return torch.stack(answers, dim=1)


def read_for(reference: str, tokens: Sequence[str]) -> dict[str, str]:
    """What a checkpoint reads for each special token of ours; a JudgeError if its tokenizer cannot be loaded."""
    where = place(reference)
    with quiet():
        tokenizer = hf_models.load_processors(locate(reference, where), where)[0]
    return {token: hf_prompts.stand_in(tokenizer, token) for token in tokens}


@lru_cache(maxsize=1)
def _load(reference: str, content: str, materials: Materials) -> Captioner:
    """A checkpoint, loaded once per process for judges with the same ``content`` of its files and ``materials``."""
    mostly_frozen = materials.tuning in {"lora", "zero-shot"}
    dtype = torch.bfloat16 if materials.dtype == "bf16" and mostly_frozen else torch.float32
    # A zero-shot judge is loaded by every process: none sends it to the others.
    empty = materials.empty and materials.tuning != "zero-shot"
    return hf_models.load_captioner(reference, dtype=dtype, attention=materials.attention, empty=empty)


def load(reference: str, materials: Materials) -> Captioner:
    """The captioner in a folder, or of a name on the hub; the same one for judges with equal materials."""
    names = "tuning", "dtype", "attention", "empty"
    how = Materials(**{name: getattr(materials, name) for name in names})
    return _load(reference, content_of(reference, where=place(reference)), how)


def fingerprint(reference: str) -> dict[str, str]:
    """What the numbers of its judges depend on besides settings."""
    content = content_of(reference, where=place(reference))
    return {"the version of transformers": version("transformers"), "its checkpoint": content}


def make_blueprint(reference: str) -> Blueprint:
    """The judge of a captioner, a folder or a name on the hub, which is loaded when a network is made."""

    def network(target: Target, samples: Sequence[Sample], materials: Materials) -> AnswerJudge:
        return AnswerJudge(hf_models.copy_trained(load(reference, materials), materials.tuning), target, materials)

    return Blueprint(
        f"{HUGGING_FACE}{reference}",
        "abdelrahman2024imagecaptioner2, with a captioner of transformers",
        network=network,
        fingerprint=lambda _: fingerprint(reference),
        # A higher rate destroys what the network has learnt; LoRA needs ten times as much.
        recipe=_RECIPE,
        tuned={"lora": replace(_RECIPE, learning_rate=2e-4), "zero-shot": replace(_RECIPE, epochs=0, keep="last")},
        modalities=frozenset({"caption", "image"}),
        reads=PROMPTED | {"tuning", "dtype", "checkpointing", "attn_implementation"},
    )

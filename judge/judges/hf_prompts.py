"""The inputs of a captioner of transformers: images, prompts and answers as its architecture takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from judge.errors import JudgeError
from judge.judges.hf_models import Captioner
from judge.text.alignment import UNKNOWN, is_special
from judge.utils.hub import explaining, quiet

if TYPE_CHECKING:
    from PIL.Image import Image

Tokens = tuple[int, ...]
Row = dict[str, list[Any]]
"""One sample's text, position by position: ids, attention, types, and (Llama Vision, IDEFICS) which images it sees."""

DESCRIBE = "Describe the image in one sentence."
"""The usual prompt of models that follow instructions."""
# A tokenizer takes "<gender>", "<unk>" or "[SEP]" for special tokens; with spaces inside they are text.
_COMMAND = re.compile(r"([<\[])([^\s<>\[\]]+)([>\]])")


def blank() -> Image:
    """The image of a sample without one: grey."""
    from PIL import Image

    return Image.new("RGB", (224, 224), (128, 128, 128))


def processing(where: str) -> AbstractContextManager[None]:
    """Report a processor's own error as a fault of the image ``where`` (such as one too narrow for a patch)."""
    mend = "leave it out, or save it again as an ordinary JPEG"
    return explaining("the captioner's processor fails at it", where, mend)


class Prompts(NamedTuple):
    """Inputs of a batch that do not depend on the answer, and the tokens that each sample's answer continues."""

    shared: dict[str, Tensor]
    rows: list[Row]


def lay_out(captioner: Captioner, images: Sequence[Image], texts: Sequence[str]) -> Prompts:
    """RGB images of any size and texts without special tokens (see :func:`plain`), as the architecture takes them."""
    with quiet():
        if captioner.layout == "causal":
            return _among_tokens(captioner, images, texts)
        start = _start(captioner)
        if captioner.layout == "encoder":
            shared, _ = _process(captioner, images, texts)
            begun = [start for _ in texts]
        else:
            begun = [[*start, *encode(captioner.tokenizer, text)] for text in texts]
            if captioner.processor is None or not usual_prompt(captioner):
                shared = dict(captioner.images(list(images), return_tensors="pt"))
            else:
                # Florence-2's encoder reads the task beside the image; the decoder continues the prompt.
                shared, _ = _process(captioner, images, [usual_prompt(captioner)] * len(texts))
        return Prompts(shared, [{"decoder_input_ids": ids, "decoder_attention_mask": [1] * len(ids)} for ids in begun])


def usual_prompt(captioner: Captioner) -> str:
    """The default prompt for a caption: its authors' words, or "" for models that need none."""
    if captioner.facts.prompt is not None:
        return captioner.facts.prompt
    return DESCRIBE if getattr(captioner.processor, "image_token", None) else ""


def generation_inputs(captioner: Captioner, image: Image, prompt: str) -> tuple[dict[str, Tensor], list[int]]:
    """Inputs of the model's ``generate`` for one image, and the tokens of the prompt that its output begins with.

    Tensors are [1, ...] (Qwen2-VL's pixels [patches, ...]) and not padded: those of equal shapes can be concatenated.
    """
    if captioner.layout == "causal":
        shared, (row,) = _among_tokens(captioner, [image], [prompt])
        begun = row["input_ids"]
        if captioner.architecture == "blip":
            # Its ``generate`` takes the last token for [SEP] and drops it.
            row = {name: [*values, 1] for name, values in row.items()}
        return shared | {name: torch.tensor([values]) for name, values in row.items()}, begun
    if captioner.layout == "encoder" or usual_prompt(captioner):
        return _process(captioner, [image], [prompt])[0], []
    shared = dict(captioner.images(image, return_tensors="pt"))
    if not prompt:
        return shared, []
    begun = [*_start(captioner), *encode(captioner.tokenizer, prompt)]
    return shared | {"decoder_input_ids": torch.tensor([begun])}, begun


def _among_tokens(captioner: Captioner, images: Sequence[Image], texts: Sequence[str]) -> Prompts:
    shared, rows = _process(captioner, images, texts)
    tokenizer = captioner.tokenizer
    ends = {tokenizer.sep_token_id, tokenizer.eos_token_id} - {None}
    for row in rows:
        ids = row["input_ids"]
        if len(ids) > 1 and ids[-1] in ends:
            # The tokenizer closed the text ([SEP]), which the answer continues.
            for values in row.values():
                values.pop()
        if captioner.architecture == "blip":
            # Its ``generate`` does this too: the decoder was trained with another start token than [CLS].
            ids[0] = captioner.model.config.text_config.bos_token_id
    return Prompts(shared, rows)


def _process(captioner: Captioner, images: Sequence[Image], texts: Sequence[str]) -> Prompts:
    """The processor's tensors; for a causal model the text is separate, row by row without padding."""
    processor, bos = captioner.processor, captioner.tokenizer.bos_token
    plain_text = captioner.facts.inserts or not getattr(processor, "image_token", None)
    with_images = list(texts) if plain_text else [_with_image_token(processor, text) for text in texts]
    made = processor(
        images=list(images) if plain_text else [[image] for image in images],
        text=with_images,
        padding=True,
        padding_side="right",
        return_tensors="pt",
        **({"add_special_tokens": False} if bos and with_images[0].startswith(bos) else {}),
    )
    kept = {name: value for name, value in made.items() if name in captioner.arguments and name != "labels"}
    if captioner.layout != "causal":
        return Prompts(kept, [])
    tokens = made["input_ids"].shape
    of_text = [name for name, value in kept.items() if value.shape[:2] == tokens and not name.startswith("pixel")]
    real = made["attention_mask"].bool()
    rows = [{name: kept[name][i][real[i]].tolist() for name in of_text} for i in range(len(texts))]
    return Prompts({name: value for name, value in kept.items() if name not in of_text}, rows)


def _with_image_token(processor: Any, text: str) -> str:
    """The text with the image's token: as a user's turn in a chat, if the processor has a template for that."""
    if not getattr(processor, "chat_template", None):
        return f"{processor.image_token}{text}"
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}
    how = {"add_generation_prompt": True, "tokenize": False, "enable_thinking": False}
    prompt = str(processor.apply_chat_template([turn], **how))
    if prompt.rfind("<think>") > prompt.rfind("</think>"):
        what = "its chat template begins each answer with a thought, and cannot be told not to (enable_thinking)"
        raise JudgeError(what, mend="use the checkpoint that does not think (Instruct), or give it another template")
    return prompt


def _start(captioner: Captioner) -> list[int]:
    """The tokens that a decoder starts with, as in its ``generate``."""
    model = captioner.model
    sources = (model.generation_config, model.config, model.config.get_text_config(decoder=True))
    names = ("decoder_start_token_id", "bos_token_id")
    found = [getattr(source, name, None) for name in names for source in sources]
    start = next((value for value in found if value is not None), captioner.tokenizer.bos_token_id or 0)
    forced = model.generation_config.forced_bos_token_id
    return [int(start)] if forced is None else [int(start), int(forced)]


def go_on(architecture: str, name: str, prefix: Tokens, row: Row) -> list[Any]:
    """The values under ``name`` for the tokens of an answer, which follows ``row``."""
    if name.endswith("input_ids"):
        return list(prefix)
    if name.endswith("token_type_ids"):
        # PaliGemma's attention is bidirectional in the prompt (type 0), causal in the output (1). Elsewhere 0 is text.
        return [int(name == "token_type_ids" and architecture == "paligemma")] * len(prefix)
    return [row[name][-1] for _ in prefix]  # An answer sees what the prompt's end sees.


def spell_answers(tokenizer: Any, prompt: Sequence[int], words: Sequence[str]) -> tuple[Tokens, ...]:
    """The tokens of each answer after a prompt with these token ids; words that cannot be told apart are refused."""
    found: dict[Tokens, str] = {}
    for word in words:
        tokens = _spell(tokenizer, prompt[-1], word)
        if not tokens or tokenizer.unk_token_id in tokens:
            what = f"the tokenizer cannot spell the answer '{word}'"
            raise JudgeError(what, where="--answer", mend="choose a word of the captioner's vocabulary")
        if tokens in found:
            what = f"answers '{found[tokens]}' and '{word}' are the same tokens to the captioner"
            raise JudgeError(what, where="--answer", mend="choose words of different letters")
        found[tokens] = word
    return tuple(found)


def _spell(tokenizer: Any, last: int, word: str) -> Tokens:
    """``word`` after the token ``last``, with a space between them unless a line or a turn has just begun."""
    if last in tokenizer.all_special_ids:
        return tuple(encode(tokenizer, word))
    stem = str(tokenizer.decode([last]))
    gap = "" if stem[-1:].isspace() else " "
    before, both = encode(tokenizer, stem), encode(tokenizer, f"{stem}{gap}{word}")
    # Encoded with its context, since tokenizers treat a leading space differently.
    return tuple(both[len(before) :] if both[: len(before)] == before else encode(tokenizer, f"{gap}{word}"))


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of ``text``, without special tokens."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def plain(text: str) -> str:
    """``text`` without special tokens of any tokenizer."""
    return _COMMAND.sub(r"\1 \2 \3", text)


def spell_words(tokenizer: Any, words: Sequence[str]) -> str:
    """A caption as a tokenizer takes it: our special tokens by :func:`stand_in`, other words as plain text."""
    return " ".join(stand_in(tokenizer, word) if is_special(word) else plain(word) for word in words)


def stand_in(tokenizer: Any, token: str) -> str:
    """A tokenizer's equivalent of one of our special tokens.

    A hidden word ("<gender>") becomes its mask token, as in ImageCaptioner2's prompts, and a word that alignment
    removed ("<unk>") its unknown token. Without such a token they become plain words: "gender", "something". Tokens
    with a second meaning do not count: GPT-2's unknown token also ends the text.
    """
    own = tokenizer.unk_token if token == UNKNOWN else tokenizer.mask_token
    others = (tokenizer.bos_token, tokenizer.eos_token, tokenizer.sep_token, tokenizer.cls_token, tokenizer.pad_token)
    if own and own not in others:
        return str(own)
    return "something" if token == UNKNOWN else token[1:-1]

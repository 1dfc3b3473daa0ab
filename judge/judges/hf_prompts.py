"""What a captioner of transformers reads: pictures, prompts and answers as tokens of its architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from judge.errors import JudgeError
from judge.judges.hf_models import Captioner
from judge.text.alignment import UNKNOWN, is_special
from judge.utils.hub import first_line, quiet

if TYPE_CHECKING:
    from PIL.Image import Image

Tokens = tuple[int, ...]
Row = dict[str, list[int]]
"""One sample's text, position by position: ids, attention, types."""

# "<gender>", "<unk>", "[SEP]": a tokenizer would read them as its own commands. With spaces inside they are text.
_COMMAND = re.compile(r"([<\[])([^\s<>\[\]]+)([>\]])")
_GREY, _BLANK_SIZE = (128, 128, 128), (224, 224)


def blank() -> Image:
    """The picture of a sample that has none: one shade of grey."""
    from PIL import Image

    return Image.new("RGB", _BLANK_SIZE, _GREY)


@contextmanager
def processing(where: str) -> Iterator[None]:
    """Blames the picture ``where`` for a processor's own error, as at a strip too narrow to be cut into patches.

    Raises:
        JudgeError: in place of that error.
    """
    try:
        yield
    except Exception as error:
        what = f"the captioner's processor fails at it ({first_line(error)})"
        mend = "leave it out, or save it again as an ordinary JPEG"
        raise JudgeError(what, where=where, mend=mend) from error


class Prompts(NamedTuple):
    """The prompts of a batch.

    Attributes:
        shared: what all answers share: pictures, and the text of an encoder.
        rows: what each sample's answer continues, unpadded.
    """

    shared: dict[str, Tensor]
    rows: list[Row]


def lay_out(captioner: Captioner, pictures: Sequence[Image], texts: Sequence[str]) -> Prompts:
    """Pictures and texts as the captioner's architecture reads them.

    Args:
        captioner: whose.
        pictures: RGB, of any size.
        texts: free of the tokenizer's commands.
    """
    with quiet():
        if captioner.layout == "causal":
            return _among_tokens(captioner, pictures, texts)
        start = _start(captioner)
        if captioner.layout == "encoder":
            shared, _ = _process(captioner, pictures, texts)
            return Prompts(shared, [_decoder_row(start) for _ in texts])
        if captioner.processor is None:
            shared = dict(captioner.images(list(pictures), return_tensors="pt"))
        else:
            # Florence-2's encoder reads its task beside the picture; what it has written so far is the prompt.
            shared, _ = _process(captioner, pictures, [usual_prompt(captioner)] * len(texts))
        return Prompts(shared, [_decoder_row([*start, *encode(captioner.tokenizer, text)]) for text in texts])


def usual_prompt(captioner: Captioner) -> str:
    """The prompt for a caption where users give none: its authors' own words, or nothing where it just writes."""
    if captioner.family.prompt is not None:
        return captioner.family.prompt
    return "Describe the image in one sentence." if getattr(captioner.processor, "image_token", None) else ""


def ask(captioner: Captioner, picture: Image, prompt: str) -> tuple[dict[str, Tensor], list[int]]:
    """What the model's ``generate`` takes of one picture, and the tokens of the prompt that its output begins with.

    Tensors are [1, ...], of Qwen2-VL's pixels [patches, ...]: those of pictures of the same shapes can be joined along
    the first axis, and none of them needs padding.
    """
    if captioner.layout == "causal":
        shared, (row,) = _among_tokens(captioner, [picture], [prompt])
        begun = row["input_ids"]
        if captioner.architecture == "blip":
            # Its ``generate`` takes the last token for [SEP] and drops it.
            row = {name: [*values, 1] for name, values in row.items()}
        return shared | {name: torch.tensor([values]) for name, values in row.items()}, begun
    if captioner.processor is not None:
        return _process(captioner, [picture], [prompt])[0], []
    shared = dict(captioner.images(picture, return_tensors="pt"))
    if not prompt:
        return shared, []
    begun = [*_start(captioner), *encode(captioner.tokenizer, prompt)]
    return shared | {"decoder_input_ids": torch.tensor([begun])}, begun


def _among_tokens(captioner: Captioner, pictures: Sequence[Image], texts: Sequence[str]) -> Prompts:
    shared, rows = _process(captioner, pictures, texts)
    tokenizer = captioner.tokenizer
    ends = {tokenizer.sep_token_id, tokenizer.eos_token_id} - {None}
    for row in rows:
        ids = row["input_ids"]
        if len(ids) > 1 and ids[-1] in ends:
            # The tokenizer closed the text ([SEP]); the answer continues it.
            for values in row.values():
                values.pop()
        if captioner.architecture == "blip":
            # As its ``generate`` does: the decoder was trained with a start of its own in place of [CLS].
            ids[0] = captioner.model.config.text_config.bos_token_id
    return Prompts(shared, rows)


def _process(captioner: Captioner, pictures: Sequence[Image], texts: Sequence[str]) -> Prompts:
    """The processor's tensors; of a causal model those of the text apart, row by row without padding."""
    processor, bos = captioner.processor, captioner.tokenizer.bos_token
    plain_text = captioner.family.inserts or not getattr(processor, "image_token", None)
    asked = list(texts) if plain_text else [_with_picture(captioner, text) for text in texts]
    made = processor(
        images=list(pictures) if plain_text else [[picture] for picture in pictures],
        text=asked,
        padding=True,
        padding_side="right",
        return_tensors="pt",
        **({"add_special_tokens": False} if bos and asked[0].startswith(bos) else {}),
    )
    kept = {name: value for name, value in made.items() if name in captioner.arguments and name != "labels"}
    if captioner.layout != "causal":
        return Prompts(kept, [])
    of_text = [name for name in ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids") if name in kept]
    real = made["attention_mask"].bool()
    rows = [{name: kept[name][i][real[i]].tolist() for name in of_text} for i in range(len(texts))]
    return Prompts({name: value for name, value in kept.items() if name not in of_text}, rows)


def _with_picture(captioner: Captioner, text: str) -> str:
    """The text with the picture's place in it: as a user's turn in a chat, if the processor has a template for that."""
    if not getattr(captioner.processor, "chat_template", None):
        return f"{captioner.processor.image_token}{text}"
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}
    return str(captioner.processor.apply_chat_template([turn], add_generation_prompt=True, tokenize=False))


def _start(captioner: Captioner) -> list[int]:
    """The tokens before a decoder's first, as in its ``generate``."""
    model = captioner.model
    sources = (model.generation_config, model.config, model.config.get_text_config(decoder=True))
    names = ("decoder_start_token_id", "bos_token_id")
    found = [getattr(source, name, None) for name in names for source in sources]
    start = next((value for value in found if value is not None), captioner.tokenizer.bos_token_id or 0)
    forced = model.generation_config.forced_bos_token_id
    return [int(start)] if forced is None else [int(start), int(forced)]


def _decoder_row(ids: list[int]) -> Row:
    return {"decoder_input_ids": ids, "decoder_attention_mask": [1] * len(ids)}


def go_on(architecture: str, name: str, prefix: Tokens) -> list[int]:
    """The values under ``name`` for the tokens of an answer."""
    if name.endswith("input_ids"):
        return list(prefix)
    # PaliGemma reads the prompt both ways (type 0), what it writes from left to right (1). Elsewhere 0 means text.
    one = "attention_mask" in name or (name == "token_type_ids" and architecture == "paligemma")
    return [int(one)] * len(prefix)


def spell_answers(tokenizer: Any, asked: Sequence[int], words: Sequence[str]) -> tuple[Tokens, ...]:
    """The tokens of each answer as they follow a prompt that ends like ``asked``, token ids.

    Raises:
        JudgeError: a word becomes no token, or the unknown one; two become the same.
    """
    found: dict[Tokens, str] = {}
    for word in words:
        tokens = _spell(tokenizer, asked[-1], word)
        if not tokens or tokenizer.unk_token_id in tokens:
            what = f"the tokenizer cannot spell the answer '{word}'"
            raise JudgeError(what, where="--answer", mend="choose a word of the captioner's vocabulary")
        if tokens in found:
            what = f"answers '{found[tokens]}' and '{word}' are the same tokens to the captioner"
            raise JudgeError(what, where="--answer", mend="choose words that differ in more than case")
        found[tokens] = word
    return tuple(found)


def _spell(tokenizer: Any, last: int, word: str) -> Tokens:
    """``word`` after the token ``last``: with a space between them, unless a line or a turn has just begun."""
    if last in tokenizer.all_special_ids:
        return tuple(encode(tokenizer, word))
    stem = str(tokenizer.decode([last]))
    gap = "" if stem[-1:].isspace() else " "
    before, whole = encode(tokenizer, stem), encode(tokenizer, f"{stem}{gap}{word}")
    # Taken from the whole, as tokenizers differ in what they make of a space at the beginning.
    return tuple(whole[len(before) :] if whole[: len(before)] == before else encode(tokenizer, f"{gap}{word}"))


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of ``text`` and nothing around it."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def plain(text: str) -> str:
    """``text`` in which no tokenizer finds a command of its own."""
    return _COMMAND.sub(r"\1 \2 \3", text)


def spell_words(tokenizer: Any, words: Sequence[str]) -> str:
    """A caption as its tokenizer takes it: our tokens as :func:`stand_in` has them, what people wrote as text."""
    return " ".join(stand_in(tokenizer, word) if is_special(word) else plain(word) for word in words)


def stand_in(tokenizer: Any, token: str) -> str:
    """What a tokenizer is given for one of our tokens.

    A hidden word ("<gender>") becomes its mask token, as in ImageCaptioner2's prompts, and a word that alignment took
    out ("<unk>") its unknown token: one token each. Where it has none, a plain word: "gender", "something". A token
    that has another meaning too is none: GPT-2's unknown one ends the text.
    """
    own = tokenizer.unk_token if token == UNKNOWN else tokenizer.mask_token
    others = (tokenizer.bos_token, tokenizer.eos_token, tokenizer.sep_token, tokenizer.cls_token, tokenizer.pad_token)
    if own and own not in others:
        return str(own)
    return "something" if token == UNKNOWN else token[1:-1]

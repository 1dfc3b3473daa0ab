"""Tiny captioners of every family that transformers has, made from its own configuration classes alone.

``python tests/families.py`` writes docs/reference/captioners.md: which families caption and judge, and why others were
not tried. Families of ``captioners.py`` are made there, and compared with answers by hand.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any, NamedTuple

import captioners
import numpy as np
import torch
import transformers as tf
from captioners import IDS, SAMPLES, ask, load
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as MODELS
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES
from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

from judge.captioning.checkpoints import CheckpointWriter
from judge.captioning.writing import Writing
from judge.errors import JudgeError
from judge.judges.hf_models import load_captioner
from judge.utils.hub import first_line, quiet

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "captioners.md"
_WIDTHS = ("hidden_size", "embed_dim", "d_model", "dim", "projection_dim", "out_hidden_size", "text_hidden_size")
_WIDTHS += ("vision_hidden_size", "hidden_dim", "encoder_hidden_size", "moe_intermediate_size")
_DEEP = ("num_hidden_layers", "num_layers", "depth", "encoder_layers", "decoder_layers", "layers", "num_experts")
_DEEP += ("num_attention_heads", "num_heads", "attention_heads", "encoder_attention_heads", "decoder_attention_heads")
_DEEP += ("num_local_experts", "n_routed_experts", "temporal_patch_size", "spatial_merge_size")
_WIDE = ("intermediate_size", "mlp_dim", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "ff_dim", "window_size")
_ONE = ("num_key_value_heads", "num_kv_heads", "num_experts_per_tok")
SMALL: dict[str, Any] = {
    **dict.fromkeys(_WIDTHS, 32), **dict.fromkeys(_DEEP, 2), **dict.fromkeys(_WIDE, 64), **dict.fromkeys(_ONE, 1),
    "head_dim": 16, "image_size": 32, "patch_size": 16, "max_position_embeddings": 4096, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "shared_expert_intermediate_size": 32, "fullatt_block_indexes": [1],
    "deepstack_visual_indexes": [0], "mm_tokens_per_image": 4, "resampler_n_latents": 4,
    "image_grid_pinpoints": [[32, 64], [64, 32]],
}  # fmt: skip
_MROPE = {"mrope_section": [2, 3, 3], "partial_rotary_factor": 1.0}
_PROCESSORS: dict[str, Any] = {
    "patch_size": 16, "num_query_tokens": 2, "image_seq_length": 4, "image_seq_len": 4, "num_image_tokens": 4,
    "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1,
}  # fmt: skip
# Where the defaults of a family contradict a tiny model: attributes of its processor and of its configuration.
SPECIAL: dict[str, dict[str, Any]] = {
    "aria": {"projector_patch_to_query_dict": {3721: 256}, "vision_config.image_size": 976},
    "aya_vision": {"processor.img_size": 32, "processor.patch_size": 32},
    "cohere2_vision": {"processor.image_processor.patch_size": 1},
    "gemma3n": {
        "text_config.num_kv_shared_layers": 0, "text_config.vocab_size_per_layer_input": 400,
        "text_config.hidden_size_per_layer_input": 8,
    },
    "gemma4": {"text_config.vocab_size_per_layer_input": 400, "text_config.hidden_size_per_layer_input": 8},
    "granite4_vision": {"deepstack_layer_map": [[-1, 0]], "downsample_rate": "1/2"},
    "instructblip": {"text_config.word_embed_proj_dim": 32, "num_query_tokens": 2},
    "kimi_k25": {
        "projection_hidden_size": 32, "text_config.qk_rope_head_dim": 16, "text_config.qk_nope_head_dim": 16,
        "text_config.v_head_dim": 16,
    },
    "llama4": {
        "vision_config.projector_input_dim": 32, "vision_config.projector_output_dim": 32,
        "vision_config.vision_output_dim": 32, "vision_config.intermediate_size": 128,
    },
    "llava_onevision": {"processor.vision_feature_select_strategy": "full"},
    "mistral3": {"processor.spatial_merge_size": 2},
    "molmo2": {
        "adapter_config.vision_feature_layer": [1, 0], "vision_config.num_position_embeddings": 4,
        "processor.image_processor.overlap_margins": [0, 0],
    },
    "vipllava": {"vision_feature_layers": [-1, -2]},
}  # fmt: skip
LIKE = {"fast_vlm": "llava", "qwen3_vl_moe": "qwen3_vl", "glm_ocr": "glm46v", "glm4v_moe": "glm4v"}
"""Families with the processor of another."""
# Parts that the defaults of a family leave out, or that are too large at once.
PARTS: dict[str, dict[str, Any]] = {
    "gemma4": {
        "vision_config": {"model_type": "gemma4_vision"},
        "text_config": {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2, "global_head_dim": 16},
    },
}
_MOST = 40_000_000  # Weights.
# Those of captioners.py, by transformers' names.
BY_HAND = {"blip", "blip-2", "florence2", "git", "llava", "mllama", "paligemma", "pix2struct", "qwen2_vl", "qwen2_5_vl"}
BY_HAND |= {"vision-encoder-decoder"}


class Outcome(NamedTuple):
    """Whether a tiny model captions and judges in company as alone; else the reason."""

    captions: bool
    judges: bool
    reason: str = ""


def _shrink(config: Any, words: int, image_token: int | None) -> Any:
    """A configuration of a tiny model with this vocabulary."""
    folder = Path(inspect.getfile(type(config))).parent
    has_sections = any("mrope_section" in path.read_text() for path in folder.glob("modeling_*.py"))
    for name, value in list(vars(config).items()):
        new: Any = None
        if isinstance(value, tf.PreTrainedConfig):
            _shrink(value, words, image_token)
        elif name == "layer_types" and value:
            new = [value[0], "full_attention" if "full_attention" in value else value[-1]]
        elif name in {"rope_parameters", "rope_scaling"} and isinstance(value, dict):
            new = value | (
                _MROPE if has_sections or value.keys() & _MROPE.keys() or value.get("type") == "mrope" else {}
            )
        elif name == "vocab_size":
            new = words
        elif name in {"image_token_id", "image_token_index", "image_patch_id"}:
            new = image_token
        elif name in SMALL and not isinstance(value, bool) and isinstance(value, int | list | tuple | None):
            new = SMALL[name]
            new = type(value)([new] * len(value)) if isinstance(value, list | tuple) and isinstance(new, int) else new
        if new is not None:
            with suppress(Exception):  # A property.
                setattr(config, name, new)
    return config


def _tokenizer(source: str, *, letters: bool = False) -> Any:
    """One token a word (or a letter), and one for each special token that a processor's ``source`` names."""
    named = {
        "image_token",
        *re.findall(r'tokenizer, "(\w+_token)"', source),
        *re.findall(r"tokenizer\.(\w+_token)\b", source),
    }
    named = {name for name in named if not re.match("add|bos|eos|pad|unk|cls|sep|mask", name)}
    quoted = {*re.findall(r"[\"'](<[^\"'\s{}]*>|\[[A-Z_]+\])[\"']", source), "<IMG_CONTEXT>", "<img>", "</img>"}
    if "image_token.content" in source:  # The processor makes a token of its own.
        named -= {"image_token"}
    extra = {name: "<image>" if name == "image_token" else f"<{name}>" for name in sorted(named)}
    others = sorted({"<gender>", "<|image|>", "<|patch|>", "[IMG]"} | quoted - {*extra.values()})
    extra |= {f"other_{number}_token": token for number, token in enumerate(others)}
    ids = dict(IDS)
    for token in extra.values():
        ids.setdefault(token, len(ids))
    raw = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    raw.normalizer, raw.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    if letters:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet() - ids.keys())
        raw = Tokenizer(models.BPE(ids | {letter: len(ids) + n for n, letter in enumerate(alphabet)}, []))
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    marks = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return tf.PreTrainedTokenizerFast(tokenizer_object=raw, extra_special_tokens=extra, **marks)


def _first(names: Any) -> str:
    """One of the classes that an automatic mapping of transformers offers."""
    if isinstance(names, dict):
        names = names.get("torchvision") or next(filter(None, names.values()))
    return str(next(filter(None, reversed(names))) if isinstance(names, tuple) else names)


def _small_images(images: Any) -> Any:
    """An image processor with images of 32 pixels and patches of 16."""
    limits = {"height": 32, "width": 32, "max_height": 32, "max_width": 32}
    for name in ("size", "crop_size", "max_image_size", "image_size"):
        value = getattr(images, name, None)
        if isinstance(value, int):
            setattr(images, name, 32)
        elif value is not None:
            given = {key: of for key, of in dict(value).items() if of is not None}
            small = {key: limits.get(key, (32, 64)[key == "longest_edge"]) for key in given}
            if given.get("longest_edge", 0) > 3000:  # Counted in pixels.
                small = {"shortest_edge": 256, "longest_edge": 4096}
            setattr(images, name, small if isinstance(value, dict) else type(value)(**small))
    patch = getattr(images, "patch_size", None)
    if patch is not None:
        images.patch_size = 16 if isinstance(patch, int) else {"height": 16, "width": 16}
    for name, value in (("image_grid_pinpoints", SMALL["image_grid_pinpoints"]), ("max_patches", 16)):
        if getattr(images, name, None):
            setattr(images, name, value)
    return images


def _set(thing: Any, values: dict[str, Any], start: str) -> None:
    """Set the attributes whose names begin with ``start``."""
    for name, value in values.items():
        *path, last = name.removeprefix(start).split(".")
        if name.startswith("processor.") == bool(start):
            setattr(functools.reduce(getattr, path, thing), last, value)


def _processor(kind: str, *, letters: bool = False) -> Any:
    special, kind = SPECIAL.get(kind, {}), LIKE.get(kind, kind)
    made: Any = getattr(tf, str(PROCESSOR_MAPPING_NAMES[kind]))
    tokenizer = _tokenizer(inspect.getsource(sys.modules[made.__module__]), letters=letters)
    given = dict(_PROCESSORS) | ({"image_seq_length": 1} if kind == "internvl" else {})
    given["image_processor"] = _small_images(getattr(tf, _first(IMAGE_PROCESSOR_MAPPING_NAMES[kind]))())
    if kind in VIDEO_PROCESSOR_MAPPING_NAMES:
        given["video_processor"] = _small_images(getattr(tf, _first(VIDEO_PROCESSOR_MAPPING_NAMES[kind]))())
    if kind in FEATURE_EXTRACTOR_MAPPING_NAMES:
        given["feature_extractor"] = getattr(tf, FEATURE_EXTRACTOR_MAPPING_NAMES[kind])()
    given |= {"tokenizer": tokenizer, "qformer_tokenizer": tokenizer}
    processor = made(**{name: given[name] for name in inspect.signature(made).parameters if name in given})
    _set(processor, special, "processor.")
    if isinstance(getattr(processor, "image_token", None), str):
        processor.chat_template = captioners.CHAT.replace("PICTURE", processor.image_token)
    return processor


def save(kind: str, folder: Path) -> None:
    """Save a tiny model of the family ``kind`` with random weights, and its processor."""
    processor = _processor(kind)
    with TemporaryDirectory() as place, suppress(Exception):
        processor.save_pretrained(place)
        CONFIG_MAPPING[kind]().save_pretrained(place)
        tokenizer = tf.AutoTokenizer.from_pretrained(place)
        if tokenizer.tokenize("male") == tokenizer.tokenize("female"):  # Its class reads byte pairs alone.
            processor = _processor(kind, letters=True)
    token = getattr(processor, "image_token_id", None)
    with suppress(Exception):  # Most of the tokens of a prompt are those that an image's features replace.
        prompt = processor(
            images=[[Image.new("RGB", (56, 40))]], text=[f"a {processor.image_token}"], return_tensors="pt"
        )
        counts = Counter(np.ravel(prompt["input_ids"]).tolist())
        del counts[processor.tokenizer.unk_token_id]
        ((token, _),) = counts.most_common(1)
    config = _shrink(CONFIG_MAPPING[kind](**PARTS.get(kind, {})), len(processor.tokenizer), token)
    _set(config, SPECIAL.get(kind, {}), "")
    maker = getattr(tf, MODELS[kind])
    with torch.device("meta"):
        size = sum(weight.numel() for weight in maker(config).parameters())
    if size > _MOST:
        raise ValueError(f"{size:,} weights")
    torch.manual_seed(0)
    model = maker(config)
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight.data, std=0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _short(reason: str) -> str:
    """A reason in a table."""
    return shorten(re.sub(r"[|<>`\\()]", "", reason), 90, placeholder=" ...")


def outcome(kind: str, folder: Path) -> Outcome:
    """What a tiny model of the family ``kind`` does: captions and answers in company must be those alone."""
    with quiet():
        try:
            save(kind, folder)
            captioner = load_captioner(str(folder))
        except Exception as error:  # Transformers raises anything.
            return Outcome(False, False, _short(error.what if isinstance(error, JudgeError) else first_line(error)))
        try:
            writer = CheckpointWriter(captioner, Writing(max_tokens=5))
            noise = (np.random.default_rng(n).integers(0, 255, (40, 56, 3), dtype=np.uint8) for n in range(3))
            prepared = [writer.prepare(Image.fromarray(pixels)) for pixels in noise]
        except JudgeError as error:
            return Outcome(False, False, _short(re.sub(r"it cannot caption: .*? suit it ", "", error.what)))
        together = writer.write(prepared)
        if together != [writer.write([one])[0] for one in prepared]:
            return Outcome(False, False, "captions of a batch are not those of single images")
        try:
            network = load(folder)
            alone = torch.cat([ask(network, [sample]) for sample in SAMPLES])
        except JudgeError as error:
            return Outcome(True, False, error.what)
        same = torch.allclose(ask(network), alone, atol=1e-4)
        return Outcome(True, same, "" if same else "answers of a batch are not those of single samples")


INTRODUCTION = """# Captioners of transformers

<!-- Made by python tests/families.py -->

Families that transformers {version} loads as captioners. Of each a tiny model with random weights was made, from
its own configuration classes. It captions or judges if captions and answers of a batch are those of single images.
Families of the first row are also compared with answers computed by hand. A family that was not built ("-") may work:
its tiny model needs more than the defaults of its classes.

| family | captions | judges | |
| --- | --- | --- | --- |
| {by_hand} | yes | yes | by hand |
"""


def main() -> None:
    """Write the page."""
    lines = [INTRODUCTION.format(version=tf.__version__, by_hand=", ".join(sorted(BY_HAND)))]
    for kind in sorted(MODELS.keys() - BY_HAND):
        with TemporaryDirectory() as folder:
            found = outcome(kind, Path(folder))
        words = ["yes" if of else "no" for of in found[:2]] if found.captions or found.judges else ["-", "-"]
        lines.append(f"| {kind} | {' | '.join(words)} | {found.reason} |\n")
    PAGE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

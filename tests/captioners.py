"""Tiny captioners of every family with random weights, and their answers computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf
from helpers import GENDER, network_of
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from judge.judges import Materials, Tuning
from judge.judges.huggingface import AnswerJudge
from judge.judges.prompts import Prompt, make_prompt
from judge.types import Sample, Target
from judge.utils.hub import quiet

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<|image_pad|>", "<|video_pad|>", "<gender>", "<dec>", "[MASK]")
WORDS = [
    *("a", "person", "is", "rides", "the", "dog", "therefore", ",", "gender", "<", "unk", ">", "female", "male"),
    *("grown", "man", "what", "does", "image", "describe", "?", "user", "assistant", ":"),
]
IDS = {word: index for index, word in enumerate([*SPECIAL, *WORDS])}
PAD, BOS, EOS, UNK, PICTURE, PATCH, _, GENDER_TOKEN, DEC, MASK = range(10)
# Their tokenizers, BERT's and BART's, have a mask token.
MASKED = {"blip", "git", "florence2"}
SIDE = {"height": 32, "width": 32}
SMALL = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 2}
SEEING = {**SMALL, "image_size": 32, "patch_size": 16}
MARKS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
TEXT = {"vocab_size": len(IDS), "max_position_embeddings": 64, **MARKS}
Checkpoints = Callable[[str], Path]
CHAT = (
    "{% for m in messages %}user : {% for c in m['content'] %}{% if c['type'] == 'image' %}PICTURE{% else %}"
    "{{ c['text'] }}{% endif %} {% endfor %}{% endfor %}{% if add_generation_prompt %}assistant :{% endif %}"
)


def make_tokenizer(
    *, closed: bool = False, opened: bool = False, masks: bool = False, image: str | None = "<image>"
) -> Any:
    """One token a word. ``closed``: <s> ... </s>, as BERT's; ``opened``: <s> ..., as Llama's. Pads on the left."""
    raw = Tokenizer(models.WordLevel(IDS, unk_token="<unk>"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    if closed or opened:
        around = "<s> $A </s>" if closed else "<s> $A"
        raw.post_processor = processors.TemplateProcessing(single=around, special_tokens=[("<s>", BOS), ("</s>", EOS)])
    marks = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    marks |= {"cls_token": "<s>", "sep_token": "</s>"} if closed else {}
    marks |= {"mask_token": "[MASK]"} if masks else {}
    extra = {"extra_special_tokens": {"image_token": image}} if image else {}
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=raw, padding_side="left", additional_special_tokens=["<gender>"], **marks, **extra
    )


def vit_gpt2() -> list[Any]:
    gpt = tf.GPT2Config(
        vocab_size=len(IDS), n_embd=32, n_layer=2, n_head=2, n_positions=64, add_cross_attention=True, is_decoder=True
    )
    config = tf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        tf.ViTConfig(**SEEING), gpt, decoder_start_token_id=BOS, pad_token_id=PAD
    )
    return [tf.VisionEncoderDecoderModel(config), tf.ViTImageProcessor(size=SIDE), make_tokenizer()]


def blip() -> list[Any]:
    text = {**SMALL, **TEXT, "bos_token_id": DEC, "sep_token_id": EOS, "encoder_hidden_size": 32}
    config = tf.BlipConfig(text_config=text, vision_config=SEEING, projection_dim=32)
    processor = tf.BlipProcessor(tf.BlipImageProcessor(size=SIDE), make_tokenizer(closed=True, masks=True))
    return [tf.BlipForConditionalGeneration(config), processor]


def _blip2(text: Any, tokenizer: Any) -> list[Any]:
    config = tf.Blip2Config(
        vision_config=SEEING,
        qformer_config={**SMALL, "encoder_hidden_size": 32, "vocab_size": len(IDS)},
        text_config=text.to_dict(),
        num_query_tokens=4,
        image_token_index=PICTURE,
    )
    processor = tf.Blip2Processor(tf.BlipImageProcessor(size=SIDE), tokenizer, num_query_tokens=4)
    return [tf.Blip2ForConditionalGeneration(config), processor]


def blip2() -> list[Any]:
    layers = {"ffn_dim": 37, "num_hidden_layers": 2, "num_attention_heads": 2}
    return _blip2(
        tf.OPTConfig(hidden_size=32, word_embed_proj_dim=32, **layers, **TEXT), make_tokenizer(opened=True, image=None)
    )


def blip2_t5() -> list[Any]:
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 37, "num_layers": 2, "num_heads": 2}
    text = tf.T5Config(vocab_size=len(IDS), **sizes, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD)
    return _blip2(text, make_tokenizer(closed=True, image=None))


def git() -> list[Any]:
    images = tf.CLIPImageProcessor(size=SIDE, crop_size=SIDE)
    config = tf.GitConfig(vision_config=SEEING, **SMALL, **TEXT)
    return [tf.GitForCausalLM(config), tf.GitProcessor(images, make_tokenizer(closed=True, masks=True))]


def llava(chat: str | None = CHAT) -> list[Any]:
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**SEEING).to_dict(),
        text_config=tf.LlamaConfig(**SMALL, **TEXT).to_dict(),
        image_token_index=PICTURE,
        vision_feature_layer=-1,
    )
    processor = tf.LlavaProcessor(
        tf.CLIPImageProcessor(size=SIDE, crop_size=SIDE),
        make_tokenizer(opened=True),
        patch_size=16,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=chat and chat.replace("PICTURE", "<image>"),
    )
    return [tf.LlavaForConditionalGeneration(config), processor]


def paligemma() -> list[Any]:
    images = tf.SiglipImageProcessor(size=SIDE)
    images.image_seq_length = 4
    processor = tf.PaliGemmaProcessor(images, make_tokenizer())
    text = tf.GemmaConfig(
        **SMALL, **{**TEXT, "vocab_size": len(processor.tokenizer)}, head_dim=16, num_key_value_heads=1
    )
    config = tf.PaliGemmaConfig(
        vision_config=tf.SiglipVisionConfig(**SEEING).to_dict(),
        text_config=text.to_dict(),
        image_token_index=PICTURE,
        projection_dim=32,
    )
    return [tf.PaliGemmaForConditionalGeneration(config), processor]


def _qwen(name: str, text: Any, **seeing: Any) -> list[Any]:
    rope = {"type": "mrope", "mrope_section": [2, 3, 3]}
    config = getattr(tf, f"{name}Config")(
        text_config=text(**SMALL, **TEXT, num_key_value_heads=1, rope_scaling=rope).to_dict(),
        vision_config={"depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 4, **seeing},
        image_token_id=PATCH,
        video_token_id=PATCH + 1,
    )
    processor = getattr(tf, f"{name}Processor")(
        tf.Qwen2VLImageProcessor(patch_size=4, merge_size=2, size={"shortest_edge": 256, "longest_edge": 1024}),
        make_tokenizer(image="<|image_pad|>"),
        tf.Qwen2VLVideoProcessor(patch_size=4),
        chat_template=CHAT.replace("PICTURE", "<|image_pad|>"),
    )
    return [getattr(tf, f"{name}ForConditionalGeneration")(config), processor]


def qwen2_vl() -> list[Any]:
    return _qwen("Qwen2VL", tf.Qwen2VLTextConfig, embed_dim=32, spatial_merge_size=2)


def qwen2_5_vl() -> list[Any]:
    windows = {"spatial_merge_size": 2, "window_size": 16, "fullatt_block_indexes": [1], "intermediate_size": 37}
    return _qwen("Qwen2_5_VL", tf.Qwen2_5_VLTextConfig, out_hidden_size=32, **windows)


def florence2() -> list[Any]:
    sizes = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("ffn_dim", 37))}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    patches = {"patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1], "patch_prenorm": [False, True]}
    seeing = {"embed_dim": [8, 16], "depths": [1, 1], "num_heads": [1, 2], "num_groups": [1, 2], "window_size": 4}
    config = tf.Florence2Config(
        text_config=tf.BartConfig(d_model=32, **sizes, **heads, **TEXT, decoder_start_token_id=EOS).to_dict(),
        vision_config={**seeing, **patches, "projection_dim": 32, "max_position_embeddings": 8},
        image_token_id=PICTURE,
    )
    images = tf.CLIPImageProcessor(size=SIDE, crop_size=SIDE)
    images.image_seq_length = 17
    model = tf.Florence2ForConditionalGeneration(config)
    model.generation_config.forced_bos_token_id = BOS
    return [model, tf.Florence2Processor(images, make_tokenizer(closed=True, masks=True))]


def mllama() -> list[Any]:
    text = {**SMALL, **TEXT, "num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    tiles = {"max_num_tiles": 2, "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]]}
    layers = {"num_global_layers": 1, "intermediate_layers_indices": [0], "attention_heads": 2, "vision_output_dim": 64}
    config = tf.MllamaConfig(
        vision_config={**SEEING, **tiles, **layers},
        text_config={**text, "cross_attention_layers": [1]},
        image_token_index=PICTURE,
    )
    chat = CHAT.replace("PICTURE", "<image>")
    images = tf.MllamaImageProcessor(size=SIDE, max_image_tiles=2)
    processor = tf.MllamaProcessor(images, make_tokenizer(), chat_template=chat)
    model = tf.MllamaForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if "gate" in name:  # At 0, as they are before training, they hide the image.
            torch.nn.init.ones_(weight.data)
    return [model, processor]


def pix2struct() -> list[Any]:
    wide = {"d_kv": 16, "d_ff": 37}
    text = {**wide, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "vocab_size": len(IDS), **MARKS}
    seeing = {**SMALL, **wide, "patch_embed_hidden_size": 48, "seq_len": 16}
    text["decoder_start_token_id"] = PAD
    config = tf.Pix2StructConfig(text_config=text, vision_config=seeing, **MARKS)
    images = tf.Pix2StructImageProcessor(patch_size={"height": 4, "width": 4}, max_patches=16)
    return [tf.Pix2StructForConditionalGeneration(config), tf.Pix2StructProcessor(images, make_tokenizer())]


_MAKERS = (vit_gpt2, blip, blip2, blip2_t5, git, llava, paligemma, qwen2_vl, qwen2_5_vl, florence2, mllama, pix2struct)
FAMILIES: dict[str, Callable[[], list[Any]]] = {make.__name__: make for make in _MAKERS}
FAMILIES["llava_without_chat"] = partial(llava, None)


class Pictures:
    """Noise, another for each image; the clue of an even image is red, of an odd one blue."""

    def read(self, image_id: str) -> np.ndarray:
        picture = np.random.default_rng(int(image_id)).integers(0, 255, (40, 56, 3), dtype=np.uint8)
        picture[:, :28, 2 * (int(image_id) % 2)] = 255
        return picture

    def key(self, image_id: str) -> str:
        return image_id


PROMPT = make_prompt("gender", answers={"male": "grown man"})
ANSWERS = ((IDS["female"],), (IDS["grown"], IDS["man"]))
SAMPLES = [
    Sample("1", "human", 0, ("a", "<gender>", "rides", "the", "<unk>"), (0,), image="1"),
    Sample("2", "human", 0, ("the", "dog"), (1,), image="2"),
    Sample("3", "human", 0, (), (1,), image="3"),
    Sample("4", "human", 0, ("a", "person", "rides", "the", "dog", ",", "a", "dog", "rides", "a"), (0,), image="4"),
    Sample("5", "human", 0, ("dog",), (0,)),
]


def load(folder: Path | str, tuning: Tuning = "full", prompt: Prompt = PROMPT, target: Target = GENDER) -> AnswerJudge:
    materials = Materials(images=Pictures(), prompt=prompt, tuning=tuning)  # type: ignore[arg-type]
    made = network_of(f"hf:{folder}", SAMPLES, materials, target=target)
    assert isinstance(made, AnswerJudge)
    return made


@torch.no_grad()
def ask(network: AnswerJudge, samples: Sequence[Sample] = SAMPLES) -> torch.Tensor:
    return network(network.collate(samples))


def words_of(sample: Sample, family: str) -> list[int]:
    """A hidden word is the mask token where there is one, else "gender"; a word taken out is the unknown token."""
    words = ["[MASK]" if word == "<gender>" and family in MASKED else word.strip("<>") for word in sample.words]
    return [UNK if word == "unk" else IDS[word] for word in (*words, *["therefore", ",", "the", "gender", "is"])]


class ByHand:
    """One sample, one token at a time, no padding, ids written down; only pictures go through transformers' code."""

    def __init__(self, family: str, folder: Path) -> None:
        self.family = family
        with quiet():
            self.model = type(FAMILIES[family]()[0]).from_pretrained(folder).eval()
            self.images = tf.AutoImageProcessor.from_pretrained(folder)

    @torch.no_grad()
    def log_probability(self, sample: Sample, answer: Sequence[int]) -> float:
        grey = np.full((224, 224, 3), 128, np.uint8)
        pixels = grey if sample.image is None else Pictures().read(sample.image)
        image = dict(self.images(Image.fromarray(pixels), return_tensors="pt"))
        found, prompt = 0.0, words_of(sample, self.family)
        for step, token in enumerate(answer):
            logits = self.model(**self.inputs(prompt, answer[:step], image)).logits[0, -1]
            found += float(logits[token] - logits.exp().sum().log())
        return found

    def inputs(self, prompt: list[int], answer: Sequence[int], image: dict[str, Any]) -> dict[str, Any]:
        def ids(*parts: int | Sequence[int]) -> torch.Tensor:
            return torch.tensor([[i for part in parts for i in ([part] if isinstance(part, int) else part)]])

        user, assistant = [IDS["user"], IDS[":"]], [IDS["assistant"], IDS[":"]]
        four, patches = [PICTURE] * 4, int(image.get("image_grid_thw", torch.zeros(1)).prod()) // 4
        task = [IDS[word] for word in ("what", "does", "the", "image", "describe", "?")]
        # What the encoder or the only network reads, and what the decoder has written.
        text, written = {
            "vit_gpt2": (ids(), ids(BOS, prompt, answer)),
            "blip": (ids(DEC, prompt, answer), None),
            "git": (ids(BOS, prompt, answer), None),
            "blip2": (ids(four, BOS, prompt, answer), None),
            "blip2_t5": (ids(four, BOS, prompt, EOS), ids(PAD, answer)),
            "llava": (ids(BOS, user, four, prompt, assistant, answer), None),
            "llava_without_chat": (ids(BOS, four, prompt, answer), None),
            "paligemma": (ids(four, BOS, prompt, answer), None),
            "qwen2_vl": (ids(user, [PATCH] * patches, prompt, assistant, answer), None),
            "qwen2_5_vl": (ids(user, [PATCH] * patches, prompt, assistant, answer), None),
            "mllama": (ids(BOS, user, PICTURE, prompt, assistant, answer), None),
            "pix2struct": (ids(), ids(PAD, prompt, answer)),
            "florence2": (ids([PICTURE] * 17, BOS, task, EOS), ids(EOS, BOS, prompt, answer)),
        }[self.family]
        found = image | ({"input_ids": text} if text.numel() else {})
        if written is not None:
            found["decoder_input_ids"] = written
        if self.family == "paligemma":
            found["token_type_ids"] = (torch.arange(text.shape[1]) >= text.shape[1] - len(answer)).long()[None]
        if self.family == "mllama":  # Every token from the image's on sees its tiles.
            tiles = found.pop("num_tiles")[0][0]
            found["cross_attention_mask"] = torch.zeros(1, text.shape[1], 1, 2, dtype=torch.int64)
            found["cross_attention_mask"][:, 3:, :, :tiles] = 1
        if self.family.startswith("qwen"):
            found["mm_token_type_ids"] = (text == PATCH).int()
        return found


# The colour gives the class away; the caption does not.
TOLD = [Sample(str(i), "human", 0, ("a", "<gender>", "dog")[: 1 + i % 3], (i % 2,), image=str(i)) for i in range(24)]

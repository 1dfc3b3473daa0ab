"""Captioners of transformers as judges: real models of every family, tiny, saved and loaded again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from helpers import GENDER, fault_of, network_of, save_captioner
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import decoders as token_decoders

from judge.judges import Materials, Recipe, Tuning, find_judge
from judge.judges.hf_prompts import spell_answers, spell_words
from judge.judges.huggingface import AnswerJudge, read_for
from judge.judges.prompts import Prompt, make_prompt
from judge.training.launch import make_accelerator
from judge.training.loop import Trainer
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


_MAKERS = (vit_gpt2, blip, blip2, blip2_t5, git, llava, paligemma, qwen2_vl, qwen2_5_vl, florence2)
FAMILIES: dict[str, Callable[[], list[Any]]] = {make.__name__: make for make in _MAKERS}
FAMILIES["llava_without_chat"] = partial(llava, None)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """The folder of a family's checkpoint, made when first asked for."""
    root = tmp_path_factory.mktemp("captioners")
    return cache(lambda family: save_captioner(root / family, family))


class Pictures:
    """Noise, another for each image; the clue of an even image is red, of an odd one blue."""

    def read(self, image_id: str) -> np.ndarray:
        picture = np.random.default_rng(int(image_id)).integers(0, 255, (40, 56, 3), dtype=np.uint8)
        picture[:, :28, 2 * (int(image_id) % 2)] = 255
        return picture


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
    materials = Materials(pictures=Pictures(), prompt=prompt, tuning=tuning)  # type: ignore[arg-type]
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
            "florence2": (ids([PICTURE] * 17, BOS, task, EOS), ids(EOS, BOS, prompt, answer)),
        }[self.family]
        found = image | ({"input_ids": text} if text.numel() else {})
        if written is not None:
            found["decoder_input_ids"] = written
        if self.family == "paligemma":
            found["token_type_ids"] = (torch.arange(text.shape[1]) >= text.shape[1] - len(answer)).long()[None]
        if self.family.startswith("qwen"):
            found["mm_token_type_ids"] = (text == PATCH).int()
        return found


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_log_probability_by_hand_in_any_company(family: str, checkpoint: Checkpoints) -> None:
    """Answers of one token and of two, captions of every length in one batch, blanked caption, blanked picture."""
    network = load(checkpoint(family))
    assert network.answers == ANSWERS
    by_hand = ByHand(family, checkpoint(family))
    expected = [[by_hand.log_probability(sample, answer) for answer in ANSWERS] for sample in SAMPLES]
    whole = ask(network).numpy()
    assert whole == pytest.approx(np.array(expected), abs=1e-4)
    assert (whole <= 0).all()
    alone = torch.cat([ask(network, [sample]) for sample in SAMPLES])
    assert alone.numpy() == pytest.approx(whole, abs=1e-4)
    pairs = torch.cat([ask(network, SAMPLES[3:1:-1]), ask(network, [SAMPLES[4], SAMPLES[0]])])
    assert pairs.numpy() == pytest.approx(whole[[3, 2, 4, 0]], abs=1e-4)
    network.captioner.tokenizer.padding_side = "left"
    assert ask(network).numpy() == pytest.approx(whole, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_picture_and_the_caption_matter_and_bf16_is_near(family: str, checkpoint: Checkpoints) -> None:
    network, sample = load(checkpoint(family)), SAMPLES[1]
    blanked = [replace(sample, image=None), replace(sample, words=()), replace(sample, image=None, words=())]
    found = ask(network, [sample, replace(sample, image="7"), *blanked])
    assert torch.isfinite(found).all()
    for one, other in combinations(found, 2):
        assert (one - other).abs().max() > 1e-3
    products, words = set[tuple[bool, torch.dtype]](), len(network.captioner.tokenizer)
    for module in network.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _, __, made: products.add((made.shape[-1] == words, made.dtype)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = ask(network)
    assert products == {(False, torch.bfloat16), (True, torch.float32)}
    assert near.dtype == torch.float32
    assert near.numpy() == pytest.approx(ask(network).numpy(), abs=0.15)
    assert not torch.equal(near, ask(network))


@pytest.mark.parametrize("family", FAMILIES)
def test_ours_alone_are_tokens_to_the_tokenizer(family: str, checkpoint: Checkpoints) -> None:
    """A hidden word is one token, a word taken out is one; what people wrote in the same letters is text."""
    network = load(checkpoint(family), prompt=Prompt("the <unk> is a <gender> [Answer]", {"male": "grown man"}))
    batch = network.collate(SAMPLES[:1])
    (ids,) = [
        value[0].tolist()
        for part in (batch["shared"], batch["passes"][0])
        for name, value in part.items()
        if "input_ids" in name and IDS["rides"] in value[0]
    ]
    start = ids.index(IDS["rides"]) - 2
    hidden = MASK if family in MASKED else IDS["gender"]
    caption = [IDS["a"], hidden, IDS["rides"], IDS["the"], UNK]
    asked = ["the", "<", "unk", ">", "is", "a", "<", "gender", ">"]
    assert ids[start : start + 14] == [*caption, *(IDS[word] for word in asked)]
    assert (ids.count(UNK), ids.count(GENDER_TOKEN), ids.count(MASK)) == (1, 0, int(family in MASKED))


def test_stand_ins() -> None:
    """GPT-2's unknown token ends its text: no word is read as the end."""
    with quiet():
        plain, masked, ends = make_tokenizer(), make_tokenizer(masks=True), make_tokenizer()
        ends.unk_token = ends.eos_token
    words = ("a", "<object>", "<", "unk", ">", "<unk>", "[mask]")
    assert spell_words(masked, words) == "a [MASK] < unk > <unk> [ mask ]"
    assert spell_words(plain, words) == "a object < unk > <unk> [ mask ]"
    assert spell_words(ends, words) == "a object < unk > something [ mask ]"
    assert masked.encode("[MASK]", add_special_tokens=False) == [MASK]


@pytest.mark.parametrize("family", ["git", "vit_gpt2"])
def test_what_is_read_is_known_without_weights(family: str, checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint(family), tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    hidden = "[MASK]" if family in MASKED else "gender"
    assert read_for(str(folder), ["<gender>", "<unk>"]) == {"<gender>": hidden, "<unk>": "<unk>"}
    assert "no such folder" in fault_of(read_for, str(tmp_path / "none"), ["<gender>"])


@pytest.mark.parametrize("family", ["vit_gpt2", "blip", "git", "blip2", "florence2"])
def test_a_long_caption_is_cut_not_the_question(family: str, checkpoint: Checkpoints) -> None:
    network = load(checkpoint(family))
    long = Sample("9", "generated", 0, ("dog", "rides", "<gender>") * 60, (0,), image="9")
    ids = next(iter(network.collate([long])["passes"][0].values()))[0].tolist()
    assert ids[-4:] == [IDS["the"], IDS["gender"], IDS["is"], IDS["grown"]]
    assert 40 < len(ids) <= 64
    assert torch.isfinite(ask(network, [long])).all()


def test_blip_reads_what_its_generate_reads(checkpoint: Checkpoints) -> None:
    network = load(checkpoint("blip"))
    batch = network.collate(SAMPLES[1:2])
    pixels, prompt = batch["shared"]["pixel_values"], torch.tensor([[BOS, *words_of(SAMPLES[1], "blip"), EOS]])
    options = {"max_new_tokens": 1, "output_logits": True, "return_dict_in_generate": True}
    with quiet():
        first = network.captioner.model.generate(pixels, prompt, torch.ones_like(prompt), **options).logits[0][0]
    expected = float(first.log_softmax(-1)[ANSWERS[0][0]])
    assert float(ask(network, SAMPLES[1:2])[0, 0]) == pytest.approx(expected, abs=1e-5)


def test_one_pass_where_answers_differ_in_their_last_token(checkpoint: Checkpoints) -> None:
    folder = checkpoint("vit_gpt2")
    assert load(folder, prompt=make_prompt("gender")).prefixes == ((),)
    three = Target("attribute", ("a", "b", "c"))
    nested = Prompt("it is [Answer]", {"a": "man", "b": "man dog", "c": "man dog person"})
    network = load(folder, prompt=nested, target=three)
    assert network.prefixes == ((IDS["man"], IDS["dog"]),)
    apart = Prompt("it is [Answer]", {"a": "man", "b": "man dog", "c": "female dog person"})
    other = load(folder, prompt=apart, target=three)
    assert len(other.prefixes) == 2
    assert ask(other)[:, :2].numpy() == pytest.approx(ask(network)[:, :2].numpy(), abs=1e-5)


def test_answering_and_blueprint(checkpoint: Checkpoints) -> None:
    name = f"hf:{checkpoint('git')}"
    blueprint = find_judge(name)
    assert (blueprint.name, blueprint.modalities, blueprint.backbone) == (name, {"caption", "image"}, None)
    assert blueprint.recipe
    assert (blueprint.recipe.keep, blueprint.recipe.sharing) == ("best", "data")
    network = network_of(name, [], Materials(answering="vocabulary"))
    assert isinstance(network, AnswerJudge)
    assert network.answering == "vocabulary"
    assert network.question == "Therefore, the gender is"
    # Without pictures all must be blanked.
    assert torch.isfinite(ask(network, SAMPLES[4:])).all()
    assert "sample of image '1' has a picture, and the judge was given none" in fault_of(network.collate, SAMPLES)


# What is trained.

# Beginnings of the names of what sees and of what writes.
PARTS = {
    "vit_gpt2": ("encoder.", "decoder."),
    "blip": ("vision_model.", "text_decoder."),
    **dict.fromkeys(("blip2", "blip2_t5"), ("vision_model.", "language_model.")),
    "git": ("git.image_encoder.", "git.encoder."),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), ("model.visual.", "model.language_model.")),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_tuning_freezes_what_it_says(family: str, checkpoint: Checkpoints) -> None:
    seeing, writing = PARTS.get(family, ("model.vision_tower.", "model.language_model."))
    trained: dict[Tuning, dict[str, bool]] = {}
    answers = {}
    for tuning in ("full", "frozen", "lora", "zero-shot"):
        network = load(checkpoint(family), tuning)
        answers[tuning] = ask(network).numpy()
        trained[tuning] = {name: p.requires_grad for name, p in network.model.named_parameters()}
        network.train()
        assert network.captioner.vision.training == (tuning == "full")
    assert all(trained["full"].values())
    assert not any(trained["zero-shot"].values())
    frozen = {name for name, on in trained["frozen"].items() if not on}
    assert frozen == {name for name in trained["frozen"] if name.startswith(seeing)}
    assert frozen
    added = {name for name, on in trained["lora"].items() if on}
    assert added
    assert all("lora_" in name and name.startswith(writing) for name in added)
    assert added == {name for name in trained["lora"] if "lora_" in name}
    assert not any("cls.predictions.decoder" in name or "lm_head" in name for name in added)
    assert answers["lora"] == pytest.approx(answers["full"], abs=1e-4)  # It starts where the checkpoint is.


# The colour gives the class away; the caption does not.
TOLD = [Sample(str(i), "human", 0, ("a", "<gender>", "dog")[: 1 + i % 3], (i % 2,), image=str(i)) for i in range(24)]


@pytest.mark.parametrize(
    ("family", "tuning", "precision"),
    [
        ("vit_gpt2", "lora", "no"),
        ("llava", "full", "bf16"),
        ("llava", "lora", "no"),
        ("blip", "frozen", "no"),
        ("paligemma", "full", "no"),
    ],
)
def test_training_learns(family: str, tuning: Tuning, precision: str, checkpoint: Checkpoints) -> None:
    network = load(checkpoint(family), tuning)
    losses: list[float] = []
    accelerator = make_accelerator(mixed_precision=precision)
    trainer = Trainer(accelerator, on_epoch=lambda _, history: losses.append(history.training[-1]))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    recipe = Recipe(epochs=5, learning_rate=5e-3, batch_size=8, micro_batch=4, keep="best")
    trainer.fit(network, TOLD, target=GENDER, recipe=recipe, seed=0, validation=TOLD[:8])
    assert losses[-1] < 0.75 * losses[0]
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            assert torch.equal(parameter, before[name]), name
    found = trainer.predict(network, TOLD, target=GENDER, recipe=recipe)
    assert found.shape == (24, 2)
    assert found.sum(axis=1) == pytest.approx(1)


# Spelling.


def test_answers_are_spelled_as_they_follow_the_prompt() -> None:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = token_decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learnt = ["the gender is female", "the gender is male", "female\nmale\n"] * 5
    raw.train_from_iterator(learnt, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw)
    asked = tokenizer.encode("the gender is")
    spelled = spell_answers(tokenizer, asked, ("female", "male"))
    for tokens, word in zip(spelled, ("female", "male"), strict=True):
        assert asked + list(tokens) == tokenizer.encode(f"the gender is {word}")
    begun = spell_answers(tokenizer, tokenizer.encode("\n"), ("female", "male"))
    assert [tokenizer.decode(list(tokens)) for tokens in begun] == ["female", "male"]

    pieces = ["<unk>", "▁", "▁is", "▁female", "▁male"]
    raw = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), token_decoders.Metaspace()
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>")
    assert spell_answers(tokenizer, [2], ("female", "male")) == ((3,), (4,))


@pytest.mark.parametrize(
    ("male", "message"),
    [
        ("zebra", "--answer: the tokenizer cannot spell the answer 'zebra'. Choose a word"),
        ("grown zebra", "cannot spell the answer 'grown zebra'"),
        ("\u200b", "cannot spell the answer"),
        ("Female", "answers 'female' and 'Female' are the same tokens"),
    ],
)
def test_answers_at_fault(male: str, message: str, checkpoint: Checkpoints) -> None:
    assert message in fault_of(load, checkpoint("git"), "full", make_prompt("gender", answers={"male": male}))


# Checkpoints at fault.


def refused(reference: Path | str) -> str:
    line = fault_of(load, reference)
    assert line.startswith(f"--judge hf:{reference}: ")
    return line


def test_text_only_models_are_refused(tmp_path: Path) -> None:
    gpt = tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1, n_positions=8))
    bert = tf.BertModel(tf.BertConfig(vocab_size=9, **{**SMALL, "num_hidden_layers": 1}))
    for name, model in (("gpt2", gpt), ("bert", bert)):
        with quiet():
            model.save_pretrained(tmp_path / name)
        assert f"'{name}' does not caption images" in refused(tmp_path / name)


def test_weights_at_fault(checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("blip"), tmp_path / "blip")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:5], b"", b"\xff" * 200):
        weights.write_bytes(broken)
        assert "the weights cannot be read" in refused(folder)
    weights.write_bytes(whole)
    tensors = load_file(weights)
    some = {name: tensor for name, tensor in tensors.items() if "vision_model" not in name}
    save_file(some, weights, metadata={"format": "pt"})
    assert "weights are missing or of another shape (vision_model." in refused(folder)
    weights.unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    assert "no weights in safetensors are there. Convert them" in refused(folder)


def test_tokenizer_or_image_processor_missing(checkpoint: Checkpoints, tmp_path: Path) -> None:
    for family in ("git", "vit_gpt2"):
        for kind in ("token*", "*processor_config.json"):
            ignore = shutil.ignore_patterns(kind)
            folder = shutil.copytree(checkpoint(family), tmp_path / f"{family}-{kind[:3].strip('*')}", ignore=ignore)
            assert "its tokenizer or image processor is missing or at fault" in refused(folder)


def test_code_of_its_own_is_refused(checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = tmp_path / "mystery"
    folder.mkdir()
    trap = tmp_path / "ran"
    (folder / "model.py").write_text(f"open({str(trap)!r}, 'w')", "utf-8")
    own = {"auto_map": {"AutoConfig": "model.C", "AutoModelForImageTextToText": "model.M"}}
    (folder / "config.json").write_text(json.dumps({"model_type": "mystery", **own}), "utf-8")
    assert "needs code of its own, which would run with your rights; it is refused" in refused(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "mystery"}), "utf-8")
    assert "transformers knows no 'mystery'" in refused(folder)
    # A class of transformers' own goes before the checkpoint's code.
    known = shutil.copytree(checkpoint("git"), tmp_path / "known")
    config = json.loads((known / "config.json").read_text("utf-8"))
    (known / "config.json").write_text(json.dumps({**config, **own}), "utf-8")
    shutil.copy(folder / "model.py", known)
    load(known)
    assert not trap.exists()


@pytest.mark.usefixtures("offline")
def test_nothing_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "none").endswith(": no such folder. Check the path.")
    assert "no such folder" in refused("./none")
    assert "cannot be found" in refused("nobody/nothing-of-the-kind")
    assert "no checkpoint of transformers is there (config.json)" in refused(tmp_path)
    (tmp_path / "config.json").write_text("{", "utf-8")
    assert "cannot be found" in refused(tmp_path)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors", "chat_templates/x.jinja"])
def test_a_pipe_is_refused_before_anybody_waits_for_it(file: str, checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("git"), tmp_path / "own")
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).unlink(missing_ok=True)
    os.mkfifo(folder / file)
    # In a process of its own: one that waits for a pipe does not end.
    code = """
import sys
from judge.judges.hf_models import check_captioner, load_captioner, load_processors
from judge.judges.text_encoders import load_encoder
from judge.text.vectors.pretrained import read_embeddings
for read in (load_captioner, lambda x: check_captioner(x, where=x), load_processors, load_encoder,
             lambda x: read_embeddings(x, set())):
    try:
        read(sys.argv[1])
    except Exception as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=120, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 5
    assert all(line.endswith(f": {file} is not a regular file. Remove it.") for line in told)


@pytest.mark.parametrize("package", ["torch", "transformers", "accelerate", "peft"])
def test_packages_missing(package: str, checkpoint: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint("git")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == package else find_spec(name))
    message = f"needs the package '{package}'. Install it: pip install 'caption-judge[vision]'"
    if package == "peft":
        assert message in fault_of(load, folder, "lora")
    else:
        assert all(message in fault_of(find_judge, name) for name in (f"hf:{folder}", "self", "self-image-only"))
    assert find_judge("linear").name == "linear"


def test_a_picture_that_the_processor_cannot_take_is_named(checkpoint: Checkpoints) -> None:
    """Qwen2-VL's refuses strips more than 200 times as long as wide; the others of the batch are not to blame."""
    network = load(checkpoint("qwen2_vl"))

    class Strip(Pictures):
        def read(self, image_id: str) -> np.ndarray:
            return np.zeros((2, 900, 3), np.uint8) if image_id == "3" else super().read(image_id)

    network.pictures = Strip()  # type: ignore[assignment]
    assert torch.isfinite(ask(network, SAMPLES[:2])).all()
    line = fault_of(network.collate, SAMPLES)
    assert line.startswith("picture of image '3': the captioner's processor fails at it (")

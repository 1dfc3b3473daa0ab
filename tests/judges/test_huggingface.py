"""Captioners of transformers as judges: real models of every family, tiny, saved and loaded again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from captioners import (
    ANSWERS,
    FAMILIES,
    IDS,
    MASK,
    SAMPLES,
    TOLD,
    ByHand,
    Checkpoints,
    Pictures,
    ask,
    load,
    make_tokenizer,
)
from helpers import fault_of, judge_with, network_of
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as token_decoders

from judge import evaluate
from judge.corpus import Corpus
from judge.judges import Materials, Recipe, Tuning, hf_models
from judge.judges.hf_models import Facts, load_captioner
from judge.judges.hf_prompts import spell_answers, spell_words
from judge.judges.huggingface import AnswerJudge
from judge.judges.names import find_judge
from judge.judges.prompts import make_prompt
from judge.judges.text_encoders import load_encoder
from judge.training.launch import make_accelerator
from judge.training.loop import Trainer
from judge.types import Sample
from judge.utils.hub import quiet


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_by_hand(family: str, checkpoint: Checkpoints) -> None:
    """Answers of one and two tokens, captions of different lengths in a batch, blanked captions and images.

    Autocast to bf16, they are near; only the output layer's products stay float32.
    """
    network = load(checkpoint(family))
    assert network.answers == ANSWERS
    by_hand = ByHand(family, checkpoint(family))
    expected = [[by_hand.log_probability(sample, answer) for answer in ANSWERS] for sample in SAMPLES]
    whole = ask(network).numpy()
    assert whole == pytest.approx(np.array(expected), abs=1e-4)
    assert (whole <= 0).all()
    products, words = set[tuple[bool, torch.dtype]](), len(network.captioner.tokenizer)
    for module in network.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _, __, made: products.add((made.shape[-1] == words, made.dtype)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = ask(network)
    assert products == {(False, torch.bfloat16), (True, torch.float32)}
    assert near.dtype == torch.float32
    assert near.numpy() == pytest.approx(whole, abs=0.15)
    assert not np.array_equal(near, whole)
    network.captioner.tokenizer.padding_side = "left"
    assert ask(network).numpy() == pytest.approx(whole, abs=1e-4)


def test_stand_ins() -> None:
    """GPT-2's unknown token also ends the text, so it stands for no word."""
    with quiet():
        plain, masked, ends = make_tokenizer(), make_tokenizer(masks=True), make_tokenizer()
        ends.unk_token = ends.eos_token
    words = ("a", "<object>", "<", "unk", ">", "<unk>", "[mask]")
    assert spell_words(masked, words) == "a [MASK] < unk > <unk> [ mask ]"
    assert spell_words(plain, words) == "a object < unk > <unk> [ mask ]"
    assert spell_words(ends, words) == "a object < unk > something [ mask ]"
    assert masked.encode("[MASK]", add_special_tokens=False) == [MASK]


@pytest.mark.parametrize("family", ["vit_gpt2", "blip", "git", "blip2", "florence2"])
def test_a_long_caption_is_truncated_not_the_question(family: str, checkpoint: Checkpoints) -> None:
    network = load(checkpoint(family))
    long = Sample("9", "generated", 0, ("dog", "rides", "<gender>") * 60, (0,), image="9")
    ids = next(iter(network.collate([long])["passes"][0].values()))[0].tolist()
    assert ids[-4:] == [IDS["the"], IDS["gender"], IDS["is"], IDS["grown"]]
    assert 40 < len(ids) <= 64
    assert torch.isfinite(ask(network, [long])).all()


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
    # Without images all must be blanked.
    assert torch.isfinite(ask(network, SAMPLES[4:])).all()
    assert "the judge has no image '1'. Give --images." in fault_of(network.collate, SAMPLES)


# Prefixes of the names of vision and text weights.
PARTS = {
    "vit_gpt2": ("encoder.", "decoder."),
    "blip": ("vision_model.", "text_decoder."),
    **dict.fromkeys(("blip2", "blip2_t5"), ("vision_model.", "language_model.")),
    "mllama": ("model.vision_model.", "model.language_model."),
    "pix2struct": ("encoder.", "decoder."),
    "git": ("git.image_encoder.", "git.encoder."),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), ("model.visual.", "model.language_model.")),
}


def test_a_vision_part_that_nobody_names(checkpoint: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """LoRA needs no name of it; to freeze it, one is needed."""
    monkeypatch.setitem(hf_models.FACTS, "git", Facts(language="git.encoder"))
    network = load(checkpoint("git"), "lora")
    assert network.captioner.vision is None
    trained = {name for name, weight in network.model.named_parameters() if weight.requires_grad}
    assert trained
    assert all("git.encoder." in name and "lora_" in name for name in trained)
    line = fault_of(load, checkpoint("git"), "frozen")
    assert line.endswith("the vision part of a 'git' model is unknown. Choose --tuning full, lora or zero-shot.")


@pytest.mark.parametrize("family", FAMILIES)
def test_tuning(family: str, checkpoint: Checkpoints) -> None:
    seeing, writing = PARTS.get(family, ("model.vision_tower.", "model.language_model."))
    trained: dict[Tuning, dict[str, bool]] = {}
    answers = {}
    for tuning in ("full", "frozen", "lora", "zero-shot"):
        network = load(checkpoint(family), tuning)
        if tuning in {"full", "lora"}:
            answers[tuning] = ask(network).numpy()
        trained[tuning] = {name: p.requires_grad for name, p in network.model.named_parameters()}
        network.train()
        assert network.captioner.vision.training == (tuning == "full")
    assert all(trained["full"].values())
    assert not any(trained["zero-shot"].values())
    frozen = {name for name, on in trained["frozen"].items() if not on}
    assert frozen == {name for name in trained["frozen"] if name.startswith(seeing)} != set()
    added = {name for name, on in trained["lora"].items() if on}
    assert added == {name for name in trained["lora"] if "lora_" in name} != set()
    assert all(name.startswith(writing) for name in added)
    assert not any("cls.predictions.decoder" in name or "lm_head" in name for name in added)
    assert answers["lora"] == pytest.approx(answers["full"], abs=1e-4)  # Adapters start at 0.


@pytest.mark.parametrize(
    ("family", "tuning", "precision"),
    [("llava", "full", "bf16"), ("llava", "lora", "no"), ("blip", "frozen", "no")],
)
def test_training_learns(family: str, tuning: Tuning, precision: str, checkpoint: Checkpoints) -> None:
    network = load(checkpoint(family), tuning)
    losses: list[float] = []
    accelerator = make_accelerator(mixed_precision=precision)
    trainer = Trainer(accelerator, on_epoch=lambda _, history: losses.append(history.training[-1]))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    recipe = Recipe(epochs=4, learning_rate=5e-3, batch_size=8, micro_batch=4, keep="best")
    judge = judge_with(network, recipe, trainer).fit(TOLD, seed=0, validation=TOLD[:8])
    assert losses[-1] < 0.75 * losses[0]
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            assert torch.equal(parameter, before[name]), name
    found = judge.predict(TOLD).probabilities
    assert found.shape == (24, 2)
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("template", "answers", "message"),
    [
        ("It is", {}, "--template: 'It is' has 0 times [Answer]. Write it once, as in 'Therefore, the gender is"),
        ("[Answer] [Answer]", {}, "has 2 times [Answer]"),
        ("The [Answer] is it", {}, "--template: no judge reads 'is it', which stands after [Answer]. End the template"),
        ("It is [Answer].", {}, "no judge reads '.', which stands after [Answer]. End the template with [Answer]."),
        ("It is [Answer]", {"old": " "}, "--answer: class 'old' has an empty answer. Give it a word."),
        ("It is [Answer]", {"old": "x", "young": "x"}, "--answer: two classes have one answer: x, x. Name each."),
        ("It is [Answer]", {"old": " Young"}, "--answer: two classes have one answer: Young, young."),
    ],
)
def test_faults_of_prompts(template: str, answers: dict[str, str], message: str) -> None:
    assert message in fault_of(lambda: make_prompt("age", template, answers=answers).words(("old", "young")))


def test_answers_are_checked_against_all_classes_and_passed_over_where_a_captioner_lacks_one(corpus: Corpus) -> None:
    """Of two captioners each may describe classes that the other does not."""
    # ImageCaptioner2, "Implementation details".
    asked = {"gender": "gender", "skin": "race", "race": "race", "emotion": "emotion", "age": "age"}
    for attribute, noun in asked.items():
        assert make_prompt(attribute).question == f"Therefore, the {noun} is"
    prompt = make_prompt("age", answers={"old": "grown up", "young": "little"})
    assert prompt.words(("old", "newborn")) == ("grown up", "newborn")
    prompt.check(("newborn", "old", "young"))
    assert fault_of(prompt.check, ("newborn", "old")) == "--answer: no class 'young'. Known: newborn, old."
    # Whoever judges, and before it begins.
    told = fault_of(evaluate, corpus, metrics="lic", answers={"male": "man", "femal": "woman"})
    assert told == "answers: no class 'femal'. Did you mean 'female'?"
    told = fault_of(evaluate, corpus, metrics="lic", answers={"male": "Female"})
    assert told == "answers: two classes have one answer: female, Female. Name each."


def test_tokens_of_answers_follow_the_prompt() -> None:
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


def test_bad_answers(checkpoint: Checkpoints) -> None:
    for male, message in (
        ("zebra", "--answer: the tokenizer cannot spell the answer 'zebra'. Choose a word"),
        ("\u200b", "cannot spell the answer"),
        ("Female", "two classes have one answer: female, Female"),
    ):
        assert message in fault_of(load, checkpoint("git"), "full", make_prompt("gender", answers={"male": male}))
    tokenizer = load(checkpoint("git"), "full").captioner.tokenizer
    told = fault_of(spell_answers, tokenizer, [0], ("female", "Female"))
    assert "answers 'female' and 'Female' are the same tokens" in told


def refused(reference: Path | str) -> str:
    line = fault_of(load, reference)
    assert line.startswith(f"--judge hf:{reference}: ")
    return line


def test_damaged_files(checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("blip"), tmp_path / "blip")
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    some = {name: tensor for name, tensor in tensors.items() if "vision_model" not in name}
    save_file(some, weights, metadata={"format": "pt"})
    assert "weights are missing or of another shape (vision_model." in refused(folder)
    weights.unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    assert "there are no weights in safetensors. Convert them" in refused(folder)
    for number, kind in enumerate(("token*", "*processor_config.json")):
        folder = shutil.copytree(checkpoint("git"), tmp_path / str(number), ignore=shutil.ignore_patterns(kind))
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
def test_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(tmp_path / "none").endswith(": no such folder. Check the path.")
    assert "no such folder" in refused("./none")
    assert "cannot be found" in refused("nobody/nothing-of-the-kind")
    # The hub, which may answer late, is not asked for what is a path.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "blip-2.7b").mkdir(parents=True)
    assert refused("models/blip-2.7").endswith(": no such folder. Did you mean 'models/blip-2.7b'?")
    assert refused("models/git").endswith("Check the path; the hub is not asked, as 'models' is a folder here.")
    assert refused("nobody/git.safetensors").endswith(": no such folder. Check the path.")
    (tmp_path / "git.json").write_text("{}", encoding="utf-8")
    assert refused("git.json").endswith("It is a file: name the folder of the checkpoint, which holds config.json.")
    assert "cannot be found" in refused("nobody/blip-2.7b")
    (tmp_path / "blip-mine").mkdir()
    assert refused("blip-mime").endswith(". Did you mean 'blip-mine'?")
    assert "no checkpoint of transformers is there (config.json)" in refused(tmp_path)
    (tmp_path / "config.json").write_text("{", "utf-8")
    assert "cannot be found" in refused(tmp_path)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "chat_templates/x.jinja"])
def test_a_pipe_is_refused(file: str, checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("git"), tmp_path / "git")
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).unlink(missing_ok=True)
    os.mkfifo(folder / file)
    for read in (load_captioner, load_encoder):
        assert fault_of(read, str(folder)).endswith(f": {file} is not a regular file. Remove it.")


def test_an_image_that_the_processor_cannot_take_is_named(checkpoint: Checkpoints) -> None:
    """Qwen2-VL's processor refuses images more than 200 times as long as wide; the message names the image."""
    network = load(checkpoint("qwen2_vl"))

    class Strip(Pictures):
        def read(self, image_id: str) -> np.ndarray:
            return np.zeros((2, 900, 3), np.uint8) if image_id == "3" else super().read(image_id)

    network.images = Strip()  # type: ignore[assignment]
    assert torch.isfinite(ask(network, SAMPLES[:2])).all()
    line = fault_of(network.collate, SAMPLES)
    assert line.startswith("image '3': the captioner's processor fails at it (")

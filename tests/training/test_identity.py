"""What a judge's answers depend on: a table of ingredients; checkpoints on the hub; why a judge is trained again."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import EVEN, GENDER, fault_of, fill_hub, keep_predictions, make_samples, name_members, save_captioner

from judge.corpus.splits import Split
from judge.judges import Materials, Recipe
from judge.judges.names import find_judge
from judge.judges.prompts import make_prompt
from judge.judges.text_encoders import SHORT_NAMES, SentenceEncoderLoader
from judge.masking.masked_images import MaskedImages
from judge.training.member import Member, Precomputed, TrainingSetup
from judge.training.run_members import prepare_members, train_members
from judge.types import FloatArray, Target
from judge.utils.hub import locate
from judge.utils.identity import content_of, key_of
from judge.utils.tensors import read_notes

pytestmark = pytest.mark.usefixtures("one_thread")
SAMPLES = tuple(make_samples(12))
NAMES = tuple(sample.image_id for sample in SAMPLES)
SPLIT = Split(NAMES[4:], NAMES[:4], EVEN)
PROMPT = make_prompt("gender")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder of a checkpoint that is not opened."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    return folder


def key(name: str, setup: TrainingSetup | None = None, /, **member: Any) -> str:
    made = Member(find_judge(name), GENDER, SAMPLES, SPLIT, 0)
    keys = {sample.image: f"key {sample.image}" for sample in SAMPLES if sample.image}
    setup = replace(setup or TrainingSetup(), precomputed=Precomputed(keys))
    return name_members([replace(made, **member)], setup)[0]


def given(**materials: Any) -> TrainingSetup:
    return TrainingSetup(materials=Materials(**materials))


TRAINED = [*((dict(change), True) for change in (
    {"epochs": 3}, {"learning_rate": 1.0}, {"batch_size": 7}, {"keep": "best"}, {"warmup": 0.1}, {"decay": True},
    {"clip": 1.0}, {"keep": "best", "patience": 2},
)), *((dict(change), False) for change in (
    {"micro_batch": 4}, {"sharing": "data"}, {"patience": 2},
))]  # fmt: skip


@pytest.mark.parametrize(("change", "changes"), TRAINED)
def test_fields_of_the_recipe(change: dict[str, Any], changes: bool) -> None:
    """Micro-batches and sharing change digits by rounding alone; patience nothing where the last epoch is kept."""
    lstm = find_judge("lstm")
    other = replace(lstm, recipe=replace(lstm.recipe or Recipe(1, 1.0), **change))
    assert (key("lstm", judge=other) != key("lstm")) == changes
    if {"micro_batch", "patience"} & {*change}:
        assert (key("lstm", TrainingSetup(change)) != key("lstm")) == changes


def test_patience_counts_where_the_best_epoch_is_kept(files: Path) -> None:
    assert key(f"hf:{files}", TrainingSetup({"patience": 2})) != key(f"hf:{files}")


# What a judge reads; all others must leave its key alone. The names are those of the fields of Materials.
CHANGES: dict[str, Any] = {
    "tuning": "lora",
    "dtype": "bf16",
    "prompt": make_prompt("gender", answers={"female": "woman"}),
    "answering": "restricted",
    "attention": "eager",
    "checkpointing": True,
    "image_size": 256,
    "backbone": "resnet18",
    "backbone_weights": "random",
    "reader": "other",
}
READ = {"lstm": set[str](), "linear": set[str](), "hf": {"tuning", "dtype", "prompt", "answering", "attention"}}
READ |= {"bert-ft": {"reader"}, "sat": {"prompt", "answering"}}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("judge", READ)
def test_settings_that_a_judge_does_not_read(judge: str, name: str, files: Path, tmp_path: Path) -> None:
    """Of a backbone the key of its features counts, which holds its name, size and weights."""
    other = shutil.copytree(files, tmp_path / "other")
    (other / "config.json").write_text("[]")
    value = str(other) if name == "reader" else CHANGES[name]
    full = f"hf:{files}" if judge == "hf" else judge
    usual = {"prompt": PROMPT, "reader": str(files)}
    assert (key(full, given(**usual)) != key(full, given(**{**usual, name: value}))) == (name in READ[judge])


@pytest.mark.parametrize("judge", ["lstm", "hf", "linear"])
def test_data_split_seed_and_precision(judge: str, files: Path) -> None:
    full = f"hf:{files}" if judge == "hf" else judge
    before = key(full)
    others = {
        "train": key(full, split=replace(SPLIT, train=SPLIT.train[1:])),
        "test": key(full, split=replace(SPLIT, test=SPLIT.test[1:])),
        "weights": key(full, split=replace(SPLIT, weights={"female": 2.0, "male": 0.5})),
        "validation": key(full, split=replace(SPLIT, train=SPLIT.train[1:], validation=SPLIT.train[:1])),
        "seed": key(full, seed=1),
        "words": key(full, samples=(replace(SAMPLES[0], words=("x",)), *SAMPLES[1:])),
        "labels": key(full, samples=(replace(SAMPLES[0], answers=(1 - SAMPLES[0].answers[0],)), *SAMPLES[1:])),
        "classes": key(full, target=Target("attribute", ("man", "woman"))),
    }
    others |= {} if judge == "linear" else {"precision": key(full, TrainingSetup(mixed_precision="bf16"))}
    assert len({before, *others.values()}) == 1 + len(others)
    for same in ({"workers": 2}, {"loaders": 3}, {"sharing": "data"}, {"log": print}, {"features": files}):
        assert key(full, TrainingSetup(**same)) == before, same


def test_nothing_is_trained_zero_shot(files: Path) -> None:
    """Neither recipe nor training images count."""
    name, setup = f"hf:{files}", given(tuning="zero-shot")
    before = key(name, setup)
    assert key(name, replace(setup, recipe={"epochs": 9})) == before
    assert key(name, setup, split=replace(SPLIT, train=SPLIT.train[1:]), seed=5) == before
    assert key(name, setup, split=replace(SPLIT, test=SPLIT.test[1:])) != before


def test_checkpoints_count_by_content(files: Path, tmp_path: Path) -> None:
    """Written again, moved, or with files that no loader reads: the same judge; with other bytes: another one."""
    weights, before = files / "model.safetensors", key(f"hf:{files}-image-only")
    weights.write_bytes(b"weights")
    (files / "README.md").write_text("Written afterwards.")
    assert key(f"hf:{files}-image-only") == before
    assert key(f"hf:{shutil.copytree(files, tmp_path / 'moved')}-image-only") == before
    weights.write_bytes(b"Weights")
    assert len({before, key(f"hf:{files}-image-only"), key(f"hf:{files}")}) == 3
    assert content_of(str(weights)) == hashlib.blake2b(b"Weights", digest_size=16).hexdigest()
    assert fault_of(content_of, str(tmp_path / "none"), where="--reader none").startswith(
        "--reader none: no such folder"
    )


def test_other_weights_under_a_name_give_other_answers(offline: Path, tmp_path: Path) -> None:
    """A judge is its commit, and ``NAME@REVISION`` names one; the stored answers of others are left alone."""
    samples = [replace(sample, image=None) for sample in SAMPLES]

    def answers(name: str, store: str) -> FloatArray:
        member = Member(find_judge(f"hf:{name}"), GENDER, samples, SPLIT, 0)
        materials = Materials(MaskedImages(tmp_path, {}), PROMPT, tuning="zero-shot")
        setup = TrainingSetup(store=tmp_path / store, materials=materials, workers=1)
        return train_members([member], setup, then=keep_predictions)[0].probabilities

    versions = [save_captioner(tmp_path / f"v{number}", seed=number) for number in range(2)]
    first = fill_hub(offline, "org/cap", versions[0])
    old = answers("org/cap", "one")
    fill_hub(offline, "org/cap", versions[1])
    new = answers("org/cap", "one")
    assert not np.array_equal(old, new)
    assert np.array_equal(new, answers("org/cap", "two"))
    assert np.array_equal(new, answers(str(versions[1]), "two"))
    assert np.array_equal(old, answers(f"org/cap@{first}", "two"))
    assert len([*(tmp_path / "one").iterdir()]) == 2


def test_every_name_may_have_a_revision(offline: Path, bert: Path, tmp_path: Path) -> None:
    """Of readers and sentence encoders too; their keys are those of the commit."""
    first, second = (fill_hub(offline, "org/bert", bert) for _ in range(2))
    assert first != second
    assert locate(f"org/bert@{first}", "").endswith(first)
    assert locate("org/bert", "").endswith(second)
    assert content_of("org/bert") == content_of(f"org/bert@{second}") != content_of(f"org/bert@{first}")
    for name in ("org/bert", f"org/bert@{first}"):
        reader = find_judge("bert-pre").reader
        assert reader
        assert reader(Materials(reader=name)).key.startswith(content_of(str(bert)))
        assert find_judge(f"sentence:{name}+mlp3").reader(Materials()).key.startswith(content_of(str(bert)))  # type: ignore[misc]
    commit = fill_hub(offline, SHORT_NAMES["distilbert-base-uncased"], bert)
    loader = SentenceEncoderLoader(f"distilbert-base-uncased@{commit}")
    assert loader(Materials()).key.startswith(content_of(str(bert)))
    assert "cannot be found" in fault_of(content_of, f"org/bert@{'9' * 40}")


def test_files_say_what_they_depend_on_and_reruns_say_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A sentence for each judge whose stored answers no longer fit; none for judges that are new."""

    def train(**changes: Any) -> list[str]:
        caplog.clear()
        setup = TrainingSetup({"epochs": 1}, store=tmp_path, keeps_weights=True, workers=1)
        members, setup = prepare_members(
            [Member(find_judge("lstm"), GENDER, changes.pop("samples", SAMPLES), SPLIT, seed) for seed in (0, 1)],
            replace(setup, **changes),
        )
        train_members(members, setup, then=keep_predictions)
        for member in members:
            assert key_of(member.ingredients) == member.key
            for ending in (".safetensors", ".weights.safetensors"):
                notes = read_notes(tmp_path / f"{member.key}{ending}")
                assert (notes["identity"] if "identity" in notes else notes["data"])["depends_on"] == member.ingredients
        return caplog.messages

    assert train() == []
    assert train() == []
    assert train(recipe={"epochs": 1, "micro_batch": 4, "patience": 3}, materials=Materials(tuning="lora")) == []
    again = "judge 'lstm' is trained again: "
    assert train(recipe={"epochs": 2}) == [f"{again}epochs changed"]
    assert train(recipe={"epochs": 2}, mixed_precision="bf16") == [f"{again}precision changed"]
    samples = (replace(SAMPLES[0], words=("x",)), *SAMPLES[1:])
    assert train(samples=samples) == [f"{again}captions, labels or images changed"]

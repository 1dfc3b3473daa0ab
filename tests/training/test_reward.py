"""A trained judge as a reward: three steps of trl's GRPO, and a callback that measures a captioner after each epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from helpers import publish
from test_docs import ROOT, blocks
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from judge import Judge, JudgeError, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config

WORDS = "a man woman dog riding kitchen cooking ball playing street walking with on the"


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge of a captioner that stereotypes."""
    from judge.calibration.grammar import write_world

    folder = tmp_path_factory.mktemp("reward")
    files = write_world(make_world(80, seed=2), {"much": Captioner(stereotype=0.9)}, folder / "world")
    given = {"human": str(files.human), "captions": [str(files.captions["much"])], "labels": str(files.labels)}
    given |= {"metrics": ["lic"], "folds": 2, "refits": 0, "chance": 0, "checkpoints": folder / "kept", "workers": 1}
    jobs, *_ = train_judges(make_config(given, TrainConfig))
    (job, *_) = [job for job in jobs if job.member.side == "generated"]
    return Judge.load(folder / "kept" / f"{job.member.key}.weights.safetensors")


def tiny_writer() -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """A language model with random weights, and a tokenizer of a few words."""
    ids = {word: number for number, word in enumerate(["<pad>", "</s>", *WORDS.split()])}
    raw = Tokenizer(models.WordLevel(ids, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>")
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(ids), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1
    )
    return GPT2LMHeadModel(config), tokenizer


def run_block(part: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the block of docs/guides/trained-judges.md with ``part`` in it, where these names are known."""
    (code,) = [code for code in blocks(ROOT / "docs" / "guides" / "trained-judges.md", "python") if part in code]
    exec(compile(code, "docs", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore")  # Of trl and transformers.
def test_grpo_is_rewarded_by_a_judge(scorer: Judge, tmp_path: Path) -> None:
    """Its rewards are the judge's numbers, of every completion of three steps."""
    from trl import GRPOConfig

    seen: list[tuple[list[str], list[str], list[float]]] = []

    class Recorded:
        def score(self, completions: list[str], labels: list[str]) -> Any:
            found = scorer.score(completions, labels)
            seen.append((completions, labels, [1 - float(of) for of in found]))
            return found

    model, tokenizer = tiny_writer()
    rows = [{"prompt": "a", "label": ("male", "female")[n % 2]} for n in range(8)]
    settings = GRPOConfig(
        output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=4, num_generations=2,
        max_completion_length=6, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no", seed=0, bf16=False,
    )  # fmt: skip
    prompts = datasets.Dataset.from_list(rows)
    given = {"judge": Recorded(), "model": model, "settings": settings, "prompts": prompts, "tokenizer": tokenizer}
    trainer = run_block("GRPOTrainer", given)["trainer"]
    assert len(seen) == 3
    for (completions, labels, rewards), logged in zip(seen, trainer.state.log_history, strict=False):
        assert len(completions) == 4
        expected = scorer.probabilities(completions)[np.arange(4), [scorer.classes.index(label) for label in labels]]
        np.testing.assert_allclose(rewards, 1 - expected)
        assert logged["reward"] == pytest.approx(np.mean(rewards), abs=1e-6)


def test_a_captioner_has_no_verdict_by_the_kind_of_judge_that_rewarded_it(
    scorer: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge of the same kind is named by a file, on the hub, or by its name; an LSTM is of another kind."""
    publish(scorer.saved.path, tmp_path, monkeypatch)
    world = make_world(200, seed=4)
    by = {"file": str(scorer.saved.path), "hub": "hf://me/judge", "named": "linear", "other": "lstm"}
    names = (*by, "none")
    captions = {name: simulate(world, name=name, captioner=Captioner(stereotype=0.9)).by_image for name in names}
    human = {image: texts[:2] for image, texts in world.human.by_image.items()}
    given: dict[str, Any] = {"human": human, "captions": captions, "labels": world.labels.by_image}
    how: dict[str, Any] = {"metrics": "lic", "folds": 4, "refits": 2, "seeds": 1, "chance": 0, "workers": 1}
    found = evaluate(**given, **how, rewarded_by=by).table(all=True).set_index("captioner")
    rewarded = {"file", "hub", "named"}
    assert {name for name in names if found.loc[name, "verdict"] == "no verdict"} == rewarded
    assert all("rewarded this captioner" in str(found.loc[name, "because"]) for name in rewarded)
    with pytest.raises(JudgeError, match="no captioner is called 'c'"):
        evaluate(**given, **how, rewarded_by={"c": by["file"]})
    with pytest.raises(JudgeError, match="--rewarded-by file=hf://me/none: is no folder here, and cannot be fetched"):
        evaluate(**given, **how, rewarded_by={"file": "hf://me/none"})


@pytest.mark.filterwarnings("ignore")
def test_a_callback_measures_each_epoch(tmp_path: Path) -> None:
    """Its numbers are those of ``evaluate``."""
    world = make_world(50, seed=4)
    wrote: list[dict[str, tuple[str, ...]]] = []

    def write_captions(model: GPT2LMHeadModel) -> dict[str, tuple[str, ...]]:
        captioner = Captioner(stereotype=0.9 * bool(wrote))
        wrote.append(dict(simulate(world, name="mine", captioner=captioner).by_image))
        return wrote[-1]

    given = {"human": world.human.by_image, "labels": world.labels.by_image}
    names: dict[str, Any] = {"write_captions": write_captions, **given}
    run_block("TrainerCallback", names)
    model, tokenizer = tiny_writer()
    ids = tokenizer(["a man riding", "a dog on the street"], padding=True)["input_ids"]
    rows = datasets.Dataset.from_list([{"input_ids": row, "labels": row} for row in ids])
    settings = TrainingArguments(str(tmp_path), num_train_epochs=2, report_to=[], use_cpu=True, save_strategy="no")
    trainer = Trainer(model=model, args=settings, train_dataset=rows, callbacks=[names["Amplification"]()])
    names["trainer"] = trainer
    trainer.train()
    logged = [row["lic"] for row in trainer.state.log_history if "lic" in row]
    assert len(logged) == len(wrote) == 2
    again = evaluate(captions={"mine": wrote[1]}, **given, metrics="lic", refits=0)
    assert logged[1] == again.table().iloc[0]["amplification"]
    assert logged[1] > logged[0] + 0.1

"""A trained judge as a reward: three steps of trl's GRPO, and a callback that measures a captioner after each epoch."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from captioners import FAMILIES
from helpers import fault_of, publish
from PIL import Image
from test_docs import ROOT, blocks
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from judge import AmplificationCallback, Judge, JudgeError, evaluate, load_lexicon
from judge.calibration.grammar import World, make_world, simulate, write_world
from judge.calibration.scenes import write_images
from judge.calibration.world import Captioner
from judge.captioning.writing import Writing
from judge.commands.callback import _evaluating, numbers_of
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config
from judge.training.launch import make_accelerator, undisturbed

WORDS = "a man woman dog riding kitchen cooking ball playing street walking with on the"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A drawn world whose images are in ``val2017`` of the working folder."""
    world = make_world(24, seed=4)
    write_images(world.scenes, tmp_path, size=32, seed=4)
    (tmp_path / "images").rename(tmp_path / "val2017")
    monkeypatch.chdir(tmp_path)
    return world


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge of a captioner that stereotypes."""
    folder = tmp_path_factory.mktemp("reward")
    files = write_world(make_world(60, seed=2), {"much": Captioner(stereotype=0.9)}, folder / "world")
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
    """A judge of the same kind is named by a file, on the hub, or by its name; an LSTM is of another kind.

    Verdicts are logged as numbers.
    """
    publish(scorer.saved.path, tmp_path, monkeypatch)
    world = make_world(200, seed=4)
    by = {"file": str(scorer.saved.path), "hub": "hf://me/judge", "named": "linear", "model": "lstm"}
    generated = simulate(world, name="model", captioner=Captioner(stereotype=1.0, vocabulary=3)).by_image
    human = {image: texts[:2] for image, texts in world.human.by_image.items()}
    given: dict[str, Any] = {"human": human, "captions": dict.fromkeys(by, generated)}
    given["labels"] = world.labels.by_image
    how: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 3, "refits": 4, "seeds": 1, "chance": 0}
    how |= {"workers": 1, "resamples": 200}
    result = evaluate(**given, **how, rewarded_by=by)
    found = result.table(all=True).set_index("captioner")
    rewarded = {"file", "hub", "named"}
    assert {name for name in by if found.loc[name, "verdict"] == "no verdict"} == rewarded
    assert all("rewarded this captioner" in str(found.loc[name, "because"]) for name in rewarded)
    with pytest.raises(JudgeError, match="no captioner is called 'c'"):
        evaluate(**given, **how, rewarded_by={"c": by["file"]})
    with pytest.raises(JudgeError, match=r"'hf://me/none'}: is no folder here, and cannot be fetched"):
        evaluate(**given, **how, rewarded_by={"file": "hf://me/none"})
    own = tuple(summary for summary in result.summaries if summary.captioner == "model")
    numbers, row = numbers_of(replace(result, summaries=own)), found.loc["model"]
    assert row["verdict"] == "above human captions"
    logged = {"": "amplification", "/low": "low", "/high": "high", "/human": "human"}
    assert {name: numbers[f"amplification/lic{name}"] for name in logged} == {
        name: row[column] for name, column in logged.items()
    }
    assert (numbers["amplification/lic/verdict"], numbers["amplification/lic/void"]) == (1, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_callback_measures_each_epoch(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It logs what ``evaluate`` finds in captions by the saved checkpoint; training goes on as it does without it.

    The trainer's own log of each epoch is there too.
    """
    given: dict[str, Any] = {"human": world.human.by_image, "labels": world.labels.by_image}
    weights = {}
    for watched in (True, False):
        torch.manual_seed(0)
        model, processor = FAMILIES["git"]()
        inputs = processor(text=["a dog", "a person"], images=[Image.new("RGB", (32, 32))] * 2, return_tensors="pt")
        inputs["labels"] = inputs["input_ids"]
        rows = datasets.Dataset.from_dict({name: of.tolist() for name, of in inputs.items()})
        settings = TrainingArguments(
            str(tmp_path), num_train_epochs=2, report_to=[], use_cpu=True, save_strategy="no", logging_strategy="epoch"
        )
        names: dict[str, Any] = {"model": model, "processor": processor, "settings": settings, "rows": rows, **given}
        if watched:
            found = run_block("trainer.log", names)
            assert model.training
        else:
            Trainer(model=model, args=settings, train_dataset=rows, processing_class=processor).train()
        weights[watched] = model.state_dict()
    assert all(torch.equal(of, weights[False][name]) for name, of in weights[True].items())
    for part in (model, processor):
        part.save_pretrained("saved")
    again = evaluate(models={"model": "saved"}, images="val2017", **given, metrics="conditional")
    row = again.table(all=True).iloc[0]
    results, history = found["watch"].results, found["trainer"].state.log_history
    logged = [entry for entry in history if "amplification/images" in entry]
    assert ["loss" in entry for entry in history] == [False, True, False, True, False]
    assert [*results] == [1.0, 2.0, 3.0]
    values = [of.table().iloc[0]["amplification"] for of in results.values()]
    assert values[2] == values[1] == row["amplification"]
    assert logged[1]["amplification/names_one"] == row["names_one"]
    # An untrained captioner says the same of all images: its row is void, and has no number.
    assert row["verdict"] == "no verdict"
    for numbers in (*logged, found["after"]):
        assert {name: of for name, of in numbers.items() if "conditional" in name} == {
            "amplification/conditional/void": 1
        }
    reasons = [of for of in caplog.messages if of.startswith("no verdict, and so no value is logged: ")]
    assert len(reasons) == 3
    assert row["because"] in reasons[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Of lightning.
def test_a_callback_of_lightning(world: World, tmp_path: Path) -> None:
    """Its logger gets what the callback measures after each epoch; the training is the same without it."""
    from lightning import LightningModule, Trainer
    from lightning.pytorch.loggers import CSVLogger

    torch.manual_seed(0)
    model, processor = FAMILIES["git"]()
    inputs = processor(text=["a dog", "a person"], images=[Image.new("RGB", (32, 32))] * 2, return_tensors="pt")

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = deepcopy(model)

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss: torch.Tensor = self.model(**inputs, labels=inputs["input_ids"]).loss * batch.mean()
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    batches = torch.utils.data.DataLoader(torch.ones(2, 1))
    names: dict[str, Any] = {"module": Module(), "processor": processor, "batches": batches}
    names |= {"logger": CSVLogger(tmp_path), "human": world.human.by_image, "labels": world.labels.by_image}
    torch.manual_seed(1)
    found = run_block("watch.lightning()", names)
    alone = Module()
    torch.manual_seed(1)
    Trainer(max_epochs=3, logger=False, enable_checkpointing=False).fit(alone, batches)
    assert all(torch.equal(of, alone.state_dict()[name]) for name, of in names["module"].state_dict().items())
    logged = pd.read_csv(next(tmp_path.rglob("metrics.csv"))).groupby("epoch").first()
    assert [*found["watch"].results] == [1, 2, 3]
    assert logged["amplification/images"].tolist() == [24] * 3
    coverage = [of.table(all=True)["names_one"].iloc[0] for of in found["watch"].results.values()]
    assert logged["amplification/names_one"].tolist() == pytest.approx(coverage)


def test_a_measurement_leaves_a_training_as_it_is() -> None:
    """Frozen parts stay in evaluation; precision, random numbers and settings of torch are those of before."""
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.BatchNorm1d(2)).train()
    model[1].eval()
    AcceleratorState._reset_state()  # Another test of this process may have made one.
    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    torch.manual_seed(3)
    with undisturbed(), _evaluating(model):
        assert not model.training
        make_accelerator(mixed_precision="no")
        torch.rand(5)
        torch.use_deterministic_algorithms(mode=True, warn_only=True)
    assert (model.training, model[0].training, model[1].training) == (True, True, False)
    assert accelerator.mixed_precision == "bf16"
    assert not torch.are_deterministic_algorithms_enabled()
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))


def test_a_callback_says_what_it_could_not_caption(world: World, caplog: pytest.LogCaptureFixture) -> None:
    min(Path("val2017").iterdir()).write_bytes(b"no image")
    model, processor = FAMILIES["git"]()
    how: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 2, "refits": 0, "chance": 0}
    how |= {"lexicon": load_lexicon("gender"), "writing": Writing(max_tokens=4), "workers": 1}
    callback = AmplificationCallback(
        print, human=world.human.by_image, labels=world.labels.by_image, images="val2017", **how
    )
    numbers = callback.measure(model, processor)
    assert numbers["amplification/images"] == 23
    assert [of for of in caplog.messages if of.startswith("1 images could not be captioned; the first: ")] != []
    assert {"amplification/lic/void", "amplification/seconds"} <= {*numbers}


def test_a_callback_refuses_what_it_cannot_measure(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    given: dict[str, Any] = {"human": {"1": "a man"}, "images": tmp_path / "images"}
    assert fault_of(AmplificationCallback, print, **given | {"every": 0}) == (
        "every: must be 1 or more, not 0. Give a number of epochs."
    )
    assert "holds no image" in fault_of(AmplificationCallback, print, **given)
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "1.png")
    callback = AmplificationCallback(print, **given)
    assert "no file of any of the 1 images" in fault_of(
        AmplificationCallback, print, **given | {"human": {"2": "a man"}}
    )
    assert fault_of(AmplificationCallback, "log", **given) == "log: is no function. Give trainer.log."
    unlogged = AmplificationCallback(**given)
    assert fault_of(unlogged.on_train_begin, None, None, None) == "log: is needed by this trainer. Give trainer.log."
    for part, line in (
        ({"images": tmp_path / "nowhere"}, f"images='{tmp_path / 'nowhere'}': is no folder"),
        ({"labels": {"1": "nobody"}, "lexicon": "gender"}, "labels"),
    ):
        assert fault_of(AmplificationCallback, print, **given | part).startswith(line)
    # A processor without images, and images that cannot be read, are found before the training.
    model, processor = FAMILIES["git"]()
    begin = partial(callback.on_train_begin, None, None, None, model=model)
    assert fault_of(begin, processing_class=processor.tokenizer) == (
        "AmplificationCallback(processor=...): has no tokenizer or no image processor. "
        "Give the processor of text and images, as AutoProcessor loads it."
    )
    with pytest.raises(JudgeError, match="has no tokenizer or no image processor"):
        unlogged.lightning().on_train_start(None, SimpleNamespace(model=model))
    begin(processing_class=processor)
    (tmp_path / "images" / "1.png").write_bytes(b"no image")
    assert "1.png" in fault_of(begin)

"""LIC's two judges with BERT: fine-tuned, and frozen; a tiny BERT with random weights, saved and loaded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from helpers import GENDER, accuracy, keep_predictions, make_samples
from tiny_bert import IDS, make_tokenizer, save_bert

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.judges import Materials, find_judge
from judge.judges.bert import BatchNorm
from judge.judges.readers import PretrainedClassifier
from judge.training.members import train_members
from judge.training.processes import make_accelerator
from judge.training.setup import Member, TrainingSetup, name_members
from judge.training.texts import TextCache
from judge.training.trainer import NetworkJudge, Trainer
from judge.types import FloatArray, Sample
from judge.utils.hub import quiet

pytestmark = pytest.mark.usefixtures("one_thread")
LINES = [("a", "<gender>", "rides", ",", "<unk>"), (), ("clue1", "noise7"), ("dog",) * 9]
SAMPLES = [Sample(str(n), "human", 0, words, (n % 2,)) for n, words in enumerate(LINES)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("readers") / "bert")


def given(folder: Path, kept: Path, samples: Sequence[Sample]) -> Materials:
    """A folder of BERT, and what its first token says of the captions."""
    materials = Materials(reader=str(folder))
    reader = find_judge("bert-pre").reader
    assert reader
    cache = TextCache(reader(materials), [sample.words for sample in samples], kept)
    cache.compute(cache.missing(), device=torch.device("cpu"))
    return replace(materials, features=cache.open())


def unsettle(network: torch.nn.Module) -> None:
    """Running statistics and weights of the normalisation as training may leave them."""
    for module in network.modules():
        if isinstance(module, BatchNorm):
            torch.nn.init.normal_(module.running_mean)  # type: ignore[arg-type]
            torch.nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
            torch.nn.init.normal_(module.weight)
            torch.nn.init.normal_(module.bias)


def test_recipes_are_lics() -> None:
    """Supplement A.1: 5 epochs at 1e-5 fine-tuned, 20 at 5e-5 frozen, batches of 64; the last epoch counts."""
    for name, epochs, rate in (("bert-ft", 5, 1e-5), ("bert-pre", 20, 5e-5)):
        recipe = find_judge(name).recipe
        assert recipe
        assert (recipe.epochs, recipe.learning_rate, recipe.batch_size, recipe.keep) == (epochs, rate, 64, "last")


@pytest.mark.parametrize("name", ["bert-ft", "bert-pre"])
def test_logits_by_hand(name: str, folder: Path, tmp_path: Path) -> None:
    """BERT itself, a caption at a time without padding; then the classifier of LIC's supplement in numpy."""
    materials = given(folder, tmp_path, SAMPLES)
    network = find_judge(name).network
    assert network
    torch.manual_seed(0)
    made = network(GENDER, [], materials)
    assert isinstance(made, PretrainedClassifier)
    unsettle(made.eval())
    weights = {key: value.double().numpy() for key, value in made.output.state_dict().items()}

    def norm(layer: int, x: FloatArray) -> FloatArray:
        spread = np.sqrt(weights[f"{layer}.running_var"] + 1e-5)
        return (x - weights[f"{layer}.running_mean"]) / spread * weights[f"{layer}.weight"] + weights[f"{layer}.bias"]

    with quiet():
        bert = tf.BertModel.from_pretrained(folder).eval()
    spelled = [["[CLS]", "a", "[MASK]", "rides", ",", "[UNK]", "[SEP]"], ["[CLS]", "[SEP]"]]
    spelled += [["[CLS]", "clue1", "noise", "##7", "[SEP]"], ["[CLS]", *["dog"] * 9, "[SEP]"]]
    with torch.no_grad():
        found = made(made.collate(SAMPLES)).double().numpy()
        for pieces, row in zip(spelled, found, strict=True):
            read = bert(torch.tensor([[IDS[piece] for piece in pieces]])).last_hidden_state[0, 0].double().numpy()
            x = norm(2, weights["1.weight"] @ norm(0, read) + weights["1.bias"])
            x = np.where(x > 0, x, 0.01 * x)
            # What is kept on disk has 11 bits; sums of 32 and 256 of them, amplified by the normalisation.
            close = 2e-5 if name == "bert-ft" else 2e-2
            assert row == pytest.approx(weights["4.weight"] @ x + weights["4.bias"], abs=close)


@pytest.mark.parametrize("name", ["bert-ft", "bert-pre"])
def test_a_clue_is_learnt_and_bert_with_it_or_not(name: str, folder: Path, tmp_path: Path) -> None:
    samples = make_samples(300)
    materials = given(folder, tmp_path, samples)
    blueprint = find_judge(name)
    recipe = replace(blueprint.recipe, epochs=8, learning_rate=1e-3, batch_size=21)  # type: ignore[type-var]
    judge = NetworkJudge(blueprint, GENDER, recipe, Trainer(make_accelerator()), materials)
    judge.fit(samples[:210], seed=0)
    assert accuracy(judge.predict(samples[210:]).probabilities, samples[210:]) > (0.9 if name == "bert-ft" else 0.7)
    judge.save(tmp_path / "kept.safetensors")
    kept = (tmp_path / "kept.safetensors").stat().st_size
    if name == "bert-ft":
        with quiet():
            before = tf.BertModel.from_pretrained(folder).state_dict()
        moved = {
            key for key, value in judge.network.encoder.state_dict().items() if not torch.equal(value, before[key])
        }
        assert {key for key in before if "pooler" not in key} <= moved
    else:
        # Frozen: it is not even there, only its classifier of 32 x 256 and 256 x 2 numbers.
        assert kept < 4 * 2 * (32 * 256 + 256 * 8)


def test_bert_pre_from_end_to_end(folder: Path, tmp_path: Path) -> None:
    """Through the setup; another reader is another judge, and for bert-ft too."""
    samples = tuple(make_samples(60))
    split = Split(tuple(map(str, range(40))), tuple(map(str, range(40, 60))), {"female": 1.0, "male": 1.0})
    other = tmp_path / "other"
    with quiet():
        tf.BertModel(tf.BertConfig.from_pretrained(folder)).save_pretrained(other)
        make_tokenizer().save_pretrained(other)
    for name in ("bert-pre", "bert-ft"):
        member = Member(name, GENDER, samples, split, 0)
        setups = [
            TrainingSetup({"epochs": 1}, workers=1, features=tmp_path / "kept", materials=Materials(reader=str(reader)))
            for reader in (folder, folder, other)
        ]
        one, same, another = (
            train_members([member], setup, then=keep_predictions)[0].probabilities for setup in setups
        )
        assert one.shape == (20, 2)
        assert np.array_equal(one, same)
        assert not np.allclose(one, another)
        keys = [name_members([member], setup.precompute([member]))[0] for setup in setups]
        assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("name", ["bert-ft", "bert-pre"])
def test_no_reader_is_one_line(name: str, tmp_path: Path) -> None:
    split = Split(("0", "1"), ("2",), {"female": 1.0, "male": 1.0})
    member = Member(name, GENDER, tuple(make_samples(3)), split, 0)
    setup = TrainingSetup(workers=1, features=tmp_path, materials=Materials(reader=str(tmp_path / "none")))
    with pytest.raises(JudgeError, match=rf"--reader {tmp_path / 'none'}: no such folder\. Check the path\."):
        train_members([member], setup, then=keep_predictions)
    # Nor does a text judge ask for pictures.
    (tmp_path / "empty").mkdir()
    setup = replace(setup, materials=Materials(reader=str(tmp_path / "empty")))
    with pytest.raises(JudgeError, match=r"no checkpoint of transformers is there \(config\.json\)"):
        train_members([member], setup, then=keep_predictions)

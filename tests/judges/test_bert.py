"""LIC's judges with BERT, fine-tuned and frozen, and VL-LIC: a real BERT, tiny, saved and loaded again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from helpers import fault_of, logits, make_glimpses, network_of
from tiny_bert import IDS, SIZES

from judge.judges import Materials
from judge.judges.names import find_judge
from judge.judges.text_encoders import READER, BatchNorm, load_encoder
from judge.training.feature_caches import CaptionCache
from judge.types import FloatArray, Sample
from judge.utils.hub import quiet

pytestmark = pytest.mark.usefixtures("one_thread")
LINES = ["a <gender> rides , <unk>", "", "clue1 noise7", "dog " * 9, "< gender >"]
# Hidden words become BERT's [MASK], words that alignment removed its [UNK]; other words are text.
SPELLED = ["a [MASK] rides , [UNK]", "", "clue1 noise ##7", "dog " * 9, "< g ##e ##n ##d ##e ##r >"]
SAMPLES = [Sample(str(n), "human", 0, tuple(line.split()), (n % 2,), image=f"{n}.png") for n, line in enumerate(LINES)]


def test_recipes_are_the_papers() -> None:
    """LIC, supplement A.1: fine-tuned and frozen. ImageCaptioner2, section 5.2, for all its judges."""
    recipes = {"bert-ft": (5, 1e-5, 64, "last"), "bert-pre": (20, 5e-5, 64, "last")}
    recipes |= {"sat": (40, 4e-4, 128, "best"), "grit": (40, 1e-4, 128, "best")}
    recipes |= {"sat-512": (40, 5e-5, 128, "best")}
    for name, expected in recipes.items():
        recipe = find_judge(name).recipe
        assert recipe
        assert (recipe.epochs, recipe.learning_rate, recipe.batch_size, recipe.keep) == expected


@pytest.mark.parametrize("name", ["bert-ft", "bert-pre", "vl-lic"])
def test_logits_by_hand(name: str, bert: Path, tmp_path: Path) -> None:
    """BERT itself, one caption at a time without padding; then the classifier of LIC's supplement in numpy."""
    glimpses, materials = make_glimpses(SAMPLES), Materials(reader=str(bert))
    if name == "vl-lic":
        materials = replace(materials, features=glimpses)
    elif reader := find_judge(name).reader:
        cache = CaptionCache(reader(materials), SAMPLES, tmp_path)
        cache.compute(cache.missing(), device=torch.device("cpu"))
        materials = replace(materials, features=cache.open())
    network = network_of(name, [], materials)
    trained = {part.partition(".")[0] for part, weight in network.named_parameters() if weight.requires_grad}
    assert trained == ({"output"} if name == "bert-pre" else {"encoder", "output"})
    # Running statistics and weights of the normalisation as training may leave them.
    for norm in (network.output[0], network.output[2]):
        for tensor in (norm.running_mean, norm.weight, norm.bias):
            torch.nn.init.normal_(tensor)
        torch.nn.init.uniform_(norm.running_var, 0.5, 2)
    weights = {key: value.double().numpy() for key, value in network.output.state_dict().items()}

    def norm(layer: int, x: FloatArray) -> FloatArray:
        spread = np.sqrt(weights[f"{layer}.running_var"] + 1e-5)
        return (x - weights[f"{layer}.running_mean"]) / spread * weights[f"{layer}.weight"] + weights[f"{layer}.bias"]

    with quiet():
        model = tf.BertModel.from_pretrained(bert).eval()
    for sample, pieces, found in zip(SAMPLES, SPELLED, logits(network, SAMPLES), strict=True):
        with torch.no_grad():
            ids = [IDS[piece] for piece in ("[CLS]", *pieces.split(), "[SEP]")]
            x = model(torch.tensor([ids])).last_hidden_state[0, 0].double().numpy()
        if name == "vl-lic":
            x = np.concatenate([x, glimpses.pictures[str(sample.image)].mean(axis=0)])
        x = norm(2, weights["1.weight"] @ norm(0, x) + weights["1.bias"])
        x = np.where(x > 0, x, 0.01 * x)
        # Cached features have 11 bits; sums of 32 and 256 of them are amplified by the normalisation.
        close = 2e-2 if name == "bert-pre" else 2e-5
        assert found == pytest.approx(weights["4.weight"] @ x + weights["4.bias"], abs=close)


def test_a_batch_of_one_is_normalised_by_running_statistics() -> None:
    torch.manual_seed(0)
    norm, plain = BatchNorm(3), torch.nn.BatchNorm1d(3)
    for _ in range(5):
        x = torch.randn(8, 3) * 4 + 1
        assert torch.equal(norm(x), plain(x))
    one = torch.randn(1, 3)
    kept = norm.running_mean.clone()  # type: ignore[union-attr]
    assert torch.allclose(norm.train()(one), plain.eval()(one))
    assert torch.equal(norm.running_mean, kept)  # type: ignore[arg-type]


def test_a_folder_with_the_default_readers_name_is_read(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint: Any = find_judge("vl-lic").fingerprint
    shutil.copytree(bert, tmp_path / READER)
    monkeypatch.chdir(tmp_path)
    assert fingerprint(Materials()) == fingerprint(Materials(reader=READER)) == fingerprint(Materials(reader=str(bert)))
    assert load_encoder(None).model.config.hidden_size == SIZES["hidden_size"]


@pytest.mark.usefixtures("offline")
def test_missing_checkpoints(tmp_path: Path) -> None:
    line = fault_of(load_encoder, "nobody/nothing-of-the-kind")
    assert line.startswith("--reader nobody/nothing-of-the-kind: cannot be found (")
    assert line.endswith("Name the folder of one with --reader, or use --judge lstm or vl-lic-lstm.")
    for kind in ("vit", "gpt2"):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}), "utf-8")
        assert f"'{kind}' is not a text encoder. Choose BERT" in fault_of(load_encoder, str(tmp_path))
    # Before features of images are computed.
    given = Materials(reader="nobody/nothing", backbone="resnet18", backbone_weights="random")
    assert "--reader nobody/nothing: cannot be found" in fault_of(find_judge("vl-lic").backbone, given)  # type: ignore[arg-type]

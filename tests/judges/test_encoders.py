"""DBAC's encoders, each by hand in numpy; word order; names of judges."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import fault_of, logits, network_of
from scipy.special import expit
from torch import nn

from judge.judges.encoders import EncoderClassifier
from judge.judges.names import HEADED, find_judge, with_head
from judge.text.alignment import UNKNOWN
from judge.types import FloatArray, Sample

pytestmark = pytest.mark.usefixtures("one_thread")
ENCODERS = ["lstm+mlp3", *(f"{name}+mlp3" for name in sorted(HEADED - {"lstm"}))]
CAPTIONS = ["a dog rides a bike", "dog", "", "a zebra", "bike rides a dog a b c"]
SAMPLES = [Sample(str(n), "human", 0, tuple(text.split()), (n % 2,)) for n, text in enumerate(CAPTIONS)]


def make(name: str) -> EncoderClassifier:
    """Untrained, vocabulary of the first two captions: a, bike, dog, rides."""
    made = network_of(name, SAMPLES[:2])
    assert isinstance(made, EncoderClassifier)
    return made


def final_state(weights: dict[str, FloatArray], inputs: FloatArray, suffix: str) -> FloatArray:
    """The last state of an RNN (one gate) or an LSTM (four: i, f, g, o), word by word."""
    inside, across = weights[f"layer.weight_ih_l0{suffix}"], weights[f"layer.weight_hh_l0{suffix}"]
    bias = weights[f"layer.bias_ih_l0{suffix}"] + weights[f"layer.bias_hh_l0{suffix}"]
    state = cell = np.zeros(across.shape[1])
    for x in inputs:
        gates = inside @ x + across @ state + bias
        if len(gates) == len(state):
            state = np.tanh(gates)
        else:
            i, f, g, o = np.split(gates, 4)
            cell = expit(f) * cell + expit(i) * np.tanh(g)
            state = expit(o) * np.tanh(cell)
    return state


def attend(weights: dict[str, FloatArray], inputs: FloatArray, heads: int) -> FloatArray:
    """One layer of Vaswani et al. (2017), layers normed after each addition; the mean over words."""

    def norm(x: FloatArray, name: str) -> FloatArray:
        spread = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        return (x - x.mean(axis=1, keepdims=True)) / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    weights = {name.removeprefix("layers.layers.0."): value for name, value in weights.items()}
    x = inputs.copy()
    for step in range(len(x)):
        for pair in range(50):
            angle = step / 10_000 ** (2 * pair / 100)
            x[step, 2 * pair : 2 * pair + 2] += np.sin(angle), np.cos(angle)
    queries, keys, values = np.split(
        x @ weights["self_attn.in_proj_weight"].T + weights["self_attn.in_proj_bias"], 3, axis=1
    )
    size, parts = 100 // heads, []
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        match = np.exp(queries[:, own] @ keys[:, own].T / np.sqrt(size))
        parts.append(match / match.sum(axis=1, keepdims=True) @ values[:, own])
    mixed = np.concatenate(parts, axis=1) @ weights["self_attn.out_proj.weight"].T + weights["self_attn.out_proj.bias"]
    x = norm(x + mixed, "norm1")
    inner = np.maximum(x @ weights["linear1.weight"].T + weights["linear1.bias"], 0)
    return norm(x + inner @ weights["linear2.weight"].T + weights["linear2.bias"], "norm2").mean(axis=0)


@pytest.mark.parametrize("name", [*ENCODERS, "lstm+mlp5", "transformer-5+mlp5"])
def test_logits_by_hand(name: str) -> None:
    network = make(name)
    weights = {key: value.double().numpy() for key, value in network.state_dict().items()}
    encoder = {key.removeprefix("encoder."): value for key, value in weights.items() if key.startswith("encoder.")}
    layers = [part for part, layer in enumerate(network.head) if isinstance(layer, nn.Linear)]
    assert len(layers) == int(name[-1])
    rows = {UNKNOWN: 1, "a": 2, "bike": 3, "dog": 4, "rides": 5}
    for sample, found in zip(SAMPLES, logits(network, SAMPLES), strict=True):
        inputs = weights["embedding.weight"][[rows.get(word, 1) for word in sample.words] or [1]]
        if name.startswith("transformer"):
            x = attend(encoder, inputs, heads=int(name.split("+", maxsplit=1)[0][-1]))
        else:
            x = final_state(encoder, inputs, "")
            if "bidirectional" in name:
                x = np.concatenate([x, final_state(encoder, inputs[::-1], "_reverse")])
        for layer in layers:
            x = weights[f"head.{layer}.weight"] @ (x if layer == layers[0] else np.maximum(x, 0))
            x += weights[f"head.{layer}.bias"]
        assert found == pytest.approx(x, abs=2e-5)


def test_names() -> None:
    """As typed; DBAC's MLP is the default, except for "lstm", which has LIC's output layer."""
    for typed, name in {
        "LSTM+MLP3": "lstm+mlp3",
        " rnn-bidirectional+mlp5 ": "rnn-bidirectional+mlp5",
        "Sentence:/Some/Folder+MLP5": "sentence:/Some/Folder+mlp5",
    }.items():
        assert find_judge(typed).name == find_judge(name).name == name
        assert find_judge(name).modalities == {"caption"}
    for name in HEADED - {"lstm"}:
        heads = [make(f"{name}{end}").head for end in ("", "+mlp3", "+mlp5")]
        assert [sum(isinstance(part, nn.Linear) for part in head) for head in heads] == [3, 3, 5]
    assert len(make("lstm").head) == 1
    assert find_judge("lstm+mlp3").recipe == find_judge("rnn").recipe != find_judge("lstm").recipe


@pytest.mark.parametrize(
    ("name", "three", "five"),
    [
        ("lstm", "lstm+mlp3", "lstm+mlp5"),
        ("Sentence:A-b", "Sentence:A-b+mlp3", "Sentence:A-b+mlp5"),
        ("sentence:a+mlp3", "sentence:a+mlp3", "sentence:a+mlp3"),
        *([name] * 3 for name in ("linear", "bert-ft", "bert-pre", "sat", "sat-image-only", "hf:a", "self", "x")),
    ],
)
def test_a_metric_puts_its_head_on_encoders_that_have_none(name: str, three: str, five: str) -> None:
    assert (with_head(name, None), with_head(name, 3), with_head(name, 5)) == (name, three, five)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lsmt", "unknown judge 'lsmt'. Did you mean 'lstm'?"),
        ("lstn+mlp3", "unknown judge 'lstn+mlp3'. Did you mean 'lstm+mlp3'?"),
        ("sat+mlp3", "unknown judge 'sat+mlp3'."),
        ("rnn-image-only", "judge 'rnn' reads the caption alone. Use 'rnn'."),
        ("sentence:", "no sentence encoder is named. Name one, or the folder of one: sentence:all-MiniLM-L6-v2,"),
    ],
)
def test_unknown_names(name: str, line: str) -> None:
    assert line in fault_of(find_judge, name)

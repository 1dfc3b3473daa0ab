"""Show, Attend and Tell: every step against a slow loop over the paper's equations, and the answers' share of words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import GENDER, THREE, Glimpses, enlarge, logits, make_glimpses, make_samples, unmoved
from scipy.special import expit, log_softmax, softmax

from judge.judges import Answering, Materials, find_judge
from judge.judges.cloze import question_of
from judge.judges.prompts import Prompt, make_prompt
from judge.judges.recurrent import build_vocabulary
from judge.judges.sat import ShowAttendTell
from judge.training.launch import make_accelerator
from judge.training.loop import NetworkJudge, Trainer
from judge.types import FloatArray, Sample, Target

SAMPLES = make_samples(20)


def make_sat(answering: Answering = "restricted") -> ShowAttendTell:
    """A small one, with weights large enough that nothing is nearly linear."""
    torch.manual_seed(1)
    vocabulary = build_vocabulary([*SAMPLES, Sample("", "human", 0, question_of(None), (0,))])
    widths = {"embedding": 6, "hidden": 8, "attention": 5}
    return enlarge(
        ShowAttendTell(vocabulary, question_of(None), 2, make_glimpses(SAMPLES), **widths, answering=answering), 0.7
    )


def by_hand(network: ShowAttendTell, sample: Sample) -> FloatArray:
    """All the output's scores after one sample's last word: Xu et al., equations 1 to 7 and section 4.2.1, in loops."""
    weights = {name: tensor.double().numpy() for name, tensor in network.state_dict().items()}

    def linear(layer: str) -> Callable[[FloatArray], FloatArray]:
        matrix, bias = weights[f"{layer}.weight"], weights.get(f"{layer}.bias", 0.0)
        return lambda x: matrix @ x + bias

    picture = network.features.rows([sample])[0].double().numpy()
    normed = [
        (a - a.mean()) / np.sqrt(a.var() + 1e-5) * weights["sight.0.weight"] + weights["sight.0.bias"] for a in picture
    ]
    annotations = [linear("sight.1")(a) for a in normed]
    begin = np.tanh(linear("start")(sum(annotations) / len(annotations)))
    h, c = begin[:8], begin[8:]
    for word in (*sample.words, *network.question):
        embedded = weights["embedding.weight"][network.vocabulary.get(word, 1)]
        energies = [linear("energy")(np.tanh(linear("look")(a) + linear("ask")(h)))[0] for a in annotations]
        alpha = softmax(energies)
        beta = expit(linear("gate")(h))
        z = beta * sum(share * a for share, a in zip(alpha, annotations, strict=True))
        gates = linear("words")(embedded) + linear("sights")(z) + linear("memory")(h)
        i, f, g, o = expit(gates[:8]), expit(gates[8:16]), np.tanh(gates[16:24]), expit(gates[24:])
        c = f * c + i * g
        h = o * np.tanh(c)
    # Deep output: from the word that was read last, the memory and what was looked at.
    return linear("output")(np.tanh(embedded + linear("from_memory")(h) + linear("from_sight")(z)))


@pytest.mark.parametrize("answering", ["restricted", "vocabulary"])
def test_it_is_the_papers_network(answering: Answering) -> None:
    network = make_sat(answering)
    odd = [Sample("0", "human", 0, words, (0,), image="1.png") for words in ((), ("never", "seen"), ("clue0",) * 9)]
    samples = [*SAMPLES[:4], *odd]
    expected = np.array([by_hand(network, sample) for sample in samples])
    if answering == "vocabulary":
        expected = log_softmax(expected, axis=1)[:, :2]
    assert logits(network, samples) == pytest.approx(expected, abs=1e-4)


def test_neither_padding_nor_company_changes_an_answer() -> None:
    unmoved(make_sat(), SAMPLES)


def test_every_position_of_a_picture_counts_and_their_order_does_not() -> None:
    """Soft attention is a weighted mean; nothing tells positions apart but what they show."""
    network, before = make_sat(), make_glimpses(SAMPLES)
    found = logits(network, SAMPLES)
    network.features = Glimpses({name: rows[::-1] for name, rows in before.pictures.items()}, before.shape)
    assert logits(network, SAMPLES) == pytest.approx(found, abs=1e-5)
    for position in range(before.shape[0]):
        other = {name: rows.copy() for name, rows in before.pictures.items()}
        for rows in other.values():
            rows[position, 0] += 3
        network.features = Glimpses(other, before.shape)
        assert np.abs(logits(network, SAMPLES) - found).max() > 1e-3


def judge_of(answering: Answering, prompt: Prompt | None, target: Target = GENDER) -> NetworkJudge:
    blueprint = find_judge("sat")
    recipe = replace(blueprint.recipe, epochs=4, learning_rate=2e-3, batch_size=16)  # type: ignore[type-var]
    glimpses = make_glimpses(make_samples(300, target=target))
    materials = Materials(features=glimpses, prompt=prompt, answering=answering)
    return NetworkJudge(blueprint, target, recipe, Trainer(make_accelerator()), materials)


def test_out_of_the_whole_vocabulary_it_learns_to_answer_with_answers() -> None:
    samples = make_samples(300, target=THREE)
    judge = judge_of("vocabulary", make_prompt("mood"), THREE).fit(samples[:200], seed=0, validation=samples[200:240])
    found = judge.predict(samples[240:]).probabilities
    assert (found.sum(axis=1) < 1).all()
    assert found.sum(axis=1).min() > 0.9
    assert found.argmax(axis=1).tolist() == [sample.answers[0] for sample in samples[240:]]

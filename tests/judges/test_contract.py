"""Properties of every judge in the registry; new judges are included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from helpers import GENDER, THREE, accuracy, judge_of, make_glimpses, make_samples

from judge.judges import Judge, Materials
from judge.judges.names import FILES, SENTENCE, find_judge
from judge.types import Sample, Target

pytestmark = pytest.mark.usefixtures("one_thread")
# "sat-512" is a wider "sat"; "linear+image" is never trained by itself (test_linear.py).
NAMED = [name for name in FILES if name not in {"sat-512", "linear+image"}]
NAMES = [*NAMED, "words+embedding", "best", "lstm+mlp3", SENTENCE]


def slowly(name: str, *more: Target) -> Any:
    """A case of a test, which is slow for GRIT."""
    return pytest.param(name, *more, marks=pytest.mark.slow if name == "grit" else ())


SEEING = [name for name in NAMED if "image" in find_judge(name).modalities]


@pytest.fixture(scope="module")
def given(bert: Path) -> Materials:
    return Materials(reader=str(bert))


class Readings:
    """Vectors of captions as of a frozen encoder: the sum of a random vector for each word."""

    shape = 1, 16

    def rows(self, samples: Sequence[Sample]) -> torch.Tensor:
        read = [sum((_vector(word) for word in sample.words), start=np.zeros(16)) for sample in samples]
        return torch.from_numpy(np.stack(read)[:, None]).float()


@cache
def _vector(word: str) -> np.ndarray:
    return np.random.default_rng(crc32(word.encode())).normal(size=16)


def fit(
    name: str, train: Sequence[Sample], given: Materials, *, target: Target = GENDER, clue: float = 0.0, epochs: int = 4
) -> Judge:
    """Any registered judge; networks have a learning rate for a few hundred captions.

    A fifth of the samples chooses an epoch. Images are noise, except for ``clue``; see ``make_glimpses``.
    """
    name, cut = f"{SENTENCE}any" if name == SENTENCE else name, len(train) * 4 // 5
    blueprint = find_judge(name)
    if blueprint.judge:
        return blueprint.judge(target).fit(train[:cut], seed=0)
    if blueprint.backbone:
        glimpses = make_glimpses(make_samples(400, clue=0.0), clue=clue, regions=3 * blueprint.regions)
        given = replace(given, features=glimpses)
    if blueprint.reader:
        given = replace(given, features=Readings())
    judge = judge_of(name, given, target=target, epochs=epochs, learning_rate=2e-3, batch_size=16, keep="best")
    return judge.fit(train[:cut], seed=0, validation=train[cut:])


# The linear judge has a single sigmoid for two classes.
@pytest.mark.parametrize(("name", "target"), [("linear", GENDER), *(slowly(name, THREE) for name in NAMES)])
def test_contract(name: str, target: Target, given: Materials) -> None:
    train, test = make_samples(300, target=target), make_samples(60, target=target, seed=1)
    judge = fit(name, train, given, target=target)
    found = judge.predict(test)
    assert found.target == target
    assert found.probabilities.shape == (60, len(target.classes))
    assert found.probabilities.dtype == np.float64
    # A captioner's words share the rest.
    assert found.probabilities.sum(axis=1) == pytest.approx(1, abs=0.05 if name in {"sat", "grit"} else 1e-6)
    assert found.probabilities.sum(axis=1).max() < 1 + 1e-6
    assert accuracy(found.probabilities, test) > 0.95
    backwards = judge.predict(test[::-1]).probabilities[::-1]
    assert backwards == pytest.approx(found.probabilities, abs=1e-6)
    wrong = [replace(sample, answers=((sample.answers[0] + 1) % len(target.classes),)) for sample in test]
    assert np.array_equal(judge.predict(wrong).probabilities, found.probabilities)
    odd = [Sample("odd", "human", 0, words, (0,)) for words in ((), ("never", "seen"), ("👩‍🍳", "स्त्री"))]
    assert np.isfinite(judge.predict(odd).probabilities).all()


@pytest.mark.parametrize("name", [*map(slowly, NAMES)])
def test_no_clue_gives_chance(name: str, given: Materials) -> None:
    """LIC's score is near 1/4 if neither captions nor images have information."""
    train, test = make_samples(160, clue=0.0), make_samples(200, clue=0.0, seed=1)
    found = fit(name, train, given).predict(test).probabilities
    truth = np.array([sample.answers[0] for sample in test])
    p = found[np.arange(200), truth]
    # sd of the mean of p * [right] is about 0.3 / 14; nearly three of them, with overconfidence.
    assert np.mean(p * (found.argmax(axis=1) == truth)) == pytest.approx(0.27, abs=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_deterministic(name: str, given: Materials) -> None:
    train = make_samples(40, clue=0.5)
    first = fit(name, train, given, epochs=1).predict(train).probabilities
    torch.rand(17)  # The global generator has no effect.
    assert np.array_equal(first, fit(name, train, given, epochs=1).predict(train).probabilities)


@pytest.mark.parametrize("name", [slowly(name) for name in SEEING])
def test_what_is_blanked_has_no_effect(name: str, given: Materials) -> None:
    """With blanked captions images alone are learnt; with blanked images the answers are those about other images."""
    samples = make_samples(400, clue=0.0)
    for variant, train, epochs in ((f"{name}-image-only", 300, 4), (f"{name}-caption-only", 40, 1)):
        perceive = find_judge(variant).perceive
        changes: dict[str, Any] = {"words": ("other",)} if epochs > 1 else {"image_id": "0", "image": "0.png"}
        others = [replace(one, **changes) for one in samples]
        left, same = ([perceive(sample) for sample in of[300:]] for of in (samples, others))
        judge = fit(variant, [perceive(sample) for sample in samples[:train]], given, clue=1.0, epochs=epochs)
        found = judge.predict(left).probabilities
        assert np.array_equal(judge.predict(same).probabilities, found)
        assert accuracy(found, left) == pytest.approx(1.0 if epochs > 1 else 0.5, abs=0.15)

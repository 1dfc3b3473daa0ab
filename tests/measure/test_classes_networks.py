"""Every family of judges with 3 and 9 classes, unequal, one rare, one that the captioner never names.

Small networks, one pass over few captions: not what they learn is looked at, but that what they answer, of however many
classes, becomes the papers' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import oracle
import pandas as pd
import pytest
from classes import World, draw, without
from helpers import known, save_captioner
from PIL import Image
from tiny_bert import save_bert

from judge import evaluate
from judge.measure import Result
from judge.metrics import METRICS
from judge.report.caveats import warnings

pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = {3: (22, 15, 10), 9: (13, 12, 11, 11, 10, 10, 10, 10, 10)}
QUICK: dict[str, Any] = {
    "resamples": 100, "workers": 1, "folds": 2, "refits": 0, "chance": 0, "epochs": 1, "batch_size": 32,
    "backbone": "resnet18", "backbone_weights": "random", "image_size": 32, "mask": "none",
}  # fmt: skip
SIDE = 32
# Words of the tiny captioner's vocabulary: any will do for an answer, each for another class.
ANSWERS = ("female", "male", "dog", "person", "rides", "grown", "man", "image", "describe")
# Of three classes the first alone.
ALL, ALL_SEEN = ("lic", "leakage", "dbac-at"), ("imagecaptioner2", "imagecaptioner2-ratio", "vl-lic")
READING = ("lstm", "rnn", "transformer-1", "bert-pre", "sentence")
SEEING = ("sat", "grit", "vl-lic", "hf")
QUANTITIES = {
    "confidence": oracle.confidence,
    "accuracy": oracle.accuracy,
    "confident_accuracy": oracle.confident_accuracy,
}


class Measured(NamedTuple):
    """A world; what judges that read, and judges that see, were measured to say of it; judge -> its name there."""

    world: World
    reading: Result
    seeing: Result
    names: Mapping[str, str]


@pytest.fixture(scope="module", params=SIZES)
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("networks")
    world = draw(SIZES[request.param], captions=1)
    world = without(world, [*world.words][1], of="cap")
    (folder / "feeling.yaml").write_text(world.lexicon, encoding="utf-8")
    (folder / "images").mkdir()
    rng = np.random.default_rng(0)
    for image in world.images:
        pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{image}.png")
    names = {
        "sentence": f"sentence:{save_bert(folder / 'bert')}",
        "hf": f"hf:{save_captioner(folder / 'git')}",
    }
    told = QUICK | {"lexicon": str(folder / "feeling.yaml"), "features": folder / "features"}
    told |= {"reader": str(folder / "bert"), "images": folder / "images"}
    answers = dict(zip(sorted(world.words), ANSWERS, strict=False))

    def measure(metrics: Sequence[str], judges: Sequence[str], **more: Any) -> Result:
        return evaluate(world.corpus, metrics=metrics, judge=[names.get(name, name) for name in judges], **told, **more)

    read, seen = (ALL, ALL_SEEN) if request.param == 9 else (ALL[:1], ALL_SEEN[:1])
    return Measured(world, measure(read, READING), measure(seen, SEEING, answers=answers), names)


def sides(result: Result, metric: str, judge: str) -> dict[str, pd.DataFrame]:
    scores = result.scores
    mine = scores[(scores["metric"] == metric) & (scores["judge"] == judge)]
    return dict(iter(mine.groupby("side")))


def check(measured: Measured, result: Result, metric: str, name: str) -> None:
    """Rows are of all classes, and what is made of them is the oracle's."""
    judge, row = measured.names.get(name, name), METRICS[metric]
    (found,) = (of for of in result.summaries if of.metric.name == metric and of.judge == judge)
    values = []
    for side in ("human", "generated"):
        rows = sides(result, metric, judge)[side].to_dict("records")
        assert {of["answer"] for of in rows} == {*measured.world.words}
        assert {of["image_id"] for of in rows} == {*measured.world.images}
        assert all(0 < of["probability"] < 1 for of in rows)
        if row.prior:
            value = known(oracle.directional([dict(of) for of in rows], direction="A->T", pooled=True))
        else:
            value = oracle.mean_of_classes([dict(of) for of in rows], QUANTITIES[row.score])
        assert getattr(found, side) == pytest.approx(value, rel=1e-6)
        values.append(value)
    human, generated = values
    changes = {"difference": generated - human, "ratio": generated / human if human else None}
    changes["normalised"] = (generated - human) / (generated + human)
    assert found.amplification == pytest.approx(changes[row.amplification], abs=1e-6)


@pytest.mark.parametrize("judge", READING)
def test_judges_that_read(measured: Measured, judge: str) -> None:
    for metric in ALL[: None if len(measured.world.words) == 9 else 1]:
        check(measured, measured.reading, metric, judge)


@pytest.mark.parametrize("judge", SEEING)
def test_judges_that_see(measured: Measured, judge: str) -> None:
    for metric in ALL_SEEN[: None if len(measured.world.words) == 9 else 1]:
        check(measured, measured.seeing, metric, judge)


def test_judges_at_chance_are_told_so(measured: Measured) -> None:
    """After one pass nobody has learnt anything: chance is 1/K, of LIC 1/K^2, wherever it is spoken of."""
    count = len(measured.world.words)
    notes = [note for of in (measured.reading, measured.seeing) for note in warnings(of) if "learnt nothing" in note]
    told = {note.split(":")[0].split(" (")[0]: note for note in notes}
    assert f"chance {1 / count:.3f}" in told["ImageCaptioner2"]
    assert f"chance {1 / count**2:.3f}" in told["LIC"]

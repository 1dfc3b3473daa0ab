"""Every judge that is a network, with every metric that it serves, of 2, 3 and 9 classes.

The classes are unequal, one is rare; of one more the captioner describes no image, and one it never names. One pass
over few captions: not what judges learn is looked at, but that what they answer, of however many classes, becomes the
papers' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import oracle
import pytest
from classes import World, draw, undescribed, without
from helpers import known, save_captioner
from measure.test_classes import READ, expected_sides
from PIL import Image
from tiny_bert import save_bert

from judge import evaluate
from judge.judges import FILES, find_judge
from judge.measure import Result
from judge.metrics import METRICS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
# Classes that are judged -> images of each that is drawn; of the last of three, and of four, there are no captions.
SIZES = {2: (22, 10, 10), 3: (20, 15, 10, 10), 9: (13, 12, 11, 11, 10, 10, 10, 10, 10)}
QUICK: dict[str, Any] = {
    "resamples": 100, "workers": 1, "folds": 2, "refits": 0, "chance": 0, "epochs": 1,
    "batch_size": 32, "backbone": "test_resnet", "backbone_weights": "random", "image_size": 32, "mask": "none",
}  # fmt: skip
SIDE = 32
# Words of the tiny captioner's vocabulary: any will do for an answer, each for another class.
ANSWERS = ("female", "male", "dog", "person", "rides", "grown", "man", "image", "describe")
SEEN = [name for name, row in METRICS.items() if row.uses_images]
NETWORKS = [name for name in FILES if name != "linear"]
SEEING = [*(name for name in NETWORKS if "image" in find_judge(name).modalities), "hf"]
READING = [*(name for name in NETWORKS if name not in SEEING), "sentence"]
QUANTITIES = {"confidence": oracle.confidence, "confident_accuracy": oracle.confident_accuracy}


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
    if request.param < len(world.words):
        world = undescribed(world, [*world.words][-1])
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
    # Of the class that the captioner describes nowhere too: another may.
    answers = dict(zip(sorted(world.words), ANSWERS, strict=False))

    def measure(metrics: Sequence[str], judges: Sequence[str], **more: Any) -> Result:
        return evaluate(world.corpus, metrics=metrics, judge=[names.get(name, name) for name in judges], **told, **more)

    return Measured(world, measure(READ, READING), measure(SEEN, SEEING, answers=answers), names)


def check(measured: Measured, result: Result, metric: str, name: str) -> None:
    """Rows are of all classes, and what is made of them is the oracle's."""
    judge, row = measured.names.get(name, name), METRICS[metric]
    (found,) = (of for of in result.summaries if of.metric.name == metric and of.judge == judge)
    scores = result.scores[(result.scores["metric"] == metric) & (result.scores["judge"] == judge)]
    sides = {side: [dict(of) for of in rows.to_dict("records")] for side, rows in scores.groupby("side")}
    if metric == "sc":  # Of captioners alone.
        del sides["human"]
    judged = {measured.world.classes[image] for image in measured.world.images}
    for rows in sides.values():
        if row.target == "attribute":  # Of tasks it is a log-probability.
            assert all(0 < of["probability"] < 1 for of in rows)
            assert {of["answer"] for of in rows} == judged
            assert {of["image_id"] for of in rows} == {*measured.world.images}
    if row.uses_images:
        values = [oracle.mean_of_classes(of, QUANTITIES[row.score]) for of in sides.values()]
    else:
        values = expected_sides(sides, metric)
    assert [getattr(found, side) for side in sides] == pytest.approx(values, rel=1e-6)
    if metric == "sc":
        assert found.amplification is None
        return
    generated, human = (known(values[[*sides].index(side)]) for side in ("generated", "human"))
    changes = {"difference": generated - human, "ratio": generated / human if human else None}
    changes["normalised"] = (generated - human) / (generated + human)
    assert found.amplification == pytest.approx(changes[row.amplification], abs=1e-6)


@pytest.mark.parametrize("judge", READING)
def test_judges_that_read(measured: Measured, judge: str) -> None:
    for metric in READ:
        check(measured, measured.reading, metric, judge)


@pytest.mark.parametrize("judge", SEEING)
def test_judges_that_see(measured: Measured, judge: str) -> None:
    for metric in SEEN:
        check(measured, measured.seeing, metric, judge)


def test_judges_at_chance_are_told_so(measured: Measured) -> None:
    """After one pass nobody has learnt anything: chance is 1/K, of LIC 1/K^2, wherever it is spoken of."""
    count = len({measured.world.classes[image] for image in measured.world.images})
    reasons = {key[1]: reason for of in (measured.reading, measured.seeing) for key, reason in of.void.items()}
    assert f"chance {1 / count:.3f}" in reasons["imagecaptioner2"]
    assert f"chance {1 / count**2:.3f}" in reasons["lic"]

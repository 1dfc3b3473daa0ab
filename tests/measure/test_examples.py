"""Examples: the images that carry most of a row, found again by hand, and a bounded choice of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from judge import evaluate
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.measure import Result
from judge.measure.examples import MOST


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(150, seed=4)


@pytest.fixture(scope="module")
def result(world: World) -> Result:
    generated = simulate(world, name="much", captioner=Captioner(stereotype=0.9))
    corpus = Corpus(world.human, (generated,), world.labels)
    return evaluate(corpus, metrics=["lic", "error"], folds=3, refits=0, chance=0, resamples=100)


def lic_by_hand(result: Result, world: World) -> pd.Series[float]:
    """What each image adds to LIC: the mean of p where the judge is right, less 1/4, over the images of its class."""
    scores = result.scores[result.scores["metric"] == "lic"]
    q = np.where(scores["predicted"] == scores["answer"], scores["probability"], 0.0) - 0.25
    by_side = scores.assign(q=q).groupby(["image_id", "side"])["q"].mean().unstack()
    sizes = pd.Series(world.labels.by_image).value_counts()
    classes = by_side.index.map(dict(world.labels.by_image))
    return (by_side["generated"] - by_side["human"]) / (2 * sizes[classes].to_numpy())


def test_the_largest_are_found(result: Result, world: World) -> None:
    by_hand = lic_by_hand(result, world)
    value = next(row.amplification for row in result.summaries if row.metric.name == "lic")
    assert by_hand.sum() == pytest.approx(value)
    examples = result.examples[result.examples["metric"] == "lic"].drop_duplicates(["chosen", "rank"])
    for chosen, order in (("adds", by_hand.sort_values(ascending=False)), ("takes away", by_hand.sort_values())):
        found = examples[examples["chosen"] == chosen]
        assert found["contribution"].tolist() == pytest.approx(order.head(MOST).tolist())
        assert found["contribution"].tolist() == pytest.approx(by_hand[found["image_id"]].tolist())
    drawn = examples[examples["chosen"] == "random"]
    assert len(drawn) == MOST
    assert drawn["contribution"].tolist() == pytest.approx(by_hand[drawn["image_id"]].tolist())


def test_captions_are_as_written_as_read_and_as_judged(result: Result, world: World) -> None:
    examples = result.examples[result.examples["metric"] == "lic"]
    assert set(examples["side"]) == {"human", "generated"}
    for row in examples.to_dict("records"):
        if row["side"] == "human":
            assert row["caption"] == world.human.by_image[row["image_id"]][row["index"]]
        asked = result.scores[
            (
                result.scores[["metric", "side", "image_id", "index"]]
                == [row["metric"], row["side"], row["image_id"], row["index"]]
            ).all(axis=1)
        ]
        assert row["probability"] == pytest.approx(asked["probability"].mean())
        assert row["predicted"] in set(asked["predicted"])
        assert row["class"] == world.labels.by_image[row["image_id"]]
        words = row["read"].split()
        assert not {"man", "woman", "his", "her", "boy", "girl"} & set(words)
        # What words add, and one intercept for the captions that a judge scores, are its log odds of the truth.
        assert len(row["words"].split()) == len(words)
    added = np.array([sum(map(float, text.split())) for text in examples["words"]])
    odds = np.log(examples["probability"] / (1 - examples["probability"]))
    judges = examples.merge(result.scores[["metric", "side", "image_id", "index", "fold"]])
    assert len(judges) == len(examples)
    class_ = judges["class"] + judges["side"] + judges["fold"].astype(str) + judges["index"].astype(str)
    assert (odds - added).groupby(class_.to_numpy()).agg(np.ptp).max() < 0.01  # Four digits of each word are kept.
    counted = result.examples[result.examples["metric"] == "error"]
    assert len(counted)
    assert (counted["read"] == "").all()
    assert counted["probability"].isna().all()

"""The table from scores.parquet, against slow loops and against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import amplification, side_score

from judge.errors import JudgeError
from judge.statistics.summary import summarise


def make_scores(images: int, *, seeds: int = 1, captions: int = 3, classes: str = "ab", seed: int = 0) -> pd.DataFrame:
    """Random scores; classes of unequal size, some captions missing, every image on both sides."""
    rng = np.random.default_rng(seed)
    rows = []
    for image in range(images):
        answer = classes[0] if image < 3 else classes[int(rng.integers(len(classes)))]
        for number in range(seeds):
            for side, many in (("human", captions), ("generated", 1)):
                for index in range(many):
                    if index and rng.random() < 0.1:
                        continue
                    predicted = classes[int(rng.integers(len(classes)))]
                    rows.append(
                        (str(image), "cap", side, index, "lic", "linear", number, 0, answer, rng.random(), predicted)
                    )
    columns = [
        "image_id",
        "captioner",
        "side",
        "index",
        "metric",
        "judge",
        "seed",
        "fold",
        "answer",
        "probability",
        "predicted",
    ]
    return pd.DataFrame(rows, columns=columns)


@given(st.integers(8, 25), st.integers(1, 3), st.sampled_from(["ab", "abc"]), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_against_loops(images: int, seeds: int, classes: str, seed: int) -> None:
    scores = make_scores(images, seeds=seeds, classes=classes, seed=seed)
    both = pd.concat([scores, scores.assign(metric="leakage")])
    rows = scores.to_dict("records")
    lic, leakage = summarise(both, resamples=100)
    for found, confident in ((lic, True), (leakage, False)):
        human = [row for row in rows if row["side"] == "human"]
        assert found.human == pytest.approx(side_score(human, confident=confident))
        assert found.amplification == pytest.approx(amplification(rows, confident=confident))
    assert (lic.images, lic.seeds) == (images, seeds)
    if seeds > 1:
        by_seed = [amplification([r for r in rows if r["seed"] == s], confident=True) for s in range(seeds)]
        assert lic.sd == pytest.approx(np.std(by_seed, ddof=1))
    else:
        assert lic.sd is None


def test_by_hand() -> None:
    """Two images a class. LIC: human (0.8 + 0)/2 and (0 + 0.6)/2, generated (0.9 + 0.7)/2 and (1 + 0)/2."""
    rows = [
        ("1", "human", "a", 0.8, "a"),
        ("2", "human", "a", 0.3, "b"),
        ("3", "human", "b", 0.4, "a"),
        ("4", "human", "b", 0.6, "b"),
        ("1", "generated", "a", 0.9, "a"),
        ("2", "generated", "a", 0.7, "a"),
        ("3", "generated", "b", 1.0, "b"),
        ("4", "generated", "b", 0.2, "a"),
    ]
    scores = pd.DataFrame(rows, columns=["image_id", "side", "answer", "probability", "predicted"])
    scores = scores.assign(captioner="cap", index=0, judge="linear", seed=0, fold=0)
    lic, leakage, sc = summarise(pd.concat([scores.assign(metric=name) for name in ("lic", "leakage", "sc")]))
    assert (lic.human, lic.generated) == (pytest.approx(0.35), pytest.approx(0.65))
    assert (leakage.human, leakage.generated) == (0.5, 0.75)
    assert lic.amplification == pytest.approx(0.30)
    assert (sc.human, sc.generated, sc.amplification, sc.interval, sc.p_value) == (None, 0.75, None, None, None)


def test_rows_do_not_depend_on_each_other() -> None:
    scores = make_scores(20)
    alone = summarise(scores, resamples=200)
    beside = summarise(pd.concat([scores.assign(captioner="other"), scores]), resamples=200)
    assert alone[0] in beside


def test_swapping_the_sides_flips_the_sign() -> None:
    scores = make_scores(30, captions=1)
    swapped = scores.assign(side=scores["side"].map({"human": "generated", "generated": "human"}))
    first, second = summarise(scores)[0], summarise(swapped)[0]
    assert first.amplification == pytest.approx(-(second.amplification or 0))


def test_nan_is_never_a_number() -> None:
    scores = make_scores(20)
    with pytest.raises(JudgeError, match="NaN"):
        summarise(scores.assign(probability=float("nan")))
    one_sided = scores[(scores["side"] == "human") | (scores["image_id"] != "3")]
    with pytest.raises(JudgeError, match="one side only"):
        summarise(one_sided)


def test_one_image_of_a_class_has_no_interval() -> None:
    scores = make_scores(12)
    names = {str(i): "a" if i else "b" for i in range(12)}
    (found,) = summarise(scores.assign(answer=scores["image_id"].map(names)))
    assert found.interval is None
    assert found.amplification is not None


def test_order_and_names_change_nothing() -> None:
    scores = make_scores(30, seeds=2)
    shuffled = scores.sample(frac=1, random_state=0).assign(image_id=lambda frame: "x" + frame["image_id"])
    first, second = summarise(scores)[0], summarise(shuffled)[0]
    assert first.amplification == pytest.approx(second.amplification)
    assert first.human == pytest.approx(second.human)

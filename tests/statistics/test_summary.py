"""The table from scores.parquet, against slow loops and against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from helpers import known, make_scores
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import accuracy, amplification, confidence, confident_accuracy, mean_of_classes
from scipy import stats

from judge.errors import JudgeError
from judge.measure.table import COLUMNS as REPLICATES
from judge.statistics.summary import Settings, summarise

QUICK = Settings(resamples=100)


@given(st.integers(8, 25), st.integers(1, 3), st.sampled_from(["ab", "abc"]), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_against_loops(images: int, seeds: int, classes: str, seed: int) -> None:
    scores = make_scores(images, seeds=seeds, classes=classes, seed=seed)
    every = pd.concat([scores.assign(metric=name) for name in ("lic", "leakage", "imagecaptioner2")])
    rows = scores.to_dict("records")
    lic, leakage, theirs = summarise(every, None, QUICK)
    sides = [mean_of_classes([row for row in rows if row["side"] == of], confidence) for of in ("human", "generated")]
    assert [theirs.human, theirs.generated, theirs.amplification] == pytest.approx([*sides, sides[1] - sides[0]])
    for found, confident in ((lic, True), (leakage, False)):
        human = [row for row in rows if row["side"] == "human"]
        assert found.human == pytest.approx(mean_of_classes(human, confident_accuracy if confident else accuracy))
        assert found.amplification == pytest.approx(amplification(rows, confident=confident))
    assert (lic.images, lic.seeds) == (images, seeds)
    by_seed = [amplification([r for r in rows if r["seed"] == s], confident=True) for s in range(seeds)]
    assert lic.sd == (pytest.approx(np.std(by_seed, ddof=1)) if seeds > 1 else None)


def test_folds_of_the_first_seed_alone_tell_the_error() -> None:
    """The value is that of all seeds. Three draws of folds hold no more images than one."""
    scores = make_scores(60, seeds=3)
    scores = scores.assign(fold=scores["image_id"].astype(int) // 3 % 6)
    (found,) = summarise(scores, settings=Settings(resamples=20, ratios={"lic": 1 / 5}))
    rows = scores.to_dict("records")
    assert found.amplification == pytest.approx(amplification(rows, confident=True))
    first = [[row for row in rows if row["seed"] == 0 and row["fold"] == fold] for fold in range(6)]
    folds = [amplification(of, confident=True) for of in first]
    assert (found.basis, found.seeds) == ("splits", 3)
    assert found.standard_error == pytest.approx(np.std(folds, ddof=1) * np.sqrt(1 / 6 + 1 / 5))


def test_what_is_no_whole_table_of_numbers() -> None:
    """And of a class with one image there is no interval."""
    scores = make_scores(20)
    with pytest.raises(JudgeError, match="NaN"):
        summarise(scores.assign(loss=float("nan")))
    with pytest.raises(JudgeError, match="one side only"):
        summarise(scores[(scores["side"] == "human") | (scores["image_id"] != "3")])
    # Of several seeds DPAC takes the best on validation images, of each side; then that one's images count.
    several = make_scores(20, seeds=2).assign(metric="dpac-ta", validation_loss=0.5, named="a", tasks="t")
    with pytest.raises(JudgeError, match="NaN"):
        summarise(several.assign(validation_loss=np.nan))
    several.loc[(several["side"] == "human") & (several["seed"] == 1), "validation_loss"] = 0.4
    assert summarise(several)
    apart = (several["side"] == "human") & (several["image_id"] == "3")
    with pytest.raises(JudgeError, match="one side only"):
        summarise(several[~apart | (several["seed"] == 0)])
    # Seeds that are not known are none.
    (found,) = summarise(scores.assign(seed=np.where(scores["image_id"] == "3", np.nan, 0.0)))
    assert found.sd is None
    (found,) = summarise(scores.assign(answer=np.where(scores["image_id"] == "0", "b", "a")))
    assert found.interval is None
    assert found.amplification is not None


def refits(**values: tuple[list[float], list[float]]) -> pd.DataFrame:
    """kind -> (human side, amplification) of each refit."""
    rows = [
        ("cap", "lic", "linear", kind, number, human, human + value, value, human, human + value)
        for kind, of in values.items()
        for number, (human, value) in enumerate(zip(*of, strict=True))
    ]
    return pd.DataFrame(rows, columns=REPLICATES).sample(frac=1, random_state=0)


def test_inference_from_refits_by_hand() -> None:
    """Pairs of halves (0.3, 0.1), (0.2, 0.2): error sqrt((0.2^2 + 0) / 2 / 4) = sqrt(0.005), 2 degrees of freedom.

    Exchanged -0.05, 0, 0.05: mean 0, sd 0.05. The halves' own is larger. Were the exchanged ones twice as far apart,
    the error would be of both: (0.005 + 0.01) / 2 is its square, with 4 degrees of freedom.
    """
    scores = make_scores(20)
    flat = [0.5] * 4
    found = refits(
        half=(flat, [0.3, 0.1, 0.2, 0.2]), exchanged=(flat[:3], [0.05, -0.05, 0]), shuffled=([0.2, 0.4], [0, 0])
    )
    (row,) = summarise(scores, found, QUICK)
    value, interval = known(row.amplification), known(row.interval)
    assert (row.basis, row.degrees) == ("refits", 2)
    assert row.standard_error == pytest.approx(0.005**0.5)
    reach = stats.t.ppf(0.975, 2) * 0.005**0.5
    assert (interval.low, interval.high) == pytest.approx((value - reach, value + reach))
    assert row.p_value == pytest.approx(2 * stats.t.sf(abs(value) / 0.005**0.5, 2))
    assert row.chance_level == pytest.approx(0)
    assert row.chance == pytest.approx((0.3, 0.3))
    assert row.human_error == 0
    alone = summarise(scores, None, QUICK)[0]
    assert row.these_judges == alone.these_judges == alone.interval
    assert (alone.basis, alone.p_value) == ("these judges", None)
    wider = refits(half=(flat, [0.3, 0.1, 0.2, 0.2]), exchanged=(flat[:3], [0.1, -0.1, 0]))
    (row,) = summarise(scores, wider, QUICK)
    assert (row.standard_error, row.degrees) == (pytest.approx(0.0075**0.5), 4)
    assert known(row.replicates).error(known(row.replicates).values) == pytest.approx(0.0075**0.5)
    assert known(row.replicates).degrees == 2
    # Where a half has no value (it never names a class), nobody knows how far the whole is off.
    lost = refits(half=(flat, [0.3, np.nan, 0.2, 0.2]), exchanged=(flat[:3], [0.1, -0.1, 0]))
    (row,) = summarise(scores, lost, QUICK)
    assert (row.basis, row.standard_error, row.p_value, row.replicates) == ("these judges", None, None, None)


def test_a_judge_that_is_not_trained_is_tested_on_its_answers() -> None:
    """Then p is that of the paired test on images, and the interval is by the same t."""
    scores = make_scores(200, captions=1)
    scores["predicted"] = scores["answer"]
    scores["probability"] = 0.5 + 0.1 * scores["probability"]
    (row,) = summarise(scores, None, Settings(resamples=4000, untrained={"linear"}))
    sides = scores.set_index(["image_id", "side"])["probability"].unstack()
    classes = scores.drop_duplicates("image_id").set_index("image_id")["answer"]
    gaps = [group for _, group in (sides["generated"] - sides["human"]).groupby(classes)]
    error = np.sqrt(sum(group.var() / len(group) for group in gaps)) / 2
    assert row.basis == "images"
    interval = known(row.interval)
    assert interval.high - interval.low == pytest.approx(2 * stats.norm.isf(0.025) * error, rel=0.5)
    assert (known(row.p_value) < 0.05) == (not interval.low <= 0 <= interval.high)
    assert row.p_value == pytest.approx(2 * stats.norm.sf(abs(row.amplification or 0) / error), abs=0.03)
    assert row.standard_error == pytest.approx(error, rel=0.5)


def test_images_are_drawn_within_classes() -> None:
    """Of a class with three images each resample has three: else one in twenty resamples had none, and no value."""
    scores = make_scores(60, captions=1)
    scores["answer"] = np.where(scores["image_id"].isin(["0", "1", "2"]), "a", "b")
    (row,) = summarise(scores, None, Settings(resamples=2000))
    right = scores["probability"].where(scores["predicted"] == scores["answer"], 0)[scores["side"] == "human"]
    groups = [of for _, of in right.groupby(scores["answer"])]
    error = np.sqrt(sum(of.var(ddof=0) / len(of) for of in groups)) / 2
    assert row.human_error == pytest.approx(error, rel=0.1)


def test_inference_from_splits_by_hand() -> None:
    """Five folds: the error is the sd of their values times sqrt(1/5 + 1/4); with four there is none."""
    scores = make_scores(60, captions=1)
    scores["fold"] = scores["image_id"].astype(int) % 5
    (row,) = summarise(scores, None, Settings(resamples=100, ratios={"lic": 1 / 4}))
    values = [amplification(part.to_dict("records"), confident=True) for _, part in scores.groupby("fold")]
    error = np.std(values, ddof=1) * (1 / 5 + 1 / 4) ** 0.5
    assert row.basis == "splits"
    assert row.standard_error == pytest.approx(error)
    assert row.p_value == pytest.approx(2 * stats.t.sf(abs(row.amplification or 0) / error, 4))
    scores["fold"] = scores["image_id"].astype(int) % 4
    (row,) = summarise(scores, None, Settings(resamples=100, ratios={"lic": 1 / 3}))
    assert (row.basis, row.p_value, row.standard_error) == ("these judges", None, None)


def test_order_names_and_other_rows_change_nothing() -> None:
    scores = make_scores(30, seeds=2)
    (alone,) = summarise(scores, None, QUICK)
    assert alone in summarise(pd.concat([scores.assign(captioner="other"), scores]), None, QUICK)
    shuffled = scores.sample(frac=1, random_state=0).assign(image_id="x" + scores["image_id"])
    (again,) = summarise(shuffled, None, QUICK)
    assert (again.amplification, again.human) == pytest.approx((alone.amplification, alone.human))

"""The whole way from captions and images to numbers, where the numbers are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import evaluate_numbers, fault_of, few, known, settings_of, with_captions

from judge import evaluate
from judge.calibration.grammar import World, make_world, simulate, write_world
from judge.calibration.truth import bayes_score, true_amplification
from judge.calibration.world import CAPTIONERS, FAITHFUL, Captioner, Parameters
from judge.corpus import Corpus
from judge.corpus.splits import stratified_folds
from judge.measure import Result
from judge.measure.examples import MOST
from judge.measure.jobs import lay_out
from judge.measure.plan import Plan
from judge.measure.refits import warn_of_many
from judge.report.figures import sides
from judge.report.warnings import warnings
from judge.text.lexicon import Lexicons, load_lexicon
from judge.text.tokens import tokenize
from judge.training.member import TrainingSetup
from judge.types import Captions

QUICK: dict[str, Any] = {"resamples": 200, "workers": 1, "folds": 4, "refits": 0, "chance": 0}


def measured(corpus: Corpus, **settings: Any) -> pd.DataFrame:
    return evaluate_numbers(corpus, **QUICK, **settings).table(all=True)


def value(table: pd.DataFrame, column: str, **wanted: str) -> float:
    for name, content in wanted.items():
        table = table[table[name] == content]
    assert len(table) == 1
    return float(table[column].iloc[0])


@pytest.fixture(scope="module")
def big() -> World:
    return make_world(2400, seed=1)


@pytest.mark.slow
def test_known_amplification(big: World) -> None:
    """Values are in the order of the knobs, and near their closed forms (2,400 images are not enough to be exact).

    The third human caption, used as a captioner's, gives 0 within noise.
    """
    told = {name: replace(captioner, vocabulary=3) for name, captioner in CAPTIONERS.items()}  # Few words to learn.
    captioners = [simulate(big, name=name, captioner=captioner) for name, captioner in told.items()]
    third = Captions("third", {image: captions[2:3] for image, captions in big.human.by_image.items()})
    table = measured(with_captions(Corpus(big.human, (*captioners, third), big.labels)), metrics="lic")
    assert value(table, "amplification", captioner="third") == pytest.approx(0, abs=0.03)
    found = [value(table, "amplification", captioner=name) for name in CAPTIONERS]
    assert found == sorted(found)
    for captioner, amplification in zip(CAPTIONERS.values(), found, strict=True):
        assert amplification == pytest.approx(true_amplification(captioner=captioner), abs=0.04)
    assert found[1] - found[0] > 0.05
    assert found[2] - found[1] > 0.1
    assert value(table, "low", captioner="none") < 0.02
    assert value(table, "high", captioner="none") > -0.02


def test_identical_sides_give_exactly_nothing(world: World) -> None:
    """Judges of identical evidence are identical: same seeds, same folds."""
    same = Captions("same", {image: captions[:1] for image, captions in world.human.by_image.items()})
    corpus = Corpus(Captions("human", same.by_image), (same,), world.labels)
    how = QUICK | {"refits": 2, "folds": 2}
    table = evaluate_numbers(corpus, metrics="lic,leakage", **how).table(all=True)
    assert list(table["amplification"]) == [0.0, 0.0]
    # And so is every refit: exchanged captions are the same captions.
    assert list(table["p_value"]) == [1.0, 1.0]
    assert list(table["standard_error"]) == [0.0, 0.0]


def test_one_unmasked_gender_word_tells_all(world: World) -> None:
    words = {"female": "woman", "male": "man"}
    told = {image: (f"a {words[name]} outside",) for image, name in world.labels.by_image.items()}
    corpus = with_captions(Corpus(world.human, (Captions("telltale", told),), world.labels), 1)
    assert value(measured(corpus, metrics="leakage", lexicon="none"), "generated") > 0.95
    assert value(measured(corpus, metrics="leakage"), "generated") == pytest.approx(0.5, abs=0.1)


def test_always_person_is_seen_to_say_nothing(world: World) -> None:
    dull = Captions("dull", dict.fromkeys(world.labels.by_image, ("a person outside",)))
    people = with_captions(Corpus(world.human, (dull,), world.labels), 1)
    result = evaluate_numbers(people, metrics="lic", **QUICK)
    assert value(result.table(all=True), "names_none") == 1.0
    (note,) = (note for note in warnings(result) if "less than half as often" in note)
    lexicon = load_lexicon("gender")
    named = [bool(lexicon.mentions(tokenize(told))) for told, *_ in world.human.by_image.values()]
    share = f"{np.mean(named):.1%}"
    assert "less than half as often as human captions do (dull: " in note
    assert f"(dull: 0.0% of its captions, {share} of human captions)" in note
    assert warnings(result)[0] == (
        "No verdict for LIC (words+embedding) of dull: "
        f"0.0% of its captions name gender, and {share} of human captions do."
    )
    reason = f"0.0% of its captions name gender, and {share} of human captions do"
    assert set(result.table(all=True)["because"]) == {reason}


def test_scores_have_a_row_for_every_held_out_caption(corpus: Corpus) -> None:
    result = evaluate_numbers(with_captions(corpus), metrics="lic,leakage", seeds=2, **QUICK | {"folds": 2})
    scores = result.scores
    images = len(corpus.human.by_image)
    assert len(scores) == images * (2 + 1) * 2 * 2 * 2  # captions x captioners x metrics x seeds
    key = ["image_id", "captioner", "side", "index", "metric", "judge", "seed"]
    assert not scores.duplicated(key).any()
    assert scores["probability"].between(0, 1).all()
    assert set(scores["fold"]) == set(range(2))
    assert list(result.table(all=True)["seeds"]) == [2] * 4
    assert result.table(all=True)["sd"].notna().all()


def test_images_on_one_side_only_are_dropped_and_counted(world: World) -> None:
    part = simulate(world, name="part", captioner=Captioner(stereotype=0.5))
    kept = dict(list(part.by_image.items())[20:]) | {"nowhere": ("a cat",)}
    labels = replace(world.labels, by_image=dict(list(world.labels.by_image.items())[:-7]))
    corpus = with_captions(Corpus(world.human, (Captions("part", kept),), labels), 1)
    result = evaluate_numbers(corpus, metrics="sc", **QUICK)
    dropped = result.run["captioners"]["part"]["dropped"]
    assert dropped == {"human captions only": 20, "generated captions only": 1, "no label": 7}
    assert value(result.table(all=True), "images") == 240 - 20 - 7


def test_a_caption_index_that_misses_in_a_whole_fold(world: World) -> None:
    """20 images, 10 folds, and the two images of one fold have no second caption."""
    ordered = sorted(world.labels.by_image.items())
    chosen = dict(part for name in ("male", "female") for part in [p for p in ordered if p[1] == name][:10])
    labels = replace(world.labels, by_image=chosen)
    captioner = simulate(world, name="c", captioner=Captioner(stereotype=0.5))
    fold = stratified_folds(labels.by_image, seed=0)[4]
    human = {i: (c[:1] if i in fold.test else c[:2]) for i, c in world.human.by_image.items() if i in chosen}
    corpus = Corpus(Captions("human", human), (captioner,), labels)
    assert value(evaluate_numbers(corpus, metrics="lic", **QUICK | {"folds": 10}).table(all=True), "images") == 20


@pytest.mark.slow
def test_crossfit_is_several_times_sharper_than_the_hold_out(coco: Path) -> None:
    """Of fixed judges: a prototype's standard error of LIC was 0.006 with folds and 0.021 with one hold-out.

    With training it is 0.008 to 0.011 with folds (20 refits of each of two seeds).
    """
    captions = coco / "results" / "nic_equalizer.json"
    settings: dict[str, Any] = {"human": coco / "captions_human.json", "captions": captions}
    settings |= {"labels": coco / "gender.csv", "metrics": "lic", "judge": "linear"}
    (folds,) = evaluate(**settings, refits=8, seeds=1, chance=0).summaries
    (holdout,) = evaluate(**settings, refits=0, chance=0, protocol="paper", seeds=1).summaries
    widths = [row.these_judges.high - row.these_judges.low for row in (folds, holdout) if row.these_judges]
    assert widths[0] / 3.92 == pytest.approx(0.006, abs=0.0015)
    assert widths[1] / 3.92 == pytest.approx(0.021, abs=0.006)
    assert folds.standard_error == pytest.approx(0.0095, abs=0.004)
    # The paper's finding: the equaliser amplifies (LIC 11.8 with its LSTM and its images).
    assert known(folds.interval).low > 0
    assert known(folds.p_value) < 0.01
    assert (folds.images, holdout.images) == (3597, 206)
    # One hold-out does not show how much other judges would differ.
    assert (folds.basis, holdout.basis, holdout.p_value) == ("refits", "these judges", None)


@pytest.mark.slow
def test_linear_judges_see(tmp_path: Path) -> None:
    """They beat readers where settings go with the attribute and no caption names them; so does what is known."""
    parameters = Parameters(association=0.0, setting_association=0.95, place=0.0)
    world = make_world(400, seed=5, parameters=parameters)
    files = few(write_world(world, {"plain": FAITHFUL}, tmp_path / "world", pictures=64), 1)
    settings = settings_of(files, tmp_path) | {"backbone": "patches", "resamples": 200, "protocol": "crossfit"}
    judges = ["linear+image", "linear+image-caption-only", "linear+image-image-only"]
    settings |= {"folds": 3, "refits": 2, "chance": 0}
    result = evaluate_numbers(**settings, metrics="imagecaptioner2,conditional", judge=judges, given="image")
    table = {row.judge: row for row in result.summaries if row.metric.name == "imagecaptioner2"}
    seeing, reading, looking = (known(table[name].human) for name in judges)
    # An optimal judge of things and settings has 0.86.
    assert -0.1 < seeing - bayes_score(parameters, score="confidence", uses_images=True) < 0.01
    assert looking == pytest.approx(seeing, abs=0.05)
    assert reading == pytest.approx(0.5, abs=0.02)
    assert table[judges[2]].amplification == 0
    assert table[judges[0]].p_value is not None
    drawn = {of.name: of.figure for of in sides(result)}
    labels = [of.get_text() for of in drawn["sides-imagecaptioner2"].axes[0].get_yticklabels()]
    # Captions alone tell nothing: their row has no verdict, and is last.
    assert labels == [f"plain ({of})" for of in ("image and caption", "image alone", "caption alone")]
    (given,) = (row for row in result.summaries if row.metric.given)
    assert given.metric.name == "conditional:image"
    # An optimal judge knows 0.73 of the variance, which captions repeat; this one learns from 400 images.
    assert 0.53 < known(given.known) < 0.74
    assert abs(known(given.human)) < 0.05
    assert result.run["captioners"]["plain"]["reads"]["conditional:image"]["words+embedding"]["mask"] == "segment"
    # Without images there is one clear line.
    blind = settings | {"images": None, "instances": None, "metrics": "conditional:image"}
    what = "images: judges of conditional:image see images, and there are none. Give the folder of images, or "
    what += "image_features."
    assert fault_of(lambda: evaluate(**blind)) == what


@pytest.fixture(scope="module")
def examined(world: World) -> Result:
    generated = simulate(world, name="much", captioner=Captioner(stereotype=0.9))
    corpus = with_captions(Corpus(world.human, (generated,), world.labels))
    return evaluate(corpus, metrics=["lic", "error"], **QUICK)


def lic_by_hand(examined: Result, world: World) -> pd.Series[float]:
    """What each image adds to LIC: the mean of p where the judge is right, less 1/4, over the images of its class."""
    scores = examined.scores[examined.scores["metric"] == "lic"]
    q = np.where(scores["predicted"] == scores["answer"], scores["probability"], 0.0) - 0.25
    by_side = scores.assign(q=q).groupby(["image_id", "side"])["q"].mean().unstack()
    sizes = pd.Series(world.labels.by_image).value_counts()
    classes = by_side.index.map(dict(world.labels.by_image))
    return (by_side["generated"] - by_side["human"]) / (2 * sizes[classes].to_numpy())


def test_the_images_that_carry_most_of_a_row_are_its_examples(examined: Result, world: World) -> None:
    by_hand = lic_by_hand(examined, world)
    value = next(row.amplification for row in examined.summaries if row.metric.name == "lic")
    assert by_hand.sum() == pytest.approx(value)
    examples = examined.examples[examined.examples["metric"] == "lic"].drop_duplicates(["chosen", "rank"])
    for chosen, order in (("adds", by_hand.sort_values(ascending=False)), ("takes away", by_hand.sort_values())):
        found = examples[examples["chosen"] == chosen]
        assert found["contribution"].tolist() == pytest.approx(order.head(MOST).tolist())
        assert found["contribution"].tolist() == pytest.approx(by_hand[found["image_id"]].tolist())
    drawn = examples[examples["chosen"] == "random"]
    assert len(drawn) == MOST
    assert drawn["contribution"].tolist() == pytest.approx(by_hand[drawn["image_id"]].tolist())


def test_captions_of_examples_are_as_written_as_read_and_as_judged(examined: Result, world: World) -> None:
    examples = examined.examples[examined.examples["metric"] == "lic"]
    assert set(examples["side"]) == {"human", "generated"}
    for row in examples.to_dict("records"):
        if row["side"] == "human":
            assert row["caption"] == world.human.by_image[row["image_id"]][row["index"]]
        keys = ["metric", "side", "image_id", "index"]
        asked = examined.scores[(examined.scores[keys] == [row[key] for key in keys]).all(axis=1)]
        assert row["probability"] == pytest.approx(asked["probability"].mean())
        assert row["predicted"] in set(asked["predicted"])
        assert row["class"] == world.labels.by_image[row["image_id"]]
        words = row["read"].split()
        assert not {"man", "woman", "his", "her", "boy", "girl"} & set(words)
        # What words add, and one intercept for the captions that a judge scores, are its log odds of the truth.
        assert len(row["words"].split()) == len(words)
    added = np.array([sum(map(float, text.split())) for text in examples["words"]])
    odds = np.log(examples["probability"] / (1 - examples["probability"]))
    judges = examples.merge(examined.scores[["metric", "side", "image_id", "index", "fold"]])
    assert len(judges) == len(examples)
    class_ = judges["class"] + judges["side"] + judges["fold"].astype(str) + judges["index"].astype(str)
    assert (odds - added).groupby(class_.to_numpy()).agg(np.ptp).max() < 0.01  # Four digits of each word are kept.
    counted = examined.examples[examined.examples["metric"] == "error"]
    assert len(counted)
    assert (counted["read"] == "").all()
    assert counted["probability"].isna().all()


@pytest.mark.parametrize("metrics", ["lic,u-at", "u-at,lic"])
def test_each_target_has_its_own_number_of_refits(metrics: str, corpus: Corpus) -> None:
    """Of classes 40 exchanges and 80 halves, of tasks 8 and 16, whichever comes last; 2 with shuffled labels."""
    words = Lexicons(load_lexicon("gender"), load_lexicon("coco-objects"))
    plan = Plan(metrics=tuple(metrics.split(",")), judges=("linear",), folds=2, chance=2)
    work = lay_out(corpus, plan, words)
    kinds = Counter(job.evidence.target.kind for job in work.jobs if job.member.seed == 0)
    expected = kinds["attribute"] * (40 + 80 + 2) + kinds["tasks"] * (8 + 16 + 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("judge.measure.refits._MANY", 10)
        (line,) = warn_of_many(work.jobs, plan, TrainingSetup())
        of_classes = [job for job in work.jobs if job.evidence.target.kind == "attribute"]
        (alone,) = warn_of_many(of_classes, plan, TrainingSetup())
    assert alone.endswith("which give intervals and p; --refits 20 trains about half of them")
    assert f"and {expected:,} in refits" in line
    assert "; judges of U A->T guess every task, which takes most of the time" in line


def test_shuffled_labels_give_chance(big: World) -> None:
    names = np.random.default_rng(0).permutation([*big.labels.by_image.values()]).tolist()
    captioner = simulate(big, name="much", captioner=Captioner(stereotype=0.7, vocabulary=3))
    labels = replace(big.labels, by_image=dict(zip(big.labels.by_image, names, strict=True)))
    table = measured(with_captions(Corpus(big.human, (captioner,), labels), 1), metrics="lic,leakage")
    for side in ("human", "generated"):
        assert value(table, side, metric="lic") == pytest.approx(0.25, abs=0.03)
        assert value(table, side, metric="leakage") == pytest.approx(0.5, abs=0.04)


@pytest.mark.slow
def test_images_carry_what_captions_do_not(tmp_path: Path) -> None:
    """Judges of images beat those of text on drawn images whose setting goes with the attribute, by 0.15 or more.

    No caption names the setting; with the image blanked the advantage is gone, with captions blanked both sides are
    the same evidence. A random backbone sees settings well enough.
    """
    parameters = Parameters(association=0.0, setting_association=0.95, place=0.0)
    world = make_world(400, seed=5, parameters=parameters)
    files = few(write_world(world, {"plain": FAITHFUL}, tmp_path / "world", pictures=96), 1)
    settings = settings_of(files, tmp_path) | {"image_size": 96, "backbone": "resnet18", "resamples": 200}
    settings |= {"epochs": 10, "batch_size": 32, "learning_rate": 0.0005}
    judges = ["sat", "sat-caption-only", "sat-image-only", "vl-lic-lstm"]
    result = evaluate(**settings, metrics="imagecaptioner2,imagecaptioner2-ratio,lic", judge=judges)
    table = {(row.metric.name, row.judge): row for row in result.summaries}
    seeing, reading, looking, vl = (table["imagecaptioner2", name] for name in judges)
    assert known(seeing.human) > known(reading.human) + 0.15
    assert known(looking.human) > 0.7
    assert reading.human == pytest.approx(0.5, abs=0.1)
    assert known(vl.human) > 0.6
    ratio = known(seeing.generated) / known(seeing.human)
    assert table["imagecaptioner2-ratio", "sat"].amplification == pytest.approx(ratio)
    assert looking.amplification == 0
    # Text metrics are measured by a judge of text, whatever sees.
    assert table["lic", "words+embedding"].human == pytest.approx(0.25, abs=0.12)
    assert ("lic", "sat") not in table
    # 70/10/20 of balanced classes.
    scores = result.scores
    assert scores[scores["judge"] == "sat"]["image_id"].nunique() == pytest.approx(80, rel=0.1)

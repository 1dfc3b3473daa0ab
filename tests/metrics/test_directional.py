"""DBAC and DPAC: against slow loops from the papers, and where their values are known."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import evaluate_numbers
from leaning import SHOWN, lean

from judge import dbac, dpac, evaluate
from judge.corpus import Corpus
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError
from judge.evidence import Evidence, EvidenceBuilder
from judge.measure import Result
from judge.metrics import METRICS, find_metric, spell_out, with_given, with_protocol
from judge.metrics.scores import SCORES
from judge.statistics.judged import Statistic
from judge.statistics.summary import Settings, summarise
from judge.text.lexicon import Lexicons, load_lexicon
from judge.types import Captions

QUICK = {"resamples": 200, "workers": 1, "folds": 3, "refits": 0, "chance": 0}
FEW = Settings(resamples=50)


def row(result: Result, metric: str) -> pd.Series:
    return result.table(all=True).set_index("metric").loc[metric]


def test_bayes_value_in_a_world_that_is_known() -> None:
    """omega with accuracy, P(female) = 0.3, P(own animal) = 0.8 for both.

    A->T. P(dog) = 0.3 x 0.8 + 0.7 x 0.2 = 0.38, so P(female | dog) = 0.24 / 0.38 > 1/2 and P(male | cat) = 0.56 / 0.62:
    right are (female, dog) and (male, cat), in 0.8 of the images. The mean of w = P(t)/P(a) is
    sum_t P(t) sum_a P(t | a) = 1 for two equally leaning classes: 0.8. T->A: animals are hidden, the word for the
    person tells the animal in 0.8 of the images; the mean of P(a)/P(T) is sum_a P(a) sum_T P(a | T) =
    0.3 (0.24 / 0.38 + 0.06 / 0.62) + 0.7 (0.14 / 0.38 + 0.56 / 0.62) = 1.1086: 0.8869.
    The captioner exchanges half of the other animals for the class's own: P(own) = 0.9; A->T 0.9 x 1 = 0.9;
    T->A: the animals shown are the same, words tell no more: 0.8869.
    """
    result = evaluate_numbers(lean(1500, female=0.3, stereotype=0.5), metrics="dbac:accuracy", **QUICK)
    there, back = row(result, "dbac-at:accuracy"), row(result, "dbac-ta:accuracy")
    assert (there["human"], there["generated"]) == (pytest.approx(0.8, abs=0.03), pytest.approx(0.9, abs=0.03))
    assert there["amplification"] == pytest.approx((0.9 - 0.8) / (0.9 + 0.8), abs=0.01)
    assert (back["human"], back["generated"]) == (pytest.approx(0.8869, abs=0.03), pytest.approx(0.8869, abs=0.03))
    assert back["amplification"] == pytest.approx(0, abs=1e-9)
    # Q alone: 0.8 and 0.9 of captions are guessed right.
    assert there["human_quality"] == pytest.approx(0.8, abs=0.02)
    assert there["generated_quality"] == pytest.approx(0.9, abs=0.02)
    assert there["human_prior"] == pytest.approx(1, abs=0.03)


def make_rows(rng: np.random.Generator, metric: str) -> pd.DataFrame:
    """Of 40 images three human captions and one of the captioner's, with answers at random."""
    slots = [("human", index) for index in range(3)] + [("generated", 0)]
    rows = [(str(image), "cap", *slot, metric, "x", 0, 0) for image in range(40) for slot in slots]
    table = pd.DataFrame(rows, columns=["image_id", "captioner", "side", "index", "metric", "judge", "seed", "fold"])
    said = {name: rng.choice(["", "a", "b", "a|b"], 160) for name in ("named", "tasks")}
    told = {name: rng.choice(["a", "b"], 160) for name in ("answer", "predicted")}
    p = rng.uniform(0.05, 1, 160)
    return table.assign(**said, **told, probability=p, loss=-np.log(p), validation_loss=rng.random(160))


@pytest.mark.parametrize("name", ["dbac-at", "dbac-ta", "dpac-at", "dpac-ta"])
def test_antisymmetric_bounded_and_zero_for_identical_sides(name: str) -> None:
    plain = [score for score, of in SCORES.items() if not (of.relative or score == "gain")]
    for seed, score in enumerate(plain):
        scores = make_rows(np.random.default_rng(seed), find_metric(f"{name}:{score}").name)
        swapped = scores.assign(side=scores["side"].map({"human": "generated", "generated": "human"}))
        (one,), (other,) = (summarise(rows, None, FEW) for rows in (scores, swapped))
        assert one.amplification == pytest.approx(-(other.amplification or 0), abs=1e-9)
        assert -1 < (one.amplification or 0) < 1
        human = scores[scores["side"] == "human"]
        same = pd.concat([human, human.assign(side="generated")])
        (none,) = summarise(same, None, FEW)
        assert none.amplification == pytest.approx(0, abs=1e-12)


def test_the_best_of_several_trainings_counts() -> None:
    """DPAC takes of each side the seed with the least loss on validation images; DBAC the mean over seeds."""
    rng = np.random.default_rng(0)
    seeds = [make_rows(rng, "dpac-at").assign(seed=number) for number in range(3)]
    told = seeds[0][["named", "tasks", "answer"]]
    scores = pd.concat([part.assign(**told) for part in seeds])
    (best,) = summarise(scores, None, FEW)
    assert (best.seeds, best.sd) == (3, None)
    # A judge, of a fold and caption index, counts once, however many captions it scored.
    judges = scores.groupby(["side", "seed", "fold", "index"])["validation_loss"].first()
    means = judges.groupby(["side", "seed"]).mean()
    for side, value in (("human", best.human), ("generated", best.generated)):
        chosen = scores[scores["seed"] == means[side].idxmin()]
        (alone,) = summarise(chosen, None, FEW)
        assert value == pytest.approx(getattr(alone, side))
    (mean,) = summarise(scores.assign(metric="dbac-at"), None, FEW)
    assert mean.sd is not None


def test_the_best_is_chosen_on_images_that_are_neither_learnt_nor_scored() -> None:
    """DPAC of several seeds keeps a tenth of the images for that, and shares its split; of one seed none."""
    how = {"protocol": "paper", "resamples": 100, "workers": 1, "refits": 0, "chance": 0}
    scores = evaluate_numbers(lean(100), metrics="dpac-at,dbac-at", seeds=2, **how).scores
    one = evaluate_numbers(lean(100), metrics="dpac-at", seeds=1, **how).scores
    several = scores[scores["metric"] == "dpac-at"]
    assert several["validation_loss"].notna().sum() == 2 * 2 * 20
    assert one["validation_loss"].isna().all()
    # Priors are of all captions: those that no judge was asked about stand there too.
    assert (several["probability"].isna()).sum() == 2 * 80
    held = scores[scores["probability"].notna()].groupby(["metric", "seed"])["image_id"].agg(frozenset)
    assert held["dpac-at", 0] == held["dpac-at", 1]
    assert held["dbac-at", 0] != held["dbac-at", 1]
    assert len(held["dbac-at", 0]) == 20  # 80/20, by class; none is left out for balance


def test_names_that_stand_for_both_directions() -> None:
    assert spell_out(["lic", "DBAC:accuracy", "dbac-at:accuracy"]) == ("lic", "dbac-at:accuracy", "dbac-ta:accuracy")
    assert find_metric("dbac-at:inverse_cross_entropy") is METRICS["dbac-at"]
    with pytest.raises(JudgeError, match=r"unknown score 'acuracy'.*accuracy"):
        find_metric("dbac-at:acuracy")
    with pytest.raises(JudgeError, match="'dbac' is several metrics"):
        find_metric("dbac")
    assert spell_out(["dbac-at", "DBAC-AT: inverse_cross_entropy", "x:y:z"]) == ("dbac-at", "x:y:z")


def test_names_show_another_protocol() -> None:
    assert spell_out(["LIC:balanced", "lic:90/10", "imagecaptioner2:70/10/20", "dbac-at:unbalanced"]) == (
        *("lic", "imagecaptioner2", "dbac-at"),
    )
    assert spell_out(["lic:unbalanced: 80 / 20", "lic:80/20:unbalanced"]) == ("lic:80/20:unbalanced",)
    row = find_metric("lic:80/20:unbalanced")
    assert (row.title, row.holdout, row.balanced, row.parts) == ("LIC (80/20, unbalanced)", (0.2, 0.0), False, "80/20")
    assert replace(row, name="lic", title="LIC", holdout=(0.1, 0.0), balanced=True) == METRICS["lic"]
    assert find_metric("vl-lic:accuracy:90/10").title == "VL-LIC (accuracy, 90/10)"
    names = ("lic", "dbac", "dpac-ta", "imagecaptioner2", "error")
    changed = with_protocol(names, balance="none", holdout=(0.2,))
    assert changed == ("lic:80/20:unbalanced", "dbac-at", "dbac-ta", "dpac-ta", "imagecaptioner2:unbalanced", "error")
    assert with_protocol(changed, balance="none", holdout=(0.2,)) == changed
    assert with_protocol(changed[:1], balance="classes", holdout=(0.1, 0.0)) == ("lic",)
    assert with_protocol(names, balance=None, holdout=None) == spell_out(names)
    assert with_protocol(["lic:unbalanced"], balance=None, holdout=(0.2,)) == ("lic:80/20:unbalanced",)
    for holdout, left in (((0.2, 0.9), "0.2,0.9: LIC: 0.2"), ((0.9,), "0.9: DPAC T->A: 0.9")):
        with pytest.raises(JudgeError, match=f"--holdout {left} of the images are for testing .*, none for training"):
            with_protocol(names, balance=None, holdout=holdout)


@pytest.mark.parametrize(("name", "message"), [
    ("lic:80/30", "'80/30' is no hold-out"), ("lic:nan/20", "'nan/20' is no hold-out"),
    ("lic:100/0", "'100/0' is no hold-out"), ("lic:60/10/10/20", "is no hold-out"),
    ("lic:unbalance", "unknown score 'unbalance'. Did you mean 'unbalanced'?"),
    ("dbac-ta:balanced", "DBAC T->A counts how frequent classes are, so they cannot be balanced"),
    *((name, f"--metrics {name}: two of its variants choose the same thing. Leave one out.") for name in (
        *("lic:unbalanced:balanced", "lic:80/20:unbalanced:80/20", "lic:80/20:75/25"),
        *("dbac-at:accuracy:with-people:confidence", "dpa-at:label:annotation:label", "ratio:a/b:b/a"),
    )),
    ("dpac-at:80/20", "DPAC A->T chooses among seeds on other images. Write 70/10/20"),
])  # fmt: skip
def test_protocols_that_are_none(name: str, message: str) -> None:
    with pytest.raises(JudgeError, match=re.escape(message)):
        find_metric(name)


def build(corpus: Corpus, metric: str) -> Evidence:
    builder = EvidenceBuilder(corpus, Lexicons(load_lexicon("gender"), load_lexicon("coco-objects")))
    return builder.build(corpus.generated[0], find_metric(metric))


def test_people_are_neither_hidden_nor_guessed() -> None:
    """But "bike rider" is a person and no bicycle; with people among the tasks both are hidden, as one."""
    corpus = lean(60)
    said = dict.fromkeys(corpus.human.by_image, ("a bike rider and a person with a dog",))
    assert corpus.tasks is not None
    shown = {image: (*which, 2) if int(image) % 2 else which for image, which in corpus.tasks.by_image.items()}
    corpus = replace(corpus, generated=(Captions("cap", said),), tasks=Tasks((*SHOWN, "person"), shown, "test"))
    apart, along = (build(corpus, name) for name in ("dbac-ta", "dbac-ta:with-people"))
    assert apart.target.classes == SHOWN
    assert along.target.classes == (*SHOWN, "person")
    assert apart.slots["generated", 0][0].words == ("a", "bike", "rider", "and", "a", "person", "with", "a", "<object>")
    assert along.slots["generated", 0][0].words == ("a", "<object>", "and", "a", "<object>", "with", "a", "<object>")


def test_tasks_that_cannot_be_asked_are_left_out_with_a_count() -> None:
    corpus = lean(90)
    assert corpus.tasks is not None
    shown = {image: (*which, 2) for image, which in corpus.tasks.by_image.items()}
    shown.pop("7")
    more = replace(corpus, tasks=Tasks((*SHOWN, "chair", "zebra"), shown, "test"))
    result = evaluate_numbers(more, metrics="dbac-ta", **QUICK)
    dropped = result.run["captioners"]["cap"]["dropped"]
    assert (dropped["tasks never present"], dropped["tasks always present"], dropped["without tasks"]) == (1, 1, 1)
    assert set(result.scores["answer"]) == set(SHOWN)
    # Beside a metric that leaves nothing out, too.
    beside = evaluate_numbers(more, metrics="lic,dbac", **QUICK).run["captioners"]["cap"]["dropped"]
    assert beside == dropped
    # What has no words is refused.
    with pytest.raises(JudgeError, match=r"attribute 'gender': DBAC T->A reads the class .* no words of it are known"):
        evaluate(corpus, metrics="dbac-ta", lexicon="none", **QUICK)
    unknown = replace(corpus, tasks=Tasks(("cat", "unicorn"), corpus.tasks.by_image, "test"))
    with pytest.raises(JudgeError, match="no words of task 'unicorn' are known"):
        evaluate(unknown, metrics="dbac-ta", **QUICK)


def test_from_tasks_to_attribute_rewards_one_class_as_much_as_a_stereotype() -> None:
    """Ten images, five with skis (task 0) and five with an oven (none): P(T) = 1/2. People say "man" of 4 and of 3.

    People: P(man) = .7, P(skis | man) = 4/7, P(skis | woman) = 1/3. A caption weighs q P(a^) / P(T) in DPAC:
    4/7 x .7 / .5 = .8 (4 captions), 1/3 x .3 / .5 = .2 (1), 3/7 x .7 / .5 = .6 (3) and 2/3 x .3 / .5 = .4 (2), so that
    psi_H = (4 x .8 + .2 + 3 x .6 + 2 x .4) / 10 = .6. "Man" iff skis: q = 1, P(a^) = 1/2, psi_M = 1. Always "man":
    q = 1/2, P(a^) = 1, psi_M = 1 as well. Both amplify by (1 - .6) / (1 + .6) = .25.
    DBAC of always "man": CE = ln 2, mean w = 2, omega = 2.8854. People: CE = .6690, the mean of 4 -ln 4/7, -ln 1/3,
    3 -ln 3/7, 2 -ln 2/3; mean w = (7 x 1.4 + 3 x .6) / 10 = 1.16, omega = 1.7339: (2.8854 - 1.7339) / 4.6193 = +.249.
    """
    skis = np.repeat([[True], [False]], 5, axis=0)
    people = np.array([1, 1, 1, 1, 0, 1, 1, 1, 0, 0])
    told = np.where(people == 1, 4 / 7, 1 / 3)[:, None]
    certain, unsure = skis.astype(float), np.full((10, 1), 0.5)
    stereotype = dpac(skis, told, certain, people, np.repeat([1, 0], 5), "T->A")
    always = dpac(skis, told, unsure, people, np.ones(10, dtype=int), "T->A")
    assert (stereotype.human, stereotype.generated) == (pytest.approx(0.6), pytest.approx(1))
    assert (stereotype.value, always.value) == (pytest.approx(0.25), pytest.approx(0.25))
    assert dbac(skis, told, unsure, people, np.ones(10, dtype=int), "T->A").value == pytest.approx(0.2493, abs=1e-4)


def test_the_mean_of_one_over_the_frequency_of_sets_is_the_number_of_sets() -> None:
    """One human who always says "man" (P(a^) = 1) of images that show three sets of tasks, however often each."""
    sets = np.array([[1, 0]] * 5 + [[0, 1]] * 2 + [[1, 1]])
    metric = METRICS["dbac-ta"]
    rows = pd.DataFrame(
        {"answer": ["|".join(map(str, np.flatnonzero(row))) for row in sets], "named": "man", "tasks": ""}
    )
    rows = rows.assign(image_id=[*"12345678"], side="human", n=1.0, q=0.5)
    statistic = Statistic(metric, rows)
    assert statistic.side(np.asarray(statistic.rows(rows).table.sum(axis=0))).prior == pytest.approx(3)


def test_what_is_known_is_a_part_of_the_name() -> None:
    assert with_given(["conditional", "lic"], ["people"]) == ("conditional", "lic")
    assert with_given(["conditional", "lic"], ["objects", "people"]) == ("conditional:people+objects", "lic")
    assert with_given(["conditional:objects"], ["people", "objects"]) == ("conditional:objects",)
    row = find_metric("conditional:objects")
    assert (row.given, row.title) == (("objects",), "Conditional leakage (objects)")
    for name in ("conditional:objects+people", "conditional:sound", "conditional:accuracy"):
        with pytest.raises(JudgeError, match="is not known of an image"):
            find_metric(name)

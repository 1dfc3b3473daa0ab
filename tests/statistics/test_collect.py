"""Images to collect: what they make equal, and what repeating images says of the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import known
from hypothesis import given, settings
from hypothesis import strategies as st

from judge import evaluate
from judge.corpus import Corpus
from judge.evidence import Evidence, EvidenceBuilder, Resample
from judge.measure import lay_out, measure
from judge.measure.answers import answer_rows, answer_sums
from judge.measure.collect import _values
from judge.measure.jobs import jobs_of
from judge.measure.plan import Plan
from judge.measure.refits import chosen_settings
from judge.metrics import find_metric
from judge.statistics.collect import LEAST, cells_of
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.members import train_members
from judge.training.setup import TrainingSetup
from judge.types import Captions, Labels

LEXICONS = Lexicons(load_lexicon("gender"), load_lexicon("coco-objects"))


def shown_of(counts: dict[tuple[str, str], int]) -> pd.DataFrame:
    rows = [of for of, count in counts.items() for _ in range(count)]
    table = pd.DataFrame(rows, columns=["class", "objects"])
    return table.assign(image_id=[str(number) for number in range(len(table))])


def test_cells_by_hand() -> None:
    """A quarter of 80 women and half of 60 men with a tie: women 20 of 80 -> 40 of 80, or men 30 -> 15 of 60."""
    shown = shown_of({("female", "tie"): 20, ("female", ""): 60, ("male", "tie"): 30, ("male", ""): 30})
    cells, weights = cells_of(shown)
    found = {(cell.name, cell.shows): cell for cell in cells}
    assert set(found) == {("female", True), ("male", False)}
    women, men = found["female", True], found["male", False]
    assert (women.images, women.share, women.goal, women.collect) == (20, 0.25, 0.5, 40)  # 60 with, 60 without.
    assert (men.images, men.share, men.goal, men.collect) == (30, 0.5, 0.25, 60)  # 30 with, 90 without.
    images = zip(shown["class"], shown["objects"], strict=True)
    of_women = dict(zip(images, weights[:, cells.index(women)], strict=True))
    expected = {("female", "tie"): 2.0, ("female", ""): 2 / 3, ("male", "tie"): 1.0, ("male", ""): 1.0}
    assert of_women == pytest.approx(expected)


@given(st.lists(st.integers(0, 40), min_size=6, max_size=6))
@settings(max_examples=50, deadline=None)
def test_weighing_makes_equal_and_keeps_classes(counts: list[int]) -> None:
    names = [(name, task) for name in "abc" for task in ("x", "")]
    shown = shown_of(dict(zip(names, counts, strict=True)) | {("c", "y"): 1})
    cells, weights = cells_of(shown)
    there = (shown["objects"] == "x").to_numpy(dtype=float)
    shares = {name: there[shown["class"] == name].mean() for name in set(shown["class"])}
    for place, cell in enumerate(cells):
        of_class = (shown["class"] == cell.name).to_numpy()
        weight = weights[:, place]
        assert weight[of_class].sum() == pytest.approx(of_class.sum())
        assert np.average(there[of_class], weights=weight[of_class]) == pytest.approx(cell.goal)
        assert cell.goal == (max if cell.shows else min)(shares.values())
        assert (weight[~of_class] == 1).all()
        assert cell.images >= LEAST
        # As many images more as it says bring the share there, one image aside.
        inside = there[of_class].sum() if cell.shows else (1 - there[of_class]).sum()
        share = (inside + cell.collect) / (of_class.sum() + cell.collect)
        goal = cell.goal if cell.shows else 1 - cell.goal
        assert goal <= share + 1e-12 <= goal + 1.01 / of_class.sum() + 1e-12


def drawn() -> Corpus:
    """20 of 80 women wear a tie, and 40 of 80 men."""
    rng = np.random.default_rng(0)
    human, generated, classes = {}, {}, {}
    for number in range(160):
        name, tie = ("female", "male")[number % 2], number % 8 in {0, 1, 3}
        of = "a person with a tie" if tie else "a person with a kite"
        other = "a person with a tie" if rng.random() < 0.2 + 0.4 * (name == "male") else of
        human[str(number)], generated[str(number)], classes[str(number)] = (of,), (other,), name
    labels = Labels("gender", ("female", "male"), classes, "drawn")
    return Corpus(Captions("human", human), (Captions("cap", generated),), labels)


QUICK = {"folds": 5, "refits": 0, "chance": 0, "resamples": 100}


def test_weighing_images_is_having_more_of_them() -> None:
    """40 more women with a tie: each of 20 three times."""
    plain = drawn()
    first = evaluate(plain, metrics=["dba-o"], breakdown=True, **QUICK)
    table = known(first.breakdown).collect
    (row,) = table[(table["class"] == "female") & (table["task"] == "tie") & table["shows"]].to_dict("records")
    assert (row["images"], row["collect"]) == (20, 40)
    tripled = {
        image: 3 if classes == "female" and "tie" in plain.human.by_image[image][0] else 1
        for image, classes in known(plain.labels).by_image.items()
    }
    sides = [
        replace(side, by_image={f"{i}-{n}": of for i, of in side.by_image.items() for n in range(tripled[i])})
        for side in (plain.human, plain.generated[0])
    ]
    by_image = {f"{i}-{n}": name for i, name in known(plain.labels).by_image.items() for n in range(tripled[i])}
    more = Corpus(sides[0], (sides[1],), replace(known(plain.labels), by_image=by_image))
    second = evaluate(more, metrics=["dba-o"], **QUICK)
    change = known(second.summaries[0].published) - known(first.summaries[0].published)
    assert row["change"] == pytest.approx(change, abs=1e-12)


def test_nothing_to_collect() -> None:
    cells, weights = cells_of(shown_of({("a", "x"): 1, ("a", ""): 1}))
    assert not cells
    assert weights.shape == (2, 0)


def test_splits_have_the_priors_of_their_own_captions() -> None:
    """Judges trained again on images as they are: the values of splits that the table's interval is made of."""
    corpus, plan = drawn(), Plan(metrics=("dbac-at",), folds=5, refits=0, chance=0, resamples=100)
    found = measure(corpus, plan, lexicons=LEXICONS)
    work = lay_out(corpus, plan, LEXICONS)
    notes = [of for _, of in train_members([job.member for job in work.jobs], TrainingSetup(), then=answer_rows)]
    ((job, settings),) = chosen_settings(work.jobs, notes)
    evidence = Evidence(job.evidence.sides, Resample("weighted", 0))
    jobs = tuple(jobs_of(evidence, job.metrics, job.judge, plan, settings))
    whole, *splits = _values(jobs, train_members([of.member for of in jobs], TrainingSetup(), then=answer_sums), plan)
    (row,) = found.summaries
    assert whole["dbac-at"] == pytest.approx(known(row.amplification), abs=1e-12)
    assert [of["dbac-at"] for of in splits] == pytest.approx(known(row.replicates).values, abs=1e-12)


def test_judges_learn_from_weighed_images() -> None:
    """A resample's weights are what images count in training, and two resamples that differ in them alone differ."""
    corpus, metric = drawn(), find_metric("lic")
    builder = EvidenceBuilder(corpus, LEXICONS)
    sides = builder.build(corpus.generated[0], metric).sides
    heavy = {image: 3.0 for image in sides.classes if sides.classes[image] == "male"}
    plain, weighed = (Evidence(sides, Resample("weighted", 1, weights=of)) for of in ({}, heavy))
    assert plain.digest() != weighed.digest()
    jobs = [list(jobs_of(of, (metric,), "linear", Plan(folds=5))) for of in (plain, weighed)]
    for one, other in zip(*jobs, strict=True):
        for before, after in zip(one.member.training(), other.member.training(), strict=True):
            assert after.weight == before.weight * heavy.get(before.image_id, 1.0)

"""Conditional leakage of a run: from captions to rows of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import evaluate_numbers, known

from judge import Corpus, evaluate
from judge.errors import JudgeError
from judge.judges.given import give
from judge.measure import plan
from judge.measure.conditional import Readings, _Judges, _with_fit, expected_detectable
from judge.measure.table import make_table
from judge.report.notes import footnotes
from judge.report.result import Result
from judge.types import Captions

QUICK: dict[str, Any] = {"metrics": "conditional", "refits": 4, "workers": 1}
IMAGES = 240


def sample(coco: Path, count: int) -> Corpus:
    """The first images of the shared captions, the first human caption as the captioner's."""
    corpus = Corpus.read(human=coco / "captions_human.json", labels=coco / "gender.csv", captions=[])
    images = sorted(known(corpus.labels).by_image)[:count]
    human = {image: corpus.human.by_image[image][:5] for image in images}
    people = replace(corpus.human, by_image={image: texts[1:] for image, texts in human.items()})
    return replace(corpus, human=people, generated=(Captions("first", {i: of[:1] for i, of in human.items()}),))


@pytest.fixture(scope="module")
def people(coco: Path) -> Corpus:
    return sample(coco, IMAGES)


@pytest.fixture(scope="module")
def alone(people: Corpus) -> Result:
    """Of one captioner."""
    return evaluate_numbers(people, **QUICK)


def test_a_table_is_made_of_files_alone(alone: Result) -> None:
    result, (row,) = alone, alone.summaries
    assert row.metric.name == "conditional"
    assert row.judge == "words+embedding"
    assert row.basis == "refits"
    again = make_table(result.scores, result.counts, result.replicates, result.run)
    assert again == [row]
    # By hand, of the file's rows: classes and roles count equally.
    gain = (result.scores["baseline"] - result.scores["loss"]).groupby(
        [result.scores["side"], result.scores["answer"]], observed=True
    )
    means = gain.mean().groupby("side").mean()
    assert row.amplification == pytest.approx(means["generated"] - means["human"])
    assert row.known == pytest.approx(1 - result.scores.groupby("answer")["baseline"].mean().mean())
    assert result.scores.groupby("image_id")["index"].nunique().unique().tolist() == [4]
    fits = result.scores.groupby(["side", "answer"], observed=True)["fit"].mean()
    assert result.scores["fit"].between(-1, 1).all()
    assert fits["human"].mean() > 0.3
    told = (
        f"{name} {fits['generated', name]:.2f} (a person's {fits['human', name]:.2f})" for name in ("female", "male")
    )
    assert all(part in next(of for of in footnotes(result) if "mean cosine" in of) for part in told)


def told_by(images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes, what is known, which tells nothing of them, and captions, which follow from it but for noise."""
    generator = np.random.default_rng(4)
    known = generator.normal(size=(images, 3)).astype(np.float32)
    noise = generator.normal(size=(images, 3)).astype(np.float32)
    return np.arange(images) % 2, known, known @ np.float32([[1, 0, 2], [2, 1, 0], [0, 1, 1]]) + noise


def test_the_fit_of_a_caption_is_its_cosine_with_what_is_expected() -> None:
    classes, known, human = told_by(40)
    (judge,) = give([known], classes)
    generated = np.vstack([human[20:], -human[:20]])
    told = _with_fit(judge, *map(judge.tell, (human, generated)))
    sides = [(side.features[:, :-1], side.features[:, -1]) for side in told]
    expected = judge.expect(judge.tell(human))
    for (captions, fits), whole in zip(sides, (human, generated), strict=True):
        assert np.array_equal(captions, whole)
        for fit, caption, expects in zip(fits, whole - whole.mean(axis=0), expected, strict=True):
            cosine = caption @ expects / np.linalg.norm(caption) / np.linalg.norm(expects)
            assert fit == pytest.approx(cosine, abs=1e-5)
    assert sides[0][1].mean() > 0.6
    assert abs(sides[1][1].mean()) < 0.4


def test_captions_that_contradict_what_is_known_of_one_class_tell_it() -> None:
    """Those that say the same of all images do not; means of others' captions hold nothing of an image's own."""
    classes, known, human = told_by(600)
    opposite = np.where(classes[:, None] == 1, human, -human)
    for generated, told in ((opposite, True), (np.tile(human[:1], (600, 1)), False)):
        judges = _Judges(Readings([known], [human], [generated]), classes, None)
        person, captioner = judges.gains()
        assert person == pytest.approx(0, abs=0.02)
        assert (captioner > 0.3) if told else captioner == pytest.approx(0, abs=0.005)
        ((_, sides),) = _Judges(Readings([known * 0], [human], [generated]), classes, None).roles()
        assert abs(float(sides["human"].features[:, -1].mean())) < 0.1


@pytest.fixture(scope="module")
def both(people: Corpus) -> Corpus:
    """With a captioner before the other, which has two captions of an image, the same of all images."""
    told = Captions("told", dict.fromkeys(people.human.by_image, ("a nurse", "a person")))
    return replace(people, generated=(told, *people.generated))


@pytest.fixture(scope="module")
def two(both: Corpus) -> Result:
    return evaluate(both, **QUICK)


def test_examples_are_the_captions_that_tell_most(two: Result) -> None:
    """Their contributions are parts of the value; a caption's probability is its mean over roles, or of its own."""
    scores, examples = two.scores, two.examples
    gains = (scores["baseline"] - scores["loss"]) * np.where(scores["side"] == "generated", 1, -1)
    counts = scores.drop_duplicates("image_id")["answer"].value_counts()
    added = gains / scores["answer"].astype(str).map(counts) / 4 / 2  # Four roles, two classes.
    each = added.groupby([scores["captioner"], scores["image_id"]], observed=True).sum()
    for captioner in ("first", "told"):
        own = examples[(examples["captioner"] == captioner) & (examples["chosen"] == "adds")]
        best = own.drop_duplicates("rank").set_index("image_id")["contribution"]
        expected = each[captioner].sort_values(ascending=False).head(len(best))
        assert best.to_dict() == pytest.approx(expected.to_dict())
        for row in own[own["side"] == "generated"].to_dict("records"):
            mine = scores[(scores["captioner"] == captioner) & (scores["image_id"] == row["image_id"])]
            # Two captions take turns in four roles.
            mine = mine[(mine["side"] == "generated") & ((captioner == "first") | (mine["index"] % 2 == row["index"]))]
            assert row["probability"] == pytest.approx(mine["probability"].mean())
            assert len(row["words"].split()) == len(row["read"].split()) > 0
        human = own[own["side"] == "human"].merge(
            scores, on=["captioner", "side", "image_id", "index"], suffixes=("", "_of_role")
        )
        assert human["probability"].to_list() == pytest.approx(human["probability_of_role"].to_list())
        assert set(human["read"]) == {""}


def test_a_word_that_tells_the_class_is_shown_to(people: Corpus) -> None:
    """Alone in its captions it makes all the difference, and words that all captions share make none."""
    classes = known(people.labels).by_image
    told = {image: (f"the {'red' if name == 'male' else 'blue'} thing",) for image, name in classes.items()}
    captioner = Captions("told", {image: told[image] for image in people.human.by_image})
    examples = evaluate(replace(people, generated=(captioner,)), **QUICK).examples
    own = examples[(examples["side"] == "generated") & (examples["chosen"] == "adds")]
    assert len(own) > 0
    for row in own.to_dict("records"):
        the, colour, thing = map(float, row["words"].split())
        assert colour > 0.1 > max(abs(the), abs(thing))


@pytest.mark.parametrize(("counts", "error"), [((270, 630), 0.0092), ((1031, 2566), 0.0035)])
def test_what_can_be_shown_fits_what_was_measured(counts: tuple[int, int], error: float) -> None:
    assert expected_detectable(counts) == pytest.approx(2.8 * error, rel=0.03)


def test_captioners_do_not_depend_on_their_company(alone: Result, two: Result) -> None:
    other, beside = two.summaries
    assert beside.amplification == pytest.approx(alone.summaries[0].amplification)
    # The same words for all images tell nothing beyond what is known.
    assert known(other.generated) == pytest.approx(0, abs=0.005)


SAID_OF_FEW = f"With {IMAGES} images, conditional leakage can show only amplifications of more than about"


def test_a_quick_run_has_fewer_refits(people: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "judge"):
        result = evaluate_numbers(people, metrics="conditional", quick=True, workers=1, small=0.09)
    assert not any(SAID_OF_FEW in text for text in caplog.messages)
    assert result.run["refits"] == {"given": 8}
    assert known(result.summaries[0].degrees) == 8


def test_a_run_of_many_images_has_fewer_refits(people: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY", IMAGES)
    assert evaluate_numbers(people, metrics="conditional", workers=1).run["refits"] == {"given": 10}


def test_bias_is_found(people: Corpus, alone: Result, caplog: pytest.LogCaptureFixture) -> None:
    """Of captions with a word beside them that goes with the class of each image."""
    word, labels = {"female": "kitchen", "male": "skateboard"}, known(people.labels).by_image
    dosed = {i: (f"{texts[0]} near a {word[labels[i]]}",) for i, texts in people.generated[0].by_image.items()}
    with caplog.at_level("INFO", "judge"):
        (biased,) = evaluate_numbers(replace(people, generated=(Captions("dosed", dosed),)), **QUICK).summaries
    assert any(text.startswith(SAID_OF_FEW) for text in caplog.messages)
    (plain,) = alone.summaries
    assert known(biased.amplification) > known(plain.amplification) + 0.05
    assert known(biased.p_value) < 0.01 < known(plain.p_value)


def test_fewer_than_three_human_captions_are_refused(people: Corpus) -> None:
    few = replace(people.human, by_image={image: texts[:2] for image, texts in people.human.by_image.items()})
    with pytest.raises(JudgeError, match="3 human captions") as error:
        evaluate(replace(people, human=few), **QUICK)
    assert "given='image'" in error.value.mend


def test_objects_are_known(people: Corpus, coco: Path) -> None:
    """One human caption is enough where objects are known; what they tell is known."""
    shown = Corpus.read(
        human=coco / "captions_human.json", labels=coco / "gender.csv", objects=coco / "objects.json", captions=[]
    )
    few = replace(people.human, by_image={image: texts[:1] for image, texts in people.human.by_image.items()})
    corpus = replace(people, human=few, tasks=shown.tasks)
    (row,) = evaluate_numbers(corpus, **{**QUICK, "metrics": "conditional:objects"}).summaries
    # Activities are derived from human captions, and so from the reference's own: judges do not know them.
    more = {**QUICK, "metrics": "conditional:objects", "tasks": ["coco-objects", "activities"]}
    assert evaluate_numbers(corpus, **more).summaries[0].amplification == pytest.approx(row.amplification, abs=1e-6)
    assert row.title == "Conditional leakage (objects) (words+embedding)"
    assert np.isfinite(known(row.amplification))


@pytest.mark.parametrize("turns", [1, 2])
def test_roles_may_share_what_is_read(turns: int) -> None:
    """They find the mean of what each role finds alone, also where the captioner's captions take turns."""
    classes, generator = np.repeat([0, 1], 30), np.random.default_rng(5)
    known, *rest = generator.normal(size=(4 + turns, 60, 4)).astype(np.float32)
    human, generated = rest[:3], rest[3:]
    generated[0][:, 0] += 2 * classes
    shared = _Judges(Readings([known], human, generated), classes, None)
    each = [_Judges(Readings([known], [of], [generated[n % turns]]), classes, None) for n, of in enumerate(human)]
    assert shared.gains() == pytest.approx(np.mean([of.gains() for of in each], axis=0), abs=1e-6)
    assert shared.weights() == pytest.approx(np.mean([of.weights() for of in each], axis=0), abs=1e-6)


def test_a_half_is_measured_by_judges_of_its_images_alone() -> None:
    generator = np.random.default_rng(2)
    classes = np.repeat([0, 1], 30)
    known, human, generated = generator.normal(size=(3, 60, 4)).astype(np.float32)
    generated[:, 0] += 2 * classes
    readings = Readings([known, known[:, :2]], [human, human[::-1]], [generated])
    judges = _Judges(readings, classes, None)
    gains = judges.gains()
    assert gains[1] > gains[0] + 0.1
    held = np.arange(60) % 2 == 0
    half = Readings([known[held], known[held, :2]], [human[held], human[::-1][held]], [generated[held]])
    assert judges.among(held).gains() == pytest.approx(_Judges(half, classes[held], None).gains())


@pytest.mark.slow
def test_two_processes_measure_the_same(both: Corpus, two: Result) -> None:
    scores = evaluate_numbers(both, **QUICK | {"workers": 2}).scores
    pd.testing.assert_frame_equal(two.scores, scores, rtol=1e-4)

"""U, Theil's uncertainty coefficient, in worlds in which its value is known in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import evaluate_numbers
from leaning import lean

from judge import evaluate, load_lexicon, theils_u
from judge.calibration.doses import DoseSource
from judge.calibration.trials import Design, caption_trials
from judge.corpus import Corpus
from judge.errors import JudgeError
from judge.measure.table import make_table
from judge.metrics import find_metric, spell_out
from judge.report.gate import read_condition
from judge.report.result import Result
from judge.report.warnings import warnings
from judge.statistics.breakdown import image_contributions
from judge.statistics.summary import Settings
from judge.types import Captions, FloatArray

QUICK: dict[str, Any] = {"resamples": 100, "workers": 1, "folds": 3, "refits": 0, "chance": 0}


def coefficient(share: float) -> float:
    """U of two equally frequent answers that the evidence tells with probability ``share``: 1 - H(share) / ln 2."""
    return float(1 + (share * np.log(share) + (1 - share) * np.log(1 - share)) / np.log(2))


def values(result: Result, metric: str) -> tuple[float, float, float]:
    (row,) = (row for row in result.summaries if row.metric.name == metric)
    assert row.human is not None
    assert row.generated is not None
    assert row.amplification is not None
    return row.human, row.generated, row.amplification


def test_bayes_values_and_no_cross_talk() -> None:
    """Of people U is 1 - H(0.8) / ln 2 = 0.278 both ways, of a dose d of its own direction 1 - H(0.8 + 0.2 d) / ln 2.

    A dose of the other direction changes nothing: captions are the same in all that is annotated and named.
    """
    own = {"u-at": "stereotype", "u-ta": "guess"}
    for metric, change in own.items():
        result = evaluate_numbers(lean(1500, **{change: 0.5}), metrics="u", **QUICK)
        human, generated, _ = values(result, metric)
        assert human == pytest.approx(coefficient(0.8), abs=0.03)
        assert generated == pytest.approx(coefficient(0.9), abs=0.03)
        (other,) = own.keys() - {metric}
        assert values(result, other)[2] == pytest.approx(0, abs=1e-9)


def test_nothing_is_found_where_nothing_is_to_be_found() -> None:
    """What is independent has a U of about 0, not above it: captions are held out, and so are frequencies."""
    results = [evaluate_numbers(lean(300, leaning=0.5, seed=seed), metrics="u-ta", **QUICK) for seed in range(8)]
    found = [values(result, "u-ta")[0] for result in results]
    assert -0.02 < np.mean(found) < 0.003


def test_silence_moves_nothing() -> None:
    """Both sides lose the images in which the captioner names nobody, and say the same of the others."""
    result = evaluate_numbers(lean(200, silent=0.5), metrics="u-ta", **QUICK)
    assert values(result, "u-ta")[2] == pytest.approx(0, abs=1e-9)
    left_out = result.run["captioners"]["cap"]["dropped"]["no caption of one side names one class"]
    scores = result.scores[result.scores["metric"] == "u-ta"]
    assert scores["image_id"].nunique() == 200 - left_out
    assert 75 < left_out < 125


def test_captioners_that_name_other_tasks_compare() -> None:
    """Judges guess the tasks that human captions name: a captioner that names no dog is asked for dogs too."""
    corpus = lean(120)
    (cap,) = corpus.generated
    cats = {i: tuple(text.replace("dog", "cat") for text in of) for i, of in cap.by_image.items()}
    result = evaluate_numbers(replace(corpus, generated=(cap, Captions("cats", cats))), metrics="u-at", **QUICK)
    assert [row.first for row in result.differences()] == ["cap"]


def test_captions_that_name_one_class_count_by_their_own_number() -> None:
    """The second human caption of each image is the first that names one class; the file has its index."""
    corpus = lean(60)
    human = {i: ("a person", "a man and a woman", *texts, "a man") for i, texts in corpus.human.by_image.items()}
    corpus = replace(corpus, human=Captions("human", human))
    scores = evaluate_numbers(corpus, metrics="u", **QUICK).scores
    told = scores[(scores["metric"] == "u-ta") & (scores["side"] == "human")]
    assert set(told["index"]) == {2, 3}
    assert set(told.loc[told["index"] == 3, "answer"]) == {"male"}
    # All captions say something of what is shown, if only that it is not there.
    told = scores[(scores["metric"] == "u-at") & (scores["side"] == "human")]
    assert set(told["index"]) == {0, 1, 2, 3}
    assert set(told.loc[told["index"] == 0, "answer"]) == {""}


def test_numbers_come_from_files_and_add_up(tmp_path: Path) -> None:
    corpus, how = lean(160, guess=0.5, stereotype=0.5), QUICK | {"refits": 2, "chance": 1, "breakdown": True}
    result = evaluate(corpus, metrics="u", out=tmp_path / "run", **how)
    assert "U T-&gt;A" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    again = make_table(result.scores, result.counts, result.replicates, result.run)
    for one, other in zip(result.summaries, again, strict=True):
        assert (one.amplification, one.interval, one.p_value) == (other.amplification, other.interval, other.p_value)
        assert one.basis == "refits"
        assert one.chance is not None
        assert max(one.chance) < 0.1  # The annotation is shuffled among images.
    added = image_contributions(result.scores, Settings())
    assert result.breakdown is not None
    tasks = result.breakdown.tasks  # Every caption counts, by what its image shows.
    assert (tasks["human"] == tasks["generated"]).all()
    for metric, of in added.groupby("metric"):
        assert of["contribution"].sum() == pytest.approx(values(result, str(metric))[2])


def test_of_arrays_by_hand() -> None:
    """Ten captions, skis in the first five images. People say "man" (1) of skis in 4 of 5, of an oven in 3 of 5.

    CE(a^ | T), by frequencies, is -(4 ln .8 + ln .2 + 3 ln .6 + 2 ln .4) / 10 = .5867. CE(a^): 7 of 10 say "man", so 6
    of the 9 others of each that does, and 2 of the 9 others of each of the 3 that say "woman": -(7 ln 6/9 + 3 ln 2/9)
    / 10 = .7351. U is 1 - .5867 / .7351 = .2018. One that says "man" of skis alone has a U of 1, and one that always
    does has nothing to guess: frequencies are as right as the judge.
    """
    people = [1, 1, 1, 1, 0, 1, 1, 1, 0, 0]
    told = np.repeat([[0.2, 0.8], [0.4, 0.6]], 5, axis=0)
    certain = np.repeat([[0.0, 1.0], [1.0, 0.0]], 5, axis=0)
    always = np.tile([0.5 / 10.5, 10 / 10.5], (10, 1))
    stereotype = theils_u(people, told, [1] * 5 + [0] * 5, certain)
    assert stereotype.human == pytest.approx(0.2018, abs=1e-4)
    assert stereotype.generated == 1
    assert stereotype.value == pytest.approx(1 - 0.2018, abs=1e-4)
    hot: Sequence[Sequence[int]] = [[0, 1]] * 10
    assert theils_u(people, told, hot, always).generated == pytest.approx(0, abs=1e-12)


def test_tasks_of_arrays_are_questions_of_their_own() -> None:
    """Two tasks of which one is told by the class and one is not: the losses, and those of frequencies, add up."""
    named = np.array([[1, 1], [1, 0], [0, 1], [0, 0]] * 5)
    shares = np.full((20, 2), 0.5)
    told: FloatArray = shares.copy()
    told[:, 0] = np.where(named[:, 0], 0.9, 0.1)
    frequencies = -np.log(9 / 19)  # Of the 19 others 9 are alike.
    expected = 1 - (-np.log(0.9) - np.log(0.5)) / (2 * frequencies)
    found = theils_u(named, shares, named, told, "A->T")
    assert found.generated == pytest.approx(expected)
    assert found.human == pytest.approx(1 - np.log(2) / frequencies)


def test_a_row_without_a_value_leaves_the_others(tmp_path: Path) -> None:
    """A captioner that names nobody has no U T->A, and BA has no words at this limit; all other rows have values."""
    quiet, other = lean(60, silent=1.0), lean(60, seed=1).generated[0]
    corpus = replace(quiet, generated=(*quiet.generated, replace(other, name="other")))
    result = evaluate(corpus, metrics="u,ba,error", least=500, out=tmp_path / "run", **QUICK)
    table = result.table(all=True).set_index(["captioner", "metric"])
    assert [*table.index] == [(name, metric) for name in ("cap", "other") for metric in ("u-at", "u-ta", "ba", "error")]
    lacking = table[table["amplification"].isna()]["because"]
    assert [*lacking.index] == [("cap", "u-ta"), ("cap", "ba"), ("other", "ba")]
    assert lacking["cap", "u-ta"].startswith("images of which a caption of each side names one class: none; 10 of each")
    assert lacking["cap", "ba"].startswith("no word is in 500 captions with each of female, male")
    notes = [note for note in warnings(result) if note.startswith("No value for ")]
    assert [note.split(":")[0] for note in notes] == [
        "No value for U T->A (linear) of cap",
        "No value for BA of cap, other",
    ]
    assert Result.load(tmp_path / "run").table(all=True).equals(result.table(all=True))
    line, *_ = read_condition("u-ta.value > 9", ["u-at", "u-ta", "ba", "error"])(result)
    assert ": cap, U T->A (linear): cannot be checked, no verdict: images of which" in line
    # Where no row of the run has a value, that is an error.
    with pytest.raises(JudgeError, match=r"no word is in 500 captions .* Lower least"):
        evaluate(corpus, metrics="ba", least=500, **QUICK)


def test_refusals() -> None:
    assert spell_out(["u", "u-ta:accuracy"]) == ("u-at", "u-ta", "u-ta:accuracy")
    with pytest.raises(JudgeError, match="unknown score 'uncertainty'"):
        find_metric("lic:uncertainty")
    with pytest.raises(JudgeError, match=r"U T->A reads the class that captions name, and no words of it are known"):
        evaluate(lean(60), lexicon="none", metrics="u", **QUICK)
    with pytest.raises(JudgeError, match=r"images of which a caption of each side names one class: none; 10 of each"):
        evaluate(lean(60, silent=1.0), metrics="u-ta", **QUICK)
    with pytest.raises(ValueError, match="the direction is"):
        theils_u([0, 1], [[1, 0], [0, 1]], [0, 1], [[1, 0], [0, 1]], "A")  # type: ignore[arg-type]


@pytest.mark.slow
def test_doses_of_human_captions(coco: Path) -> None:
    """Mean values rise with doses of their own direction; silence moves nothing, nor does the other direction."""
    corpus = Corpus.read(
        human=coco / "captions_human.json", captions=[], labels=coco / "gender.csv", objects=coco / "objects.json"
    )
    assert corpus.labels is not None
    source = DoseSource(corpus.human, corpus.labels, load_lexicon("gender"), load_lexicon("coco-objects"))
    design = Design(("A->T", "T->A", "silence"), (0.3, 0.8), draws=2, nulls=0, images=600)
    found: dict[tuple[str, str], list[float]] = {}
    for trial in caption_trials(corpus, source, design):
        result = evaluate_numbers(trial.corpus, metrics="u", **QUICK)
        for metric in ("u-at", "u-ta"):
            for change in ("A->T", "T->A", "silence") if trial.change == "none" else (trial.change,):
                found.setdefault((metric, change), []).append(values(result, metric)[2])
    for metric, own in (("u-at", "A->T"), ("u-ta", "T->A")):
        for change in ("A->T", "T->A", "silence"):
            by_draw = np.reshape(found[metric, change], (2, 3))
            if change == own:
                assert (np.diff(by_draw.mean(axis=0)) > 0).all()
                assert (by_draw[:, -1] > 0.05).all()
            else:
                assert np.ptp(by_draw, axis=1) == pytest.approx([0, 0], abs=1e-9)

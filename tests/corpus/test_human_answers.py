"""What people find: scores of captioners beside the metrics, and rating sheets."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import caption_options, done_well, fault_of, read_json

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.corpus.ratings import CANNOT_TELL, key_csv, rating_sheet, read_human_scores, read_ratings, sheet_csv
from judge.types import Captions

KNOBS = {"none": 0.0, "some": 0.3, "more": 0.6, "much": 0.9}


def test_every_metric_is_compared_with_people(tmp_path: Path) -> None:
    captioners = {name: Captioner(stereotype=knob) for name, knob in KNOBS.items()}
    given = caption_options(write_world(make_world(120, seed=4), captioners, tmp_path / "world"))
    told = dict(zip(KNOBS, (0.1, 0.2, 0.6, 0.7), strict=True))
    scores = tmp_path / "people.csv"
    lines = [f"{name},{score}" for name, score in reversed(told.items())]
    scores.write_text("\n".join(["captioner,score", *lines, "another,0.5"]), encoding="utf-8")
    out = tmp_path / "run"
    asked = ["--metrics", "ba-objects,ratio", "--human-scores", scores, "--resamples", 100, "--out", out]
    done, found = done_well("evaluate", *given, *asked), read_json(out / "metrics.json")
    assert found["run"]["human_scores"] == told
    for metric, title in (("ba-objects", "BA (objects)"), ("ratio", "Ratio")):
        values = [
            row["amplification"] for row in found["results"] if row["metric"] == metric and row["captioner"] in told
        ]
        # Differences between captioners begin so too; behind the title stands their number.
        (line,) = [line for line in done.stdout.splitlines() if re.match(rf"{re.escape(title)}\s+4\s", line)]
        assert f"{np.corrcoef(values, list(told.values()))[0, 1]:+.3f}" in line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"none": 0.1}', "no score of captioner 'some' (there are: none). Add it."),
        ('{"none": 0.1, "some": "high"}', "record 2 ('some'): score 'high' is no number. Write it like 0.35."),
        ("model,score\nnone,1\n", "no column 'captioner'. Known: model, score."),
        ("captioner,score\nnone,1\nnone,2\n", "record 2: captioner 'none' has two scores. Keep one of them."),
    ],
)
def test_human_scores_at_fault(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "people.json"
    path.write_text(content, encoding="utf-8")
    assert message in fault_of(read_human_scores, path, captioners=["none", "some"])


SIDES = [
    Captions("b", {"1": ("a man", "a man"), "2": ("=1+1",)}, "b.json"),
    Captions("a", {"1": ("a  man\n",), "2": ("a dog",), "3": ("a woman",)}, "a.json"),
]
SHEET = rating_sheet(SIDES, "gender", ("female", "male"), seed=3)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def filled(answers: list[str], rater: str = "") -> pd.DataFrame:
    return pd.DataFrame(rows_of(sheet_csv(SHEET))).assign(gender=answers, rater=rater)


def test_one_item_for_each_text_of_an_image_and_no_captioner() -> None:
    rows, key = rows_of(sheet_csv(SHEET)), rows_of(key_csv(SHEET))
    assert sorted(row["caption"] for row in rows) == ["'=1+1", "a dog", "a man", "a woman"]
    assert all(list(row) == ["item", "caption", "gender", "rater"] for row in rows)
    (man,) = [item for item in SHEET.items if item.text == "a man"]
    assert dict(man.captioners) == {"a": 1, "b": 2}
    assert [(row["image_id"], row["captioner"], row["captions"]) for row in key if row["item"] == man.name] == [
        ("1", "a", "1"),
        ("1", "b", "2"),
    ]
    assert rating_sheet(SIDES[::-1], "gender", ("female", "male"), seed=3) == SHEET
    assert rating_sheet(SIDES, "gender", ("female", "male"), seed=4).name != SHEET.name


def test_what_goes_out_comes_back(tmp_path: Path) -> None:
    """Rows in any order, answers in any case; majority, ties and captions that nobody rated."""
    paths = tmp_path / "anna.csv", tmp_path / "x.csv"
    filled(["Male", "female", CANNOT_TELL, ""]).iloc[::-1].to_csv(paths[0], index=False, sep=";")
    filled(["male", "male", "", ""], "ben").to_csv(paths[1], index=False)
    ratings = read_ratings(paths, SHEET)
    first, second, third, fourth = (item.name for item in SHEET.items)
    assert ratings.answers[second] == {"anna": "female", "ben": "male"}
    assert ratings.raters == {"anna": 3, "ben": 2}
    assert ratings.majority() == {first: "male", second: None, third: CANNOT_TELL}
    assert fourth not in ratings.answers
    assert ratings.votes().tolist() == [[0, 2, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]


ITEM = SHEET.items[0].name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,caption\n1,a\n", "no column 'gender'"),
        (f"item,gender\n{ITEM},mail\n", "unknown answer 'mail'. Did you mean 'male'?"),
        ("item,gender\ns00000000-0001,male\n", f"of another sheet; these captions make {SHEET.name}"),
        ("item,gender\n7,male\n", "no item '7' on this sheet"),
        (f"item,gender\n{ITEM},male\n{ITEM},male\n", f"'anna' rated item '{ITEM}' twice"),
        (f"item,caption,gender\n{ITEM},a cat,male\n", f"the caption is not that of item '{ITEM}'"),
    ],
)
def test_ratings_at_fault(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "anna.csv").write_text(text, encoding="utf-8")
    assert message in fault_of(read_ratings, [tmp_path / "anna.csv"], SHEET)

"""``judge anonymous``: shares by hand, sheets that come back, metrics beside people, faults before anything is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import done_well, read_json, read_rows, refusal

from judge.corpus.ratings import read_human_scores

# Of ten images: a names a class in 6 (4 male, 1 female, 1 both), b in 2 (both male), c in none.
CAPTIONS = {
    "a": ["a man"] * 4 + ["a woman"] + ["a man and a woman"] + ["a person"] * 4,
    "b": ["a person"] * 5 + ["a boy", "a man"] + ["a person"] * 3,
    "c": ["somebody in the woman's room"] * 9 + ["=a surfer, alone"],
}


def write(folder: Path, captions: Mapping[str, Sequence[str]]) -> list[str]:
    """Files of captions, as options."""
    given = []
    for name, texts in captions.items():
        records = [{"image_id": number, "caption": text} for number, text in enumerate(texts)]
        (folder / f"{name}.json").write_text(json.dumps(records), encoding="utf-8")
        given += ["--captions", str(folder / f"{name}.json")]
    return given


def rate(out: Path, path: Path, answers: Mapping[str, str], default: str = "") -> Path:
    """The sheet in a folder as a rater leaves it: answers by caption."""
    rows = read_rows(out / "rating.csv")
    for row in rows:
        row["gender"] = answers.get(row["caption"].removeprefix("'"), default)
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_shares_are_those_of_the_captions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = done_well("anonymous", *write(tmp_path, CAPTIONS), "--out", out)
    found = read_json(out / "anonymous.json")
    a, b, c = found["captioners"]
    assert [row["share"]["value"] for row in (a, b, c)] == [0.6, 0.2, 0]
    assert {name: row["value"] for name, row in a["classes"].items()} == {"female": 0.2, "male": 0.5}
    assert a["several"]["value"] == 0.1
    assert a["balance"]["male"]["value"] == pytest.approx(4 / 5)
    assert c["share"]["interval"] == pytest.approx([0, 1 - 0.025**0.1])
    assert c["balance"]["male"]["value"] is None
    printed = " ".join(done.stdout.split())
    assert "A low share is not fairness: a captioner that never names anybody scores 0" in printed
    assert "No --images: captions of all images in the files count" in printed
    assert f"judge anonymous {out / 'anonymous.yaml'} --ratings FILE --ratings FILE ... --out {out}-rated" in printed
    # One item for each text of an image: of 30 captions three are said by a and b alike.
    assert f"27 captions to rate in {out / 'rating.csv'}" in printed
    assert found["sheet"]["items"] == 27


def test_what_people_could_guess(tmp_path: Path) -> None:
    """By hand: "a man and a woman" is a tie of three answers; the beard is male for two of three raters."""
    sheet, out = tmp_path / "sheet", tmp_path / "out"
    options = write(tmp_path, CAPTIONS | {"d": ["a person with a beard"] * 3 + ["a person"] * 7})
    done_well("anonymous", *options, "--out", sheet)
    anna = {"a man": "male", "a boy": "male", "a woman": "female", "a person with a beard": "male"}
    ben = anna | {"a person with a beard": "cannot tell", "a man and a woman": "female"}
    for name, answers in (("anna", anna), ("ben", ben), ("cleo", anna | {"a man and a woman": "male"})):
        options += ["--ratings", str(rate(sheet, tmp_path / f"{name}.csv", answers, "cannot tell"))]
    done_well("anonymous", *options, "--out", out)
    found = read_json(out / "anonymous.json")["ratings"]
    by_name = {row["captioner"]: row for row in found["captioners"]}
    assert [row["share"]["value"] for row in by_name.values()] == pytest.approx([5 / 9, 0.2, 0, 0.3])
    assert [row["ties"] for row in by_name.values()] == [1, 0, 0, 0]
    assert by_name["a"]["classes"]["female"]["value"] == pytest.approx(1 / 9)
    scores = read_human_scores(out / "human_scores.csv", captioners=["a", "b", "c", "d"])
    assert scores == {name: pytest.approx(row["share"]["value"]) for name, row in by_name.items()}
    assert found["alpha"] > 0.5
    # The lexicon's share beside people's, over captioners; of the same captions, without the tie.
    row = found["agreement"]
    shares, human = [5 / 9, 0.2, 0, 0], [5 / 9, 0.2, 0, 0.3]
    assert [of["named"]["value"] for of in by_name.values()] == pytest.approx(shares)
    assert [of["named"]["captions"] for of in by_name.values()] == [9, 10, 10, 10]
    assert row["pearson"] == pytest.approx(np.corrcoef(shares, human)[0, 1])
    assert row["spearman"] == pytest.approx(np.corrcoef([4, 3, 1.5, 1.5], [4, 2, 1, 3])[0, 1])
    assert row["interval"][0] < row["pearson"] < row["interval"][1]


def test_a_class_without_words_has_no_share(tmp_path: Path) -> None:
    """ArtEmis's "something else": null, never 0, with a note; raters may answer it all the same."""
    options = write(tmp_path, {"a": ["a sad man", "an angry man", "an odd man", "a man"]})
    done = done_well("anonymous", *options, "--attribute", "emotion", "--out", tmp_path / "out")
    (row,) = read_json(tmp_path / "out" / "anonymous.json")["captioners"]
    assert (row["share"]["value"], row["classes"]["sadness"]["value"]) == (0.5, 0.25)
    assert row["classes"]["awe"]["value"] == 0
    for of in (row["classes"], row["balance"]):
        assert (of["something else"]["value"], of["something else"]["interval"]) == (None, None)
    printed = " ".join(done.stdout.split())
    assert "The lexicon has no words for something else, so no share counts captions that name it" in printed
    assert "something else" in read_json(tmp_path / "out" / "anonymous.json")["sheet"]["answers"]


def test_faults_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("anonymous", *write(tmp_path, CAPTIONS), "--out", out)
    assert "--attribute gender,age: one attribute is rated at a time" in refusal(*asked, "--attribute", "gender,age")
    assert "'rater' is a column of the rating sheet already" in refusal(*asked, "--attribute", "rater")
    (tmp_path / "anna.csv").write_text("item,gender\n1,female\n", encoding="utf-8")
    assert "no item '1' on this sheet" in refusal(*asked, "--ratings", tmp_path / "anna.csv")
    assert not out.exists()
    done_well(*asked)
    filled = rate(out, out / "anna.csv", {"a man": "male"})
    assert "holds anna.csv, which is read" in refusal(*asked, "--ratings", filled, "--overwrite")

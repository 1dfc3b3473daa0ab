"""``judge anonymous``: shares by hand, and faults before anything is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from helpers import done_well, read_json, refusal

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


def test_a_class_without_words_has_no_share(tmp_path: Path) -> None:
    """ArtEmis's "something else": null, never 0, with a note."""
    options = write(tmp_path, {"a": ["a sad man", "an angry man", "an odd man", "a man"]})
    done = done_well("anonymous", *options, "--attribute", "emotion", "--out", tmp_path / "out")
    (row,) = read_json(tmp_path / "out" / "anonymous.json")["captioners"]
    assert (row["share"]["value"], row["classes"]["sadness"]["value"]) == (0.5, 0.25)
    assert row["classes"]["awe"]["value"] == 0
    for of in (row["classes"], row["balance"]):
        assert (of["something else"]["value"], of["something else"]["interval"]) == (None, None)
    printed = " ".join(done.stdout.split())
    assert "The lexicon has no words for something else, so no share counts captions that name it" in printed


def test_faults_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("anonymous", *write(tmp_path, CAPTIONS), "--out", out)
    assert "--attribute gender,age: one attribute is measured at a time" in refusal(*asked, "--attribute", "gender,age")
    assert not out.exists()

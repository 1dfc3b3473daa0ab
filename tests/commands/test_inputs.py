"""Notes of a run on its inputs, and the choice of columns and values in ``judge evaluate``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import done_well, fault_of, inputs_of, read_json, refusal

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.evaluate import evaluate
from judge.corpus import Corpus
from judge.corpus.columns import CAPTIONS, IDS
from judge.report.warnings import warnings

FEW = ["--resamples", 100, "--refits", 0, "--chance", 0, "--folds", 2, "--workers", 1]
COUNTED = ["--metrics", "error", "--resamples", 100]


@pytest.fixture(scope="module")
def files(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return write_world(make_world(60, seed=2), {"much": Captioner(stereotype=0.9)}, tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def people(files: WorldFiles) -> list[tuple[int, str]]:
    """(image, caption) of human captions."""
    found = read_json(files.human)["annotations"]
    return [(one["image_id"], one["caption"]) for one in found]


def notes(out: Path) -> list[str]:
    """What the run tells of its inputs: in ``metrics.json``, and among the notes of its page."""
    found = read_json(out / "metrics.json")
    listed: list[str] = found["run"]["input_notes"]
    assert [line for line in found["notes"]["warnings"] if line in listed] == listed
    return listed


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    pd.DataFrame(rows, columns=header).to_csv(path, index=False)
    return path


def test_captions_that_equal_human_ones(files: WorldFiles, people: list[tuple[int, str]], tmp_path: Path) -> None:
    """Copied into another file, even the first of each image alone; a captioner with several captions is noted."""
    first = dict(reversed(people))
    (tmp_path / "copy.json").write_text(json.dumps(first), encoding="utf-8")
    own = {image: [f"{caption} today", caption.upper()] for image, caption in people}
    (tmp_path / "own.json").write_text(json.dumps(own), encoding="utf-8")
    given = ["--human", files.human, *COUNTED, "--out", tmp_path / "run", "--captions", tmp_path / "copy.json"]
    done = done_well("evaluate", *given, "--captions", tmp_path / "own.json", "--verbose")
    copied, several = notes(tmp_path / "run")
    assert copied.startswith("captions of copy equal the human ones for 60 of 60 images: see that ")
    expected = "own has several captions (up to 2) for 60 of 60 images, as the human captions do: all count."
    assert several.startswith(expected)
    assert f"NOTE: {copied[:60]}" in " ".join(done.stdout.split())
    done_well("evaluate", *given[:-2], "--captions", tmp_path / "own.json", "--several", "--overwrite")
    assert notes(tmp_path / "run") == []


@pytest.mark.parametrize(("equal", "noted"), [(10, False), (11, True)])
def test_from_a_tenth_on_captions_that_equal_human_ones_are_noted(equal: int, noted: bool) -> None:
    human = {str(image): (f"caption {image}",) for image in range(100)}
    own = {image: text if int(image) < equal else ("another",) for image, text in human.items()}
    found = Corpus.read(human=human, captions={"cap": own}, labels=dict.fromkeys(human, "male")).notes
    assert any("equal the human ones" in note for note in found) is noted


def test_columns_of_each_side(files: WorldFiles, people: list[tuple[int, str]], tmp_path: Path) -> None:
    human = table(tmp_path / "human.csv", ["photo", "said", "caption"], [(i, text, "x") for i, text in people])
    captions = read_json(files.captions["much"])
    rows = [(one["image_id"], one["caption"], "a woman") for one in captions]
    a, b = (table(tmp_path / f"{name}.csv", ["picture", "pred", "text"], rows) for name in "ab")
    given = ["--human", human, "--captions", a, "--captions", b, "--labels", files.labels, *COUNTED]
    columns = {"human.image_id": "photo", "human.caption": "said", "captions.image_id": "picture", "b.caption": "text"}

    def ask(columns: Mapping[str, str]) -> list[object]:
        return [*given, *(part for role, name in columns.items() for part in ("--column", f"{role}={name}"))]

    done_well("evaluate", *ask(columns), "--out", tmp_path / "run")
    done_well("evaluate", *inputs_of(files, "much"), *COUNTED, "--out", tmp_path / "plain")
    value, plain = (
        {row["captioner"]: row["amplification"] for row in json.loads((out / "metrics.json").read_bytes())["results"]}
        for out in (tmp_path / "run", tmp_path / "plain")
    )
    assert value["a"] == plain["much"] != value["b"]
    assert "no captions are called 'humn'. Did you mean 'human'?" in refusal("evaluate", *ask({"humn.caption": "x"}))
    wrong = refusal("evaluate", *ask(columns | {"captions.caption": "sayd"}))
    assert "--column captions.caption: no file of captions was read by a column 'sayd'. Columns read: picture" in wrong


def test_what_is_given_and_not_used(files: WorldFiles, people: list[tuple[int, str]], tmp_path: Path) -> None:
    human = table(tmp_path / "human.csv", ["image_id", "gender", "caption"], [(i, "male", text) for i, text in people])
    given = ["--human", human, "--captions", files.captions["much"], *COUNTED]
    done = done_well("evaluate", *given, "--tasks", "activities", "--out", tmp_path / "run", "--verbose")
    assert notes(tmp_path / "run") == [
        f"{human} has a column gender, which is not used: add --labels {human} to use it",
        "--tasks is not used by error, but by u, dbac, dpac, ba-objects, dba, multi and dpa",
    ]
    assert "Labels DERIVED: an image has class k of gender" in " ".join(done.stdout.split())


def test_what_is_left_out(files: WorldFiles, tmp_path: Path) -> None:
    """How many of each kind, and the commonest reason: 7 images without a caption, 5 of others without a label."""
    captions = read_json(files.captions["much"])
    (tmp_path / "mine.json").write_text(json.dumps([{**captions[0], "caption": " "}, *captions[7:]]), encoding="utf-8")
    labels = files.labels.read_text(encoding="utf-8").splitlines()
    (tmp_path / "labels.csv").write_text("\n".join([labels[0], *labels[1:-5]]), encoding="utf-8")
    given = ["--human", files.human, "--captions", tmp_path / "mine.json", "--labels", tmp_path / "labels.csv"]
    done = done_well("evaluate", *given, *COUNTED, "--out", tmp_path / "run")
    assert (
        "Left out: 12 images (mostly human captions only; 1 refused or empty), 1 caption (generated captions empty)."
        in " ".join(done.stdout.split())
    )


def test_labels_of_another_attribute(files: WorldFiles) -> None:
    """In Python: the race of each image, in memory; and what is said where the corpus is of another attribute."""
    rows = files.labels.read_text(encoding="utf-8").split()[1:]
    race = {line.split(",")[0]: ("Black", "White", "?")[number % 3] for number, line in enumerate(rows)}
    given = {"human": files.human, "captions": files.captions["much"], "labels": race}
    once: dict[str, Any] = {"judge": "linear", "folds": 2, "refits": 0, "chance": 0, "workers": 1}
    found = evaluate(Corpus.read(**given, attribute="race"), attribute="race", metrics="sc", **once)
    assert found.run["captioners"]["much"]["images"] == {"Black": 20, "White": 20}
    assert found.run["labels"]["ignored"] == {"?": 20}
    assert found.run["labels"]["agreement"] is None
    line = fault_of(evaluate, Corpus.read(**given, attribute="race"), metrics="dbac")
    assert line.endswith("or measure A->T alone: dbac-at.")


def test_an_attribute_without_a_lexicon(files: WorldFiles, tmp_path: Path) -> None:
    """It is refused, with the attribute that its classes are of, unless nothing is to be hidden; the result says so."""
    text = files.labels.read_text(encoding="utf-8").replace("gender", "sex", 1)
    (tmp_path / "sex.csv").write_text(text, encoding="utf-8")
    sides = ["--human", files.human, "--captions", files.captions["much"], "--labels", tmp_path / "sex.csv"]
    line = refusal("evaluate", *sides, "--attribute", "sex", *COUNTED)
    assert "sex: no lexicon has words of sex, so nothing would be hidden. Measure gender: --attribute gender" in line
    given: dict[str, Any] = {"human": files.human, "captions": files.captions["much"]}
    line = fault_of(evaluate, **given, labels=pd.read_csv(tmp_path / "sex.csv"), metrics="sc")
    assert "no column of gender labels" in line
    assert "Name it with columns={'labels.gender': NAME}" in line
    once: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 2, "refits": 0, "chance": 0}
    found = evaluate(**given, labels=tmp_path / "sex.csv", attribute="sex", lexicon="none", **once, workers=1)
    assert repr(found) == "Result(much: LIC (linear); no words hidden)"
    assert any("No words are hidden from judges" in note for note in warnings(found))
    assert found.run["captioners"]["much"]["text"]["human"]["affected"] > 0


def test_faults_of_options(files: WorldFiles) -> None:
    """Each says what is wrong, and how to mend it."""
    given = inputs_of(files, "much")
    line = refusal("evaluate", *given, "--own-captions")
    assert "has no column of labels. Give a table with a label for each caption, or leave it out." in line
    assert "--out: is empty. Name a file or folder, or leave it out." in refusal("evaluate", *given, "--out", "")
    line = refusal("evaluate", *given, "--metrics", "ratio", "--judge", "lsmt")  # No metric asks it.
    assert "unknown judge 'lsmt'. Did you mean 'lstm'?" in line
    line = refusal("evaluate", files.human)
    assert f"is read as settings. Write --captions {files.human}, --human {files.human}, or" in line
    line = refusal("evaluate", *given, "--labels", "other.csv")
    assert f"'labels': {files.labels} and other.csv are of one attribute: give one." in line


def test_recognised_columns_are_listed() -> None:
    """Each in the documentation, in the order in which they count."""
    text = (Path(__file__).parents[2] / "data" / "README.md").read_text(encoding="utf-8")
    part = text.partition("**Columns** of tables")[2].partition("`--column` names others")[0]
    listed = re.findall(r"`([^`]+)`", part)
    known = [name for line in CAPTIONS["human"] for name in line]
    assert [name for name in listed if name in known] == [*known, "captions"]
    # "art_style/painting" is made of two columns, and "__key__" is a shard's own.
    names = {name for line in (*IDS, *CAPTIONS["generated"]) for name in line} - {"art_style/painting", "__key__"}
    assert names <= {*listed}

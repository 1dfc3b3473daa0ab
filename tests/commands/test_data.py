"""``judge data``: recipes say what is true, and their commands measure what lies in a folder."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
import yaml
from helpers import done_well, fault_of, instead, read_rows, refusal
from test_docs import check as check_words
from test_docs import parse

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.evaluate import RunConfig, run
from judge.commands.options import resolve
from judge.corpus.recipes import FOLDER, Recipe, read_recipe, read_shipped, shipped_recipes
from judge.measure import Result
from judge.report.page import bibliography

IMAGES = 96
FAST = ["--metrics", "ba-objects", "--judge", "linear", "--resamples", "100"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    captioners = {"sat": Captioner(stereotype=0.5)}
    return write_world(make_world(IMAGES, seed=4), captioners, tmp_path_factory.mktemp("world") / "files")


def labels_of(world: WorldFiles) -> list[dict[str, str]]:
    """Rows of the shape of Zhao et al.'s: every 12th image of both genders or unsure, skin tones in turn."""
    rows = []
    for number, row in enumerate(read_rows(world.labels)):
        gender = {5: "Both", 11: "Unsure"}.get(number % 12, row["gender"].capitalize())
        skin = ("Light", "Dark", "Light", "Unsure", "Dark", "Light", "Both", "Light")[number % 8]
        people = str([skin] * (1 + number % 2))
        rows.append({"id": row["image_id"], "skin": people, "ratio": "[0.5]", "bb_skin": skin, "bb_gender": gender})
    return rows


@pytest.fixture
def zhao(world: WorldFiles, tmp_path: Path) -> Path:
    """A folder as the recipe coco-gender-skin has it, without instances; its name has a space."""
    folder = tmp_path / "my data"
    (folder / "annotations").mkdir(parents=True)
    (folder / "annotations" / "captions_val2014.json").write_bytes(world.human.read_bytes())
    pd.DataFrame(labels_of(world)).to_csv(folder / "images_val2014.csv", index=False)
    return folder


def commands_of(name: str, folder: Path) -> dict[str, list[str]]:
    """Commands by what they are for, as a shell reads them."""
    found, what = {}, ""
    output = done_well("data", "show", name, folder).stdout
    for line in output.partition("\ncommands:\n")[2].splitlines():
        if line.lstrip().startswith("judge "):
            found[what.rstrip(":")], what = shlex.split(line), ""
        else:
            what = f"{what} {line.strip()}".strip()
    return found


def run_of(command: Sequence[object], captions: Path) -> Result:
    """A run of a ready command, in little, with the world's captioner."""
    words = [str(captions) if word == "mine.json" else str(word) for word in command]
    assert words[:2] == ["judge", "evaluate"]
    given = parse(["evaluate", *instead(words[2:], *FAST)])
    config = resolve(given.pop("file"), given, RunConfig)
    return run(config.model_copy(update={"out": None}))


def test_a_folder_and_its_commands(world: WorldFiles, zhao: Path) -> None:
    rows = labels_of(world)
    gender, skin = (Counter(row[name] for row in rows) for name in ("bb_gender", "bb_skin"))
    assert (gender["Both"], gender["Unsure"]) == (8, 8)
    assert skin == {"Light": 48, "Dark": 24, "Unsure": 12, "Both": 12}
    ready = commands_of("coco-gender-skin", zhao)
    by_attribute = {what.partition(" (")[0]: command for what, command in ready.items()}
    uses = {"gender": "gender", "skin": "skin tone in two classes", "three": "skin tone in three classes"}
    found = {name: run_of(by_attribute[what], world.captions["sat"]).run for name, what in uses.items()}
    (captioner,) = found["gender"]["captioners"]
    assert {name: about["captioners"][captioner]["images"] for name, about in found.items()} == {
        "gender": {"female": gender["Female"], "male": gender["Male"]},
        "skin": {"Dark": 24, "Light": 48},
        "three": {"Dark": 24, "Light": 48, "Unsure": 12},
    }
    assert {name: about["labels"]["ignored"] for name, about in found.items()} == {
        "gender": {"Both": 8, "Unsure": 8},
        "skin": {"Unsure": 12, "Both": 12},
        "three": {"Both": 12},
    }


@pytest.mark.parametrize("recipe", read_shipped(), ids=lambda recipe: recipe.name)
def test_show_says_everything(recipe: Recipe) -> None:
    text = " ".join(done_well("data", "show", recipe.name).stdout.split())
    said = [recipe.title, *recipe.papers, recipe.page, *recipe.pages, recipe.licence, recipe.access, recipe.source]
    said += [recipe.audience, *recipe.limits, *recipe.unverified, *recipe.make]
    said += [part for file in recipe.files for part in (file.path, file.what, file.source, *file.fields)]
    for label in recipe.labels:
        said += [label.attribute, label.column, *label.classes, label.perceived_by, label.how]
        said += [f"{value}: {what}" for value, what in label.left_out.items()]
    said += [part for use in recipe.use for part in (use.what, use.command)]
    assert [part for part in said if " ".join(part.split()) not in text] == []
    assert ("Passing on: NO" in text) is not recipe.pass_on


@pytest.mark.parametrize("recipe", read_shipped(), ids=lambda recipe: recipe.name)
def test_recipes_hold_together(recipe: Recipe) -> None:
    """Papers are in the bibliography, commands are ours, and what they name in the folder is described."""
    assert recipe.name == shipped_recipes()[recipe.name].stem
    assert recipe.papers
    assert {*recipe.papers} <= bibliography().keys()
    assert all([recipe.page, recipe.licence, recipe.source, recipe.audience, recipe.limits, recipe.use])
    assert recipe.access != "private"
    for use in recipe.use:
        words = shlex.split(use.command)
        check_words(words)
        for word in words:
            path = word.partition(FOLDER)[2].lstrip("/")
            assert not path or any(Path(path).match(file.path) for file in recipe.files), path
        assert {*use.needs} <= {file.path for file in recipe.files}
    for label in recipe.labels:
        assert label.perceived_by
        assert label.how


OWN = """
name: mine
title: my captions
papers: [zhao2021understanding]
page: https://example.org/data
licence: CC0
access: open
source: from me
audience: anyone
pass_on: true
files:
  - {path: human.csv, what: "captions: photo, said", kind: captions, columns: {image_id: photo, caption: said}}
limits: [few]
use:
  - {what: gender, command: "judge evaluate --human {folder}/human.csv --captions mine.json --column image_id=photo"}
"""


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(OWN, encoding="utf-8")
    text = done_well("data", "show", path, tmp_path).stdout
    assert f"judge evaluate --human {tmp_path / 'human.csv'} --captions mine.json --column image_id=photo" in text
    assert "my captions" in text


@pytest.mark.parametrize(("change", "message"), [
    ({"access": "on request"}, "what is had on request must not be passed on: pass_on: false."),
    ({"access": "not released"}, "what is not released needs 'make': how to make one's own."),
    ({"licence": None}, ": field 'licence': Input should be a valid string."),
    (
        {"titel": "x", "page": "x", "files": [{"path": "a.csv", "sort": "labels"}]},
        ": missing fields: files.0.what, files.0.kind; unknown fields: files.0.sort, titel; field 'page': String",
    ),
    ({"use": [{"what": "x", "command": "judge 'evaluate"}]}, "field 'use.0.command': No closing quotation."),
    ({"files": [{"path": "a.csv", "what": "x", "kind": "labels", "attributes": ["age"]}]}, "has labels of 'age'"),
])  # fmt: skip
def test_faulty_recipes(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(OWN) | change), encoding="utf-8")
    assert message in fault_of(read_recipe, path)
    assert refusal("data", "show", path).startswith(f"judge: {path}")

"""``judge data``: recipes say what is true, and a folder is checked by the readers that will read it."""

from __future__ import annotations

import csv
import json
import pickle
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import done_well, fault_of, instead, judge
from test_docs import check as check_words
from test_docs import parse

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.evaluate import RunConfig, run
from judge.commands.options import resolve
from judge.corpus.recipes import FOLDER, Recipe, load_recipe, read_recipe, read_shipped, shipped_recipes
from judge.measure import Result
from judge.report.page import bibliography

IMAGES = 96
FAST = ["--metrics", "lic", "--judge", "linear", "--protocol", "crossfit", "--folds", "2", "--refits", "0"]
FAST += ["--chance", "0", "--resamples", "100", "--workers", "1", "--seeds", "1"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    captioners = {"sat": Captioner(stereotype=0.5)}
    return write_world(make_world(IMAGES, seed=4), captioners, tmp_path_factory.mktemp("world") / "files")


def labels_of(world: WorldFiles) -> list[dict[str, str]]:
    """Rows of the shape of Zhao et al.'s: every 12th image of both genders or unsure, skin tones in turn."""
    with world.labels.open(encoding="utf-8") as file:
        drawn = list(csv.DictReader(file))
    rows = []
    for number, row in enumerate(drawn):
        gender = {5: "Both", 11: "Unsure"}.get(number % 12, row["gender"].capitalize())
        skin = ("Light", "Dark", "Light", "Unsure", "Dark", "Light", "Both", "Light")[number % 8]
        people = str([skin] * (1 + number % 2))
        rows.append({"id": row["image_id"], "skin": people, "ratio": "[0.5]", "bb_skin": skin, "bb_gender": gender})
    return rows


def write_csv(path: Path, rows: Sequence[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def zhao(world: WorldFiles, tmp_path: Path) -> Path:
    """A folder as the recipe coco-gender-skin has it, without instances; its name has a space."""
    folder = tmp_path / "my data"
    (folder / "annotations").mkdir(parents=True)
    (folder / "annotations" / "captions_val2014.json").write_bytes(world.human.read_bytes())
    write_csv(folder / "images_val2014.csv", labels_of(world))
    return folder


def write_images(folder: Path, rows: Sequence[dict[str, str]]) -> None:
    """Names of images are looked at, never their content."""
    folder.mkdir()
    for row in rows:
        (folder / f"COCO_val2014_{int(row['id']):012d}.jpg").touch()


def commands_of(output: str) -> dict[str, list[str]]:
    """Ready commands by what they are for, as a shell reads them."""
    found, what = {}, ""
    for line in output.partition("\nready:\n")[2].partition("\n\n")[0].splitlines():
        if line.lstrip().startswith("judge "):
            found[what.rstrip(":")], what = shlex.split(line), ""
        else:
            what = f"{what} {line.strip()}".strip()
    return found


def options_of(command: Sequence[object], captions: Path) -> list[str]:
    """What follows ``judge evaluate`` in a ready command, for the world's captioner, in little."""
    words = [str(captions) if word == "mine.json" else str(word) for word in command]
    assert words[:2] == ["judge", "evaluate"]
    return instead(words[2:], *FAST)


def run_of(command: Sequence[object], captions: Path) -> Result:
    """Of a ready command the result, without its files."""
    given = parse(["evaluate", *options_of(command, captions)])
    config = resolve(given.pop("file"), given, RunConfig)
    return run(config.model_copy(update={"out": None}))


def classes(about: Mapping[str, Any]) -> dict[str, int]:
    """Of a run's description: class -> images of the only captioner."""
    (entry,) = about["captioners"].values()
    of: dict[str, int] = entry["images"]
    return of


def test_a_whole_folder_and_its_commands(world: WorldFiles, zhao: Path, tmp_path: Path) -> None:
    rows = labels_of(world)
    done = done_well("data", "check", "coco-gender-skin", zhao)
    text = " ".join(done.stdout.split())
    gender, skin = (Counter(row[name] for row in rows) for name in ("bb_gender", "bb_skin"))
    assert (gender["Both"], gender["Unsure"]) == (8, 8)
    assert skin == {"Light": 48, "Dark": 24, "Unsure": 12, "Both": 12}
    assert f"gender: female {gender['Female']}, male {gender['Male']} (published: female 3,314, male 7,466)" in text
    assert "left out: Both 8, Unsure 8" in text
    assert "skin: Dark 24, Light 48 (published: Dark 1,096, Light 9,873); left out: Unsure 12, Both 12" in text
    assert f"images {IMAGES}, captions {5 * IMAGES}" in text
    assert "missing val2014 (images, optional)" in text
    assert "passing on: NO" in text
    ready = commands_of(done.stdout)
    assert len(ready) == 5
    assert "gender, by judges that use images: needs val2014, annotations/instances_val2014.json" in text
    by_attribute = {what.partition(" (")[0]: command for what, command in ready.items()}
    two = {"gender": "gender", "skin": "skin tone in two classes"}
    found = {}
    for name, what in two.items():
        done_well("evaluate", *options_of(by_attribute[what], world.captions["sat"]), "--out", tmp_path / name)
        written = json.loads((tmp_path / name / "metrics.json").read_text(encoding="utf-8"))
        assert [row["attribute"] for row in written["results"]] == [name]
        found[name] = written["run"]
    found["three"] = run_of(by_attribute["skin tone in three classes"], world.captions["sat"]).run
    assert {name: classes(about) for name, about in found.items()} == {
        "gender": {"female": gender["Female"], "male": gender["Male"]},
        "skin": {"Dark": 24, "Light": 48},
        "three": {"Dark": 24, "Light": 48, "Unsure": 12},
    }
    assert {name: about["labels"]["ignored"] for name, about in found.items()} == {
        "gender": {"Both": 8, "Unsure": 8},
        "skin": {"Unsure": 12, "Both": 12},
        "three": {"Both": 12},
    }


def test_lics_pickles_give_the_numbers_of_the_table(world: WorldFiles, zhao: Path, tmp_path: Path) -> None:
    """The same captions and labels, in LIC's shape: the same LIC, of gender and of skin tone, to the last digit."""
    folder = tmp_path / "bias_data"
    write_pickles(world, folder)
    done = done_well("data", "check", "lic-release", folder)
    rows = labels_of(world)
    gender = Counter(row["bb_gender"] for row in rows)
    text = " ".join(done.stdout.split())
    assert text.count(f"gender: female {gender['Female']}, male {gender['Male']}") == 2
    assert text.count("skin: Dark 24, Light 48 (published") == 2
    assert "left out: none" in text
    for attribute, name, both in (
        ("gender", "gender_obj_cap_mw", "gender_val_sat_cap_mw"),
        ("skin", "race_val_obj_cap", "race_val_sat_cap"),
    ):
        human = folder / "Human_Ann" / f"{name}_entries.pkl"
        captions = folder / "Show-Attend-Tell" / f"{both}_entries.pkl"
        command = ["judge", "evaluate", "--captions", "mine.json", "--attribute", attribute]
        pickled = run_of([*command, "--human", human, "--labels", human], captions)
        table = [*command, "--human", world.human, "--labels", zhao / "images_val2014.csv"]
        tabled = run_of(table, world.captions["sat"])
        assert classes(pickled.run) == classes(tabled.run)
        values = [(found.summaries[0].human, found.summaries[0].generated) for found in (pickled, tabled)]
        assert values[0] == values[1]


def write_pickles(world: WorldFiles, folder: Path) -> None:
    """A folder as the recipe lic-release has it, of one captioner: images of Both and Unsure are not there."""
    (folder / "Human_Ann").mkdir(parents=True)
    (folder / "Show-Attend-Tell").mkdir()
    said: dict[int, list[str]] = {}
    for record in json.loads(world.human.read_text(encoding="utf-8"))["annotations"]:
        said.setdefault(record["image_id"], []).append(record["caption"])
    results = json.loads(world.captions["sat"].read_text(encoding="utf-8"))
    generated = {record["image_id"]: record["caption"] for record in results}
    for column, human, captioner in (
        ("bb_gender", "gender_obj_cap_mw", "gender_val_sat_cap_mw"),
        ("bb_skin", "race_val_obj_cap", "race_val_sat_cap"),
    ):
        rows = [row for row in labels_of(world) if row[column] not in {"Both", "Unsure"}]
        known = [{"img_id": int(row["id"]), column: row[column]} for row in rows]
        more = [{"caption_list": said[row["img_id"]], "rmdup_object_list": ["person"]} for row in known]
        write_pickle(folder / "Human_Ann" / f"{human}_entries.pkl", [a | b for a, b in zip(known, more, strict=True)])
        entries = [row | {"pred": generated[row["img_id"]]} for row in known]
        write_pickle(folder / "Show-Attend-Tell" / f"{captioner}_entries.pkl", entries)


def write_pickle(path: Path, value: object) -> None:
    path.write_bytes(pickle.dumps(value))


def test_skin_tone_on_a_scale_becomes_three_classes(world: WorldFiles, tmp_path: Path) -> None:
    """A table of one's own with Fitzpatrick's 1 to 6: which numbers are which class, the user says."""
    rows = [{"image_id": row["id"], "skin": str(n % 7)} for n, row in enumerate(labels_of(world))]
    rows = [row | {"skin": "unsure"} if row["skin"] == "0" else row for row in rows]
    write_csv(tmp_path / "mine.csv", rows)
    command = ["judge", "evaluate", "--human", world.human, "--captions", "mine.json", "--attribute", "skin"]
    command += ["--labels", tmp_path / "mine.csv"]
    for number, name in enumerate(("lighter", "lighter", "medium", "medium", "darker", "darker"), start=1):
        command += ["--label-value", f"{name}={number}"]
    about = run_of(command, world.captions["sat"]).run
    counted = Counter(row["skin"] for row in rows)
    assert classes(about) == {
        "darker": counted["5"] + counted["6"],
        "lighter": counted["1"] + counted["2"],
        "medium": counted["3"] + counted["4"],
    }
    assert about["labels"]["ignored"] == {"unsure": 14}


def faulty(*arguments: object) -> tuple[str, str]:
    """What ``judge data check`` prints of a folder that will not do, with its white space folded; and its last line."""
    done = judge("data", "check", *arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    return " ".join(done.stdout.split()), done.stderr


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bb_skin": "fitzpatrick"}, "images_val2014.csv: no column 'bb_skin'."),
        ({"id": "photo"}, "images_val2014.csv: no column of image ids among 'photo'"),
        (
            {"Light": "Medium"},
            "images_val2014.csv, record 1, field 'bb_skin': unknown label 'Medium'. Known classes: Dark, Light; mend",
        ),
        (
            {"Dark": "Light"},
            "images_val2014.csv: no image is 'Dark'. Its classes are Dark, Light; check the column 'bb_skin'",
        ),
        ({"Female": "Woman-ish"}, "images_val2014.csv, record"),
    ],
)
def test_labels_that_are_not_what_they_should_be(zhao: Path, change: dict[str, str], told: str) -> None:
    """Other columns, other classes: what our reader says, or what the recipe does."""
    path = zhao / "images_val2014.csv"
    text = path.read_text(encoding="utf-8")
    for old, new in change.items():
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    text, line = faulty("coco-gender-skin", zhao)
    assert told in text
    assert "wrong images_val2014.csv (labels)" in text
    assert "should be: one row per image: id (COCO's number), bb_gender, bb_skin" in text
    assert "(images_val2014.csv)" in line


def test_pictures_that_are_missing(world: WorldFiles, zhao: Path) -> None:
    """Of the images that have a class, of gender or of skin tone; others are nobody's loss."""
    rows = labels_of(world)
    unseen = {"Both", "Unsure"}
    known = [row for row in rows if row["bb_gender"] not in unseen or row["bb_skin"] not in unseen]
    assert len(known) < IMAGES
    write_images(zhao / "val2014", known[3:])
    text = " ".join(done_well("data", "check", "coco-gender-skin", zhao).stdout.split())
    assert f"{len(known) - 3} images; {len(known) - 3} of {len(known)} labelled images lie here, 3 do not" in text
    assert "wrong val2014 (images, optional)" in text
    for row in known[:3]:
        (zhao / "val2014" / f"COCO_val2014_{int(row['id']):012d}.jpg").touch()
    text = " ".join(done_well("data", "check", "coco-gender-skin", zhao).stdout.split())
    assert f"ok val2014 (images, optional) {len(known)} images; {len(known)} of {len(known)} labelled" in text


EMOTIONS = ("amusement", "awe", "contentment", "excitement", "anger", "disgust", "fear", "sadness", "something else")


def test_a_folder_of_ones_own_pictures(tmp_path: Path) -> None:
    """Of no labels nothing is wanted; a table that goes with them needs its columns alone."""
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "001000.png").touch()
    (tmp_path / "kept.csv").write_text("image,yes,raters\n001000.png,3,3\n", encoding="utf-8")
    text = " ".join(done_well("data", "check", "anonymousbench", tmp_path).stdout.split())
    assert "ok images (images) 1 image ok kept.csv (records, optional) 1 record with image, yes, raters" in text
    (tmp_path / "kept.csv").write_text("image,yes\n001000.png,3\n", encoding="utf-8")
    text = " ".join(done_well("data", "check", "anonymousbench", tmp_path).stdout.split())
    assert "wrong kept.csv (records, optional) kept.csv: no column 'raters'." in text


def test_faults_of_the_command(tmp_path: Path) -> None:
    assert faulty("coco-gender-skim", tmp_path)[1] == (
        "judge: no recipe 'coco-gender-skim'. Did you mean 'coco-gender-skin'?\n"
    )
    assert faulty("coco-captions", tmp_path / "nowhere")[1].startswith(f"judge: {tmp_path / 'nowhere'}: is no folder.")


NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "data" / "recipes").iterdir())


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
    assert ("passing on: NO" in text) is not recipe.pass_on


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
    (tmp_path / "human.csv").write_text("photo,said,other\n1,a man,x\n1,a boy,x\n2,,x\n", encoding="utf-8")
    text = " ".join(done_well("data", "check", path, tmp_path).stdout.split())
    assert "ok human.csv (captions) images 1, captions 2; left out: empty 1" in text
    assert f"judge evaluate --human {tmp_path / 'human.csv'} --captions mine.json --column image_id=photo" in text
    assert "my captions" in done_well("data", "show", path).stdout


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"access": "on request"}, "what is had on request must not be passed on: pass_on: false."),
        ({"access": "not released"}, "what is not released needs 'make': how to make one's own."),
        ({"licence": None}, ": field 'licence': Input should be a valid string."),
        ({"licences": "CC0"}, ": unknown fields: licences. See"),
        ({"page": "example.org"}, ": field 'page': "),
        ({"files": []}, ": field 'files': "),
        (
            {"titel": "x", "page": "x", "files": [{"path": "a.csv", "sort": "labels"}]},
            ": missing fields: files.0.what, files.0.kind; unknown fields: files.0.sort, titel; field 'page': String",
        ),
        *(
            ({"files": [{"path": path, "what": "x", "kind": "labels"}]}, "'files.0.path': String should match pattern")
            for path in ("/a.csv", "../a.csv", ".")
        ),
        ({"use": [{"what": "x", "command": "judge 'evaluate"}]}, "field 'use.0.command': No closing quotation."),
        ({"files": [{"path": "a.csv", "what": "x", "kind": "labels", "attributes": ["age"]}]}, "has labels of 'age'"),
    ],
)
def test_faulty_recipes(tmp_path: Path, change: dict[str, object], told: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(OWN) | change), encoding="utf-8")
    assert told in fault_of(load_recipe, str(path))
    assert faulty(path, tmp_path)[1].startswith(f"judge: {path}")


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "\x00", ""])
def test_what_is_no_recipe(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert fault_of(read_recipe, path).startswith(f"{path}: ")
    assert fault_of(read_recipe, tmp_path / "nowhere.yaml").startswith(f"{tmp_path / 'nowhere.yaml'}: no such file.")

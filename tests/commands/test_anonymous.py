"""``judge anonymous``: shares by hand, sheets that come back, metrics beside people, faults before anything is done."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import caption_options, done_well, refusal
from scipy import stats

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.corpus.human_scores import read_human_scores

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


def found_in(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "anonymous.json").read_text(encoding="utf-8"))
    return found


def rate(out: Path, path: Path, answers: Mapping[str, str], default: str = "") -> Path:
    """The sheet in a folder as a rater leaves it: answers by caption."""
    with (out / "rating.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["gender"] = answers.get(row["caption"].removeprefix("'"), default)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_shares_are_those_of_the_captions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = done_well("anonymous", *write(tmp_path, CAPTIONS), "--out", out)
    found = found_in(out)
    a, b, c = found["captioners"]
    assert [row["share"]["value"] for row in (a, b, c)] == [0.6, 0.2, 0]
    assert {name: row["value"] for name, row in a["classes"].items()} == {"female": 0.2, "male": 0.5}
    assert a["several"]["value"] == 0.1
    assert a["balance"]["male"]["value"] == pytest.approx(4 / 5)
    for row, hits, images in ((a["share"], 6, 10), (b["share"], 2, 10), (a["balance"]["male"], 4, 5)):
        expected = stats.binomtest(hits, images).proportion_ci(0.95, method="exact")
        assert row["interval"] == pytest.approx([expected.low, expected.high])
    assert c["share"]["interval"] == pytest.approx([0, 1 - 0.025**0.1])
    assert c["balance"]["male"]["value"] is None
    # a against b: 6 images of a alone, 2 of b alone, of which image 5 is both: 5 and 1.
    first = found["differences"][0]
    assert (first["first"], first["second"], first["value"]) == ("a", "b", pytest.approx(0.4))
    assert first["p_value"] == pytest.approx(2 * (1 + 6) / 2**6)
    told = " ".join(done.stdout.split())
    assert "A low share is not fairness: a captioner that never names anybody scores 0" in told
    assert "every class named is a guess" in told
    assert "a class that other words tell is not found" in told
    assert "No --images: captions of all images in the files count" in told
    assert f"judge anonymous {out / 'anonymous.yaml'} --ratings rating-NAME.csv --out {out}-rated" in told
    # One item for each text of an image: of 30 captions three are said by a and b alike.
    assert "captions to rate: open" in told
    assert found["sheet"]["items"] == 27
    again = tmp_path / "again"
    done_well("anonymous", out / "anonymous.yaml", "--out", again)
    assert {path.name for path in again.iterdir()} == {
        *(".caption-judge", "anonymous.json", "anonymous.yaml", "rating.csv", "rating.html", "rating_key.csv")
    }
    for name in ("anonymous.json", "rating.csv", "rating.html", "rating_key.csv"):
        assert (again / name).read_bytes() == (out / name).read_bytes()


def test_several_captions_an_image_and_pictures(tmp_path: Path) -> None:
    """Images of the folder alone count; each is as heavy as another."""
    records = [(1, "a man"), (1, "a person"), (2, "a woman"), (3, "a person"), (9, "a man"), (4, " ")]
    captions = tmp_path / "a.json"
    captions.write_text(json.dumps([{"image_id": n, "caption": text} for n, text in records]), encoding="utf-8")
    (tmp_path / "pictures").mkdir()
    for number in (1, 2, 3, 4, 5):
        (tmp_path / "pictures" / f"{number}.png").write_bytes(b"")
    done = done_well(
        *(
            "anonymous",
            "--captions",
            captions,
            "--images",
            tmp_path / "pictures",
            "--several",
            "--out",
            tmp_path / "out",
        )
    )
    found = found_in(tmp_path / "out")
    (row,) = found["captioners"]
    assert (row["share"]["value"], row["share"]["images"], row["share"]["captions"]) == (0.5, 3, 4)
    assert not row["share"]["exact"]
    assert row["left_out"] == {
        "empty captions": 1,
        "refusals": 0,
        "images that are not in --images": 1,
        "pictures without a caption": 2,
    }
    told = " ".join(done.stdout.split())
    assert "a: 1 empty caption, 1 image that is not in --images, 2 pictures without a caption." in told
    assert "Korn and Graubard 1998" in told
    assert "No --images" not in told
    for path in (tmp_path / "pictures").iterdir():
        path.rename(path.with_stem("x" + path.stem))
    told = refusal("anonymous", "--captions", captions, "--images", tmp_path / "pictures", "--several", "--out", "x")
    assert "no caption of the 5 pictures in --images (there is one of '1')" in told


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[str]]:
    """A folder, four captioners as options, and the ratings of three people, who agree on most."""
    folder = tmp_path_factory.mktemp("rated")
    options = write(folder, CAPTIONS | {"d": ["a person with a beard"] * 3 + ["a person"] * 7})
    done_well("anonymous", *options, "--out", folder / "sheet")
    anna = {"a man": "male", "a boy": "male", "a woman": "female", "a person with a beard": "male"}
    ben = anna | {"a person with a beard": "cannot tell", "a man and a woman": "female"}
    cleo = anna | {"a man and a woman": "male"}
    ratings = []
    for name, answers in (("anna", anna), ("ben", ben), ("cleo", cleo)):
        ratings += ["--ratings", str(rate(folder / "sheet", folder / f"{name}.csv", answers, "cannot tell"))]
    return folder, options, ratings


def test_what_people_could_guess(rated: tuple[Path, list[str], list[str]]) -> None:
    """By hand: "a man and a woman" is a tie of three answers; the beard is male for two of three."""
    folder, options, ratings = rated
    out = folder / "out"
    done = done_well("anonymous", *options, *ratings, "--out", out)
    found = found_in(out)["ratings"]
    by_name = {row["captioner"]: row for row in found["captioners"]}
    assert {name: row["share"]["value"] for name, row in by_name.items()} == {
        "a": pytest.approx(5 / 9),
        "b": 0.2,
        "c": 0,
        "d": pytest.approx(0.3),
    }
    assert [row["ties"] for row in by_name.values()] == [1, 0, 0, 0]
    assert by_name["a"]["classes"]["female"]["value"] == pytest.approx(1 / 9)
    # The lexicon misses the beards; it finds nobody whom people do not.
    assert found["lexicon"] == {"both": 7, "lexicon": 0, "people": 3, "neither": found["lexicon"]["neither"]}
    assert "it names a class in 0 from which people could not guess, and none in 3 from" in " ".join(
        done.stdout.split()
    )
    scores = read_human_scores(out / "human_scores.csv", captioners=["a", "b", "c", "d"])
    assert scores == {name: pytest.approx(row["share"]["value"]) for name, row in by_name.items()}
    # The lexicon's share beside people's, over captioners; of the same captions, without the tie.
    (row,) = found["metrics"]
    shares, human = [5 / 9, 0.2, 0, 0], [5 / 9, 0.2, 0, 0.3]
    assert [of["named"]["value"] for of in by_name.values()] == pytest.approx(shares)
    assert [of["named"]["captions"] for of in by_name.values()] == [9, 10, 10, 10]
    assert row["pearson"] == pytest.approx(np.corrcoef(shares, human)[0, 1])
    assert row["spearman"] == pytest.approx(np.corrcoef([4, 3, 1.5, 1.5], [4, 2, 1, 3])[0, 1])
    assert row["interval"][0] < row["pearson"] < row["interval"][1]
    assert row["spearman_interval"][0] < row["spearman"] < row["spearman_interval"][1]


def test_metrics_of_a_run_beside_people(tmp_path: Path) -> None:
    """Every metric's value of each captioner; and what evaluate --human-scores makes of the same scores."""
    captioners = {name: Captioner(stereotype=knob) for name, knob in {"a": 0.0, "b": 0.3, "c": 0.6, "d": 0.9}.items()}
    files = write_world(make_world(100, seed=4), captioners, tmp_path / "world")
    options = write(tmp_path, CAPTIONS | {"d": ["a man"] * 8 + ["a person"] * 2})
    done_well("anonymous", *options, "--out", tmp_path / "sheet")
    answers = {"a man": "male", "a boy": "male", "a woman": "female", "a man and a woman": "male"}
    ratings = ["--ratings", rate(tmp_path / "sheet", tmp_path / "anna.csv", answers, "cannot tell")]
    done_well("anonymous", *options, *ratings, "--out", tmp_path / "scored")
    run = tmp_path / "run"
    scores = tmp_path / "scored" / "human_scores.csv"
    asked = ["--metrics", "ba-objects,ratio", "--human-scores", scores, "--resamples", 100, "--out", run]
    told = done_well("evaluate", *caption_options(files), *asked).stdout
    assert "Spearman" in told
    assert "it draws correlations towards 0" in " ".join(told.split())
    done_well("anonymous", *options, *ratings, "--run", run, "--out", tmp_path / "out")
    found = {(row["metric"], row["value"]): row for row in found_in(tmp_path / "out")["ratings"]["metrics"]}
    document = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    human = [0.6, 0.2, 0.0, 0.8]
    for name, title in (("ba-objects", "BA (objects)"), ("ratio", "Ratio")):
        (mine,) = [row["alignment"] for row in document["consistency"]["alignments"] if row["metric"] == name]
        row = found[title, "amplification"]
        assert {key: row[key] for key in ("pearson", "spearman", "pairs")} == {
            key: pytest.approx(mine[key]) for key in ("pearson", "spearman", "pairs")
        }
        values = [of["amplification"] for of in document["results"] if of["metric"] == name]
        assert row["pearson"] == pytest.approx(np.corrcoef(values, human)[0, 1])
        assert mine["spearman_interval"]["low"] < mine["spearman"] < mine["spearman_interval"]["high"]
    few = [*options[:6], *ratings]  # Another sheet.
    assert "is of another sheet" in refusal("anonymous", *few, "--out", tmp_path / "few")
    part = write(tmp_path, {"e": ["a man", "a person"]})
    done_well("anonymous", *part, "--out", tmp_path / "e")
    rating = ["--ratings", rate(tmp_path / "e", tmp_path / "e.csv", {}, "male")]
    told = refusal("anonymous", *part, *rating, "--run", run, "--out", tmp_path / "x")
    assert "none of its captioners (a, b, c, d) was rated (e)" in told


def test_any_number_of_classes_on_the_images_in_common(tmp_path: Path) -> None:
    """Three classes of a lexicon of one's own; a captioner that lacks images; wordy captions cut short."""
    lexicon = tmp_path / "age.yaml"
    lexicon.write_text("classes: {young: [child], adult: [adult], old: [senior]}\n", encoding="utf-8")
    texts = ["a child. An adult?", "a senior on a bench. Nice.", "an adult", "a person", "a child and an adult", "-"]
    options = write(tmp_path, {"a": texts, "b": texts[:4]})
    asked = ["--attribute", "age", "--lexicon", lexicon, "--text", "first-sentence"]
    done = done_well("anonymous", *options, *asked, "--out", tmp_path / "out")
    a, b = found_in(tmp_path / "out")["captioners"]
    assert a["share"]["value"] == pytest.approx(4 / 6)
    assert {name: row["value"] for name, row in a["classes"].items()} == {
        name: pytest.approx(value) for name, value in {"young": 2 / 6, "adult": 2 / 6, "old": 1 / 6}.items()
    }
    assert {name: row["value"] for name, row in a["balance"].items()} == dict.fromkeys(
        a["balance"], pytest.approx(1 / 3)
    )
    assert b["share"]["value"] == 0.75
    told = " ".join(done.stdout.split())
    assert "Captioners have captions of different images" in told
    assert "4 captions to rate" in told
    with (tmp_path / "out" / "rating.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["item", "caption", "age", "rater"]
    assert {row["caption"] for row in rows} == {"a child.", "a senior on a bench.", "an adult", "a person"}
    asked_of = found_in(tmp_path / "out")["sheet"]["questions"][0]
    assert asked_of["choices"] == ["young", "adult", "old", "cannot tell"]
    assert asked_of["text"] == "Can you guess anyone's age from the caption alone?"
    page = (tmp_path / "out" / "rating.html").read_text(encoding="utf-8")
    assert "Keys: <kbd>1</kbd> to <kbd>4</kbd> answer" in page
    assert "would you call anyone in it young or adult or old, or can you not tell?" in page


def test_a_class_without_words_has_no_share(tmp_path: Path) -> None:
    """ArtEmis's "something else": null, never 0, with a note; raters may answer it all the same."""
    options = write(tmp_path, {"a": ["a sad man", "an angry man", "an odd man", "a man"]})
    done = done_well("anonymous", *options, "--attribute", "emotion", "--out", tmp_path / "out")
    (row,) = found_in(tmp_path / "out")["captioners"]
    assert (row["share"]["value"], row["classes"]["sadness"]["value"]) == (0.5, 0.25)
    assert row["classes"]["awe"]["value"] == 0
    for of in (row["classes"], row["balance"]):
        assert (of["something else"]["value"], of["something else"]["interval"]) == (None, None)
    told = " ".join(done.stdout.split())
    assert "The lexicon has no words for something else: no share tells how often captions name that" in told
    assert "something else" in found_in(tmp_path / "out")["sheet"]["questions"][0]["choices"]


def test_a_sample_of_images_is_drawn_once(tmp_path: Path) -> None:
    options = write(tmp_path, CAPTIONS)
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        done_well("anonymous", *options, "--sample", 4, "--seed", seed, "--out", tmp_path / name)
    texts = [(tmp_path / name / "rating_key.csv").read_text(encoding="utf-8") for name in ("one", "two", "three")]
    keys = [list(csv.DictReader(io.StringIO(text))) for text in texts]
    assert keys[0] == keys[1] != keys[2]
    assert len({row["image_id"] for row in keys[0]}) == 4
    # Shares are of all images.
    assert found_in(tmp_path / "one")["captioners"][0]["share"]["images"] == 10


def test_nothing_rated_of_a_captioner_and_nobody_to_agree(tmp_path: Path) -> None:
    options = write(tmp_path, {"a": ["a man", "a person"], "b": ["a dog", "a cat"]})
    done_well("anonymous", *options, "--out", tmp_path / "sheet")
    anna = rate(tmp_path / "sheet", tmp_path / "anna.csv", {"a man": "male", "a person": "cannot tell"})
    done = done_well("anonymous", *options, "--ratings", anna, "--out", tmp_path / "out")
    assert "Krippendorff's alpha is not defined: no caption has two raters." in " ".join(done.stdout.split())
    rows = found_in(tmp_path / "out")["ratings"]["captioners"]
    assert [(row["share"]["value"], row["unrated"]) for row in rows] == [(0.5, 0), (None, 2)]
    assert (tmp_path / "out" / "human_scores.csv").read_text(encoding="utf-8").count("\n") == 2
    assert math.isfinite(read_human_scores(tmp_path / "out" / "human_scores.csv", captioners=["a"])["a"])


def test_what_no_file_of_captions_has_is_refused(tmp_path: Path) -> None:
    """No people's captions are there to choose images by: every file must have what --where and --split name."""
    path, other = tmp_path / "mine.csv", tmp_path / "other.json"
    path.write_text("image_id,caption,kind\n1,a man,new\n2,a dog,new\n3,a man,old\n", encoding="utf-8")
    other.write_text(json.dumps({"1": "a man", "2": "a dog"}), encoding="utf-8")
    done_well("anonymous", "--captions", path, "--where", "kind=new", "--out", tmp_path / "out")
    (row,) = found_in(tmp_path / "out")["captioners"]
    assert (row["share"]["value"], row["share"]["captions"]) == (0.5, 2)
    asked = ("anonymous", "--captions", path, "--out", tmp_path / "x")
    assert "mine.csv: no column 'knid' for --where. Did you mean 'kind'?" in refusal(*asked, "--where", "knid=new")
    assert "other.json: is no table, so it has no column 'kind'" in refusal(
        *asked, "--captions", other, "--where", "kind=new"
    )
    assert "mine.csv: no captions of split 'test'" in refusal(*asked, "--split", "test")
    assert "--column caption: no file of captions was read by a column 'txt'" in refusal(
        *asked, "--column", "caption=txt"
    )
    assert not (tmp_path / "x").exists()


def test_faults_leave_nothing(tmp_path: Path) -> None:
    options = write(tmp_path, CAPTIONS)
    out = tmp_path / "out"
    asked = ("anonymous", *options, "--out", out)
    assert "'captions' is missing" in refusal("anonymous", "--out", out)
    assert "there are no ratings. Add --ratings." in refusal(*asked, "--run", tmp_path)
    assert "no words of 'skin'" in refusal(*asked, "--attribute", "skin")
    told = refusal(*asked, "--attribute", "gender,age")
    assert (
        "--attribute gender,age: one attribute is rated at a time. Run the command once for each: --attribute g" in told
    )
    assert "'rater' is a column of the rating sheet already" in refusal(*asked, "--attribute", "rater")
    other = [*write(tmp_path, {"x": ["a man"] * 3}), "--captions", str(tmp_path / "y.csv")]
    (tmp_path / "y.csv").write_text("image_id,caption\n100,a dog\n", encoding="utf-8")
    assert "no image in common" in refusal("anonymous", *other, "--out", out)
    (tmp_path / "anna.csv").write_text("item,gender\n1,female\n", encoding="utf-8")
    assert "no item '1' on this sheet" in refusal(*asked, "--ratings", tmp_path / "anna.csv")
    assert not out.exists()
    done_well(*asked)
    filled = rate(out, out / "anna.csv", {"a man": "male"})
    assert "holds anna.csv, which is read" in refusal(*asked, "--ratings", filled, "--overwrite")


def test_the_demo_finds_what_is_known_of_its_captioners(tmp_path: Path) -> None:
    """Shares of 200 drawn pictures; exact intervals hold the truth of three captioners, but for one in a hundred."""
    arguments = ("demo", "--anonymous", "--images", "200", "--out", tmp_path / "demo")
    told = done_well(*arguments).stdout
    assert done_well(*arguments).stdout == told  # A demo may replace a demo.
    assert "No --images" not in told
    # What it says to do next does work.
    (command,) = [shlex.split(line) for line in told.splitlines() if line.startswith("  judge anonymous ")]
    rating = rate(tmp_path / "demo" / "results", tmp_path / "rating-NAME.csv", {}, "cannot tell")
    done_well(*(str(rating) if word == "rating-NAME.csv" else word for word in command[1:]))
    assert (tmp_path / "demo" / "results-rated" / "human_scores.csv").is_file()
    found = json.loads((tmp_path / "demo" / "results" / "anonymous.json").read_text(encoding="utf-8"))
    shares = {row["captioner"]: row["share"] for row in found["captioners"]}
    truth = json.loads((tmp_path / "demo" / "world" / "truth.json").read_text(encoding="utf-8"))
    for name, share in shares.items():
        low, high = share["interval"]
        assert low < truth[name]["named"] < high
        assert f"{truth[name]['named']:.3f}" in told
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert "holds something that is no anonymous demo" in refusal("demo", "--anonymous", "--out", tmp_path / "mine")

"""``judge compare``: two runs say of their captioners what one run of both says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers import judge

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner

KNOBS = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
FAST = ["--resamples", "100", "--workers", "1", "--folds", "5", "--chance", "0", "--metrics", "lic,ba"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return write_world(make_world(160, seed=5), KNOBS, tmp_path_factory.mktemp("files") / "world")


def run(files: WorldFiles, out: Path, *names: str, more: tuple[object, ...] = ("--refits", 4)) -> Path:
    captions = [part for name in names for part in ("--captions", files.captions[name])]
    done = judge("evaluate", "--human", files.human, *captions, "--labels", files.labels, *FAST, *more, "--out", out)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def runs(files: WorldFiles, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    made = {name: run(files, folder / name, name) for name in KNOBS}
    return made | {"both": run(files, folder / "both", "much", "none")}


def test_two_runs_are_compared_as_one(runs: dict[str, Path], tmp_path: Path) -> None:
    """The same halves of the images, the same folds: the same numbers, to the last digit."""
    out = tmp_path / "differences.json"
    done = judge("compare", runs["much"], runs["none"], "--out", out)
    assert done.exit_code == 0, done.output
    apart = json.loads(out.read_text(encoding="utf-8"))["differences"]
    together = json.loads((runs["both"] / "metrics.json").read_text(encoding="utf-8"))["differences"]
    assert apart == together
    assert [row["metric"] for row in apart] == ["lic", "ba"]
    assert apart[0]["paired"] is True
    assert apart[0]["value"] > 0.1
    assert apart[0]["ci"][0] > 0
    assert apart[0]["verdict"] == "much more"
    assert "much more" in done.stdout
    assert "p (Holm): corrected for the 2 tests" in done.stdout
    assert done.stdout.rstrip().endswith(f"The differences are in {out}")


def test_other_human_captions_are_told(files: WorldFiles, runs: dict[str, Path], tmp_path: Path) -> None:
    """Against other people the difference would be between these people."""
    human = tmp_path / "human.json"
    document = json.loads(files.human.read_text(encoding="utf-8"))
    document["annotations"][0]["caption"] = "a cat on a mat"
    human.write_text(json.dumps(document), encoding="utf-8")
    captions = ["--captions", files.captions["none"], "--labels", files.labels]
    done = judge("evaluate", "--human", human, *captions, *FAST, "--refits", 4, "--out", tmp_path / "other")
    assert done.exit_code == 0, done.output
    done = judge("compare", runs["much"], tmp_path / "other")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "they have other human captions (ba: 160 and 160 images)" in done.stderr


def test_nothing_is_overwritten(runs: dict[str, Path], tmp_path: Path) -> None:
    out = runs["much"] / "metrics.json"
    before = out.read_bytes()
    done = judge("compare", runs["much"], runs["none"], "--out", out)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert out.read_bytes() == before
    done = judge("compare", runs["much"], runs["much"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "the same run twice" in done.stderr


def test_two_checkpoints_of_one_name(files: WorldFiles, runs: dict[str, Path], tmp_path: Path) -> None:
    renamed = tmp_path / "later"
    (tmp_path / "much.json").write_bytes(files.captions["none"].read_bytes())
    captions = f"much={tmp_path / 'much.json'}"
    common = ["evaluate", "--human", files.human, "--labels", files.labels, *FAST, "--refits", 4]
    assert judge(*common, "--captions", captions, "--out", renamed).exit_code == 0
    done = judge("compare", runs["much"], renamed)
    assert done.exit_code == 0, done.output
    assert "much/much" in done.stdout
    assert "later/much" in done.stdout


def test_runs_without_an_error_still_have_differences(files: WorldFiles, tmp_path: Path) -> None:
    """Three folds, nothing trained again; and one of them with a metric of one side, and more metrics."""
    quick = ("--refits", 0, "--chance", 0, "--folds", 3)
    plain = run(files, tmp_path / "a" / "results", "none", more=(*quick, "--metrics", "lic"))
    more = run(files, tmp_path / "b" / "results", "much", more=(*quick, "--metrics", "lic,sc,dbac-at"))
    out = tmp_path / "found.json"
    done = judge("compare", plain, more, "--out", out)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(out.read_text(encoding="utf-8"))["differences"]
    assert (row["p_value"], row["ci"]) == (None, None)
    assert row["value"] < 0
    assert "Without an interval" in done.stdout
    sided = [run(files, tmp_path / name, name, more=("--refits", 4, "--metrics", "lic,sc")) for name in KNOBS]
    done = judge("compare", *sided)
    assert done.exit_code == 0, done.output
    assert "LIC (linear)" in done.stdout


def test_splits_are_compared_where_judges_were_not_trained_again(files: WorldFiles, tmp_path: Path) -> None:
    """Five folds: values of folds, paired."""
    pair = [run(files, tmp_path / name, name, more=("--refits", 0, "--metrics", "lic")) for name in KNOBS]
    both = run(files, tmp_path / "both", *KNOBS, more=("--refits", 0, "--metrics", "lic"))
    out = tmp_path / "found.json"
    assert judge("compare", *pair, "--out", out).exit_code == 0
    (row,) = json.loads(out.read_text(encoding="utf-8"))["differences"]
    assert [row] == json.loads((both / "metrics.json").read_text(encoding="utf-8"))["differences"]
    assert row["p_value"] is not None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--refits", 4, "--seed", 3), r"the runs cannot be compared: seeds is [0] in one and [3] in the other"),
        (("--refits", 6), "refits is 4 in one and 6 in the other"),
        (("--refits", 4, "--folds", 4), "folds is 5 in one and 4 in the other"),
        (("--refits", 4, "--alignment", "none"), 'alignment is null in one and "none" in the other'),
        (
            ("--refits", 2, "--protocol", "paper", "--seeds", 1),
            'protocol is "crossfit" in one and "paper" in the other',
        ),
        (("--refits", 4, "--metrics", "leakage"), "ba (counted), lic (linear) in one, leakage (linear) in the other"),
    ],
)
def test_runs_that_do_not_compare(
    files: WorldFiles, runs: dict[str, Path], tmp_path: Path, more: tuple[object, ...], message: str
) -> None:
    other = run(files, tmp_path / "other", "none", more=more)
    done = judge("compare", runs["much"], other)
    assert done.exit_code == 2
    assert done.stderr.startswith("judge: much with other: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_other_images_and_folders_that_are_no_runs(files: WorldFiles, runs: dict[str, Path], tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    lines = files.labels.read_text(encoding="utf-8").splitlines()
    labels.write_text("\n".join(lines[:-2]), encoding="utf-8")
    captions = ["--captions", files.captions["none"], "--labels", labels]
    done = judge("evaluate", "--human", files.human, *captions, *FAST, "--refits", 4, "--out", tmp_path / "fewer")
    assert done.exit_code == 0, done.output
    done = judge("compare", runs["much"], tmp_path / "fewer")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "they have other images (ba: 160 and 158 images)" in done.stderr
    (tmp_path / "empty").mkdir()
    done = judge("compare", runs["much"], tmp_path / "empty")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no run can be read there" in done.stderr
    shutil.copytree(runs["none"], tmp_path / "broken")
    (tmp_path / "broken" / "metrics.json").write_text('{"results": [{}]}', encoding="utf-8")
    done = judge("compare", runs["much"], tmp_path / "broken")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    for name, run in (("old", {"refits": 20, "captioners": {}}), ("older", {"captioners": {"a": {"marks": "f0"}}})):
        shutil.copytree(runs["none"], tmp_path / name)
        text = json.dumps({"run": run, "results": []})
        (tmp_path / name / "metrics.json").write_text(text, encoding="utf-8")
        done = judge("compare", runs["much"], tmp_path / name)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "made by this version" in done.stderr
    done = judge("compare", runs["much"])
    assert done.exit_code == 2
    assert "one run alone has nothing to compare with" in done.stderr

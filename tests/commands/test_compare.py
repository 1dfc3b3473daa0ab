"""``judge compare``: two runs say of their captioners what one run of both says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from helpers import done_well, few, instead, judge, read_json, refusal
from oracle import amplification

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.report.sections import plain
from judge.text.embedding import load_embedding

KNOBS = {"none": Captioner(vocabulary=3), "much": Captioner(stereotype=0.9, vocabulary=3)}
FAST = ["--resamples", "100", "--workers", "1", "--folds", "3", "--chance", "0", "--metrics", "lic,ba"]
FAST += ["--judge", "linear"]


@pytest.fixture(scope="module")
def files(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return few(write_world(make_world(160, seed=4), KNOBS, tmp_path_factory.mktemp("files") / "world"))


def run(files: WorldFiles, out: Path, *names: str, more: Sequence[object] = ("--refits", 4), **other: object) -> Path:
    """A run of captioners of these names; ``other``: files in place of the world's."""
    given = {"human": files.human, "labels": files.labels} | other
    arguments = [part for name, path in given.items() for part in (f"--{name}", path)]
    arguments += [part for name in names for part in ("--captions", files.captions[name])]
    done_well("evaluate", *arguments, *instead(FAST, *more), "--out", out)
    return out


@pytest.fixture(scope="module")
def runs(files: WorldFiles, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    made = {name: run(files, folder / name, name) for name in KNOBS}
    return made | {"both": run(files, folder / "both", "much", "none")}


def test_two_runs_are_compared_as_one(runs: dict[str, Path], tmp_path: Path) -> None:
    """The same halves of the images, the same folds: the same numbers, to the last digit."""
    out = tmp_path / "differences.json"
    done = done_well("compare", runs["none"], runs["much"], "--out", out)
    apart = read_json(out)["differences"]
    together = read_json(runs["both"] / "metrics.json")["differences"]
    assert apart == together
    assert [row["metric"] for row in apart] == ["lic", "ba"]
    assert apart[0]["paired"] is True
    assert apart[0]["value"] > 0.1
    assert apart[0]["ci"][0] > 0
    assert apart[0]["p_holm"] < 0.05
    assert apart[0]["verdict"] in done.stdout
    assert "p (Holm): corrected for the 1 difference of each metric" in done.stdout
    assert done.stdout.rstrip().endswith(f"The differences are in {out}")


def test_a_later_run_that_amplifies_more_fails(runs: dict[str, Path], tmp_path: Path) -> None:
    """The change is the later run less the earlier, in the gate's outcome, which is first, and in the table.

    Each condition on each pair is a test case of JUnit.
    """
    xml, out = tmp_path / "junit.xml", tmp_path / "found.json"
    rises, falls = ("--fail-if", "lic > 0"), ("--fail-if", "lic < 0")
    done = judge("compare", runs["none"], runs["much"], *rises, *falls, "--junit", xml, "--out", out, "--format", "md")
    (row,) = (row for row in read_json(out)["differences"] if row["metric"] == "lic")
    change, (low, high) = row["value"], row["ci"]
    assert 0 < low < change < high
    found = f"much - none, LIC (linear): the lower bound is {low:.4g} ({change:+.3f} [{low:+.3f}, {high:+.3f}])"
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-1] == f"judge: --fail-if 'lic > 0': {found}"
    first = [f"Gate: failed: `lic > 0`: {plain(found)}", "", "Gate: passed: `lic < 0`"]
    assert done.stdout.splitlines()[:3] == first
    assert f"| LIC (linear) | much - none | {change:+.3f} | [{low:+.3f}, {high:+.3f}] |" in done.stdout
    suite = ElementTree.parse(xml).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("classname") for case in suite if len(case)] == ["--fail-if 'lic > 0'"]
    assert done_well("compare", runs["much"], runs["none"], *rises).stdout.startswith("Gate: passed: lic > 0\n")
    done_well("compare", runs["none"], runs["much"], "--fail-if", "lic > 0.9", "--fail-if", "ba.p < 0")
    refused = refusal("compare", runs["none"], runs["much"], "--junit", xml)
    assert refused == "judge: --junit: there is no condition to report on. Give --fail-if too.\n"
    assert "the run does not measure 'dbac'" in refusal("compare", runs["none"], runs["much"], "--fail-if", "dbac > 0")


def test_two_checkpoints_of_one_name(files: WorldFiles, runs: dict[str, Path], tmp_path: Path) -> None:
    later = run(files, tmp_path / "later", more=("--metrics", "ba"), captions=f"much={files.captions['none']}")
    done = done_well("compare", runs["much"], later)
    assert "much/much" in done.stdout
    assert "later/much" in done.stdout


@pytest.mark.slow
def test_images_that_one_captioner_refused_are_left_out_for_both(files: WorldFiles, tmp_path: Path) -> None:
    """The value is that of the images that both describe, added up here from the answers, and the pairing is kept."""
    refusing = tmp_path / "refusing.json"
    records = read_json(files.captions["none"])
    for record in records[::20]:
        record["caption"] = "I cannot describe this image."
    refusing.write_text(json.dumps(records), encoding="utf-8")
    more = ("--refits", 2, "--metrics", "lic,dba")
    pair = [run(files, tmp_path / "much", "much", more=more), run(files, tmp_path / "no", more=more, captions=refusing)]
    out = tmp_path / "found.json"
    done = done_well("compare", *reversed(pair), "--out", out)
    gone = len(records[::20])
    assert f"are left out for both: much and refusing {gone}." in done.stdout
    rows = read_json(out)["differences"]
    assert [(row["paired"], row["images_left_out"]) for row in rows] == [(True, gone)] * 3  # LIC, DBA_G, DBA_O
    answers = [pd.read_parquet(folder / "scores.parquet") for folder in pair]
    shared = set(answers[0]["image_id"]) & set(answers[1]["image_id"])
    assert len(shared) == 160 - gone
    answers = [of[of["captioner"] == name] for of, name in zip(answers, ("much", "refusing"), strict=True)]
    rows_of = [of[of["image_id"].isin(shared)].to_dict("records") for of in answers]
    values = [amplification(of, confident=True) for of in rows_of]
    assert rows[0]["value"] == pytest.approx(values[0] - values[1], abs=1e-12)
    # One run of both says the same.
    both = run(files, tmp_path / "both", "much", more=(*more, "--captions", refusing))
    document = read_json(both / "metrics.json")
    assert document["differences"] == rows
    assert [row["images"] for row in document["results"] if row["metric"] == "lic"] == [160, 160 - gone]
    assert any("left out for both" in note for note in document["notes"]["warnings"])


@pytest.mark.slow
def test_rows_of_another_protocol_have_names_of_their_own(files: WorldFiles, tmp_path: Path) -> None:
    """In the table, the files and the report; never compared with the metric's own. Of the women half have labels.

    The value without balance is added up from the answers: a mean over captions.
    """
    women, labels = 0, tmp_path / "labels.csv"
    with labels.open("w", encoding="utf-8") as file:
        for line in files.labels.read_text(encoding="utf-8").splitlines():
            women += "female" in line
            file.write(line + "\n" if "female" not in line or women % 2 else "")
    more = ("--refits", 0, "--metrics", "lic,dbac-at,ba")
    folds = run(files, tmp_path / "folds", "much", more=(*more, "--balance", "none"), labels=labels)
    row, unchanged, _ = (each for each in read_json(folds / "metrics.json")["results"] if each["captioner"] == "much")
    assert (row["metric"], unchanged["metric"]) == ("lic:unbalanced", "dbac-at")
    answers = pd.read_parquet(folds / "scores.parquet")
    answers = answers[(answers["captioner"] == "much") & (answers["metric"] == "lic:unbalanced")]
    scored = answers.assign(q=answers["probability"] * (answers["predicted"] == answers["answer"]))
    assert scored.drop_duplicates("image_id")["answer"].value_counts().to_dict() == {"male": 80, "female": 40}
    for side, values in scored.groupby("side", observed=True)["q"]:
        assert row[str(side)] == pytest.approx(values.mean(), abs=1e-12)
    own = run(files, tmp_path / "own", "none", more=("--refits", 0, "--metrics", "lic,ba"), labels=labels)
    text = done_well("report", folds, own, "--format", "md").stdout
    assert "| much | LIC (unbalanced) (linear) |" in text
    assert "| none | LIC (linear) |" in text
    done_well("compare", folds, own, "--out", tmp_path / "found.json")
    assert [each["metric"] for each in read_json(tmp_path / "found.json")["differences"]] == ["ba"]
    held = ("--protocol", "paper", "--seeds", 2, "--holdout", 0.25, "--balance", "none", *more)
    paper = run(files, tmp_path / "paper", "much", more=held, labels=labels)
    asked = pd.read_parquet(paper / "scores.parquet").dropna(subset="probability")
    images = asked.groupby(["metric", "seed"], observed=True)["image_id"].nunique().to_dict()
    assert images == {(name, seed): 20 + 10 for name in ("lic:75/25:unbalanced", "dbac-at:75/25") for seed in (0, 1)}
    text = " ".join(done_well("report", paper, "--format", "md").stdout.split())
    assert "hold-out 75/25 of all images for LIC (75/25, unbalanced), DBAC A-\\>T (75/25); 2 seeds." in text


def test_conditional_leakage_of_other_folds_compares(no_report: None, tmp_path: Path) -> None:
    """Its judges have no folds; but they read an embedding, which is known by content."""
    files = few(write_world(make_world(60, seed=5), KNOBS, tmp_path / "world"), 3)
    glove, more = tmp_path / "glove.txt", ("--metrics", "conditional", "--refits", 0, "--judge", "embedding")
    words = ("woman", "man", "kitchen", "dog", "umbrella", "street", "tie", "pizza")

    def measured(out: str, name: str, *given: object) -> Path:
        return run(files, tmp_path / out, name, more=(*more, "--embedding", glove, *given))

    for seed, out in ((0, "first"), (0, "second"), (1, "third")):
        vectors = np.random.default_rng(seed).normal(size=(len(words), 4))
        lines = [" ".join((word, *map(str, of))) for word, of in zip(words, vectors, strict=True)]
        glove.write_text("\n".join(lines), encoding="utf-8")
        load_embedding.cache_clear()  # A process reads a file once.
        measured(out, "none" if out == "first" else "much", *(("--folds", 5) if out == "second" else ()))
    assert "embedding is not used" not in str(read_json(tmp_path / "first" / "metrics.json")["notes"])
    done_well("compare", tmp_path / "first", tmp_path / "second")
    done_well("report", tmp_path / "first", tmp_path / "second", "--format", "md")
    assert "weights" in refusal("compare", tmp_path / "first", tmp_path / "third")


def test_what_does_not_compare(files: WorldFiles, tmp_path: Path) -> None:
    """Runs of other seeds, refits, captions or images, and what is no run."""
    quick = ("--refits", 0, "--metrics", "lic")
    much = run(files, tmp_path / "much", "much", more=quick)
    for name, more, message in (
        ("seeds", (*quick, "--seed", 3), "the runs cannot be compared: seeds is [0] in one and [3] "),
        ("refits", ("--refits", 2, "--metrics", "lic"), "refits is 0 in one and 2 in the other"),
    ):
        line = refusal("compare", much, run(files, tmp_path / name, "none", more=more))
        assert line.startswith(f"judge: much with {name}: ")
        assert message in line
    human, labels = tmp_path / "human.json", tmp_path / "labels.csv"
    document = read_json(files.human)
    document["annotations"][0]["caption"] = "a cat on a mat"
    human.write_text(json.dumps(document), encoding="utf-8")
    other = run(files, tmp_path / "other", "none", more=quick, human=human)
    assert "they have other human captions (160 and 160 images)" in refusal("compare", much, other)
    lines = files.labels.read_text(encoding="utf-8").splitlines()
    labels.write_text("\n".join(lines[:-2]), encoding="utf-8")
    fewer = run(files, tmp_path / "fewer", "none", more=quick, labels=labels)
    assert "they have other images (160 and 158 images)" in refusal("compare", much, fewer)
    assert "no run can be read there" in refusal("compare", much, files.folder)
    older = {"run": {"captioners": {"a": {"marks": "f0"}}}, "results": []}
    (fewer / "metrics.json").write_text(json.dumps(older), encoding="utf-8")
    assert "made by this version and plugins" in refusal("compare", much, fewer)

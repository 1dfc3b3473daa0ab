"""Attributes other than gender, end to end: age in real captions, emotion as in ArtEmis, classes of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from classes import SIZES, draw
from helpers import done_well, read_json, read_rows, refusal, results_of
from paintings import write_world

from judge.commands.evaluate import evaluate
from judge.corpus import Corpus
from judge.corpus.captions import read_captions
from judge.corpus.tasks import Tasks, join_tasks
from judge.evidence import EvidenceBuilder
from judge.statistics.summary import Summary
from judge.text.combined import load_tasks
from judge.text.lexicon import Lexicon, Lexicons, load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions

AGE, GENDER, ACTIVITIES = map(load_lexicon, ("age", "gender", "activities"))
ONCE = ["--refits", 0, "--chance", 0, "--workers", 1, "--resamples", 100]


# Age, and activities as tasks.

EACH = 30  # Images of each age.


@pytest.fixture(scope="module")
def real(coco: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``human.json`` and ``nic_plus.json``: 30 COCO images of each age that their captions name, a caption each."""
    folder = tmp_path_factory.mktemp("coco")
    every = read_captions(coco / "captions_human.json", side="human").by_image
    generated = read_json(coco / "results" / "nic_plus.json")
    human: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for image in sorted(every):
        named = [AGE.mentions(tokenize(text)) for text in every[image]]
        ages = set().union(*named)
        if len(ages) == 1 and counts[min(ages)] < EACH:
            counts.update(ages)
            human[image] = next(text for text, names in zip(every[image], named, strict=True) if names)
    (folder / "human.json").write_text(json.dumps(human), encoding="utf-8")
    results = [row for row in generated if str(row["image_id"]) in human]
    (folder / "nic_plus.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def measure(folder: Path, **settings: Any) -> tuple[dict[str, Summary], Mapping[str, Any]]:
    """Metric -> its row, and the description of the run."""
    quick = {"judge": "linear", "folds": 2, "refits": 0, "chance": 0, "resamples": 100, "attribute": "age"}
    found = evaluate(human=folder / "human.json", captions=folder / "nic_plus.json", **quick, **settings)
    return {row.metric.name: row for row in found.summaries}, found.run


def named_in(captions: Captions, lexicon: Lexicon) -> dict[str, set[str]]:
    """Image -> the entries of a lexicon that its captions name."""
    texts = captions.by_image.items()
    return {image: {name for text in of for name in lexicon.mentions(tokenize(text))} for image, of in texts}


@pytest.mark.slow
def test_age_derived_and_from_a_file(real: Path) -> None:
    """Three classes in every kind of metric; labels in a file, spelt otherwise, give the same numbers."""
    rows, run = measure(real, metrics="lic,leakage,dbac,ba,dba,ratio,ratio:child/adult,error")
    assert rows.keys() >= {"lic", "leakage", "dbac-at", "dbac-ta", "ba", "dba-o", "dba-g", "ratio", "error"}
    assert run["captioners"]["nic_plus"]["images"] == dict.fromkeys(("adult", "child", "old"), EACH)
    assert run["labels"]["derived"]
    ages = {image: name for image, (name,) in named_in(read_captions(real / "human.json", side="human"), AGE).items()}
    said = named_in(read_captions(real / "nic_plus.json", side="generated"), AGE)
    wrong = [bool(said[image] - {name}) for image, name in ages.items()]
    assert (rows["error"].human, rows["error"].published) == (0, pytest.approx(np.mean(wrong)))
    assert 0 < np.mean(wrong) < 0.2
    counts = Counter(name for names in said.values() for name in names)
    assert rows["ratio:child/adult"].generated == pytest.approx(counts["child"] / counts["adult"])
    for name in ("lic", "leakage"):
        assert rows[name].amplification == pytest.approx(rows[name].generated - rows[name].human)
    spelt = {"adult": "Grown-up", "child": "kid", "old": "elderly"}
    lines = ["image_id,age", *(f"{image},{spelt[name]}" for image, name in ages.items())]
    (real / "age.csv").write_text("\n".join(lines), encoding="utf-8")
    again, run = measure(real, labels=real / "age.csv", metrics="lic,error")
    assert not run["labels"]["derived"]
    assert again["lic"].amplification == rows["lic"].amplification
    assert again["error"].published == rows["error"].published


@pytest.mark.slow
def test_activities_beside_objects_as_tasks(real: Path) -> None:
    """Tasks are what captions of some images name and those of others do not."""
    metrics, tasks = "dbac-at,dbac-ta,dpac-at,dpac-ta,ba-objects,dba-o,dba-g", ["coco-objects", "activities"]
    rows, run = measure(real, metrics=metrics, tasks=tasks)
    assert [*rows] == metrics.split(",")
    assert all(row.amplification is not None for row in rows.values())
    shown = named_in(read_captions(real / "human.json", side="human"), load_tasks(tasks))
    counts = Counter(name for names in shown.values() for name in names - {"person"})
    expected = {name for name, count in counts.items() if count < len(shown)}
    assert {"sitting", "holding", "eating"} < expected
    assert expected - ACTIVITIES.classes.keys()
    assert run["captioners"]["nic_plus"]["counted"]["objects"] == len(expected)


def test_a_list_of_objects_beside_derived_activities() -> None:
    """Tasks of lexicons that the list does not cover are derived from captions; the list stays as it is."""
    human = {"1": ("a woman sits on a bench",), "2": ("a man throws a ball to a dog",), "3": ("a man",)}
    words = Lexicons(GENDER, load_tasks(["coco-objects", "activities"]))

    def truth_of(tasks: Tasks | None, words: Lexicons = words) -> Tasks | None:
        return EvidenceBuilder(
            Corpus(Captions("human", human), (Captions("mine", human),), None, tasks), words
        ).truth.tasks

    listed = Tasks(("bench", "dog"), {"1": (0, 1), "2": (), "3": (1,)}, "mine.json")
    truth = truth_of(listed)
    assert truth is not None
    shown = {image: {truth.names[index] for index in of} for image, of in truth.by_image.items()}
    assert shown == {"1": {"bench", "dog", "sitting"}, "2": {"throwing"}, "3": {"dog"}}
    assert truth.names == tuple(sorted({"bench", "dog", *ACTIVITIES.classes}))
    assert truth.source.startswith("mine.json; derived: ")
    # A list that has activities of its own is complete.
    whole = Tasks(("bench", "sitting"), {"1": (0,), "2": (1,), "3": ()}, "mine.json")
    assert truth_of(whole) is whole
    assert truth_of(listed, Lexicons(GENDER, ACTIVITIES)) is listed
    assert truth_of(None) is None
    # Joined tasks are of the images that both know.
    other = Tasks(("a", "sky"), {"1": (0, 1), "4": (1,)}, "two", ignored={"no task named": 1})
    joined = join_tasks(listed, other)
    assert (joined.names, joined.by_image) == (("a", "bench", "dog", "sky"), {"1": (0, 1, 2, 3)})
    assert (joined.source, joined.ignored) == ("mine.json; two", {"no task named": 1})


# Emotion; scripts/papers runs ImageCaptioner2's table 7 on these paintings.

V1 = "artemis_dataset_release_v0.csv"


@pytest.fixture(scope="module")
def paintings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 paintings as ArtEmis v1; ``combined.csv`` calls most of them v2's new ones, ``new.csv`` has these alone."""
    folder = tmp_path_factory.mktemp("emotion")
    write_world(folder, images=200, pixels=16)
    people = pd.read_csv(folder / V1)
    people["version"] = np.where(people["painting"].str[-1] != "0", "new", "old")
    people.to_csv(folder / "combined.csv", index=False)
    people[people["version"] == "new"].to_csv(folder / "new.csv", index=False)
    return folder


def voted(folder: Path, human: str) -> list[object]:
    """``judge evaluate`` of utterances whose emotions vote."""
    given: list[object] = ["evaluate", "--human", folder / human, "--captions", folder / "speakers" / "voted.csv"]
    return [*given, "--attribute", "emotion", "--labels", folder / human, "--label-rule", "majority"]


@pytest.mark.slow
def test_one_version_alone_and_own_captions(paintings: Path, tmp_path: Path) -> None:
    """``--where version=new`` equals v2's own file; ``--own-captions`` leaves out captions of another emotion."""
    chosen, alone = [*voted(paintings, "combined.csv"), "--where", "version=new"], voted(paintings, "new.csv")
    found = {}
    for name, given in {"where": chosen, "alone": alone, "own": [*chosen, "--own-captions"]}.items():
        done_well(*given, "--metrics", "lic", "--folds", 2, *ONCE, "--out", tmp_path / name)
        found[name] = read_json(tmp_path / name / "metrics.json")
    assert found["where"]["results"] == found["alone"]["results"]
    votes, images = found["own"]["run"]["labels"]["votes"], found["own"]["run"]["captioners"]["voted"]["images"]
    assert votes["own captions"] + votes["other captions"] == 5 * sum(images.values())
    assert votes["own captions"] > 3 * votes["other captions"]
    page = done_well("report", tmp_path / "own", "--format", "md").stdout
    assert f"the {votes['own captions']:,} whose own label is their image's" in " ".join(page.split())
    out = ["--out", tmp_path / "run"]
    apart = [part for part in chosen if part not in ("--label-rule", "majority")]
    assert "or have them vote with --label-rule majority" in refusal(*apart, *out)
    assert "no record where version is 'newest'" in refusal(*chosen[:-1], "version=newest", *out)
    assert "--own-captions: needs labels of one attribute" in refusal(*chosen[:7], "--own-captions", *out)


# Classes of one's own: a YAML file of words and a table of labels.

# How the table spells them.
SPELT = {"amusement": "1", "awe": "2", "contentment": "3"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], list[object], list[object]]:
    """A folder with ``cap.json``; image -> class; the labels as options, and all inputs."""
    folder, world = tmp_path_factory.mktemp("own"), draw(SIZES[3])
    rows = [f"{image},{SPELT[name]}" for image, name in world.classes.items()]
    files = {
        "human.json": json.dumps({image: list(of) for image, of in world.human.items()}),
        "cap.json": json.dumps({image: of[0] for image, of in world.generated.items()}),
        "feelings.csv": "\n".join(["image_id,feeling", *rows, ""]),
        "feeling.yaml": world.lexicon,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    values = [part for name, code in SPELT.items() for part in ("--label-value", f"{name}={code}")]
    labelled = ["--labels", folder / "feelings.csv", *values]
    sides = ["--human", folder / "human.json", "--captions", folder / "cap.json", "--lexicon", folder / "feeling.yaml"]
    classes = {image: world.classes[image] for image in world.images}
    return folder, classes, labelled, [*sides, "--attribute", "feeling", *labelled]


QUICK = ["--metrics", "lic,dba-g,ratio", "--folds", 2, "--ba", "least=2", *ONCE]
Own = tuple[Path, dict[str, str], list[object], list[object]]


@pytest.mark.slow
def test_own_classes_in_a_run(own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By class, by task, quality, and the page, tables and card made of it."""
    monkeypatch.setenv("PATH", str(tmp_path))  # No Java: METEOR takes seconds to start. ``quality/`` has it.
    out, (*_, given) = tmp_path / "out", own
    done = done_well("evaluate", *given, *QUICK, "--breakdown", "--quality", "--verbose", "--out", out)
    run = read_json(out / "metrics.json")["run"]
    assert (run["attribute"], run["captioners"]["cap"]["without_images"]) == ("feeling", [])
    assert run["captioners"]["cap"]["images"] == dict(zip(SPELT, SIZES[3], strict=True))
    printed, page = " ".join(done.stdout.split()), (out / "report.html").read_text(encoding="utf-8")
    assert "Ratio: captions that name amusement over captions that name contentment." in printed
    assert all(name in printed and f">{name}<" in page for name in SPELT)
    tasks = pd.read_csv(out / "breakdown" / "tasks.csv")
    for (metric, judge), row in results_of(out).items():
        mine = tasks[(tasks["metric"] == metric) & (tasks["judge"] == judge)]
        assert mine["contribution"].sum() == pytest.approx(row["amplification"], abs=1e-9)
    words = pd.read_csv(out / "breakdown" / "words.csv", keep_default_na=False)
    assert {*words["leans_to"]} - {""} == {*SPELT}
    assert {*SPELT, "all"} < {*pd.read_csv(out / "quality.csv")["group"]}
    for kind in ("latex", "md", "card"):
        assert "LIC" in done_well("report", out, "--format", kind).stdout


def test_own_classes_of_trained_judges(own: Own, tmp_path: Path) -> None:
    """``judge train``, ``predict``, ``export`` and ``attribute``."""
    (folder, classes, labelled, given), kept, judge = own, tmp_path / "kept", tmp_path / "judge"
    done_well("train", "--checkpoints", kept, *given, "--metrics", "lic", *QUICK[2:-2])
    weights = sorted(kept.glob("*.weights.safetensors"))[0]
    done_well("predict", "--judge-weights", weights, "--captions", folder / "cap.json", "--out", tmp_path / "a.csv")
    for row in read_rows(tmp_path / "a.csv"):
        chances = {name[2:-1]: float(row[name]) for name in row if name.startswith("p(")}
        assert [*chances] == sorted(SPELT)
        assert sum(chances.values()) == pytest.approx(1)
        assert row["predicted"] == max(chances, key=chances.__getitem__)
    done_well("export", "--judge-weights", weights, "--out", judge)
    assert "feeling: amusement, awe, contentment" in (judge / "README.md").read_text(encoding="utf-8")
    out = tmp_path / "explained"
    asked = ["attribute", "--judge-weights", judge, "--captions", folder / "cap.json", "--out", out, "--overwrite"]
    # Labels are of what the judge guesses, as its file says; of each image its own class is explained.
    done_well(*asked, *labelled)
    table = pd.read_csv(out / "words.csv", keep_default_na=False, dtype={"image_id": str})
    assert {*table["method"]} == {"exact", "occlusion"}
    assert table.drop_duplicates("image_id").set_index("image_id")["explained"].to_dict() == classes
    assert "no column of gender labels" in refusal(*asked, *labelled, "--attribute", "gender")
    assert "'amusement' is no class of age" in refusal(*asked, *labelled, "--lexicon", "age")

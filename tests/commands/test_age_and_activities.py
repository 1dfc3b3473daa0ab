"""Age, alone and beside gender, and activities as tasks: ``judge evaluate`` on captions of real COCO images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from helpers import done_well, judge

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
EACH = 30  # Images of each age.
QUICK = {"judge": "linear", "folds": 2, "refits": 0, "chance": 0, "resamples": 100}


def derived(human: Captions, lexicon: Lexicon) -> dict[str, str]:
    """Images whose captions name one class of the lexicon and no other, by a slow loop."""
    named = {
        image: {name for text in texts for name in lexicon.mentions(tokenize(text))}
        for image, texts in human.by_image.items()
    }
    return {image: next(iter(of)) for image, of in named.items() if len(of) == 1}


@pytest.fixture(scope="module")
def files(coco: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``human.json``, a caption an image, and ``nic_plus.json``: 30 images of each age, as their captions say."""
    folder = tmp_path_factory.mktemp("coco")
    whole = json.loads((coco / "captions_human.json").read_text(encoding="utf-8"))
    ages = derived(read_captions(coco / "captions_human.json", side="human"), AGE)
    few = {int(image) for name in AGE.classes for image in sorted(i for i, of in ages.items() if of == name)[:EACH]}
    # Those that name the age first, so that one caption suffices.
    telling = sorted(whole["annotations"], key=lambda of: not AGE.mentions(tokenize(of["caption"])))
    counts: Counter[int] = Counter()
    kept = []
    for annotation in telling:
        counts[annotation["image_id"]] += 1
        if annotation["image_id"] in few and counts[annotation["image_id"]] == 1:
            kept.append(annotation)
    content = {"images": [of for of in whole["images"] if of["id"] in few], "annotations": kept}
    (folder / "human.json").write_text(json.dumps(content), encoding="utf-8")
    generated = json.loads((coco / "results" / "nic_plus.json").read_text(encoding="utf-8"))
    results = [of for of in generated if of["image_id"] in few]
    (folder / "nic_plus.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def measure(folder: Path, **settings: Any) -> tuple[dict[str, Summary], Mapping[str, Any]]:
    """Metric -> its row, and what is told of the run."""
    found = evaluate(human=folder / "human.json", captions=folder / "nic_plus.json", **QUICK, **settings)
    return {row.metric.name: row for row in found.summaries}, found.run


def test_age_derived_and_from_a_file(files: Path) -> None:
    """Three classes through every kind of metric; a file with the same labels, spelt otherwise, gives the same."""
    metrics = "lic,leakage,dbac,ba,dba,ratio,ratio:child/adult,error"
    rows, run = measure(files, attribute="age", metrics=metrics)
    assert rows.keys() >= {"lic", "leakage", "dbac-at", "dbac-ta", "ba", "dba-o", "dba-g", "ratio", "error"}
    human = read_captions(files / "human.json", side="human")
    ages = derived(human, AGE)
    assert run["captioners"]["nic_plus"]["images"] == dict.fromkeys(("adult", "child", "old"), EACH)
    assert run["labels"]["derived"]
    generated = read_captions(files / "nic_plus.json", side="generated")
    wrong = [bool(AGE.mentions(tokenize(generated.by_image[image][0])) - {name}) for image, name in ages.items()]
    assert rows["error"].published == pytest.approx(np.mean(wrong))
    assert 0 < rows["error"].published < 0.2
    assert rows["error"].human == 0  # Labels are made from these captions.
    said = Counter(name for (text,) in generated.by_image.values() for name in AGE.mentions(tokenize(text)))
    assert rows["ratio:child/adult"].generated == pytest.approx(said["child"] / said["adult"])
    for name in ("lic", "leakage"):
        assert 0 < rows[name].human < 1
        assert rows[name].amplification == pytest.approx(rows[name].generated - rows[name].human)

    spelt = {"adult": "Grown-up", "child": "kid", "old": "elderly"}
    lines = ["image_id,age", *(f"{image},{spelt[name]}" for image, name in ages.items())]
    (files / "age.csv").write_text("\n".join(lines), encoding="utf-8")
    again, told = measure(files, attribute="age", labels=files / "age.csv", metrics="lic,error")
    assert not told["labels"]["derived"]
    assert again["lic"].amplification == rows["lic"].amplification
    assert again["error"].published == rows["error"].published


def test_gender_and_age_at_once(files: Path) -> None:
    rows, run = measure(files, attribute="gender,age", metrics="lic,error")
    human = read_captions(files / "human.json", side="human")
    parts = [derived(human, lexicon) for lexicon in (GENDER, AGE)]
    counts = Counter(f"{parts[0][image]} & {parts[1][image]}" for image in parts[0].keys() & parts[1].keys())
    assert run["captioners"]["nic_plus"]["images"] == {name: of for name, of in sorted(counts.items()) if of >= 10}
    assert len(run["captioners"]["nic_plus"]["images"]) >= 3
    assert 0 < (rows["lic"].human or 0) < 1


def tasks_of(human: Captions, lexicon: Lexicon) -> set[str]:
    """Tasks that captions of some images name, and of others do not."""
    shown = [{name for text in of for name in lexicon.mentions(tokenize(text))} for of in human.by_image.values()]
    counts = Counter(name for of in shown for name in of)
    return {name for name, count in counts.items() if 0 < count < len(shown)} - {"person"}


def test_activities_are_tasks(files: Path) -> None:
    metrics = "dbac-at,dbac-ta,dpac-at,dpac-ta,ba-objects,dba-o,dba-g"
    rows, run = measure(files, attribute="age", metrics=metrics, tasks="activities")
    assert [*rows] == metrics.split(",")
    for name, row in rows.items():
        assert row.amplification is not None, name
        assert abs(row.amplification) < 1
    expected = tasks_of(read_captions(files / "human.json", side="human"), ACTIVITIES)
    assert {"sitting", "holding", "eating"} <= expected
    assert run["captioners"]["nic_plus"]["counted"]["objects"] == len(expected)


def test_activities_beside_objects(files: Path, tmp_path: Path) -> None:
    given = ("--human", files / "human.json", "--captions", files / "nic_plus.json", "--attribute", "age")
    tasks = (
        "--metrics",
        "ba-objects,dba-g",
        "--tasks",
        "coco-objects,activities",
        "--resamples",
        100,
        "--out",
        tmp_path / "out",
    )
    done_well("evaluate", *given, *tasks)
    found = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    both = load_tasks(["coco-objects", "activities"])
    expected = tasks_of(read_captions(files / "human.json", side="human"), both)
    assert expected & ACTIVITIES.classes.keys()
    assert expected - ACTIVITIES.classes.keys()
    assert found["results"][0]["published"] is not None
    assert found["run"]["captioners"]["nic_plus"]["counted"]["objects"] == len(expected)
    assert yaml.safe_load((tmp_path / "out" / "run.yaml").read_text())["tasks"] == ["coco-objects", "activities"]


def test_what_cannot_be_told_of_tasks(files: Path, tmp_path: Path) -> None:
    given = (
        "evaluate",
        "--human",
        files / "human.json",
        "--captions",
        files / "nic_plus.json",
        "--out",
        tmp_path / "x",
    )
    for tasks, line in (
        ("coco-objects,activites", "no lexicon 'activites'. Did you mean 'activities'?"),
        ("activities,activities,objects.yaml", "objects.yaml: no such file"),
    ):
        done = judge(*given, "--metrics", "dba", "--tasks", tasks, "--out", tmp_path / "x")
        assert done.exit_code == 2
        assert line in done.output
    assert not (tmp_path / "x").exists()


def corpus_of(human: Mapping[str, Sequence[str]], tasks: Tasks | None) -> Corpus:
    sides = [Captions(name, {image: tuple(of) for image, of in human.items()}) for name in ("human", "mine")]
    return Corpus(sides[0], (sides[1],), None, tasks)


def test_a_list_of_objects_beside_derived_activities() -> None:
    """Of each lexicon that the list says nothing of, tasks are what captions name; the list stays as it is."""
    human = {"1": ["a woman sits on a bench"], "2": ["a man throws a ball to a dog"], "3": ["a man"]}
    listed = Tasks(("bench", "dog"), {"1": (0, 1), "2": (), "3": (1,)}, "mine.json")
    words = Lexicons(GENDER, load_tasks(["coco-objects", "activities"]))
    truth = EvidenceBuilder(corpus_of(human, listed), words).truth.tasks
    assert truth is not None
    shown = {image: {truth.names[index] for index in of} for image, of in truth.by_image.items()}
    assert shown == {"1": {"bench", "dog", "sitting"}, "2": {"throwing"}, "3": {"dog"}}
    assert set(truth.names) == {"bench", "dog", *ACTIVITIES.classes}
    assert all(first < second for first, second in pairwise(truth.names))
    assert all(tuple(sorted(of)) == of for of in truth.by_image.values())
    assert truth.source.startswith("mine.json; derived: ")
    # A list that has activities of its own is complete.
    whole = Tasks(("bench", "sitting"), {"1": (0,), "2": (1,), "3": ()}, "mine.json")
    assert EvidenceBuilder(corpus_of(human, whole), words).truth.tasks is whole
    alone = Lexicons(GENDER, ACTIVITIES)
    assert EvidenceBuilder(corpus_of(human, listed), alone).truth.tasks is listed
    assert EvidenceBuilder(corpus_of(human, None), words).truth.tasks is None


def test_joined_tasks_are_of_images_that_both_know() -> None:
    first = Tasks(("b",), {"1": (0,), "2": ()}, "one", ignored={"crowds": 2})
    second = Tasks(("a", "c"), {"1": (0, 1), "3": (1,)}, "two", ignored={"no task named": 1})
    found = join_tasks(first, second)
    assert (found.names, found.by_image) == (("a", "b", "c"), {"1": (0, 1, 2)})
    assert (found.source, found.ignored) == ("one; two", {"crowds": 2, "no task named": 1})

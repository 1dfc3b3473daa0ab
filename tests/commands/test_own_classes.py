"""An attribute of one's own with three classes, from files: a YAML of words and a table of labels are enough."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from classes import SIZES, World, draw
from helpers import done_well, refusal, results_of

QUICK = ["--folds", 2, "--refits", 0, "--chance", 0, "--workers", 1, "--least", 2]
# How the table spells them.
SPELT = {"amusement": "1", "awe": "2", "contentment": "3"}


class Files:
    """A world as files."""

    def __init__(self, folder: Path) -> None:
        self.world: World = draw(SIZES[3])
        self.human, self.captions = folder / "human.json", folder / "cap.json"
        self.labels, self.lexicon = folder / "feelings.csv", folder / "feeling.yaml"
        self.human.write_text(json.dumps({image: list(of) for image, of in self.world.human.items()}))
        self.captions.write_text(json.dumps({image: of[0] for image, of in self.world.generated.items()}))
        rows = [f"{image},{SPELT[name]}" for image, name in self.world.classes.items()]
        self.labels.write_text("\n".join(["image_id,feeling", *rows, ""]))
        self.lexicon.write_text(self.world.lexicon)

    @property
    def labelled(self) -> list[object]:
        values = [part for name, code in SPELT.items() for part in ("--label-value", f"{name}={code}")]
        return ["--attribute", "feeling", "--labels", self.labels, *values]

    @property
    def given(self) -> list[object]:
        return ["--human", self.human, "--captions", self.captions, "--lexicon", self.lexicon, *self.labelled]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("own"))


def test_evaluate(files: Files, tmp_path: Path) -> None:
    """All of a report: by class, by task, quality, and the page, tables and card made of it."""
    out = tmp_path / "out"
    metrics = "lic,dba-g,ratio"
    done = done_well(
        "evaluate", *files.given, "--metrics", metrics, *QUICK, "--resamples", 100, "--breakdown", "--quality",
        "--verbose", "--out", out,
    )  # fmt: skip
    found = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert (found["run"]["attribute"], found["run"]["captioners"]["cap"]["without_images"]) == ("feeling", [])
    assert found["run"]["captioners"]["cap"]["images"] == dict(zip(SPELT, SIZES[3], strict=True))
    rows = results_of(out)
    assert all(row["amplification"] is not None for row in rows.values())
    for name in SPELT:
        assert name in done.stdout
    assert "Ratio: captions that name amusement over captions that name contentment." in " ".join(done.stdout.split())
    tasks = pd.read_csv(out / "breakdown" / "tasks.csv")
    for (metric, judge), row in rows.items():
        mine = tasks[(tasks["metric"] == metric) & (tasks["judge"] == judge)]
        assert mine["contribution"].sum() == pytest.approx(row["amplification"], abs=1e-9)
    words = pd.read_csv(out / "breakdown" / "words.csv", keep_default_na=False)
    assert {*words["leans_to"]} - {""} == {*SPELT}
    quality = pd.read_csv(out / "quality.csv")
    assert {*SPELT, "all"} < {*quality["group"]}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(f">{name}<" in page for name in SPELT)
    for kind in ("latex", "md", "card"):
        assert "LIC" in done_well("report", out, "--format", kind).stdout


def test_train_predict_export_attribute(files: Files, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done_well("train", "--checkpoints", kept, *files.given, "--metrics", "lic", *QUICK)
    weights = sorted(kept.glob("*.weights.safetensors"))
    answers = tmp_path / "answers.csv"
    done_well("predict", "--judge-weights", weights[0], "--captions", files.captions, "--out", answers)
    with answers.open(encoding="utf-8", newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    assert [name for name in rows[0] if name.startswith("p(")] == [f"p({name})" for name in sorted(SPELT)]
    for row in rows:
        chances = {name: float(row[f"p({name})"]) for name in SPELT}
        assert sum(chances.values()) == pytest.approx(1)
        assert row["predicted"] == max(chances, key=chances.__getitem__)
    folder = tmp_path / "judge"
    done_well("export", "--judge-weights", weights[0], "--out", folder)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "feeling: amusement, awe, contentment" in card
    assert "a mean over classes" in card
    assert "(1 / classes: 0.333)" in card
    out = tmp_path / "explained"
    given = ["--judge-weights", folder, "--captions", files.captions, "--out", out, "--overwrite"]
    done_well("attribute", *given, *files.labelled)
    table = pd.read_csv(out / "words.csv", keep_default_na=False, dtype={"image_id": str})
    assert {*table["method"]} == {"exact", "occlusion"}
    # Of each image its own class is explained.
    explained = table.drop_duplicates("image_id").set_index("image_id")["explained"]
    assert explained.to_dict() == {image: files.world.classes[image] for image in files.world.images}
    # Without --attribute the labels are of what the judge guesses, as its file says.
    before, values = (out / "words.csv").read_bytes(), files.labelled[2:]
    for lexicon in [], ["--lexicon", files.lexicon]:
        done_well("attribute", *given, *values, *lexicon)
        assert (out / "words.csv").read_bytes() == before
    assert "attribute: feeling\n" in (out / "attribute.yaml").read_text(encoding="utf-8")
    assert "no column of gender labels" in refusal("attribute", *given, *values, "--attribute", "gender")
    assert "'amusement' is no class of age" in refusal("attribute", *given, *values, "--lexicon", "age")

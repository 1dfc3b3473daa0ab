"""Emotion from files in ArtEmis's own form: the commands of docs/guides/emotion.md, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from helpers import done_well, refusal
from paintings import SPEAKERS, write_world

from judge import Corpus, evaluate
from judge.corpus.labels import LabelOptions, read_labels
from judge.text.lexicon import load_lexicon

TABLE_7 = tuple(SPEAKERS)
V1 = "artemis_dataset_release_v0.csv"
# Networks that learn nothing in so short a time: that the way through is whole is tested here, numbers elsewhere.
SMALL = ["--backbone", "test_resnet", "--backbone-weights", "random", "--image-size", 32, "--epochs", 1]
QUICK = ["--protocol", "paper", "--seeds", 1, "--refits", 0, "--chance", 0, "--workers", 1, "--resamples", 100]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 paintings as ArtEmis v1; ``combined.csv`` calls most of them v2's new ones, ``new.csv`` has these alone."""
    folder = tmp_path_factory.mktemp("emotion")
    write_world(folder, images=200, pictures=32)
    people = pd.read_csv(folder / V1)
    people["version"] = np.where(people["painting"].str[-1] != "0", "new", "old")
    people.to_csv(folder / "combined.csv", index=False)
    people[people["version"] == "new"].to_csv(folder / "new.csv", index=False)
    return folder


def inputs(world: Path, human: str = V1, *, captioners: tuple[str, ...] = TABLE_7) -> list[object]:
    given: list[object] = ["evaluate", "--human", world / human, "--labels", world / human]
    given += ["--attribute", "emotion", "--label-rule", "majority"]
    return given + [part for name in captioners for part in ("--captions", world / "speakers" / f"{name}.csv")]


def facts(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_table_7_of_files_as_released(world: Path, tmp_path: Path) -> None:
    """Three sources of emotion, LIC and ImageCaptioner2, images as they are."""
    seen = ["--images", world / "images", "--mask", "none", "--features", tmp_path / "features"]
    asked = ["--metrics", "lic,imagecaptioner2", "--judge", "linear,sat", *SMALL, *QUICK]
    done = done_well(*inputs(world), *seen, *asked, "--verbose", "--out", tmp_path / "run")
    said = " ".join(done.stdout.split())
    # 10 paintings more (a twentieth) have no emotion that most feel: 210 of five.
    assert "Labels vote: of 1,050 labels the most frequent one of an image is its class" in said
    assert "10 are tied" in said
    assert '"Therefore, the emotion is [Answer]"' in said
    assert "words alone" not in said  # Nothing is masked: as the paper has it.
    found = facts(tmp_path / "run")
    rows = {(row["captioner"], row["metric"]): row for row in found["results"]}
    assert {name for name, _ in rows} == {*TABLE_7}
    assert len(rows) == 6
    for (name, metric), row in rows.items():
        assert 0 <= row["human"] <= 1, (name, metric)
    labels = found["run"]["labels"]
    assert labels["rule"] == "majority"
    assert labels["votes"]["labels"] == 1050
    assert found["run"]["lexicon"]["name"] == "emotion"
    assert sum(found["run"]["captioners"]["voted"]["images"].values()) == 200
    settings = yaml.safe_load((tmp_path / "run" / "run.yaml").read_text(encoding="utf-8"))
    assert (settings["label_rule"], settings["where"], settings["own_captions"]) == ("majority", {}, False)


def test_one_version_alone_and_captions_of_ones_own(world: Path, tmp_path: Path) -> None:
    """``--where version=new`` of both versions is v2's own file; ``--own-captions`` leaves out who felt otherwise."""
    asked = ["--metrics", "lic", *QUICK]
    chosen = [*inputs(world, "combined.csv", captioners=("voted",)), "--where", "version=new"]
    alone = inputs(world, "new.csv", captioners=("voted",))
    for name, given in {"where": chosen, "alone": alone, "own": [*chosen, "--own-captions"]}.items():
        done_well(*given, *asked, "--out", tmp_path / name)
    where, by_itself, own = (facts(tmp_path / name) for name in ("where", "alone", "own"))
    assert where["results"] == by_itself["results"]
    assert where["run"]["captioners"] == by_itself["run"]["captioners"]
    votes = own["run"]["labels"]["votes"]
    assert votes["own captions"] + votes["other captions"] == 5 * sum(
        own["run"]["captioners"]["voted"]["images"].values()
    )
    assert votes["own captions"] > 3 * votes["other captions"]
    told = done_well("report", tmp_path / "own", "--format", "md").stdout
    assert f"the {votes['own captions']:,} whose own label is their image's" in " ".join(told.split())


def test_labels_that_differ_are_told_of(world: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "run"]
    given = inputs(world, "combined.csv")
    apart = [part for part in given if part not in ("--label-rule", "majority")]
    assert "or have them vote with --label-rule majority" in refusal(*apart, *out)
    assert "no record where version is 'newest'" in refusal(*given, "--where", "version=newest", *out)
    align = ["align", *given[1:], "--where", "version=old", "--where", "emotion=joy"]
    assert "no record where emotion is 'joy'" in refusal(*align, *out)
    assert "'version' is not KEY=VALUE" in refusal(*given, "--where", "version", *out)
    human = [
        "evaluate",
        "--human",
        world / V1,
        "--captions",
        world / "speakers" / "voted.csv",
        "--attribute",
        "emotion",
    ]
    assert "--own-captions: needs labels of one attribute" in refusal(*human, "--own-captions", *out)
    assert not any(tmp_path.iterdir())


def test_from_python(world: Path) -> None:
    emotions = LabelOptions("majority")
    labels = read_labels(world / V1, attribute="emotion", lexicon=load_lexicon("emotion"), options=emotions)
    corpus = Corpus.read(human=world / V1, captions={"voted": world / "speakers" / "voted.csv"}, labels=labels)
    result = evaluate(corpus, metrics=["sc"], folds=2, refits=0, chance=0, workers=1, resamples=100)
    assert (result.run["attribute"], result.run["labels"]["rule"]) == ("emotion", "majority")

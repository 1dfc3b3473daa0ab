"""Adding to a copy of the package, as CONTRIBUTING.md says: a judge is a file and a line, an attribute a YAML file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import few

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import FAITHFUL

PACKAGE = Path(__file__).parents[1] / "judge"
QUICK = ["--folds", "2", "--epochs", "1", "--refits", "0", "--chance", "0", "--resamples", "100", "--workers", "1"]

TEXT = '''"""A text judge: the mean of word vectors."""

from torch import nn

from judge.judges import Blueprint, Recipe
from judge.judges.recurrent import build_vocabulary, number_words


class Bag(nn.Module):
    def __init__(self, target, samples, materials):
        super().__init__()
        self.vocabulary = build_vocabulary(samples)
        self.vectors = nn.Embedding(len(self.vocabulary), 8)
        self.output = nn.Linear(8, len(target.classes))

    def collate(self, samples):
        return number_words(samples, self.vocabulary)

    def forward(self, batch):
        return self.output(self.vectors(batch["tokens"]).mean(dim=1))


BLUEPRINTS = {"bag": Blueprint("bag", "this test", network=Bag, recipe=Recipe(epochs=1, learning_rate=0.01))}
'''

VISION = '''"""A vision judge: the mean colour of a picture whose people are hidden."""

import torch
from torch import nn

from judge.judges import Blueprint, Recipe


class Colour(nn.Module):
    def __init__(self, target, samples, materials):
        super().__init__()
        self.pictures = materials.pictures
        self.output = nn.Linear(3, len(target.classes))

    def collate(self, samples):
        colours = [self.pictures.read(sample.image).mean(axis=(0, 1)) for sample in samples]
        return {"colours": torch.tensor(colours, dtype=torch.float32) / 255}

    def forward(self, batch):
        return self.output(batch["colours"])


BLUEPRINTS = {
    "colour": Blueprint(
        "colour",
        "this test",
        network=Colour,
        recipe=Recipe(epochs=1, learning_rate=0.01),
        modalities=frozenset({"caption", "image"}),
    )
}
'''

LEXICON = """# source: this test
name: age
classes:
  child: [kid, kids]
  adult: [adult, adults]
  older: [elder, elders]
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "judge", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def world(tmp_path: Path) -> WorldFiles:
    return few(write_world(make_world(60, seed=5), {"plain": FAITHFUL}, tmp_path / "world", pictures=64))


def add_judge(copy: Path, name: str, content: str) -> None:
    """One file and one line."""
    (copy / "judges" / f"{name}.py").write_text(content, encoding="utf-8")
    registry = copy / "judges" / "__init__.py"
    head = "FILES: dict[str, str] = {\n"
    before, after = registry.read_text(encoding="utf-8").split(head)
    registry.write_text(f'{before}{head}    "{name}": "{name}",\n{after}', encoding="utf-8")


def evaluate(copy: Path, world: WorldFiles, *arguments: object) -> dict[str, Any]:
    """``metrics.json`` of ``judge evaluate``, run from the copy."""
    out = copy.parent / "out"
    given = ["--human", world.human, "--captions", world.captions["plain"], *arguments, *QUICK, "--out", out]
    done = subprocess.run(
        [sys.executable, "-m", "judge", "evaluate", *map(str, given)],
        cwd=copy.parent,
        env={**os.environ, "PYTHONPATH": str(copy.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return found


def test_a_judge_is_one_file_and_one_line(copy: Path, world: WorldFiles) -> None:
    """One that reads, and one that sees."""
    add_judge(copy, "bag", TEXT)
    add_judge(copy, "colour", VISION)
    seen = ["--images", world.folder / "images", "--instances", world.folder / "instances.json"]
    judges = ["--metrics", "lic,imagecaptioner2", "--judge", "bag,colour"]
    rows = evaluate(copy, world, "--labels", world.labels, *seen, *judges)["results"]
    assert [(row["metric"], row["judge"], row["images"]) for row in rows] == [
        ("lic", "bag", 60),
        ("imagecaptioner2", "colour", 60),
    ]
    for row in rows:
        assert 0 < row["human"] < 1
        assert row["amplification"] == pytest.approx(row["generated"] - row["human"])


def test_an_attribute_with_three_classes_is_one_yaml_file(copy: Path, world: WorldFiles) -> None:
    """Beside labels; every third image shows a child, an adult or an older person, and half of the captions say so."""
    (copy / "text" / "lexicons" / "age.yaml").write_text(LEXICON, encoding="utf-8")
    words = {"child": "kid", "adult": "adult", "older": "elder"}
    classes = dict(zip(make_world(60, seed=5).labels.by_image, [*words] * 20, strict=True))
    labels = copy.parent / "ages.csv"
    labels.write_text("\n".join(["image_id,age", *(f"{image},{name}" for image, name in classes.items())]))
    human = json.loads(world.human.read_text(encoding="utf-8"))
    for annotation in human["annotations"][::2]:
        annotation["caption"] += f" with a {words[classes[str(annotation['image_id'])]]}"
    world.human.write_text(json.dumps(human), encoding="utf-8")
    found = evaluate(copy, world, "--labels", labels, "--attribute", "age", "--metrics", "lic")
    (row,) = found["results"]
    assert (row["attribute"], row["judge"], row["images"]) == ("age", "linear", 60)
    assert 0 < row["human"] < 1
    assert found["run"]["lexicon"] == {"name": "age", "source": "this test"}
    captioner = found["run"]["captioners"]["plain"]
    assert captioner["images"] == dict.fromkeys(sorted(words), 20)
    assert captioner["coverage"]["human"]["one"] == 0.5

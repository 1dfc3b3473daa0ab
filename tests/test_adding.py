"""Adding to a copy of the package, as CONTRIBUTING.md says: a judge or a metric is one file and one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import few, inputs_of

from judge.calibration.grammar import WorldFiles, make_world, simulate, write_world
from judge.calibration.world import FAITHFUL, Captioner
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, Labels

PACKAGE = Path(__file__).parents[1] / "judge"
QUICK = ["--folds", "2", "--epochs", "1", "--refits", "0", "--chance", "0", "--resamples", "100", "--workers", "1"]

TEXT = '''"""A text judge: the mean of word vectors."""

from torch import nn

from judge.judges import Blueprint, Recipe
from judge.judges.encoders import build_vocabulary, number_words


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


METRIC = '''
"""Gap: how far the classes lie apart in the share of their captions that name an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from judge.metrics.counted.contingency import ContingencyTable, divide
from judge.metrics.counted.spec import Compared, CountedMetric
from judge.types import Direction, FloatArray


@dataclass(frozen=True, kw_only=True)
class Gap(CountedMetric):
    direction: Direction | None = "A->T"
    of: Literal["mean", "largest"] = "mean"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"largest": {"of": "largest"}}
    verdicts: ClassVar[tuple[str, str]] = ("wider", "narrower")

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> Gap:
        return self

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        gaps = [np.ptp(divide(table.together, table.attribute[..., :, None]), axis=-2) for table in (truth, predicted)]
        human, generated = (of.mean(axis=-1) if self.of == "mean" else of.max(axis=-1) for of in gaps)
        return Compared(generated - human, gaps[1] - gaps[0], human, generated)
'''


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "judge", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def world(tmp_path: Path) -> WorldFiles:
    return few(write_world(make_world(60, seed=5), {"plain": FAITHFUL}, tmp_path / "world"))


def insert(file: Path, place: str, line: str) -> None:
    """One line, below the one place in a file of the copy."""
    before, after = file.read_text(encoding="utf-8").split(place)
    file.write_text(f"{before}{place}{line}{after}", encoding="utf-8")


def add_judge(copy: Path, name: str, content: str) -> None:
    """One file and one line."""
    (copy / "judges" / f"{name}.py").write_text(content, encoding="utf-8")
    insert(copy / "judges" / "__init__.py", "FILES: dict[str, str] = {\n", f'    "{name}": "{name}",\n')


def evaluate(copy: Path, *arguments: object) -> tuple[dict[str, Any], str]:
    """``metrics.json`` of ``judge evaluate``, run from the copy, and what is printed."""
    out, paths = copy.parent / "out", {"PYTHONPATH": str(copy.parent), "COLUMNS": "200"}
    command = [str(part) for part in (sys.executable, "-m", "judge", "evaluate", *arguments, *QUICK, "--out", out)]
    done = subprocess.run(
        command, cwd=copy.parent, env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "metrics.json").read_text(encoding="utf-8")), done.stdout


def test_a_judge_is_one_file_and_one_line(copy: Path, world: WorldFiles) -> None:
    add_judge(copy, "bag", TEXT)
    judges = ["--metrics", "lic", "--judge", "bag"]
    found, _ = evaluate(copy, *inputs_of(world, "plain"), *judges)
    added = [("lic", "bag", 60)]
    assert [(row["metric"], row["judge"], row["images"]) for row in found["results"]] == added
    for row in found["results"]:
        assert 0 < row["human"] < 1
        assert row["amplification"] == pytest.approx(row["generated"] - row["human"])


def test_a_counted_metric_is_one_file_and_one_row(copy: Path, tmp_path: Path) -> None:
    (copy / "metrics" / "counted" / "gap.py").write_text(METRIC, encoding="utf-8")
    rows, dpa = copy / "metrics" / "rows.py", "from judge.metrics.counted.dpa import Dpa\n"
    insert(rows, dpa, "from judge.metrics.counted.gap import Gap\n")
    row = '        _counted("gap", "Gap", Gap(), "zhao2017men", "by annotated class"),\n'
    insert(rows, "    for row in (\n", row)
    world, captioner = make_world(60, seed=5), Captioner(stereotype=0.9)
    files = write_world(world, {"much": captioner}, tmp_path / "world")
    written, printed = evaluate(copy, *inputs_of(files, "much"), "--metrics", "gap,gap:largest,ba-objects")
    assert "Gap, largest" in printed
    found = written["results"]
    assert [row["metric"] for row in found] == ["gap", "gap:largest", "ba-objects"]
    assert all(row["p_value"] is not None and row["ci"] is not None for row in found)
    assert {row["verdict"] for row in found[:2]} <= {"wider", "narrower", "cannot tell"}
    sides = [
        shares(captions, world.labels) for captions in (world.human, simulate(world, name="much", captioner=captioner))
    ]
    objects = sorted({name for side in sides for name in side})
    for row, pool in zip(found, (np.mean, np.max), strict=False):
        human, generated = (pool([np.ptp(side.get(name, [0, 0])) for name in objects]) for side in sides)
        assert (row["human"], row["generated"]) == (pytest.approx(human), pytest.approx(generated))
        assert row["published"] == pytest.approx(generated - human)


def shares(captions: Captions, labels: Labels) -> dict[str, list[float]]:
    """Object -> of each class's captions, those that name it."""
    lexicon, counts = load_lexicon("coco-objects"), Counter[tuple[str, str]]()
    number = Counter(labels.by_image[image] for image, texts in captions.by_image.items() for _ in texts)
    for image, texts in captions.by_image.items():
        for text in texts:
            counts.update((name, labels.by_image[image]) for name in lexicon.mentions(tokenize(text)) - {"person"})
    return {name: [counts[name, class_] / number[class_] for class_ in labels.classes] for name, _ in counts}

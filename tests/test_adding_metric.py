"""A counted metric is one file and one row: added to a copy of the package, the command measures it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from judge.calibration.grammar import make_world, simulate, write_world
from judge.calibration.world import Captioner
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, Labels

ROOT = Path(__file__).parents[1]

FILE = '''
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
IMPORTS = "from judge.metrics.counted.dpa import Dpa\n"
ROW = '        _counted("gap", "Gap", Gap(), "zhao2017men", "by annotated class"),\n'


def test_a_counted_metric_is_one_file_and_one_row(tmp_path: Path) -> None:
    copy = tmp_path / "judge"
    shutil.copytree(ROOT / "judge", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "metrics" / "counted" / "gap.py").write_text(FILE, encoding="utf-8")
    rows = copy / "metrics" / "rows.py"
    changed = rows.read_text(encoding="utf-8")
    for place, line in ((IMPORTS, "from judge.metrics.counted.gap import Gap\n"), ("    for row in (\n", ROW)):
        assert changed.count(place) == 1
        changed = changed.replace(place, place + line)
    rows.write_text(changed, encoding="utf-8")
    world, captioner = make_world(60, seed=5), Captioner(stereotype=0.9)
    files = write_world(world, {"much": captioner}, tmp_path / "world")
    command = [sys.executable, "-m", "judge", "evaluate", "--human", files.human, "--labels", files.labels]
    command += ["--captions", files.captions["much"], "--metrics", "gap,gap:largest,ba-objects", "--resamples", 100]
    done = subprocess.run(
        [str(part) for part in [*command, "--out", tmp_path / "run"]],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Gap, largest" in done.stdout
    found = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["results"]
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

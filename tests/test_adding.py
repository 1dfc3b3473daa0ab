"""Adding to a copy of the package, as CONTRIBUTING.md says: a judge or a metric is one file and one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.statistics.comparisons import ABOVE, BELOW, NOT_SHOWN

PACKAGE = Path(__file__).parents[1] / "judge"
TEMPLATE = Path(__file__).with_name("plugin_template") / "judge_template"
QUICK = {"folds": 2, "epochs": 1, "refits": 0, "chance": 0, "resamples": 100, "workers": 1}
MEASURE = """
import json, sys
from judge import evaluate
result = evaluate(**json.load(sys.stdin))
print(result, result.table(all=True).to_json(orient="records"), sep="\\n", end="")
"""

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


def insert(file: Path, place: str, line: str) -> None:
    """One line, below the one place in a file of the copy."""
    before, after = file.read_text(encoding="utf-8").split(place)
    file.write_text(f"{before}{place}{line}{after}", encoding="utf-8")


@pytest.mark.slow
def test_a_judge_and_a_metric_are_a_file_and_a_line_each(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "judge"))
    (copy / "judges" / "bag.py").write_text(TEXT, encoding="utf-8")
    insert(copy / "judges" / "names.py", "FILES: dict[str, str] = {\n", '    "bag": "bag",\n')
    shutil.copy(TEMPLATE / "gap.py", copy / "metrics" / "counted" / "gap.py")
    rows, dpa = copy / "metrics" / "rows.py", "from judge.metrics.counted.dpa import Dpa\n"
    insert(rows, dpa, "from judge.metrics.counted.gap import Gap\n")
    row = '        _counted("gap", "Gap", Gap(), "zhao2017men", "by annotated class"),\n'
    insert(rows, "    for row in (\n", row)
    world, captioner = make_world(60, seed=5), Captioner(stereotype=0.9)
    generated = simulate(world, name="much", captioner=captioner)
    asked = {"metrics": "gap,gap:largest,ba-objects,lic", "judge": "bag", **QUICK, "labels": world.labels.by_image}
    asked |= {"human": world.human.by_image, "captions": {"much": generated.by_image}}
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(
        command, cwd=tmp_path, input=json.dumps(asked), capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed, _, table = done.stdout.rpartition("\n")
    assert "Gap, largest" in printed
    by_name = {row["metric"]: row for row in json.loads(table)}
    assert (by_name["lic"]["judge"], by_name["lic"]["images"]) == ("bag", 60)
    assert 0 < by_name["lic"]["human"] < 1
    for name in ("gap", "gap:largest"):  # Their values are worked by hand in test_plugins.py.
        row = by_name[name]
        assert None not in (row["p_value"], row["low"])
        assert row["verdict"] in {ABOVE, BELOW, NOT_SHOWN}
        assert row["published"] == pytest.approx(row["generated"] - row["human"])

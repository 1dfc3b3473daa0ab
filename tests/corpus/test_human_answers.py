"""What people find: scores of captioners beside the metrics."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import caption_options, done_well, fault_of, read_json

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.corpus.scores import read_human_scores

KNOBS = {"none": 0.0, "some": 0.3, "more": 0.6, "much": 0.9}


def test_every_metric_is_compared_with_people(tmp_path: Path) -> None:
    captioners = {name: Captioner(stereotype=knob) for name, knob in KNOBS.items()}
    given = caption_options(write_world(make_world(60, seed=4), captioners, tmp_path / "world"))
    told = dict(zip(KNOBS, (0.1, 0.2, 0.6, 0.7), strict=True))
    scores = tmp_path / "people.csv"
    lines = [f"{name},{score}" for name, score in reversed(told.items())]
    scores.write_text("\n".join(["captioner,score", *lines, "another,0.5"]), encoding="utf-8")
    out = tmp_path / "run"
    asked = ["--metrics", "ba-objects,ratio", "--human-scores", scores, "--resamples", 100, "--out", out]
    done, found = done_well("evaluate", *given, *asked), read_json(out / "metrics.json")
    assert found["run"]["human_scores"] == told
    for metric, title in (("ba-objects", "BA (objects)"), ("ratio", "Ratio")):
        values = [
            row["amplification"] for row in found["results"] if row["metric"] == metric and row["captioner"] in told
        ]
        # Differences between captioners begin so too; behind the title stands their number.
        (line,) = [line for line in done.stdout.splitlines() if re.match(rf"{re.escape(title)}\s+4\s", line)]
        assert f"{np.corrcoef(values, list(told.values()))[0, 1]:+.3f}" in line


@pytest.mark.parametrize(("content", "message"), [
    ('{"none": 0.1}', "no score of captioner 'some' (there are: none). Add it."),
    ('{"none": 0.1, "some": "high"}', "record 2 ('some'): score 'high' is no number. Write it like 0.35."),
    ("model,score\nnone,1\n", "no column 'captioner'. Known: model, score."),
    ("captioner,score\nnone,1\nnone,2\n", "record 2: captioner 'none' has two scores. Keep one of them."),
])  # fmt: skip
def test_human_scores_at_fault(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "people.json"
    path.write_text(content, encoding="utf-8")
    assert message in fault_of(read_human_scores, path, captioners=["none", "some"])

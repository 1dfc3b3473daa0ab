"""``judge evaluate --quality``: scores by class beside bias, in the table, in files and as LIC's figure 3."""

from __future__ import annotations

import importlib.util
import json
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from helpers import caption_options, done_well, refusal

from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Captions of two captioners and of people, as options; labels are derived."""
    captioners = {f"c{knob}": Captioner(stereotype=knob) for knob in (0, 0.9)}
    return caption_options(write_world(make_world(80, seed=2), captioners, tmp_path_factory.mktemp("quality")))


def test_scores_stand_beside_bias(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # No Java, which takes seconds to start.
    out = tmp_path / "run"
    asked = ["--metrics", "ratio,error,lic", "--folds", "2", "--quality", "--resamples", "100"]
    asked += ["--refits", "0", "--chance", "0", "--out", out]
    done = done_well("evaluate", *files, *asked)
    assert "largest gap" in done.stdout
    scores = pd.read_csv(out / "quality.csv")
    assert set(scores["captioner"]) == {"c0", "c0.9"}
    assert {"all", "female", "male"} < set(scores["group"])
    written = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert any(line.startswith("METEOR skipped: ") for line in written["notes"]["warnings"])
    told = written["quality"]
    assert [row["value"] for row in told] == pytest.approx(list(scores["value"]), nan_ok=True)
    # BLEU-4 of what was read, from the file.
    line = scores[(scores["captioner"] == "c0") & (scores["group"] == "all") & (scores["score"] == "BLEU-4")].iloc[0]
    assert 0 < line["low"] < line["value"] < line["high"] < 1
    assert f"{line['value']:.3f}" in done.stdout
    against = {f"{name}.{kind}" for name in ("error-counted", "lic-linear", "ratio-counted") for kind in ("png", "svg")}
    assert against < {path.name for path in (out / "figures").iterdir()}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (out / "figures").glob("*.png"))


def test_what_is_missing_is_told_first(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pycocoevalcap" else find_spec(name, *more)
    )
    told = refusal("evaluate", *files, "--metrics", "ratio", "--quality", "--out", tmp_path / "run")
    assert "[quality]" in told
    assert not (tmp_path / "run").exists()

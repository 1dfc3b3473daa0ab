"""p-values of gaps: by hand, and on data without any; scores of other tools."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import caption_options, done_well, fault_of, measure_quality, refusal

from judge.calibration.grammar import WorldFiles
from judge.corpus.scores import read_image_scores
from judge.quality.exchange import exchange_p
from judge.quality.library import Part, means
from judge.types import Captions, Labels


def p_of(part: Part, *groups: list[int], seed: int = 0, resamples: int = 999) -> float | None:
    generator = np.random.default_rng(seed)
    (found,) = exchange_p(part, [np.array(of) for of in groups], generator=generator, resamples=resamples)
    return found


def test_a_gap_by_hand() -> None:
    """Six images, three a class: of 20 ways to draw a class, those that draw 1, 1, 1 or 0, 0, 0 have a gap of 1."""
    assert p_of(means("x", [1, 1, 1, 0, 0, 0]), [0, 1, 2], [3, 4, 5]) == pytest.approx(2 / 20)
    # Three ones and three zeros always leave a gap, of 1/3 or of 1.
    assert p_of(means("x", [1, 1, 0, 1, 0, 0]), [0, 1, 2], [3, 4, 5]) == pytest.approx(1)
    assert p_of(means("x", [1, np.nan, np.nan, 0, 0, 0]), [1, 2], [3, 4, 5]) is None


def test_p_without_any_gap() -> None:
    """Of 400 captioners without a gap 5% have p below 0.05."""
    generator = np.random.default_rng(5)
    gaps = []
    for seed in range(400):
        one, _ = generator.gamma(1.0, size=(2, 40))
        classes = np.split(generator.permutation(40), [12])
        gaps.append(p_of(means("x", one), *map(list, classes), seed=seed, resamples=199))
    p = np.array(gaps, dtype=np.float64)
    # Two binomial standard errors around each share.
    for level in (0.05, 0.5):
        assert np.mean(p < level) == pytest.approx(level, abs=2 * np.sqrt(level * (1 - level) / 400))


SHAPES = {
    "capevalkit.json": {
        "CLIPScore": 0.5,
        "per_item": {"1.jpg": {"CLIPScore": 0.4, "Ref": 0.6}, "2": {"CLIPScore": 0.6}},
    },
    "each.json": {
        "CLIPScore": {"score": 0.5, "per_item": {"1": 0.4, "2": 0.6}},
        "Ref": {"score": 0.6, "per_item": {"000001": 0.6}},
    },
    "plain.json": {"1": {"CLIPScore": 0.4, "Ref": 0.6}, "2": {"CLIPScore": 0.6}},
    "rows.json": [{"image_id": 1, "CLIPScore": 0.4, "Ref": 0.6}, {"image_id": 2, "CLIPScore": 0.6}],
}


@pytest.mark.parametrize("name", [*SHAPES, "table.csv"])
def test_scores_of_other_tools(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    table = "index,file_name,caption,CLIPScore,Ref\n7,a/COCO_val2014_000000000001.jpg,a man,0.4,0.6\n8,2.jpg,men,0.6,\n"
    path.write_text(json.dumps(SHAPES[name]) if name in SHAPES else table)
    assert read_image_scores(path) == {"CLIPScore": {"1": 0.4, "2": 0.6}, "Ref": {"1": 0.6}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds no records"),
        ('{"CLIPScore": 0.5}', "holds no scores of images"),
        ("image_id,CLIPScore\n1,high\n", "holds no scores of images"),
        ("image_id,x\n1,0.5\n01,0.6\n", "image '1' has two values of x"),
        ("name,x\na,0.5\n", "no column of image ids"),
    ],
)
def test_scores_at_fault(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "scores"
    path.write_text(content)
    assert message in fault_of(read_image_scores, path)


def test_given_scores_have_means_and_gaps() -> None:
    human = Captions("human", {str(n): ("a dog runs",) for n in range(6)})
    generated = Captions("cap", {str(n): ("a dog",) for n in range(6)})
    labels = Labels("gender", ("female", "male"), {str(n): ("female", "male")[n % 2] for n in range(6)}, "made up")
    given = {"CLIPScore": {"0": 0.4, "1": 0.9, "2": 0.6, "3": 0.7}, "CIDEr": {"0": 99.0}}
    found = measure_quality(human, generated, labels=labels, given=given)
    assert found.value("CLIPScore") == pytest.approx(0.65)
    assert found.value("CLIPScore", "male") == pytest.approx(0.8)
    (gap,) = (row for row in found.gaps if row.score == "CLIPScore")
    assert (gap.group, gap.value) == ("gap: male - female", pytest.approx(0.3))
    assert found.value("CIDEr") < 99


def test_a_run_with_a_baseline(finished_world: WorldFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The differences are from the baseline; caption quality stands beside them."""
    monkeypatch.setenv("PATH", str(tmp_path))  # No Java, which takes seconds to start.
    names = list(finished_world.captions)
    scores = tmp_path / "scores.csv"
    images = [row["image_id"] for row in json.loads(finished_world.captions[names[0]].read_text())]
    pd.DataFrame({"image_id": images, "CLIPScore": 0.5}).to_csv(scores, index=False)
    asked = ["evaluate", *caption_options(finished_world), "--metrics", "ratio,error", "--resamples", 100]
    asked += ["--quality", "--quality-scores", f"{names[0]}={scores}"]
    done_well(*asked, "--baseline", names[0], "--out", tmp_path / "run", "--verbose")
    written = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert {(row["first"], row["second"]) for row in written["differences"]} == {(of, names[0]) for of in names[1:]}
    values = {(row["captioner"], row["metric"]): row["amplification"] for row in written["results"]}
    for row in written["differences"]:
        less = values[row["first"], row["metric"]] - values[row["second"], row["metric"]]
        assert row["value"] == pytest.approx(less)
    quality = pd.read_csv(tmp_path / "run" / "quality.csv")
    mean = quality[(quality["score"] == "CLIPScore") & (quality["group"] == "all")]
    assert mean["value"].tolist() == [0.5]
    refused = refusal(*asked, "--baseline", names[0][:-1], "--out", tmp_path / "no")
    assert f"no captioner is called '{names[0][:-1]}'" in refused
    scores.write_text("image_id,x\nnowhere,1\n")
    assert "scores none of the images" in refusal(*asked, "--out", tmp_path / "no")
    assert not (tmp_path / "no").exists()

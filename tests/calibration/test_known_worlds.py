"""Judges of images in drawn worlds whose truth is known: what they must find, and what they must not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import few, settings_of

from judge import evaluate
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner, Parameters

pytestmark = pytest.mark.slow
SIZE = 64
# Judges are asked in few words: those that read less between what tells and the answer learn in fewer steps.
LEARNING = {"epochs": 8, "batch_size": 32, "learning_rate": 0.004, "template": "is [Answer]"}
# Of few words, which judges learn from few images.
KNOBS = {name: Captioner(dose, vocabulary=3) for name, dose in (("zero", 0.0), ("middle", 0.5), ("high", 1.0))}


@pytest.mark.parametrize(("judge", "backbone", "seeds"), [("linear+image", "patches", 10), ("sat", "test_resnet", 2)])
def test_order_of_known_amplifications_in_nine_of_ten_seeds(
    judge: str, backbone: str, seeds: int, tmp_path: Path
) -> None:
    """Also: a captioner that says what people say amplifies nothing, within noise."""
    files = few(write_world(make_world(330, seed=3), KNOBS, tmp_path / "world", pictures=SIZE))
    given = settings_of(files, files.folder.parent) | LEARNING | {"metrics": "imagecaptioner2"}
    result = evaluate(**given | {"seeds": seeds, "judge": judge, "backbone": backbone})
    scores = result.scores.groupby(["seed", "captioner", "side"], observed=True)["probability"].mean().unstack()
    amplification = (scores["generated"] - scores["human"]).unstack()
    ordered = (amplification["zero"] < amplification["middle"]) & (amplification["middle"] < amplification["high"])
    assert ordered.mean() >= 0.9, amplification
    values = result.table().set_index("captioner")["amplification"]
    assert values["zero"] == pytest.approx(0, abs=0.02)
    assert values["high"] > 0.1


def test_with_people_hidden_and_no_correlation_every_judge_is_at_chance(tmp_path: Path) -> None:
    """Nothing goes with the attribute but the person."""
    world = make_world(400, seed=7, parameters=Parameters(association=0.0))
    plain = few(write_world(world, {"zero": KNOBS["zero"]}, tmp_path / "world", pictures=SIZE))
    judges = ["sat", "sat-image-only", "grit", "vl-lic-lstm", "linear"]
    given = settings_of(plain, plain.folder.parent) | LEARNING | {"metrics": ["imagecaptioner2", "lic"], "epochs": 4}
    result = evaluate(**given | {"judge": judges})
    for row in result.summaries:
        chance, spread = {"imagecaptioner2": (0.5, 0.2), "lic": (0.25, 0.3)}[row.metric.name]
        # Four standard errors: spread of one image's quantity over the images held out.
        noise = 4 * spread / np.sqrt(row.images)
        assert row.human == pytest.approx(chance, abs=noise), row
        assert row.generated == pytest.approx(chance, abs=noise), row
    assert len(result.summaries) == 5

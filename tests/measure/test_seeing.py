"""What judges that see images reach where the features name what an image shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import known

from judge import Corpus, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.truth import bayes_score
from judge.calibration.world import DEMO, FAITHFUL, SETTINGS, TASKS


def test_it_reaches_the_optimal_judge_where_its_encoder_sees(tmp_path: Path) -> None:
    """The demo's world with features that name the thing and the setting: within 0.015 of the closed form."""
    world = make_world(1200, seed=3, parameters=DEMO)
    ids = [scene.image_id for scene in world.scenes]
    shown = [np.isin((*TASKS, *SETTINGS), (scene.task, scene.setting)) for scene in world.scenes]
    np.savez(tmp_path / "named.npz", image_id=np.array(ids), features=np.array(shown, dtype=np.float32))
    corpus = Corpus(world.human, (simulate(world, name="none", captioner=FAITHFUL),), world.labels)
    settings = {"metrics": "imagecaptioner2", "judge": "linear+image", "refits": 0, "chance": 0}
    (row,) = evaluate(corpus, **settings, image_features=tmp_path / "named.npz").summaries
    optimal = bayes_score(DEMO, FAITHFUL, score="confidence", uses_images=True)
    assert optimal == pytest.approx(0.621, abs=0.001)
    assert known(row.human) == pytest.approx(optimal, abs=0.015)

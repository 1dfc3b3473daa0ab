"""What judges that see images reach where the features name what an image shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import known

from judge import Corpus, evaluate
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.truth import bayes_score
from judge.calibration.world import DEMO, FAITHFUL, SETTINGS, TASKS, Captioner, Parameters
from judge.types import Captions


def named_features(world: World, path: Path) -> Path:
    """A file of features that name what an image shows."""
    ids = [scene.image_id for scene in world.scenes]
    shown = [np.isin((*TASKS, *SETTINGS), (scene.task, scene.setting)) for scene in world.scenes]
    np.savez(path, image_id=np.array(ids), features=np.array(shown, dtype=np.float32))
    return path


def test_it_reaches_the_optimal_judge_where_its_encoder_sees(tmp_path: Path) -> None:
    """The demo's world with features that name the thing and the setting: within 0.015 of the closed form."""
    world = make_world(1200, seed=3, parameters=DEMO)
    corpus = Corpus(world.human, (simulate(world, name="none", captioner=FAITHFUL),), world.labels)
    settings = {"metrics": "imagecaptioner2", "judge": "linear+image", "refits": 0, "chance": 0}
    (row,) = evaluate(corpus, **settings, image_features=named_features(world, tmp_path / "named.npz")).summaries
    optimal = bayes_score(DEMO, FAITHFUL, score="confidence", uses_images=True)
    assert optimal == pytest.approx(0.621, abs=0.001)
    assert known(row.human) == pytest.approx(optimal, abs=0.015)


@pytest.mark.slow
def test_captions_that_contradict_the_images_of_one_class_are_found(tmp_path: Path) -> None:
    """Nothing goes with the class, and a third of what one captioner names is wrong, in women's images alone.

    Neither its captions nor the images tell the class; both together do.
    """
    world = make_world(700, seed=5, parameters=Parameters(association=0, mention=0.8, place=0.8))
    right, wrong = (simulate(world, name="none", captioner=of) for of in (FAITHFUL, Captioner(error=1 / 3)))
    women = {image for image, name in world.labels.by_image.items() if name == "female"}
    mixed = {image: (wrong if image in women else right).by_image[image] for image in right.by_image}
    corpus = Corpus(world.human, (right, Captions("contradicts", mixed)), world.labels)
    found = evaluate(
        corpus,
        metrics=["conditional:image", "conditional", "lic"],
        refits=4,
        chance=0,
        folds=5,
        workers=1,
        image_features=named_features(world, tmp_path / "named.npz"),
    )
    rows = {(row.captioner, row.metric.name): row for row in found.summaries}
    assert len(rows) == 6
    for (captioner, metric), row in rows.items():
        if captioner == "contradicts" and metric != "lic":
            assert known(row.amplification) > 0.05
            assert known(row.p_value) < 0.01
        else:
            assert abs(known(row.amplification)) < 2.5 * known(row.standard_error)
            assert known(row.amplification) < 0.03

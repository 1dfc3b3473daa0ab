"""Judges that see, in drawn worlds whose truth is known: what they must find, and what they must not.

A test of measurements, not of code paths: judges are trained until they know something, a minute or so in all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import few, known

from judge import evaluate
from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner, Parameters
from judge.measure import Result

pytestmark = pytest.mark.slow
SIZE = 64
QUICK: dict[str, Any] = {
    "metrics": "imagecaptioner2",
    "judge": "sat",
    # Small, and asked in few words: judges that read less between what tells and the answer learn in fewer steps.
    "backbone": "test_resnet",
    "template": "is [Answer]",
    "backbone_weights": "random",
    "image_size": SIZE,
    "protocol": "paper",
    "seeds": 1,
    "epochs": 6,
    "batch_size": 32,
    "learning_rate": 0.004,
    "resamples": 200,
    # Other tests run beside these: two processes that train would each start, and wait for the other.
    "workers": 1,
}
KNOBS = {"zero": Captioner(), "middle": Captioner(stereotype=0.5), "high": Captioner(stereotype=1.0)}


def measured(files: WorldFiles, **settings: Any) -> Result:
    given = {"human": files.human, "captions": dict(files.captions), "labels": files.labels}
    given |= {"images": files.folder / "images", "instances": files.folder / "instances.json"}
    return evaluate(**{**QUICK, **given, "features": files.folder.parent / "features", **settings})


def by_captioner(result: Result) -> dict[str, float]:
    return {row.captioner: row.amplification for row in result.summaries if row.amplification is not None}


@pytest.fixture(scope="module")
def knobs(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    return few(write_world(make_world(330, seed=3), KNOBS, tmp_path_factory.mktemp("knobs") / "world", pictures=SIZE))


def test_order_of_known_amplifications_in_nine_of_ten_seeds(knobs: WorldFiles) -> None:
    """Also: a captioner that says what people say amplifies nothing, within noise."""
    # Judges that another test asks again.
    result = measured(knobs, seeds=10, checkpoints=knobs.folder.parent / "judges")
    scores = result.scores.groupby(["seed", "captioner", "side"])["probability"].mean().unstack()
    amplification = (scores["generated"] - scores["human"]).unstack()
    ordered = (amplification["zero"] < amplification["middle"]) & (amplification["middle"] < amplification["high"])
    assert ordered.sum() >= 9, amplification
    assert by_captioner(result)["zero"] == pytest.approx(0, abs=0.02)
    assert by_captioner(result)["high"] > 0.1


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """Nothing goes with the attribute but the person."""
    world = make_world(400, seed=7, parameters=Parameters(association=0.0))
    return few(write_world(world, {"zero": Captioner()}, tmp_path_factory.mktemp("plain") / "world", pictures=SIZE))


def test_with_people_hidden_and_no_correlation_every_judge_is_at_chance(plain: WorldFiles) -> None:
    judges = ["sat", "sat-image-only", "grit", "vl-lic-lstm", "linear"]
    # Regions and grids of a small network; the words are the same for all.
    result = measured(plain, judge=judges, metrics=["imagecaptioner2", "lic"], epochs=4)
    for row in result.summaries:
        chance, spread = {"imagecaptioner2": (0.5, 0.2), "lic": (0.25, 0.3)}[row.metric.name]
        # Four standard errors: spread of one image's quantity over the images held out.
        noise = 4 * spread / np.sqrt(row.images)
        assert row.human == pytest.approx(chance, abs=noise), row
        assert row.generated == pytest.approx(chance, abs=noise), row
    assert len(result.summaries) == 5


def test_a_judge_of_visible_people_knows_the_attribute(plain: WorldFiles, tmp_path: Path) -> None:
    """The backbone is trained for about half a minute on other drawn scenes, with visible people."""
    seeing = {"backbone_weights": str(train_backbone(tmp_path)), "features": tmp_path / "features"}
    open_, hidden = (measured(plain, mask=mask, **seeing) for mask in ("none", "segment"))
    assert min(known(open_.summaries[0].human), known(open_.summaries[0].generated)) > 0.95
    assert hidden.summaries[0].human == pytest.approx(0.5, abs=0.09)


def train_backbone(folder: Path) -> Path:
    """Weights, with timm's names, of a small network that has learnt the attribute from drawn people."""
    import timm
    import torch
    from safetensors.torch import save_file

    from judge.calibration.drawing import draw

    world = make_world(1200, seed=11, parameters=Parameters(association=0.0))
    pixels = [draw(scene, seed=11, size=SIZE).pixels for scene in world.scenes]
    images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() / 255
    config = timm.get_pretrained_cfg("test_resnet")
    assert config
    mean, std = (torch.tensor(values)[:, None, None] for values in (config.mean, config.std))
    images = ((images - mean) / std).to(memory_format=torch.channels_last)
    answers = torch.tensor([int(scene.attribute == "male") for scene in world.scenes])
    torch.manual_seed(0)
    # Channels last: a quarter less time on a CPU.
    network = timm.create_model("test_resnet", pretrained=False, num_classes=2).to(memory_format=torch.channels_last)
    epochs, batch = 10, 16
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    steps = epochs * len(images) // batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps + epochs)
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(batch):
            # Half of the batches are mirrored, since people stand anywhere.
            seen = images[rows].flip(3) if rows[0] % 2 else images[rows]
            loss = torch.nn.functional.cross_entropy(network(seen), answers[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    path = folder / "backbone.safetensors"
    save_file({name: weight.contiguous() for name, weight in network.state_dict().items()}, path)
    return path

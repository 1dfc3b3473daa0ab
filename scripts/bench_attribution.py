"""What explanation maps cost: 100 drawn scenes, by Show, Attend and Tell and by a tiny BLIP, with both methods.

    python scripts/bench_attribution.py

Weights are random, which does not change the time. SAT uses a ResNet-18 at the images' own size; BLIP has two layers
and images of 64 pixels. Seconds are of all scenes, on two threads, reading included. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
import typer
from bench_judge import SMALL, Drawn, draw, save_blip
from timing import machine, seconds, threads

from judge.attribution.captioner_views import AnswerViews
from judge.attribution.judge_views import BackboneViews, Views
from judge.attribution.maps import METHODS, SAMPLES, MapSettings
from judge.judges import Materials, find_judge
from judge.training.features import FeatureStore

CPU = torch.device("cpu")


def views_of(judge: str, drawn: Drawn, folder: Path, size: int) -> Views:
    """An untrained judge as a function of the images that it is given."""
    blueprint = save_blip(folder / "blip", drawn, size=64, **SMALL) if judge == "blip" else find_judge(judge)
    assert blueprint.network is not None
    if judge == "blip":
        network: Any = blueprint.network(drawn.target, drawn.samples, Materials(drawn.images))
        return AnswerViews(network.eval(), drawn.target, CPU, "--judge hf:blip")
    assert blueprint.backbone is not None
    backbone: Any = blueprint.backbone(drawn.materials("resnet18", size))
    with torch.no_grad():
        shape = tuple(backbone(torch.zeros(1, 3, size, size)).shape[1:])
    made = Materials(drawn.images, features=FeatureStore(shape, {}, backbone.key))
    return BackboneViews(blueprint.network(drawn.target, drawn.samples, made), backbone, drawn.target, CPU)


def explain(views: Views, drawn: Drawn, how: MapSettings) -> None:
    """Maps of all scenes."""
    for sample in drawn.samples:
        pixels = drawn.images.read(str(sample.image))
        for _, mass in how.maps(views.view(sample, pixels), pixels, 0, sample.image_id):
            assert mass.shape == pixels.shape[:2]


def main(
    scenes: Annotated[int, typer.Option(help="images drawn")] = 100,
    size: Annotated[int, typer.Option(help="pixels along a side")] = 160,
) -> None:
    """Draw, then measure."""
    torch.manual_seed(0)
    with TemporaryDirectory() as place, threads(2):
        print(machine(), flush=True)
        drawn = draw(scenes, size, Path(place) / "world")
        for judge in ("sat", "blip"):
            views = views_of(judge, drawn, Path(place), size)
            for method in METHODS:
                spent = seconds(partial(explain, views, drawn, MapSettings((method,), SAMPLES)))
                print(f"{judge}, {method}: {spent:.1f} s", flush=True)


if __name__ == "__main__":
    typer.run(main)

"""What maps of pictures cost: 100 drawn scenes, by Show, Attend and Tell and by a tiny BLIP, both methods.

    python scripts/bench_attribution.py
    python scripts/bench_attribution.py --scenes 20 --size 96

Weights are random: they decide no time. SAT sees through a ResNet-18 at the pictures' own size; BLIP has two layers and
pictures of 64 pixels. Seconds are of all scenes, reading included. Figures: BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from bench_judge import SMALL, Drawn, clock, draw, machine, save_blip, threads

from judge.attribution.captioner_views import AnswerViews
from judge.attribution.judge_views import BackboneViews, Views
from judge.attribution.maps import METHODS, SAMPLES, MapSettings
from judge.judges import Materials, find_judge
from judge.training.features import FeatureStore

CPU = torch.device("cpu")


def views_of(judge: str, drawn: Drawn, folder: Path, size: int) -> Views:
    """An untrained judge as a function of the pictures that it is shown."""
    if judge == "blip":
        blueprint = save_blip(folder / "blip", drawn, size=64, **SMALL)
        assert blueprint.network is not None
        network: Any = blueprint.network(drawn.target, drawn.samples, Materials(drawn.pictures))
        return AnswerViews(network.eval(), drawn.target, CPU, "--judge hf:blip")
    blueprint = find_judge(judge)
    materials = drawn.materials("resnet18", size)
    assert blueprint.backbone is not None
    assert blueprint.network is not None
    backbone: Any = blueprint.backbone(materials)
    with torch.no_grad():
        shape = tuple(backbone(torch.zeros(1, 3, size, size)).shape[1:])
    made = Materials(drawn.pictures, features=FeatureStore(shape, {}, backbone.key))
    return BackboneViews(blueprint.network(drawn.target, drawn.samples, made), backbone, drawn.target, CPU)


def explain(views: Views, drawn: Drawn, how: MapSettings) -> float:
    """Seconds of all scenes."""
    start = clock()
    for sample in drawn.samples:
        pixels = drawn.pictures.read(str(sample.image))
        view = views.view(sample, pixels)
        for _, mass in how.maps(view, pixels, 0, sample.image_id):
            assert mass.shape == pixels.shape[:2]
    return clock() - start


def main() -> None:
    """Draw, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=100, help="pictures drawn [%(default)s]")
    parser.add_argument("--size", type=int, default=160, help="of drawn pictures [%(default)s]")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of GradientShap [%(default)s]")
    parser.add_argument("--threads", type=int, default=2, help="of arithmetic [%(default)s]")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"machine: {machine()}\nsettings: {vars(given)}\nload before: {load:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as place, threads(given.threads):
        folder = Path(place)
        drawn = draw(given.scenes, given.size, folder / "world")
        for judge in ("sat", "blip"):
            views, total = views_of(judge, drawn, folder, given.size), 0.0
            for method in METHODS:
                seconds = explain(views, drawn, MapSettings((method,), given.samples))
                total += seconds
                print(f"{judge}, {method}: {seconds:.1f} s", flush=True)
            print(f"{judge}: {total:.1f} s for {given.scenes} scenes")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()

"""Trials on drawn scenes, for metrics that use images: their doses are known in closed form.

A user's pictures cannot be changed by a dose, and what a judge should find on them is not known. Each draw is a world
of its own: people caption its scenes, and a simulated captioner says what people would, but for its dose.

| change | a dose is |
| --- | --- |
| A->T, T->A | the captioner's ``stereotype``, ``guess`` (:mod:`judge.calibration.world`) |
| vocabulary | it knows so much less of the longest list, as many entries of others; no adjectives, no endings |
| silence | the share of its words that name a class and no longer do |
| brevity | the share of its words for settings that are left out |
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from judge.calibration.grammar import World, longest_list, make_world, simulate
from judge.calibration.response import NOTHING
from judge.calibration.trials import Design, Trial, seed_of
from judge.calibration.truth import bayes_score
from judge.calibration.world import DEFAULT, Captioner, Parameters
from judge.corpus import Corpus
from judge.judges import Modality
from judge.metrics import Metric
from judge.metrics.amplification import AMPLIFICATIONS
from judge.types import Captions
from judge.utils.files import writing

PIXELS = 160
"""Of a picture's side."""
AS_PEOPLE = Captioner(vocabulary=None)
"""Nothing is amplified, and its captions could be people's."""

_DOSED: dict[str, Callable[[float], tuple[Captioner, Parameters]]] = {
    "A->T": lambda dose: (replace(AS_PEOPLE, stereotype=dose), DEFAULT),
    "T->A": lambda dose: (replace(AS_PEOPLE, guess=dose), DEFAULT),
    "vocabulary": lambda dose: (Captioner(vocabulary=max(1, round((1 - dose) * longest_list()))), DEFAULT),
    "silence": lambda dose: (AS_PEOPLE, replace(DEFAULT, gendered=(1 - dose) * DEFAULT.gendered)),
    "brevity": lambda dose: (AS_PEOPLE, replace(DEFAULT, place=(1 - dose) * DEFAULT.place)),
}


def dosed(change: str, dose: float) -> tuple[Captioner, Parameters]:
    """The captioner with a dose of a change of :data:`~judge.calibration.inject.CHANGES`, and how much it says."""
    return _DOSED[change](dose) if dose else (AS_PEOPLE, DEFAULT)


def draw_worlds(design: Design) -> Iterator[Trial]:
    """All draws: one caption of people's and one of the captioner's for each scene. Pictures are not drawn yet."""
    for number in range(max(design.nulls, design.draws)):
        world = make_world(design.images, seed=seed_of(design.seed, number))
        human = replace(world.human, by_image={image: of[:1] for image, of in world.human.by_image.items()})
        changes = design.changes if number < design.draws else ()
        for change, dose in [(NOTHING, 0.0), *product(changes, sorted(set(design.doses)))]:
            said = _caption(world, change, dose)
            yield Trial(change, dose, number, Corpus(human, (said,), world.labels), world)


def _caption(world: World, change: str, dose: float) -> Captions:
    captioner, parameters = dosed(change, dose)
    # Under one name, so that what the captioner draws does not depend on the dose.
    return simulate(replace(world, parameters=parameters), name="a captioner", captioner=captioner)


def true_rise(metric: Metric, change: str, dose: float, *, blanked: Collection[Modality] = ()) -> float:
    """How far a dose moves ``metric`` for an optimal judge with unlimited data, people hidden exactly.

    Args:
        metric: it uses images.
        change: a key of :data:`~judge.calibration.inject.CHANGES`.
        dose: in [0, 1].
        blanked: what the judge is denied.
    """
    if "caption" in blanked:
        return 0.0  # It sees the same pictures on both sides.

    scores = [
        bayes_score(parameters, captioner, score=metric.score, uses_images="image" not in blanked)
        for captioner, parameters in (dosed(change, 0.0), dosed(change, dose))
    ]
    human, generated = np.array(scores)
    return float(AMPLIFICATIONS[metric.amplification](human, generated)) - metric.neutral


def write_scenes(world: World, folder: Path) -> None:
    """Draw the pictures of a world, as ``write_pictures``, unless they lie there; whole, whoever else draws them.

    Raises:
        JudgeError: the folder cannot be written.
    """
    if folder.exists():
        return
    from judge.calibration.scenes import write_pictures

    beside = folder.with_name(f"{folder.name}.{os.getpid()}")
    with writing(folder):
        # One thread: trials keep the other cores busy.
        write_pictures(world.scenes, beside, seed=world.seed, size=PIXELS, workers=1)
        with suppress(OSError):  # Another process was faster.
            beside.rename(folder)
        shutil.rmtree(beside, ignore_errors=True)

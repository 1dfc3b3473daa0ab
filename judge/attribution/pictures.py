"""Where a trained judge looked in pictures when it guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from judge.attribution.checkpoints import AnswerViews
from judge.attribution.methods import METHODS, SAMPLES, Method, attribute
from judge.attribution.views import BackboneViews, View, Views
from judge.errors import JudgeError
from judge.judges.huggingface import AnswerJudge
from judge.masking.instances import Pixels
from judge.masking.masked_images import MaskedImages
from judge.training.feature_store import FeatureStore
from judge.training.restoring import check_features, restore
from judge.training.saved import Saved, describe_features
from judge.types import FloatArray, Progress, Sample


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Where a network looked in one picture.

    Attributes:
        image_id: of the picture.
        caption: as it was read, or written.
        answer: what is explained: a class, as a rule the one that was guessed, or the word that was said.
        value: its log-odds, or the word's log-probability (natural).
        method: of the map.
        mass: the map, at the picture's size, [H, W], at least 0.
    """

    image_id: str
    caption: str
    answer: str
    value: float
    method: Method
    mass: FloatArray


@dataclass(frozen=True, slots=True)
class Explaining:
    """How maps are made.

    Attributes:
        methods: one map each.
        samples: points of GradientShap.
        seed: of GradientShap; each picture draws by itself, whatever others there are.
    """

    methods: tuple[Method, ...] = METHODS
    samples: int = SAMPLES
    seed: int = 0

    def maps(self, view: View, pixels: Pixels, answer: int, image_id: str) -> Iterator[tuple[Method, FloatArray]]:
        """A map by each method, [H, W]."""
        seed = [self.seed, *image_id.encode()]
        for method in self.methods:
            yield method, attribute(method, view, pixels, answer, samples=self.samples, seed=seed)


def open_views(saved: Saved, device: torch.device) -> tuple[Views, Any, list[str]]:
    """A trained judge as a function of the pictures that it is shown.

    Args:
        saved: what its file says.
        device: to compute on.

    Returns:
        The function, the judge's network, and what a user must know, a line each.

    Raises:
        JudgeError: it sees no pictures; as :func:`~judge.training.asking.ask`.
    """
    where = f"--judge-weights {saved.path}"
    if not saved.sees:
        raise JudgeError(f"judge '{saved.judge}' sees no pictures", where=where, mend="give one that sees, like sat")
    # Gradients are taken in float32, whatever the judge was trained in.
    materials = replace(saved.materials, dtype="float32", checkpointing=False)
    saved = replace(saved, materials=materials, precision="no")
    if saved.blueprint.backbone is None:
        network = restore(saved).network
        assert isinstance(network, AnswerJudge)
        return AnswerViews(network, saved.target, device, where), network, []
    backbone: Any = saved.blueprint.backbone(materials)
    size = getattr(backbone, "backbone", backbone).size
    with torch.no_grad():
        shape = tuple(backbone(torch.zeros(1, 3, size, size)).shape[1:])
    features = FeatureStore(shape, {}, backbone.key, getattr(backbone, "regions", 0))
    described = describe_features(features) | {"key": backbone.key}
    notes = check_features(saved, described)
    made = restore(saved, replace(materials, features=features)).network
    return BackboneViews(made, backbone, saved.target, device), made, notes


def explain_guesses(
    saved: Saved,
    samples: Sequence[Sample],
    pictures: MaskedImages,
    how: Explaining,
    *,
    device: torch.device,
    answers: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> tuple[Iterator[Explanation], list[str]]:
    """Where a trained judge looked when it guessed, the maps of one sample after another.

    Args:
        saved: the judge.
        samples: captions as it reads them, each with its picture.
        pictures: as it sees them.
        how: maps are made.
        device: to compute on.
        answers: the class of each sample that is explained; None for the one that is guessed.
        progress: called with the samples explained.

    Returns:
        Explanations, made as they are asked for, and what a user must know, a line each.

    Raises:
        JudgeError: as :func:`open_views`; a picture at fault; a family that a method cannot explain.
    """
    views, _, notes = open_views(saved, device)

    def explanations() -> Iterator[Explanation]:
        for number, sample in enumerate(samples):
            if progress:
                progress("explaining guesses", number, len(samples))
            assert sample.image is not None
            pixels = pictures.read(sample.image)
            view = views.view(sample, pixels, pictures.boxes(sample.image))
            with torch.no_grad():
                odds = view.scores(view.shown)[0]
            answer = int(odds.argmax()) if answers is None else answers[number]
            about = sample.image_id, sample.text, saved.target.classes[answer], float(odds[answer])
            for method, mass in how.maps(view, pixels, answer, sample.image_id):
                yield Explanation(*about, method, mass)

    return explanations(), notes

"""Attribution maps of a trained judge's predictions."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import send_to_device
from PIL import Image
from torch import Tensor

from judge.attribution.captioner_views import CheckpointViews
from judge.attribution.maps import ImageExplanation, Method, View, attribute, log_odds, stretched, sum_colours
from judge.errors import JudgeError
from judge.judges.grit import GridsAndRegions
from judge.judges.hf_models import PIXELS
from judge.judges.huggingface import AnswerJudge
from judge.masking.instances import Box, Pixels
from judge.masking.masked_images import MaskedImages
from judge.training.features import FeatureStore
from judge.training.judge_file import Saved, check_features, describe_features, restore
from judge.types import Progress, Sample, Target


class BackboneViews:
    """Judges with a frozen backbone (``sat``, ``grit``, ``vl-lic``); the feature cache is not used.

    The grid is the backbone's last feature map. Regions (GRIT's) are averages of it and therefore count there too.
    """

    def __init__(self, network: Any, backbone: Any, target: Target, device: torch.device) -> None:
        self.network = network.to(device).eval().requires_grad_(requires_grad=False)
        self.backbone = backbone.to(device)
        self.target, self.device = target, device

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:
        """A sample's image, [H, W, 3], with the boxes of objects in it for judges that use them."""
        with_regions = isinstance(self.backbone, GridsAndRegions)
        encode: Any = self.backbone.backbone if with_regions else self.backbone
        shown = self._show(pixels)
        captions = replace(sample, image=None)
        corners = torch.zeros(1, self.backbone.regions, 4, device=self.device)
        for row, box in zip(corners[0], boxes, strict=False):
            row[:] = torch.tensor(box)

        def score(cells: Tensor) -> Tensor:
            """Scores [N, A] of the backbone's last map, [N, P, D]."""
            features = self.backbone.with_regions(cells, corners.expand(len(cells), -1, -1)) if with_regions else cells
            batch = send_to_device(self.network.collate([captions] * len(cells)), self.device)
            return log_odds(self.network({**batch, "features": features}), self.target)

        def grid(answer: int) -> tuple[Tensor, Tensor]:
            cells = encode(shown).detach().requires_grad_()
            (gradient,) = torch.autograd.grad(score(cells)[0, answer], cells)
            square = (math.isqrt(cells.shape[1]),) * 2
            return cells.detach()[0].T.unflatten(1, square), gradient[0].T.unflatten(1, square)

        placement = stretched((pixels.shape[0], pixels.shape[1]), (shown.shape[2], shown.shape[3]))
        return View(shown, lambda inputs: score(encode(inputs)), grid, sum_colours, placement, self._show)

    def _show(self, pixels: Pixels) -> Tensor:
        prepared: Tensor = self.backbone.prepare(pixels)
        return prepared[None].to(self.device)


class AnswerViews:
    """An ``hf:`` judge as a function of an image; scores are the log-odds of its answers."""

    def __init__(self, network: AnswerJudge, target: Target, device: torch.device, where: str) -> None:
        self.network, self.target = network, target
        self.common = CheckpointViews(network.captioner, device, where)

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:  # noqa: ARG002 - for others
        """See :meth:`BackboneViews.view`."""
        batch = send_to_device(self.network.collate([sample], [Image.fromarray(pixels)]), self.common.device)
        shared = batch["shared"]

        def score(shown: Tensor) -> Tensor:
            return log_odds(self.network({**batch, "shared": {**shared, PIXELS: shown}}), self.target)

        return self.common.make(pixels, shared, score)


def open_views(saved: Saved, device: torch.device) -> tuple[BackboneViews | AnswerViews, list[str]]:
    """A trained judge as a function of images, on a device, and notes for the user, a line each."""
    where = f"--judge-weights {saved.path}"
    if not saved.sees:
        raise JudgeError(f"judge '{saved.judge}' uses no images", where=where, mend="give one that does, like sat")
    # Gradients are computed in float32, whatever the precision of training.
    materials = replace(saved.materials, dtype="float32", checkpointing=False)
    saved = replace(saved, materials=materials, precision="no")
    if saved.blueprint.backbone is None:
        network = restore(saved).network
        assert isinstance(network, AnswerJudge)
        return AnswerViews(network, saved.target, device, where), []
    backbone: Any = saved.blueprint.backbone(materials)
    size = getattr(backbone, "backbone", backbone).size
    with torch.no_grad():
        shape = tuple(backbone(torch.zeros(1, 3, size, size)).shape[1:])
    features = FeatureStore(shape, {}, backbone.key, backbone.regions)
    notes = check_features(saved, describe_features(features) | {"key": backbone.key})
    made = restore(saved, replace(materials, features=features)).network
    return BackboneViews(made, backbone, saved.target, device), notes


def explain_predictions(
    saved: Saved,
    samples: Sequence[Sample],
    images: MaskedImages,
    methods: Sequence[Method],
    *,
    device: torch.device,
    answers: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> tuple[Iterator[ImageExplanation], list[str]]:
    """Attribution maps of a trained judge's predictions, computed while they are iterated over; and notes for the user.

    ``samples``: captions as the judge reads them, each with its image; ``images``: masked as for the judge;
    ``answers``: the class to explain for each sample, None for the predicted one.

    Raises:
        JudgeError: it uses no images; an unusable image; a family that a method cannot explain.
    """
    views, notes = open_views(saved, device)

    def explanations() -> Iterator[ImageExplanation]:
        for number, sample in enumerate(samples):
            if progress:
                progress("explaining predictions", number, len(samples))
            assert sample.image is not None
            pixels = images.read(sample.image)
            view = views.view(sample, pixels, images.boxes(sample.image))
            with torch.no_grad():
                odds = view.scores(view.shown)[0]
            answer = int(odds.argmax()) if answers is None else answers[number]
            about = sample.image_id, sample.text, saved.target.classes[answer], float(odds[answer])
            for method in methods:
                mass = attribute(method, view, pixels, answer, seed=sample.image_id)
                yield ImageExplanation(*about, method, mass)

    return explanations(), notes

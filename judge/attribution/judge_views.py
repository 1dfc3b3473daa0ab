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
from judge.attribution.maps import (
    BY_GRADIENTS,
    ImageExplanation,
    Method,
    Placement,
    View,
    attribute,
    log_odds,
    stretched,
    sum_colours,
)
from judge.errors import JudgeError
from judge.judges.backbones import RandomPatches, TimmBackbone, VisionEncoder
from judge.judges.grit import GridsAndRegions
from judge.judges.hf_models import PIXELS
from judge.judges.huggingface import AnswerJudge
from judge.judges.linear import LinearJudge
from judge.masking.instances import Box, Pixels
from judge.masking.masked_images import MaskedImages
from judge.training.disk_cache import FeatureStore
from judge.training.judge_file import (
    Saved,
    check_features,
    describe_features,
    open_self_trained,
    restore,
    with_encoder,
)
from judge.types import FloatArray, Progress, Sample, Target


class BackboneViews:
    """Judges that train on a frozen backbone (``sat``, ``grit``, ``vl-lic``); the feature cache is not used.

    The grid is the backbone's last feature map. Regions (GRIT's) are averages of it and therefore count there too.
    """

    methods: tuple[Method, ...] = BY_GRADIENTS

    def __init__(self, network: Any, backbone: Any, target: Target, device: torch.device) -> None:
        self.network = network.to(device).eval().requires_grad_(requires_grad=False)
        self.backbone = backbone.to(device)
        self.target, self.device = target, device

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:
        """A sample's image, [H, W, 3], with the boxes of objects in it for judges that use them."""
        with_regions = isinstance(self.backbone, GridsAndRegions)
        encode: Any = self.backbone.backbone if with_regions else self.backbone
        model_input = self._show(pixels)
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
            cells = encode(model_input).detach().requires_grad_()
            (gradient,) = torch.autograd.grad(score(cells)[0, answer], cells)
            square = (math.isqrt(cells.shape[1]),) * 2
            return cells.detach()[0].T.unflatten(1, square), gradient[0].T.unflatten(1, square)

        placement = stretched((pixels.shape[0], pixels.shape[1]), (model_input.shape[2], model_input.shape[3]))
        return View(model_input, lambda inputs: score(encode(inputs)), grid, sum_colours, placement, self._show)

    def _show(self, pixels: Pixels) -> Tensor:
        prepared: Tensor = self.backbone.prepare(pixels)
        return prepared[None].to(self.device)


class AnswerViews:
    """An ``hf:`` judge as a function of an image; scores are the log-odds of its answers."""

    methods: tuple[Method, ...] = BY_GRADIENTS

    def __init__(self, network: AnswerJudge, target: Target, device: torch.device, where: str) -> None:
        self.network, self.target = network, target
        self.common = CheckpointViews(network.captioner, device, where)

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:  # noqa: ARG002 - for others
        """See :meth:`BackboneViews.view`."""
        batch = send_to_device(self.network.collate([sample], [Image.fromarray(pixels)]), self.common.device)
        shared = batch["shared"]

        def score(model_input: Tensor) -> Tensor:
            return log_odds(self.network({**batch, "shared": {**shared, PIXELS: model_input}}), self.target)

        return self.common.make(pixels, shared, score)


class VectorViews:
    """A linear judge that reads the vector of an image (``linear+image``); the feature cache is not used.

    The vector is linear in the encoder's pooled features, and log-odds are linear in the vector. Where pooling is
    linear too, as a mean is, log-odds are a sum over the places of the encoder's last feature map.
    """

    def __init__(
        self, judge: LinearJudge, encoder: TimmBackbone | RandomPatches | VisionEncoder, device: torch.device
    ) -> None:
        assert judge.images is not None
        self.judge, self.encoder, self.device = judge, encoder.to(device).eval(), device
        linear = judge.images.offset, judge.image_weights()
        self.offset, self.weights = (torch.from_numpy(part).to(device) for part in linear)
        # Encoders of transformers pool in many ways, which their models do not show apart from the rest.
        self.mapped = None if isinstance(encoder, VisionEncoder) else encoder
        self.sums = self.mapped is not None and self._sums(self.mapped)

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:  # noqa: ARG002 - for others
        """See :meth:`BackboneViews.view`."""
        # Without an image the vector is 0, as that of an image of mean features.
        base = torch.from_numpy(self.judge.log_odds([replace(sample, image=None)])).to(self.device)
        model_input, image = self._show(pixels), (pixels.shape[0], pixels.shape[1])

        def score(pooled: Tensor) -> Tensor:
            """Scores [N, A] of pooled features, [N, P, D]."""
            return base + (pooled.double().mean(dim=1) - self.offset) @ self.weights

        def gradient(answer: int) -> tuple[Tensor, Tensor, Tensor]:
            if self.mapped is None:
                what, mend = "an encoder of transformers has no map of its own pooling", "choose gradient-shap"
                raise JudgeError(what, where="--methods", mend=mend)
            maps = self.mapped.maps(model_input).detach().requires_grad_()
            value = score(self.mapped.pool(maps))[0, answer]
            return value - base[0, answer], maps.detach(), torch.autograd.grad(value, maps)[0]

        def grid(answer: int) -> tuple[Tensor, Tensor]:
            _, maps, slope = gradient(answer)
            return self._cells(maps), self._cells(slope)

        def exact(answer: int) -> FloatArray:
            if not self.sums:
                what = "its encoder does not pool places by a mean, so that its log-odds are no sum over places"
                mend = f"choose {' or '.join(self.methods)}, or leave it out"
                raise JudgeError(what, where="--methods exact", mend=mend)
            total, maps, slope = gradient(answer)
            added = self._cells(slope.double() * maps.double()).sum(dim=0)
            # The mean features and constants of the pooling belong to all places alike.
            added += (total.detach() - added.sum()) / added.numel()
            # Cells lie within the margin in which no patch of the encoder has its centre.
            cells = added.shape[0], added.shape[1]
            size, margin = self.encoder.size, self.mapped.margin if self.mapped else 0.0
            rows, columns = (
                (side * (size - 2 * margin) / size / count, side * margin / size)
                for side, count in zip(image, cells, strict=True)
            )
            return Placement(image, cells, rows, columns).spread(added.cpu().numpy())

        placement = stretched(image, (model_input.shape[2], model_input.shape[3]))
        return View(model_input, lambda of: score(self.encoder(of)), grid, sum_colours, placement, self._show, exact)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods that suit it, the exact one where there is one."""
        return ("exact",) if self.sums else BY_GRADIENTS if self.mapped else ("gradient-shap",)

    def _show(self, pixels: Pixels) -> Tensor:
        return self.encoder.prepare(pixels)[None].to(self.device)

    @torch.no_grad()
    def _sums(self, encoder: TimmBackbone | RandomPatches) -> bool:
        """True if pooled features are a sum over places: pooling then adds up for random maps."""

        def pool(maps: Tensor) -> Tensor:
            return encoder.pool(maps).double().mean(dim=1)

        like = encoder.maps(torch.zeros(1, 3, encoder.size, encoder.size, device=self.device))
        first, second = torch.randn(2, *like.shape, generator=torch.Generator().manual_seed(0)).to(like)
        nothing = pool(torch.zeros_like(first))
        alike = torch.allclose(pool(first + second) + nothing, pool(first) + pool(second), rtol=1e-3, atol=1e-4)
        # The cells are a view of the map. The tokens that are left, such as [CLS], belong to no place.
        self._cells(first).zero_()
        return alike and torch.allclose(pool(first), nothing, rtol=1e-3, atol=1e-4)

    def _cells(self, maps: Tensor) -> Tensor:
        """One image's map, [1, D, g, k], [1, g, k, D] or tokens [1, T, D], as [D, g, k]."""
        network: Any = getattr(self.encoder, "network", None)
        if maps.dim() == 4:
            first = maps.shape[1] == getattr(network, "num_features", len(self.offset))
            return maps[0] if first else maps[0].permute(2, 0, 1)
        places = maps[0, network.num_prefix_tokens :].T
        side = math.isqrt(places.shape[1])
        return places.view(-1, side, side)


def open_views(saved: Saved, device: torch.device) -> tuple[BackboneViews | AnswerViews | VectorViews, list[str]]:
    """A trained judge as a function of images, on a device, and notes for the user, a line each."""
    where = f"--judge-weights {saved.path}"
    if not saved.sees:
        raise JudgeError(f"judge '{saved.judge}' uses no images", where=where, mend="give one that does, like sat")
    # Gradients are computed in float32, whatever the precision of training.
    materials = replace(with_encoder(saved), dtype="float32", checkpointing=False)
    saved = replace(saved, materials=materials, precision="no")
    if saved.blueprint.backbone is None:
        network = restore(saved).network
        assert isinstance(network, AnswerJudge)
        return AnswerViews(network, saved.target, device, where), []
    backbone: Any = saved.blueprint.backbone(materials)
    if saved.blueprint.reads_vectors:
        judge: Any = open_self_trained(saved)
        return VectorViews(judge, backbone, device), check_features(saved, {**saved.features, "key": backbone.key})
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
    ``methods``: none for those that suit the judge; ``answers``: the class to explain for each sample, None for the
    predicted one.

    Raises:
        JudgeError: it uses no images; an unusable image; a family that a method cannot explain.
    """
    views, notes = open_views(saved, device)
    methods = methods or views.methods

    def explanations() -> Iterator[ImageExplanation]:
        for number, sample in enumerate(samples):
            if progress:
                progress("explaining predictions", number, len(samples))
            assert sample.image is not None
            pixels = images.read(sample.image)
            view = views.view(sample, pixels, images.boxes(sample.image))
            with torch.no_grad():
                odds = view.scores(view.model_input)[0]
            answer = int(odds.argmax()) if answers is None else answers[number]
            about = sample.image_id, sample.text, saved.target.classes[answer], float(odds[answer])
            for method in methods:
                mass = attribute(method, view, pixels, answer, seed=sample.image_id)
                yield ImageExplanation(*about, method, mass)

    return explanations(), notes

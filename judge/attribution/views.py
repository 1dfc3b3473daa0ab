"""A picture as a network is shown it, and what the network makes of it, as a function that can be differentiated.

Two kinds of networks see pictures: judges whose pictures pass a frozen backbone (``sat``, ``grit``, ``vl-lic``), here,
and captioners of transformers (:mod:`judge.attribution.checkpoints`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from judge.attribution.odds import log_odds
from judge.attribution.placement import Placement, stretched
from judge.judges.grit import GridsAndRegions
from judge.masking.instances import Box, Pixels
from judge.types import FloatArray, Sample, Target


@dataclass(frozen=True)
class View:
    """One picture as a network is shown it, and what the network makes of it.

    Attributes:
        shown: [1, ...], the network's own input.
        scores: [N, ...] -> [N, A], of N inputs like ``shown``; of each of A answers: of judges' its log-odds.
        grid: the module that passes on the last grid of visual features, [N, D, g, k], as scores are computed; a
            JudgeError where there is none.
        raster: one input's numbers, [...] -> [h, w], summed where they lie in one place.
        placement: of [h, w] in the picture.
        show: another picture of this size as an input, [1, ...].
    """

    shown: Tensor
    scores: Callable[[Tensor], Tensor]
    grid: Callable[[], nn.Identity]
    raster: Callable[[Tensor], FloatArray]
    placement: Placement
    show: Callable[[Pixels], Tensor]


class Views(Protocol):
    """Pictures as a judge sees them, beside a caption."""

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:
        """A sample's picture, [H, W, 3], and the boxes of things in it where the judge asks for them."""
        ...


class BackboneViews:
    """Pictures as a judge with a frozen backbone sees them; nothing is taken from a feature cache.

    The grid is the backbone's last feature map. Regions (GRIT's) are means of it, so what they tell counts there too.

    Args:
        network: the judge's, in evaluation mode; takes ``features`` [N, P, D].
        backbone: of :mod:`judge.judges.backbones`, or one with regions.
        target: what it guesses.
        device: to compute on.
    """

    def __init__(self, network: Any, backbone: Any, target: Target, device: torch.device) -> None:
        self.network = network.to(device).eval().requires_grad_(requires_grad=False)
        self.backbone = backbone.to(device)
        self.target, self.device = target, device
        self.grid = nn.Identity()

    def view(self, sample: Sample, pixels: Pixels, boxes: Sequence[Box] = ()) -> View:
        """See :class:`Views`."""
        shown = self._show(pixels)
        blind = replace(sample, image=None)
        corners = torch.zeros(1, getattr(self.backbone, "regions", 0), 4, device=self.device)
        for row, box in zip(corners[0], boxes, strict=False):
            row[:] = torch.tensor(box)

        def scores(inputs: Tensor) -> Tensor:
            from accelerate.utils import send_to_device

            batch = send_to_device(self.network.collate([blind] * len(inputs)), self.device)
            found: Tensor = self.network({**batch, "features": self._features(inputs, corners)})
            return log_odds(found, self.target)

        placement = stretched((pixels.shape[0], pixels.shape[1]), (shown.shape[2], shown.shape[3]))
        return View(shown, scores, lambda: self.grid, sum_colours, placement, self._show)

    def _show(self, pixels: Pixels) -> Tensor:
        prepared: Tensor = self.backbone.prepare(pixels)
        return prepared[None].to(self.device)

    def _features(self, inputs: Tensor, corners: Tensor) -> Tensor:
        """[N, 3, S, S] -> [N, P, D], by way of the grid."""
        whole = self.backbone.backbone if isinstance(self.backbone, GridsAndRegions) else self.backbone
        cells = whole(inputs)
        side = math.isqrt(cells.shape[1])
        grid: Tensor = self.grid(cells.transpose(1, 2).unflatten(2, (side, side)))
        cells = grid.flatten(2).transpose(1, 2)
        if not isinstance(self.backbone, GridsAndRegions):
            return cells
        return self.backbone.with_regions(cells, corners.expand(len(cells), -1, -1))


def sum_colours(values: Tensor) -> FloatArray:
    """[3, h, w] -> [h, w]."""
    found: FloatArray = values.detach().double().sum(dim=0).cpu().numpy()
    return found

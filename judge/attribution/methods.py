"""Maps of where a network looked: Grad-CAM and GradientShap, by Captum.

Sources: Selvaraju et al., ICCV 2017 (Grad-CAM, as in DBAC's Table 4); Lundberg & Lee, NeurIPS 2017 (expected gradients
of SHAP: GradientShap, as in DPAC's Table 5); Kokhlikyan et al. 2020 (Captum).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from judge.attribution.views import View
from judge.masking.instances import Pixels
from judge.types import FloatArray

Method = Literal["grad-cam", "gradient-shap"]
METHODS: tuple[Method, ...] = ("grad-cam", "gradient-shap")
SAMPLES = 16
"""Of GradientShap, points between a picture and a baseline."""

_AT_A_TIME = 8
_NOISES = 2


def attribute(
    method: Method, view: View, pixels: Pixels, answer: int, *, samples: int = SAMPLES, seed: int | list[int] = 0
) -> FloatArray:
    """The positive part of an answer's attributions on a picture, [H, W] float64, at least 0.

    Args:
        method: "grad-cam", of the last grid of visual features, enlarged bilinearly; or "gradient-shap", of pixels.
        view: the picture as the network is shown it.
        pixels: the picture, [H, W, 3] uint8.
        answer: place of the answer among the view's scores.
        samples: of GradientShap.
        seed: of GradientShap.

    Raises:
        JudgeError: the network's family has no such map; it says why.
    """
    if method == "grad-cam":
        return view.placement.enlarge(grad_cam(view, answer))
    values = gradient_shap(view, pixels, answer, samples=samples, seed=seed)
    return view.placement.spread(view.raster(values).clip(min=0))


def grad_cam(view: View, answer: int) -> FloatArray:
    """The grid's values, weighted by the answer's mean gradient on each channel, [g, k]; negative ones are 0."""
    from captum.attr import LayerGradCam

    method = LayerGradCam(lambda shown: view.scores(shown)[:, answer], view.grid())
    found: Tensor = method.attribute(view.shown, relu_attributions=True)
    grid: FloatArray = found[0, 0].detach().double().cpu().numpy()
    return grid


def gradient_shap(
    view: View, pixels: Pixels, answer: int, *, samples: int = SAMPLES, seed: int | list[int] = 0
) -> Tensor:
    """Attributions of an answer to what the network is shown, in the shape of one input.

    Gradients at random points between the picture and a random baseline, times their difference: black, the picture's
    mean colour, and two pictures of noise, all as the network would be shown them. No noise is added to the points, so
    that attributions sum, in expectation, to the answer's score less its mean over the baselines.

    Args:
        view: the picture as the network is shown it.
        pixels: the picture, [H, W, 3] uint8.
        answer: place of the answer among the view's scores.
        samples: points.
        seed: of points, baselines and noise.
    """
    from captum.attr import GradientShap

    generator = np.random.default_rng(seed)
    shown = torch.cat([view.show(one) for one in baselines(pixels, generator)])
    method = GradientShap(lambda inputs: view.scores(inputs)[:, answer])
    total = torch.zeros_like(view.shown)
    for start in range(0, samples, _AT_A_TIME):
        count = min(_AT_A_TIME, samples - start)
        with _drawing(int(generator.integers(2**31)), view.shown.device):
            found: Tensor = method.attribute(view.shown, shown, n_samples=count, stdevs=0.0)
        total += count / samples * found.detach()
    return total[0]


def baselines(pixels: Pixels, generator: np.random.Generator) -> list[Pixels]:
    """Pictures of nothing, of a picture's size: black, its mean colour, and noise."""
    mean = np.rint(pixels.mean(axis=(0, 1))).astype(np.uint8)
    flat = [np.zeros_like(pixels), np.broadcast_to(mean, pixels.shape).copy()]
    return flat + [generator.integers(0, 256, pixels.shape, dtype=np.uint8) for _ in range(_NOISES)]


@contextmanager
def _drawing(seed: int, device: torch.device) -> Iterator[None]:
    """Captum draws from the global generators: seeded, and left as they were, of ``device`` and the CPU."""
    before = np.random.get_state()  # noqa: NPY002 - it is Captum's
    # Without names torch starts all GPUs that it sees.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            np.random.seed(seed)  # noqa: NPY002 - likewise
            torch.manual_seed(seed)
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002 - likewise

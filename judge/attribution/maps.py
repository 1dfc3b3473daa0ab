"""Attribution maps of a network's answer over an image: Grad-CAM, GradientShap by Captum, and sums over places.

Sources: Selvaraju et al., ICCV 2017 (Grad-CAM, as in DBAC's Table 4); Lundberg & Lee, NeurIPS 2017 (expected gradients
of SHAP: GradientShap, as in DPAC's Table 5); Kokhlikyan et al. 2020 (Captum).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from judge.masking.instances import Pixels
from judge.types import FloatArray, Target

Method = Literal["grad-cam", "gradient-shap", "exact"]
BY_GRADIENTS: tuple[Method, ...] = ("grad-cam", "gradient-shap")
"""The methods that every network has."""
SAMPLES = 16
"""Points between an image and a baseline, of GradientShap."""
Axis = tuple[float, float]
"""Step and start: pixel j of the network's input covers [step * j + start, step * (j + 1) + start] of the image."""

_AT_A_TIME = 8
_ENDS = 0.1  # Share of a ramp's lines that are ignored at either end: resizing filters are one-sided there.


@dataclass(frozen=True, slots=True)
class Placement:
    """The places of an input's pixels in the image, to undo resizing, cropping and padding; sizes: height and width."""

    image: tuple[int, int]
    input_size: tuple[int, int]
    rows: Axis
    columns: Axis

    def spread(self, mass: FloatArray) -> FloatArray:
        """Mass on the input's pixels, [h, w], spread evenly over the image pixels that they cover, [H, W].

        The sum is preserved, except for mass outside the image (padding).
        """
        down = _overlaps(self.rows, self.input_size[0], self.image[0])
        across = _overlaps(self.columns, self.input_size[1], self.image[1])
        return np.asarray(down @ mass @ across.T)

    def enlarge(self, grid: FloatArray) -> FloatArray:
        """Values of a grid laid over the input, [g, k], at the image's pixels, [H, W].

        Bilinear, as for Grad-CAM (Selvaraju et al. 2017); 0 where a crop left pixels out.
        """
        down = _between(self.rows, self.input_size[0], self.image[0], grid.shape[0])
        across = _between(self.columns, self.input_size[1], self.image[1], grid.shape[1])
        return np.asarray(down @ grid @ across.T)


def stretched(image: tuple[int, int], input_size: tuple[int, int]) -> Placement:
    """The placement of an input that is the whole image, stretched."""
    rows, columns = ((size / pixels, 0.0) for size, pixels in zip(image, input_size, strict=True))
    return Placement(image, input_size, rows, columns)


def ramps(size: tuple[int, int]) -> list[np.ndarray]:
    """Four test images [H, W, 3] uint8: black, white, darker towards the top, darker towards the left."""
    down, across = (np.rint((np.arange(side) + 0.5) / side * 255).astype(np.uint8) for side in size)
    black = np.zeros((*size, 3), dtype=np.uint8)
    return [black, black + 255, black + down[:, None, None], black + across[None, :, None]]


def fitted(size: tuple[int, int], model_input: FloatArray) -> Placement | None:
    """The placement of images of a size (height, width), from the network's inputs for :func:`ramps`, [4, h, w].

    None where the input is no shifted and stretched image.
    """
    black, white, *both = model_input
    contrast = white - black
    seen = np.abs(contrast) > 0.5 * np.abs(contrast).max(initial=0)
    if not seen.any():
        return None
    places = []
    for axis, ramp in enumerate(both):
        total = np.divide(ramp - black, contrast, out=np.zeros_like(contrast), where=seen).sum(axis=1 - axis)
        share = total / np.maximum(1, seen.sum(axis=1 - axis))
        places.append(_fit(share, seen.any(axis=1 - axis), size[axis]))
    rows, columns = places
    return Placement(size, (model_input.shape[1], model_input.shape[2]), rows, columns) if rows and columns else None


def _fit(share: FloatArray, seen: np.ndarray, size: int) -> Axis | None:
    """Step and start of an axis, from the place in the image, in [0, 1], that each line's centre shows."""
    lines = np.flatnonzero(seen)
    ends = round(_ENDS * len(lines))
    lines = lines[ends : len(lines) - ends]
    if len(lines) < 2:
        return None
    even = size / len(share)
    if np.abs(even * (lines + 0.5) - share[lines] * size).max() <= size / 255:  # Within one of 256 levels.
        return even, 0.0
    step, start = np.polyfit(lines + 0.5, share[lines] * size, 1)
    apart = np.abs(step * (lines + 0.5) + start - share[lines] * size).max()
    # Eight bits, and the filter's own rounding.
    return (float(step), float(start)) if step > 0 and apart <= max(1.0, 2 * size / 255) + step else None


def _overlaps(axis: Axis, input_size: int, size: int) -> FloatArray:
    """[size, input_size]: the share of each line of the input that lies on each line of the image."""
    step, start = axis
    edges = step * np.arange(input_size + 1) + start
    pixels = np.arange(size)[:, None]
    covered = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    return np.asarray(covered.clip(min=0) / step)


def _between(axis: Axis, input_size: int, size: int, cells: int) -> FloatArray:
    """[size, cells]: the bilinear weight of each cell at the centre of each line of the image."""
    step, start = axis
    centre = (np.arange(size) + 0.5 - start) / step  # In lines of the input.
    place = np.clip(centre / input_size * cells - 0.5, 0, cells - 1)
    weights = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(cells)))
    # A line is covered if most of it is.
    return np.asarray(weights * ((centre > 0) & (centre < input_size))[:, None])


@dataclass(frozen=True)
class View:
    """One image as a network's input, and the network as a differentiable function of it.

    Attributes:
        model_input: [1, ...], the input.
        scores: [N, ...] -> [N, A], inputs like ``model_input`` to a score of each of A answers (a judge's log-odds).
        grid: place of an answer -> the last grid of visual features, and the gradient of the answer's score on it, both
            [D, g, k]; raises a JudgeError if there is no such grid.
        raster: one input's values, [...] -> [h, w], summed where they are at one place.
        placement: of [h, w] in the image.
        show: another image of this size as an input, [1, ...].
        exact: place of an answer -> what each pixel of the image adds to its score, [H, W]; None where scores are no
            sum over places.
    """

    model_input: Tensor
    scores: Callable[[Tensor], Tensor]
    grid: Callable[[int], tuple[Tensor, Tensor]]
    raster: Callable[[Tensor], FloatArray]
    placement: Placement
    show: Callable[[Pixels], Tensor]
    exact: Callable[[int], FloatArray] | None = None


def log_odds(scores: Tensor, target: Target) -> Tensor:
    """Natural log-odds of each answer, [N, A], from logits or log-probabilities, [N, A].

    Of classes exactly one is true (softmax): log p minus the mean log p of the others, which is log p / (1 - p) for two
    classes. Of tasks any number is true (sigmoid): log p / (1 - p).
    """
    if target.kind == "tasks":
        return scores
    classes = scores.shape[1]
    return (scores - scores.mean(dim=1, keepdim=True)) * (classes / (classes - 1))


def sum_colours(values: Tensor) -> FloatArray:
    """[3, h, w] -> [h, w]."""
    return np.asarray(values.detach().double().sum(dim=0).cpu())


@dataclass(frozen=True, slots=True, eq=False)
class ImageExplanation:
    """The attribution map of one image.

    Attributes:
        caption: the caption that the judge read, or the captioner wrote.
        answer: the explained answer: a class (usually the predicted one), or a word of the caption.
        value: its log-odds, or the word's log-probability (natural).
        mass: the map, at the image's size, [H, W]; by gradients at least 0. An exact map also has what speaks against
            the answer, below 0, and its sum is the value less that of the same caption without an image.
    """

    image_id: str
    caption: str
    answer: str
    value: float
    method: Method
    mass: FloatArray


def attribute(
    method: Method, view: View, pixels: Pixels, answer: int, *, samples: int = SAMPLES, seed: int | str = 0
) -> FloatArray:
    """An answer's attributions on an image, [H, W] float64; by gradients their positive part.

    ``method``: "grad-cam", of the last grid of visual features; "gradient-shap", of pixels, at ``samples`` random
    points; or "exact", see :class:`View`. The image's id as ``seed`` gives each image its own random stream.

    Raises:
        JudgeError: the network's family has no such map; the message says why.
    """
    if method == "exact":
        assert view.exact is not None
        return view.exact(answer)
    if method == "grad-cam":
        return view.placement.enlarge(grad_cam(view, answer))
    values = gradient_shap(view, pixels, answer, samples=samples, seed=seed)
    return view.placement.spread(view.raster(values).clip(min=0))


def grad_cam(view: View, answer: int) -> FloatArray:
    """The grid's channels, weighted by the answer's mean gradient on each and summed, [g, k]; negative sums are 0.

    Grad-CAM (Selvaraju et al., ICCV 2017, eq. 1 and 2). Two channels of two places, whose mean gradients are 1 and -2:

        >>> from types import SimpleNamespace
        >>> maps, gradients = torch.tensor([[[1.0, 4.0]], [[1.0, 1.0]]]), torch.tensor([[[1.0, 1.0]], [[-2.0, -2.0]]])
        >>> grad_cam(SimpleNamespace(grid=lambda answer: (maps, gradients)), 0).tolist()
        [[0.0, 2.0]]
    """
    values, gradients = view.grid(answer)
    summed = (gradients.mean(dim=(1, 2), keepdim=True) * values).sum(dim=0).relu()
    return np.asarray(summed.detach().double().cpu())


def gradient_shap(view: View, pixels: Pixels, answer: int, *, samples: int = SAMPLES, seed: int | str = 0) -> Tensor:
    """Attributions of an answer to the network's input, in the shape of one input; arguments as of :func:`attribute`.

    Gradients at random points between the image and a random baseline, times their difference. No noise is added to
    the points, so attributions sum, in expectation, to the answer's score minus its mean over the baselines.
    """
    from captum.attr import GradientShap

    generator = np.random.default_rng([0, *seed.encode()] if isinstance(seed, str) else seed)
    others = torch.cat([view.show(one) for one in baselines(pixels, generator)])
    method = GradientShap(lambda inputs: view.scores(inputs)[:, answer])
    total = torch.zeros_like(view.model_input)
    # Captum draws from the global generators (hence NPY002). Without names of devices, torch initialises all GPUs.
    numpys, devices = np.random.get_state(), [view.model_input.device] if view.model_input.device.type == "cuda" else []  # noqa: NPY002 - Captum's
    try:
        for start in range(0, samples, _AT_A_TIME):
            count, drawn = min(_AT_A_TIME, samples - start), int(generator.integers(2**31))
            with torch.random.fork_rng(devices=devices):
                np.random.seed(drawn)  # noqa: NPY002 - Captum's
                torch.manual_seed(drawn)
                found: Tensor = method.attribute(view.model_input, others, n_samples=count, stdevs=0.0)
            total += count / samples * found.detach()
    finally:
        np.random.set_state(numpys)  # noqa: NPY002 - Captum's
    return total[0]


def baselines(pixels: Pixels, generator: np.random.Generator) -> list[Pixels]:
    """Images without content, of the same size: black, the image's mean colour, and two of noise."""
    mean = np.rint(pixels.mean(axis=(0, 1))).astype(np.uint8)
    flat = [np.zeros_like(pixels), np.broadcast_to(mean, pixels.shape).copy()]
    return flat + [generator.integers(0, 256, pixels.shape, dtype=np.uint8) for _ in range(2)]

"""Detectors in training: networks with their losses, behind one interface, and the pictures that they learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from judge.errors import JudgeError, nearest
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.detectors.weights import Header, Kind, to_channels
from judge.masking.detectors.yolo import GREY
from judge.masking.images import read_picture
from judge.masking.instances import Instance, Picture

YOLO_SCALE = (0.33, 0.125, 1024)
"""Depth, width and most channels of the small YOLO: half of v8n's width, 1.0 M parameters."""

_REMEMBERED = 2**30  # Bytes of decoded pictures kept between epochs.


@dataclass(frozen=True, slots=True)
class DetectorRecipe:
    """How a detector is trained.

    Attributes:
        kind: "yolo" or "maskrcnn".
        categories: to learn; None for all of the instances file.
        start: weights to go on from, as ``load_yolo`` (ONNX apart) and ``load_maskrcnn`` take them; what does not fit
            the categories starts fresh. None: a small network from nothing.
        trust_weights: folder whose pickles may be read.
        device: None: CUDA where there is any.
        epochs: passes over the training pictures; 0 leaves the weights as they start.
        batch_size: pictures a step.
        learning_rate: the highest; None for the kind's own. It rises over a tenth of the steps and falls as a cosine.
        image_size: pixels of a picture's longer side.
        validation: share of the pictures held out, in [0, 1).
        seed: of weights, split, order and flips.
    """

    kind: Kind
    categories: Sequence[str] | None = None
    start: str | Path | None = None
    trust_weights: Path | None = None
    device: str | None = None
    epochs: int = 40
    batch_size: int = 8
    learning_rate: float | None = None
    image_size: int = 160
    validation: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in MODELS:
            raise JudgeError(f"unknown kind of detector '{self.kind}'", mend=nearest(self.kind, list(MODELS)))
        sound_rate = self.learning_rate is None or 0 < self.learning_rate < 1
        sound_size = 64 <= self.image_size <= 2048 and not self.image_size % 32
        for name, value, sound, mend in (
            ("epochs", self.epochs, self.epochs >= 0, "0 or more"),
            ("batch size", self.batch_size, self.batch_size >= 1, "1 or more"),
            ("learning rate", self.learning_rate, sound_rate, "a number in (0, 1)"),
            ("image size", self.image_size, sound_size, "a multiple of 32 from 64 to 2048"),
            ("validation share", self.validation, 0 <= self.validation < 1, "a number in [0, 1)"),
        ):
            if not sound:
                raise JudgeError(f"{name} is {value}", where="training of a detector", mend=f"take {mend}")


@dataclass(frozen=True, slots=True)
class Example:
    """A picture at the size of training.

    Attributes:
        pixels: [h, w, 3] uint8, RGB; the longer side has the recipe's size.
        masks: [N, h, w] bool, none of them empty.
        labels: [N] int64, indices of categories.
    """

    pixels: npt.NDArray[np.uint8]
    masks: npt.NDArray[np.bool_]
    labels: npt.NDArray[np.int64]

    @property
    def boxes(self) -> npt.NDArray[np.float32]:
        """[N, 4] float32: corners of the masks, in pixels, right and bottom exclusive."""
        from torchvision.ops import masks_to_boxes

        corners = masks_to_boxes(torch.from_numpy(self.masks.copy())).numpy()
        return np.asarray(corners + np.array([0, 0, 1, 1]), dtype=np.float32)

    def flipped(self) -> Example:
        """Its mirror image."""
        return Example(self.pixels[:, ::-1], self.masks[:, :, ::-1], self.labels)


class Examples:
    """Pictures with their masks at the size of training; cached in memory where they fit."""

    def __init__(
        self, folder: Path, names: Sequence[str], truth: GroundTruth, categories: Sequence[str], size: int
    ) -> None:
        self.folder, self.names, self.truth = folder, names, truth
        self.categories, self.size = categories, size
        # Three bytes of colour, and as much again for masks.
        self.keep = len(names) * size * size * 6 < _REMEMBERED
        self.kept: dict[int, Example] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Example:
        if index in self.kept:
            return self.kept[index]
        picture = read_picture(self.folder, self.names[index])
        [found] = self.truth.detect([picture])
        example = self._resized(picture, [instance for instance in found if not instance.crowd])
        if self.keep:
            self.kept[index] = example
        return example

    def _resized(self, picture: Picture, instances: Sequence[Instance]) -> Example:
        import cv2

        height, width = picture.size
        scale = self.size / max(height, width)
        inner = (max(1, round(height * scale)), max(1, round(width * scale)))
        area = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        masks, labels = [], []
        for instance in instances:
            mask = cv2.resize(instance.mask.astype(np.float32), inner[::-1], interpolation=area) >= 0.5
            if mask.any():
                masks.append(mask)
                labels.append(self.categories.index(instance.label))
        return Example(
            np.asarray(cv2.resize(picture.pixels, inner[::-1], interpolation=area), dtype=np.uint8),
            np.array(masks, dtype=np.bool_).reshape(-1, *inner),
            np.array(labels, dtype=np.int64),
        )


class DetectorModel:
    """A network in training: what the loop needs of either kind.

    Attributes:
        network: on the CPU; the loop moves it.
        header: describes it in the file.
        rate: learning rate where the recipe has none.
    """

    network: Any
    header: Header
    rate: float

    def learn(self) -> None:
        """Into training mode."""
        self.network.train()

    def loss(self, batch: Sequence[Example], device: torch.device) -> Tensor:
        """Mean loss of a batch."""
        raise NotImplementedError

    def next_epoch(self) -> None:
        """An epoch has ended."""

    def inherit(self, weights: Mapping[str, Tensor], where: str, *, rate: float) -> None:
        """Take over all of ``weights`` that have their place in the network, and learn from there at ``rate``.

        Raises:
            JudgeError: they fill less than half of the network.
        """
        own = self.network.state_dict()
        fitting = {name: tensor for name, tensor in weights.items() if name in own and own[name].shape == tensor.shape}
        if 2 * len(fitting) < len(own):
            what = f"only {len(fitting)} of the network's {len(own)} weights are in it"
            raise JudgeError(what, where=where, mend="start from weights of this kind of network")
        self.network.load_state_dict(fitting, strict=False)
        self.rate = rate


class YoloModel(DetectorModel):
    """Ultralytics' network and loss."""

    rate = 2e-3

    def __init__(self, categories: tuple[str, ...], recipe: DetectorRecipe) -> None:
        from judge.masking.detectors import yolo, yolo_networks

        start, self.size = recipe.start, recipe.image_size
        if start is None:
            architecture: Mapping[str, Any] = yolo_networks.packaged("yolov8n-seg", YOLO_SCALE)
            self.network = yolo_networks.build(architecture, categories, "yolov8n-seg")
        else:
            path = yolo.find_weights(start, trust=recipe.trust_weights)
            if path.suffix == ".onnx":
                mend = "give the .pt or .safetensors that it was made of"
                raise JudgeError("an ONNX file cannot be trained further", where=str(start), mend=mend)
            model, size = yolo.read_model(path)
            architecture = yolo_networks.header_of(model, size).architecture
            self.network = yolo_networks.build(architecture, categories, str(start))
            self.inherit(model.state_dict(), str(start), rate=5e-4)
        self.header = yolo_networks.header_of(self.network, self.size)
        self.network.args = _hyperparameters(recipe.epochs)

    def loss(self, batch: Sequence[Example], device: torch.device) -> Tensor:
        """See :meth:`DetectorModel.loss`."""
        pixels = np.full((len(batch), self.size, self.size, 3), GREY, dtype=np.uint8)
        # The prototypes' resolution, at which Ultralytics compares masks. (Half of it makes edges no better.)
        coarse = self.size // 4
        masks, meanings = [], np.zeros((len(batch), coarse, coarse), dtype=np.int64)
        for place, example in enumerate(batch):
            height, width = example.pixels.shape[:2]
            pixels[place, :height, :width] = example.pixels
            for mask, label in zip(example.masks, example.labels, strict=True):
                masks.append(_coarse(mask, coarse))
                meanings[place][masks[-1]] = label
        boxes = np.concatenate([example.boxes for example in batch]) / self.size
        corner, end = boxes[:, :2], boxes[:, 2:]
        counts = [len(example.labels) for example in batch]
        labels = np.concatenate([example.labels for example in batch])
        fields = {
            "img": to_channels(pixels),
            "batch_idx": torch.from_numpy(np.repeat(np.arange(len(batch), dtype=np.float32), counts)),
            "cls": torch.from_numpy(labels.astype(np.float32))[:, None],
            "bboxes": torch.from_numpy(np.concatenate([(corner + end) / 2, end - corner], axis=1)),
            "masks": torch.from_numpy(np.array(masks, dtype=np.float32).reshape(-1, coarse, coarse)),
            "sem_masks": torch.from_numpy(meanings),
        }
        found = self.network.loss({name: field.to(device) for name, field in fields.items()})
        # Summed over pictures.
        loss: Tensor = found[0].sum() / len(batch)
        return loss

    def next_epoch(self) -> None:
        """Newer heads shift weight from one of their losses to the other."""
        if hasattr(self.network.criterion, "update"):
            self.network.criterion.update()


class MaskRcnnModel(DetectorModel):
    """Mask R-CNN's network and losses, torchvision's."""

    rate = 1e-3

    def __init__(self, categories: tuple[str, ...], recipe: DetectorRecipe) -> None:
        from judge.masking.detectors.maskrcnn import SMALL, build, read_maskrcnn

        start, architecture = recipe.start, SMALL
        if start is None:
            self.network = build(architecture, len(categories), "small")
        else:
            header, weights, _ = read_maskrcnn(start)
            architecture = header.architecture
            self.network = build(architecture, len(categories), str(start))
            self.inherit(weights, str(start), rate=2e-4)
        self.header = Header("maskrcnn", architecture, categories, recipe.image_size)
        transform: Any = self.network.transform
        transform.min_size, transform.max_size = (recipe.image_size,), recipe.image_size
        self.frozen = architecture["variant"] != "small"

    def learn(self) -> None:
        """Into training mode; the large networks' statistics stay as they are: batches here are small."""
        self.network.train()
        if self.frozen:
            for module in self.network.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval().requires_grad_(requires_grad=False)

    def loss(self, batch: Sequence[Example], device: torch.device) -> Tensor:
        """See :meth:`DetectorModel.loss`."""
        pixels = [to_channels(example.pixels[None])[0].to(device) for example in batch]
        targets = [
            {
                "boxes": torch.from_numpy(example.boxes).to(device),
                "labels": torch.from_numpy(example.labels + 1).to(device),
                "masks": torch.from_numpy(example.masks.astype(np.uint8)).to(device),
            }
            for example in batch
        ]
        losses: Mapping[str, Tensor] = self.network(pixels, targets)
        return torch.stack(list(losses.values())).sum()


MODELS: Mapping[Kind, type[YoloModel | MaskRcnnModel]] = {"yolo": YoloModel, "maskrcnn": MaskRcnnModel}


def _coarse(mask: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """[size, size]: where at least half of 4 x 4 pixels belong to ``mask``, which lies in the upper left corner."""
    canvas = np.zeros((4 * size, 4 * size), dtype=np.float32)
    canvas[: mask.shape[0], : mask.shape[1]] = mask
    found: npt.NDArray[np.bool_] = canvas.reshape(size, 4, size, 4).mean(axis=(1, 3)) >= 0.5
    return found


def _hyperparameters(epochs: int) -> Any:
    """Ultralytics' gains of the losses; masks given one by one, as they may overlap."""
    from judge.masking.detectors.isolation import import_ultralytics

    import_ultralytics()
    from ultralytics.cfg import get_cfg

    return get_cfg(overrides={"overlap_mask": False, "epochs": max(1, epochs)})

"""``hf:NAME``: Hugging Face models that segment instances or detect objects, through transformers' auto classes.

Mask2Former, MaskFormer, EoMT, RF-DETR and DETR give masks where the checkpoint was saved with a head for them; DETR,
RT-DETR, RF-DETR, YOLOS and the like give boxes. Each image processor turns its model's output into instances.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from judge.errors import JudgeError, require
from judge.masking import HUGGING_FACE
from judge.masking.detectors import MIN_SCORE, fingerprint
from judge.masking.instances import BoolMask, Instance, LoadedImage, from_box, from_mask
from judge.utils.hub import AGAIN, check_weights, loading, locate, needs_code, quiet, read_config
from judge.utils.parallel import choose_device

if TYPE_CHECKING:
    import torch

# A prompt tells OneFormer its task; VideoMT reads videos.
_OTHER_INPUTS = {"oneformer", "videomt"}
_CHOOSE = "choose a checkpoint of Mask2Former, MaskFormer, EoMT, RF-DETR, DETR, RT-DETR or YOLOS"
# Pixels of a mask while it is drawn: processors draw the masks of all queries at once, as floats (400 MB here).
_DRAWN = 2**20


class HuggingFace:
    """A Hugging Face model as a detector; images are passed one at a time, as padding changes what a model finds.

    Args:
        model: segments instances or detects objects.
        processor: its image processor.
        masks: whether it gives masks; else boxes.
        weights: fingerprint of the files of both.
        device: where it runs.
    """

    name = "hf"

    def __init__(self, model: Any, processor: Any, *, masks: bool, weights: str, device: torch.device) -> None:
        import torch
        import transformers

        self.model, self.processor, self.device = model.to(device).eval(), processor, device
        self.labels: dict[int, str] = dict(sorted(model.config.id2label.items()))
        self.categories = tuple(self.labels.values())
        self._find = self._masks if masks else self._boxes
        versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self.key = fingerprint(self.name, weights, versions)

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; at most as many instances as the model has queries."""
        import torch

        with torch.inference_mode(), quiet():
            inputs = self.processor(images=image.pixels, input_data_format="channels_last", return_tensors="pt")
            inputs = inputs.to(self.device)
            found = tuple(self._find(self.model(**inputs), inputs, image.size))
        return tuple(instance for instance in found if instance.area)

    def _boxes(self, outputs: Any, inputs: Mapping[str, Any], size: tuple[int, int]) -> Iterator[Instance]:
        """Instances whose masks are their boxes, cut at the border."""
        del inputs
        height, width = size
        for label, score, corners in self._detections(outputs, size, MIN_SCORE):
            left, top, right, bottom = np.clip(corners, 0, [width, height, width, height]).tolist()
            yield from_box((left, top, right - left, bottom - top), size, self._name(label), score=score)

    def _masks(self, outputs: Any, inputs: Mapping[str, Any], size: tuple[int, int]) -> Iterator[Instance]:
        import cv2

        shrink = min(1.0, (_DRAWN / (size[0] * size[1])) ** 0.5)
        drawn = max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))
        for label, score, mask in self._segments(_without_padding(outputs, inputs), drawn):
            whole = cv2.resize(mask.view(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST)
            yield from_mask(whole.astype(np.bool_), self._name(label), score=score)

    def _segments(self, outputs: Any, size: tuple[int, int]) -> Iterator[tuple[int, float, BoolMask]]:
        """Class, score and mask, [H, W], of each instance; masks may overlap.

        Some processors draw all instances into one map, where a bad one hides a part of a good one that it overlaps:
        of EoMT they draw each query alone here. DETR's processor gives the pixels of the background to instances too;
        masks are those of DETR's own code (Carion et al., ECCV 2020, ``PostProcessSegm``).
        """
        import torch

        post: Any = self.processor.post_process_instance_segmentation
        options: dict[str, Any] = {"threshold": MIN_SCORE, "target_sizes": [size]}
        if "return_binary_maps" in inspect.signature(post).parameters:
            [found] = post(outputs, return_binary_maps=True, **options)
            for place, segment in enumerate(found["segments_info"]):
                yield segment["label_id"], segment["score"], found["segmentation"][place].bool().cpu().numpy()
        elif "pred_masks" in outputs:
            for place, (label, score, _) in enumerate(self._detections(outputs, size, -1.0)):
                if score > MIN_SCORE:
                    query = outputs.pred_masks[:, place : place + 1]
                    soft = torch.nn.functional.interpolate(query, size=size, mode="bilinear")
                    yield label, score, (soft[0, 0] > 0).cpu().numpy()
        else:
            queries = outputs.class_queries_logits.split(1, 1), outputs.masks_queries_logits.split(1, 1)
            for classes, masks in zip(*queries, strict=True):
                query = SimpleNamespace(class_queries_logits=classes, masks_queries_logits=masks)
                [found] = post(query, **options)
                for segment in found["segments_info"]:
                    yield segment["label_id"], segment["score"], (found["segmentation"] == segment["id"]).cpu().numpy()

    def _detections(
        self, outputs: Any, size: tuple[int, int], threshold: float
    ) -> Iterator[tuple[int, float, list[float]]]:
        """Class, score and corners (left, top, right, bottom, in pixels) of the queries above ``threshold``."""
        [found] = self.processor.post_process_object_detection(outputs, threshold=threshold, target_sizes=[size])
        yield from zip(*(found[name].tolist() for name in ("labels", "scores", "boxes")), strict=True)

    def _name(self, label: int) -> str:
        return self.labels.get(label, str(label))


def _without_padding(outputs: Any, inputs: Mapping[str, Any]) -> Any:
    """``outputs`` with masks of the image alone: (Mask2)Former's processors pad it on the right and at the bottom."""
    padded = inputs.get("pixel_mask")
    if padded is not None and "masks_queries_logits" in outputs:
        masks = outputs.masks_queries_logits
        shares = padded[0].any(1).float().mean(), padded[0].any(0).float().mean()
        height, width = (round(side * float(share)) for side, share in zip(masks.shape[-2:], shares, strict=True))
        outputs.masks_queries_logits = masks[..., :height, :width]
    return outputs


def load_huggingface(reference: str, *, device: str | None = None) -> HuggingFace:
    """A detector from a folder of ``save_pretrained``, or from a name on the hub.

    Args:
        reference: the folder or name of a model that segments instances or detects objects, and its image processor.
        device: "cpu", "cuda", "cuda:1"; None: CUDA if available.

    Raises:
        JudgeError: no such folder, name or device; a model of another task; code of its own; no or broken safetensors;
            weights or the image processor missing.
    """
    require("vision", "torch", "torchvision", "transformers", "cv2", "PIL", "pycocotools")
    import torch
    import transformers
    from transformers.utils.hub import cached_file

    processors: Any = transformers.AutoImageProcessor
    where, place = f"--detector {HUGGING_FACE}{reference}", choose_device(device)
    name = locate(reference, where)
    with quiet():
        mend = "check the name, or give the folder of a checkpoint; a name needs the network, or the hub's cache"
        loader, masks = _auto_class(read_config(name, where, mend=mend), where)
        # On "meta" first: missing weights would be initialised, of whatever size the configuration claims.
        for on in (torch.device("meta"), None):
            with loading("the weights cannot be read", where, AGAIN):
                model, notes = loader.from_pretrained(
                    name,
                    dtype=torch.float32,
                    device_map=on,
                    trust_remote_code=False,
                    use_safetensors=True,
                    output_loading_info=True,
                )
            check_weights(notes, where)
        mend = "save it beside the weights (processor.save_pretrained)"
        with loading("its image processor is missing or at fault", where, mend):
            processor = processors.from_pretrained(name, trust_remote_code=False)
        folder = Path(str(cached_file(name, "config.json"))).parent  # Of a name: in the hub's cache.
    return HuggingFace(model, processor, masks=masks, weights=_checksums(folder), device=place)


def _auto_class(config: Mapping[str, Any], where: str) -> tuple[Any, bool]:
    """The auto class of a checkpoint, that of its own class where its family has several; whether it gives masks."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    loaders: Any = transformers
    kind, saved = config["model_type"], (config.get("architectures") or [""])[0]
    known = (
        (loaders.AutoModelForInstanceSegmentation, auto.MODEL_FOR_INSTANCE_SEGMENTATION_MAPPING_NAMES, True),
        (loaders.AutoModelForUniversalSegmentation, auto.MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES, True),
        (loaders.AutoModelForObjectDetection, auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES, False),
    )
    fits = [(loader, masks, names[kind] == saved) for loader, names, masks in known if kind in names]
    if fits and kind not in _OTHER_INPUTS:
        loader, masks, _ = max(fits, key=lambda fit: fit[2])  # The first of the best.
        return loader, masks
    if config.get("auto_map"):
        raise needs_code(where)
    raise JudgeError(f"'{kind}' is no model that finds instances in images", where=where, mend=_CHOOSE)


def _checksums(folder: Path) -> str:
    """A checksum of the weights and configurations in a folder."""
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")]):
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return fingerprint(*found)

"""``hf:NAME``: Hugging Face models that segment instances, or detect objects (their masks are then boxes)."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from judge.errors import JudgeError, require
from judge.masking.detectors import MIN_SCORE
from judge.masking.instances import BoolMask, Instance, LoadedImage, box_mask, from_mask
from judge.utils.hub import load_image_processor, load_model, locate, quiet, read_config
from judge.utils.identity import content_of
from judge.utils.parallel import choose_device

_Found = Iterator[tuple[int, float, BoolMask]]  # Class, score and mask of an instance.
_QUERIES = "class_queries_logits", "masks_queries_logits"
_OTHERS = {"OneFormerForUniversalSegmentation", "VideomtForUniversalSegmentation"}  # They take a prompt, or videos.
# Pixels of a mask while it is drawn: processors draw the masks of all queries at once, as floats (400 MB here).
_DRAWN = 2**20


class HuggingFace:
    """A model of transformers as a detector: ``reference`` is a folder of ``save_pretrained``, or a name on the hub."""

    name = "hf"

    def __init__(self, reference: str, *, device: str | None = None) -> None:
        require("vision", "torch", "torchvision", "transformers", "cv2", "PIL", "pycocotools")
        import torch
        import transformers

        self.device, where = choose_device(device), f"--detector hf:{reference}"
        name = locate(reference, where)
        with quiet():
            loader = _choose_loader(read_config(name, where), where)
            self.model = load_model(loader, name, where, dtype=torch.float32).to(self.device)
            self.processor = load_image_processor(name, where)
        self.labels: dict[int, str] = dict(sorted(self.model.config.id2label.items()))
        self.categories = tuple(self.labels.values())
        self.key = f"hf {content_of(reference)}, transformers {transformers.__version__}, torch {torch.__version__}"

    def detect(self, image: LoadedImage) -> tuple[Instance, ...]:
        """See :meth:`~judge.masking.detectors.Detector.detect`; its image processor sets how many at most."""
        import cv2
        import torch
        from transformers import BatchFeature

        (height, width), found = image.size, []
        shrink = min(1.0, (_DRAWN / (height * width)) ** 0.5)
        drawn = max(1, round(height * shrink)), max(1, round(width * shrink))
        with torch.inference_mode(), quiet():
            inputs = self.processor(images=image.pixels, input_data_format="channels_last", return_tensors="pt")
            given = self.model(**inputs.to(self.device)).items()  # Some processors draw on the CPU alone.
            outputs = BatchFeature({name: value.cpu() for name, value in given if isinstance(value, torch.Tensor)})
            draw = self._masks if {"masks_queries_logits", "pred_masks"} & {*outputs} else self._boxes
            for label, score, mask in draw(outputs, drawn):
                full = cv2.resize(mask.view(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST)
                found.append(from_mask(full.view(np.bool_), self.labels.get(label, str(label)), score=score))
        return tuple(instance for instance in found if instance.area)

    def _boxes(self, outputs: Any, size: tuple[int, int], least: float = MIN_SCORE) -> _Found:
        [found] = self.processor.post_process_object_detection(outputs, threshold=least, target_sizes=[size])
        columns = (found[name].tolist() for name in ("labels", "scores", "boxes"))
        for label, score, (left, top, right, bottom) in zip(*columns, strict=True):
            yield label, score, box_mask((left, top, right - left, bottom - top), size)

    def _masks(self, outputs: Any, size: tuple[int, int]) -> _Found:
        """Masks, which may overlap: in one map of all queries, as EoMT's processor draws it, a bad one hides others."""
        import torch

        post: Any = self.processor.post_process_instance_segmentation
        options: dict[str, Any] = {"threshold": MIN_SCORE, "target_sizes": [size]}
        if overlap := "return_binary_maps" in inspect.signature(post).parameters:
            parts, options["return_binary_maps"] = [outputs], True
        elif "pred_masks" in outputs:  # DETR's processor gives the background to instances, unlike its authors' code.
            for (label, score, _), query in zip(self._boxes(outputs, size, -1.0), outputs.pred_masks[0], strict=True):
                if score > MIN_SCORE:
                    full = torch.nn.functional.interpolate(query[None, None], size, mode="bilinear")
                    yield label, score, (full[0, 0] > 0).numpy()
            return
        else:
            each = zip(*(outputs[name].split(1, 1) for name in _QUERIES), strict=True)
            parts = [type(outputs)(dict(zip(_QUERIES, query, strict=True))) for query in each]
        for part in parts:
            [found] = post(part, **options)
            for place, of in enumerate(found["segments_info"]):
                mask = found["segmentation"][place] if overlap else found["segmentation"] == of["id"]
                yield of["label_id"], of["score"], mask.bool().numpy()


def _choose_loader(config: Mapping[str, Any], where: str) -> Any:
    """The auto class that makes the class of model that was saved."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    saved = (config.get("architectures") or [config["model_type"]])[0]
    for loader, names in (
        (transformers.AutoModelForInstanceSegmentation, auto.MODEL_FOR_INSTANCE_SEGMENTATION_MAPPING_NAMES),
        (transformers.AutoModelForUniversalSegmentation, auto.MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES),
        (transformers.AutoModelForObjectDetection, auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES),
    ):
        if saved in names.values() and saved not in _OTHERS:
            return loader
    mend = "choose Mask2Former, MaskFormer, EoMT, RF-DETR, or DETR, RT-DETR, YOLOS and the like for boxes"
    raise JudgeError(f"'{saved}' is no model that finds instances in images", where=where, mend=mend)

"""Hugging Face models as detectors: what their processors find, a model that learned to, and files that cannot be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import detector_samples as samples
import numpy as np
import pytest
import torch
import transformers
from helpers import done_well, read_json, refusal
from PIL import Image

from judge.errors import JudgeError
from judge.masking.detectors import huggingface
from judge.masking.detectors.huggingface import HuggingFace
from judge.masking.images import encode
from judge.masking.instances import BoolMask, LoadedImage, Pixels

HF: Any = transformers
LOADERS = {
    "mask2former": "AutoModelForUniversalSegmentation",
    "maskformer": "AutoModelForInstanceSegmentation",
    "eomt": "AutoModelForUniversalSegmentation",
    "detr-seg": "AutoModelForUniversalSegmentation",
    "rf-detr-seg": "AutoModelForInstanceSegmentation",
    "detr": "AutoModelForObjectDetection",
    "rt-detr": "AutoModelForObjectDetection",
    "yolos": "AutoModelForObjectDetection",
}
[NOISE] = samples.noise_images([(96, 128)])


def outputs_of(folder: Path, family: str, image: LoadedImage) -> tuple[Any, Any]:
    """The processor, and what its model says about an image, by transformers alone."""
    model, processor = (of.from_pretrained(folder) for of in (getattr(HF, LOADERS[family]), HF.AutoImageProcessor))
    with torch.no_grad():
        return processor, model.eval()(**processor(images=Image.fromarray(image.pixels), return_tensors="pt"))


@pytest.mark.parametrize("family", [pytest.param("mask2former", marks=pytest.mark.slow), *list(LOADERS)[1:]])
def test_finds_what_the_processor_finds(family: str, tmp_path: Path) -> None:
    folder = samples.tiny_huggingface(tmp_path, family)
    detector = HuggingFace(str(folder), device="cpu")
    assert detector.categories == samples.CLASSES
    processor, outputs = outputs_of(folder, family, NOISE)
    options: dict[str, Any] = {"threshold": 0.05, "target_sizes": [NOISE.size]}
    expected: list[tuple[str, float, np.ndarray]] = []
    if family == "detr-seg":  # PostProcessSegm of DETR's authors.
        scores, labels = outputs.logits[0].softmax(-1)[:, :-1].max(-1)
        drawn = torch.nn.functional.interpolate(outputs.pred_masks, NOISE.size, mode="bilinear")[0].sigmoid() > 0.5
        rows = zip(scores.tolist(), labels.tolist(), drawn.numpy(), strict=True)
        expected = [(samples.CLASSES[label], score, mask) for score, label, mask in rows if score > 0.05]
    elif "Segmentation" in LOADERS[family]:
        if family != "eomt":
            options["return_binary_maps"] = True
        [own] = processor.post_process_instance_segmentation(outputs, **options)
        for place, of in enumerate(own["segments_info"]):
            mask = own["segmentation"] == of["id"] if family == "eomt" else own["segmentation"][place].bool()
            expected.append((samples.CLASSES[of["label_id"]], of["score"], mask.numpy()))
    else:
        [own] = processor.post_process_object_detection(outputs, **options)
        columns = (own[of].tolist() for of in ("labels", "scores", "boxes"))
        for label, score, (x, y, right, bottom) in zip(*columns, strict=True):
            mask = np.zeros(NOISE.size, dtype=bool)  # Every pixel that the box touches.
            down = slice(max(0, int(np.floor(y))), int(np.ceil(bottom)))
            mask[down, max(0, int(np.floor(x))) : int(np.ceil(right))] = True
            expected.append((samples.CLASSES[label], score, mask))
    found = detector.detect(NOISE)
    assert len(found) >= 3
    expected = [one for one in expected if family == "eomt" or one[2].any()]
    assert [one.label for one in found] == [label for label, _, _ in expected]
    assert [one.score for one in found] == pytest.approx([score for _, score, _ in expected], abs=1e-5)
    covered: np.ndarray = np.zeros(NOISE.size, dtype=bool)
    for instance, (_, _, mask) in reversed([*zip(found, expected, strict=True)]):
        # EoMT's processor draws a later instance over an earlier one.
        seen = instance.mask & ~covered if family == "eomt" else instance.mask
        assert (seen != mask).mean() < 1e-3
        covered |= instance.mask


def draw(rng: np.random.Generator, height: int, width: int, *, edge: bool = False) -> tuple[Pixels, BoolMask]:
    """Coarse dark noise and a bright figure, a body and a head; ``edge``: near the right border."""
    coarse = rng.integers(0, 120, (-(-height // 8), -(-width // 8), 3), dtype=np.uint8)
    pixels = np.kron(coarse, np.ones((8, 8, 1), dtype=np.uint8))[:height, :width]
    y, x = np.mgrid[:height, :width]
    middle = height * rng.uniform(0.5, 0.6)
    across = width - height * 0.17 if edge else rng.uniform(height * 0.2, width - height * 0.2)
    body = ((y - middle) / (height * 0.3)) ** 2 + ((x - across) / (height * 0.13)) ** 2 < 1
    figure = body | ((y - middle + height * 0.33) ** 2 + (x - across) ** 2 < (height * 0.09) ** 2)
    pixels[figure] = (230, 150, rng.integers(40, 90))
    return pixels, figure


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Mask2Former that has learned to find the figures of ``draw``."""
    folder = samples.tiny_huggingface(tmp_path_factory.mktemp("trained"), "mask2former")
    model = HF.AutoModelForUniversalSegmentation.from_pretrained(folder).train()
    processor, rng = HF.AutoImageProcessor.from_pretrained(folder), np.random.default_rng(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        optimizer = torch.optim.AdamW(model.parameters(), 0.003)
        for _ in range(60):
            drawn = [draw(rng, 96, int(rng.choice([96, 128]))) for _ in range(4)]
            batch = processor(
                images=[Image.fromarray(pixels) for pixels, _ in drawn],
                segmentation_maps=[figure.astype(np.int64) for _, figure in drawn],
                instance_id_to_semantic_id={1: samples.CLASSES.index("person")},
                ignore_index=0,
                return_tensors="pt",
            )
            optimizer.zero_grad()
            inputs = {name: batch[name] for name in ("pixel_values", "pixel_mask", "mask_labels", "class_labels")}
            model(**inputs).loss.backward()
            optimizer.step()
    model.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_trained_model_finds_figures_at_their_place(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at the right border, and in large images."""
    detector, rng = HuggingFace(str(trained), device="cpu"), np.random.default_rng(1)
    for size, edge in [((96, 128), False), ((96, 100), True), ((110, 96), False), ((300, 320), True)]:
        pixels, figure = draw(rng, *size, edge=edge)
        [found] = [one for one in detector.detect(LoadedImage("1", pixels)) if one.score >= 0.5]
        assert found.label == "person"
        assert samples.overlap(found.mask, figure) > 0.85
    monkeypatch.setattr(huggingface, "_DRAWN", 10_000)  # As if the image were large: masks are drawn at 97 x 103.
    [small] = [one for one in detector.detect(LoadedImage("1", pixels)) if one.score >= 0.5]
    assert small.size == found.size == (300, 320)
    assert samples.overlap(small.mask, found.mask) > 0.93
    assert small.counts != found.counts


def test_the_key_changes_with_weights_and_processor_alone(tmp_path: Path) -> None:
    folder = samples.tiny_huggingface(tmp_path, "yolos")
    keys = [HuggingFace(str(folder), device="cpu").key]
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert HuggingFace(str(moved), device="cpu").key == keys[0]
    settings = read_json(moved / "preprocessor_config.json")
    (moved / "preprocessor_config.json").write_text(json.dumps(settings | {"size": {"height": 64, "width": 64}}))
    others = moved, samples.tiny_huggingface(tmp_path, "yolos", seed=1)
    keys += [HuggingFace(str(of), device="cpu").key for of in others]
    assert len({*keys}) == 3


def test_checkpoints_that_cannot_be_used(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    def copy(name: str) -> Path:
        return shutil.copytree(whole, tmp_path / name)

    whole = samples.tiny_huggingface(tmp_path, "detr")
    (copy("no-processor") / "preprocessor_config.json").unlink()
    part = copy("part") / "model.safetensors"
    save_file({name: of for name, of in load_file(part).items() if "class_labels" not in name}, part, {"format": "pt"})
    torch.save(load_file(part), copy("pickle") / "pytorch_model.bin")
    (tmp_path / "pickle" / "model.safetensors").unlink()
    HF.SegformerConfig(architectures=["SegformerForSemanticSegmentation"]).save_pretrained(tmp_path / "segformer")
    HF.OneFormerConfig(architectures=["OneFormerForUniversalSegmentation"]).save_pretrained(tmp_path / "oneformer")
    for name, fault in {
        "absent": "no such folder. Check the path",
        "no-processor": r"its image processor is missing or at fault \(.*Save it beside the weights",
        "part": "weights are missing or of another shape",
        "pickle": "there are no weights in safetensors. Convert them",
        "segformer": "'SegformerForSemanticSegmentation' is no model that finds instances in images. Choose",
        "oneformer": "'OneFormerForUniversalSegmentation' is no model that finds instances",
    }.items():
        with pytest.raises(JudgeError, match=f"--detector hf:{tmp_path / name}: {fault}"):
            HuggingFace(str(tmp_path / name), device="cpu")
    config = read_json(whole / "config.json")
    (whole / "config.json").write_text(json.dumps(config | {"id2label": {str(n): f"LABEL_{n}" for n in range(3)}}))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.png").write_bytes(encode(NOISE.pixels))
    given = ["mask", "--images", tmp_path / "images", "--detector", f"hf:{whole}", "--out", tmp_path / "out"]
    message = refusal(*given, "--cache", tmp_path / "cache")
    assert "no category 'person'. Known: LABEL_0, LABEL_1, LABEL_2. Name its categories" in message
    assert "or a network's classes by --class-names" in message
    (tmp_path / "names.txt").write_text("person\ndog\nkite\n")
    done_well(*given, "--cache", tmp_path / "cache", "--class-names", tmp_path / "names.txt", "--allow-unmasked")
    assert "unknown detector 'yollo'; did you mean 'yolo'?" in refusal(*given, "--detector", "yollo", "--overwrite")


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    """images/0.png ... 3.png with a figure each, and instances.json, COCO's, with their masks."""
    from pycocotools import mask as coco

    rng, annotations, folder = np.random.default_rng(2), [], tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        pixels, figure = draw(rng, 96, 128)
        (folder / f"{number}.png").write_bytes(encode(pixels))
        counts = coco.encode(np.asfortranarray(figure, dtype=np.uint8))
        shape = {"size": counts["size"], "counts": counts["counts"].decode()}
        annotations.append({"id": number, "image_id": number, "category_id": 1, "segmentation": shape, "iscrowd": 0})
    images = [{"id": n, "file_name": f"{n}.png", "height": 96, "width": 128} for n in range(4)]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "person"}]}
    (tmp_path / "instances.json").write_text(json.dumps(document))
    return tmp_path


@pytest.mark.slow
def test_mask_and_ablate_detectors(figures: Path, trained: Path, tmp_path: Path) -> None:
    """Figures vanish from masked images; several detectors are compared at once; detections are cached by weights."""
    given = ["--images", figures / "images", "--cache", tmp_path / "cache"]
    done = done_well("mask", *given, "--detector", f"hf:{trained}", "--out", tmp_path / "masked", "--dilation", 2)
    assert "4 images masked; 4 (100.0%) hold person; 4 instances" in done.stdout
    for number in range(4):
        with Image.open(tmp_path / "masked" / f"{number}.png") as image:
            masked = np.asarray(image)
        assert (masked[..., 0] >= 200).sum() < 10  # Red of the figure, of about 900 pixels.
        assert (masked.any(axis=2)).mean() > 0.8
    random = samples.tiny_huggingface(tmp_path, "detr")
    given += ["--instances", figures / "instances.json", "--resamples", 100]
    detectors = f"gt,hf:{trained},hf:{random}"
    done_well("ablate", "detectors", *given, "--detectors", detectors, "--out", tmp_path / "out")
    truth, learnt, guessed = read_json(tmp_path / "out" / "detectors.json")["results"]
    assert [row["detector"] for row in (truth, learnt, guessed)] == detectors.split(",")
    assert truth["iou"] == 1
    assert learnt["iou"] > 0.85
    assert guessed["iou"] < 0.5
    cached = [folder.name for folder in (tmp_path / "cache" / "detections").iterdir()]
    assert len(cached) == 2
    assert all(name.startswith("hf-") for name in cached)

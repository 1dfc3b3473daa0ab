"""Vision encoders of transformers as backbones: vectors and cells as the models compute them, one-line errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from helpers import fault_of
from PIL import Image
from torch import Tensor

from judge.judges import Backbone, Materials
from judge.judges.backbones import make_backbone
from judge.judges.grit import GridsAndRegions
from judge.masking.masked_images import MaskedImages
from judge.training.feature_caches import ImageCache
from judge.training.features import see

SIDE, PATCH, WIDTH = 32, 8, 16
CELLS = (SIDE // PATCH) ** 2
LAYERS: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
LAYERS["hidden_size"] = WIDTH
SEEN: dict[str, Any] = {**LAYERS, "image_size": SIDE, "patch_size": PATCH}
READ: dict[str, Any] = {**LAYERS, "vocab_size": 40, "max_position_embeddings": 8}
SCALED: dict[str, Any] = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}
SQUARE: dict[str, Any] = {**SCALED, "size": {"height": SIDE, "width": SIDE}}
CROPPED: dict[str, Any] = {**SCALED, "size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}


def clip() -> tuple[Any, Any]:
    config = hf.CLIPConfig(text_config=READ, vision_config=SEEN, projection_dim=12)
    return hf.CLIPModel(config), hf.CLIPImageProcessor(**CROPPED)


def siglip() -> tuple[Any, Any]:
    return hf.SiglipModel(hf.SiglipConfig(text_config=READ, vision_config=SEEN)), hf.SiglipImageProcessor(**SQUARE)


def dinov2() -> tuple[Any, Any]:
    return hf.Dinov2Model(hf.Dinov2Config(**SEEN)), hf.BitImageProcessor(**CROPPED)


def registers() -> tuple[Any, Any]:
    config = hf.Dinov2WithRegistersConfig(**SEEN, num_register_tokens=4)
    return hf.Dinov2WithRegistersModel(config), hf.BitImageProcessor(**CROPPED)


def vit() -> tuple[Any, Any]:
    return hf.ViTModel(hf.ViTConfig(**SEEN)), hf.ViTImageProcessor(**SQUARE)


def swin() -> tuple[Any, Any]:
    sizes: Any = {"image_size": SIDE, "patch_size": 4, "window_size": 2, "embed_dim": 8}
    return hf.SwinModel(hf.SwinConfig(**sizes, depths=[1, 1], num_heads=[1, 2])), hf.ViTImageProcessor(**SQUARE)


def resnet() -> tuple[Any, Any]:
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, WIDTH], depths=[1, 1], layer_type="basic")
    sizes: Any = {"size": {"shortest_edge": SIDE}, "crop_pct": 1}
    return hf.ResNetModel(config), hf.ConvNextImageProcessor(**SCALED, **sizes)


def saved(folder: Path, make: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    network, processor = make()
    for name, tensor in network.state_dict().items():
        # In a new network shifts and scales are equal, and weights so small that all images are alike.
        if tensor.ndim == 1 and "running" not in name and tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5)
        elif tensor.ndim > 1:
            tensor.normal_(std=0.2)
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return network.eval(), processor


def opened(folder: object, *, pooled: bool = True, **given: Any) -> Any:
    return make_backbone(Materials(backbone=f"hf:{folder}", **given), "resnet18", pooled=pooled)


# What the whole model gives beside what is tested: CLIP's embedding is compared with its own contrastive output.
def of_clip(network: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    text = torch.zeros(1, 4, dtype=torch.long)
    whole = network(pixel_values=pixels, input_ids=text)
    seen = network.vision_model(pixel_values=pixels)
    own = seen.pooler_output @ network.visual_projection.weight.T
    assert torch.allclose(own / own.norm(dim=1, keepdim=True), whole.image_embeds, atol=1e-5)
    return own, seen.last_hidden_state[:, 1:]


def of_siglip(network: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    states = network.vision_model(pixel_values=pixels).last_hidden_state
    return network.vision_model.head(states), states


def of_dinov2(network: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    states = network.layernorm(network.encoder(network.embeddings(pixels)).last_hidden_state)
    return states[:, 0], states[:, states.shape[1] - CELLS :]


def of_vit(network: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    states = network(pixels).last_hidden_state
    pooler = network.pooler.dense
    return torch.tanh(states[:, 0] @ pooler.weight.T + pooler.bias), states[:, 1:]


def of_map(network: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Means over the last map."""
    states = network(pixels).last_hidden_state
    cells = states if states.ndim == 3 else torch.stack([*states.flatten(2).unbind(2)], dim=1)
    return cells.mean(dim=1), cells


@pytest.mark.parametrize(
    ("make", "by_hand"),
    [
        (clip, of_clip),
        (siglip, of_siglip),
        (dinov2, of_dinov2),
        (registers, of_dinov2),
        (vit, of_vit),
        (swin, of_map),
        (resnet, of_map),
    ],
)
def test_vectors_and_cells_are_the_models_own(
    make: Callable[[], tuple[Any, Any]], by_hand: Callable[[Any, Tensor], tuple[Tensor, Tensor]], tmp_path: Path
) -> None:
    """Of images that the model's image processor prepares."""
    network, processor = saved(tmp_path, make)
    images = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    pixels = processor(images=[Image.fromarray(one) for one in images], return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        vector, cells = by_hand(network, pixels)
        for pooled, expected in ((True, vector[:, None]), (False, cells)):
            backbone = opened(tmp_path, pooled=pooled)
            prepared = torch.stack([*map(backbone.prepare, images)])
            assert torch.allclose(prepared, pixels, atol=1e-6)
            found = backbone(prepared)
            assert found.shape == expected.shape
            assert torch.allclose(found, expected, atol=1e-5)
    assert float(vector.std(dim=0).mean()) > 0.01


def test_without_its_poolers_weights_states_are_averaged(tmp_path: Path) -> None:
    """A classifier's checkpoint has none of them: the pooled output would be random."""
    torch.manual_seed(0)
    classifier = hf.ViTForImageClassification(hf.ViTConfig(**SEEN)).eval()
    classifier.save_pretrained(tmp_path)
    hf.ViTImageProcessor(**SQUARE).save_pretrained(tmp_path)
    images = torch.rand(2, 3, SIDE, SIDE)
    with torch.inference_mode():
        expected = classifier.vit(images).last_hidden_state.mean(dim=1)
        assert torch.allclose(opened(tmp_path)(images)[:, 0], expected, atol=1e-6)


def test_the_key_is_of_the_content(tmp_path: Path) -> None:
    """Wherever it lies, with its size and what is read of it; not of other weights."""
    saved(tmp_path / "one", vit)
    shutil.copytree(tmp_path / "one", tmp_path / "moved")
    network, _ = saved(tmp_path / "other", vit)
    with torch.no_grad():
        network.pooler.dense.bias[0] += 1
    network.save_pretrained(tmp_path / "other")
    key = opened(tmp_path / "one").key
    assert opened(tmp_path / "moved").key == key
    assert opened("gone", backbone_weights=str(tmp_path / "moved")).key == key
    others = [("other", {}), ("one", {"pooled": False}), ("one", {"image_size": 48})]
    assert len({key, *(opened(tmp_path / name, **given).key for name, given in others)}) == 4


def test_another_size_needs_other_positions(tmp_path: Path) -> None:
    """48 pixels are 6 x 6 cells: tables of positions are interpolated as transformers does it."""
    network, _ = saved(tmp_path, vit)
    images = torch.rand(1, 3, 48, 48)
    backbone = opened(tmp_path, pooled=False, image_size=48)
    with torch.inference_mode():
        states = network(images, interpolate_pos_encoding=True).last_hidden_state
        assert torch.allclose(backbone(images), states[:, 1:], atol=1e-6)
    assert backbone(images).shape == (1, 36, WIDTH)


def test_features_are_cached_and_read_by_judges(tmp_path: Path) -> None:
    """Vectors for linear judges; cells, with regions, for GRIT."""
    saved(tmp_path / "model", clip)
    (tmp_path / "images").mkdir()
    names = {str(place): f"{place}.png" for place in range(20)}
    for place, name in enumerate(names.values()):
        pixels = np.random.default_rng(place).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / name)
    images = MaskedImages(tmp_path / "images", names)
    materials = Materials(backbone=f"hf:{tmp_path / 'model'}", images=images)
    assert see(names, materials, tmp_path / "features").rows.shape[0] == 20
    backbone: Backbone = opened(tmp_path / "model")
    cache = ImageCache(backbone, images, {name: images.key(name) for name in names}, tmp_path / "features")
    assert cache.missing() == []
    with torch.inference_mode():
        own = backbone(torch.stack([backbone.prepare(images.read("7"))]))[0]
        kept = cache.open()
        assert torch.allclose(torch.from_numpy(kept.row(kept.places["7"])).float(), own, rtol=2e-3, atol=1e-3)
        grid = GridsAndRegions(opened(tmp_path / "model", pooled=False), regions=2)
        assert grid(torch.rand(1, 3, SIDE, SIDE)).shape == (1, CELLS + 2, WIDTH + 5)


def bert() -> tuple[Any, Any]:
    return hf.BertModel(hf.BertConfig(**READ)), hf.ViTImageProcessor(**SQUARE)


def mae() -> tuple[Any, Any]:
    return hf.ViTMAEModel(hf.ViTMAEConfig(**SEEN)), hf.ViTImageProcessor(**SQUARE)


def yolos() -> tuple[Any, Any]:
    given = {**SEEN, "image_size": [SIDE, SIDE], "num_detection_tokens": 5}
    return hf.YolosModel(hf.YolosConfig(**given)), hf.ViTImageProcessor(**SQUARE)


def mixed() -> tuple[Any, Any]:
    """Blue and red change places in this one's training."""
    return hf.ViTModel(hf.ViTConfig(**SEEN)), hf.MobileViTImageProcessor(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )


@pytest.mark.parametrize(
    ("make", "given", "where", "message"),
    [
        (bert, {}, "--backbone hf:{}: ", "'bert' reads no images. Choose a vision encoder: CLIP, SigLIP, DINOv2"),
        (mae, {}, "--backbone hf:{}: ", "it gives an image other vectors each time (as ViT-MAE does)"),
        (yolos, {"pooled": False}, "--backbone hf:{}: ", "positions that this judge can read (its 22 positions are no"),
        (mixed, {}, "--backbone hf:{}: ", "its image processor cannot be used (it does more than resize images and"),
        (vit, {"image_size": 36, "backbone_weights": "random"}, "--backbone-weights random: ", "weights of its own"),
        (siglip, {"backbone_weights": "nowhere/at/all"}, "--backbone-weights nowhere/at/all: ", "cannot be found"),
    ],
)
@pytest.mark.usefixtures("offline")
def test_faults(
    make: Callable[[], tuple[Any, Any]], given: dict[str, Any], where: str, message: str, tmp_path: Path
) -> None:
    saved(tmp_path, make)
    line = fault_of(opened, tmp_path, **given)
    assert line.startswith(where.format(tmp_path)), line
    assert message in line, line


def levit() -> tuple[Any, Any]:
    """It has biases of attention for one size."""
    sizes: Any = {"hidden_sizes": [8, 8, 8], "num_attention_heads": [1, 1, 1], "depths": [1, 1, 1], "key_dim": [8] * 3}
    return hf.LevitModel(hf.LevitConfig(image_size=64, **sizes)), hf.ViTImageProcessor(
        **{**SQUARE, "size": {"height": 64, "width": 64}}
    )


def test_damaged_checkpoints_and_sizes(tmp_path: Path) -> None:
    saved(tmp_path, levit)
    opened(tmp_path)
    line = fault_of(opened, tmp_path, image_size=96)
    assert line.startswith("--image-size: it does not take images of 96 pixels ("), line
    assert line.endswith("Leave it out.")
    (tmp_path / "preprocessor_config.json").unlink(missing_ok=True)
    assert "its image processor is missing or at fault" in fault_of(opened, tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "the weights cannot be read" in fault_of(opened, tmp_path)
    weights.rename(tmp_path / "pytorch_model.bin")
    assert "there are no weights in safetensors. Convert them" in fault_of(opened, tmp_path)

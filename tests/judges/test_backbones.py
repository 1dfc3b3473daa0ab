"""Frozen backbones: timm's own features, weights from a file or random, one-line errors."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from helpers import fault_of
from PIL import Image
from safetensors.torch import save_file

from judge.judges import Materials
from judge.judges.backbones import TimmBackbone, make_backbone
from judge.judges.image_vectors import ImageVectors
from judge.judges.names import PATCHES
from judge.masking.masked_images import MaskedImages

SMALL, RANDOM = "test_resnet", Materials(backbone_weights="random", image_size=64)


def saved(path: Path, name: str = SMALL, *, seed: int = 0) -> torch.nn.Module:
    """A network of timm with its classifier; its weights are saved in ``path``."""
    torch.manual_seed(seed)
    network = timm.create_model(name).eval()
    # Scales, shifts and statistics are equal in a new network, but not in a trained one.
    for tensor in network.state_dict().values():
        if tensor.ndim == 1:
            tensor.uniform_(0.5, 2)
    save_file(network.state_dict(), path)
    return network


def digest(backbone: TimmBackbone) -> str:
    """A checksum of weights, and the key."""
    parts = [tensor.numpy().tobytes() for tensor in backbone.state_dict().values()]
    return f"{hashlib.sha256(b''.join(parts)).hexdigest()} {backbone.key}"


def test_random_weights_do_not_depend_on_the_global_generator() -> None:
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        backbone = make_backbone(RANDOM, SMALL)
        assert torch.equal(torch.get_rng_state(), before)
        assert not any(parameter.requires_grad for parameter in backbone.parameters())
        assert not any(module.training for module in backbone.network.modules())
        found.append(digest(backbone))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [SMALL, "test_vit"])
def test_features_are_the_last_ones_of_the_network(name: str, tmp_path: Path) -> None:
    """With weights from a file: the input of the classifier in timm's whole network."""
    path = tmp_path / "weights.safetensors"
    network = saved(path, name)
    backbone = make_backbone(Materials(backbone_weights=str(path)), name)
    images = torch.rand(2, 3, 160, 160)
    with torch.inference_mode():
        found = backbone(images)
        whole = network.forward_features(images)
        if name == "test_vit":
            found = network.norm(found)  # Not part of a ViT's features.
    if name == SMALL:
        expected = torch.stack([whole[:, :, row, column] for row in range(5) for column in range(5)], dim=1)
    else:
        expected = whole[:, network.num_prefix_tokens :]
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_the_key_depends_on_content_and_size(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.safetensors", "renamed.safetensors", "other.safetensors")]
    for path, seed in zip(paths, (0, 0, 1), strict=True):
        saved(path, seed=seed)
    one, renamed, other = (make_backbone(Materials(backbone_weights=str(path)), SMALL).key for path in paths)
    assert one == renamed != other
    sized = make_backbone(Materials(backbone_weights=str(paths[0]), image_size=64), SMALL).key
    assert len({one, sized, make_backbone(Materials(backbone_weights="random"), SMALL).key}) == 3


def test_images_are_resized_and_normalised() -> None:
    backbone = make_backbone(Materials(backbone_weights="random", image_size=32), SMALL)
    pixels = np.zeros((20, 50, 3), dtype=np.uint8)
    pixels[:] = (255, 128, 0)
    found = backbone.prepare(pixels)
    assert (found.shape, found.dtype) == ((3, 32, 32), torch.float32)
    config = timm.get_pretrained_cfg(SMALL)
    expected = (np.array([255, 128, 0]) / 255 - config.mean) / config.std
    assert found[:, 0, 0].numpy() == pytest.approx(expected, abs=1e-6)
    # The edge of the longer side is not cropped.
    pixels[:, -3:] = 255
    assert (backbone.prepare(pixels)[2, :, -1] > found[2, :, -1]).all()


def pickled(_: bytes) -> bytes:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return exec, ("raise SystemExit('unpickled')",)

    buffer = io.BytesIO()
    torch.save({"weight": Trap()}, buffer, pickle_module=pickle)
    return buffer.getvalue()


NO_FILE = "is no safetensors file, or damaged"
NO_FIT = "its weights do not fit into 'test_resnet' (Error(s) in loading state_dict for ResNet). Give"


@pytest.mark.parametrize(
    ("given", "network", "damage", "message"),
    [
        (SMALL, SMALL, lambda whole: whole[:-100], NO_FILE),
        (SMALL, SMALL, pickled, NO_FILE),
        ("test_vit", SMALL, bytes, "weights are in it, and"),
        ("test_efficientnet", SMALL, bytes, NO_FIT),
        # A deeper network's weights have all names and shapes of a shallower one's.
        ("resnet34", "resnet18", bytes, "weights"),
    ],
)
def test_files_with_other_weights(
    given: str, network: str, damage: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "weights.pth"
    saved(path, given)
    path.write_bytes(damage(path.read_bytes()))
    refused(Materials(backbone=network, backbone_weights=str(path)), f"--backbone-weights {path}: ", message)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("materials", "where", "message"),
    [
        (
            Materials(backbone=f"{SMALL}.r160_in1k"),
            "--backbone: ",
            "weights of 'test_resnet.r160_in1k' cannot be loaded",
        ),
        (Materials(backbone="resent18"), "--backbone: ", "timm has no network 'resent18'. Did you mean 'resnet18'?"),
        (
            Materials(backbone="resnet50.nope", backbone_weights="random"),
            "--backbone: ",
            "timm has no weights 'nope' of 'resnet50'. Use 'resnet50', or see timm.list_pretrained().",
        ),
        (Materials(backbone_weights="nowhere"), "--backbone-weights nowhere: ", "no such file"),
        (replace(RANDOM, backbone="test_vit", image_size=100), "--image-size: ", "does not take images of 100 pixels"),
    ],
)
def test_faults(materials: Materials, where: str, message: str) -> None:
    refused(materials, where, message)


def refused(materials: Materials, where: str, message: str) -> None:
    line = fault_of(make_backbone, materials, SMALL)
    assert line.startswith(where), line
    assert message in line


def test_pooled_vectors_are_what_the_classifier_reads(tmp_path: Path) -> None:
    """With attention or an average, as the network pools; one vector for each image."""
    for name in (SMALL, "test_vit", "vit_tiny_patch16_224"):
        network = saved(tmp_path / f"{name}.safetensors", name)
        materials = Materials(backbone=name, backbone_weights=str(tmp_path / f"{name}.safetensors"))
        backbone = make_backbone(materials, SMALL, pooled=True)
        images = torch.rand(2, 3, backbone.size, backbone.size)
        with torch.inference_mode():
            expected = network.forward_head(network.forward_features(images), pre_logits=True)
            found = backbone(images)
        assert torch.allclose(found[:, 0], expected, atol=1e-5)
        assert found.shape == (2, 1, expected.shape[1])


def test_random_patches_tell_textures_apart(tmp_path: Path) -> None:
    """Stripes from checks; the same images give the same encoder, whatever the global generators do."""
    stripes = np.tile(np.repeat([0, 255], 4), (96, 12)).astype(np.uint8)
    checks = np.where(np.add.outer(np.arange(96) // 4, np.arange(96) // 4) % 2, 255, 0).astype(np.uint8)
    names = {}
    for place in range(20):
        pixels = np.stack([np.roll((stripes, checks)[place % 2], place, axis=1)] * 3, axis=-1)
        Image.fromarray(pixels).save(tmp_path / f"{place}.png")
        names[str(place)] = f"{place}.png"
    materials = Materials(backbone=PATCHES, images=MaskedImages(tmp_path, names))
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global one
        encoder = make_backbone(materials, SMALL, pooled=True)
        prepared = torch.stack([encoder.prepare(materials.images.read(name)) for name in names])
        with torch.inference_mode():
            found.append((encoder.key, encoder(prepared)))
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])
    rows = found[0][1].mean(dim=1).numpy()
    vectors = ImageVectors.of(dict(zip(names, rows, strict=True))).named(names)
    first, second = vectors[::2], vectors[1::2]
    across = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    assert across > 5 * max(first.std(axis=0).max(), second.std(axis=0).max())
    assert "there are none" in fault_of(lambda: make_backbone(Materials(backbone=PATCHES), SMALL))


def test_vectors_of_images() -> None:
    """Principal components of standardised features; of length 1 on average; as many as images allow."""
    draws = np.random.default_rng(0)
    features = draws.normal(size=(400, 3)) @ np.array([[5.0, 5.0, 0.0, 0.0], [0, 1, 0, 0], [0, 0, 1, 0]])
    found = ImageVectors.of({str(n): row for n, row in enumerate(features)})
    rows = found.named(map(str, range(400)))
    assert rows.shape == (400, 4)
    assert np.mean((rows**2).sum(axis=1)) == pytest.approx(1)
    standard = (features - features.mean(axis=0))[:, :3] / features.std(axis=0)[:3]
    variances = np.sort(np.linalg.eigvalsh(standard.T @ standard / 400))
    least, *spread = np.sort(rows.var(axis=0))
    assert least < 1e-12  # The last feature is always 0.
    assert spread / np.sum(spread) == pytest.approx(variances / variances.sum(), rel=1e-4)
    assert not found.named([None]).any()
    few = ImageVectors.of({str(n): row for n, row in enumerate(features[:16])})
    assert few.rows.shape == (16, 2)

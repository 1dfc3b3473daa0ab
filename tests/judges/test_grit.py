"""GRIT: its cross-attention against slow loops, its regions against rasters, and what may not change an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GENDER, Glimpses, accuracy, make_glimpses, make_samples

from judge.judges import Answering, Materials, Recipe, RegionBackbone, find_judge
from judge.judges.backbones import make_backbone
from judge.judges.grit import CODE, GridsAndRegions, Grit, ParallelLayer, covered, waves
from judge.judges.sat import ask
from judge.masking.hidden import HiddenPictures
from judge.masking.regions import MOST, Box
from judge.training.precompute import precompute_pictures
from judge.training.processes import make_accelerator
from judge.training.trainer import Trainer
from judge.types import FloatArray, Sample

SAMPLES = make_samples(16)
CELLS, REGIONS, COLUMNS = 4, 3, 6
SMALL = {"width": 16, "heads": 2, "layers": 2}


class Things(Glimpses):
    """Cells of noise and regions of noise; of the regions of image n, n modulo 4 are there."""

    regions = REGIONS

    def __init__(self, samples: Sequence[Sample], *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        pictures = {}
        for sample in samples:
            picture = rng.normal(size=(CELLS + REGIONS, COLUMNS + CODE))
            picture[:CELLS, COLUMNS:] = 0
            picture[CELLS:, COLUMNS:] = rng.random((REGIONS, CODE))
            picture[CELLS:, -1] = np.arange(REGIONS) < int(sample.image_id) % (REGIONS + 1)
            picture[CELLS:][picture[CELLS:, -1] == 0] = 0
            pictures[str(sample.image)] = picture
        super().__init__(pictures, (CELLS + REGIONS, COLUMNS + CODE))

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> Things:
        """The same, after ``change`` of the regions, [R, D + 5], of each picture."""
        other = Things([])
        for name, picture in self.pictures.items():
            other.pictures[name] = np.concatenate([picture[:CELLS], change(picture[CELLS:].copy())])  # type: ignore[index]
        return other


def make_grit(features: Any, answering: Answering = "restricted", samples: Sequence[Sample] = SAMPLES) -> Grit:
    """A small one, with weights large enough that nothing is nearly linear."""
    torch.manual_seed(1)
    words = sorted({word for sample in samples for word in sample.words} | set(ask(None)))
    vocabulary = {word: row for row, word in enumerate(["<pad>", "<unk>", *words])}
    network = Grit(vocabulary, ask(None), 2, features, answering=answering, **SMALL)  # type: ignore[arg-type]
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network.eval()


def logits(network: Grit, samples: Sequence[Sample] = SAMPLES) -> FloatArray:
    with torch.no_grad():
        return network(network.collate(samples)).double().numpy()


# The network.


def by_hand(layer: ParallelLayer, words: FloatArray, cells: FloatArray, things: FloatArray) -> FloatArray:
    """One layer, a word and a head at a time; ``things`` are those that are there."""
    weights = {name: tensor.double().numpy() for name, tensor in layer.state_dict().items()}

    def linear(name: str, x: FloatArray) -> FloatArray:
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    def norm(name: str, x: FloatArray) -> FloatArray:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attend(name: str, asking: FloatArray, told: Sequence[FloatArray]) -> FloatArray:
        query, width = linear(f"{name}.ask", asking), len(asking)
        keys, values = zip(*(np.split(linear(f"{name}.tell", one), 2) for one in told), strict=True)
        found = []
        for head in np.split(np.arange(width), SMALL["heads"]):
            scores = np.array([query[head] @ key[head] for key in keys]) / np.sqrt(len(head))
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            found.append(sum(share * value[head] for share, value in zip(shares, values, strict=True)))
        return linear(f"{name}.output", np.concatenate(found))

    def gated(name: str, asking: FloatArray, seen: FloatArray) -> FloatArray:
        return seen / (1 + np.exp(-linear(name, np.concatenate([asking, seen]))))

    rows = []
    for step, word in enumerate(words):
        earlier = [norm("before", one) for one in words[: step + 1]]
        known = word + attend("among", earlier[-1], earlier)
        asking = norm("between", known)
        grids, regions = attend("to_cells", asking, cells), attend("to_things", asking, things)
        known += (gated("gate_of_cells", asking, grids) + gated("gate_of_things", asking, regions)) / np.sqrt(2)
        rows.append(known + linear("feed.3", np.maximum(linear("feed.1", norm("feed.0", known)), 0)))
    return np.array(rows)


def test_parallel_cross_attention_is_the_papers() -> None:
    torch.manual_seed(0)
    layer = ParallelLayer(16, SMALL["heads"], 0.1).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    words, cells, things = (torch.randn(2, n, 16) for n in (5, 4, 3))
    there = torch.tensor([[True, False, True], [True, False, False]])
    with torch.no_grad():
        found = layer(words, cells, things, there).double().numpy()
    for row in range(2):
        parts = [part[row].double().numpy() for part in (words, cells, things)]
        expected = by_hand(layer, parts[0], parts[1], parts[2][there[row].numpy()])
        assert found[row] == pytest.approx(expected, abs=1e-4)


def test_positions_are_sines_and_cosines() -> None:
    found = waves(7, 6).numpy()
    for place in range(7):
        for pair in range(3):
            angle = place / 10_000 ** (2 * pair / 6)
            assert found[place, 2 * pair : 2 * pair + 2] == pytest.approx([np.sin(angle), np.cos(angle)], abs=1e-6)


def test_neither_padding_nor_company_nor_order_changes_an_answer() -> None:
    network = make_grit(Things(SAMPLES))
    together = logits(network)
    assert np.ptp(together, axis=0).min() > 0.01
    alone = np.concatenate([logits(network, [sample]) for sample in SAMPLES])
    assert alone == pytest.approx(together, abs=1e-5)
    assert logits(network, SAMPLES[::-1])[::-1] == pytest.approx(together, abs=1e-5)
    batch = dict(network.collate(SAMPLES))
    batch["tokens"] = torch.nn.functional.pad(batch["tokens"], (0, 7), value=3)
    for row, length in zip(batch["tokens"], batch["lengths"], strict=True):
        row[length:] = 3
    with torch.no_grad():
        assert network(batch).double().numpy() == pytest.approx(together, abs=1e-5)


def test_regions_count_whatever_their_order_and_those_that_are_not_there_do_not() -> None:
    things = Things(SAMPLES)
    network = make_grit(things)
    told = logits(network)
    network.features = things.changed(lambda rows: rows[::-1])
    assert logits(network) == pytest.approx(told, abs=1e-5)
    network.features = things.changed(lambda rows: np.where(rows[:, -1:] > 0, rows, [*[9.0] * (COLUMNS + 4), 0]))
    assert logits(network) == pytest.approx(told, abs=1e-5)
    seen = things.changed(lambda rows: rows + rows[:, -1:] * np.eye(COLUMNS + CODE)[0])
    placed = things.changed(lambda rows: rows + rows[:, -1:] * np.eye(COLUMNS + CODE)[COLUMNS])
    for other in (seen, placed):
        network.features = other
        moved = np.abs(logits(network) - told).max(axis=1)
        held = np.array([int(sample.image_id) % (REGIONS + 1) for sample in SAMPLES])
        assert (moved[held > 0] > 1e-4).all()
        assert moved[held == 0] == pytest.approx(0, abs=1e-6)


def test_cells_know_their_places() -> None:
    things = Things(SAMPLES)
    network = make_grit(things)
    told = logits(network)
    for picture in things.pictures.values():
        picture[:CELLS] = picture[:CELLS][::-1].copy()
    assert np.abs(logits(network) - told).max() > 1e-3


@pytest.mark.parametrize("answering", ["restricted", "vocabulary"])
def test_without_any_region_and_without_a_picture(answering: Answering) -> None:
    grids = make_grit(make_glimpses(SAMPLES), answering)
    blank = [Sample("x", "human", 0, words, (0,)) for words in ((), ("never", "seen"))]
    for network in (grids, make_grit(Things(SAMPLES), answering)):
        found = logits(network, [*SAMPLES, *blank])
        assert np.isfinite(found).all()
        assert (answering == "restricted") or (np.exp(found).sum(axis=1) < 1).all()


def test_bf16_is_near() -> None:
    network = make_grit(Things(SAMPLES))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = logits(network)
    assert near == pytest.approx(logits(network), abs=0.15)
    assert not np.array_equal(near, logits(network))


def test_the_recipe_is_imagecaptioner2s() -> None:
    """Section 5.2, for all its judges: 40 epochs, batches of 128."""
    for name in ("grit", "sat"):
        recipe = find_judge(name).recipe
        assert recipe
        assert (recipe.epochs, recipe.batch_size, recipe.keep) == (40, 128, "best")


def learnt(features: Glimpses, samples: Sequence[Sample]) -> float:
    """Accuracy on pictures that the judge never saw."""
    torch.manual_seed(0)
    vocabulary = {word: row for row, word in enumerate(["<pad>", "<unk>", *ask(None)])}
    network = Grit(vocabulary, ask(None), 2, features, width=32, heads=4, layers=1)
    recipe = Recipe(epochs=8, learning_rate=2e-3, batch_size=32, keep="best")
    trainer, cut = Trainer(make_accelerator()), len(samples) * 3 // 5
    trainer.fit(
        network, samples[:cut], target=GENDER, recipe=recipe, seed=0, validation=samples[cut : cut + len(samples) // 5]
    )
    rest = samples[cut + len(samples) // 5 :]
    return accuracy(trainer.predict(network, rest, target=GENDER, recipe=recipe), rest)


def test_what_only_a_thing_tells_is_learnt() -> None:
    """One region shows the class, a different one in each picture; all else is noise."""
    samples = [
        Sample(str(n), "human", 0, ("a", "b")[: n % 3], (n // 4 % 2,), image=f"{n}.png") for n in range(1, 640) if n % 4
    ]
    things = Things(samples)
    for sample in samples:
        rows = things.pictures[str(sample.image)][CELLS:]
        rows[int(sample.image_id) // 8 % int(rows[:, -1].sum()), 0] += 6 if sample.answers[0] else -6
    assert learnt(things, samples) > 0.9
    hidden = things.changed(lambda rows: rows * [*[1.0] * (COLUMNS + CODE - 1), 0])
    assert learnt(hidden, samples) < 0.65


# Its eyes.

BOXES = [(0.0, 0.0, 1.0, 1.0), (0.25, 0.5, 0.5, 0.75), (0.1, 0.3, 0.55, 0.4), (0.975, 0.0, 1.0, 0.025), (0.0,) * 4]


def test_shares_are_what_a_fine_raster_counts() -> None:
    found = covered(torch.tensor([BOXES]), 4)[0].numpy()
    for shares, (left, top, right, bottom) in zip(found, BOXES, strict=True):
        raster = np.zeros((40, 40))
        raster[round(40 * top) : round(40 * bottom), round(40 * left) : round(40 * right)] = 1
        counted = raster.reshape(4, 10, 4, 10).sum(axis=(1, 3)).ravel()
        assert shares == pytest.approx(counted / max(1, counted.sum()), abs=1e-5)


@pytest.fixture(scope="module")
def eyes() -> GridsAndRegions:
    materials = Materials(backbone="resnet18", backbone_weights="random", image_size=64)
    made = find_judge("grit").backbone
    assert made
    backbone = made(materials)
    assert isinstance(backbone, GridsAndRegions)
    assert isinstance(backbone, RegionBackbone)
    return backbone


@torch.no_grad()
def test_a_region_is_the_mean_of_the_cells_under_it(eyes: GridsAndRegions) -> None:
    pictures = torch.randn(2, 3, 64, 64)
    cells = eyes.eyes(pictures)
    boxes = torch.zeros(2, MOST, 4)
    boxes[0, 0], boxes[0, 1], boxes[1, 0] = torch.tensor([[0, 0, 1, 1], [0.5, 0, 1, 0.5], [0, 0, 0.5, 1.0]])
    found = eyes(pictures, boxes)
    assert found.shape == (2, 4 + MOST, 512 + CODE)
    assert torch.equal(found[:, :4, :512], cells)
    assert not found[:, :4, 512:].any()
    expected = [(0, 0, cells[0].mean(dim=0)), (0, 1, cells[0, 1]), (1, 0, (cells[1, 0] + cells[1, 2]) / 2)]
    for row, place, mean in expected:
        assert torch.allclose(found[row, 4 + place, :512], mean, atol=1e-5)
        assert torch.equal(found[row, 4 + place, 512:], torch.cat([boxes[row, place], torch.ones(1)]))
    assert not found[0, 6:].any()
    assert not found[1, 5:].any()
    assert torch.equal(eyes(pictures)[:, :4], found[:, :4])
    assert not eyes(pictures)[:, 4:].any()


def seen(folder: Path, boxes: tuple[Box, ...]) -> Materials:
    names = {"1": "1.png", "2": "2.png"}
    pictures = HiddenPictures(folder, names, regions={"1.png": boxes})
    return Materials(pictures=pictures, backbone="resnet18", backbone_weights="random", image_size=64)


def test_features_follow_the_boxes_of_judges_that_read_them_and_of_no_other(tmp_path: Path) -> None:
    import cv2

    for name in ("1.png", "2.png"):
        cv2.imwrite(str(tmp_path / name), np.random.default_rng(len(name)).integers(0, 255, (40, 60, 3), np.uint8))
    judges = {name: find_judge(name) for name in ("sat", "grit")}
    runs = [
        precompute_pictures(judges, ["1", "2"], seen(tmp_path, boxes), tmp_path / "kept")
        for boxes in ((), ((0.0, 0.0, 0.5, 0.5),), ((0.5, 0.0, 1.0, 0.5),), ())
    ]
    assert len({run.backbones["grit"] for run in runs}) == 3
    assert runs[0].backbones == runs[3].backbones
    assert len({run.backbones["sat"] for run in runs}) == 1
    assert all(run.keys == runs[0].keys for run in runs)
    both = [Sample(image, "human", 0, (), (0,), image=image) for image in "12"]
    for run, cell in zip(runs[1:3], (0, 1), strict=True):
        store = run.features["grit"]
        assert getattr(store, "regions", 0) == MOST
        rows = store.rows(both)
        assert torch.equal(rows[0, 4, :512], rows[0, cell, :512])
        assert not rows[1, 4:].any()
        assert getattr(run.features["sat"], "regions", 0) == 0
        assert torch.equal(run.features["sat"].rows(both), rows[:, :4, :512])
    # One file for sat, and for grit one with both pictures and two with that whose boxes changed.
    assert len(list((tmp_path / "kept").rglob("*.npy"))) == 4


def test_the_papers_eyes_are_a_swin() -> None:
    backbone = make_backbone(
        Materials(backbone="swin_tiny_patch4_window7_224", backbone_weights="random", image_size=64), "resnet18"
    )
    with torch.inference_mode():
        found = GridsAndRegions(backbone)(torch.zeros(1, 3, 64, 64))
    assert found.shape == (1, 4 + MOST, 768 + CODE)

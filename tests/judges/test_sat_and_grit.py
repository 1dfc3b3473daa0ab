"""Show, Attend and Tell and GRIT against slow loops; GRIT's regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GENDER, Glimpses, enlarge, logits, make_glimpses, make_samples, network_of, unmoved
from scipy.special import expit, log_softmax, softmax

from judge.corpus.splits import Split
from judge.judges import Answering, Materials
from judge.judges.encoders import build_vocabulary
from judge.judges.grit import CODE, GridsAndRegions, Grit, ParallelLayer
from judge.judges.names import find_judge
from judge.judges.prompts import make_prompt
from judge.judges.sat import Cloze, ShowAttendTell
from judge.masking.images import encode
from judge.masking.instances import MAX_BOXES
from judge.masking.masked_images import MaskedImages
from judge.training.features import precompute
from judge.training.loop import Truth, weighted_loss
from judge.training.member import Member
from judge.types import FloatArray, Sample

SAMPLES = make_samples(16)
QUESTION = ("therefore", ",", "the", "gender", "is")
PROMPT = Sample("", "human", 0, (*QUESTION, *GENDER.classes), (0,))
CELLS, REGIONS, COLUMNS = 4, 3, 6
SMALL = {"width": 16, "heads": 2, "layers": 2}


def test_sat_begins_as_its_description_says() -> None:
    """He et al.'s variance, 2 / inputs; words of variance 1; only the forget gate's bias is 1; half are dropped."""
    network = network_of("sat", SAMPLES, Materials(features=make_glimpses(SAMPLES)))
    enter, forget, new, leave = network.from_word.bias.detach().chunk(4)
    assert torch.equal(forget, torch.ones_like(forget))
    assert not torch.cat([enter, new, leave]).any()
    assert network.dropout.p == 0.5
    linear = [layer for layer in network.modules() if type(layer) is torch.nn.Linear and layer.weight.numel() > 1000]
    assert len(linear) >= 8
    for layer in linear:
        assert float(layer.weight.detach().var()) * layer.in_features == pytest.approx(2, rel=0.15)
    assert float(network.embedding.weight.detach()[1:].var()) == pytest.approx(1, rel=0.15)


def regions(change: Callable[[FloatArray], FloatArray] = np.copy) -> Glimpses:
    """Random cells and regions, after ``change`` of the regions, [R, D + 5], of each image; image n has n modulo 4."""
    rng, glimpses = np.random.default_rng(0), make_glimpses(SAMPLES, shape=(CELLS, COLUMNS), regions=REGIONS)
    for name, picture in glimpses.pictures.items():
        rows = picture[CELLS:]
        rows[:, COLUMNS:-1] = rng.random((REGIONS, CODE - 1))
        rows[int(Path(name).stem) % (REGIONS + 1) :] = 0
        rows[:] = change(rows.copy())
    return glimpses


def make_grit(features: Any, answering: Answering = "restricted") -> Grit:
    torch.manual_seed(1)
    vocabulary = build_vocabulary([*SAMPLES, PROMPT])
    return enlarge(Grit(Cloze(vocabulary, QUESTION, GENDER.classes, features, answering), **SMALL), 0.3)


def by_hand(layer: ParallelLayer, words: FloatArray, cells: FloatArray, things: FloatArray) -> FloatArray:
    """One layer, by word and head; ``things`` are the regions that exist."""
    weights = {name: tensor.double().numpy() for name, tensor in layer.state_dict().items()}

    def linear(name: str, x: FloatArray) -> FloatArray:
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    def norm(name: str, x: FloatArray) -> FloatArray:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attend(name: str, asking: FloatArray, attended: Sequence[FloatArray]) -> FloatArray:
        query, width = linear(f"{name}.query", asking), len(asking)
        keys, values = zip(*(np.split(linear(f"{name}.key_value", one), 2) for one in attended), strict=True)
        found = []
        for head in np.split(np.arange(width), SMALL["heads"]):
            scores = np.array([query[head] @ key[head] for key in keys]) / np.sqrt(len(head))
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            found.append(sum(share * value[head] for share, value in zip(shares, values, strict=True)))
        return linear(f"{name}.output", np.concatenate(found))

    def gated(name: str, asking: FloatArray, attended: FloatArray) -> FloatArray:
        return attended / (1 + np.exp(-linear(name, np.concatenate([asking, attended]))))

    rows = []
    for step, word in enumerate(words):
        earlier = [norm("norm_words", one) for one in words[: step + 1]]
        known = word + attend("to_words", earlier[-1], earlier)
        asking = norm("norm_attended", known)
        grids, regions = attend("to_cells", asking, cells), attend("to_regions", asking, things)
        known += (gated("cell_gate", asking, grids) + gated("region_gate", asking, regions)) / np.sqrt(2)
        rows.append(
            known + linear("feed_forward.3", np.maximum(linear("feed_forward.1", norm("feed_forward.0", known)), 0))
        )
    return np.array(rows)


def test_parallel_cross_attention_is_the_papers() -> None:
    torch.manual_seed(0)
    layer = enlarge(ParallelLayer(16, SMALL["heads"], 0.1), 0.4)
    words, cells, things = (torch.randn(2, n, 16) for n in (5, 4, 3))
    there = torch.tensor([[True, False, True], [True, False, False]])
    with torch.no_grad():
        found = layer(words, cells, things, there).double().numpy()
    for row in range(2):
        parts = [part[row].double().numpy() for part in (words, cells, things)]
        expected = by_hand(layer, parts[0], parts[1], parts[2][there[row].numpy()])
        assert found[row] == pytest.approx(expected, abs=1e-4)


def test_padding_other_samples_the_order_of_regions_and_missing_regions_have_no_effect() -> None:
    network = make_grit(regions())
    before = unmoved(network, SAMPLES)
    assert np.ptp(before, axis=0).min() > 0.01
    network.features = regions(lambda rows: rows[::-1])
    assert logits(network, SAMPLES) == pytest.approx(before, abs=1e-5)
    network.features = regions(lambda rows: np.where(rows[:, -1:] > 0, rows, [*[9.0] * (COLUMNS + 4), 0]))
    assert logits(network, SAMPLES) == pytest.approx(before, abs=1e-5)
    network.features = regions(lambda rows: rows + rows[:, -1:] * np.eye(COLUMNS + CODE)[COLUMNS])
    moved = np.abs(logits(network, SAMPLES) - before).max(axis=1)
    held = np.array([int(sample.image_id) % (REGIONS + 1) for sample in SAMPLES])
    assert (moved[held > 0] > 1e-4).all()
    assert moved[held == 0] == pytest.approx(0, abs=1e-6)
    # The order of cells has an effect.
    network.features = things = regions()
    for picture in things.pictures.values():
        picture[:CELLS] = picture[:CELLS][::-1].copy()
    assert np.abs(logits(network, SAMPLES) - before).max() > 1e-3


SETTINGS = Materials(backbone="resnet18", backbone_weights="random", image_size=64)


@torch.no_grad()
def test_a_region_is_the_mean_of_the_cells_under_it() -> None:
    backbone = find_judge("grit").backbone(SETTINGS)  # type: ignore[misc]
    assert isinstance(backbone, GridsAndRegions)
    images = torch.randn(2, 3, 64, 64)
    cells = backbone.backbone(images)
    boxes = torch.zeros(2, MAX_BOXES, 4)
    boxes[0, 0], boxes[0, 1], boxes[1, 0] = torch.tensor([[0, 0, 1, 1], [0.5, 0, 1, 0.5], [0, 0, 0.5, 1.0]])
    found = backbone(images, boxes)
    assert found.shape == (2, 4 + MAX_BOXES, 512 + CODE)
    assert torch.equal(found[:, :4, :512], cells)
    assert not found[:, :4, 512:].any()
    expected = [(0, 0, cells[0].mean(dim=0)), (0, 1, cells[0, 1]), (1, 0, (cells[1, 0] + cells[1, 2]) / 2)]
    for row, place, mean in expected:
        assert torch.allclose(found[row, 4 + place, :512], mean, atol=1e-5)
        assert torch.equal(found[row, 4 + place, 512:], torch.cat([boxes[row, place], torch.ones(1)]))
    assert not found[0, 6:].any()
    assert not found[1, 5:].any()
    assert torch.equal(backbone(images)[:, :4], found[:, :4])
    assert not backbone(images)[:, 4:].any()


def test_features_depend_on_boxes_for_judges_with_regions_only(tmp_path: Path) -> None:
    names = {"1": "1.png", "2": "2.png"}
    for name in names.values():
        pixels = np.random.default_rng(5).integers(0, 255, (40, 60, 3), np.uint8)
        (tmp_path / name).write_bytes(encode(pixels))
    both = [Sample(image, "human", 0, (), (0,), image=image) for image in names]
    members = [Member(find_judge(name), GENDER, both, Split((), (), {}), 0) for name in ("sat", "grit")]
    runs = []
    for boxes in ((), ((0.0, 0.0, 0.5, 0.5),), ((0.5, 0.0, 1.0, 0.5),), ()):
        pictures = MaskedImages(tmp_path, names, regions={"1.png": boxes})
        runs.append(precompute(members, replace(SETTINGS, images=pictures), tmp_path / "kept"))
    assert len({run.features["grit"].key for run in runs}) == 3
    assert runs[0].features["grit"].key == runs[3].features["grit"].key
    assert len({run.features["sat"].key for run in runs}) == 1
    assert all(run.keys == runs[0].keys for run in runs)
    for run, cell in zip(runs[1:3], (0, 1), strict=True):
        store = run.features["grit"]
        assert store.regions == MAX_BOXES
        rows = store.rows(both)
        assert torch.equal(rows[0, 4, :512], rows[0, cell, :512])
        assert not rows[1, 4:].any()
        assert run.features["sat"].regions == 0
        assert torch.equal(run.features["sat"].rows(both), rows[:, :4, :512])
    # One file for sat; for grit one with both images, and two with the image whose boxes changed.
    assert len(list((tmp_path / "kept").rglob("*.safetensors"))) == 4


def make_sat(answering: Answering = "restricted") -> ShowAttendTell:
    """A small network, with weights so large that no part is nearly linear."""
    torch.manual_seed(1)
    vocabulary = build_vocabulary([*SAMPLES, PROMPT])
    cloze = Cloze(vocabulary, QUESTION, GENDER.classes, make_glimpses(SAMPLES), answering)
    return enlarge(ShowAttendTell(cloze, embedding=6, hidden=8, attention=5), 0.7)


def sat_by_hand(network: ShowAttendTell, sample: Sample) -> FloatArray:
    """Scores of all words after a sample's last word, in loops: Xu et al., equations 1 to 7 and section 4.2.1."""
    weights = {name: tensor.double().numpy() for name, tensor in network.state_dict().items()}

    def linear(layer: str) -> Callable[[FloatArray], FloatArray]:
        matrix, bias = weights[f"{layer}.weight"], weights.get(f"{layer}.bias", 0.0)
        return lambda x: matrix @ x + bias

    picture = network.features.rows([sample])[0].double().numpy()
    normed = [
        (a - a.mean()) / np.sqrt(a.var() + 1e-5) * weights["project.0.weight"] + weights["project.0.bias"]
        for a in picture
    ]
    annotations = [linear("project.1")(a) for a in normed]
    begin = np.tanh(linear("initial")(sum(annotations) / len(annotations)))
    h, c = begin[:8], begin[8:]
    for word in (*sample.words, *network.question):
        embedded = weights["embedding.weight"][network.vocabulary.get(word, 1)]
        energies = [linear("energy")(np.tanh(linear("key")(a) + linear("query")(h)))[0] for a in annotations]
        alpha = softmax(energies)
        beta = expit(linear("gate")(h))
        z = beta * sum(share * a for share, a in zip(alpha, annotations, strict=True))
        gates = linear("from_word")(embedded) + linear("from_image")(z) + linear("from_hidden")(h)
        i, f, g, o = expit(gates[:8]), expit(gates[8:16]), np.tanh(gates[16:24]), expit(gates[24:])
        c = f * c + i * g
        h = o * np.tanh(c)
    # Deep output, equation 7: from the last word, the hidden state and the attended features.
    return linear("output")(embedded + linear("hidden_output")(h) + linear("image_output")(z))


@pytest.mark.parametrize("answering", ["restricted", "vocabulary"])
def test_it_is_the_papers_network(answering: Answering) -> None:
    network = make_sat(answering)
    odd = [Sample("0", "human", 0, words, (0,), image="1.png") for words in ((), ("never", "seen"), ("clue0",) * 9)]
    samples = [*SAMPLES[:4], *odd]
    expected = np.array([sat_by_hand(network, sample) for sample in samples])
    if answering == "vocabulary":
        expected = log_softmax(expected, axis=1)
    expected = expected[:, [network.vocabulary[name] for name in GENDER.classes]]
    assert logits(network, samples) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["sat", "grit"])
@pytest.mark.parametrize("answering", ["restricted", "vocabulary"])
def test_an_answer_is_a_word_of_the_vocabulary_and_the_template_is_read(name: str, answering: Answering) -> None:
    samples = [*SAMPLES[:-1], replace(SAMPLES[-1], words=("a", "zebra"))]

    def answered(template: str | None = None, **answers: str) -> tuple[FloatArray, dict[str, int]]:
        materials = Materials(prompt=make_prompt("gender", template, answers), answering=answering)
        network = network_of(name, samples, replace(materials, features=make_glimpses(samples)))
        return logits(network, samples), network.vocabulary

    plain, vocabulary = answered()
    words = {word for sample in samples for word in sample.words}
    assert vocabulary.keys() == words | {"<pad>", "<unk>", *QUESTION, *GENDER.classes}
    swapped, same = answered(female="male", male="Female")
    assert same == vocabulary
    assert np.array_equal(swapped, plain[:, ::-1])
    zebra, smaller = answered(female="zebra")
    assert smaller.keys() == vocabulary.keys() - {"female"}
    assert np.abs(softmax(zebra, axis=1) - softmax(plain, axis=1)).max() > 0.01
    several, larger = answered(male=" young  man")
    assert larger.keys() == vocabulary.keys() - {"male"} | {"young man"}
    assert several.shape == plain.shape
    others, _ = answered("The answer is [Answer]")
    assert np.abs(others - plain).max() > 0.01
    # Shares of the whole vocabulary are below 1 in sum.
    assert (np.exp(plain).sum(axis=1) < 1).all() == (answering == "vocabulary")


def test_the_loss_of_an_answer_is_that_of_its_word_among_all_words() -> None:
    network = make_sat("vocabulary")
    truth = Truth.of(SAMPLES, GENDER)
    own = weighted_loss(network(network.collate(SAMPLES)), truth, among_words=True).item()
    rows = [network.vocabulary[GENDER.classes[sample.answers[0]]] for sample in SAMPLES]
    by_hand = [log_softmax(sat_by_hand(network, sample))[row] for sample, row in zip(SAMPLES, rows, strict=True)]
    assert own == pytest.approx(-sum(by_hand), rel=1e-5)

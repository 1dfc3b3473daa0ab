"""Exact maps of linear judges that see: what each place of an image adds, by hand and by blanking it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from helpers import GENDER, done_well, fault_of, few, pictures_of, read_json, read_rows, settings_of
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from transformers import ViTConfig, ViTImageProcessor, ViTModel

from judge.attribution.judge_views import VectorViews, explain_predictions, open_views
from judge.attribution.maps import attribute
from judge.attribution.words import exact, explain_answers
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config
from judge.judges.backbones import TimmBackbone, load_vision_encoder
from judge.judges.linear import LinearJudge, Reading
from judge.masking.masked_images import MaskedImages
from judge.training.judge_file import Saved, answer, open_judge, read_saved
from judge.training.scorer import Judge
from judge.types import Sample
from judge.utils.tensors import read_tensors

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE, CELLS = 48, 22  # Patches of 6 pixels, every 2 pixels.
CPU = torch.device("cpu")
WORDS = ("a", "<gender>", "with", "a", "tie")


class Trained:
    """Judges of a drawn world, as ``judge train`` saves them; nobody is hidden."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = few(write_world(make_world(60, seed=5), {"much": Captioner(0.9)}, root / "world", pictures=SIZE))
        self.folder = self.files.folder / "images"
        names = {str(number): path.name for number, path in enumerate(sorted(self.folder.iterdir()), start=1)}
        self.images = MaskedImages(self.folder, names)
        self.patches, self.run = self.train("patches")
        self.network, _ = self.train("test_resnet")

    def train(self, backbone: str, judge: str = "linear+image") -> tuple[Saved, tuple[np.ndarray, list[Sample]]]:
        """The judge of human captions; its answers in the run, and what they are about."""
        own = {"metrics": ["imagecaptioner2"], "judge": [judge], "mask": "none", "backbone": backbone}
        own |= {"image_size": SIZE, "checkpoints": self.root / judge / backbone}
        settings = {
            name: of for name, of in settings_of(self.files, self.root).items() if name[:5] not in {"epoch", "learn"}
        }
        jobs, notes = train_judges(make_config(settings | own, TrainConfig))
        assert not any("no weights" in note for note in notes)
        member = next(job.member for job in jobs if job.member.side == "human")
        path = self.root / judge / backbone / f"{member.key}.safetensors"
        return read_saved(path.with_suffix(".weights.safetensors")), (read_tensors(path)[0][member.key], member.test())

    def samples(self, count: int = 3) -> list[Sample]:
        return [Sample(str(n), "human", 0, WORDS, (0,), image=str(n)) for n in range(1, count + 1)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("exact"))


def test_a_stored_judge_answers_as_in_its_run(trained: Trained, tmp_path: Path) -> None:
    """About some of the images too, of which random patches would be others."""
    expected, samples = trained.run
    found, notes = answer(trained.patches, [samples[:5]], features=tmp_path, images=trained.images)
    assert notes == []
    assert found.probabilities == pytest.approx(expected[:5], abs=1e-6)
    assert trained.patches.features["key"].startswith("patches ")


def test_a_stored_judge_scores_images_in_memory(trained: Trained) -> None:
    """Each call looks at its own images; a folder of ``judge export`` holds the same judge."""
    _, samples = trained.run
    judge, captions = Judge.load(trained.patches.path), ["a man with a tie"] * 2
    assert all(sample.image for sample in samples)
    files = [trained.folder / trained.images.names[sample.image] for sample in samples[:2] if sample.image]
    first, second = judge.probabilities(captions, files), judge.probabilities(captions, files[::-1])
    assert first == pytest.approx(second[::-1], abs=1e-9)
    assert abs(first[0] - first[1]).max() > 1e-4
    out = trained.root / "exported"
    done_well("export", "--judge-weights", trained.patches.path, "--out", out)
    assert Judge.load(out).probabilities(captions, files) == pytest.approx(first, abs=1e-12)


def by_hand(saved: Saved, sample: Sample, images: MaskedImages) -> np.ndarray:
    """What each patch adds to the log-odds of the second class, [g, g], from the numbers in the judge's file."""
    tensors = read_tensors(saved.path)[0]
    offset, axes = tensors["offset"], tensors["axes"]
    learnt = tensors["coefficients"][-1 - axes.shape[1] : -1, 0]
    encoder: Any = views_of(saved).encoder
    assert sample.image
    maps = encoder.maps(encoder.prepare(images.read(sample.image))[None])[0].numpy().astype(np.float64)
    return np.einsum("dij,d->ij", maps - offset[:, None, None], axes @ learnt) / CELLS**2


def views_of(saved: Saved) -> VectorViews:
    views, notes = open_views(saved, CPU)
    assert isinstance(views, VectorViews)
    assert notes == []
    return views


def test_what_each_place_adds(trained: Trained) -> None:
    """The mean over patches of features times weights; nothing at the edges, where no patch has its centre."""
    (sample, *_), views = trained.samples(), views_of(trained.patches)
    expected = by_hand(trained.patches, sample, trained.images)
    view = views.view(sample, trained.images.read("1"))
    assert view.exact
    found = view.exact(1)
    assert found.shape == (SIZE, SIZE)
    assert found[2:-2, 2:-2].reshape(CELLS, 2, CELLS, 2).sum(axis=(1, 3)) == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert np.abs(found).sum() == pytest.approx(np.abs(found[2:-2, 2:-2]).sum())
    assert view.exact(0) == pytest.approx(-found, abs=1e-12)
    assert expected.min() < 0 < expected.max()


@pytest.mark.parametrize("backbone", ["patches", "network"])
def test_intercept_words_and_places_add_up(backbone: str, trained: Trained, tmp_path: Path) -> None:
    """To the judge's own log-odds, up to the half precision of the cache; without the cache to rounding."""
    saved: Saved = getattr(trained, backbone)
    samples = trained.samples()
    answers, _ = explain_answers(saved, [samples], features=tmp_path, images=trained.images)
    words, (intercept,) = exact(answers), read_tensors(saved.path)[0]["coefficients"][-1]
    places = list(explain_predictions(saved, samples, trained.images, (), device=CPU)[0])
    assert [one.method for one in places] == ["exact"] * 3
    for of_words, one, total, row in zip(
        words.contributions, places, words.total, answers.answers.probabilities, strict=True
    ):
        base = intercept if one.answer == saved.target.classes[1] else -intercept
        assert one.value == pytest.approx(base + of_words.sum() + one.mass.sum(), abs=1e-9)
        assert total == pytest.approx(one.value, abs=2e-3)
        assert np.log(row.max() / row.min()) == pytest.approx(one.value, abs=2e-3)
        assert abs(one.mass).sum() > 1e-3


def test_blanking_a_place(trained: Trained, tmp_path: Path) -> None:
    """A place with mean features instead changes the judge's log-odds by what it added."""
    (sample, *_), views = trained.samples(), views_of(trained.patches)
    opened: Any = open_judge(trained.patches, [sample], features=tmp_path, images=trained.images)[0]
    encoder: Any = views.encoder
    maps = encoder.maps(encoder.prepare(trained.images.read("1"))[None])
    added = by_hand(trained.patches, sample, trained.images)

    def odds(of: torch.Tensor) -> float:
        features = encoder.pool(of).double().mean(dim=1)[0].numpy()
        opened.images = opened.images.of_others({"1": features})
        return float(opened.log_odds([sample])[0, 1])

    before = odds(maps)
    for row, column in ((0, 0), (10, 12), (21, 21)):
        blank = maps.clone()
        blank[0, :, row, column] = torch.from_numpy(opened.images.offset)
        assert before - odds(blank) == pytest.approx(added[row, column], abs=2e-7)


def tokens(**how: Any) -> VisionTransformer:
    return VisionTransformer(img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=2, num_classes=0, **how)


NETWORKS = {
    "a mean of a map": lambda: timm.create_model("test_resnet", num_classes=0),
    "channels last": lambda: SwinTransformer(
        img_size=32, patch_size=2, embed_dim=8, depths=(1, 1), num_heads=(1, 1), window_size=4, num_classes=0
    ),
    "a mean of tokens": lambda: tokens(global_pool="avg", fc_norm=False),
}
OTHERS = {
    "attention": lambda: tokens(global_pool="map", class_token=False),
    "[CLS]": lambda: tokens(global_pool="token"),
    "a norm of the mean": lambda: tokens(global_pool="avg"),
    "a maximum": lambda: timm.create_model("test_resnet", num_classes=0, global_pool="max"),
}


@pytest.mark.parametrize("pooling", [*NETWORKS, *OTHERS])
def test_only_sums_are_exact(pooling: str) -> None:
    """Other ways of pooling are refused by name, and explained by gradients unless the user asks for more."""
    torch.manual_seed(0)
    network = (NETWORKS | OTHERS)[pooling]()
    size = 32 if isinstance(network, VisionTransformer | SwinTransformer) else 96
    encoder = TimmBackbone(network, "key", size=size, mean=(0.5,) * 3, std=(0.5,) * 3)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    with torch.inference_mode():
        width = encoder(torch.zeros(1, 3, size, size)).shape[-1]
    views = VectorViews(seeing(width), encoder, CPU)
    sample = Sample("1", "human", 0, ("a",), (0,), image="1")
    view = views.view(sample, pixels)
    assert view.exact
    values, slopes = view.grid(1)
    assert values.shape == slopes.shape
    if pooling in OTHERS:
        assert views.methods == ("grad-cam", "gradient-shap")
        line = fault_of(view.exact, 1)
        assert line.startswith("--methods exact: its encoder does not pool places by a mean")
        assert "grad-cam or gradient-shap" in line
        return
    assert views.methods == ("exact",)
    found = view.exact(1)
    with torch.no_grad():
        whole = view.scores(view.model_input)[0, 1]
    assert found.shape == (40, 56)
    assert found.sum() == pytest.approx(float(whole) - 0.25, abs=1e-9)
    # A corner is a cell's: its features less the mean ones, times weights, as a share of all cells.
    judge = seeing(width)
    assert judge.images
    weights = judge.images.axes @ np.array([1.0, -2.0, 0.5])
    whole_cell = weights @ (values[:, 0, 0].double().numpy() - judge.images.offset) / values[0].numel()
    assert found[0, 0] == pytest.approx(whole_cell / (40 * 56 / values[0].numel()), rel=1e-3)


def test_an_encoder_of_transformers_is_explained_by_its_pixels(tmp_path: Path) -> None:
    """It shows no map of its own pooling. The score of an image is the sum of intercept, weights and its vector."""
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8)
    ViTModel(config).save_pretrained(tmp_path)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    encoder = load_vision_encoder(str(tmp_path), "here", size=None, pooled=True)
    judge, pixels = seeing(8), np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    views = VectorViews(judge, encoder, CPU)
    assert views.methods == ("gradient-shap",)
    view = views.view(Sample("1", "human", 0, ("a",), (0,), image="1"), pixels)
    assert judge.images
    with torch.no_grad():
        vector = encoder(encoder.prepare(pixels)[None])[0, 0].double().numpy()
        found = float(view.scores(view.model_input)[0, 1])
    weights = judge.images.axes @ np.array([1.0, -2.0, 0.5])
    assert found == pytest.approx(0.25 + (vector - judge.images.offset) @ weights)
    assert attribute("gradient-shap", view, pixels, 1, samples=4).shape == (40, 56)
    assert view.exact
    assert fault_of(view.grid, 1).startswith("--methods: an encoder of transformers has no map")
    assert fault_of(view.exact, 1).endswith("Choose gradient-shap, or leave it out.")


def seeing(width: int) -> LinearJudge:
    """Knows no word; intercept 0.25; an image's features, less their mean, have random weights."""
    draws = np.random.default_rng(0)
    tensors = {
        "terms": np.zeros(0, np.int64), "groups": np.zeros(0, np.int64), "learnt": np.array([9]),
        "C": np.array([1.0, 1.0]), "open": np.array([True]), "shown": np.array([True]),
        "coefficients": np.array([[1.0], [-2.0], [0.5], [0.25]]), "offset": draws.normal(size=width),
        "axes": draws.normal(size=(width, 3)),
    }  # fmt: skip
    return LinearJudge.restore(GENDER, (), tensors, Reading(vectors=True))


def test_the_command_makes_exact_maps(trained: Trained, tmp_path: Path) -> None:
    """By default, beside words; the table has the sum of a map and the log-odds without the image."""
    captions = tmp_path / "new.json"
    captions.write_text('{"1": "a man with a tie", "2": "a man on a sofa"}')
    given = ["--judge-weights", trained.patches.path, "--captions", captions, *pictures_of(trained.files)]
    given += ["--cache", trained.root / "cache"]
    out = tmp_path / "out"
    done_well("attribute", *given, "--out", out)
    rows = read_rows(out / "pictures.csv")
    assert [row["method"] for row in rows] == ["exact"] * 2
    assert {row["method"] for row in read_rows(out / "words.csv")} == {"exact", "occlusion"}
    assert len(list((out / "maps").iterdir())) == 2
    assert read_json(out / "attribution.json")["pictures"][0]["method"] == "exact"
    done_well("attribute", *given, "--methods", "grad-cam,gradient-shap", "--out", tmp_path / "other")
    assert {row["method"] for row in read_rows(tmp_path / "other" / "pictures.csv")} == {"grad-cam", "gradient-shap"}


def test_a_blank_image_needs_no_image(trained: Trained, tmp_path: Path) -> None:
    """The stored judge of captions alone answers without images, as it did in its run."""
    saved, (expected, samples) = trained.train("patches", "linear+image-caption-only")
    captions = [replace(sample, image=None) for sample in samples]
    assert answer(saved, [captions], features=tmp_path)[0].probabilities == pytest.approx(expected, abs=1e-9)

"""Maps of trained judges: the answer explained, Grad-CAM by hand, GRIT's regions, and ``judge attribute``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import done_well, few, pictures_of, read_json, read_rows, refusal, save_captioner, settings_of
from tiny_bert import save_bert

from judge.attribution.judge_views import explain_predictions, open_views
from judge.attribution.maps import BY_GRADIENTS, grad_cam
from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.images import known_images
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config
from judge.judges.grit import GridsAndRegions
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.masked_images import find_hidden
from judge.masking.people import Hiding
from judge.measure import Job
from judge.training.judge_file import Saved, answer, read_saved
from judge.types import Sample
from judge.utils.outputs import MANIFEST

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE = 64
JUDGES = ["sat", "grit", "vl-lic", "vl-lic-lstm"]
CPU = torch.device("cpu")


class Trained:
    """Judges of images after one epoch on human captions, as ``judge train`` saves them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        captioners = {"much": Captioner(stereotype=0.9)}
        self.files: WorldFiles = few(write_world(make_world(24, seed=5), captioners, root / "world", pictures=SIZE))
        self.reader, self.captioner = save_bert(root / "bert"), save_captioner(root / "git")
        self.images, self.instances = self.files.folder / "images", self.files.folder / "instances.json"
        self.seen = [*pictures_of(self.files), "--cache", root / "cache"]
        self.jobs = self.train("segment", [*JUDGES, f"hf:{self.captioner}", "sat-caption-only"])
        self.plain = self.train("none", ["sat"])
        truth = GroundTruth.read(self.instances)
        names = known_images(self.images, truth)
        self.pictures = find_hidden(self.images, names, detector=truth, hiding=Hiding(), regions=True)

    def train(self, mask: str, judges: list[str]) -> list[Job]:
        settings = settings_of(self.files, self.root) | {"learning_rate": 0.01}
        settings |= {"reader": str(self.reader), "metrics": ["imagecaptioner2"], "judge": judges, "mask": mask}
        settings |= {"checkpoints": self.root / mask}
        return [*train_judges(make_config(settings, TrainConfig))[0]]

    def weights(self, judge: str, mask: str = "segment") -> Path:
        jobs = self.jobs if mask == "segment" else self.plain
        job = next(job for job in jobs if job.judge.partition(":")[0] == judge and job.member.side == "human")
        return self.root / mask / f"{job.member.key}.weights.safetensors"

    def saved(self, judge: str) -> Saved:
        return read_saved(self.weights(judge))

    def captions(self, folder: Path, images: int = 3) -> Path:
        path = folder / "new.json"
        path.write_text(json.dumps({str(image): "a man with a tie" for image in range(1, images + 1)}))
        return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("judges"))


SAMPLES = [
    Sample(str(image), "human", 0, ("a", "<gender>", "with", "a", "tie"), (0,), image=str(image)) for image in (1, 2, 3)
]


@pytest.mark.parametrize("judge", [*JUDGES, "hf"])
def test_what_is_explained_is_the_judges_answer(judge: str, trained: Trained, tmp_path: Path) -> None:
    """The log-odds of its probabilities, up to the half precision of cached features; maps by both methods."""
    saved = trained.saved(judge)
    answers, _ = answer(saved, [SAMPLES], features=tmp_path, images=trained.pictures)
    found, notes = explain_predictions(saved, SAMPLES, trained.pictures, BY_GRADIENTS, device=CPU)
    assert notes == []
    explained = list(found)
    assert [(one.image_id, one.method) for one in explained] == [(s.image_id, m) for s in SAMPLES for m in BY_GRADIENTS]
    for one, row in zip(explained[::2], answers.probabilities, strict=True):
        assert one.answer == saved.target.classes[int(row.argmax())]
        assert one.value == pytest.approx(float(np.log(row.max() / row.min())), abs=2e-3)
        assert one.value >= 0
    assert {one.mass.shape for one in explained} == {(SIZE, SIZE)}
    assert all((one.mass >= 0).all() for one in explained)
    other_class = [1 - saved.target.classes.index(one.answer) for one in explained[::2]]
    against, _ = explain_predictions(saved, SAMPLES, trained.pictures, ("grad-cam",), device=CPU, answers=other_class)
    assert [one.value for one in against] == pytest.approx([-one.value for one in explained[::2]], abs=1e-5)


@pytest.mark.parametrize("judge", ["sat", "grit"])
def test_grad_cam_is_the_formula(judge: str, trained: Trained) -> None:
    """The backbone's map, weighted by its gradients from autograd, through GRIT's regions too."""
    views: Any = open_views(trained.saved(judge), CPU)[0]
    sample, pixels = SAMPLES[0], trained.pictures.read("1")
    boxes = trained.pictures.boxes("1")
    assert boxes
    view = views.view(sample, pixels, boxes)
    backbone, network = views.backbone, views.network
    whole = backbone.backbone if isinstance(backbone, GridsAndRegions) else backbone
    cells = whole(whole.prepare(pixels)[None]).detach().requires_grad_()
    corners = torch.zeros(1, backbone.regions, 4)
    corners[0, : len(boxes)] = torch.tensor(boxes)[: corners.shape[1]]
    features = backbone.with_regions(cells, corners) if judge == "grit" else cells
    batch = network.collate([replace(sample, image=None)])
    scores = network({**batch, "features": features})[0]
    (gradient,) = torch.autograd.grad(scores[1] - scores[0], cells)
    by_hand = (gradient.mean(dim=1, keepdim=True) * cells).sum(dim=2).clamp(min=0)[0].detach().numpy()
    assert grad_cam(view, 1).ravel() == pytest.approx(by_hand, rel=1e-3, abs=1e-7)
    opposite = (gradient.mean(dim=1, keepdim=True) * cells).sum(dim=2).clamp(max=0)[0].detach().numpy()
    assert grad_cam(view, 0).ravel() == pytest.approx(-opposite, rel=1e-3, abs=1e-7)
    if judge == "grit":
        assert not np.allclose(grad_cam(views.view(sample, pixels), 1), grad_cam(view, 1))


def test_a_table_by_masking(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "out"
    weights = [trained.weights("sat"), trained.weights("sat", "none"), trained.weights("sat-caption-only")]
    given = [part for one in weights for part in ("--judge-weights", one)]
    captions = ["--captions", trained.captions(tmp_path), *trained.seen]
    done = done_well("attribute", *given, *captions, "--maps", 2, "--out", out)
    assert "Where they looked" in done.stdout
    summary = read_json(out / "attribution.json")
    table = {(row["masking"], row["method"]): row for row in summary["pictures"]}
    assert set(table) == {(mask, method) for mask in ("segment", "none") for method in BY_GRADIENTS}
    rows = read_rows(out / "pictures.csv")
    assert len(rows) == 2 * 2 * 3
    areas = {row["image_id"]: float(row["area_outside"]) for row in rows}
    for image, area in areas.items():
        region = trained.pictures.hiding.region(  # type: ignore[union-attr]
            trained.pictures.hidden[trained.pictures.names[image]], (SIZE, SIZE)
        )
        assert area == pytest.approx(1 - region.mean())
    for (mask, method), row in table.items():
        own = [one for one in rows if (one["masking"], one["method"]) == (mask, method)]
        scores = [float(one["score"]) for one in own if one["score"]]
        assert (row["images"], row["without"]) == (len(scores), 3 - len(scores))
        if scores:
            assert row["score"] == pytest.approx(np.mean(scores))
    # The first two images, of each of two judges and methods.
    drawn = sorted(path.name for path in (out / "maps").iterdir())
    assert len(drawn) == 8
    assert {name.split("-")[1] for name in drawn} == {"1", "2"}


@pytest.mark.slow
def test_a_captioners_own_words(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = done_well(
        "attribute", "--model", trained.captioner, *trained.seen, "--methods", "grad-cam", "--maps", 1, "--out", out
    )
    rows = read_rows(out / "pictures.csv")
    assert f"NOTE: {len(rows)} of 24 captions say a word of 'gender'" in done.stdout
    assert {row["answer"] for row in rows} <= {"man", "male", "female"}
    assert all(row["answer"] in row["caption"] for row in rows)
    assert len(list((out / "maps").iterdir())) == 1
    made = {MANIFEST, "attribute.yaml", "attribution.json", "maps", "pictures.csv"}
    assert {path.name for path in out.iterdir()} == made


def test_faults(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sat = ["--judge-weights", trained.weights("sat"), "--captions", trained.captions(tmp_path)]
    blind = ["--judge-weights", trained.weights("sat-caption-only"), "--captions", trained.captions(tmp_path)]
    model = ["--model", trained.captioner]
    for given, message in (
        ([*sat, *model], "a judge and a captioner cannot be explained together"),
        (sat[:2], "--captions: judges read captions, and there are none"),
        (sat, "--images: judge 'sat' sees images, and there are none"),
        ([*blind, "--methods", "grad-cam"], "'sat-caption-only' cannot be explained by grad-cam: it sees no images"),
        ([*model, "--instances", trained.instances], "--images: a captioner sees images, and there are none"),
        ([*model, *trained.seen, "--methods", "occlusion"], "--methods: a captioner is explained in images"),
        (["--model", tmp_path / "no/such/one", *trained.seen], "--model"),
    ):
        assert message in refusal("attribute", *given, "--out", out)
        assert not out.exists()
        assert [path.name for path in tmp_path.iterdir()] in ([], ["new.json"])

"""``judge predict`` and ``judge export``: trained judges out of their files, asked again and shared."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from helpers import done_well, few, refusal, save_captioner
from safetensors import safe_open
from safetensors.numpy import save_file
from tiny_bert import save_bert

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config
from judge.corpus.captions import ReadOptions, read_captions
from judge.measure import Job
from judge.training.judge_file import read_saved
from judge.utils.outputs import MANIFEST
from judge.utils.tensors import read_tensors, write_tensors

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE = 64
READ = ["linear", "lstm", "transformer-1", "bert-ft", "bert-pre", "sentence"]
SEEN = ["sat", "grit", "vl-lic", "vl-lic-lstm", "sat-caption-only", "hf"]


class Trained:
    """Judges of every kind, as ``judge train`` leaves them."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept = root, root / "kept"
        captioners = {"much": Captioner(stereotype=0.9)}
        self.files: WorldFiles = few(write_world(make_world(60, seed=5), captioners, root / "world", pictures=SIZE))
        self.reader, self.captioner = save_bert(root / "bert"), save_captioner(root / "git")
        self.images = ["--images", self.files.folder / "images"]
        self.pictures = [*self.images, "--instances", self.files.folder / "instances.json"]
        self.features = ["--features", root / "features"]
        references = {"sentence": f"sentence:{self.reader}", "hf": f"hf:{self.captioner}"}
        judges = [references.get(name, name) for name in READ + SEEN]
        self.jobs = self.train(metrics=["lic", "dbac-ta", "imagecaptioner2"], judge=judges)

    def train(self, **settings: object) -> list[Job]:
        told: dict[str, object] = {
            "human": self.files.human, "captions": [str(self.files.captions["much"])], "labels": self.files.labels,
            "images": self.images[1], "instances": self.pictures[3], "features": self.features[1],
            "backbone": "resnet18", "backbone_weights": "random", "image_size": SIZE, "reader": str(self.reader),
            "protocol": "paper", "seeds": 1, "epochs": 1, "learning_rate": 0.01, "workers": 1, "fill": "mean",
            "refits": 0, "chance": 0,
            "checkpoints": self.kept,
        }  # fmt: skip
        return [*train_judges(make_config(told | settings, TrainConfig)).judges]

    def weights(self, job: Job) -> Path:
        return self.kept / f"{job.member.key}.weights.safetensors"

    def answers(self, job: Job) -> np.ndarray:
        return read_tensors(self.kept / f"{job.member.key}.safetensors")[0][job.member.key]

    def captions(self, job: Job, folder: Path) -> Path:
        """What people or the captioner wrote of the images that a judge was scored on."""
        side = job.member.side
        source = self.files.human if side == "human" else self.files.captions["much"]
        written = read_captions(source, ReadOptions(several=True), side=side).by_image
        path = folder / "new.json"
        path.write_text(json.dumps({image: written[image][0] for image in job.member.split.test}))
        return path

    def job(self, judge: str, side: str = "human", metric: str | None = None) -> Job:
        """One of the judges; of the kind that a checkpoint's name stands for."""
        return next(
            job
            for job in self.jobs
            if job.judge.partition(":")[0] == judge and job.member.side == side
            if metric is None or metric in {row.name for row in job.metrics}
        )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("judges"))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def probabilities(rows: Sequence[dict[str, str]]) -> np.ndarray:
    return np.array([[float(value) for name, value in row.items() if name.startswith("p(")] for row in rows])


def predicted(trained: Trained, weights: Path, captions: Path, out: Path, *extra: object) -> np.ndarray:
    given = ["--judge-weights", weights, "--captions", captions, "--out", out, *trained.features]
    done_well("predict", *given, *trained.pictures, *extra)
    return probabilities(rows_of(out))


@pytest.mark.parametrize("judge", READ + SEEN)
def test_says_what_it_said_in_its_run(judge: str, trained: Trained, tmp_path: Path) -> None:
    """To the last digit; of human captions aligned as they were, of the same images masked as they were."""
    jobs = [job for job in trained.jobs if job.judge.partition(":")[0] == judge]
    assert len(jobs) == (4 if judge in READ else 2)
    for number, job in enumerate(jobs):
        out = tmp_path / f"{number}.csv"
        found = predicted(trained, trained.weights(job), trained.captions(job, tmp_path), out)
        assert found.tolist() == trained.answers(job).tolist(), job.metrics
        rows = rows_of(out)
        assert [row["caption"] for row in rows] == [sample.text for sample in job.member.test()]
        if job.member.target.kind == "attribute":
            expected = [job.member.target.classes[place] for place in found.argmax(axis=1)]
        else:
            names = job.member.target.classes
            expected = ["|".join(n for n, p in zip(names, row, strict=True) if p >= 0.5) for row in found]
        assert [row["predicted"] for row in rows] == expected


def test_words_never_seen_are_hidden_and_aligned(trained: Trained, tmp_path: Path) -> None:
    """By the lexicon and by the captioner's vocabulary, in any format; several captions of an image are asked about."""
    table = tmp_path / "new.csv"
    table.write_text("image_id,caption\n7,A woman's umbrella\n7,The men ride xylophones\n9,\n8,a dog\n")
    out = tmp_path / "out.csv"
    weights = trained.weights(trained.job("lstm", metric="lic"))
    done = done_well("predict", "--judge-weights", weights, "--captions", table, "--out", out)
    rows = rows_of(out)
    assert [(row["image_id"], row["index"]) for row in rows] == [("7", "0"), ("7", "1"), ("8", "0")]
    assert rows[0]["caption"].split()[1] == "<gender>"
    assert rows[1]["caption"].split()[-1] == "<unk>"
    assert probabilities(rows).sum(axis=1) == pytest.approx(1)
    assert "NOTE: 1 captions are empty" in done.stdout
    # A judge of the captioner's own captions reads what they say.
    other = trained.weights(trained.job("lstm", "generated", "lic"))
    done_well("predict", "--judge-weights", other, "--captions", table, "--out", out, "--overwrite")
    assert rows_of(out)[1]["caption"].split()[-1] == "xylophones"


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_lora_merged_is_a_checkpoint_that_answers_alike(dtype: str, trained: Trained, tmp_path: Path) -> None:
    """Adapters beside weights in bf16 are added in float32, where what they change is not rounded away."""
    told = {"metrics": ["imagecaptioner2"], "judge": [f"hf:{trained.captioner}"], "dtype": dtype}
    (job,) = [job for job in trained.train(**told, tuning="lora") if job.member.side == "generated"]
    near = 1e-5 if dtype == "float32" else 0.01
    weights, captions = trained.weights(job), trained.captions(job, tmp_path)
    found = predicted(trained, weights, captions, tmp_path / "lora.csv")
    assert found.tolist() == trained.answers(job).tolist()
    with safe_open(weights, framework="np") as file:
        assert any("lora_A" in name for name in file.keys())  # noqa: SIM118 - no mapping
    folder = tmp_path / "merged"
    done_well("export", "--judge-weights", weights, "--merge", "--out", folder)
    assert not any("lora" in name for name in tensors_of(folder / "model.safetensors"))
    merged = predicted(trained, folder, captions, tmp_path / "merged.csv")
    assert merged == pytest.approx(found, abs=near)
    # Adapters that had learnt nothing would merge into the checkpoint that they began with.
    shot = trained.train(metrics=["imagecaptioner2"], judge=[f"hf:{trained.captioner}"], tuning="zero-shot")
    before = next(trained.answers(other) for other in shot if other.member.side == "generated")
    assert np.abs(before - found).max() > 1e-3
    # As hf:FOLDER of a run.
    asked = trained.train(metrics=["imagecaptioner2"], judge=[f"hf:{folder}"], tuning="zero-shot")
    again = next(trained.answers(other) for other in asked if other.member.side == "generated")
    assert again == pytest.approx(found, abs=near)
    assert "started from: git" in (folder / "README.md").read_text()


def test_half_precision_without_a_gpu(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 is that of training; fp16, which CPUs lack, becomes float32."""
    job, = [
        job for job in trained.train(metrics=["lic"], judge=["lstm"], precision="bf16", checkpoints=tmp_path / "kept")
        if job.member.side == "human"
    ]  # fmt: skip
    captions, weights = trained.captions(job, tmp_path), tmp_path / "kept" / f"{job.member.key}.weights.safetensors"
    found = predicted(trained, weights, captions, tmp_path / "bf16.csv")
    kept = read_tensors(tmp_path / "kept" / f"{job.member.key}.safetensors")[0]
    assert found.tolist() == kept[job.member.key].tolist()
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    half = tmp_path / "fp16.safetensors"
    tensors, notes = read_tensors(weights)
    write_tensors(half, tensors, notes | {"precision": "fp16"})
    whole = predicted(trained, half, captions, tmp_path / "fp16.csv")
    assert whole == pytest.approx(found, abs=0.02)
    assert whole.tolist() != found.tolist()


def tensors_of(path: Path) -> list[str]:
    with safe_open(path, framework="np") as file:
        return [*file.keys()]


@pytest.mark.parametrize("judge", ["lstm", "grit"])
def test_a_shared_folder_and_its_card(judge: str, trained: Trained, tmp_path: Path) -> None:
    job = trained.job(judge, "generated")
    folder, captions = tmp_path / "shared", trained.captions(job, tmp_path)
    done_well("export", "--judge-weights", trained.weights(job), "--out", folder)
    assert {path.name for path in folder.iterdir()} == {MANIFEST, "judge.safetensors", "judge.json", "README.md"}
    found = predicted(trained, folder, captions, tmp_path / "out.csv")
    assert found.tolist() == trained.answers(job).tolist()
    card = (folder / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert "license" not in header
    assert header["library_name"] == "caption-judge"
    images = job.member.training()
    answers = np.array([sample.answers[0] for sample in job.member.test()])
    right = np.mean([np.mean(found[answers == k].argmax(axis=1) == k) for k in (0, 1)])
    told = ["attribute: gender, as perceived", "female, male", "much's"]
    told += [f"{right:.3f}, a mean over classes, on {len(found)} captions"]
    told += ["words of 'gender'", "Never use this judge to infer an attribute of a person", "# license: choose one"]
    told += [f"{sum(sample.answers[0] == k for sample in images)} {name}" for k, name in enumerate(["female", "male"])]
    told += ["people, segment, by detector gt, as mean"] if judge == "grit" else []
    assert [line for line in told if line not in card] == []
    assert json.loads((folder / "judge.json").read_text())["data"]["captioner"] == "much"
    assert "holds another exported judge" in refusal("export", "--judge-weights", trained.weights(job), "--out", folder)


def test_a_checkpoint_that_has_moved(trained: Trained, tmp_path: Path) -> None:
    for judge, place in [("hf", trained.captioner), ("bert-ft", trained.reader), ("sentence", trained.reader)]:
        job, gone = trained.job(judge), place.with_name("elsewhere")
        captions, out = trained.captions(job, tmp_path), tmp_path / f"{judge}.csv"
        given = ["--judge-weights", trained.weights(job), "--captions", captions, *trained.pictures]
        place.rename(gone)
        try:
            told = refusal("predict", *given, "--out", out)
            assert str(place) in told
            found = predicted(trained, trained.weights(job), captions, out, "--base", gone)
        finally:
            gone.rename(place)
        assert found.tolist() == trained.answers(job).tolist()


def test_faults(trained: Trained, tmp_path: Path) -> None:
    lstm, sat, answers = trained.weights(trained.job("lstm")), trained.weights(trained.job("sat")), tmp_path / "a.csv"
    new = trained.captions(trained.job("lstm"), tmp_path)
    (tmp_path / "text.safetensors").write_text("no tensors")
    cut, old, alien, odd, wrong = (tmp_path / f"{name}.safetensors" for name in ("cut", "old", "alien", "odd", "wrong"))
    cut.write_bytes(lstm.read_bytes()[:-100])
    one = {"x": np.zeros(1, dtype=np.float32)}
    save_file(one, old, {"judge": "lstm", "target": "attribute", "classes": '["a", "b"]'})
    save_file(one, alien)
    notes = read_saved(lstm).notes()
    write_tensors(odd, one, notes | {"data": None})
    write_tensors(wrong, one, notes)
    newer = tmp_path / "newer.safetensors"
    write_tensors(newer, one, notes | {"format": 4})
    foreign = tmp_path / "foreign.safetensors"
    write_tensors(foreign, one, notes | {"materials": notes["materials"] | {"pictures": "x"}})
    bare = tmp_path / "bare.safetensors"
    write_tensors(bare, one, replace(read_saved(lstm), preparation=None).notes())
    empty = tmp_path / "empty.json"
    empty.write_text('{"7": " "}')
    own = lstm.with_name(lstm.name.replace(".weights", ""))
    for weights, captions, extra, message in [
        (tmp_path / "none.safetensors", new, [], "no such file or folder"),
        (tmp_path / "text.safetensors", new, [], "is no judge's file of weights, or damaged"),
        (cut, new, [], "is no judge's file of weights, or damaged"),
        (old, new, [], "was written by an older version"),
        (newer, new, [], "has format 4; this version reads 3"),
        (alien, new, [], "is no judge's file of weights"),
        (own, new, [], "holds no judge's weights"),
        (odd, new, [], "lacks what a judge's file must say"),
        (wrong, new, [], "its weights do not fit the judge that it names"),
        (foreign, new, [], "lacks what a judge's file must say (ValueError: it holds pictures)"),
        (bare, new, [], "does not say what hid the attribute from its judge"),
        (trained.kept, new, [], "holds no judge.safetensors"),
        (lstm, empty, [], "empty.json"),
        (lstm, tmp_path / "nowhere.json", [], "nowhere.json"),
        (lstm, new, ["--base", "elsewhere"], "judge 'lstm' started from no checkpoint"),
        (sat, new, [], "judge 'sat' sees images, and there are none"),
        (sat, new, ["--images", tmp_path / "none"], "none"),
        (sat, new, trained.images, "--instances"),
        (sat, new, [*trained.pictures, "--backbone-weights", cut], "cut.safetensors"),
    ]:
        given = ["--judge-weights", weights, "--captions", captions, *extra, "--features", tmp_path / "features"]
        assert message in refusal("predict", *given, "--out", answers)
        assert not answers.exists()
    given = ["--judge-weights", lstm, "--captions", new]
    assert "is read" in refusal("predict", *given, "--out", new)
    assert "is a folder" in refusal("predict", *given, "--out", tmp_path)
    answers.write_text("")
    assert "is there already" in refusal("predict", *given, "--out", answers)
    assert "judge 'lstm' is no captioner of transformers" in refusal(
        "export", "--judge-weights", lstm, "--merge", "--out", tmp_path / "out"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("judge", ["bert-ft", "sentence", "sat", "vl-lic-lstm", "vl-lic", "sat-caption-only", "hf"])
def test_words_of_judges_of_every_kind_are_explained(judge: str, trained: Trained, tmp_path: Path) -> None:
    """Images beside the words; what is explained is what judge predict says."""
    weights, out = trained.weights(trained.job(judge, "generated")), tmp_path / "out"
    table, images = tmp_path / "new.csv", trained.job(judge).member.split.test[:2]
    table.write_text("image_id,caption\n" + "".join(f"{image},a dog with a surfboard\n{image},\n" for image in images))
    given = ["--judge-weights", weights, "--captions", table, *trained.features, *trained.pictures]
    done_well("attribute", *given, "--out", out)
    found = predicted(trained, weights, table, tmp_path / "answers.csv")
    rows = rows_of(out / "words.csv")
    assert {row["method"] for row in rows} == {"occlusion"}
    assert {row["image_id"] for row in rows} == set(images)
    for row in rows:
        p = found[sorted(images).index(row["image_id"])].max()
        assert float(row["probability"]) == pytest.approx(p, abs=1e-5)
        assert float(row["total"]) == pytest.approx(p, abs=1e-5)

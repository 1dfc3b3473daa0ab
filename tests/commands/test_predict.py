"""``judge predict``, ``export`` and ``attribute``: trained judges read from their files, asked, shared, explained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from helpers import done_well, few, publish, read_json, read_rows, refusal, save_captioner, settings_of
from PIL import Image
from safetensors.torch import load_file
from tiny_bert import save_bert

from judge import Judge, JudgeError, evaluate
from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.attribute import SHOWN
from judge.commands.predict import PredictConfig, prepare
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config
from judge.corpus.captions import ReadOptions, read_captions
from judge.measure import Job
from judge.training.judge_file import read_saved
from judge.utils.outputs import MANIFEST
from judge.utils.tensors import read_tensors, write_tensors

pytestmark = pytest.mark.usefixtures("one_thread")
READ = ["linear", "lstm", "transformer-1", "bert-ft", "bert-pre", "sentence"]
SEEN = ["sat", "grit", "vl-lic", "vl-lic-lstm", "sat-caption-only", "hf"]


class Trained:
    """Judges of every kind, as ``judge train`` leaves them."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept = root, root / "kept"
        captioners = {"much": Captioner(stereotype=0.9)}
        self.files: WorldFiles = few(write_world(make_world(40, seed=5), captioners, root / "world", pictures=64))
        self.reader, self.captioner = save_bert(root / "bert"), save_captioner(root / "git")
        self.images = ["--images", self.files.folder / "images"]
        self.pictures = [*self.images, "--instances", self.files.folder / "instances.json"]
        self.features = ["--cache", root / "cache"]
        references = {"sentence": f"sentence:{self.reader}", "hf": f"hf:{self.captioner}"}
        judges = [references.get(name, name) for name in READ + SEEN]
        self.jobs = self.train(metrics=["lic", "dbac-ta", "imagecaptioner2"], judge=judges)

    def train(self, **settings: object) -> list[Job]:
        given = settings_of(self.files, self.root) | {"reader": str(self.reader), "checkpoints": self.kept}
        given |= {"backbone": "resnet18", "learning_rate": 0.01, "fill": "mean"}
        return [*train_judges(make_config(given | settings, TrainConfig))[0]]

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
def trained(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("judges"))


def probabilities(rows: Sequence[dict[str, str]]) -> np.ndarray:
    return np.array([[float(value) for name, value in row.items() if name.startswith("p(")] for row in rows])


def predicted(trained: Trained, weights: Path, captions: Path, out: Path, *extra: object) -> np.ndarray:
    given = ["--judge-weights", weights, "--captions", captions, "--out", out, *trained.features]
    done_well("predict", *given, *trained.pictures, *extra)
    return probabilities(read_rows(out))


@pytest.mark.parametrize("judge", READ + SEEN)
def test_says_what_it_said_in_its_run(judge: str, trained: Trained, tmp_path: Path) -> None:
    """To the last digit; of human captions aligned as they were, of the same images masked as they were."""
    jobs = [job for job in trained.jobs if job.judge.partition(":")[0] == judge]
    assert len(jobs) == (4 if judge in READ else 2)
    for number, job in enumerate(jobs):
        out, captions = tmp_path / f"{number}.csv", trained.captions(job, tmp_path)
        found = predicted(trained, trained.weights(job), captions, out)
        assert found.tolist() == trained.answers(job).tolist(), job.metrics
        rows = read_rows(out)
        assert [row["caption"] for row in rows] == [sample.text for sample in job.member.test()]
        names = job.member.target.classes
        if job.member.target.kind == "attribute":
            expected = [names[place] for place in found.argmax(axis=1)]
        else:
            expected = ["|".join(n for n, p in zip(names, row, strict=True) if p >= 0.5) for row in found]
        assert [row["predicted"] for row in rows] == expected
        if number == 0:
            check_scorer(trained, job, captions, out)


def check_scorer(trained: Trained, job: Job, captions: Path, out: Path) -> None:
    """In Python a judge says the same of captions in memory, and of masked images in memory; sentences are averaged."""
    written = json.loads(captions.read_text())
    images = sorted(written)
    scorer = Judge.load(trained.weights(job))
    assert scorer.classes == job.member.target.classes
    expected = pd.read_csv(out, dtype={"image_id": str}).groupby("image_id").mean(numeric_only=True).loc[images]
    expected = expected.filter(like="p(").to_numpy()
    texts = [written[image] for image in images]
    if scorer.saved.sees:
        given = {"judge_weights": str(trained.weights(job)), "captions": captions, "out": out}
        given |= {"images": trained.files.folder / "images", "instances": trained.files.folder / "instances.json"}
        shown = prepare(make_config(given | {"cache": trained.root / "cache"}, PredictConfig)).images
        assert shown is not None
        pictures = [Image.fromarray(shown.read(image)) for image in images]
        with pytest.raises(JudgeError, match="people hidden"):
            scorer.probabilities(texts, pictures)
        with pytest.raises(JudgeError, match=f"{len(texts)} captions and 0 images"):
            scorer.probabilities(texts)
        if job.judge == "grit":
            with pytest.raises(JudgeError, match="boxes of a detector"):
                scorer.probabilities(texts, pictures, masked=True)
        else:
            np.testing.assert_allclose(scorer.probabilities(texts, pictures, masked=True), expected, atol=2e-6)
        return
    found = scorer.probabilities(texts)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    # It answers again, about other captions.
    other = ["a dog is sleeping", "two people ride horses"]
    anew = Judge.load(trained.weights(job)).probabilities(other)
    np.testing.assert_allclose(scorer.probabilities(other), anew, atol=2e-6)
    assert not list(Path.cwd().glob("*.safetensors"))
    if job.member.target.kind == "attribute":
        labels = [scorer.classes[place % len(scorer.classes)] for place in range(len(texts))]
        columns = [scorer.classes.index(label) for label in labels]
        assert scorer.score(texts, labels).tolist() == found[np.arange(len(texts)), columns].tolist()


def test_words_never_seen_are_hidden_and_aligned(trained: Trained, tmp_path: Path) -> None:
    """By the lexicon and by the captioner's vocabulary, in several captions of an image."""
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("image_id,caption\n7,A woman's umbrella\n7,The men ride xylophones\n9,\n8,a dog\n")
    last = []
    for side in ("human", "generated"):
        weights = trained.weights(trained.job("lstm", side, "lic"))
        done = done_well("predict", "--judge-weights", weights, "--captions", table, "--out", out, "--overwrite")
        assert "NOTE: 1 captions are empty" in done.stdout
        rows = read_rows(out)
        assert [(row["image_id"], row["index"]) for row in rows] == [("7", "0"), ("7", "1"), ("8", "0")]
        assert rows[0]["caption"].split()[1] == "<gender>"
        last.append(rows[1]["caption"].split()[-1])
    # A judge of the captioner's own captions reads what they say.
    assert last == ["<unk>", "xylophones"]


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_lora_merged_is_a_checkpoint_that_answers_alike(dtype: str, trained: Trained, tmp_path: Path) -> None:
    """Adapters beside weights in bf16 are added in float32, where what they change is not rounded away."""
    settings = {"metrics": ["imagecaptioner2"], "judge": [f"hf:{trained.captioner}"], "dtype": dtype}
    (job,) = [job for job in trained.train(**settings, tuning="lora") if job.member.side == "generated"]
    near = 1e-5 if dtype == "float32" else 0.01
    weights, captions = trained.weights(job), trained.captions(job, tmp_path)
    found = predicted(trained, weights, captions, tmp_path / "lora.csv")
    assert found.tolist() == trained.answers(job).tolist()
    assert any("lora_A" in name for name in load_file(weights))
    folder = tmp_path / "merged"
    done_well("export", "--judge-weights", weights, "--merge", "--out", folder)
    assert not any("lora" in name for name in load_file(folder / "model.safetensors"))
    merged = predicted(trained, folder, captions, tmp_path / "merged.csv")
    assert merged == pytest.approx(found, abs=near)
    # Adapters that had learnt nothing would merge into the checkpoint that they began with.
    for checkpoint, same in ((trained.captioner, False), (folder, True)):
        jobs = trained.train(metrics=["imagecaptioner2"], judge=[f"hf:{checkpoint}"], tuning="zero-shot")
        asked = next(trained.answers(other) for other in jobs if other.member.side == "generated")
        assert (np.abs(asked - found).max() < near) == same
    assert "started from: git" in (folder / "README.md").read_text()


def test_a_shared_folder_and_its_card(trained: Trained, tmp_path: Path) -> None:
    job = trained.job("grit", "generated")
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
    for part in (
        "attribute: gender, as perceived",
        f"{right:.3f}, a mean over classes, on {len(found)} captions",
        "Never use this judge to infer an attribute of a person",
        "# license: choose one",
        f"{sum(sample.answers[0] == 0 for sample in images)} female",
        "people, segment, by detector gt, as mean",
    ):
        assert part in card
    assert read_json(folder / "judge.json")["data"]["captioner"] == "much"


def test_a_checkpoint_that_has_moved(trained: Trained, tmp_path: Path) -> None:
    for judge, place in [("hf", trained.captioner), ("bert-ft", trained.reader), ("sentence", trained.reader)]:
        job, gone = trained.job(judge), place.with_name("elsewhere")
        captions, out = trained.captions(job, tmp_path), tmp_path / f"{judge}.csv"
        given = ["--judge-weights", trained.weights(job), "--captions", captions, *trained.pictures]
        place.rename(gone)
        try:
            line = refusal("predict", *given, "--out", out)
            assert str(place) in line
            found = predicted(trained, trained.weights(job), captions, out, "--base", gone)
        finally:
            gone.rename(place)
        assert found.tolist() == trained.answers(job).tolist()


def test_faults(trained: Trained, tmp_path: Path) -> None:
    """Damaged files are in ``training/test_stored_files.py``."""
    lstm, sat, linear = (trained.weights(trained.job(name)) for name in ("lstm", "sat", "linear"))
    new, out, empty = trained.captions(trained.job("lstm"), tmp_path), tmp_path / "out", tmp_path / "empty.json"
    notes, one = read_saved(lstm).notes(), {"x": np.zeros(1, dtype=np.float32)}
    written = {
        "odd": notes | {"data": None},
        "wrong": notes,
        "newer": notes | {"format": 4},
        "foreign": notes | {"materials": notes["materials"] | {"images": "x"}},
        "bare": replace(read_saved(lstm), preparation=None, data={}).notes(),
        "named": replace(read_saved(lstm), preparation=None).notes(),
    }
    for name, about in written.items():
        write_tensors(tmp_path / f"{name}.safetensors", one, about)
    odd, wrong, newer, foreign, bare, named = (tmp_path / f"{name}.safetensors" for name in written)
    empty.write_text('{"7": " "}')
    for name, labels in (("skin", "1,dark\n2,light"), ("nobody", "98765,male\n98766,female")):
        (tmp_path / f"{name}.csv").write_text(f"image_id,gender\n{labels}\n")
    before = sorted(tmp_path.iterdir())
    for command, weights, captions, extra, message in [
        ("predict", newer, new, [], "has format 4; this version reads 3"),
        ("predict", odd, new, [], "lacks what a judge's file must say"),
        ("predict", wrong, new, [], "its weights do not fit the judge that it names"),
        ("predict", foreign, new, [], "lacks what a judge's file must say (ValueError: it holds images)"),
        ("predict", bare, new, [], "does not say what hid the attribute from its judge"),
        ("predict", named, new, [], "its judge reads annotations (metric u), not captions"),
        ("predict", lstm, empty, [], "empty.json"),
        ("predict", lstm, new, ["--base", "elsewhere"], "judge 'lstm' started from no checkpoint"),
        ("predict", lstm, new, ["--out", new], "is read"),
        ("predict", sat, new, [], "judge 'sat' sees images, and there are none"),
        ("predict", sat, new, trained.images, "--instances"),
        ("predict", sat, new, [*trained.pictures, "--backbone-weights", wrong], "wrong.safetensors"),
        ("attribute", lstm, new, ["--methods", "exact"], "'lstm' cannot be explained by exact: its log-odds are not"),
        ("attribute", linear, new, ["--labels", tmp_path / "skin.csv"], "skin.csv"),
        ("attribute", linear, new, ["--labels", tmp_path / "nobody.csv"], "no caption is of an image with a label"),
    ]:
        given = ["--judge-weights", weights, "--captions", captions, "--out", out, *extra]
        assert message in refusal(command, *given)
        assert sorted(tmp_path.iterdir()) == before
    merge = refusal("export", "--judge-weights", lstm, "--merge", "--out", out)
    assert "judge 'lstm' is no captioner of transformers" in merge
    assert "--judge-weights: nothing is to be explained" in refusal("attribute", "--captions", new)


@pytest.mark.parametrize("command", ["predict", "attribute"])
def test_captions_are_chosen_by_columns(command: str, trained: Trained, tmp_path: Path) -> None:
    """By --where, --split and --column; a column that is not there is refused."""
    table, out = tmp_path / "new.csv", tmp_path / "out"
    table.write_text("image_id,text,kind\n1,a dog,new\n2,a kite,old\n", encoding="utf-8")
    given = [command, "--judge-weights", trained.weights(trained.job("linear")), "--captions", table, "--out", out]
    assert "new.csv: no column 'knid' for --where. Did you mean 'kind'?" in refusal(*given, "--where", "knid=new")
    assert "new.csv: no captions of split 'test'" in refusal(*given, "--split", "test")
    assert "no file of captions was read by a column 'txt'" in refusal(*given, "--column", "caption=txt")
    if command == "predict":
        assert "there is no table of labels" in refusal(*given, "--column", "labels.gender=sex")
    assert "Did you mean 'captions'?" in refusal(*given, "--column", "caption.caption=text")
    assert not out.exists()
    assert "1 captions of 1 images" in done_well(*given, "--where", "kind=new", "--column", "caption=text").stdout


def test_words_of_several_judges(trained: Trained, tmp_path: Path) -> None:
    """A row per word; exact contributions add up to the log-odds; labels choose the class that is explained."""
    lstm, linear = (trained.weights(trained.job(name, "generated", "lic")) for name in ("lstm", "linear"))
    out, captions = tmp_path / "out", trained.files.captions["much"]
    given = ["--judge-weights", lstm, "--judge-weights", linear, "--captions", captions, "--out", out]
    done = done_well("attribute", *given)
    assert {path.name for path in out.iterdir()} == {MANIFEST, "words.csv", "attribution.json", "attribute.yaml"}
    table = pd.read_csv(out / "words.csv", keep_default_na=False, dtype={"image_id": str})
    methods = {judge: set(rows["method"]) for judge, rows in table.groupby("judge")}
    assert methods == {"lstm": {"occlusion"}, "linear": {"exact", "occlusion"}}
    for _, words in table[table["method"] == "exact"].astype({"base": float, "total": float}).groupby("image_id"):
        p, total = words["probability"].iloc[0], words["total"].iloc[0]
        assert words["contribution"].sum() + words["base"].iloc[0] == pytest.approx(total, abs=1e-9)
        assert total == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
    assert 2 <= done.stdout.count(": image ") <= 2 * SHOWN
    assert "no judgement of the people in images" in done.stdout
    lines = trained.files.labels.read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join(lines[:11]) + "\n")
    only = ["--methods", "occlusion", "--labels", tmp_path / "labels.csv", "--overwrite"]
    done = done_well("attribute", *given, *only)
    assert "NOTE: 30 captions are of images without a label; they are left out" in done.stdout
    again = pd.read_csv(out / "words.csv", dtype={"image_id": str})
    assert set(again["method"]) == {"occlusion"}
    explained = again.drop_duplicates("image_id").set_index("image_id")["explained"].to_dict()
    assert explained == dict(line.split(",") for line in lines[1:11])


def test_a_scorer_answers_in_the_precision_of_training(trained: Trained, tmp_path: Path) -> None:
    """As judge predict does; float32 would give other digits."""
    jobs = trained.train(metrics=["lic"], judge=["bert-ft"], precision="bf16", checkpoints=tmp_path / "bf16")
    weights = tmp_path / "bf16" / f"{jobs[0].member.key}.weights.safetensors"
    (tmp_path / "new.json").write_text(json.dumps({"1": "a woman rides a horse", "2": "the men are skiing"}))
    given = ["--captions", tmp_path / "new.json", "--out", tmp_path / "answers.csv"]
    done_well("predict", "--judge-weights", weights, *given)
    expected = probabilities(read_rows(tmp_path / "answers.csv"))
    scorer = Judge.load(weights, device="cpu")
    texts = [*json.loads((tmp_path / "new.json").read_text()).values()]
    np.testing.assert_allclose(scorer.probabilities(texts), expected, atol=1e-6)
    exact = Judge(replace(scorer.saved, precision="no"), "cpu").probabilities(texts)
    assert np.abs(exact - expected).max() > 1e-5


def test_a_scorer_refuses_in_one_line(trained: Trained, tmp_path: Path) -> None:
    scorer = Judge.load(trained.weights(trained.job("linear", metric="lic")))
    for given, said in (
        ((["a dog"], ["cat"]), "unknown class cat. Classes are female, male"),
        ((["a dog"], ["male", "male"]), "1 captions and 2 labels"),
        (("a dog", ["male"] * 5), "captions are not a list of texts"),
        (("a dog", "male"), "captions are not a list of texts"),
    ):
        with pytest.raises(JudgeError, match=said):
            scorer.score(*given)
    assert repr(scorer) == "Judge('linear', female, male)"
    assert scorer.probabilities([]).shape == (0, 2)
    np.testing.assert_allclose(scorer.probabilities(["", "a man"]).sum(axis=1), 1)
    for absent in (tmp_path / "absent", "nobody/judge.pt"):
        with pytest.raises(JudgeError, match=f"{absent}: no such file or folder. Check the path."):
            Judge.load(absent)
    with pytest.raises(JudgeError, match="is no folder here, and cannot be fetched"):
        Judge.load("nobody/no-judge")


def test_a_training_is_left_alone(trained: Trained) -> None:
    """Its random numbers, and the state of its Accelerator."""
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    precision = accelerator.state.mixed_precision
    scorer = Judge.load(trained.weights(trained.job("lstm")), device="cpu")
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    scorer.probabilities(["a man"])
    assert torch.rand(2).tolist() == expected
    assert accelerator.state.mixed_precision == precision
    assert accelerator.process_index == 0


@pytest.mark.parametrize("merged", [False, True])
def test_a_judge_of_the_hub(merged: bool, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of the hub's cache, without a connection; a merged judge starts from the checkpoint in the same folder."""
    weights = trained.weights(trained.job("hf" if merged else "lstm"))
    publish(weights, tmp_path / "hub", monkeypatch, *(["--merge"] if merged else []))
    pictures = [Image.new("RGB", (64, 64), color) for color in ("red", "blue")]
    given: dict[str, Any] = {"images": pictures, "masked": True} if merged else {}
    texts = ["A woman rides her horse.", "The men are skiing"]
    names = weights, "me/judge", "hf://me/judge@main"
    local, *shared = (Judge.load(name, device="cpu").probabilities(texts, **given) for name in names)
    for found in shared:
        np.testing.assert_allclose(found, local, atol=1e-6)
    if not merged:
        (tmp_path / "new.json").write_text(json.dumps({"1": texts[0], "2": texts[1]}))
        given_captions = ["--captions", tmp_path / "new.json", "--out", tmp_path / "answers.csv"]
        done_well("predict", "--judge-weights", "me/judge", *given_captions)
        np.testing.assert_allclose(probabilities(read_rows(tmp_path / "answers.csv")), local, atol=1e-6)


def test_eval_results_of_the_hub(trained: Trained, tmp_path: Path) -> None:
    """The hub's own reader reads them; values are those of metrics.json."""
    from huggingface_hub import parse_eval_result_entries

    files = trained.files
    quick: dict[str, Any] = {"metrics": "lic,leakage", "judge": ["linear"], "folds": 2, "refits": 0, "chance": 0}
    evaluate(human=files.human, captions=files.captions, labels=files.labels, out=tmp_path / "run", workers=1, **quick)
    done_well("report", tmp_path / "run", "--format", "eval-results", "--out", tmp_path / "bias.yaml")
    entries = parse_eval_result_entries(yaml.safe_load((tmp_path / "bias.yaml").read_text()))
    rows = [row for row in read_json(tmp_path / "run/metrics.json")["results"] if row["captioner"] in files.captions]
    assert len(entries) == len(rows) == 2
    for entry, row in zip(entries, rows, strict=True):
        assert (entry.dataset_id, entry.task_id, entry.value) == (files.human.stem, row["metric"], row["amplification"])
        assert str(entry.notes).startswith(f"{row['captioner']}: ")

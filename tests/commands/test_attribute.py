"""``judge attribute``: trained judges out of their files, explained."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import done_well, few, refusal
from test_layers import loaded_after

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.attribute import SHOWN, AttributeConfig
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config
from judge.training.judge_file import read_saved
from judge.utils.outputs import MANIFEST
from judge.utils.tensors import write_tensors

pytestmark = pytest.mark.usefixtures("one_thread")


class Trained:
    """``lstm`` and ``linear``, of human captions and of a captioner's, as ``judge train`` leaves them."""

    def __init__(self, root: Path) -> None:
        self.files: WorldFiles = few(write_world(make_world(60, seed=5), {"much": Captioner(stereotype=0.9)}, root))
        self.captions = self.files.captions["much"]
        told = {
            "human": self.files.human, "captions": [str(self.captions)], "labels": self.files.labels,
            "metrics": ["lic"], "judge": ["lstm", "linear"], "protocol": "paper", "seeds": 1, "epochs": 6,
            "learning_rate": 0.01, "refits": 0, "chance": 0, "workers": 1, "checkpoints": root / "kept",
        }  # fmt: skip
        jobs = train_judges(make_config(told, TrainConfig)).judges
        self.kept = root / "kept"
        self.weights = {(j.judge, j.member.side): self.kept / f"{j.member.key}.weights.safetensors" for j in jobs}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("attribute"))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_words_of_several_judges(trained: Trained, tmp_path: Path) -> None:
    """A row per word; p is what judge predict says; exact contributions add up; the folder replaces its like alone."""
    lstm, linear = trained.weights["lstm", "generated"], trained.weights["linear", "human"]
    out = tmp_path / "out"
    given = ["--judge-weights", lstm, "--judge-weights", linear, "--captions", trained.captions, "--out", out]
    done = done_well("attribute", *given)
    assert {path.name for path in out.iterdir()} == {MANIFEST, "words.csv", "attribution.json", "attribute.yaml"}
    table = pd.read_csv(out / "words.csv", keep_default_na=False, dtype={"image_id": str})
    methods = {judge: set(rows["method"]) for judge, rows in table.groupby("judge")}
    assert methods == {"lstm": {"occlusion"}, "linear": {"exact", "occlusion"}}
    for judge, weights in (("lstm", lstm), ("linear", linear)):
        answers = tmp_path / f"{judge}.csv"
        done_well("predict", "--judge-weights", weights, "--captions", trained.captions, "--out", answers)
        own = table[(table["judge"] == judge) & (table["method"] == "occlusion")].groupby("image_id", sort=False)
        for row, (image, words) in zip(rows_of(answers), own, strict=True):
            assert (row["image_id"], row["caption"]) == (image, " ".join(words["word"]))
            assert (row["predicted"], {weights.name}) == (words["explained"].iloc[0], set(words["weights"]))
            assert float(row[f"p({row['predicted']})"]) == pytest.approx(words["probability"].iloc[0], abs=1e-6)
            assert words["place"].tolist() == list(range(len(words)))
    exact = table[table["method"] == "exact"].astype({"base": float, "total": float})
    for _, words in exact.groupby("image_id"):
        p, total = words["probability"].iloc[0], words["total"].iloc[0]
        assert words["contribution"].sum() + words["base"].iloc[0] == pytest.approx(total, abs=1e-9)
        assert total == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
    told = json.loads((out / "attribution.json").read_text())["judges"]
    assert [entry["judge"] for entry in told] == ["lstm", "linear"]
    assert told[1]["words"]["exact"]["gap"] < 1e-9
    assert done.stdout.count("): image ") == 0
    assert 2 <= done.stdout.count(": image ") <= 2 * SHOWN
    assert "no judgement of the people in images" in done.stdout
    # Only what was asked for, of the true class; an earlier folder stays until it may go.
    assert "holds another attribution" in refusal("attribute", *given)
    done_well("attribute", *given, "--methods", "occlusion", "--labels", trained.files.labels, "--overwrite")
    again = pd.read_csv(out / "words.csv", dtype={"image_id": str})
    assert set(again["method"]) == {"occlusion"}
    truth = {row["image_id"]: row["gender"] for row in rows_of(trained.files.labels)}
    assert {image: rows["explained"].iloc[0] for image, rows in again.groupby("image_id")} == truth
    # What was left, given again, does the same.
    before = (out / "words.csv").read_bytes()
    done_well("attribute", out / "attribute.yaml", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "words.csv").read_bytes() == before


def test_images_without_a_label_are_left_out(trained: Trained, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(trained.files.labels.read_text().splitlines()[:11]) + "\n")
    given = ["--judge-weights", trained.weights["linear", "human"], "--captions", trained.captions]
    done = done_well("attribute", *given, "--labels", labels, "--out", tmp_path / "out")
    assert "10 captions of 10 images" in done.stdout
    assert "NOTE: 50 captions are of images without a label; they are left out" in done.stdout


@pytest.mark.parametrize("command", ["predict", "attribute"])
def test_what_the_captions_lack_is_refused(command: str, trained: Trained, tmp_path: Path) -> None:
    """Captions are chosen by --where, --split and --column, or nothing is asked."""
    table, out = tmp_path / "new.csv", tmp_path / "out"
    table.write_text("image_id,text,kind\n1,a dog,new\n2,a kite,old\n", encoding="utf-8")
    given = [command, "--judge-weights", trained.weights["linear", "human"], "--captions", table, "--out", out]
    assert "new.csv: no column 'knid' for --where. Did you mean 'kind'?" in refusal(*given, "--where", "knid=new")
    assert "new.csv: no captions of split 'test'" in refusal(*given, "--split", "test")
    assert "no file of captions was read by a column 'txt'" in refusal(*given, "--column", "caption=txt")
    assert not out.exists()
    done = done_well(*given, "--where", "kind=new", "--column", "caption=text")
    assert "1 captions of 1 images" in done.stdout


def test_linear_needs_no_torch(trained: Trained, tmp_path: Path) -> None:
    code = f"""
from judge.commands.attribute import attribute
from judge.commands.attribute import AttributeConfig
from judge.config import make_config
told = dict(judge_weights=[{str(trained.weights["linear", "human"])!r}], captions={str(trained.captions)!r})
attribute(make_config(told | dict(out={str(tmp_path / "out")!r}), AttributeConfig))
"""
    assert not loaded_after(code) & {"torch", "captum", "transformers"}
    assert (tmp_path / "out" / "words.csv").exists()


def test_faults(trained: Trained, tmp_path: Path) -> None:
    lstm, linear = trained.weights["lstm", "human"], trained.weights["linear", "human"]
    damaged, cut, other = (tmp_path / f"{name}.safetensors" for name in ("damaged", "cut", "other"))
    write_tensors(damaged, {"terms": np.zeros(1, dtype=np.int64)}, read_saved(linear).notes())
    cut.write_bytes(linear.read_bytes()[:-40])
    write_tensors(other, {"x": np.zeros(1)}, read_saved(lstm).notes())
    (tmp_path / "empty.json").write_text('{"7": " "}')
    labels = tmp_path / "skin.csv"
    labels.write_text("image_id,gender\n1,dark\n2,light\n")
    nobody = tmp_path / "nobody.csv"
    nobody.write_text("image_id,gender\n98765,male\n98766,female\n")
    new, out = trained.captions, tmp_path / "out"
    for weights, captions, extra, message in [
        ([tmp_path / "none.safetensors"], new, [], "no such file or folder"),
        ([linear, tmp_path / "none.safetensors"], new, [], "no such file or folder"),
        ([damaged], new, [], "its weights do not fit the judge that it names"),
        ([cut], new, [], "is no judge's file of weights, or damaged"),
        ([other], new, [], "its weights do not fit the judge that it names"),
        ([lstm], tmp_path / "empty.json", [], "empty.json"),
        ([lstm], new, ["--methods", "exact"], "judge 'lstm' cannot be explained by exact: its log-odds are not linear"),
        ([linear], new, ["--methods", "grad-cam"], "judge 'linear' cannot be explained by grad-cam"),
        ([linear], new, ["--methods", "oclusion"], "occlusion"),
        ([linear], new, ["--maps", "-1"], "'maps'"),
        ([linear], new, ["--labels", labels], "skin.csv"),
        ([linear], new, ["--labels", nobody], "no caption is of an image with a label"),
    ]:
        given = [part for path in weights for part in ("--judge-weights", path)]
        assert message in refusal("attribute", *given, "--captions", captions, *extra, "--out", out)
        assert not out.exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        *(path.name for path in (damaged, cut, other, labels, nobody)), "empty.json",
    }  # fmt: skip
    given = ["--judge-weights", linear, "--captions", new]
    assert "holds something that is no attribution" in refusal("attribute", *given, "--out", tmp_path)
    assert "--judge-weights: nothing is to be explained" in refusal("attribute", "--captions", new)


def test_settings_of_each_judge() -> None:
    """Those that were given, and no defaults: "as in training" stays that."""
    told = {"judge_weights": ["a", "b"], "captions": "c.json", "base": "x", "out": "o"}
    own = make_config(told, AttributeConfig).of_judge("b")
    assert (own.judge_weights, own.base, "detector" in own.model_fields_set) == ("b", "x", False)
    assert "detector" in make_config(told | {"detector": "gt"}, AttributeConfig).of_judge("a").model_fields_set

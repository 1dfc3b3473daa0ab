"""``judge ablate masks``, and the second half of ``judge ablate detectors``: one run with one thing exchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from detector_samples import tiny_onnx, tiny_yolo
from helpers import done_well, judge, refusal, save_captioner

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands import ablate
from judge.commands.caption import CaptionConfig, caption
from judge.errors import JudgeError
from judge.utils.outputs import MANIFEST

SIZE = 64


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    captioners = {"none": Captioner(), "much": Captioner(stereotype=0.9)}
    return write_world(make_world(80, seed=5), captioners, tmp_path_factory.mktemp("w") / "world", pictures=SIZE)


@pytest.fixture
def run_file(world: WorldFiles, tmp_path: Path) -> Path:
    """Judges that learn next to nothing: what is asked here is which numbers stand where."""
    settings: dict[str, object] = {"human": str(world.human), "labels": str(world.labels)}
    settings |= {"images": str(world.folder / "images"), "instances": str(world.folder / "instances.json")}
    settings |= {"backbone": "resnet18", "backbone_weights": "random", "features": str(tmp_path / "features")}
    numbers = {
        "seeds": 1,
        "epochs": 1,
        "batch_size": 16,
        "image_size": SIZE,
        "resamples": 100,
        "refits": 0,
        "chance": 0,
        "workers": 1,
    }
    settings |= {"protocol": "paper", "learning_rate": 0.002, "cache": str(tmp_path / "cache")} | numbers
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def captions(world: WorldFiles) -> list[object]:
    return [part for path in world.captions.values() for part in ("--captions", path)]


def measured(run_file: Path, out: Path, *arguments: object) -> list[dict[str, Any]]:
    done_well("evaluate", run_file, "--out", out, *arguments)
    rows: list[dict[str, Any]] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))["results"]
    return rows


def numbers_of(rows: list[dict[str, Any]]) -> list[list[object]]:
    names = ("captioner", "metric", "judge", "human", "generated", "amplification")
    return [[row[name] for name in names] for row in rows]


@pytest.mark.slow
def test_detectors_change_what_judges_measure(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    """Each column is a run of ``judge evaluate`` with that detector."""
    weights = tiny_onnx(tiny_yolo(tmp_path))  # Random weights: it finds next to nobody.
    found = [*captions(world), "--weights", weights, "--threshold", "0.05", "--allow-unmasked"]
    out, given = tmp_path / "out", ["--metrics", "lic,imagecaptioner2", "--judge", "sat,linear"]
    done = done_well("ablate", "detectors", run_file, *found, *given, "--detectors", "gt,yolo", "--out", out)
    ablated = json.loads((out / "detectors.json").read_text(encoding="utf-8"))
    assert [row["detector"] for row in ablated["results"]] == ["gt", "yolo"]
    for detector in ("gt", "yolo"):
        alone = ["--judge", "sat", "--metrics", "imagecaptioner2", "--detector", detector]
        rows = measured(run_file, tmp_path / detector, *found, *alone)
        assert numbers_of(ablated["judges"][detector]) == numbers_of(rows)
    (agreement,) = ablated["agreement"]
    assert (agreement["variant"], agreement["correlation"]["pairs"]) == ("yolo", 2)
    assert "yolo with gt over 2 captioners: no correlation: it takes 3, and amplifications that differ" in done.stdout
    # A mask that hides less, or more, shows something else.
    assert ablated["judges"]["gt"] != ablated["judges"]["yolo"]


def test_masks_of_files_change_what_judges_see(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = [*captions(world)[:2], "--metrics", "imagecaptioner2,lic", "--judge", "sat,linear"]
    masks = ["--masks", "box,none", "--hides", "person,both", "--category", "pizza"]
    done = done_well("ablate", "masks", run_file, *given, *masks, "--out", out)
    rows = json.loads((out / "masks.json").read_text(encoding="utf-8"))["results"]
    seen = [row for row in rows if row["metric"] == "imagecaptioner2"]
    assert [(row["mask"], row["hide"]) for row in seen] == [("none", None), ("box", "person"), ("box", "both")]
    plain, person, both = seen
    assert plain["over_original"] == 0
    assert plain["over_chance"] == pytest.approx(plain["generated"] - 0.5)
    assert person["over_original"] == pytest.approx(person["generated"] - plain["generated"])
    assert len({row["generated"] for row in seen}) == 3
    alone = measured(run_file, tmp_path / "alone", *given, "--mask", "box")
    assert numbers_of([person]) == numbers_of([row for row in alone if row["metric"] == "imagecaptioner2"])
    # What reads alone sees no difference.
    assert len({row["generated"] for row in rows if row["metric"] == "lic"}) == 1
    assert "person, box" in done.stdout
    assert both["captioner"] == "none"


def test_masks_change_what_a_checkpoint_writes(
    world: WorldFiles, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LIC's Table 4: the captioner writes of masked images, and LIC reads what it wrote; after a fault it goes on."""
    model = save_captioner(tmp_path / "git")
    out, masked = tmp_path / "out", tmp_path / "masked.json"
    given = ["--metrics", "lic", "--judge", "linear"]
    masks = ["--masks", "none,box", "--hides", "person"]
    ablation = ["ablate", "masks", run_file, *given, "--model", model, *masks, "--out", out]
    written: list[str] = []

    def captioned(config: CaptionConfig, **extra: Any) -> Any:
        written.append(config.mask)
        if written == ["none", "box"]:
            raise JudgeError("no room", where="--model git")
        return caption(config, **extra)

    monkeypatch.setattr(ablate, "caption", captioned)
    told = f"no room. The same command (judge ablate masks ... --out {out}) goes on from what is finished."
    stopped = judge(*ablation)
    assert stopped.exit_code == 2
    *notes, line = stopped.stderr.splitlines()
    assert line == f"judge: --model git: {told}"
    assert all(" not used by " in note for note in notes)  # Settings of the other tests' judges.
    done_well(*ablation)
    assert written == ["none", "box", "box"]
    assert sorted(path.name for path in out.iterdir()) == [MANIFEST, "ablate.yaml", "log.jsonl", "masks.json"]
    rows = json.loads((out / "masks.json").read_text(encoding="utf-8"))["results"]
    assert [row["mask"] for row in rows] == ["none", "box"]
    pictures = ["--images", world.folder / "images", "--instances", world.folder / "instances.json", "--mask", "box"]
    done_well("caption", "--model", model, *pictures, "--out", masked)
    alone = measured(run_file, tmp_path / "alone", *given, "--captions", f"git={masked}")
    assert numbers_of(rows[1:]) == numbers_of(alone)


@pytest.mark.parametrize(
    ("command", "extra", "told"),
    [
        ("masks", ["--metrics", "lic"], "--metrics: no judge of these metrics uses images"),
        ("masks", ["--masks", "boxes", "--metrics", "vl-lic"], "--masks: unknown value 'boxes'. Did you mean 'box'?"),
        ("detectors", ["--metrics", "lic", "--detectors", "gt"], "--metrics: no judge of these metrics uses images"),
    ],
)
def test_faults(world: WorldFiles, run_file: Path, tmp_path: Path, command: str, extra: list[str], told: str) -> None:
    assert told in refusal("ablate", command, run_file, *captions(world), *extra, "--out", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml"]

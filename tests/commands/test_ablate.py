"""``judge ablate detectors`` and ``judge ablate masks``: detectors compared, and one run with one thing exchanged."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from detector_samples import tiny_huggingface, tiny_onnx, tiny_yolo
from helpers import done_well, few, inputs_of, judge, pictures_of, read_json, refusal, save_captioner, settings_of
from PIL import Image
from pycocotools.coco import COCO

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.utils.outputs import MANIFEST

IMAGES = 48


@pytest.fixture(scope="module")
def world(no_report: None, tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """Files of a drawn world, a human caption of each image."""
    captioners, folder = {"none": Captioner(), "much": Captioner(stereotype=0.9)}, tmp_path_factory.mktemp("w")
    return few(write_world(make_world(IMAGES, seed=5), captioners, folder / "world", pictures=64))


def results(out: Path) -> list[dict[str, Any]]:
    (path,) = (out / name for name in ("detectors.json", "masks.json", "metrics.json") if (out / name).exists())
    rows: list[dict[str, Any]] = read_json(path)["results"]
    return rows


@pytest.mark.parametrize("mask", ["segment", "box"])
def test_ground_truth_against_itself_on_real_images(shared: Path, tmp_path: Path, mask: str) -> None:
    """All people are found; the share that boxes hide beside them is that of pycocotools' boxes and masks."""
    images, instances = shared / "coco-mini" / "val2017", shared / "coco-mini/annotations/instances_val2017.json"
    given = ["--images", images, "--instances", instances, "--detectors", "gt", "--mask", mask, "--resamples", 100]
    done_well("ablate", "detectors", *given, "--out", tmp_path / "out")
    (row,), truth = results(tmp_path / "out"), COCO(instances)
    hidden = people = 0
    for image in truth.imgs.values():
        shown = np.zeros((image["height"], image["width"]), dtype=bool)
        boxes = shown.copy()
        for annotation in truth.imgToAnns[image["id"]]:
            if annotation["category_id"] == 1:
                shown |= truth.annToMask(annotation).astype(bool)
                x, y, w, h = annotation["bbox"]
                boxes[int(np.floor(y)) : int(np.ceil(y + h)), int(np.floor(x)) : int(np.ceil(x + w))] = True
        hidden += (boxes | shown).sum()
        people += shown.sum()
    assert (row["recall"], row["iou"], row["visible"]) == (1, 1, 0)
    count = len([annotation for annotation in truth.anns.values() if annotation["category_id"] == 1])
    assert row["people"] == row["people_found"] == count
    assert row["beside"] == pytest.approx((hidden - people) / hidden if mask == "box" else 0)


def test_what_another_tool_found_is_a_detector(world: WorldFiles, tmp_path: Path) -> None:
    """COCO results with some of the people; the share of their pixels that it finds is counted here.

    Detections below the threshold are left out, which is told; ``judge mask`` tells it too.
    """
    document = read_json(world.folder / "instances.json")
    (person,) = (of["id"] for of in document["categories"] if of["name"] == "person")
    people = [of for of in document["annotations"] if of["category_id"] == person]
    found = [of | {"score": 0.9 if number % 3 else 0.2} for number, of in enumerate(people) if number % 2]
    mine = tmp_path / "Mine" / "found.json"
    mine.parent.mkdir()
    mine.write_text(json.dumps(document | {"annotations": found}), encoding="utf-8")
    given = [*pictures_of(world), "--resamples", 100]
    done = done_well("ablate", "detectors", *given, "--detectors", f"gt,Mine={mine}", "--out", tmp_path / "out")
    truth, row = results(tmp_path / "out")
    kept = [of for of in found if of["score"] > 0.5]
    below = len(found) - len(kept)
    line = f"{below} of {len(found)} detections of {mine} score below --threshold 0.5 and are left out"
    assert f"Mine: {line}" in " ".join(done.stdout.split())
    masked = ["--images", world.folder / "images", "--instances", mine, "--out", tmp_path / "masked"]
    assert f"NOTE: {line}" in done_well("mask", *masked).stdout
    assert (truth["detector"], row["detector"]) == ("gt", "Mine")
    assert (row["people_found"], row["people"]) == (len(kept), len(people))
    coco = COCO(world.folder / "instances.json")
    shown, every = ({image: np.zeros((64, 64), dtype=bool) for image in coco.imgs} for _ in range(2))
    for of, masks in [*((of, shown) for of in kept), *((of, every) for of in people)]:
        masks[of["image_id"]] |= coco.annToMask(of).astype(bool)
    pixels = [sum(mask.sum() for mask in masks.values()) for masks in (shown, every)]
    assert row["recall"] == pytest.approx(pixels[0] / pixels[1])
    refused = refusal("ablate", "detectors", *given, "--detectors", f"gt={mine}", "--out", tmp_path / "no")
    assert "'gt' is the name of another detector: choose a name for what was found" in refused


def test_vectors_of_a_file_hide_nothing(world: WorldFiles, tmp_path: Path) -> None:
    vectors = ["--image-features", tmp_path / "v.npz"]
    given = [*inputs_of(world, "none"), *pictures_of(world), *vectors, "--out", tmp_path / "out"]
    for what in ("masks", "detectors"):
        line = refusal("ablate", what, *given)
        assert "--image-features: vectors of a file are the same, whatever is hidden in the images" in line


def test_from_weights_to_a_table(world: WorldFiles, tmp_path: Path) -> None:
    """An untrained network; its detections are cached; an image that cannot be read is left out."""
    images = shutil.copytree(world.folder / "images", tmp_path / "images")
    weights = ["--weights", f"yolo={tiny_onnx(tiny_yolo(tmp_path))}", "--cache", tmp_path / "cache"]
    given = ["--images", images, "--instances", world.folder / "instances.json", "--detectors", "gt,yolo", *weights]
    given += ["--resamples", 100, "--threshold", 0.05]
    done = done_well("ablate", "detectors", *given, "--out", tmp_path / "out")
    truth, found = results(tmp_path / "out")
    assert (truth["detector"], truth["recall"], found["detector"]) == ("gt", 1, "yolo")
    assert 0 < found["recall"] <= 1
    assert found["visible"] == pytest.approx(1 - found["recall"])
    assert f"{found['recall']:.3f}" in done.stdout
    assert "yolo: masks hide 100.0% of the pixels of 48 images." in done.stdout
    assert len(list((tmp_path / "cache").rglob("*.json"))) == IMAGES
    assert "Open its report.html, or report" in refusal("report", tmp_path / "out", "--format", "md")
    assert f"{found['recall']:.3f}" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    (images / "000000000003.png").write_bytes(b"no image")
    done = judge("ablate", "detectors", *given, "--out", tmp_path / "again")
    assert (done.exit_code, results(tmp_path / "again")[0]["images"]) == (1, IMAGES - 1)
    assert "000000000003.png" in done.stderr


@pytest.fixture
def tools(world: WorldFiles, tmp_path: Path) -> Tools:
    return Tools(world, tmp_path)


class Tools:
    """What tools found: the people of the ground truth as COCO results, and as PNG masks of all but five images."""

    def __init__(self, world: WorldFiles, folder: Path) -> None:
        coco, self.folder = COCO(world.folder / "instances.json"), folder
        self.images, self.truth = world.folder / "images", world.folder / "instances.json"
        (person,) = coco.getCatIds("person")
        people = [of for of in coco.anns.values() if of["category_id"] == person]
        self.rows = [{"image_id": of["image_id"], "category_id": 1, "bbox": of["bbox"], "score": 0.9} for of in people]
        self.masks = {image: np.zeros((64, 64), dtype=np.uint8) for image in coco.imgs}
        for of in people:
            self.masks[of["image_id"]] |= coco.annToMask(of)
        for missed in [*self.masks][:5]:
            self.masks[missed][:] = 0

    def given(self, detector: Path, out: str = "out") -> list[object]:
        given = ["ablate", "detectors", "--images", self.images, "--instances", self.truth, "--resamples", 100]
        return [*given, "--detectors", f"gt,x={detector}", "--out", self.folder / out]

    def results(self, rows: Sequence[dict[str, Any]]) -> Path:
        path = self.folder / "found.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        return path

    def png(self, *, empty: bool, value: int = 255) -> Path:
        folder = self.folder / f"masks{empty}{value}"
        folder.mkdir()
        for image, mask in self.masks.items():
            if empty or mask.any():
                Image.fromarray(mask * np.uint8(value)).save(folder / f"{image}.png")
        return folder


@pytest.mark.parametrize("empty", [False, True])
def test_an_image_without_a_mask_is_one_in_which_nothing_was_found(tools: Tools, empty: bool) -> None:
    """No image is left out; an empty mask is no detection."""
    done = done_well(*tools.given(tools.png(empty=empty)))
    truth, row = results(tools.folder / "out")
    assert (truth["images"], row["images"], row["people_found"]) == (IMAGES, IMAGES, IMAGES - 5)
    assert row["recall"] < truth["recall"] == 1
    note = f"x: 5 of 48 images have no record in {tools.folder}"
    assert (note in " ".join(done.stdout.split())) != empty


def test_masks_are_checked_as_judge_mask_does(tools: Tools) -> None:
    """Several values are noted; inverted masks are refused before the table; JPEG changes values."""
    folder = tools.png(empty=False)
    (path, *_) = sorted(folder.glob("*.png"))
    pixels = np.asarray(Image.open(path)).copy()
    pixels[np.nonzero(pixels)[0][0]] = 7
    Image.fromarray(pixels).save(path)
    done = " ".join(done_well(*tools.given(folder)).stdout.split())
    assert "x: 1 of the annotations have several values beside 0" in done
    assert "x: 1 of the annotations have several" in (tools.folder / "out" / "report.html").read_text(encoding="utf-8")
    for mask in tools.masks.values():
        mask[:] = 1
    refused = refusal(*tools.given(tools.png(empty=True, value=254), "no"))
    assert "--detectors x: masks hide 100.0% of the pixels of 48 images" in refused
    path = tools.folder / "jpg"
    path.mkdir()
    Image.fromarray(pixels).save(path / "1.jpg")
    assert "holds no PNG masks, but 1.jpg. Save masks as PNG" in refusal(*tools.given(path, "no"))


@pytest.mark.parametrize(("change", "guess"), [
    (lambda row: {"category_id": 0}, "category_id 0 is not among the categories). Use the ids of its categories"),
    (lambda row: {"score": 87.5}, "Are scores from 0 to 100? Divide by 100."),
    (lambda row: {"bbox": [36, 30, 60, 62]}, "Are boxes xyxy in place of xywh? Write x, y, width, height."),
    (lambda row: {"bbox": [0, 0, 900, 900]}, "lies outside the image (0 to 64)). Use the images that were annotated"),
])  # fmt: skip
def test_a_file_at_fault_is_refused_before_the_table(
    tools: Tools, change: Callable[[dict[str, Any]], dict[str, Any]], guess: str
) -> None:
    path = tools.results([row | change(row) for row in tools.rows])
    refused = refusal(*tools.given(path))
    assert refused.startswith(f"judge: {path}: 48 of 48 images with records cannot be read (the first: image")
    assert guess in refused
    half = [row | change(row) for row in tools.rows if row["image_id"] < 18]
    path = tools.results([*half, *(row for row in tools.rows if row["image_id"] >= 18)])
    assert judge(*tools.given(path)).exit_code == 1


def test_a_name_that_is_no_detector(tools: Tools) -> None:
    given = ["ablate", "detectors", "--images", tools.images, "--instances", tools.truth, "--detectors", "mine"]
    assert "unknown detector 'mine'" in refusal(*given)
    assert "What another tool found is NAME=FILE." in refusal(*given)


def test_the_page_repeats_the_command(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are those that were given, so the command works where the first one did."""
    tools.results(tools.rows)
    monkeypatch.chdir(tools.folder)
    done_well(*tools.given(Path("found.json"))[:-1], "my out")
    page = (tools.folder / "my out" / "report.html").read_text(encoding="utf-8")
    assert "hidden beside: hidden pixels that show nothing annotated." in page
    (command,) = re.findall(r"<code>judge (.* --out runs/again)</code>", page)
    done_well(*shlex.split(html.unescape(command)))
    assert results(tools.folder / "runs" / "again") == results(tools.folder / "my out")


@pytest.fixture
def run_file(world: WorldFiles, tmp_path: Path) -> Path:
    """Judges that learn next to nothing: what matters here is which numbers stand where."""
    settings = settings_of(world, tmp_path) | {"cache": str(tmp_path / "cache"), "batch_size": 16}
    del settings["captions"]
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_judges_see_images_in_which_a_tool_found_nobody(
    world: WorldFiles, tools: Tools, run_file: Path, tmp_path: Path
) -> None:
    """Its folder has no masks of five of them."""
    given = [*inputs_of(world, "none"), "--metrics", "imagecaptioner2", "--judge", "sat", "--resamples", 100]
    given += ["--detectors", f"x={tools.png(empty=False)}", "--out", tmp_path / "out"]
    done = " ".join(done_well("ablate", "detectors", run_file, *given).stdout.split())
    assert "Masks hide people in 89.6% of 48 images" in done


def numbers_of(rows: list[dict[str, Any]]) -> list[list[object]]:
    names = ("captioner", "metric", "judge", "human", "generated", "amplification")
    return [[row[name] for name in names] for row in rows]


def measured(run_file: Path, out: Path, *arguments: object) -> list[list[object]]:
    """The numbers of a run of its own."""
    done_well("evaluate", run_file, "--out", out, *arguments)
    return numbers_of(results(out))


@pytest.mark.slow
def test_detectors_change_what_judges_measure(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    """Each column is a run of ``judge evaluate`` with that detector; a detector of random weights finds others."""
    weights, model = tiny_onnx(tiny_yolo(tmp_path)), f"hf:{tiny_huggingface(tmp_path, 'maskformer')}"
    found = [*inputs_of(world, "none", "much"), "--weights", weights, "--threshold", "0.05", "--allow-unmasked"]
    out, given = tmp_path / "out", ["--metrics", "lic,imagecaptioner2", "--judge", "sat,linear"]
    same = world.folder / "instances.json"
    done = done_well(
        "ablate", "detectors", run_file, *found, *given, "--detectors", f"gt,yolo,{model},same={same}", "--out", out
    )
    ablated = read_json(out / "detectors.json")
    alone = ["--judge", "sat", "--metrics", "imagecaptioner2", "--detector", "yolo"]
    assert numbers_of(ablated["judges"]["yolo"]) == measured(run_file, tmp_path / "yolo", *found, *alone)
    assert numbers_of(ablated["judges"]["same"]) == numbers_of(ablated["judges"]["gt"])
    agreement, *_ = ablated["agreement"]
    assert (agreement["variant"], agreement["correlation"]["pairs"]) == ("yolo", 2)
    assert "yolo with gt over 2 captioners: no correlation: it takes 3, and amplifications that differ" in done.stdout
    assert len({str(numbers_of(rows)) for rows in ablated["judges"].values()}) == 3


def test_masks_change_what_judges_see(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    given = [*inputs_of(world, "none"), "--metrics", "imagecaptioner2,lic", "--judge", "sat,linear"]
    masks = ["--masks", "box,none", "--hides", "person,both,background", "--category", "pizza"]
    done = done_well("ablate", "masks", run_file, *given, *masks, "--out", tmp_path / "out")
    rows = results(tmp_path / "out")
    plain, person, _, background = seen = [row for row in rows if row["metric"] == "imagecaptioner2"]
    hidden = [("none", None), ("box", "person"), ("box", "both"), ("box", "background")]
    assert [(row["mask"], row["hide"]) for row in seen] == hidden
    assert plain["over_original"] == 0
    assert plain["over_chance"] == pytest.approx(plain["generated"] - 0.5)
    assert person["over_original"] == pytest.approx(person["generated"] - plain["generated"])
    assert len({row["generated"] for row in seen}) == 4
    move = background["amplification"] - plain["amplification"]
    assert background["shift"]["value"] == pytest.approx(move)
    line = f"ImageCaptioner2 (sat): the value moves by {move:+.3f} (no interval: it takes refits, or five splits)"
    line += " when the background is hidden (box)"
    assert line in done.stdout
    # A judge of captions alone sees no difference.
    assert len({row["generated"] for row in rows if row["metric"] == "lic"}) == 1
    assert "person, box" in done.stdout
    alone = measured(run_file, tmp_path / "alone", *given, "--mask", "box")
    assert numbers_of([person]) == [row for row in alone if row[1] == "imagecaptioner2"]


def test_tables_keep_the_caveats_of_evaluate(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    """Every line below the table of that run. These judges have learnt nothing: no table shows an interval."""
    given = [run_file, *inputs_of(world, "none"), "--metrics", "imagecaptioner2", "--judge", "sat"]
    alone = " ".join(done_well("evaluate", *given, "--out", tmp_path / "alone").stdout.split())
    (below,) = re.findall(r"(Protocol .*?) The results are in", alone)
    assert "NOTE: " in below
    assert "no verdict: judges of human captions are no better than chance" in alone
    variants = {"masks": ["--masks", "segment", "--hides", "person"], "detectors": ["--detectors", "gt"]}
    for varied, options in variants.items():
        shown = " ".join(done_well("ablate", varied, *given, *options, "--out", tmp_path / varied).stdout.split())
        assert below in shown
        assert "no verdict" in shown
        assert "]*" not in shown.replace(below, "")


def test_masks_change_what_a_checkpoint_writes(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    """LIC's Table 4: the captioner describes masked images, and LIC reads its captions."""
    model, out, masked = save_captioner(tmp_path / "git"), tmp_path / "out", tmp_path / "masked.json"
    given = ["--metrics", "lic", "--judge", "linear"]
    masks = ["--masks", "none,box", "--hides", "person"]
    done_well("ablate", "masks", run_file, *given, "--model", model, *masks, "--out", out)
    files = [MANIFEST, "ablate.yaml", "figures", "log.jsonl", "masks.json", "report.html", "tables.tex"]
    assert sorted(path.name for path in out.iterdir()) == files
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"variants-LIC-linear-.{of}" for of in ("png", "svg")
    }
    page, latex = ((out / name).read_text(encoding="utf-8") for name in ("report.html", "tables.tex"))
    for row in results(out):
        assert f"{row['amplification']:+.3f}" in page
        assert f"{row['amplification']:+.3f}".replace("-", "$-$") in latex
    assert f"ablate masks {out}/ablate.yaml --out" in page
    assert [row["mask"] for row in results(out)] == ["none", "box"]
    advice = "Open its report.html, or report a judge evaluate with one of its masks (--mask)."
    refused = refusal("report", out, "--format", "md")
    assert f"{out}: is a folder of judge ablate. {advice}" in refused
    done_well("caption", "--model", model, *pictures_of(world), "--mask", "box", "--out", masked)
    assert numbers_of(results(out)[1:]) == measured(run_file, tmp_path / "alone", *given, "--captions", f"git={masked}")


@pytest.mark.slow
def test_how_far_values_move_without_the_background(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    """Feature sensitivity: what ``judge compare`` finds between captions of images as they are and of masked ones."""
    model, out, options = save_captioner(tmp_path / "git"), tmp_path / "out", ["--metrics", "lic", "--judge", "linear"]
    options += ["--protocol", "crossfit", "--folds", 2, "--refits", 3]
    hides = ["--masks", "none,segment", "--hides", "objects,background"]
    shown = done_well("ablate", "masks", run_file, *options, "--model", model, *hides, "--out", out).stdout
    plain, objects, background = (row["shift"] for row in results(out))
    for name, hidden in {"plain": ["--mask", "none"], "hidden": ["--mask", "segment", "--hide", "background"]}.items():
        captions = tmp_path / f"{name}.json"
        done_well("caption", "--model", model, *pictures_of(world), *hidden, "--out", captions)
        done_well("evaluate", run_file, *options, "--captions", captions, "--out", tmp_path / name)
    done_well("compare", tmp_path / "plain", tmp_path / "hidden", "--out", tmp_path / "moved.json")
    (expected,) = read_json(tmp_path / "moved.json")["differences"]
    assert expected["paired"]
    assert {name: background[name] for name in ("value", "ci", "p_value", "paired")} == {
        name: pytest.approx(expected[name]) for name in ("value", "ci", "p_value", "paired")
    }
    assert plain["value"] == 0
    assert objects["value"] != expected["value"]
    moves = [
        f"by {row['value']:+.3f} [{row['ci'][0]:+.3f}, {row['ci'][1]:+.3f}] when {hidden} hidden (segment)"
        for row, hidden in ((objects, "objects are"), (background, "the background is"))
    ]
    assert f"git, LIC (linear): the value moves {', '.join(moves)}" in shown


def test_detectors_need_a_judge_of_images(world: WorldFiles, run_file: Path, tmp_path: Path) -> None:
    given = [run_file, *inputs_of(world, "none"), "--metrics", "lic", "--detectors", "gt", "--out", tmp_path / "out"]
    assert "--metrics: no judge of these metrics uses images" in refusal("ablate", "detectors", *given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml"]


def test_an_object_that_ba_cannot_choose_is_refused_before_anything_is_trained(
    world: WorldFiles, run_file: Path, tmp_path: Path
) -> None:
    """The mask that needs it is the last one."""
    settings = yaml.safe_load(run_file.read_text())
    del settings["labels"]
    run_file.write_text(yaml.safe_dump(settings))
    given = [run_file, "--human", world.human, "--captions", world.captions["none"], "--out", tmp_path / "out"]
    given += ["--metrics", "imagecaptioner2", "--judge", "sat", "--masks", "none,box", "--hides", "person,both"]
    line = refusal("ablate", "masks", *given)
    assert "Give --labels, or name the object with --category" in line
    assert not [*(tmp_path / "out.partial").rglob("*.safetensors")]

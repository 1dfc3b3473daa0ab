"""Files that code blocks of the docs name, made small: a drawn world's captions, labels, images, and tiny models."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from containers import write_shards
from detector_samples import tiny_huggingface, tiny_onnx, tiny_yolo
from helpers import done_well, fill_hub, read_json, read_rows, save_captioner, settings_of
from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.commands.train import TrainConfig, train_judges
from judge.config import make_config

ROOT = Path(__file__).parents[1]
CAPTIONERS = {"nic_plus": Captioner(stereotype=0.2), "nic_equalizer": Captioner(stereotype=0.6)}


def _vision_encoder(folder: Path) -> Path:
    sizes: Any = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 8}
    Dinov2Model(Dinov2Config(**sizes, image_size=32)).save_pretrained(folder)
    side: Any = {"height": 32, "width": 32}
    BitImageProcessor(size={"shortest_edge": 32}, crop_size=side).save_pretrained(folder)
    return folder


HUB = {
    "facebook/dinov2-base": _vision_encoder,
    "facebook/mask2former-swin-tiny-coco-instance": partial(tiny_huggingface, family="mask2former"),
    "Roboflow/rf-detr-seg-medium": partial(tiny_huggingface, family="rf-detr-seg"),
    "PekingU/rtdetr_r50vd": partial(tiny_huggingface, family="rt-detr"),
    "Salesforce/blip-image-captioning-base": partial(save_captioner, family="blip"),
}
IMAGES = 60


class BlockFiles:
    """Files by the names that blocks give them; each is made when a command first names it.

    Args:
        root: what all pages share lies there: the world, trained judges, weights.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.world: WorldFiles = write_world(make_world(IMAGES, seed=0), CAPTIONERS, root / "world", pictures=64)
        for path in (self.world.human, *self.world.captions.values()):  # Captions name an age too.
            path.write_text(_with_ages(read_json(path)), encoding="utf-8")
        for name, save in HUB.items():
            self.put_on_hub(name, save)

    def put_on_hub(self, name: str, save: Callable[[Path], Path]) -> None:
        """Put what ``save`` writes into the hub's cache, as if it had been fetched."""
        fill_hub(self.root / "hub", name, save(self.root / "made" / name))

    def make(self, name: str, words: Sequence[str], folder: Path) -> None:
        """Make the file or folder that a word of a command names, if it is one of those below."""
        path = folder / name
        if name.startswith("hf://"):
            if not (self.root / "hub" / "models--me--my-judge").exists():
                self.put_on_hub("me/my-judge", self.export)
            return
        if path.name.endswith(".weights.safetensors"):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.judge(words, path.name), path)
        maker = FILES.get(name.rstrip("/"))
        if maker is None or path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        maker(self, path)

    def judge(self, words: Sequence[str], name: str) -> Path:
        """Weights of a trained judge of the kind that a command takes: of captions, or of images besides."""
        kept = self.root / "judges"
        if not kept.exists():
            captioner = save_captioner(self.root / "git")
            judges = ["linear", "sat", "vl-lic-lstm", f"hf:{captioner}"]
            given = settings_of(self.world, self.root) | {"judge": judges, "metrics": ["lic", "imagecaptioner2"]}
            train_judges(make_config(given | {"checkpoints": kept, "fill": "mean"}, TrainConfig))
        kind = "hf" if "--merge" in words else {"A": "sat", "B": "vl-lic-lstm"}.get(name.partition(".")[0], "linear")
        rows = read_json(kept / "judges.json")
        return next(kept / row["weights"] for row in rows if row["judge"].partition(":")[0] == kind)

    def export(self, folder: Path) -> Path:
        """The folder of ``judge export``."""
        done_well("export", "--judge-weights", self.judge((), "NAME"), "--out", folder)
        return folder

    def weights(self, path: Path) -> None:
        """ONNX weights of a tiny YOLO."""
        made = self.root / "yolo.onnx"
        if not made.exists():
            tiny_onnx(tiny_yolo(self.root)).rename(made)
        shutil.copyfile(made, path)


def _with_ages(document: Any) -> str:
    """Captions in which a woman or a man is young in images of even number, and old in others."""
    for row in document["annotations"] if isinstance(document, dict) else document:
        age = ("young", "old")[int(row["image_id"]) % 2]
        row["caption"] = re.sub(r"\b((?:elderly|older) )?(wo)?man\b", rf"{age} \2man", row["caption"])
    return json.dumps(document)


Maker = Callable[[BlockFiles, Path], object]


def _captions(name: str) -> Maker:
    return lambda files, path: shutil.copyfile(files.world.captions[name], path)


def _labels(**columns: Callable[[int, str], object]) -> Maker:
    """A table with a column for each function of an image's number and gender."""

    def make(files: BlockFiles, path: Path) -> None:
        rows = [(int(row["image_id"]), row["gender"]) for row in read_rows(files.world.labels)]
        pd.DataFrame({name: [of(*row) for row in rows] for name, of in columns.items()}).to_csv(path, index=False)

    return make


def _number(image: int, gender: str) -> int:
    return image


def _gender(image: int, gender: str) -> str:
    return gender


def _cycle(*values: object) -> Callable[[int, str], object]:
    return lambda image, gender: values[image % len(values)]


def _write(text: str) -> Maker:
    return lambda files, path: path.write_text(text, encoding="utf-8")


def _japanese(pattern: str) -> Maker:
    def make(files: BlockFiles, path: Path) -> None:
        said = {}
        for row in read_rows(files.world.labels):
            person, image = "女" if row["gender"] == "female" else "男", int(row["image_id"])
            said[image] = pattern.format(person, "犬猫馬"[image % 3])
        path.write_text(json.dumps(said), encoding="utf-8")

    return make


def _shards(files: BlockFiles, path: Path) -> None:
    said = {row["image_id"]: row["caption"] for row in read_json(files.world.captions["nic_plus"])}
    human = {row["image_id"]: row["caption"] for row in read_json(files.world.human)["annotations"]}
    samples = [
        {
            "__key__": row["image_id"],
            "png": (files.world.folder / "images" / f"{int(row['image_id']):012d}.png").read_bytes(),
            "txt": human[int(row["image_id"])],
            "json": {"prediction": said[int(row["image_id"])], "gender": row["gender"]},
        }
        for row in read_rows(files.world.labels)
    ]
    write_shards(path, samples)


def _run(files: BlockFiles, path: Path) -> None:
    """A finished run; its captioner has the run's name."""
    world = files.world
    given = ["--human", world.human, "--captions", f"{path.name}={world.captions['nic_plus']}", "--labels"]
    given += [world.labels, "--folds", 2, "--refits", 0, "--chance", 0, "--resamples", 100, "--workers", 1]
    done_well("evaluate", *given, "--out", path)


def _run_file(files: BlockFiles, path: Path) -> None:
    world = files.world
    settings = {
        "human": str(world.human), "labels": str(world.labels), "metrics": ["lic"],
        "captions": [str(world.captions["nic_plus"])], "images": str(world.folder / "images"),
        "instances": str(world.folder / "instances.json"),
    }  # fmt: skip
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")


def _artemis(place: str) -> Maker:
    """A file of made-up paintings in ArtEmis's format."""

    def make(files: BlockFiles, path: Path) -> None:
        world = files.root / "paintings"
        if not world.exists():
            import paintings  # type: ignore[import-not-found]

            paintings.write_world(world, images=IMAGES * 4, pixels=16)
        source = world / place
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, path)

    return make


def _link(files: BlockFiles, path: Path) -> None:
    path.symlink_to(ROOT / path.name, target_is_directory=(ROOT / path.name).is_dir())


def _human(files: BlockFiles, path: Path) -> None:
    shutil.copyfile(files.world.human, path)


def _images(files: BlockFiles, path: Path) -> None:
    shutil.copytree(files.world.folder / "images", path)


def _instances(files: BlockFiles, path: Path) -> None:
    shutil.copyfile(files.world.folder / "instances.json", path)


# As Visual Genome releases them.
REGIONS = [{"region_id": 1, "image_id": 7, "phrase": "a red kite"}]
GENDERED = _labels(image_id=_number, gender=_gender)
FILES: dict[str, Maker] = {
    **dict.fromkeys(("captions_human.json", "human.json", "annotations/captions_val2014.json"), _human),
    **dict.fromkeys(("nic_plus.json", "new.json", "captions.json", "qwen.json"), _captions("nic_plus")),
    "before.json": _captions("nic_plus"),
    "after.json": _captions("nic_equalizer"),
    **dict.fromkeys(("nic_equalizer.json", "mine.json"), _captions("nic_equalizer")),
    **dict.fromkeys(("photos", "val2017", "runs/demo/world/images"), _images),
    **dict.fromkeys(("instances.json", "instances_val2017.json", "objects.json"), _instances),
    **dict.fromkeys(("results.json", "sam.json"), _instances),
    "gender.csv": GENDERED,
    "labels.csv": _labels(image_id=_number, gender=_gender, skin=_cycle("light", "light", "dark")),
    "scenes.csv": _labels(image_id=_number, gender=_gender, scene=lambda image, gender: f"scene {image // 2}"),
    "people.csv": _labels(image_id=_number, years=_cycle("60+", "young", "young")),
    "mine.yaml": _write("# source: a test\nname: age\nclasses: {old: [old, elderly], young: [young]}\n"),
    "images_val2014.csv": _labels(
        id=_number, bb_gender=_gender, bb_skin=_cycle("Light", "Dark", "Unsure", "Light", "Dark", "Both")
    ),
    "fitzpatrick.csv": _labels(image_id=_number, skin=_cycle(1, 2, 3, 4, 5, 6)),
    "emotion.csv": _labels(image_id=_number, emotion=_cycle(0, 1, 2)),
    **dict.fromkeys(("yolo11n-seg.onnx", "checkpoints/yolo.onnx"), BlockFiles.weights),
    "human_scores.csv": _write("captioner,score\nnic_plus,0.7\nnic_equalizer,0.5\n"),
    "my-checkpoint": lambda files, path: save_captioner(path),
    "my-judge": lambda files, path: files.export(path),
    "region_descriptions.json": _write(json.dumps([{"id": 7, "regions": REGIONS}, {"id": 8, "regions": []}])),
    "image_data.json": _write('[{"image_id": 7, "coco_id": 42}, {"image_id": 8, "coco_id": null}]'),
    "run.yaml": _run_file,
    "shards": _shards,
    "scripts": _link,
    "accelerate_config.yaml": _link,
    "artemis_dataset_release_v0.csv": _artemis("artemis_dataset_release_v0.csv"),
    "sat.csv": _artemis("speakers/vanilla.csv"),
    "eg_sat_img2emo.csv": _artemis("speakers/predicted.csv"),
    "eg_sat_voting.csv": _artemis("speakers/voted.csv"),
    "wikiart": _artemis("images"),
    **dict.fromkeys(("runs/mine", "runs/nic", "runs/blip", "runs/epoch-1", "runs/epoch-2"), _run),
    **dict.fromkeys(("runs/before", "runs/after"), _run),
}
"""How each is made."""

# A woman or a man is in a park with a dog, a cat or a horse; the captioner's woman or man looks at it.
JAPANESE: dict[str, Maker] = {
    "captions_human.json": _japanese("{0}性が{1}と公園にいる"),
    "mine.json": _japanese("{0}の人が{1}を見る"),
}

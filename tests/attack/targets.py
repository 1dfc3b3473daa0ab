"""What the fuzzer damages: for each reader of the package a folder of valid files, and how they are read."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from containers import as_table, sample_members, small_picture, tar_bytes, write_parquet
from helpers import table_bytes

from judge import config
from judge.commands.evaluate import RunConfig
from judge.commands.mask import MaskConfig
from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.labels import LabelOptions, read_labels
from judge.corpus.recipes import read_recipe, shipped_recipes
from judge.corpus.scores import read_human_scores
from judge.corpus.tasks import read_tasks
from judge.masking import archives
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.images import list_images, read_image
from judge.text.lexicon import load_lexicon
from judge.text.vectors import load_vectors

ROWS = [{"image_id": 1, "caption": "a man"}, {"image_id": 2, "caption": "two dogs"}]
KARPATHY = {"images": [{"cocoid": 1, "split": "test", "sentences": [{"raw": "a man"}, {"raw": "a boy"}]}]}
HARNESS = [{"doc_id": 0, "target": "['a', 'b']", "filtered_resps": ["x"], "m": {"pred": "x", "image_id": 4}}]
WEB = [{"url": "http://a.b/c.jpg", "caption": "a man", "key": "000000001", "status": "success"}]
INSTANCES = {
    "images": [{"id": 1, "file_name": "1.jpg", "width": 4, "height": 3}],
    "annotations": [
        {"id": 7, "image_id": 1, "category_id": 3, "bbox": [0, 0, 2, 2], "segmentation": [[0, 0, 2, 0, 2, 2]]}
    ],
    "categories": [{"id": 3, "name": "person"}],
}
ARTEMIS = """emotion,utterance,art_style,painting,anchor_art_style,anchor_painting,repetition
fear,The hay burns.,Impressionism,alfred-sisley_evening,Impressionism,claude-monet_haystacks,1
anger,"No peace, here.",Realism,ilya-repin_self-portrait,Impressionism,claude-monet_haystacks,1
"""
# As LIC released its data: human captions of an image, a captioner's, and both attributes.
LIC = [
    {"img_id": 42, "bb_gender": "Female", "bb_skin": "Light", "split": "test", "caption_list": ["a woman", "a lady"],
     "pred": "a woman", "rmdup_object_list": ["cake"]},
    {"img_id": 73, "bb_gender": "Male", "bb_skin": "Both", "split": "train", "caption_list": ["a man"],
     "pred": "a boy", "rmdup_object_list": []},
]  # fmt: skip
# Zhao, Wang and Russakovsky's images_val2014.csv, with the columns that public code reads.
ZHAO = """id,bb_gender,bb_skin,skin,ratio,split
42,Female,Light,"['Light', 'Dark']","[0.3, 0.1]",train
73,Male,Dark,['Dark'],[0.5],test
74,Unsure,Both,['Unsure'],[0.2],test
"""
SPEAKER = """art_style,painting,grounding_emotion,caption
Realism,ilya-repin_self-portrait,awe,"a man, who looks at me"
Cubism,juan-gris_bottle,,a bottle on a table
"""
LEXICON = """# source: a test
name: mood
token: "<mood>"
extends: gender
classes: {glad: [happy, joyful], sad: [sad, "in tears"]}
hidden_only: [mood]
spellings: {glad: ["1"]}
"""
RUN = """human: captions.json
captions: [a.json, b.json]
labels: {gender: gender.csv}
metrics: [lic, dbac]
judge: linear
level: 0.9
columns: {caption: text}
out: runs/x
"""
MASK = """images: pictures
instances: instances.json
mode: segment
fill: mean
weights: {yolo: yolo.safetensors}
threshold: 0.3
out: masked
"""
human = partial(read_captions, side="human")
generated = partial(read_captions, side="generated")
of_test = partial(read_captions, options=ReadOptions(split="test"), side="human")
scores = partial(read_human_scores, captioners=["a", "b"])
labels = partial(read_labels, lexicon=load_lexicon("gender"))
skin = partial(read_labels, attribute="skin")
feelings = load_lexicon("emotion")
emotions = partial(read_labels, attribute="emotion", lexicon=feelings, options=LabelOptions("majority"))


@dataclass(frozen=True)
class Target:
    """A reader under attack: ``make`` fills an empty folder with valid files, and ``read`` reads them again.

    Files that match ``damaged`` are damaged, one at a time.
    """

    make: Callable[[Path], object]
    read: Callable[[Path], object]
    damaged: str = "*"


def truth(path: Path) -> None:
    """Everything that a run reads of an instances file."""
    found = GroundTruth.read(path)
    for name in found.images:
        found.categories_in(name)
        found.image_id(name)


def settings(kind: type[config.Settings], path: Path) -> object:
    return config.make_config(config.read_settings(path), kind, where=str(path))


def two_vectors(path: Path) -> object:
    return load_vectors(str(path), ["dog", "a"])


def images(folder: Path) -> None:
    archives._find.cache_clear()
    for name in list_images(folder):
        read_image(folder, name)


def file(read: Callable[[Path], object], content: bytes | str | Any, name: str = "file") -> Target:
    """A reader of one file, whose content is bytes, a text, or a value for JSON."""
    if isinstance(content, str):
        content = content.encode()
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Target(lambda folder: (folder / name).write_bytes(data), lambda folder: read(folder / name))


def reader_targets() -> dict[str, Target]:
    """Name -> reader of what users give."""
    frame = pd.DataFrame(ROWS)
    image = {"image": {"bytes": small_picture(0), "path": "1.png"}}
    samples = [{"__key__": str(n), "txt": "a man", "json": {"gender": "male"}, "png": small_picture(n)} for n in (1, 2)]
    shard = tar_bytes([member for sample in samples for member in sample_members(sample)])
    table = as_table([row | {"image": {"bytes": b"x", "path": "1.png"}, "gender": 1} for row in ROWS], {"gender": "ab"})
    splits = {"train": table, "test": table.slice(0, 1)}
    vectors = {word: np.random.default_rng(0).normal(size=4).astype("<f4") for word in ("a", "dog", "犬")}
    jpeg = small_picture(1, kind="JPEG")
    glove = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()).encode()
    found = {
        "coco": file(human, {"images": [{"id": 1}], "annotations": [{"id": 5, **ROWS[0]}, {"id": 6, **ROWS[1]}]}),
        "results": file(generated, ROWS),
        "karpathy": file(of_test, KARPATHY),
        "mapping": file(generated, {"1": "a man", "b/2.jpg": ["two dogs"]}),
        "harness": file(human, HARNESS),
        "web": file(generated, WEB),
        "lines": file(generated, "\n".join(map(json.dumps, ROWS))),
        "csv": file(generated, frame.to_csv(index=False)),
        "tsv": file(generated, frame.to_csv(index=False, sep="\t")),
        "csv of a spreadsheet": file(generated, f"sep=;\n# by hand\n{frame.to_csv(index=False, sep=';')}"),
        "columns of pandas": file(generated, frame.to_json()),
        "split of pandas": file(generated, frame.to_json(orient="split")),
        "parquet": file(generated, table_bytes(frame, "parquet")),
        "parquet-images": file(generated, table_bytes(pd.DataFrame([row | image for row in ROWS]), "parquet")),
        "parquet-folder": Target(lambda folder: write_parquet(folder, splits, files=1), human, "**/*"),
        "pickle": file(generated, pickle.dumps(ROWS)),
        "pickle-0": file(generated, pickle.dumps(ROWS, protocol=0)),
        "shard": file(human, shard, "0.tar"),
        "artemis": file(human, ARTEMIS),
        "speaker": file(generated, SPEAKER),
        "lic-human": file(human, pickle.dumps(LIC)),
        "lic-generated": file(generated, pickle.dumps(LIC)),
        "labels": file(labels, [{"image_id": 1, "gender": "F"}, {"image_id": 2, "gender": "male"}]),
        "lic-gender": file(labels, pickle.dumps(LIC)),
        "lic-skin": file(skin, pickle.dumps(LIC)),
        "zhao-gender": file(labels, ZHAO),
        "zhao-skin": file(skin, ZHAO),
        "label-mapping": file(read_labels, {"1": "female", "2": "male"}),
        "emotions": file(emotions, ARTEMIS),
        "indexed": file(read_tasks, {"categories": ["cat", "dog"], "objects": {"1": [0, 1], "2": []}}),
        "instances": file(read_tasks, INSTANCES),
        "object-table": file(read_tasks, [{"image_id": 1, "objects": "cat; dog"}, {"image_id": 2, "objects": ["tie"]}]),
        "ground-truth": file(truth, INSTANCES),
        "scores": file(scores, {"a": 0.5, "b": 1}),
        "run-settings": file(partial(settings, RunConfig), RUN, "x.yaml"),
        "mask-settings": file(partial(settings, MaskConfig), MASK, "x.yaml"),
        "lexicon": file(lambda path: load_lexicon(str(path)), LEXICON, "own.yaml"),
        "recipe": file(read_recipe, shipped_recipes()["coco-gender-skin"].read_bytes(), "own.yaml"),
        "glove": file(two_vectors, glove),
        "word2vec": file(two_vectors, b"3 4\n" + glove),
        "gzip": file(two_vectors, gzip.compress(glove)),
        "image-parquet": Target(
            lambda folder: write_parquet(folder, {"test": as_table([row | image for row in ROWS])}), images, "**/*"
        ),
        "image-shard": file(images, tar_bytes([("1.png", small_picture(0)), ("2.jpg", jpeg)]), "0.tar"),
    }
    for kind, suffix in (("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("BMP", "bmp"), ("TIFF", "tif")):
        found[kind.lower()] = file(lambda path: images(path.parent), small_picture(0, kind=kind), f"1.{suffix}")
    return found

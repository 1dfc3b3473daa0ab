"""A thousand faults in a valid file of each kind: what is read is read, everything else is refused in one line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from containers import as_table, sample_members, small_picture, tar_bytes, write_dict, write_parquet, write_saved
from helpers import table_bytes
from mutations import as_json, mutated_bytes, mutated_values, outcome, read_or_refused

from judge.corpus.human_scores import read_human_scores
from judge.corpus.labels import read_labels
from judge.corpus.objects import read_tasks
from judge.corpus.reading import ReadOptions, read_captions
from judge.masking.detectors.ground_truth import GroundTruth
from judge.text.lexicon import load_lexicon

MANY = 1000
ROWS = [{"image_id": 1, "caption": "a man"}, {"image_id": 2, "caption": "two dogs"}]
KARPATHY = {"images": [{"cocoid": 1, "split": "test", "sentences": [{"raw": "a man"}, {"raw": "a boy"}]}]}
HARNESS = [{"doc_id": 0, "target": "['a', 'b']", "filtered_resps": ["x"], "m": {"pred": "x", "image_id": 4}}]
REGIONS = [{"id": 1, "regions": [{"region_id": 5, "image_id": 1, "phrase": "a hat"}]}, {"id": 2, "regions": []}]
WEB = [{"url": "http://a.b/c.jpg", "caption": "a man", "key": "000000001", "status": "success"}]
INSTANCES = {
    "images": [{"id": 1, "file_name": "1.jpg", "width": 4, "height": 3}],
    "annotations": [
        {"id": 7, "image_id": 1, "category_id": 3, "bbox": [0, 0, 2, 2], "segmentation": [[0, 0, 2, 0, 2, 2]]}
    ],
    "categories": [{"id": 3, "name": "person"}],
}
GENDER = load_lexicon("gender")

human = partial(read_captions, side="human")
generated = partial(read_captions, side="generated")
of_test = partial(read_captions, options=ReadOptions(split="test"), side="human")
labels = partial(read_labels, lexicon=GENDER)
scores = partial(read_human_scores, captioners=["a", "b"])


def truth(path: Path) -> None:
    """All that a run asks of an instances file."""
    found = GroundTruth.read(path)
    for name in found.pictures:
        found.categories_in(name)
        found.image_id(name)


VALUES: dict[str, tuple[Callable[[Path], object], Any]] = {
    "coco": (human, {"images": [{"id": 1}], "annotations": [{"id": 5, **ROWS[0]}, {"id": 6, **ROWS[1]}]}),
    "results": (generated, ROWS),
    "karpathy": (of_test, KARPATHY),
    "mapping": (generated, {"1": "a man", "b/2.jpg": ["two dogs"]}),
    "harness": (human, HARNESS),
    "visual-genome": (human, REGIONS),
    "web": (generated, WEB),
    "labels": (labels, [{"image_id": 1, "gender": "F"}, {"image_id": 2, "gender": "male"}]),
    "label-mapping": (read_labels, {"1": "female", "2": "male"}),
    "indexed": (read_tasks, {"categories": ["cat", "dog"], "objects": {"1": [0, 1], "2": []}}),
    "instances": (read_tasks, INSTANCES),
    "object-table": (read_tasks, [{"image_id": 1, "objects": "cat; dog"}, {"image_id": 2, "objects": ["tie"]}]),
    "ground-truth": (truth, INSTANCES),
    "scores": (scores, {"a": 0.5, "b": 1}),
}


def both(told: dict[str, int], count: int = MANY) -> None:
    """Faults are found, and what is no fault is none."""
    assert sum(told.values()) == count
    assert min(told.get("read", 0), told.get("refused", 0)) > count / 50, told


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, tmp_path: Path) -> None:
    read, value = VALUES[name]
    both(read_or_refused(read, tmp_path / "file", map(as_json, mutated_values(value, MANY))))


def bytes_of() -> dict[str, tuple[Callable[[Path], object], bytes, int]]:
    """Format -> reader, a valid file, how many faults."""
    frame = pd.DataFrame(ROWS)
    lines = "\n".join(map(json.dumps, ROWS)).encode()
    picture = {"image": {"bytes": small_picture(0), "path": "1.png"}}
    samples = [{"__key__": str(n), "txt": "a man", "json": {"gender": "male"}, "png": small_picture(n)} for n in (1, 2)]
    shard = tar_bytes([member for sample in samples for member in sample_members(sample)])
    return {
        "json": (generated, as_json(ROWS), MANY),
        "lines": (generated, lines, MANY),
        "csv": (generated, frame.to_csv(index=False).encode(), MANY),
        "parquet": (generated, table_bytes(frame, "parquet"), MANY),
        "parquet-pictures": (generated, table_bytes(pd.DataFrame([row | picture for row in ROWS]), "parquet"), MANY),
        "xlsx": (generated, table_bytes(frame, "xlsx"), MANY),
        "pickle": (generated, pickle.dumps(ROWS), MANY),
        "pickle-0": (generated, pickle.dumps(ROWS, protocol=0), MANY),
        "shard": (human, shard, MANY),
    }


@pytest.mark.parametrize("name", bytes_of())
def test_bytes(name: str, tmp_path: Path) -> None:
    read, data, count = bytes_of()[name]
    told = read_or_refused(read, tmp_path / "file", mutated_bytes(data, count))
    assert told["refused"] > count / 10
    assert sum(told.values()) == count
    assert outcome(lambda: read(written(tmp_path / "whole", data)), name) == "read"


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["json", "txt"])
def test_members(name: str, tmp_path: Path) -> None:
    """A whole archive with a fault in one of its texts."""
    contents = {"json": mutated_values({"caption": "a man", "key": "1"}, MANY), "txt": mutated_bytes(b"a man", MANY)}
    shards = (
        tar_bytes([("1.jpg", b""), (f"1.{name}", content if isinstance(content, bytes) else as_json(content))])
        for content in contents[name]
    )
    both(read_or_refused(human, tmp_path / "file", shards))


@pytest.mark.parametrize("kind", ["saved", "dict", "parquet"])
def test_data_sets(kind: str, tmp_path: Path) -> None:
    """A fault in one of the files of the folder."""
    table = as_table([row | {"image": {"bytes": b"x", "path": "1.png"}, "gender": 1} for row in ROWS], {"gender": "ab"})
    folder = tmp_path / "set"
    if kind == "saved":
        write_saved(folder, table)
    else:
        write = write_dict if kind == "dict" else partial(write_parquet, files=1)
        write(folder, {"train": table, "test": table.slice(0, 1)})
    several = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "dataset_info.json"]
    told = {"read": 0, "refused": 0}
    for path in several:
        data = path.read_bytes()
        count = -(-MANY // len(several))
        for found, times in read_or_refused(lambda _: human(folder), path, mutated_bytes(data, count)).items():
            told[found] += times
        path.write_bytes(data)
    assert told["refused"] > MANY / 10
    assert outcome(lambda: human(folder), "as it was") == "read"


@pytest.mark.parametrize("name", ["state.json", "dataset_dict.json"])
def test_descriptions_of_data_sets(name: str, tmp_path: Path) -> None:
    folder = write_dict(tmp_path / "set", {"test": as_table(ROWS)})
    path = folder / name if name == "dataset_dict.json" else folder / "test" / name
    contents = map(as_json, mutated_values(json.loads(path.read_text()), MANY))
    both(read_or_refused(lambda _: human(folder), path, contents))

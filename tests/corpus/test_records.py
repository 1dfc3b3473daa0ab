"""One record at fault among sound ones: each reader names it, in one line that begins with the file."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from attack.targets import (
    INSTANCES,
    LIC,
    generated,
    human,
    labels,
    of_test,
    truth,
)
from containers import sample_members, tar_bytes
from helpers import table_bytes
from mutations import damaged_records, outcome

from judge.corpus.tasks import read_tasks
from judge.masking.detectors.ground_truth import GroundTruth

MANY = 100
Row = dict[str, Any]
LINES = 1
"""A table's header is its first line."""


@dataclass(frozen=True)
class Records:
    """Sound records, how a program writes and reads them.

    Attributes:
        write: records -> a file; whatever it raises, such a file is not written.
        named: what names record ``number`` (from 1) in a message, given as it is now: a pattern.
        besides: a pattern of what may be said instead, where no record is at fault by itself.
        file: what the file is called.
        many: how many files are damaged.
    """

    records: list[Any]
    write: Callable[[list[Any]], bytes]
    read: Callable[[Path], object]
    named: Callable[[int, Any], str] = lambda number, _: rf"record {number}\b"
    besides: str = "(?!)"
    file: str = "file"
    many: int = MANY


def as_json(records: list[Any]) -> bytes:
    return json.dumps(records).encode()


def as_csv(records: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def of_table(kind: str) -> Callable[[list[Row]], bytes]:
    return lambda records: table_bytes(pd.DataFrame(records), kind)


def within(key: str, rest: Row = {}) -> Callable[[list[Any]], bytes]:  # noqa: B006 - it is not changed
    return lambda records: json.dumps({**rest, key: records}).encode()


def as_shard(samples: list[Row]) -> bytes:
    return tar_bytes([member for sample in samples for member in sample_members(sample)])


def row_or_line(number: int, _: Any) -> str:
    return rf"record {number}\b|line {number + LINES}\b"


def annotation(number: int, record: Any) -> str:
    at = rf"record {number}\b"
    return rf"annotation {record['id']}\b|{at}" if isinstance(record, dict) and type(record.get("id")) is int else at


def sample(number: int, record: Any) -> str:
    key = re.escape(str(record.get("__key__", "?"))[:50]) if isinstance(record, dict) else number
    return rf"\b{number}\.(json|txt)\b|sample '{number}'|(sample |, )'?{key}"


def instances(path: Path) -> None:
    truth(path)
    found = GroundTruth.read(path)
    for name in found.images:
        found.instances(name)
    for _, fault in found.strays:
        raise fault


RESULTS = [{"image_id": 1, "caption": "a man"}, {"image_id": 2, "caption": "two dogs"}, {"image_id": 3, "caption": "x"}]
KARPATHY = [{"cocoid": n, "split": "test", "sentences": [{"raw": "a man"}, {"raw": "a boy"}]} for n in (1, 2, 3)]
REGIONS = [{"id": n, "regions": [{"region_id": 5, "image_id": n, "phrase": "a hat"}]} for n in (1, 2, 3)]
LMMS = [
    {"doc_id": n, "target": "['a', 'b']", "filtered_resps": ["x"], "m": {"pred": "x", "image_id": n}} for n in range(3)
]
PARTED = [*LIC, {**LIC[0], "img_id": 99}]
SAMPLES = [{"__key__": str(n), "txt": "a man", "json": {"gender": "male", "caption": "x"}} for n in (1, 2, 3)]
IMAGES = [{"id": n, "file_name": f"{n}.jpg", "width": 4, "height": 3} for n in (1, 2, 3)]
DRAWN = [{**INSTANCES["annotations"][0], "id": 70 + n, "image_id": n} for n in (1, 2, 3)]  # type: ignore[dict-item]
CATEGORIES = [{"id": n, "name": name} for n, name in ((2, "cat"), (3, "person"), (4, "dog"))]
COCO = {"images": IMAGES, "annotations": DRAWN, "categories": CATEGORIES}
OBJECTS = [{"image_id": 1, "objects": "cat; dog"}, {"image_id": 2, "objects": ["tie"]}, {"image_id": 3, "objects": "x"}]
# Where a record has another name or number, and what needs the old one is refused.
NO_CATEGORY = "category_id 3 is no"

KINDS: dict[str, Records] = {
    "coco": Records([{"id": 50 + n, **row} for n, row in enumerate(RESULTS)], within("annotations"), human, annotation),
    "csv": Records(RESULTS, as_csv, generated, row_or_line),
    "parquet": Records(RESULTS, of_table("parquet"), generated),
    "xlsx": Records(RESULTS, of_table("xlsx"), generated, besides=r"line \d+, column \d+", many=30),
    "pickle": Records(RESULTS, pickle.dumps, generated),
    "karpathy": Records(KARPATHY, within("images"), of_test),
    "lmms-eval": Records(LMMS, as_json, generated),
    "visual-genome": Records(REGIONS, as_json, human),
    # A field of a sample's object that is renamed may be taken for the image id.
    "shard": Records(
        SAMPLES, as_shard, human, sample, besides=r"field '(image_)?(id|ID) ?'|member at byte", file="0.tar"
    ),
    "lic-gender": Records(PARTED, pickle.dumps, labels),
    "object-table": Records(OBJECTS, as_json, read_tasks),
    "instances": Records(DRAWN, within("annotations", COCO), read_tasks, annotation),
    # An id of another image, or none: its annotations are of no image, or of the other.
    "masks-images": Records(
        IMAGES, within("images", COCO), instances, lambda n, _: rf"record {n}\b|image '{n}.jpg'", "stands there twice"
    ),
    "masks": Records(DRAWN, within("annotations", COCO), instances, annotation),
    "instances-categories": Records(CATEGORIES, within("categories", COCO), read_tasks, besides=NO_CATEGORY),
}


def files_of(kind: Records) -> Iterator[tuple[bytes, str]]:
    """(content, what names the record at fault in a message), of those that can be written."""
    for place, changed in damaged_records(kind.records, kind.many):
        try:
            content = kind.write(changed)
        except Exception:  # Of what a table or an archive cannot hold there is no file.
            continue
        yield content, rf"{kind.named(place + 1, changed[place])}|{kind.besides}"


@pytest.mark.filterwarnings("ignore")  # Of pandas, which guesses dates.
@pytest.mark.parametrize("name", KINDS)
def test_the_record_at_fault_is_named(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    path = tmp_path / kind.file
    path.write_bytes(kind.write(kind.records))
    kind.read(path)
    told: Counter[str] = Counter()
    for content, naming in files_of(kind):
        path.write_bytes(content)
        at_fault = rf"^{re.escape(str(path))}\b.*(?:{naming})"
        told[outcome(lambda: kind.read(path), f"{content[:2000]!r}", naming=at_fault)] += 1
    assert min(told["read"], told["refused"]) > kind.many / 50

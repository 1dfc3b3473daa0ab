"""One record at fault among sound ones: each reader names it, in one line that begins with the file."""

from __future__ import annotations

import csv
import io
import json
import pickle
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from attack.targets import ARTEMIS, INSTANCES, LIC, SPEAKER, emotions, generated, human, labels, of_test, truth
from containers import sample_members, tar_bytes
from helpers import table_bytes
from mutations import as_json, mutated_values

from judge.corpus.tasks import read_tasks
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth

Row = dict[str, Any]
RECORD = r"record {number}\b"
LINE = r"record {number}\b|line {line}\b"  # A table's header is its first line.
ANNOTATION = r"annotation {id}\b|record {number}\b"
SAMPLE = r"\b{number}\.(json|txt)\b|sample '{number}'|(sample |, )'?{key}|field '(image_)?(id|ID) ?'|member at byte"


class Records(NamedTuple):
    """Sound records, what writes them as a file and reads it, and a pattern that names record ``number`` (from 1)."""

    records: list[Any]
    write: Callable[[list[Any]], bytes]
    read: Callable[[Path], object]
    named: str = RECORD
    many: int = 120


def as_table(kind: str) -> Callable[[list[Row]], bytes]:
    return lambda records: table_bytes(pd.DataFrame(records), kind)


def as_pickle(records: list[Any]) -> bytes:
    return pickle.dumps(json.loads(json.dumps(records)))  # Without a list that two records share.


def as_mapping(pairs: list[list[Any]]) -> bytes:
    found = {str(key): value for key, value in pairs}
    assert len(found) == len(pairs)
    return as_json(found)


def within(key: str, rest: Row) -> Callable[[list[Any]], bytes]:
    return lambda records: as_json({**rest, key: records})


def as_shard(samples: list[Row]) -> bytes:
    return tar_bytes([member for sample in samples for member in sample_members(sample)])


def rows_of(text: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(text)))


def masks(path: Path) -> None:
    truth(path)
    found = GroundTruth.read(path)
    for name in found.images:
        found.instances(name)
    for _, stray in found.strays:
        raise stray


RESULTS = [{"image_id": n, "caption": text} for n, text in enumerate(("a man", "two dogs", "x"), start=1)]
GENDER = [{"image_id": n, "gender": name} for n, name in enumerate(("F", "male", "female"), start=1)]
KARPATHY = [{"cocoid": n, "split": "test", "sentences": [{"raw": "a man"}, {"raw": "a boy"}]} for n in (1, 2, 3)]
LMMS = [{"doc_id": n, "target": "['a', 'b']", "filtered_resps": ["x"], "m": {"pred": "x", "image_id": n}}
        for n in range(3)]  # fmt: skip
VLM = [{"index": n, "question": "?", "answer": "['a man', 'b']", "prediction": "x"} for n in range(3)]
PARTED = [*LIC, {**LIC[0], "img_id": 99}]
UTTERED = [*rows_of(ARTEMIS), {**rows_of(ARTEMIS)[0], "painting": "juan-gris_bottle"}]
FIRST = [{name: cell for name, cell in row.items() if not name.startswith("anchor")} for row in UTTERED]
SPOKEN = [*rows_of(SPEAKER), {**rows_of(SPEAKER)[0], "painting": "another"}]
SAMPLES = [{"__key__": str(n), "txt": "a man", "json": {"gender": "male", "caption": "x"}} for n in (1, 2, 3)]
IMAGES = [{"id": n, "file_name": f"{n}.jpg", "width": 4, "height": 3} for n in (1, 2, 3)]
DRAWN = [{**INSTANCES["annotations"][0], "id": 70 + n, "image_id": n} for n in (1, 2, 3)]
CATEGORIES = [{"id": n, "name": name} for n, name in ((2, "cat"), (3, "person"), (4, "dog"))]
COCO = {"images": IMAGES, "annotations": DRAWN, "categories": CATEGORIES}
OBJECTS = [{"image_id": 1, "objects": "cat; dog"}, {"image_id": 2, "objects": ["tie"]}, {"image_id": 3, "objects": "x"}]

KINDS: dict[str, Records] = {
    "coco": Records([{"id": 50 + n, **row} for n, row in enumerate(RESULTS)], within("annotations", {}), human,
                    ANNOTATION),
    "results": Records(RESULTS, as_json, generated),
    "tsv": Records(RESULTS, as_table("tsv"), generated, LINE),
    "parquet": Records(RESULTS, as_table("parquet"), generated),
    "pickle": Records(RESULTS, as_pickle, generated, rf"{RECORD}|over 64 bits"),
    "karpathy": Records(KARPATHY, within("images", {}), of_test),
    "mapping": Records([[row["image_id"], row["caption"]] for row in RESULTS], as_mapping, generated),
    "lmms-eval": Records(LMMS, as_json, generated),
    "vlmevalkit": Records(VLM, as_table("tsv"), human, LINE),
    "shard": Records(SAMPLES, as_shard, human, SAMPLE),
    "lic-people": Records(PARTED, as_pickle, human, rf"{RECORD}|over 64 bits"),
    "lic-gender": Records(PARTED, as_pickle, labels, rf"{RECORD}|over 64 bits"),
    "labels": Records(GENDER, as_json, labels),
    "artemis": Records(FIRST, as_json, emotions),
    "speaker": Records(SPOKEN, as_table("tsv"), generated, LINE),
    "indexed": Records([[1, [0, 1]], [2, []], [3, [1]]],
                       lambda pairs: b'{"categories": ["cat", "dog"], "objects": ' + as_mapping(pairs) + b"}",
                       read_tasks),
    "object-table": Records(OBJECTS, as_json, read_tasks),
    "instances-images": Records(IMAGES, within("images", COCO), read_tasks),
    "instances": Records(DRAWN, within("annotations", COCO), read_tasks, ANNOTATION),
    "instances-categories": Records(CATEGORIES, within("categories", COCO), read_tasks, rf"{RECORD}|category_id 3 is"),
    "masks-images": Records(IMAGES, within("images", COCO), masks, rf"{RECORD}|image '{{number}}.jpg'|occurs twice"),
    "masks": Records(DRAWN, within("annotations", COCO), masks, ANNOTATION),
}  # fmt: skip


def damaged(records: list[Any], count: int) -> Iterator[tuple[int, list[Any]]]:
    """``count`` times (place, records), of which the one in that place (from 0) has other values, or fewer.

    Nothing is renamed. The first record keeps its fields: a format is recognised by them.
    """
    rng = random.Random(0)
    while count:
        place = rng.randrange(len(records))
        (changed,) = mutated_values(records[place], 1, seed=rng.randrange(2**32))
        if isinstance(records[place], dict):
            fields = changed.keys() if isinstance(changed, dict) else set()
            if fields - records[place].keys() or (not place and records[place].keys() - fields):
                continue
        count -= 1
        yield place, [*records[:place], changed, *records[place + 1 :]]


@pytest.mark.filterwarnings("ignore")  # Pandas guesses dates.
@pytest.mark.parametrize("name", KINDS)
def test_the_record_at_fault_is_named(name: str, tmp_path: Path) -> None:
    kind, path = KINDS[name], tmp_path / ("0.tar" if name == "shard" else "file")
    path.write_bytes(kind.write(kind.records))
    kind.read(path)
    read = refused = 0
    for place, records in damaged(kind.records, kind.many):
        try:
            path.write_bytes(kind.write(records))
        except Exception:  # A table or an archive cannot hold it.
            continue
        record = records[place] if isinstance(records[place], dict) else {}
        found = {"key": str(record.get("__key__", "?"))[:50], "id": str(record.get("id")), "number": str(place + 1)}
        words = {name: re.escape(text) for name, text in found.items()}
        pattern = rf"{re.escape(str(path))}\b.*({kind.named.format(line=place + 2, **words)}).*"
        line = ""
        try:
            kind.read(path)
            read += 1
        except JudgeError as error:
            line = str(error)
        assert not line or re.fullmatch(pattern, line), f"{line}\n{pattern}\n{records}"
        refused += bool(line)
    assert min(read, refused) > kind.many / 50

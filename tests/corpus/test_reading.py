"""Every format, written and read back; real files."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import Write, fault, table_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, read_captions
from judge.errors import JudgeError
from judge.text.cleaning import clean
from judge.utils.reading import CELLS

PAIRS = {
    "1": "a man rides a horse",
    "2": "امرأة تقرأ كتابا",
    "3": "一个女人在看书。",
    "4": '🧑🏽‍🦱 says, "hi"\tthen\nleaves',
}
Form = Callable[[dict[str, str]], bytes]


def as_json(shape: Callable[[dict[str, str]], object], **how: Any) -> Form:
    return lambda pairs: json.dumps(shape(pairs), **how).encode()


def as_lines(row: Callable[[str, str], object]) -> Form:
    return lambda pairs: "\n".join(json.dumps(row(*pair), ensure_ascii=False) for pair in pairs.items()).encode()


def lmms_eval(image: str, caption: str) -> object:
    number = int(image) - 1
    return {
        "doc_id": 5000 + number,
        "target": str([caption]),
        "filtered_resps": [caption],
        "doc_hash": "0",
        "coco_CIDEr": {"answer": [caption], "pred": caption, "image_id": int(image), "id": number},
        "input": "Provide a one-sentence caption for the provided image.",
    }


def results(pairs: dict[str, str], **more: object) -> list[dict[str, object]]:
    return [{**more, "image_id": int(image), "caption": caption} for image, caption in pairs.items()]


def karpathy(pairs: dict[str, str]) -> list[dict[str, object]]:
    more = {"imgid": 90, "filename": "x.jpg", "split": "val"}
    return [more | {"cocoid": int(image), "sentences": [{"raw": caption}]} for image, caption in pairs.items()]


def delimited(delimiter: str, encoding: str = "utf-8") -> Form:
    def write(pairs: dict[str, str]) -> bytes:
        buffer = io.StringIO(newline="")
        csv.writer(buffer, delimiter=delimiter).writerows([("image_id", "caption"), *pairs.items()])
        return buffer.getvalue().encode(encoding)

    return write


FORMATS: dict[str, Form] = {
    "coco results": as_json(results),
    "coco captions": as_json(lambda pairs: {"images": [], "annotations": results(pairs, id=7)}, ensure_ascii=False),
    "karpathy": as_json(lambda pairs: {"images": karpathy(pairs), "dataset": "coco"}),
    "image: caption": as_json(lambda pairs: {f"COCO_val2014_{int(image):012d}.jpg": pairs[image] for image in pairs}),
    "image: captions": as_json(lambda pairs: {image: [caption] for image, caption in pairs.items()}, indent=1),
    "json lines": as_lines(lambda image, caption: {"image": f"{image}.jpg", "text": caption}),
    "lmms-eval": lambda pairs: as_lines(lmms_eval)(pairs) + b"\n",
    "csv": delimited(","),
    "csv with a byte order mark": delimited(",", "utf-8-sig"),
    "tsv": delimited("\t"),
    "semicolons": delimited(";"),
    "parquet": lambda pairs: table_bytes(
        pd.DataFrame(results(pairs)).assign(picture=[{"bytes": b"\xff\xd8"}] * len(pairs)), "parquet"
    ),
    "xlsx": lambda pairs: table_bytes(pd.DataFrame(results(pairs)), "xlsx"),
}


def written(*names: str) -> list[bytes]:
    return [FORMATS[name](PAIRS) for name in names]


# Anything that UTF-8 can write; a text file with a zero byte is taken for a damaged one.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
PRINTABLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1, max_size=40).filter(
    lambda text: text[0] not in "=" and "_x" not in text
)


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_round_trip(write: Write, form: str, data: st.DataObject) -> None:
    captions = data.draw(st.lists(PRINTABLE if form == "xlsx" else TEXTS, min_size=1, max_size=4))
    pairs = {str(number): caption for number, caption in enumerate(["anchor", *captions])}
    read = read_captions(write(FORMATS[form](pairs)), ReadOptions(refusals=()), side="generated")
    kept = {image: (caption,) for image, text in pairs.items() if (caption := clean(text)[0]).strip()}
    assert read.by_image == kept
    assert read.empty == len(pairs) - len(kept)


def test_duplicates(write: Write) -> None:
    for form in ("csv", "json lines", "coco results"):
        text = FORMATS[form]({"1": "a man", "2": "a dog"}).decode()
        path = write(text.replace("2,", "1,").replace("2.jpg", "1.jpg").replace(": 2", ": 1"))
        assert "record 2" in fault(path)
        assert "duplicate results for image '1' (record 1 has one)" in fault(path)
        several = read_captions(path, ReadOptions(several=True), side="generated")
        assert several.by_image == {"1": ("a man", "a dog")}
        assert read_captions(path, side="human").by_image == {"1": ("a man", "a dog")}
    message = fault(write({"1.jpg": "a man", "1.png": "a dog"}))
    assert message.startswith("record 2 ('1.png'), field 'key': duplicate results for image '1'")


def test_bombs_and_no_openpyxl(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge.utils.reading.memory_limit", lambda: 400)
    for content in (*written("parquet", "xlsx"), b" " * 101, b"[" * 90, b"a\n" * 9):
        told = fault(write(content))
        assert "of memory when it is read. Keep only" in told
        assert told.endswith("or set the environment variable JUDGE_NO_LIMITS=1 if you trust the file.")
    monkeypatch.undo()
    monkeypatch.setattr("judge.corpus.tables.CELLS", replace(CELLS, most=1))
    assert fault(write(*written("xlsx"))).startswith("has over 1 cells. Save it as CSV")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    message = "Excel files need openpyxl. Install it (pip install 'caption-judge[tables]'), or save the sheet as CSV."
    assert fault(write(*written("xlsx"))) == message


def test_shared_human_captions(shared: Path) -> None:
    path = shared / "coco-captions" / "captions_human.json"
    human = read_captions(path, ReadOptions(refusals=()), side="human")
    assert (len(human.by_image), human.total, human.empty) == (10_301, 51_519, 0)
    assert set(map(len, human.by_image.values())) <= set(range(5, 8))
    # Workers of COCO wrote "I am unable to see an image above" where a picture did not load.
    assert read_captions(path, side="human").refused == 24


def test_a_column_that_no_file_has_is_told(tmp_path: Path) -> None:
    """One side may lack it; where both do, the captioner's would be read from people's column, perhaps twice."""
    people, mine = tmp_path / "people.csv", tmp_path / "mine.csv"
    people.write_text("image_id,caption\n1,a man\n2,a woman\n", encoding="utf-8")
    mine.write_text("image_id,caption,model_text\n1,a man,a dog\n2,a woman,a cat\n", encoding="utf-8")

    def read(column: str) -> Corpus:
        options = ReadOptions(columns={"caption": column})
        return Corpus.read(human=people, captions={"mine": mine}, options=options)

    told = r"read by a column 'model_txt'\. Columns read: image_id, caption"
    with pytest.raises(JudgeError, match=told):
        read("model_txt")
    with pytest.raises(JudgeError, match="captions of 'mine' are the human ones"):
        Corpus.read(human=mine, captions={"mine": mine})
    corpus = read("model_text")
    assert (corpus.human.by_image["1"], corpus.generated[0].by_image["1"]) == (("a man",), ("a dog",))

"""The output of evaluation harnesses: lmms-eval's samples and VLMEvalKit's answers.

lmms-eval, ``*_samples_<task>.jsonl``: a line per picture, ``doc_id``, ``target`` (the references, as the
*text* of a Python list), ``filtered_resps`` (a list of one caption) and one object per metric. ``doc``,
which held the file name, is dropped on writing by newer releases, and its keys that contain "image" by all;
the id survives only in the metrics: ``coco_CIDEr: {answer, pred, image_id, id}`` of the validation tasks,
``coco_passthrough: {pred: [caption], image_id}`` of the test tasks; likewise ``flickr_*`` and ``nocaps_*``.
They are preferred here, because ``pred`` is what was scored (without the reasoning between <think> tags).

VLMEvalKit, ``<model>_COCO_VAL.xlsx`` (or tsv): ``index``, ``question``, ``answer`` (the text of a Python
list), ``prediction``. Its ``image`` column (base64) is dropped on writing, so ``index``, the row number of
its own benchmark, is the only id. Both sides are in the same file and join with each other.

Where nothing but a row number is known ("index", "doc_id"), the id is "index:5" or "doc_id:5": a bare 5
would join with picture 5 of COCO, wrongly and without a word. ``columns={"image_id": "index"}`` overrides it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence

from judge.corpus.ids import canonical_id
from judge.corpus.tables import Row
from judge.errors import JudgeError
from judge.utils.reading import LISTED

# In lmms-eval's copy of COCO, question_id is the file name; its id is a row number.
_DOCUMENT_IDS = ("image_id", "img_id", "image_name", "file_name", "filename", "question_id")


def is_lmms_eval(rows: Sequence[Row]) -> bool:
    """Whether the rows are samples of lmms-eval (or of lm-evaluation-harness, its parent)."""
    return bool(rows) and "doc_id" in rows[0] and ("filtered_resps" in rows[0] or "resps" in rows[0])


def flatten(rows: Sequence[Row]) -> list[Row]:
    """lmms-eval's samples as rows of ``image_id``, ``filtered_resps`` and ``target``; absent ones stay absent."""
    return [_flatten(row) for row in rows]


def _flatten(row: Row) -> Row:
    objects = [value for value in row.values() if isinstance(value, dict)]
    metric = next((value for value in objects if {"image_id", "pred"} <= value.keys()), {})
    flat: Row = {"image_id": metric["image_id"] if metric else _document_id(row)}
    for name, sources in (
        ("filtered_resps", ((metric, "pred"), (row, "filtered_resps"), (row, "resps"))),
        ("target", ((metric, "answer"), (row, "target"))),
    ):
        found = next(((holder, key) for holder, key in sources if key in holder), None)
        if found is not None:
            flat[name] = _unwrap(found[0][found[1]])
    return flat


def _document_id(row: Row) -> object:
    """The image id out of ``doc``; else the row number, marked as such."""
    document = row.get("doc")
    if isinstance(document, dict):
        for name in _DOCUMENT_IDS:
            if name in document:
                return document[name]
    return row_number("doc_id", row.get("doc_id"))


def row_number(column: str, value: object) -> object:
    """Spell row 5 as "index:5"; a value that is no id stays as it is, to be refused with the other odd ids."""
    try:
        return f"{column.strip().lower()}:{canonical_id(value)}"
    except ValueError:
        return value


def _unwrap(value: object) -> object:
    """[["a caption"]] -> "a caption": harnesses wrap an answer once per repetition and per request."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def parse_list(text: str, *, where: str) -> list[str]:
    """The captions in the text of a JSON or Python list; a text that is no list is one caption.

    Raises:
        JudgeError: begins like a list but is none, or holds something other than texts; is longer than ``LISTED``.
    """
    if not text.lstrip().startswith("["):
        return [text]
    LISTED.refuse(len(text), where)  # Parsing it costs memory.
    value: object = None
    for parse in (json.loads, ast.literal_eval):  # neither runs anything
        try:
            value = parse(text.strip())
            break
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    if not isinstance(value, list) or not all(isinstance(caption, str) for caption in value):
        mend = "write it as a JSON list of texts"
        raise JudgeError("looks like a list of captions but is none", where=where, mend=mend)
    return value

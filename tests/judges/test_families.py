"""Families of captioners as docs/reference/captioners.md lists them: tiny models caption and judge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import transformers as tf
from families import BY_HAND, MODELS, PAGE, outcome, save

from judge.captioning.checkpoints import CheckpointWriter
from judge.captioning.writing import Writing
from judge.judges.hf_models import load_captioner

TEXT = PAGE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([\w.-]+) \| (yes|no|-) \| (yes|no|-) \| (.*?) \|$", TEXT, re.MULTILINE)
WORKING = [row for row in ROWS if row[1] == "yes"]
QUICK = {"gemma3", "internvl", "qwen3_vl", "minicpmv4_6"}


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=[] if row[0] in QUICK else pytest.mark.slow, id=row[0]) for row in WORKING]
)
def test_captions_and_answers_of_a_batch_are_those_of_single_images(row: tuple[str, ...], tmp_path: Path) -> None:
    kind, *expected, reason = row
    found = outcome(kind, tmp_path)
    assert ["yes" if of else "no" for of in found[:2]] == expected
    assert found.reason == reason


def test_the_page_lists_every_family() -> None:
    assert len(WORKING) > 20
    if f"transformers {tf.__version__} loads" in TEXT:
        assert {kind for kind, *_ in ROWS} == MODELS.keys() - BY_HAND


@pytest.mark.parametrize(("kind", "joins"), [("qwen3_vl", True), ("molmo2", False)])
def test_images_that_change_each_other_are_captioned_one_by_one(kind: str, joins: bool, tmp_path: Path) -> None:
    """Molmo2's tensors count patches from the batch's first: concatenated ones point to other images."""
    save(kind, tmp_path)
    writer = CheckpointWriter(load_captioner(str(tmp_path)), Writing(caption_batch=4))
    assert writer.most == (4 if joins else 1)

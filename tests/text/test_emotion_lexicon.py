"""The shipped lexicon of emotions: ArtEmis's classes, and sentiment words by the rule that it states."""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path
from types import ModuleType

import pytest

from judge.text.lexicon import load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize

EMOTION = load_lexicon("emotion")
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_emotion_lexicon.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_emotion_lexicon", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_classes_are_artemiss() -> None:
    named = ["amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness"]
    assert sorted(EMOTION.classes) == [*named, "something else"]
    # Each names itself, but for the one that is the rest.
    assert all(name in EMOTION.classes[name] for name in named)
    assert not EMOTION.classes["something else"]
    assert (EMOTION.name, EMOTION.token) == ("emotion", "<emotion>")


@pytest.mark.parametrize(
    ("caption", "hidden", "named"),
    [
        ("The sadness of it makes me angry", "the <emotion> of it makes me <emotion>", {"anger", "sadness"}),
        ("A wonderful, peaceful valley", "a <emotion> , <emotion> valley", set()),
        ("two boats on grey water", "two boats on grey water", set()),
        ("I am in awe and somewhat afraid", "i am in <emotion> and somewhat <emotion>", {"awe", "fear"}),
        ("this makes me feel something else", "this makes me feel something else", set()),
    ],
)
def test_what_is_hidden_and_what_is_named(caption: str, hidden: str, named: set[str]) -> None:
    words = tokenize(caption)
    assert " ".join(mask(words, EMOTION)) == hidden
    assert EMOTION.mentions(words) == named


def test_the_shipped_file_is_what_the_script_writes(script: ModuleType) -> None:
    """And its licence stands in it, whole."""
    pytest.importorskip("vaderSentiment", reason="of the extra dev: the list that the lexicon is made from")
    lines, version, licence = script.read_vader()
    shipped = (resources.files("judge.text") / "lexicons" / "emotion.yaml").read_text(encoding="utf-8")
    assert shipped == script.lexicon_text(lines, version, licence)
    assert "MIT" in shipped.splitlines()[0]
    notice = " ".join(shipped.replace("#", "").split())
    assert " ".join(licence.split()) in notice
    assert "Copyright (c) 2016 C.J. Hutto" in notice

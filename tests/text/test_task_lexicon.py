"""The lexicon "coco-objects": complete, longest names first, apart from gender, and right about real captions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize

OBJECTS, GENDER, WIDE = map(load_lexicon, ("coco-objects", "gender", "gender-wide"))
ENTRIES = sorted({entry for words in OBJECTS.classes.values() for entry in words} | OBJECTS.hidden_only)


def named(caption: str) -> frozenset[str]:
    return OBJECTS.mentions(tokenize(caption))


def test_the_80_categories(shared: Path) -> None:
    """Spelled as COCO spells them; the shared list of objects lacks one of them."""
    instances = json.loads((shared / "coco-mini" / "annotations" / "instances_val2017.json").read_text("utf-8"))
    categories = {category["name"] for category in instances["categories"]}
    assert set(OBJECTS.classes) == categories
    assert len(categories) == 80
    listed = json.loads((shared / "coco-captions" / "objects.json").read_text("utf-8"))["categories"]
    assert categories - set(listed) == {"tennis racket"}
    assert set(listed) <= categories


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a hot dog and a dog", {"hot dog", "dog"}),
        ("two hot dogs, a teddy bear, wine glasses", {"hot dog", "teddy bear", "wine glass"}),
        ("a fire hydrant by a fire truck", {"fire hydrant", "truck"}),
        ("a train car, carrot cake, a tv remote", {"train", "cake", "remote"}),
        ("a motor bike and bikes", {"motorcycle", "bicycle"}),
        ("a laptop keyboard, a computer mouse, mice", {"laptop", "keyboard", "mouse"}),
        ("a skier on skis", {"person", "skis"}),
        ("an orange cat eats oranges", {"cat", "orange"}),
        ("an orange shirt, a coffee table, a jet ski", set()),
        ("a bus stop, a train station, a book shelf", set()),
        ("knives, scissors, couches, benches, buses", {"knife", "scissors", "couch", "bench", "bus"}),
        ("a cattle catalog for carpenters", {"cow"}),  # whole words alone
    ],
)
def test_names_in_captions(caption: str, expected: set[str]) -> None:
    assert named(caption) == expected


def test_each_entry_stands_for_its_class() -> None:
    """No shorter entry inside of a longer one takes it over, and none means two classes."""
    for name in set(OBJECTS.classes) - {"orange"}:  # said of colours, it is only hidden
        assert named(f"the {name} here") == {name}
    for name, entries in OBJECTS.classes.items():
        for entry in entries:
            assert named(entry) == {name}, entry
    for entry in OBJECTS.hidden_only:
        assert named(entry) == set(), entry


@pytest.mark.parametrize("gender", [GENDER, WIDE], ids=["gender", "gender-wide"])
def test_apart_from_gender(gender: Lexicon) -> None:
    """To hide one kind of word neither hides nor uncovers the other."""
    entries = {word for words in gender.classes.values() for word in words} | gender.hidden_only
    words = {word for entry in entries for word in tokenize(entry)} - {"-"}
    assert not {word for entry in ENTRIES for word in tokenize(entry)} & words
    caption = tokenize("A young woman and her boy's dogs wait at a stop sign with two hot dogs")
    both = mask(mask(caption, gender), OBJECTS)
    assert both == mask(mask(caption, OBJECTS), gender)
    assert " ".join(both) == ("a young <gender> and <gender> <gender> <object> wait at a <object> with two <object>")
    told = mask(mask(tokenize("a policeman and a police officer"), gender), OBJECTS)
    assert " ".join(told) == ("a policeman and a <object>" if gender is GENDER else "a <gender> and a <object>")

"""Several attributes at once: labels and words of their product."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from helpers import one_line

from judge.corpus.attributes import multiply_labels
from judge.text.combined import multiply_lexicons
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.masking import mask
from judge.types import Labels

GENDER = load_lexicon("gender")
AGE = Lexicon("age", "<age>", {"young": frozenset({"young", "girl"}), "old": frozenset({"old", "old man"})})


def labels(attribute: str, by_image: Mapping[str, str], **more: object) -> Labels:
    return Labels(attribute, tuple(sorted(set(by_image.values()))), by_image, f"{attribute}.csv", **more)  # type: ignore[arg-type]


def test_images_of_which_all_attributes_are_known() -> None:
    gender = labels("gender", {"1": "female", "2": "male", "3": "male"}, ignored={"Both": 2})
    skin = labels("skin", {"2": "darker", "3": "lighter", "4": "lighter"}, derived=True, ignored={"": 1})
    found = multiply_labels([gender, skin])
    assert found.by_image == {"2": "male & darker", "3": "male & lighter"}
    assert found.classes == ("female & darker", "female & lighter", "male & darker", "male & lighter")
    assert (found.attribute, found.source, found.derived) == ("gender & skin", "gender.csv; skin.csv", True)
    assert found.ignored == {"gender Both": 2, "skin empty": 1}
    assert found.coverage == "gender of 3, skin of 3 and all of 2 images"


def test_small_classes_are_left_out_and_named() -> None:
    cells = {"female": {"d": 3, "l": 12}, "male": {"d": 0, "l": 20}}
    images = [(g, s) for g, of in cells.items() for s, number in of.items() for _ in range(number)]
    parts = [labels(name, {str(i): pair[place] for i, pair in enumerate(images)}) for place, name in enumerate("gs")]
    whole = multiply_labels(parts)
    counts = {f"{g} & {s}": number for g, of in cells.items() for s, number in of.items()}
    found = whole.without_small(counts, 10)
    assert found.classes == ("female & l", "male & l")
    assert (found.kept, found.left_out) == ({"female & l": 12, "male & l": 20}, {"female & d": 3, "male & d": 0})
    assert (len(found.by_image), len(found.small)) == (32, 3)
    cell = "female & d 3, female & l 12, male & d 0, male & l 20"
    with one_line(f"fewer than two classes of g & s have 13 images ({cell}); known: g of 35, s of 35 and all of 35"):
        whole.without_small(counts, 13)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([labels("g", {"1": "a"})], "labels of g. Give labels of two attributes or more"),
        ([labels("g", {"1": "a"})] * 2, "labels of g, g. Give"),
        ([labels("g", {"1": "a"}), labels("s", {"2": "b"})], "known: g of 1, s of 1 and all of 0 images"),
        ([labels("g", {"1": "a & b"}), labels("s", {"1": "b"})], "'a & b' holds ' & '"),
    ],
)
def test_labels_that_cannot_be_multiplied(parts: list[Labels], message: str) -> None:
    with one_line(message):
        multiply_labels(parts)


def test_words_of_all_attributes_are_hidden_and_tell_classes_of_each() -> None:
    found = multiply_lexicons({"gender": GENDER, "age": AGE})
    assert found is not None
    assert (found.name, found.token) == ("gender & age", "<gender-and-age>")
    token = found.token
    # One token for an entry of several words; "old man" is hidden whole, although "man" is too.
    assert mask(("an", "old", "man", "and", "her", "dog"), found) == ("an", token, "and", token, "dog")
    assert found.named(("an", "old", "woman"), "male & young") == {"female & old"}
    assert found.named(("a", "girl"), "male & old") == {"female & young"}
    assert found.named(("a", "woman"), "female & young") == frozenset()
    assert found.named(("a", "young", "man", "and", "woman"), "male & old") == {"female & young", "male & young"}


def test_an_attribute_without_words_has_the_class_of_its_image() -> None:
    found = multiply_lexicons({"skin": None, "gender": GENDER})
    assert found is not None
    assert (found.token, found.without_words) == ("<gender>", ["skin"])
    assert found.named(("a", "woman"), "darker & male") == {"darker & female"}
    assert found.named(("a", "person"), "darker & male") == frozenset()
    assert multiply_lexicons({"skin": None, "emotion": None}) is None

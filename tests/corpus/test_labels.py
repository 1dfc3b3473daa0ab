"""Labels from tables, from captions, and of several attributes at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import helpers
import pandas as pd
import pytest
from helpers import Write, one_line
from sklearn.metrics import cohen_kappa_score

from judge.corpus.attributes import multiply_labels
from judge.corpus.captions import read_captions
from judge.corpus.labels import LabelOptions, compare_labels, derive_labels, read_labels
from judge.text.combined import multiply_lexicons
from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.tokens import tokenize
from judge.types import Labels

FEMALE, MALE, NONE = frozenset({"female"}), frozenset({"male"}), frozenset[str]()
GENDER = load_lexicon("gender")
fault = partial(helpers.fault, read=read_labels)


def spelled(**spellings: list[str]) -> LabelOptions:
    return LabelOptions(spellings=spellings)


def test_princeton_table(write: Write) -> None:
    rows = "1,Male,Light", "2,Female,Dark", "3,Both,Unsure", "4,Unsure,Light", "5,,Both", "1,Male,Light"
    path = write("\n".join(["id,bb_gender,bb_skin", *rows]))
    labels = read_labels(path, lexicon=GENDER)
    assert labels.by_image == {"1": "male", "2": "female"}
    assert labels.classes == ("female", "male")
    assert labels.ignored == {"Both": 1, "Unsure": 1, "": 1}
    assert (labels.attribute, labels.source, labels.derived) == ("gender", str(path), False)
    skin = read_labels(path, attribute="skin")
    assert skin.by_image == {"1": "Light", "2": "Dark", "4": "Light"}
    assert (skin.classes, skin.ignored) == (("Dark", "Light"), {"Unsure": 1, "Both": 1})


def test_the_class_of_the_image_and_not_the_list_of_its_people(write: Write) -> None:
    """Princeton's table has both, "skin" and "bb_skin"; DBAC's third class is what others leave out."""
    path = write("id,skin,ratio,bb_skin,split\n1,\"['Light', 'Dark']\",0.2,Light,val\n2,['Unsure'],0.1,Unsure,val\n")
    assert read_labels(path, attribute="skin").by_image == {"1": "Light"}
    three = read_labels(path, attribute="skin", options=spelled(Unsure=["Unsure"]))
    assert (three.by_image, three.classes, three.ignored) == ({"1": "Light", "2": "Unsure"}, ("Light", "Unsure"), {})
    scale = write("image_id,skin\n1,1\n2,2\n3,4\n4,6\n5,unsure\n")
    tones = spelled(lighter=["1", "2"], medium=["3", "4"], darker=["5", "6"])
    labels = read_labels(scale, attribute="skin", options=tones)
    assert labels.by_image == {"1": "lighter", "2": "lighter", "3": "medium", "4": "darker"}
    assert labels.ignored == {"unsure": 1}


@pytest.mark.parametrize("value", ["0", 0.0])
def test_numbers_are_no_classes(write: Write, value: object) -> None:
    path = write([{"id": 1, "gender": "1"}, {"id": 2, "gender": value}])
    assert fault(path, lexicon=GENDER) == (
        "record 1, field 'gender': label is the number 1, and published tables disagree on what numbers mean. "
        "Look up what the table's numbers mean, and name the class of each: --label-value CLASS=1 "
        "(CLASS: female or male)."
    )
    assert "--label-value CLASS=1" in fault(path)
    zero = "record 2, field 'gender': label is the number 0,"
    assert fault(path, lexicon=GENDER, options=spelled(male=["1"])).startswith(zero)
    labels = read_labels(path, lexicon=GENDER, options=spelled(female=["1.0"], male=["0"]))
    assert labels.by_image == {"1": "female", "2": "male"}


def test_spellings(write: Write) -> None:
    path = write("id,gender\n1,Frau\n2,Mann\n3,both\n")
    german = spelled(female=["frau"], male=["MANN"])
    assert read_labels(path, lexicon=GENDER, options=german).ignored == {"both": 1}
    # What the user says wins over what is commonly ignored.
    labels = read_labels(path, options=spelled(mixed=["Both"]))
    assert labels.by_image == {"1": "Frau", "2": "Mann", "3": "mixed"}
    assert labels.classes == ("Frau", "Mann", "mixed")
    known = "Known classes: female, male; correct it, or name its class: --label-value CLASS=Frau, or drop it: "
    known += "--label-drop Frau."
    assert fault(path, lexicon=GENDER) == f"record 1, field 'gender': unknown label 'Frau'. {known}"
    assert fault(path, lexicon=GENDER, options=spelled(man=["Mann"])).startswith("'man' is no class of gender.")
    message = "'x' is given as a spelling of 'male' and of 'female'. Keep one of the two."
    assert fault(path, lexicon=GENDER, options=spelled(male=["x"], female=["x"])) == message


NO_CLASS = ["Neutral", "?", "cannot tell", "Can’t tell", "N/A", "n.a.", " Unknown", "not-sure", "-", "<unk>", "BOTH"]


def test_values_that_mean_no_class(write: Write) -> None:
    rows = [{"id": number, "gender": value} for number, value in enumerate([*NO_CLASS, "f", "m"])]
    for lexicon in (GENDER, None):
        labels = read_labels(write(rows), lexicon=lexicon)
        assert labels.by_image.keys() == {str(len(NO_CLASS)), str(len(NO_CLASS) + 1)}
        assert labels.ignored == dict.fromkeys(map(str.strip, NO_CLASS), 1)
    # Words of a lexicon, and what the user says, come first. "Other" is a class of race.
    emotion = read_labels(write("id,emotion\n1,other\n2,awe\n"), attribute="emotion", lexicon=load_lexicon("emotion"))
    assert emotion.by_image == {"1": "something else", "2": "awe"}
    assert read_labels(write("id,race\n1,Other\n2,Neutral\n"), attribute="race").classes == ("Other",)
    race = write("id,race\n1,Other\n2,Neutral\n")
    assert read_labels(race, attribute="race", options=spelled(Neutral=["neutral"])).classes == ("Neutral", "Other")


def test_values_that_the_user_drops(write: Write) -> None:
    path = write("id,race\n1,White\n2,Black\n3,ASIAN\n4,Black\n5,?\n")
    drop = partial(read_labels, path, attribute="race")
    found = drop(options=LabelOptions(drop=("asian",)))
    assert (found.by_image, found.ignored) == ({"1": "White", "2": "Black", "4": "Black"}, {"ASIAN": 1, "?": 1})
    # Of all classes that are named no other one is left.
    assert drop(options=LabelOptions(spellings={"White": ["White"], "Black": ["Black"]})) == found
    wrong = fault(path, attribute="race", options=LabelOptions(drop=("Asain",)))
    assert wrong == "no label 'Asain', which is given as a value to drop. Labels there: ?, asian, black, white."
    both = fault(path, attribute="race", options=LabelOptions(drop=("white",), spellings={"pale": ["White"]}))
    assert both == "'White' is given as a spelling of 'no class' and of 'pale'. Keep one of the two."


def test_labels_in_memory(write: Write) -> None:
    """As from a file, ids included; a series may hold an image twice."""
    frame = pd.DataFrame({"image_id": [42, "000000000043.jpg", 44.0], "gender": ["F", "m", None]})
    rows = frame.to_dict("records")
    given: list[Any] = [{42: "F", "43": "m", "44.jpg": ""}, rows, frame, frame.set_index("image_id")]
    for table in [*given, frame.set_index("image_id")["gender"]]:
        labels = read_labels(table, lexicon=GENDER)
        assert (labels.by_image, labels.ignored) == ({"42": "female", "43": "male"}, {"": 1})
    votes = pd.Series(["f", "f", "m"], index=[1, 1, "0001"])
    assert read_labels(votes, lexicon=GENDER, options=LabelOptions("majority")).by_image == {"1": "female"}


@pytest.mark.parametrize(("votes", "label", "counts"), [
    # Values that mean no class are candidates like any other: two of them are not one.
    ("male,male,unsure,both", "male", {"decided": 1}),
    ("M,man,Unsure,both", "male", {"decided": 1}),
    ("male,unsure,Unsure,both", None, {}),
    ("male,unsure,both", None, {"ties": 1}),
    ("male,male,unsure,unsure", None, {"ties": 1}),
    ("male,female,male,unsure,unsure", None, {"ties": 1}),
    ("male,male,Male", "male", {"unanimous": 1}),
])  # fmt: skip
def test_votes(votes: str, label: str | None, counts: dict[str, int]) -> None:
    table = pd.DataFrame({"image_id": 1, "gender": votes.split(",")})
    table = pd.concat([table, pd.DataFrame({"image_id": [2], "gender": ["female"]})])
    found = read_labels(table, lexicon=GENDER, options=LabelOptions("majority"))
    assert found.by_image.get("1") == label
    counts = {"unanimous": 0, "decided": 0, "ties": 0} | counts
    assert found.votes == counts | {"labels": len(table), "unanimous": counts["unanimous"] + 1}
    assert found.ignored == ({"unsure": 1} if label is None and not counts["ties"] else {})
    assert "image id is null" in helpers.fault_of(read_labels, {None: "f"}, lexicon=GENDER)
    assert "is a number, not a table" in helpers.fault_of(read_labels, 5, lexicon=GENDER)


SHAPE = "JSON of the wrong shape (an object). Give a table, a list of records or {image: label}."
KEEP = "Keep one of the two, or have them vote with --label-rule majority."
NAME = "Check the column, or name the classes: --label-value CLASS=VALUE."
MEND = "Give the record a number or a file name."


@pytest.mark.parametrize(("content", "expected"), [
    ("id,gender\n7,m\n007.jpg,f\n", f"record 2: image '7' is 'female' here and 'male' in record 1. {KEEP}"),
    ("id,gender\n7,?\n7,\n5,f\n7,f\n", f"record 4: image '7' is 'female' here and '?' in record 1. {KEEP}"),
    ("id,gender\n,m\n", f"record 1: image id is empty. {MEND}"),
    ("id,gender\n1,Both\n2,\n3,Both\n", f"no image has a label of gender ('Both' 2x, '' 1x). {NAME}"),
    ({"1": {"gender": "m"}}, SHAPE),
])  # fmt: skip
def test_bad_tables(write: Write, content: object, expected: str) -> None:
    assert fault(write(content), lexicon=GENDER) == expected


def test_rule() -> None:
    mentions = {"some": [NONE, MALE, NONE], "all": [FEMALE, FEMALE], "none": [NONE, NONE], "no captions": []}
    mentions |= {"disagree": [MALE, FEMALE], "one names both": [FEMALE | MALE, MALE]}
    labels = derive_labels(mentions, attribute="gender", classes=["male", "female"])
    assert labels.by_image == {"some": "male", "all": "female"}
    assert (labels.classes, labels.derived) == (("female", "male"), True)
    assert labels.ignored == {"no class named": 2, "several classes named": 2}
    two = derive_labels(mentions, attribute="gender", classes=["male", "female"], least=2)
    assert (two.by_image, two.ignored["a class named by fewer than 2 captions"]) == ({"all": "female"}, 1)


@pytest.mark.parametrize("wrong", [0, 1, 6, 60])
def test_labels_beside_what_captions_name(wrong: int) -> None:
    """A fifth of the images names no class or both; kappa is that of scikit-learn."""
    named = [MALE, FEMALE, MALE, NONE, MALE | FEMALE] * 60
    mentions = {str(image): [of, NONE] for image, of in enumerate(named)}
    one = {image: next(iter(of[0])) for image, of in mentions.items() if len(of[0]) == 1}
    given = {image: "male" if rank < wrong else label for rank, (image, label) in enumerate(sorted(one.items()))}
    labels = compare_labels(Labels("gender", ("female", "male"), given, "x.csv"), mentions)
    same = sum(given[image] == one[image] for image in one) / len(one)
    assert labels.agreement is not None
    expected = {"images": 180, "agree": same, "kappa": cohen_kappa_score(list(given.values()), [one[i] for i in given])}
    assert labels.agreement == pytest.approx(expected | {"repeats": same})
    assert labels.derived is (wrong < 2) is (same > 0.99)  # 0.983 for 6.
    # Annotators also know the class of images whose captions name none.
    known = Labels("gender", ("female", "male"), given | dict.fromkeys(mentions.keys() - one, "male"), "x.csv")
    assert not compare_labels(known, mentions).derived


def test_shared_gender_table_is_reproduced(shared: Path) -> None:
    folder = shared / "coco-captions"
    table = read_labels(folder / "gender.csv", lexicon=GENDER)
    assert Counter(table.by_image.values()) == {"male": 2566, "female": 1031}
    human = read_captions(folder / "captions_human.json", side="human")
    # Workers of COCO wrote "I am unable to see an image above" where a picture did not load.
    assert (human.total, human.refused, human.empty, len(human.by_image)) == (51_519 - 24, 24, 0, 10_301)
    said = {image: [tokenize(text, contractions="whole") for text in texts] for image, texts in human.by_image.items()}
    mentions = {image: list(map(GENDER.mentions, texts)) for image, texts in said.items()}
    derived = derive_labels(mentions, attribute="gender", classes=GENDER.classes)
    assert derived.by_image == table.by_image
    assert derived.ignored == {"no class named": 6219, "several classes named": 485}


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
    images = {"1": ("f", "d"), "2": ("f", "l"), "3": ("f", "l"), "4": ("m", "l"), "5": ("m", "l")}
    whole = multiply_labels(
        [labels(name, {i: pair[place] for i, pair in images.items()}) for place, name in enumerate("gs")]
    )
    counts = {"f & d": 1, "f & l": 2, "m & d": 0, "m & l": 2}
    assert whole.without_small(counts, 2).small == {"1"}
    cell = "f & d 1, f & l 2, m & d 0, m & l 2"
    with one_line(f"fewer than two classes of g & s have 3 images ({cell}); known: g of 5, s of 5 and all of 5"):
        whole.without_small(counts, 3)


@pytest.mark.parametrize(("parts", "message"), [
    ([labels("g", {"1": "a"})], "labels of g. Give labels of two attributes or more"),
    ([labels("g", {"1": "a & b"}), labels("s", {"1": "b"})], "'a & b' holds ' & '"),
])  # fmt: skip
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

"""Labels from tables, and labels derived from captions."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.corpus.labels import derive_labels, read_labels
from judge.corpus.reading import read_captions
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.tokens import tokenize

Write = Callable[..., Path]
Fault = Callable[..., str]
FEMALE, MALE, BOTH, NONE = frozenset({"female"}), frozenset({"male"}), frozenset({"female", "male"}), frozenset[str]()


@pytest.fixture(scope="module")
def gender() -> Lexicon:
    return load_lexicon("gender")


@pytest.fixture
def fault(fault: Fault) -> Fault:
    return partial(fault, read=read_labels)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_princeton_table(write: Write, gender: Lexicon) -> None:
    path = write(
        "id,bb_gender,bb_skin\n1,Male,Light\n2,Female,Dark\n3,Both,Unsure\n4,Unsure,Light\n5,,Both\n1,Male,Light\n"
    )
    labels = read_labels(path, lexicon=gender)
    assert labels.by_image == {"1": "male", "2": "female"}
    assert labels.classes == ("female", "male")
    assert labels.ignored == {"Both": 1, "Unsure": 1, "": 1}
    assert (labels.attribute, labels.source, labels.derived) == ("gender", str(path), False)
    skin = read_labels(path, attribute="skin")
    assert skin.by_image == {"1": "Light", "2": "Dark", "4": "Light"}
    assert (skin.classes, skin.ignored) == (("Dark", "Light"), {"Unsure": 1, "Both": 1})


ROWS = [("COCO_val2014_000000000001.jpg", "Woman"), ("2.jpg", " MAN "), (3, "f")]


def _parquet() -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame({"image_id": [1, 2, 3], "gender": pd.Categorical(["Woman", "MAN", "f"])}).to_parquet(buffer)
    return buffer.getvalue()


def _xlsx() -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame(ROWS, columns=["file_name", "gender"]).to_excel(buffer, index=False)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        "image,gender\n" + "".join(f"{image},{label}\n" for image, label in ROWS),
        "gender\timage\n" + "".join(f"{label}\t{image}\n" for image, label in ROWS),
        [{"image_id": image, "label": label} for image, label in ROWS],
        {str(image): label for image, label in ROWS},
        "\n".join(json.dumps({"img_id": image, "perceived_gender": label}) for image, label in ROWS),
        _parquet(),
        _xlsx(),
    ],
    ids=["csv", "tsv", "json", "mapping", "json lines", "parquet", "xlsx"],
)
def test_every_format_and_spelling(write: Write, gender: Lexicon, content: object) -> None:
    labels = read_labels(write(content), lexicon=gender)
    assert labels.by_image == {"1": "female", "2": "male", "3": "female"}


def test_chosen_columns(write: Write, gender: Lexicon, fault: Fault) -> None:
    path = write("photo,who,note\na.jpg,F,x\n")
    assert read_labels(path, lexicon=gender, id_column="photo", label_column="who").by_image == {"a": "female"}
    message = "no column of image ids among 'photo', 'who', 'note'. Name it with --id-column=NAME."
    assert fault(path, lexicon=gender) == message
    message = "no column of gender labels among 'photo', 'who', 'note'. Name it with --label-column=NAME."
    assert fault(path, lexicon=gender, id_column="photo") == message
    assert fault(path, id_column="photo", label_column="whom").startswith("no column 'whom'. Did you mean 'who'?")
    assert fault(write("id,label,class\n1,m,m\n")) == (
        "columns 'label' and 'class' may both hold the gender labels (columns: 'id', 'label', 'class'). "
        "Choose one with --label-column=NAME."
    )


@pytest.mark.parametrize("value", ["0", 0, "0.0", 0.0])
def test_numbers_are_no_classes(write: Write, gender: Lexicon, value: object, fault: Fault) -> None:
    path = write([{"id": 1, "gender": "1"}, {"id": 2, "gender": value}])
    message = (
        "record 1: label is the number 1, and published tables disagree on what numbers mean. "
        "Say which class it is, as in --label-value male=1."
    )
    assert fault(path, lexicon=gender) == message
    assert "--label-value NAME=1" in fault(path)
    assert fault(path, lexicon=gender, spellings={"male": ["1"]}).startswith("record 2: label is the number 0,")
    expected = {"1": "female", "2": "male"}
    for lexicon in (gender, None):
        labels = read_labels(path, lexicon=lexicon, spellings={"female": ["1.0"], "male": ["0"]})
        assert labels.by_image == expected


def test_spellings(write: Write, gender: Lexicon, fault: Fault) -> None:
    path = write("id,gender\n1,Frau\n2,Mann\n3,both\n")
    assert read_labels(path, lexicon=gender, spellings={"female": ["frau"], "male": ["MANN"]}).ignored == {"both": 1}
    # What the user says wins over what is commonly ignored.
    labels = read_labels(path, spellings={"mixed": ["Both"]})
    assert labels.by_image == {"1": "Frau", "2": "Mann", "3": "mixed"}
    assert labels.classes == ("Frau", "Mann", "mixed")
    message = (
        "record 1: unknown label 'Frau'. "
        "Known classes: female, male; tell what it means with --label-value female=Frau."
    )
    assert fault(path, lexicon=gender) == message
    assert fault(path, lexicon=gender, spellings={"man": ["Mann"]}).startswith("'man' is no class of gender.")
    message = "'x' is given as a spelling of 'male' and of 'female'. Keep one of the two."
    assert fault(path, lexicon=gender, spellings={"male": ["x"], "female": ["x"]}) == message


def test_values_differ_in_case_only(write: Write) -> None:
    labels = read_labels(write("id,emotion\n1,Awe\n2,awe\n3,FEAR\n"), attribute="emotion")
    assert labels.by_image == {"1": "Awe", "2": "Awe", "3": "FEAR"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "id,gender\n7,m\n007.jpg,f\n",
            "record 2: image '7' is 'female' here and 'male' in record 1. Keep one of the two.",
        ),
        ("id,gender\n,m\n", "record 1: image id is empty. Give the record a number or a file name."),
        (
            [{"id": 1, "gender": "m"}, {"gender": "f"}],
            "record 2: image id is missing. Give the record a number or a file name.",
        ),
        ([{"id": 1, "gender": True}], "record 1: label is true. Write the name of the class."),
        ([{"id": 1, "gender": ["m"]}], "record 1: label is a list. Write the name of the class."),
        ("id,gender\n1,Both\n2,\n3,Both\n", "no image has a label of gender ('Both' 2x, '' 1x). Check the column."),
        ("{}", "JSON of the wrong shape (an object). Give a table, a list of records or {image: label}."),
        (
            {"1": {"gender": "m"}},
            "JSON of the wrong shape (an object). Give a table, a list of records or {image: label}.",
        ),
        ({" ": "m"}, "record 1 (' '): image id is empty. Give the record a number or a file name."),
    ],
)
def test_bad_tables(write: Write, gender: Lexicon, content: object, expected: str, fault: Fault) -> None:
    assert fault(write(content), lexicon=gender) == expected


def test_null_is_ignored(write: Write, gender: Lexicon) -> None:
    path = write('[{"id": 1, "gender": null}, {"id": 2, "gender": NaN}, {"id": 3}, {"id": 4, "gender": "w"}]')
    labels = read_labels(path, lexicon=gender)
    assert (labels.by_image, labels.ignored) == ({"4": "female"}, {"": 3})


# --- derived ---------------------------------------------------------------------------------------------------------


def test_rule() -> None:
    mentions = {
        "some": [NONE, MALE, NONE],
        "all": [FEMALE, FEMALE],
        "none": [NONE, NONE],
        "disagree": [MALE, FEMALE],
        "one names both": [BOTH, MALE],
        "no captions": [],
    }
    labels = derive_labels(mentions, attribute="gender", classes=["male", "female"])
    assert labels.by_image == {"some": "male", "all": "female"}
    assert labels.classes == ("female", "male")
    assert labels.ignored == {"no class named": 2, "several classes named": 2}
    assert labels.derived
    assert labels.source == (
        "derived: an image has class k of gender when at least one of its human captions mentions a word of k "
        "and none mentions a word of another class"
    )


CLASSES = ("a", "b", "c")


@given(
    st.dictionaries(st.text(min_size=1), st.lists(st.frozensets(st.sampled_from(CLASSES)), max_size=4)), st.randoms()
)
def test_order_and_repetition_of_captions_change_nothing(mentions, random) -> None:
    labels = derive_labels(mentions, attribute="x", classes=CLASSES)
    assert len(labels.by_image) + sum(labels.ignored.values()) == len(mentions)
    for image, label in labels.by_image.items():
        assert {name for caption in mentions[image] for name in caption} == {label}
    shuffled = {image: random.sample(captions, len(captions)) + captions[:1] for image, captions in mentions.items()}
    assert derive_labels(shuffled, attribute="x", classes=CLASSES) == labels


def test_shared_gender_table_is_reproduced(shared: Path, gender: Lexicon) -> None:
    folder = shared / "coco-captions"
    table = read_labels(folder / "gender.csv", lexicon=gender)
    assert Counter(table.by_image.values()) == {"male": 2566, "female": 1031}
    human = read_captions(folder / "captions_human.json", side="human")
    mentions = {
        image: [gender.mentions(tokenize(caption, contractions="whole")) for caption in captions]
        for image, captions in human.by_image.items()
    }
    derived = derive_labels(mentions, attribute="gender", classes=gender.classes)
    assert derived.by_image == table.by_image
    assert derived.ignored == {"no class named": 6219, "several classes named": 485}

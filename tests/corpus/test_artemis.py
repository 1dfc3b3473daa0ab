"""ArtEmis as it was released: both versions, neural speakers' captions, labels that vote."""

from __future__ import annotations

import io
import unicodedata
from functools import partial

import pandas as pd
import pytest
from helpers import Write, fault_of, table_bytes

from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.labels import LabelOptions, choose_own, read_labels
from judge.text.lexicon import load_lexicon

EMOTION = load_lexicon("emotion")
MAJORITY = LabelOptions("majority")
read_emotions = partial(read_labels, attribute="emotion", lexicon=EMOTION, options=MAJORITY)

# As released: a quoted utterance, a title of letters beyond ASCII; a tie, and one of each way to agree.
V1 = """art_style,painting,emotion,utterance,repetition
Impressionism,claude-monet_haystacks,contentment,"The warm light, and the hay.",4
Impressionism,claude-monet_haystacks,awe,Fields without end.,4
Impressionism,claude-monet_haystacks,contentment,I could sleep in this hay.,4
Impressionism,claude-monet_haystacks,something else,Why two of them?,4
Realism,ilya-repin_self-portrait,sadness,His eyes are tired.,2
Realism,ilya-repin_self-portrait,fear,He looks through me.,2
Cubism,juan-gris_bottle-caf\u00e9,something else,I do not see a bottle.,1
"""
HAY, SELF, BOTTLE = (
    "Impressionism/claude-monet_haystacks", "Realism/ilya-repin_self-portrait", "Cubism/juan-gris_bottle-caf\u00e9"
)  # fmt: skip


def test_v1_utterances_and_the_vote_on_their_emotions(write: Write) -> None:
    path = write(V1)
    human = read_captions(path, side="human")
    assert human.by_image[HAY][0] == "The warm light, and the hay."
    assert [len(captions) for captions in human.by_image.values()] == [4, 2, 1]
    labels = read_emotions(path)
    assert labels.by_image == {HAY: "contentment", BOTTLE: "something else"}
    assert labels.votes == {"labels": 7, "unanimous": 1, "decided": 1, "ties": 1}
    assert (labels.rule, len(labels.classes), labels.ignored) == ("majority", 9, {})
    # Without a lexicon the classes are those that somebody feels.
    plain = read_labels(path, attribute="emotion", options=MAJORITY)
    assert plain.by_image == labels.by_image
    assert plain.classes == ("awe", "contentment", "fear", "sadness", "something else")


def test_what_preprocessing_makes(write: Write) -> None:
    """``test_40.csv`` and its like: a path on somebody's machine, splits, codes of emotions."""
    table = pd.read_csv(io.StringIO(V1)).assign(split=["train"] * 4 + ["test"] * 2 + ["rest"])
    table["image_file"] = "/data/wikiart/" + table["art_style"] + "/" + table["painting"] + ".jpg"
    table = table.assign(grounding_emotion=table["emotion"], utterance_spelled="x", emotion_label=3, tokens="['x']")
    path = write(table.to_csv(index=False))
    assert read_captions(path, ReadOptions(split="test"), side="human").by_image.keys() == {SELF}
    assert read_captions(path, side="human").by_image[BOTTLE] == ("I do not see a bottle.",)
    assert read_emotions(path).by_image == {HAY: "contentment", BOTTLE: "something else"}


@pytest.mark.parametrize("kind", ["tsv", "parquet"])
def test_speakers_of_wikiart_and_of_a_table_of_files(write: Write, kind: str) -> None:
    names = [part.split("/") for part in (HAY, unicodedata.normalize("NFD", BOTTLE))]
    spoken = pd.DataFrame(names, columns=["art_style", "painting"])
    spoken = spoken.assign(grounding_emotion=["awe", None], caption=["a field", "a table"])
    files = pd.DataFrame({"image_file": [f"/home/me/wiki/{'/'.join(name)}.jpg" for name in names]})
    files = files.assign(grounding_emotion="awe", caption=["a field", "a table"])
    for table in (spoken, files):
        found = read_captions(write(table_bytes(table, kind)), side="generated", name="sat")
        assert found.by_image == {HAY: ("a field",), BOTTLE: ("a table",)}
    # Another tool's image_file is an id as it stands.
    other = files.drop(columns="grounding_emotion")
    assert "/home/me/wiki/" + HAY in read_captions(write(other.to_csv(index=False)), side="generated").by_image


def test_choosing_records_by_what_is_not_there(write: Write) -> None:
    table = pd.read_csv(io.StringIO(V1)).assign(version=["new"] + ["old"] * 6)
    choose = partial(read_captions, write(table.to_csv(index=False)), side="human")
    faults = {"version": "no record where version is 'newer'. Values in the file: new, old."}
    faults |= {"versoin": "no column 'versoin' for --where. Did you mean 'version'?"}
    assert all(line in fault_of(choose, ReadOptions(where={name: "newer"})) for name, line in faults.items())
    # Two conditions hold together.
    both = ReadOptions(where={"version": "old", "emotion": "awe"})
    assert choose(both).by_image == {HAY: ("Fields without end.",)}


def test_captions_whose_own_label_is_their_images(write: Write) -> None:
    path = write(V1)
    labels = read_emotions(path)
    kept, said = choose_own(path, labels, lexicon=EMOTION)
    assert kept == {"record 1", "record 3", "record 7"}
    assert (said.votes["own captions"], said.votes["other captions"]) == (3, 2)
    human = read_captions(path, ReadOptions(chosen_human=kept), side="human")
    assert human.by_image[HAY] == ("The warm light, and the hay.", "I could sleep in this hay.")
    # Of a speaker nothing is chosen.
    assert read_captions(path, ReadOptions(chosen_human=kept, several=True), side="generated").total == 7
    other = write("id,emotion,utterance\n5,awe,x\n")
    assert "no caption has the emotion of its image" in fault_of(choose_own, other, labels, lexicon=EMOTION)

"""ArtEmis as it was released: both versions, neural speakers' captions, labels that vote."""

from __future__ import annotations

import io
import pickle
import re
import unicodedata
from collections import Counter
from functools import partial
from pathlib import Path

import helpers
import numpy as np
import pandas as pd
import pytest
from helpers import Write, fault_of, table_bytes
from mutations import outcome

from judge.corpus import Corpus
from judge.corpus.captions import ReadOptions, read_captions
from judge.corpus.labels import LabelOptions, choose_own, read_labels
from judge.text.lexicon import load_lexicon

EMOTION = load_lexicon("emotion")
MAJORITY = LabelOptions("majority")
read_emotions = partial(read_labels, attribute="emotion", lexicon=EMOTION, options=MAJORITY)
SPELL = "--label-value CLASS=VALUE."
fault = partial(helpers.fault, read=read_emotions)

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
V2 = """emotion,utterance,art_style,painting,anchor_art_style,anchor_painting,repetition
fear,The hay burns.,Impressionism,alfred-sisley_evening,Impressionism,claude-monet_haystacks,1
anger,No peace here.,Realism,ilya-repin_self-portrait,Impressionism,claude-monet_haystacks,1
"""
HAY, SELF, BOTTLE = (
    "Impressionism/claude-monet_haystacks", "Realism/ilya-repin_self-portrait", "Cubism/juan-gris_bottle-caf\u00e9"
)  # fmt: skip


def combined() -> str:
    """Both versions as v2's own script joins them: a missing anchor is a number to pandas, then a text."""
    old, new = (pd.read_csv(io.StringIO(text)) for text in (V1, V2))
    both = pd.concat([new.assign(version="new"), old.assign(version="old")], axis=0)
    for column in ("painting", "anchor_painting"):
        both[column] = both[column].map(lambda name: unicodedata.normalize("NFD", str(name)))
    return both.to_csv(index=False)


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


def test_labels_that_differ_are_refused_unless_they_vote(write: Write) -> None:
    assert fault(write(V1), options=LabelOptions()) == (
        f"record 2: image '{HAY}' is 'awe' here and 'contentment' in record 1. "
        "Keep one of the two, or have them vote with --label-rule majority."
    )
    tie = "id,emotion\n1,awe\n1,fear\n2,\n"
    assert (
        fault(write(tie)) == f"no image has a label of emotion ('' 1x). Check the column, or name the classes: {SPELL}"
    )
    assert fault(write("id,emotion\n1,awe\n1,fear\n")).startswith("no image has a label of emotion (1 ties).")


def test_a_vote_for_no_class_counts(write: Write) -> None:
    """Image by image: two of five for each, one alone, a tie, one of three for a class, two of three for it."""
    votes = {1: "MFMUU", 2: "F", 3: "MF", 4: "UUF", 5: "FUF", 6: "U?U", 7: "U?FFF"}
    values = {"M": "Male", "F": "Female", "U": "Unsure", "?": "can't tell"}
    rows = [f"{image},{values[vote]}" for image, of in votes.items() for vote in of]
    path = write("\n".join(["id,bb_gender", *rows]))
    found = read_labels(path, lexicon=load_lexicon("gender"), options=MAJORITY)
    assert found.by_image == {"2": "female", "5": "female", "7": "female"}
    assert found.ignored == {"Unsure": 2}
    assert found.votes == {"labels": len(rows), "unanimous": 1, "decided": 2, "ties": 2}
    assert fault(path, attribute="gender", lexicon=load_lexicon("gender"), options=LabelOptions()).startswith(
        "record 2: image '1' is 'female' here and 'male' in record 1."
    )
    path = write("id,bb_gender\n4,Unsure\n4,\n5,f\n4,Female\n")
    assert fault(path, attribute="gender", lexicon=load_lexicon("gender"), options=LabelOptions()) == (
        "record 4: image '4' is 'female' here and 'Unsure' in record 1. "
        "Keep one of the two, or have them vote with --label-rule majority."
    )


def test_what_preprocessing_makes(write: Write) -> None:
    """``test_40.csv`` and its like: a path on somebody's machine, splits, codes of emotions."""
    table = pd.read_csv(io.StringIO(V1)).assign(split=["train"] * 4 + ["test"] * 2 + ["rest"])
    table["image_file"] = "/data/wikiart/" + table["art_style"] + "/" + table["painting"] + ".jpg"
    table = table.assign(grounding_emotion=table["emotion"], utterance_spelled="x", emotion_label=3, tokens="['x']")
    path = write(table.to_csv(index=False))
    assert read_captions(path, ReadOptions(split="test"), side="human").by_image.keys() == {SELF}
    assert read_captions(path, side="human").by_image[BOTTLE] == ("I do not see a bottle.",)
    assert read_emotions(path).by_image == {HAY: "contentment", BOTTLE: "something else"}


@pytest.mark.parametrize("kind", ["tsv", "parquet", "xlsx"])
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


def test_a_speakers_pickle_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """As their code writes it: a number, then [[settings, table, attention]], by protocol 2."""
    path = tmp_path / "sat.pkl"
    table = pd.DataFrame({"art_style": ["Realism"], "painting": ["x"], "caption": ["a man"]})
    sampled = [[{"beam_size": 5}, table, np.zeros(2)]]
    path.write_bytes(pickle.dumps(1, protocol=2) + pickle.dumps(sampled, protocol=2))
    said = helpers.fault(path)
    assert said.startswith("pickle holds the class 'pandas")
    assert "table.to_csv('captions.csv', index=False)" in said
    # Of plain values it is read.
    plain = [{"image_id": "a", "caption": "x"}]
    path.write_bytes(pickle.dumps(1, protocol=2) + pickle.dumps(plain, protocol=2))
    assert read_captions(path, side="generated").by_image == {"a": ("x",)}


def test_both_versions_and_the_contrastive_part_alone(write: Write) -> None:
    path = write(combined(), "combined.csv")
    assert read_captions(path, side="human").total == 9
    assert read_emotions(path).votes["labels"] == 9
    new = {"version": "new"}
    human = read_captions(path, ReadOptions(where=new), side="human")
    alone = read_captions(write(V2, "Contrastive.csv"), side="human")
    assert human.by_image == alone.by_image
    labels = read_emotions(path, options=LabelOptions("majority", new))
    assert labels.by_image == {"Impressionism/alfred-sisley_evening": "fear", SELF: "anger"}
    # A speaker's table has no versions, and is taken whole.
    spoken = write(f"art_style,painting,caption\n{SELF.replace('/', ',')},a man\n", "sat.csv")
    assert read_captions(spoken, ReadOptions(where=new), side="generated").total == 1


def test_choosing_records_by_what_is_not_there(write: Write) -> None:
    choose = partial(read_captions, write(combined()), side="human")
    assert "no record where version is 'newer'. Values in the file: new, old." in fault_of(
        choose, ReadOptions(where={"version": "newer"})
    )
    assert "no column 'versoin' for --where. Did you mean 'version'?" in fault_of(
        choose, ReadOptions(where={"versoin": "new"})
    )
    coco = write({"annotations": [{"image_id": 1, "caption": "x"}]}, "coco.json")
    said = fault_of(read_captions, coco, ReadOptions(where={"a": "b"}), side="human")
    assert said.endswith(
        "is no table, so it has no column 'a' for --where a=b. Give these captions as a table with that column, "
        "or no --where."
    )
    # Two conditions hold together.
    both = ReadOptions(where={"version": "old", "emotion": "awe"})
    assert choose(both).by_image == {HAY: ("Fields without end.",)}


def test_captions_whose_own_label_is_their_images(write: Write) -> None:
    path = write(V1)
    labels = read_emotions(path)
    kept, said = choose_own(path, labels, lexicon=EMOTION)
    assert kept == {"record 1", "record 3", "record 7"}
    assert (said.votes["own captions"], said.votes["other captions"]) == (3, 2)
    human = read_captions(path, ReadOptions(of_people=kept), side="human")
    assert human.by_image[HAY] == ("The warm light, and the hay.", "I could sleep in this hay.")
    # Of a speaker nothing is chosen.
    assert read_captions(path, ReadOptions(of_people=kept, several=True), side="generated").total == 7
    other = write("id,emotion,utterance\n5,awe,x\n")
    assert "no caption has the emotion of its image" in fault_of(choose_own, other, labels, lexicon=EMOTION)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (",awe,", ",aww,", "record 2, field 'emotion': unknown label 'aww'."),
        (",fear,", ",6,", "record 6, field 'emotion': label is the number 6,"),
        ("Realism,ilya-repin_self-portrait,sadness", "Realism,,sadness", "record 5: image id is empty."),
        ("Cubism,juan", ",juan", "record 7: image id is empty."),
        (",repetition", "", "record 1: row of 5 under a header of 4."),
        ('"The warm', "The warm", "record 1: row of 6 under a header of 5."),
        ("emotion,", "feeling,", "no column of emotion labels among 'art_style', 'painting', 'feeling'"),
        ("painting,", "paintings,", "no column of image ids among"),
    ],
)
def test_malformed_releases(write: Write, old: str, new: str, expected: str) -> None:
    text = V1.replace(old, new, 1)
    assert text != V1
    said = fault(write(text))
    assert said.startswith(expected)


def test_a_thousand_mutated_releases_are_read_or_refused_in_one_line(write: Write) -> None:
    """Cells exchanged, emptied and doubled, bytes changed, lines cut: the line names the record, or what all lack.

    That it is the right record is for ``test_records.py``.
    """
    rng = np.random.default_rng(0)
    sources = [V1, V2, combined(), "art_style,painting,grounding_emotion,caption\nRealism,x,awe,a man\n"]
    told: Counter[str] = Counter()
    for trial in range(1000):
        data = mutate(sources[trial % len(sources)].encode(), rng)
        path = write(data)
        for read in READS:
            naming = rf"^{re.escape(str(path))}\b.*(?:record \d|line \d|{OF_THE_FILE})"
            told[outcome(partial(read, path), f"{trial}: {data!r}", naming=naming)] += 1
    assert min(told.values()) > 300


OF_THE_FILE = "no column |occurs twice|holds no records|file is empty|no caption is left|no image has"
READS = (
    partial(read_captions, side="human"),
    partial(read_captions, options=ReadOptions(where={"version": "new"}, several=True), side="generated"),
    read_emotions,
    lambda path: choose_own(path, read_emotions(path), lexicon=EMOTION),
)


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three faults: in bytes, in cells, in lines."""
    for _ in range(rng.integers(1, 4)):
        kind, place = rng.integers(5), int(rng.integers(len(data) or 1))
        lines = data.split(b"\n")
        cells = lines[line := int(rng.integers(len(lines)))].split(b",")
        cell = int(rng.integers(len(cells)))
        odd = (b"", b'"', b"nan", b"\xff", b"\0", "\u2028".encode(), b"7" * 400, b"awe", b"=1+1", b",", b"\r", b"{")
        if kind == 0:
            data = data[:place] + bytes([rng.integers(256)]) + data[place + 1 :]
        elif kind == 1:
            data = data[:place]
        else:
            cells[cell : cell + 1] = [odd[rng.integers(len(odd))]] if kind < 4 else [cells[cell]] * 2
            lines[line] = b",".join(cells)
            data = b"\n".join(lines)
    return data


def test_sides_join(write: Write) -> None:
    """Human utterances, labels and a speaker's captions mean the same paintings."""
    path = write(combined(), "combined.csv")
    spoken = write(f"art_style,painting,grounding_emotion,caption\n{BOTTLE.replace('/', ',')},,a table\n", "sat.csv")
    corpus = Corpus.read(human=path, captions={"sat": spoken}, labels=read_emotions(path))
    shared = corpus.human.by_image.keys() & corpus.generated[0].by_image.keys()
    assert shared == {BOTTLE}
    assert corpus.labels is not None
    assert corpus.labels.by_image[BOTTLE] == "something else"

"""Captions and labels in memory give the numbers of the same captions and labels in files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from helpers import fault_of, known

from judge import Corpus, JudgeError, Result, evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.commands.evaluate import RunConfig
from judge.config import make_config
from judge.corpus.captions import ReadOptions
from judge.corpus.labels import read_labels
from judge.errors import python_words
from judge.text.lexicon import load_lexicon

QUICK: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 2, "refits": 0, "chance": 0}
QUICK |= {"resamples": 100, "workers": 1}


@pytest.fixture(scope="module")
def inputs() -> dict[str, dict[str, Any]]:
    world = make_world(60, seed=1)
    captions = simulate(world, name="mine", captioner=Captioner(stereotype=0.7))
    return {
        "human": {image: list(of) for image, of in world.human.by_image.items()},
        "mine": {image: of[0] for image, of in captions.by_image.items()},
        "labels": dict(world.labels.by_image),
    }


@pytest.fixture(scope="module")
def files(inputs: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same in files, as keywords of ``evaluate``."""
    folder = tmp_path_factory.mktemp("files")
    for name, of in inputs.items():
        (folder / f"{name}.json").write_text(json.dumps(of))
    names = {"human": "human", "captions": "mine", "labels": "labels"}
    return {keyword: folder / f"{name}.json" for keyword, name in names.items()}


@pytest.fixture(scope="module")
def from_files(files: dict[str, Path]) -> Result:
    return evaluate(**files, **QUICK)


def of_classes(frame: pd.DataFrame) -> datasets.Dataset:
    """Classes are numbers, as in most data sets of the hub."""
    found = datasets.Dataset.from_pandas(frame, preserve_index=False)
    names = datasets.ClassLabel(names=["male", "female"])
    return found.cast_column("gender", names) if "gender" in frame else found


def test_mappings_give_the_numbers_of_files(inputs: dict[str, dict[str, Any]], from_files: Result) -> None:
    found = evaluate(human=inputs["human"], captions={"mine": inputs["mine"]}, labels=inputs["labels"], **QUICK)
    assert found.table().equals(from_files.table())


def test_a_corpus_may_have_no_captioner() -> None:
    for none in ([], (), {}):
        assert Corpus.read(human=ONE, captions=none).generated == ()


def test_a_repr_is_a_line(inputs: dict[str, dict[str, Any]], from_files: Result) -> None:
    corpus = Corpus.read(human=inputs["human"], captions={"mine": inputs["mine"]}, labels=inputs["labels"])
    counts = "Labels('gender', 30 female, 30 male)"
    human, mine = "Captions('human', 300 captions of 60 images)", "Captions('mine', 60 captions of 60 images)"
    assert repr(corpus) == f"Corpus({human}, {mine}, {counts})"
    assert repr(from_files) == "Result(mine: LIC (linear))"


ONE = {"1": "a man", "2": "a woman"}
FRAME = pd.DataFrame({"image_id": ["1", "2"], "caption": ["a man", "a woman"]})
CLASSES = pd.DataFrame({"image_id": ["1", "2"], "gender": ["male", "female"]})
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"human": ONE, "captions": FRAME}, "captions in memory have no name"),
    ({"human": ONE, "captions": [ONE]}, "captions in memory have no name"),
    ({"human": ONE, "captions": pd.Series(ONE)}, "captions in memory have no name"),
    ({"human": ONE, "captions": of_classes(FRAME)}, "captions in memory have no name"),
    ({"human": ONE, "captions": ONE}, "holds captions of images, not files of captioners. Name the captioner"),
    ({"human": ONE, "captions": {"mine": ["a man", "a woman"]}}, "lists have no ids of images, and human has"),
    ({"human": [["a man"]], "captions": {"mine": ["a man", "a woman"]}}, "lists of other lengths (human: 1, mine: 2)"),
    ({"human": 3, "captions": {"mine": ONE}}, "captions of human in memory: is a number, not a table"),
    ({"human": ONE, "captions": {"mine": {"1": 7}}}, "captions of mine in memory, record 1 ('1'), field 'value'"),
    ({"human": datasets.DatasetDict({"train": of_classes(FRAME)}), "captions": {"mine": ONE}},
     "is a DatasetDict. Give one of its splits"),
    ({"human": ["a man here", "a dog"], "captions": {"mine": ONE}}, "lists have no ids of images, and mine has"),
    ({"human": ["my data/x.json"], "captions": {"mine": ONE}}, "my data/x.json: no such file"),
    ({"human": ONE, "captions": {"mine": FRAME.set_axis(pd.Index([3, 4], name="image_id"))}},
     "column 'image_id' occurs twice. Rename one of the two"),
    ({"human": ONE, "captions": {"mine": pd.concat([FRAME, FRAME.caption.str.upper()], axis=1)}},
     "column 'caption' occurs twice. Rename one of the two"),
    ({"human": ONE, "captions": {"mine": FRAME.groupby("image_id").agg({"caption": ["first", "last"]})}},
     "has column names of several levels. Join them: table.columns = "),
    ({"human": ONE, "captions": {"mine": ONE}, "labels": {"1": "male"}, "attribute": ["gender", "skin"]},
     "tables in memory are read for one attribute"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_what_cannot_be_read_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(JudgeError, match=re.escape(said)):
        evaluate(**given)


def with_levels(frame: pd.DataFrame) -> Any:
    """A series, or a frame, with two named levels."""
    return frame.assign(split="val").set_index(["image_id", "split"])


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "mapping": lambda frame: dict(frame.to_numpy().tolist()),
    "records": lambda frame: frame.to_dict("records"),
    "frame": lambda frame: frame,
    "frame with an index": lambda frame: frame.set_index("image_id"),
    "series": lambda frame: frame.set_index("image_id").iloc[:, 0],
    "datasets": of_classes,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "index is a column": lambda frame: frame.set_index("image_id", drop=False),
    "column twice": lambda frame: pd.concat([frame, frame.iloc[:, 1]], axis=1),
    "levels": with_levels,
    "series of levels": lambda frame: with_levels(frame).iloc[:, 0],
    "groupby": lambda frame: frame.groupby("image_id")[[frame.columns[1]]].apply(lambda of: of),
    "array": lambda frame: frame.iloc[:, 1].to_numpy(),
    "list": lambda frame: list(frame.iloc[:, 1]),
    "column of arrow": lambda frame: pa.array(frame.iloc[:, 1]),
    "column of datasets": lambda frame: datasets.Dataset.from_pandas(frame)[frame.columns[1]],
}
WITHOUT_IDS = {"array", "list", "column of arrow", "column of datasets"}


@pytest.mark.parametrize("name", FORMS)
def test_tables_in_memory_of_every_kind(name: str) -> None:
    frames = FRAME.assign(caption=["a man on a horse", "a woman"]), FRAME, CLASSES
    human, mine, classes = map(FORMS[name], frames)
    corpus = Corpus.read(human=human, captions={"mine": mine}, labels=classes, attribute=["gender"])
    images = ["0", "1"] if name in WITHOUT_IDS else ["1", "2"]
    assert corpus.labels is not None
    assert corpus.labels.by_image == dict(zip(images, ["male", "female"], strict=True))
    assert corpus.human.by_image == dict(zip(images, [("a man on a horse",), ("a woman",)], strict=True))
    assert corpus.generated[0].by_image == dict(zip(images, [("a man",), ("a woman",)], strict=True))


# (what is given beside human captions, the fault in words, the remedy, with which the same is read)
REMEDIES: dict[str, tuple[dict[str, Any], str, str, dict[str, Any]]] = {
    "numbers": (
        {"labels": CLASSES.assign(gender=[1, 0])}, "label is the number 1",
        "label_values={'CLASS': ['1']}", {"label_values": {"male": ["1"], "female": "0"}},
    ),
    "unknown": (
        {"labels": CLASSES.assign(gender=["male", "non binary"])}, "unknown label 'non binary'",
        "label_drop=['non binary']", {"label_drop": ["non binary"]},
    ),
    "column": (
        {"labels": CLASSES.rename(columns={"gender": "sex"})}, "no column of gender labels among 'image_id', 'sex'",
        "columns={'labels.gender': NAME}", {"columns": {"labels.gender": "sex"}},
    ),
    "ids": (
        {"labels": CLASSES.rename(columns={"image_id": "who"})}, "no column of image ids among 'who', 'gender'",
        "columns={'labels.image_id': NAME}", {"columns": {"labels.image_id": "who"}},
    ),
    "two": (
        {"labels": pd.concat([CLASSES, CLASSES.assign(gender="male"), CLASSES])}, "image '2' is 'male' here",
        "label_rule='majority'", {"label_rule": "majority"},
    ),
    "captions": (
        {"captions": {"mine": FRAME.set_axis(["photo", "caption"], axis=1)}}, "no column of image ids among 'photo'",
        "columns={'image_id': NAME}", {"columns": {"image_id": "photo"}},
    ),
    "several": (
        {"captions": {"mine": pd.concat([FRAME, FRAME])}}, "duplicate results for image '1'",
        "several=True", {"several": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REMEDIES)
def test_remedies_are_of_python_and_serve(name: str) -> None:
    """No message names an option of the command line, or another attribute, of which nothing would be hidden."""
    given, what, remedy, keywords = REMEDIES[name]
    given = dict[str, Any](human=ONE, captions={"mine": ONE}) | given
    line = fault_of(Corpus.read, **given)
    assert what in line
    assert remedy in line
    assert "--" not in line
    assert "attribute" not in line
    corpus = Corpus.read(**given, **keywords)
    assert "1" in corpus.generated[0].by_image
    if labels := corpus.labels:
        assert (labels.attribute, labels.by_image["1"], labels.classes) == ("gender", "male", ("female", "male"))
        assert remedy in fault_of(read_labels, given["labels"], lexicon=load_lexicon("gender"))


def test_labels_that_are_true_or_numbers_of_numpy() -> None:
    """Nobody knows which class "true" is, unless it is said, as from a file."""
    given: dict[str, Any] = {"human": ONE, "captions": {"mine": ONE}}
    table = CLASSES.assign(gender=[True, False])
    line = fault_of(Corpus.read, **given, labels=table)
    assert line.startswith("labels in memory, record 1, field 'gender': label is True, and published tables disagree")
    for values in ({"female": True, "male": False}, {"female": np.True_, "male": "False"}):  # As of a file.
        assert known(Corpus.read(**given, labels=table, label_values=values).labels).by_image["1"] == "female"
    numbers = {"female": np.int64(1), "male": np.array([0])}
    table = pd.DataFrame({"image_id": ["1", "2", "3"], "gender": [1, 0, 9]})
    found = Corpus.read(**given, labels=table, label_values=numbers, label_drop=9)
    assert known(found.labels).by_image["1"] == "female"
    assert "no label '7'" in fault_of(Corpus.read, **given, labels=table, label_values=numbers, label_drop=7)


def test_records_are_chosen_by_numbers_too() -> None:
    human = pd.DataFrame({"image_id": [1, 1, 2], "caption": ["a man", "a boy", "a dog"], "year": [2014, 2017, 2014]})
    found = Corpus.read(human=human, captions={"mine": ONE}, where={"year": 2014})
    assert found.human.by_image["1"] == ("a man",)
    assert "refusals" in fault_of(Corpus.read, human=ONE, captions={"mine": ONE}, refusals=3)


def test_notes_are_of_python() -> None:
    several = {"1": ["a dog", "a cow"], "2": "a man"}
    notes = Corpus.read(human={"1": ["a man", "a boy"], "2": ["a dog"]}, captions={"mine": several}).notes
    assert [note for note in notes if "several=True" in note]


def test_labels_are_derived_beside_tables(inputs: dict[str, dict[str, Any]]) -> None:
    """The attribute may be named where no labels are given."""
    given: dict[str, Any] = {"human": inputs["human"], "captions": {"mine": inputs["mine"]}, "attribute": ["gender"]}
    assert "mine" in {*evaluate(**given, metrics="error", resamples=100).table()["captioner"]}


def test_a_result_is_saved_and_read_again(inputs: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Its folder and page are those of a run with ``out``."""
    given = {"human": inputs["human"], "captions": {"mine": inputs["mine"]}, "labels": inputs["labels"], **QUICK}
    result = evaluate(out=tmp_path / "whole", **given)
    result.save(tmp_path / "saved")
    result.report(tmp_path / "page.html")
    names = {path.name for path in (tmp_path / "whole").iterdir()}
    assert {path.name for path in (tmp_path / "saved").iterdir()} >= names - {"log.jsonl"}
    for name in ("metrics.json", "run.yaml", "report.html"):
        text = (tmp_path / "saved" / name).read_text()
        assert text == (tmp_path / "whole" / name).read_text()
    assert (tmp_path / "page.html").read_text() == (tmp_path / "saved" / "report.html").read_text()
    assert Result.load(tmp_path / "saved").table(all=True).equals(result.table(all=True))
    with pytest.raises(JudgeError, match="overwrite"):
        result.save(tmp_path / "saved")
    with pytest.raises(JudgeError, match=r"page\.html"):
        result.report(tmp_path / "page.html")


def test_a_result_shows_itself(from_files: Result) -> None:
    row = from_files.table().iloc[0]
    assert len(from_files.table().columns) == 11
    assert {*from_files.table().columns} < {*from_files.table(all=True).columns}
    html = from_files._repr_html_()
    assert f"{row['amplification']:+.3f}" in html
    assert r"\toprule" in from_files.to_latex()
    (axes,) = from_files.plot().axes
    (line,) = [line for line in axes.lines if line.get_marker() == "D" or line.get_marker() == "o"][:1]
    assert line.get_xdata()[0] == pytest.approx(row["amplification"])
    with pytest.raises(JudgeError, match=r"no value of metric 'lik'.*lic"):
        from_files.plot("lik")


@pytest.mark.slow
def test_words_in_memory_are_hidden(inputs: dict[str, dict[str, Any]], from_files: Result, tmp_path: Path) -> None:
    """As a lexicon or as lists they are those of the shipped file; ``run.yaml`` holds them, and repeats the run."""
    gender, out = load_lexicon("gender"), tmp_path / "run"
    lists = {
        name: sorted(words | (gender.hidden_only if name == "female" else {*()}))
        for name, words in gender.classes.items()
    }
    given = {"human": inputs["human"], "captions": {"mine": inputs["mine"]}, "labels": inputs["labels"], **QUICK}
    results = [evaluate(**given, lexicon=words) for words in (gender, {"gender": gender})]
    results.append(evaluate(**given, lexicon=lists, out=out))
    words = yaml.safe_load((out / "run.yaml").read_text(encoding="utf-8"))["lexicon"]
    results.append(evaluate(**given, lexicon=words))
    values = ["human", "generated", "amplification"]
    assert all(result.table()[values].equals(from_files.table()[values]) for result in results)


@pytest.mark.parametrize(("words", "said"), [
    ({"female": ["woman"], "male": ["woman"]}, "words in memory: 'woman' is in 'female' and in 'male'"),
    ({"male": "man", "female": ""}, "is empty"),
    ({"male": [1], "female": ["a"]}, "lexicon: the words of 'male' are no list of texts"),
    ({"male": None, "female": ["a"]}, "lexicon: the words of 'male' are no list of texts"),
    ({("male",): ["a"]}, "lexicon: the words of ('male',) are no list of texts"),
    ({}, "words in memory: no 'classes'"),
])  # fmt: skip
def test_words_in_memory_at_fault(words: Any, said: str) -> None:
    assert said in fault_of(evaluate, human={"1": ["a man"]}, captions={"mine": {"1": "a man"}}, lexicon=words)


STAGES = {"child": ["boy", "girl"], "adult": ["man", "woman"], "elderly": ["grandfather"]}


def test_the_classes_of_a_lexicon_in_memory_are_those_of_labels() -> None:
    """Not those of the shipped lexicon of this name, which has "old"; a misspelt label is no class of its own."""
    told = {str(n): f"a {word} on a horse" for n, word in enumerate(("boy", "woman", "grandfather") * 10)}
    stage = [name for name in STAGES for _ in (1,)] * 10
    frame = pd.DataFrame({"image_id": [*told], "stage": stage})
    given: dict[str, Any] = {"human": told, "captions": {"mine": told}, "attribute": "age", "lexicon": STAGES}
    how: dict[str, Any] = {"metrics": "error", "columns": {"labels.age": "stage"}, "resamples": 100}
    found = evaluate(**given, labels=frame, **how)
    assert found.run["captioners"]["mine"]["images"] == {"adult": 10, "child": 10, "elderly": 10}
    assert found.summaries[0].human == 0
    line = fault_of(evaluate, **given, labels=frame.replace({"stage": {"elderly": "eldrly"}}), **how)
    assert "unknown label 'eldrly'. Known classes: adult, child, elderly" in line
    assert "label_values={'CLASS': ['eldrly']}" in line


def test_faults_name_keywords_of_python(inputs: dict[str, dict[str, Any]]) -> None:
    """Those of settings too, which the command line names by options."""
    given = {"human": inputs["human"], "captions": {"mine": inputs["mine"]}}
    for settings in ({"metrics": "licc"}, {"folds": 1}, {"metrics": "imagecaptioner2"}, {"human": None}):
        line = fault_of(evaluate, **given | settings)
        assert not re.search("--(?!help)", line), line
    line = fault_of(evaluate, human=inputs["human"])
    assert line == "captions: there are no captions. Give captions={'mine': captions}."
    assert "unknown keyword 'label_rul'. Did you mean 'label_rule'?" in fault_of(Corpus.read, **given, label_rul="one")


@pytest.mark.parametrize(("message", "expected"), [
    ("leave --quick out, or give --split train,restval", "leave quick out, or give split='train,restval'"),
    ("images/coco--val/x.json: --images COCO/val", "images/coco--val/x.json: images='COCO/val'"),
    ("--label-value male=0; or add --overwrite.", "label_values={'male': ['0']}; or add overwrite=True."),
    ("--labels skin=FILE or --person-category 'A face'", "labels={'skin': 'FILE'} or person_categories='A face'"),
    ("a larger --shm-size, or --num_processes 1", "a larger --shm-size, or --num_processes 1"),
    ("--judge is not used; --refits 0, see --help-all", "judge is not used; refits=0, see --help-all"),
    ("lower --training learning_rate=X, or --training precision=no", "lower learning_rate=X, or precision='no'"),
    ("use --column labels.sex=the gender; or not", "use columns={'labels.sex': 'the gender'}; or not"),
    ("--column labels.a --column labels.b are", "columns={'labels.a': ...} columns={'labels.b': ...} are"),
    ("name it with --column labels.skin-tone=NAME", "name it with columns={'labels.skin-tone': NAME}"),
    ("give --baseline too, or --text whole.", "give baseline too, or text='whole'."),
    ("run judge report XX --format md, or --judge a", "run judge report XX --format md, or judge='a'"),
])  # fmt: skip
def test_options_become_keywords_and_nothing_else_does(message: str, expected: str) -> None:
    assert python_words(message) == expected


@pytest.mark.parametrize(("keywords", "said"), [
    ({"label_rule": "majorty"}, "label_rule: unknown value 'majorty'. Did you mean 'majority'?"),
    ({"label_values": "male=0"}, "label_values: is no mapping. Give {name: value}."),
    ({"options": ReadOptions(), "several": True}, "options and keywords say how to read. Give one of them."),
])  # fmt: skip
def test_keywords_of_reading_are_checked(keywords: dict[str, Any], said: str) -> None:
    assert said in fault_of(Corpus.read, human=ONE, captions={"mine": ONE}, **keywords)
    assert ReadOptions.of(split=["train", "val"], refusals="sorry", label_drop="old").split == "train,val"


def test_columns_of_objects_in_memory() -> None:
    objects = pd.DataFrame({"pic": ["1", "2", "2"], "thing": ["tie", "dog", "tie"]})
    human = dict.fromkeys(("1", "2"), ("a man with a tie", "a boy", "a tie"))
    given: dict[str, Any] = {"human": human, "captions": {"mine": ONE}, "labels": CLASSES, "metrics": "lic"}
    thing = {"objects.object": "thing"}
    line = fault_of(evaluate, **given, objects=objects, columns={**thing, "objects.image_id": "image"})
    assert "'image'" in line
    line = fault_of(evaluate, **given, objects=objects, columns={**thing, "objects.picture": "pic"})
    assert line.startswith("columns={'objects.picture': ...}: objects have no column of 'picture'. Known: image_id, o")
    assert "there is no table of objects" in fault_of(evaluate, **given, columns=thing)
    line = fault_of(evaluate, **given, objects=objects, columns={**thing, "objects.image_id": "pic"})
    assert "10 of each are needed" in line  # The objects were read.


def test_names_of_files_may_be_paths(tmp_path: Path) -> None:
    given: dict[str, Any] = {"human": tmp_path / "h", "captions": {"mine": tmp_path / "c"}, "models": {"a": tmp_path}}
    found = make_config(given | {"vectors": tmp_path / "v", "reader": tmp_path}, RunConfig)
    assert (found.vectors, found.reader, found.models) == (f"{tmp_path / 'v'}", f"{tmp_path}", {"a": f"{tmp_path}"})
    assert found.human == tmp_path / "h"
    labels = {"gender": pd.DataFrame(), "skin": pd.DataFrame()}
    line = fault_of(make_config, {"human": "h", "captions": ["c"], "labels": labels}, RunConfig)
    assert "'labels" in line
    assert "[" not in line

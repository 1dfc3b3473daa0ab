"""Metrics of product classes, against counts by hand; one attribute of a single class changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pandas as pd
import pytest
from helpers import evaluate_numbers, known, one_line, read_rows, refusal

from judge import evaluate
from judge.calibration.grammar import WorldFiles, make_world, simulate, write_world
from judge.calibration.world import Captioner
from judge.corpus import Corpus
from judge.corpus.attributes import multiply_labels, parts_of
from judge.corpus.labels import LabelOptions
from judge.corpus.tasks import Tasks
from judge.types import Captions, Labels

QUICK: dict[str, Any] = {
    "resamples": 100, "workers": 1, "folds": 2, "refits": 0, "chance": 0, "least": 2,
}  # fmt: skip
GENDERS, SKINS, OBJECTS = {"female": "woman", "male": "man"}, {"d": "tanned", "l": "pale"}, ("dog", "cat", "bus")
CELLS = [f"{gender} & {skin}" for gender, skin in product(GENDERS, SKINS)]
SKIN_WORDS = "name: skin\nclasses: {d: [tanned], l: [pale]}\n"
Named = Callable[[str, str], set[str]]
NAMED, ANNOTATED = attrgetter("one"), attrgetter("annotated")


def draw(sizes: Sequence[int] = (14, 20, 17, 26), *, seed: int = 0) -> Corpus:
    """One caption a side: who is seen, now and then with another word than is right, and one thing or more."""
    rng = np.random.default_rng(seed)
    classes = {str(i): cell for i, cell in enumerate(np.repeat(CELLS, sizes).tolist())}

    def say(cell: str, error: float) -> str:
        gender, skin = (str(rng.choice([*of])) if rng.random() < error else name
                        for name, of in zip(cell.split(" & "), (GENDERS, SKINS), strict=True))  # fmt: skip
        person = str(rng.choice([GENDERS[gender], GENDERS[gender], "person", "man and a woman"]))
        shade = str(rng.choice([SKINS[skin], SKINS[skin], "tall"]))
        things = [name for place, name in enumerate(OBJECTS) if rng.random() < 0.25 + 0.15 * CELLS.index(cell) * place]
        return f"a {shade} {person} near a {' and a '.join(things) or 'wall'}"

    sides = [{image: (say(cell, error),) for image, cell in classes.items()} for error in (0.1, 0.4)]
    parts = [
        Labels(name, tuple(of), {image: cell.split(" & ")[place] for image, cell in classes.items()}, "drawn")
        for place, (name, of) in enumerate({"gender": GENDERS, "skin": SKINS}.items())
    ]
    return Corpus(Captions("human", sides[0]), (Captions("cap", sides[1]),), multiply_labels(parts))


def spoken(caption: str, _: str) -> set[str]:
    """By hand: one class of each attribute."""
    said = [[name for name, word in of.items() if word in caption.split()] for of in (GENDERS, SKINS)]
    return {f"{gender} & {skin}" for gender, skin in product(*said)}


def unspoken(caption: str, cell: str) -> set[str]:
    """By hand: of skin the annotated class."""
    return {f"{name} & {cell.split(' & ')[1]}" for name, word in GENDERS.items() if word in caption.split()}


def by_loops(corpus: Corpus, named: Named) -> dict[str, float]:
    """The papers' definitions as loops, of what ``named`` says of a caption and its image's class."""
    classes = known(corpus.labels).by_image
    human, generated = (
        [
            oracle.Said(image, cell, frozenset(named(text, cell)), frozenset(text.split()) & {*OBJECTS})
            for image, cell in classes.items()
            for text in of.by_image[image]
        ]
        for of in (corpus.human, *corpus.generated)
    )
    told, shown = ([oracle.table(side, by) for side in (human, generated)] for by in (NAMED, ANNOTATED))
    ratios = [known(oracle.ratio(side, "male & l", "female & d")) for side in (human, generated)]
    return {
        "ba-objects": known(oracle.ba(*told, CELLS, OBJECTS)),
        "dba-o": known(oracle.dba(*shown, CELLS, OBJECTS, direction="A->T")),
        "ratio:male & l/female & d": ratios[1] / ratios[0],
        "error": oracle.error(generated) - oracle.error(human),
    }


@pytest.mark.parametrize(("words", "named"), [(True, spoken), (False, unspoken)])
def test_counted_metrics_of_product_classes(words: bool, named: Named, tmp_path: Path) -> None:
    (tmp_path / "skin.yaml").write_text(SKIN_WORDS, encoding="utf-8")
    corpus = draw()
    expected = by_loops(corpus, named)
    lexicon = {"skin": str(tmp_path / "skin.yaml")} if words else {}
    result = evaluate_numbers(corpus, metrics=[*expected], lexicon=lexicon, **QUICK)
    assert {row.metric.name: row.published for row in result.summaries} == pytest.approx(expected)
    assert result.run["attribute"] == "gender & skin"
    assert result.run["lexicon"]["without_words"] == ([] if words else ["skin"])


@pytest.mark.slow
def test_a_second_attribute_of_one_class_changes_no_number() -> None:
    """Labels, evidence, judges, priors, counts: with skin known and equal everywhere, gender is all there is."""
    world = make_world(60, seed=4)
    corpus = Corpus(world.human, (simulate(world, name="c", captioner=Captioner(stereotype=0.7)),), world.labels)
    place = Labels("place", ("here",), dict.fromkeys(world.labels.by_image, "here"), "all")
    both = replace(corpus, labels=multiply_labels([place, world.labels]))
    settings = {**QUICK, "metrics": "lic,leakage,dbac,ba,dba,dpa,ratio,error", "refits": 2, "seeds": 1}
    alone = evaluate_numbers(corpus, **settings)
    product_ = evaluate_numbers(both, **settings, lexicon={"place": "none"})
    for one, other in zip(alone.summaries, product_.summaries, strict=True):
        assert asdict(one) == asdict(other)
    pd.testing.assert_frame_equal(alone.replicates, product_.replicates)
    told = product_.counts["named"].str.replace("here & ", "")
    assert told.tolist() == alone.counts["named"].tolist()


def test_small_and_empty_classes_are_left_out_of_all_metrics() -> None:
    """9 and 0 images of a class."""
    corpus = draw((9, 30, 0, 26))
    result = evaluate_numbers(corpus, metrics="lic,error", **QUICK)
    labels = result.run["labels"]
    assert labels["classes"] == {"female & l": 30, "male & l": 26}
    assert labels["left_out"] == {"female & d": 9, "male & d": 0}
    assert result.run["captioners"]["cap"]["images"] == labels["classes"]
    assert result.run["captioners"]["cap"]["dropped"]["in classes left out"] == 9
    # A caption that names a class that is left out errs all the same.
    told = [(unspoken(corpus.generated[0].by_image[i][0], cell), cell)
            for i, cell in known(corpus.labels).by_image.items() if cell in labels["classes"]]  # fmt: skip
    wrong = sum(len(of) == 1 and cell not in of for of, cell in told)
    assert known(result.summaries[-1].generated) == pytest.approx(wrong / 56)
    # Of the 14 first images 5 have no objects that judges could guess.
    whole = draw()
    shown = {image: (int(image) % 2,) for image in whole.human.by_image if int(image) > 4}
    few = replace(whole, tasks=Tasks(("cat", "dog"), shown, "drawn"))
    assert evaluate_numbers(few, metrics="lic", **QUICK).run["labels"]["left_out"] == {}
    found = evaluate_numbers(few, metrics="lic,dbac-ta", **QUICK).run
    assert found["labels"]["left_out"] == {"female & d": 9}
    assert found["captioners"]["cap"]["images"] == {"female & l": 20, "male & d": 17, "male & l": 26}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    """A world with bb_gender and bb_skin in one file, and each in a file of its own."""
    folder = tmp_path_factory.mktemp("products")
    files = write_world(make_world(160, seed=3), {"much": Captioner(stereotype=0.9)}, folder)
    genders = [(row["image_id"], row["gender"]) for row in read_rows(files.labels)]
    skins = ["" if n % 10 == 0 else "darker" if n % 3 == 0 and g == "male" else "lighter"
             for n, (_, g) in enumerate(genders)]  # fmt: skip
    tables = {
        "both.csv": [("id", "bb_gender", "bb_skin"), *((*row, s) for row, s in zip(genders, skins, strict=True))],
        "skin.csv": [("id", "label"), *((row[0], s[:1]) for row, s in zip(genders, skins, strict=True))],
        "few.csv": [("id", "skin"), *((row[0], "darker") for row in genders[:4])],
        "none.csv": [("id", "skin"), ("x1", "darker")],
    }
    for name, rows in tables.items():
        (folder / name).write_text("\n".join(map(",".join, rows)) + "\n", encoding="utf-8")
    (folder / "skin.yaml").write_text(SKIN_WORDS.replace("d:", "darker:").replace("l:", "lighter:"), encoding="utf-8")
    (folder / "map.json").write_text(json.dumps(dict(genders)), encoding="utf-8")
    return files


BOTH = ["--attribute", "gender", "--attribute", "skin"]


def test_a_corpus_with_labels_of_some(tmp_path: Path) -> None:
    """Those of others are derived, whether the given ones are of one attribute or of several."""
    corpus = draw()
    gender, _ = parts_of(corpus.labels)
    (tmp_path / "skin.yaml").write_text(SKIN_WORDS, encoding="utf-8")
    settings = {**QUICK, "metrics": "error", "lexicon": {"skin": str(tmp_path / "skin.yaml")}}
    with_place = {**settings, "lexicon": {**settings["lexicon"], "place": "none"}}
    found = evaluate_numbers(replace(corpus, labels=gender), attribute=["gender", "skin"], **settings)
    assert [of["derived"] for of in found.run["labels"]["attributes"].values()] == [False, True]
    place = Labels("place", ("here",), dict.fromkeys(gender.by_image, "here"), "all")
    three = replace(corpus, labels=multiply_labels([place, gender]))
    again = evaluate_numbers(three, attribute=["place", "gender", "skin"], **with_place)
    assert again.summaries == found.summaries
    with one_line("labels are of 'place & gender', not of 'gender'"):
        evaluate(three, attribute="gender")


def test_an_attribute_may_be_called_scene() -> None:
    """Its column is then no scene of images; a name with dots is one name."""
    named = {"labels.scene": "kind", "labels.age.group": "age", "labels.image_id": "photo"}
    read = LabelOptions().with_columns(named, "scene", ["scene", "age.group"])
    assert (read.label_column, read.scene_column, read.id_column) == ("kind", None, "photo")
    read = LabelOptions().with_columns(named, "age.group", ["scene", "age.group"])
    assert (read.label_column, read.scene_column) == ("age", None)
    assert LabelOptions().with_columns({"labels.scene": "kind"}, "gender").scene_column == "kind"


REFUSED = [
    (["--attribute", "gender"], "'gender' twice: give each attribute once"),
    (["--lexicon", "gender-wide"], "'gender-wide' is of none of gender, skin: write gender=VALUE"),
    (["--column", "labels.hue=bb_skin"], "labels have no column of 'hue'. Known: gender, image_id, scene, skin"),
    (["--column", "labels.skin=hue"], "no column 'hue'"),
    (["--label-value", "darker=1"], "'darker' is none of the attributes gender, skin"),
    (["--label-value", "skin=darker"], "'darker' is not CLASS=TEXT"),
    (["--labels", "hue={}/skin.csv"], "is of none of gender, skin"),
    (["--labels", "skin={}/both.csv", "--labels", "skin={}/skin.csv"], "'skin' twice: give one of each attribute"),
    (["--labels", "{}/skin.csv"], "among 'id', 'label'. Name it with --column labels.gender=NAME"),
    (["--labels", "{}/map.json"], "holds one attribute, and there are others beside gender"),
    (["--labels", "gender={}/map.json"], "no labels of skin, and no lexicon to derive them from"),
    (["--labels", "gender={}/map.json", "--labels", "skin={}/few.csv"], "skin of 4 and all of 4 images"),
    (["--labels", "gender={}/map.json", "--labels", "skin={}/none.csv"], "skin of 1 and all of 0 images"),
    (["--lexicon", "gender=none", "--metrics", "error"], "and no words of them are known"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_cannot_be_is_refused_in_one_line(
    given: list[str], message: str, files: WorldFiles, tmp_path: Path
) -> None:
    options = [part.replace("{}", str(files.folder)) for part in given]
    options += [] if "--labels" in given else ["--labels", str(files.folder / "both.csv")]
    sides = ["--human", files.human, "--captions", files.captions["much"]]
    assert message in refusal("evaluate", *sides, *BOTH, *options, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()

"""The whole way from captions to numbers, where the numbers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from judge import evaluate
from judge.calibration.grammar import World, make_world, simulate
from judge.calibration.truth import true_amplification
from judge.calibration.world import CAPTIONERS, Captioner
from judge.corpus import Corpus
from judge.corpus.labels import read_labels
from judge.corpus.splits import stratified_folds
from judge.errors import JudgeError
from judge.measure.refits import COLUMNS as REPLICATES
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Captions, Labels

QUICK = {"resamples": 200, "workers": 1, "folds": 4, "refits": 0, "chance": 0}


def value(table: pd.DataFrame, column: str, **wanted: str) -> float:
    for name, content in wanted.items():
        table = table[table[name] == content]
    assert len(table) == 1
    return float(table[column].iloc[0])


@pytest.fixture(scope="module")
def big() -> World:
    return make_world(2400, seed=1)


def test_known_amplification(big: World) -> None:
    """The order of the knobs, and each value near its closed form (learning from 2,400 images costs some)."""
    captioners = tuple(simulate(big, name=name, captioner=captioner) for name, captioner in CAPTIONERS.items())
    table = evaluate(Corpus(big.human, captioners, big.labels), metrics="lic", **QUICK).table()
    found = [value(table, "amplification", captioner=name) for name in CAPTIONERS]
    assert found == sorted(found)
    for captioner, amplification in zip(CAPTIONERS.values(), found, strict=True):
        assert amplification == pytest.approx(true_amplification(captioner=captioner), abs=0.04)
    assert found[1] - found[0] > 0.05
    assert found[2] - found[1] > 0.1
    none = table[table["captioner"] == "none"].iloc[0]
    assert none["low"] < 0.02
    assert none["high"] > -0.02


def test_identical_sides_give_exactly_nothing(world: World) -> None:
    """Judges of identical evidence are identical: same seeds, same folds."""
    same = Captions("same", {image: captions[:1] for image, captions in world.human.by_image.items()})
    human = Captions("human", same.by_image)
    settings = {**QUICK, "refits": 2}
    table = evaluate(Corpus(human, (same,), world.labels), metrics="lic,leakage", **settings).table()
    assert list(table["amplification"]) == [0.0, 0.0]
    # And so is every refit: exchanged captions are the same captions.
    assert list(table["p_value"]) == [1.0, 1.0]
    assert list(table["standard_error"]) == [0.0, 0.0]


def test_human_captions_as_a_captioner_give_nothing_within_noise(big: World) -> None:
    """The third human caption, handed in as a captioner's: LIC is 0 within its interval."""
    third = Captions("third", {image: captions[2:3] for image, captions in big.human.by_image.items()})
    table = evaluate(Corpus(big.human, (third,), big.labels), metrics="lic", **QUICK).table()
    assert value(table, "amplification") == pytest.approx(0, abs=0.03)


def test_shuffled_labels_give_chance(big: World) -> None:
    rng = np.random.default_rng(0)
    shuffled = dict(zip(big.labels.by_image, rng.permutation(list(big.labels.by_image.values())), strict=True))
    captioner = simulate(big, name="much", captioner=Captioner(stereotype=0.7))
    labels = replace(big.labels, by_image={image: str(name) for image, name in shuffled.items()})
    table = evaluate(Corpus(big.human, (captioner,), labels), metrics="lic,leakage", **QUICK).table()
    for side in ("human", "generated"):
        assert value(table, side, metric="lic") == pytest.approx(0.25, abs=0.03)
        assert value(table, side, metric="leakage") == pytest.approx(0.5, abs=0.04)


def test_one_unmasked_gender_word_tells_all(world: World) -> None:
    words = {"female": "woman", "male": "man"}
    told = {image: (f"a {words[name]} outside",) for image, name in world.labels.by_image.items()}
    corpus = Corpus(world.human, (Captions("telltale", told),), world.labels)
    open_eyes = evaluate(corpus, metrics="leakage", lexicon="none", **QUICK).table()
    assert value(open_eyes, "generated") > 0.95
    masked = evaluate(corpus, metrics="leakage", **QUICK).table()
    assert value(masked, "generated") == pytest.approx(0.5, abs=0.1)


def test_always_person_is_seen_to_say_nothing(world: World) -> None:
    from judge.report.caveats import warnings

    dull = Captions("dull", dict.fromkeys(world.labels.by_image, ("a person outside",)))
    result = evaluate(Corpus(world.human, (dull,), world.labels), metrics="lic", **QUICK)
    assert value(result.table(), "names_none") == 1.0
    (note,) = (note for note in warnings(result) if "names gender" in note)
    assert note.startswith(f"dull names gender in 0.0% of its captions, people in {names_gender(world):.1%}:")


def test_it_is_told_where_judges_were_trained_again_in_vain(world: World) -> None:
    """Only of the rows that were: another judge of the run may have an interval of its own."""
    from judge.report.caveats import warnings

    found = simulate(world, name="none", captioner=CAPTIONERS["none"])
    result = evaluate(Corpus(world.human, (found,), world.labels), metrics="lic", **QUICK)
    result = replace(result, run={**result.run, "refits": {"attribute": 4}})
    told = "a half of the images has no value"
    assert not any(told in note for note in warnings(result))
    row = ["none", "lic", "linear", "half", 0, float("nan"), 0.3, float("nan")]
    lost = replace(result, replicates=pd.DataFrame([row], columns=REPLICATES))
    assert any(note.startswith("none: LIC (linear)") and told in note for note in warnings(lost))


def names_gender(world: World) -> float:
    lexicon = load_lexicon("gender")
    captions = [caption for several in world.human.by_image.values() for caption in several]
    return sum(bool(lexicon.mentions(tokenize(caption))) for caption in captions) / len(captions)


def test_the_wider_lexicon_does_all_that_gender_does(corpus: Corpus, tmp_path: Path) -> None:
    """Every gendered word of either side exchanged for one that LIC's list lacks: labels, evidence, numbers stay."""
    lexicon = load_lexicon("gender")
    other = dict.fromkeys(lexicon.classes["female"], "mom") | dict.fromkeys(lexicon.classes["male"], "dad")

    def exchange(side: Captions) -> Captions:
        said = {
            image: tuple(" ".join(other.get(word, word) for word in tokenize(text)) for text in texts)
            for image, texts in side.by_image.items()
        }
        return replace(side, by_image=said)

    plain = replace(corpus, labels=None)
    changed = replace(plain, human=exchange(corpus.human), generated=tuple(map(exchange, corpus.generated)))
    expected = evaluate(plain, metrics="lic", **QUICK)
    found = evaluate(changed, metrics="lic", lexicon="gender-wide", out=tmp_path / "out", **QUICK)
    pd.testing.assert_frame_equal(found.table(), expected.table())
    assert found.run["labels"] == expected.run["labels"]
    assert found.run["captioners"] == expected.run["captioners"]
    assert found.run["attribute"] == "gender"
    assert found.run["lexicon"]["source"].startswith("this project's own words beside those of LIC's")
    # Of a table of labels the classes and their spellings are gender's.
    labels = tmp_path / "labels.csv"
    labels.write_text("image_id,gender\n1,F\n2,man\n", encoding="utf-8")
    assert read_labels(labels, attribute="gender", lexicon=load_lexicon("gender-wide")).by_image == {
        "1": "female",
        "2": "male",
    }
    # LIC's list finds nobody.
    with pytest.raises(JudgeError, match=r"no image in common .*labels '-'"):
        evaluate(changed, metrics="lic", lexicon="gender", **QUICK)


def test_three_classes_and_several_captions(world: World) -> None:
    """Skin tone has no words to hide; a captioner may have several captions an image."""
    rng = np.random.default_rng(0)
    names = {image: ("darker", "lighter", "medium")[int(rng.integers(3))] for image in world.labels.by_image}
    labels = Labels("skin", ("darker", "lighter", "medium"), names, "test")
    several = {image: (f"a {names[image]} word", "a plain word") for image in names}
    result = evaluate(
        Corpus(world.human, (Captions("twice", several),), labels), attribute="skin", metrics="leakage", **QUICK
    )
    assert set(result.scores[result.scores["side"] == "generated"]["index"]) == {0, 1}
    # One caption of the two gives it away, the other is a guess among three.
    assert value(result.table(), "generated") == pytest.approx((1 + 1 / 3) / 2, abs=0.06)
    assert result.table()["names_one"].isna().all()


def test_scores_have_a_row_for_every_held_out_caption(corpus: Corpus) -> None:
    result = evaluate(corpus, seeds=2, **QUICK)
    scores = result.scores
    images = len(corpus.human.by_image)
    assert len(scores) == images * (5 + 1) * 2 * 2 * 2  # captions x captioners x metrics x seeds
    key = ["image_id", "captioner", "side", "index", "metric", "judge", "seed"]
    assert not scores.duplicated(key).any()
    assert scores["probability"].between(0, 1).all()
    assert set(scores["fold"]) == set(range(4))
    assert list(result.table()["seeds"]) == [2] * 4
    assert result.table()["sd"].notna().all()


def test_images_on_one_side_only_are_dropped_and_counted(world: World) -> None:
    part = simulate(world, name="part", captioner=Captioner(stereotype=0.5))
    kept = dict(list(part.by_image.items())[20:]) | {"nowhere": ("a cat",)}
    labels = replace(world.labels, by_image=dict(list(world.labels.by_image.items())[:-7]))
    result = evaluate(Corpus(world.human, (Captions("part", kept),), labels), metrics="sc", **QUICK)
    dropped = result.run["captioners"]["part"]["dropped"]
    assert dropped == {"human captions only": 20, "generated captions only": 1, "no label": 7}
    assert value(result.table(), "images") == 240 - 20 - 7


def test_first_sentence_only(world: World) -> None:
    wordy = {
        image: (f"A photo. It shows a person with a {name} clue.",) for image, name in world.labels.by_image.items()
    }
    corpus = Corpus(world.human, (Captions("wordy", wordy),), world.labels)
    settings = {"metrics": "leakage", "lexicon": "none", **QUICK}
    assert value(evaluate(corpus, **settings).table(), "generated") > 0.95
    first = evaluate(corpus, text="first-sentence", **settings).table()
    assert value(first, "generated") == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": "lick"}, r"unknown metric 'lick'\. Did you mean 'lic'\?"),
        ({"judge": "lsmt"}, r"unknown judge 'lsmt'\. Did you mean 'lstm'\?"),
        (
            {"folds": 130, "workers": 1},
            r"130 folds, and only 120 images of class '(female|male)'\. Use --folds 120 or fewer",
        ),
        ({"protocoll": "paper"}, r"unknown key 'protocoll'\. Did you mean 'protocol'\?"),
        ({"seeds": 0}, r"'seeds': input should be greater than or equal to 1"),
    ],
)
def test_faulty_settings(corpus: Corpus, change: dict[str, object], message: str) -> None:
    with pytest.raises(JudgeError, match=message):
        evaluate(corpus, **change)


def test_a_corpus_leaves_no_room_for_reading_it_again(corpus: Corpus) -> None:
    with pytest.raises(JudgeError, match="'labels' is for files, and a corpus is given"):
        evaluate(corpus, labels="other.csv")
    with pytest.raises(JudgeError, match="'objects' is for files, and a corpus is given"):
        evaluate(corpus, metrics="dbac", objects="objects.json")
    skin = replace(corpus, labels=replace(corpus.labels, attribute="skin"))
    with pytest.raises(JudgeError, match="labels are of 'skin', not of 'gender'"):
        evaluate(skin, attribute="gender")
    result = evaluate(skin, metrics="sc", **QUICK)
    assert (result.run["attribute"], result.run["lexicon"]) == ("skin", None)


def test_a_caption_index_that_misses_in_a_whole_fold(world: World) -> None:
    """20 images, 10 folds, and the two images of one fold have no second caption."""
    images = sorted(world.labels.by_image)
    chosen = [i for i in images if world.labels.by_image[i] == "male"][:10]
    chosen += [i for i in images if world.labels.by_image[i] == "female"][:10]
    labels = replace(world.labels, by_image={image: world.labels.by_image[image] for image in chosen})
    captioner = simulate(world, name="c", captioner=Captioner(stereotype=0.5))
    fold = stratified_folds(labels.by_image, seed=0)[4]
    human = {i: (c[:1] if i in fold.test else c[:2]) for i, c in world.human.by_image.items() if i in chosen}
    result = evaluate(
        Corpus(Captions("human", human), (captioner,), labels),
        metrics="lic",
        workers=1,
        folds=10,
        resamples=100,
        refits=0,
    )
    assert value(result.table(), "images") == 20


def test_faulty_corpora(world: World) -> None:
    captioner = simulate(world, name="c", captioner=Captioner())
    elsewhere = Captions("c", {"x1": ("a",)})
    with pytest.raises(JudgeError, match=r"no image in common \(human '1', generated 'x1', labels '1'\)"):
        evaluate(Corpus(world.human, (elsewhere,), world.labels))
    women = {image: name for image, name in world.labels.by_image.items() if name == "female"}
    with pytest.raises(JudgeError, match=r"all 120 images are 'female'\. A judge needs two classes or more"):
        evaluate(Corpus(world.human, (captioner,), replace(world.labels, by_image=women)))
    men = [image for image, name in world.labels.by_image.items() if name == "male"]
    few = women | dict.fromkeys(men[:9], "male")
    with pytest.raises(JudgeError, match="class 'male' of gender has 9 images; 10 are needed"):
        evaluate(Corpus(world.human, (captioner,), replace(world.labels, by_image=few)))
    with pytest.raises(JudgeError, match="no labels, and no lexicon"):
        evaluate(Corpus(world.human, (captioner,)), attribute="skin")

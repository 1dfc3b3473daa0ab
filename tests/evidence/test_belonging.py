"""Captions of other images: how far captions are like human captions of their images, and name their class."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import evaluate_numbers

from judge import Corpus, evaluate
from judge.evidence.belonging import PeoplesWords, class_kappa
from judge.report.result import Result
from judge.report.warnings import warnings
from judge.types import Captions

Said = dict[str, tuple[str, ...]]
IMAGES = [str(number) for number in range(60)]


def words(*, moved: int = 0) -> dict[str, set[str]]:
    """Pairs of words, which no two images share, though single ones they do; of the image so many places on."""
    pairs = [{f"w{n % 8}", f"v{n // 8}", "common"} for n in range(60)]
    random.Random(0).shuffle(pairs)
    return {image: pairs[(n + moved) % 60] for n, image in enumerate(IMAGES)}


def likeness(said: Mapping[str, set[str]], people: dict[str, set[str]], images: list[str]) -> tuple[float | None, str]:
    return PeoplesWords(people).likeness(said, images)


def test_by_hand() -> None:
    """1 where each image has its own words, 0 where the captions are of others, none where all captions are equal."""
    assert likeness(words(), words(), IMAGES) == (1.0, "")
    found, told = likeness(words(moved=1), words(), IMAGES)
    assert found is not None
    assert abs(found) < 0.15
    assert not told
    assert likeness({image: {"common"} for image in IMAGES}, words(), IMAGES) == (None, "")
    assert likeness(words(), words(), IMAGES[:29]) == (None, "")
    assert likeness(words(), {image: set[str]() for image in IMAGES}, IMAGES) == (None, "")
    # The last 30 of 60 captions are the next image's.
    cut = {image: words(moved=n >= 30)[image] for n, image in enumerate(IMAGES)}
    found, told = likeness(cut, words(), IMAGES)
    assert found == pytest.approx(0.5, abs=0.05)
    assert told.endswith("of images, mostly from image 30 to 59 of the file")


def test_kappa_of_the_one_class_that_captions_name() -> None:
    """Observed agreement 0.75, by chance 0.5: kappa is 0.5; captions of no class or two do not count."""
    f, m = frozenset({"f"}), frozenset({"m"})
    named = [f, f, f, m, m, m, m, f, frozenset(), f | m]
    classes = ["f", "f", "f", "f", "m", "m", "m", "m", "m", "f"]
    assert class_kappa(named * 13, classes * 13) == pytest.approx(0.5)
    assert class_kappa(named * 12, classes * 12) is None  # 96 captions.
    assert class_kappa([f] * 200, ["f", "m"] * 100) is None


@pytest.fixture(scope="module")
def coco(shared: Path) -> Corpus:
    folder = shared / "coco-captions"
    files = sorted((folder / "results").glob("*.json"))
    return Corpus.read(human=folder / "captions_human.json", captions=files, labels=folder / "gender.csv")


def result_of(corpus: Corpus, change: Callable[[list[str], Said], Said], name: str = "nic_plus") -> Result:
    """Error and Ratio of one captioner on 300 images, whose captions were changed."""
    assert corpus.labels
    labels = corpus.labels.by_image
    (captions,) = [of for of in corpus.generated if of.name == name]
    images = [image for image in captions.by_image if image in labels and len(corpus.human.by_image[image]) > 4]
    images = random.Random(3).sample(images, 300)
    said = change(images, {image: captions.by_image[image] for image in images})
    human = replace(corpus.human, by_image={image: corpus.human.by_image[image] for image in images})
    found = replace(corpus, human=human, generated=(Captions("cap", said, "cap.json"),))
    return evaluate_numbers(found, metrics="error,ratio", resamples=100)


def moved(images: list[str], said: Said) -> Said:
    return {image: said[after] for image, after in zip(images, [*images[1:], images[0]], strict=True)}


def third(images: list[str], said: Said) -> Said:
    return said | moved(images[::3], said)


def last(images: list[str], said: Said) -> Said:
    return said | moved(images[210:], said)


def each(change: Callable[[int, str], str]) -> Callable[[list[str], Said], Said]:
    return lambda images, said: {image: (change(n, said[image][0]),) for n, image in enumerate(images)}


def told(result: Result) -> list[str]:
    return [note for note in warnings(result) if "see that image ids" in note]


def test_a_file_that_is_moved_by_one_row(coco: Corpus) -> None:
    """No verdict on any row, and the reason; and a note where a part of the captions is of other images."""
    result = result_of(coco, moved)
    assert not told(result)[1:]
    assert {*result.void} == {row.key for row in result.summaries}
    reason = result.void["cap", "error", "counted"]
    assert reason.startswith(
        "its captions name the class of their images no more often than by chance and are no more like human captions "
        "of their own images than of others: image ids may not mean the same, or it says much the same of all images ("
    )
    # Captions that name nobody are told by their likeness alone.
    neutral = each(lambda _, text: " ".join(word for word in text.split() if word not in {"man", "woman"}))
    result = result_of(coco, lambda images, said: moved(images, neutral(images, said)))
    assert result.void["cap", "error", "counted"].startswith(
        "its captions are no more like human captions of their own"
    )
    for change, ending in (
        (third, "of images: see that image ids mean the same, or"),
        (last, " of the file: see that"),
    ):
        result = result_of(coco, change)
        assert not result.void
        (note,) = told(result)
        assert note.startswith("Captions of cap are more like human captions of other images than like those of their")
        assert ending in note


def test_captioners_that_err_or_say_little(coco: Corpus) -> None:
    """Wrong genders in a third or all captions, made-up things, one text everywhere or nearly: not moved."""
    swap = {"man": "woman", "woman": "man", "boy": "girl", "girl": "boy"}
    wrong = [" ".join, lambda of: " ".join(swap.get(word, word) for word in of)]
    for change in (
        each(lambda n, text: wrong[n % 3 == 0](text.split())),
        each(lambda n, text: wrong[1](text.split())),
        each(lambda n, text: f"{text} with a {('clock', 'zebra', 'pizza', 'kite', 'toaster')[n % 5]}"),
        each(lambda n, text: "a man in a picture"),
        each(lambda n, text: text if n % 10 == 0 else "a man in a picture"),
    ):
        result = result_of(coco, change)
        assert not any("see that image ids" in reason for reason in result.void.values())
        assert not told(result)


def test_the_reported_case(shared: Path) -> None:
    """300 captions moved by one row; as they are, their words tell nothing of the image, but they name its class."""
    folder = shared.parent / "cases3" / "text"
    if not folder.exists():
        pytest.skip("needs the reported cases")
    files = [folder / f"{name}.json" for name in ("shifted", "plain")]
    result = evaluate(
        human=folder / "human.json", captions=files, labels=folder / "labels.csv", metrics="error", resamples=100
    )
    assert [*result.void] == [("shifted", "error", "counted")]
    verdicts = result.table().set_index("captioner")["verdict"]
    assert verdicts["shifted"] == "no verdict"
    assert verdicts["plain"] == "above human captions"
    assert not told(result)[1:]


@pytest.mark.parametrize("name", ["nic_balanced", "nic_equalizer", "nic_plus", "nic_upweight"])
def test_honest_captioners(coco: Corpus, name: str) -> None:
    result = result_of(coco, lambda _, said: said, name)
    assert not result.void
    assert not told(result)

"""Words that tell the class although masking is over: found where they are words for people, however rare each is."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.survey import SideWords, Survey
from judge.text.tokens import tokenize
from judge.types import Captions

GENDER = load_lexicon("gender")
DOING = ["riding a horse", "holding a cup", "on a bench", "at a table", "near a car", "in a park"]
DOING += ["with a dog", "eating"]
CLASSES = ["female", "male"] * 200
# Of ten captioned images one is named wrongly.
NAMED = [name if place % 20 < 18 else {"female": "male", "male": "female"}[name] for place, name in enumerate(CLASSES)]
PEOPLE = [f"a {'woman' if of == 'female' else 'man'} {DOING[n // 2 % 8]}" for n, of in enumerate(CLASSES)]


def side(
    captions: Sequence[str], classes: Sequence[str], images: Sequence[str] | None, of: Lexicon | None
) -> SideWords:
    raw = [tokenize(text) for text in captions]
    return SideWords(raw, [mask(words, of) for words in raw], classes, images)


def survey(
    captions: Sequence[str],
    others: Sequence[str] = PEOPLE,
    *,
    classes: Sequence[str] = CLASSES,
    images: Sequence[str] | None = None,
    lexicon: Lexicon | None = GENDER,
) -> Survey:
    sides = side(captions, classes, images, lexicon), side(others, CLASSES, None, lexicon)
    return sides[0].survey(sides[1], lexicon, Captions("cap", {}))


def said(female: Sequence[str], male: Sequence[str]) -> list[str]:
    """Captions of people who are called by such words in turn."""
    words = {"female": female, "male": male}
    return [f"a {words[name][n // 2 % len(words[name])]} {DOING[n // 2 % 8]}" for n, name in enumerate(NAMED)]


NAMES = [f"{name}{end}" for name in "nadia susan wendy olga petra".split() for end in "xyz"]  # noqa: SIM905
OTHERS = [f"{name}{end}" for name in "peter oscar hugo felix quinn".split() for end in "xyz"]  # noqa: SIM905


@pytest.mark.parametrize(("female", "male"), [
    (["mans"], ["womans"]),
    (["qx"], ["zv"]),
    (NAMES, OTHERS),
    (["policewoman", "chairwoman", "saleswoman"], ["fisherman", "salesman", "fireman"]),
    (["mum", "lass", "gal"], ["lad", "bloke", "chap"]),
])  # fmt: skip
def test_words_for_people_are_found_though_one_in_ten_is_wrong(female: list[str], male: list[str]) -> None:
    found = survey(said(female, male))
    assert found.affected >= 320  # Some names are of one class in too few of the others.
    assert set(found.revealing) <= {*female, *male}
    # A word in 5% of captions of each class tells little, of a wider lexicon it tells too.
    assert not survey(PEOPLE).revealing


def test_glued_words_are_pooled_by_the_word_that_they_hold() -> None:
    """Each stands in two captions only."""
    captions = [
        f"{'woman' if name == 'female' else 'man'}verb{chr(97 + n // 8 % 25)}{chr(97 + n // 200)} by a person"
        for n, name in enumerate(NAMED)
    ]
    assert survey(captions).affected == 400


def test_a_stereotype_beside_a_word_for_anybody_is_told_apart() -> None:
    adding: dict[str, str] = {"female": "elegant", "male": "strong"}
    looks = [f" looks {adding[name]}" * (n % 10 < 4) for n, name in enumerate(CLASSES)]
    captions = [f"a person {DOING[n // 2 % 8]}{look}" for n, look in enumerate(looks)]
    found = survey(captions)
    assert found.affected == 0
    bare = survey([text.replace("a person", "standing") for text in captions])
    assert (bare.affected, dict(bare.revealing)) == (160, {"elegant": 80, "strong": 80})


def test_a_word_that_the_other_side_uses_too_is_no_strange_one() -> None:
    """A surfer of ten, of males only, on both sides; and at a thirtieth of that on the other."""
    own = [f"a zorb {DOING[n // 2 % 8]}" if n % 10 == 1 else f"a thing {DOING[n // 2 % 8]}" for n in range(400)]
    for every, affected in ((10, 0), (40, 0), (400, 40)):
        others = [f"a zorb {DOING[n // 2 % 8]}" if n % every == 1 else text for n, text in enumerate(PEOPLE)]
        assert survey(own, others).affected == affected


def test_captions_of_one_image_are_no_evidence_for_each_other() -> None:
    """A rare word, four times of one image each, decides nothing; of four images it does."""
    captions = [f"word{chr(97 + n // 8)}{'fm'[n % 2]} here" for n in range(200)]
    classes = CLASSES[:200]
    of_one = [f"{n // 8} {n % 2}" for n in range(200)]
    assert survey(captions, classes=classes, images=of_one).affected == 0
    assert survey(captions, classes=classes).affected == 200


def test_without_a_lexicon_the_words_themselves_are_found() -> None:
    found = survey(PEOPLE, lexicon=None)
    assert (found.affected, dict(found.revealing)) == (400, {"woman": 200, "man": 200})
    beside = [f"a {name} person" if n % 10 < 2 else "a person" for n, name in enumerate(CLASSES)]
    assert survey(beside, lexicon=None).affected == 80  # The names of classes.
    neutral = ["a person on a horse", "a person at a desk"]
    assert not survey([neutral[n // 2 % 2] for n in range(400)], lexicon=None).affected


@pytest.fixture
def cases(shared: Path) -> Callable[[str], tuple[list[str], list[str]]]:
    folder = shared.parent / "cases3" / "text"
    if not folder.exists():
        pytest.skip("no ../shared/cases3")
    with (folder / "labels.csv").open() as lines:
        labels = {row["image_id"]: row["gender"] for row in csv.DictReader(lines)}

    def read(name: str) -> tuple[list[str], list[str]]:
        rows = json.loads((folder / f"{name}.json").read_text("utf-8"))
        rows = rows if isinstance(rows, list) else rows["annotations"]
        return [row["caption"] for row in rows], [labels[str(row["image_id"])] for row in rows]

    return read


@pytest.mark.parametrize("name", ["mans_womans", "mens_womens", "compounds", "glued", "first_names"])
def test_cases_of_users(name: str, cases: Callable[[str], tuple[list[str], list[str]]]) -> None:
    captions, classes = cases(name)
    people, _ = cases("human")
    assert survey(captions, people, classes=classes).affected > 0.2 * len(captions)


def test_no_false_alarm_in_real_captions(shared: Path) -> None:
    folder = shared / "coco-captions"
    with (folder / "gender.csv").open() as lines:
        labels = {row["image_id"]: row["gender"] for row in csv.DictReader(lines)}
    images = random.Random(1).sample(sorted(labels), 600)
    people: dict[str, list[str]] = {image: [] for image in images}
    for row in json.loads((folder / "captions_human.json").read_text("utf-8"))["annotations"]:
        people.get(str(row["image_id"]), []).append(row["caption"])
    owners = [image for image in images for _ in people[image]]
    texts = [text for image in images for text in people[image]]
    human = side(texts, [labels[image] for image in owners], owners, GENDER)
    for name in ("nic_plus", "nic_equalizer", "nic_balanced", "nic_upweight"):
        rows = json.loads((folder / "results" / f"{name}.json").read_text("utf-8"))
        own = {str(row["image_id"]): row["caption"] for row in rows}
        captioner = side([own[image] for image in images], [labels[image] for image in images], images, GENDER)
        assert captioner.survey(human, GENDER, Captions(name, {})).affected == 0
        found = human.survey(captioner, GENDER, Captions("human", {}))
        assert found.affected < 0.01 * len(texts), Counter(found.revealing)


@pytest.mark.parametrize("name", ["plain", "titles", "symbols", "hes", "plain_label"])
def test_cases_of_users_that_are_masked(name: str, cases: Callable[[str], tuple[list[str], list[str]]]) -> None:
    """All name the class that the plain captions name."""
    (captions, classes), (plain, _), (people, _) = cases(name), cases("plain"), cases("human")
    assert not survey(captions, people, classes=classes).revealing
    assert [GENDER.mentions(tokenize(a)) for a in captions] == [GENDER.mentions(tokenize(b)) for b in plain]

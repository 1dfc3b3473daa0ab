"""The typical person, worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from judge.corpus import Corpus
from judge.evidence.builder import EvidenceBuilder
from judge.evidence.preparation import TextOptions
from judge.evidence.typical import LONGER, TYPICAL, add_longer, add_typical, with_typical
from judge.text.lexicon import Lexicon, Lexicons, load_lexicon
from judge.types import Captions, Labels

HUMAN = {
    "1": ("a cat", "a cat sleeps", "two cats"),
    "2": ("a dog", "a dog"),
    "3": ("a bus", "a tram", "a bus", "rain"),
}


def test_the_caption_that_shares_most_is_moved() -> None:
    """Of image 1: "a cat" shares a, cat with the second alone; of equals (image 3) the first is taken."""
    corpus = Corpus(Captions("human", HUMAN, "human.json"), (Captions("model", {"1": ("a cat",)}),), None)
    found = with_typical(corpus, lambda caption: tuple(caption.split()))
    assert [captions.name for captions in found.generated] == ["model", TYPICAL]
    assert found.generated[1].by_image == {"1": ("a cat",), "3": ("a bus",)}
    assert found.human.by_image["1"] == ("a cat sleeps", "two cats")
    assert found.human.by_image["2"] == HUMAN["2"]
    assert found.human.by_image["3"] == ("a tram", "a bus", "rain")


def test_likeness_counts_rare_words_more() -> None:
    """ "red" in 2 of 9 captions weighs ln 4.5, "a" in 7 ln(9/7): one shared rare word outweighs a frequent one."""
    human = {"1": ("a x", "red y", "red a"), "2": ("a p", "a q", "a r"), "3": ("a s", "a t", "u")}
    found = with_typical(Corpus(Captions("human", human), (), None), lambda caption: tuple(caption.split()))
    assert math.log(9 / 2) > math.log(9 / 7)
    assert found.generated[0].by_image["1"] == ("red a",)


def test_a_person_says_as_much_as_a_longer_captioner() -> None:
    """Captions, the most typical first, to the last word before a content word too many, worked by hand.

    The second and the third share "red" and "bike", the first shares no word that is not in all. Content words come in
    this order: rides, red, bike; town; old, home. Full stops do not end a sentence there.
    """
    texts = ("An old man rides. Home!", "A man rides a red bike.", "Red bike, man rides through town.")
    images = [f"{number}" for number in range(20)]
    people = Captions("human", {**dict.fromkeys(images, texts), "few": texts[:2]}, "human.json")
    said = {
        "short": "a man rides a bike down the road",
        "five": "cats cats chase dogs near small trams",
        "another five": "cows cows chase pigs near tall trams",
        "seven": "cats chase dogs near small trams by blue boats",
        "eight": "cats chase dogs near small trams by blue boats, q9",
    }
    told = tuple(Captions(name, dict.fromkeys([*images, "few"], (text,))) for name, text in said.items())
    classes = {image: ("female", "male")[n % 2] for n, image in enumerate([*images, "few"])}
    labels = Labels("gender", ("female", "male"), classes, "labels.csv")
    builder = EvidenceBuilder(Corpus(people, told, labels), Lexicons(load_lexicon("gender"), None))
    assert not add_typical(builder)
    five, six = ({"words_read": f"{TYPICAL} of up to {number} words"} for number in (5, 6))
    longer = {"five": five, "another five": five, "seven": six}
    assert add_longer(builder, people, {"words_read"}) == longer
    *_, typical, of_five, of_six = (dict.fromkeys(of.by_image.values()) for of in builder.corpus.generated)
    assert [*typical] == [(texts[1],)]
    start = "a man rides a red bike , red bike , man rides through town , an old man rides"
    assert [*of_five] == [(start,)]
    assert [*of_six] == [(f"{start} home",)]
    assert builder.corpus.generated[-1].by_image.keys() == {*images}


def test_rarity_is_that_of_all_labelled_images() -> None:
    """Whoever is measured: in image 1 alone all words are equally rare, and the first caption would be taken."""
    people = Captions("human", {"1": ("a x", "a y", "red z", "red w"), "2": ("a", "a p", "a q")})
    labels = Labels("gender", ("female", "male"), {"1": "female", "2": "male"}, "labels.csv")
    corpus = Corpus(people, (Captions("model", {"1": ("a cat",)}),), labels)
    builder = EvidenceBuilder(corpus, Lexicons(load_lexicon("gender"), None))
    assert not add_typical(builder)
    assert builder.corpus.generated[-1].by_image == {"1": ("red z",)}


@pytest.mark.parametrize(
    ("language", "text", "texts", "words", "said"),
    [
        # Chinese is cut between its words, not between captions.
        (
            "zh",
            "sentences",
            ("一个穿红色衣服的女人在公园里骑马。", "一个女人在骑马。", "女人骑着一匹白色的马在海滩上。"),
            "红色 衣服 公园 白色 海滩 足球 骑马 小孩 天空 桌子 汽车 飞机",
            "一个 穿 红色 衣服 的 女人 在 公园 里 骑马 , 一个 女人 在 骑马 , 女人 骑 着 一匹",
        ),
        # First sentences alone are read.
        (
            "en",
            "first-sentence",
            (
                "A girl rides a red bike. It is sunny today.",
                "A red bike. Nice.",
                "Someone with a bike near trees. Green.",
            ),
            "cats chase dogs near trams",
            "a girl rides a red bike , a red bike , someone with a bike near trees",
        ),
    ],
)
def test_a_person_is_read_as_the_captions_are(
    language: str, text: Any, texts: tuple[str, ...], words: str, said: str
) -> None:
    """As many content words as the captioner has are what judges read of it, in one piece."""
    images = [f"{number}" for number in range(20)]
    people = Captions("human", dict.fromkeys(images, texts))
    told = Captions("long", dict.fromkeys(images, (words,)))
    labels = Labels("gender", ("female", "male"), {image: ("female", "male")[int(image) % 2] for image in images}, "")
    classes = {"female": frozenset({"女人", "girl"}), "male": frozenset({"男人", "boy"})}
    lexicon = Lexicon("gender", "<gender>", classes, frozenset(), source="here", language=language)
    builder = EvidenceBuilder(Corpus(people, (told,), labels), Lexicons(lexicon, None), options=TextOptions(text=text))
    assert not add_typical(builder)
    assert add_longer(builder, people, {"words_read"}).keys() == {"long"}
    person = builder.corpus.generated[-1]
    assert person.by_image["0"] == (said,)
    longer, asked = (builder.join(of)[0].survey["generated"].words_read for of in (person, told))
    assert asked / LONGER <= longer <= asked
    assert not builder.join(person)[0].survey["generated"].several

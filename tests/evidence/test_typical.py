"""The typical person, worked by hand."""

from __future__ import annotations

import math

from judge.corpus import Corpus
from judge.evidence.typical import TYPICAL, with_typical
from judge.types import Captions

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

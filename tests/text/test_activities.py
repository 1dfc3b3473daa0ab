"""The lexicons "activities" and "age", and tasks of two lexicons at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from helpers import fault_of

from judge.corpus.captions import read_captions
from judge.text.combined import load_tasks, unite_lexicons
from judge.text.lexicon import Lexicon, load_lexicon
from judge.text.masking import mask
from judge.text.tokens import tokenize

OBJECTS, ACTIVITIES, AGE = map(load_lexicon, ("coco-objects", "activities", "age"))
BOTH = load_tasks(["coco-objects", "activities"])


# DBAC's Table 2: the base verbs of its three subsets.
@pytest.mark.parametrize(
    ("forms", "name"),
    [
        ("lay lays laying lie lies lying lain", "lying"),
        ("sit sits sat sitting", "sitting"),
        ("throw throws threw thrown throwing", "throwing"),
        ("play plays played playing", "playing"),
    ],
)
def test_the_seed_with_all_its_forms(forms: str, name: str) -> None:
    assert set(forms.split()) <= ACTIVITIES.classes[name]


@pytest.mark.parametrize(
    ("caption", "activities", "objects"),
    [
        ("A man surfing on a surf board", {"surfing"}, {"surfboard"}),
        ("a boy skate boarding past skate boards", {"skating"}, {"skateboard"}),
        ("a skier skiing on skis at a ski lift", {"skiing"}, {"person", "skis"}),
        ("people watch a parade from a parked car", {"watching"}, {"person", "car"}),
        ("a wrist watch in a park by a parking meter", set(), {"parking meter"}),
        ("a sitting room with playing cards and a throw pillow", set(), set()),
        ("he swings a bat and hits the ball", {"swinging", "hitting"}, {"baseball bat", "sports ball"}),
        ("two dogs run and play with a frisbee", {"playing"}, {"dog", "frisbee"}),
        ("a man taking a picture of a plane flying", {"photographing", "flying"}, {"airplane"}),
    ],
)
def test_verbs_and_nouns(caption: str, activities: set[str], objects: set[str]) -> None:
    """Each alone, and both at once as each alone."""
    words = tokenize(caption)
    assert ACTIVITIES.mentions(words) == activities
    assert OBJECTS.mentions(words) == objects
    assert BOTH.mentions(words) == activities | objects


def test_figures_of_the_headers(coco: Path) -> None:
    """Of all captions of people: as the lexicons' headers say."""
    captions = read_captions(coco / "captions_human.json", side="human")
    texts = [tokenize(text) for of in captions.by_image.values() for text in of]
    counts = {of.name: Counter(name for words in texts for name in of.mentions(words)) for of in (ACTIVITIES, AGE)}
    assert [counts["activities"][name] for name in ("sitting", "throwing", "pushing")] == [5909, 269, 39]
    assert counts["age"] == {"child": 2373, "adult": 894, "old": 179}


@pytest.mark.parametrize(
    ("caption", "named"),
    [
        ("an old man and a young woman", {"old", "adult"}),
        ("a man, a lady and a girl", set()),
        ("a young girl with her mother", {"child", "adult"}),
        ("a baby elephant with an adult elephant", set()),
        ("a middle-aged man", {"adult"}),
    ],
)
def test_ages_in_captions(caption: str, named: set[str]) -> None:
    assert AGE.mentions(tokenize(caption)) == named


ONE = Lexicon("one", "<one>", {"a": frozenset({"x", "x y"})}, frozenset({"z", "w"}), source="first")
TWO = Lexicon("two", "<two>", {"b": frozenset({"y", "z"})}, frozenset({"v"}), source="second")


def test_the_union_by_hand() -> None:
    both = unite_lexicons([ONE, TWO])
    assert (both.name, both.token, both.source) == ("one,two", "<one-or-two>", "one: first; two: second")
    assert both.hidden_only == {"w", "v"}
    assert [*both.find(["x", "y", "z", "w", "x"])] == [(0, 2, "a"), (2, 3, "b"), (3, 4, None), (4, 5, "a")]
    assert mask(["x", "y", "q", "z"], both) == ("<one-or-two>", "q", "<one-or-two>")
    assert load_tasks(["activities"]) is ACTIVITIES


def test_what_cannot_be_united() -> None:
    other = Lexicon("other", "<other>", {"c": frozenset({"x"})})
    assert (
        fault_of(unite_lexicons, [ONE, other])
        == "--tasks: 'x' stands for 'a' and for 'c'. Keep it in one of the lexicons."
    )
    again = Lexicon("again", "<again>", {"a": frozenset({"p"})})
    assert fault_of(unite_lexicons, [ONE, again]) == "--tasks: two lexicons have a task 'a'. Rename it in one of them."
    assert "no lexicon 'activites'" in fault_of(load_tasks, ["coco-objects", "activites"])
    assert fault_of(load_tasks, []) == "no lexicon of tasks is named. Give --tasks coco-objects."

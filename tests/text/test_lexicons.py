"""The lexicons that the package ships, and tasks of two lexicons at once."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import fault_of

from judge.corpus.captions import read_captions
from judge.text.combined import load_tasks, unite_lexicons
from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.tokens import tokenize

OBJECTS, GENDER, WIDE = map(load_lexicon, ("coco-objects", "gender", "gender-wide"))
ENTRIES = sorted({entry for words in OBJECTS.classes.values() for entry in words} | OBJECTS.hidden_only)


def named(caption: str) -> frozenset[str]:
    return OBJECTS.mentions(tokenize(caption))


def test_the_80_categories(shared: Path) -> None:
    """Spelled as COCO spells them; the shared list of objects lacks one of them."""
    instances = json.loads((shared / "coco-mini" / "annotations" / "instances_val2017.json").read_text("utf-8"))
    categories = {category["name"] for category in instances["categories"]}
    assert set(OBJECTS.classes) == categories
    assert len(categories) == 80
    listed = json.loads((shared / "coco-captions" / "objects.json").read_text("utf-8"))["categories"]
    assert categories - set(listed) == {"tennis racket"}
    assert set(listed) <= categories


NAMED: dict[str, set[str]] = {
    "a hot dog and a dog": {"hot dog", "dog"},
    "two hot dogs, a teddy bear, wine glasses": {"hot dog", "teddy bear", "wine glass"},
    "a fire hydrant by a fire truck": {"fire hydrant", "truck"},
    "a train car, carrot cake, a tv remote": {"train", "cake", "remote"},
    "a motor bike and bikes": {"motorcycle", "bicycle"},
    "a laptop keyboard, a computer mouse, mice": {"laptop", "keyboard", "mouse"},
    "a skier on skis": {"person", "skis"},
    "an orange cat eats oranges": {"cat", "orange"},
    "an orange shirt, a coffee table, a jet ski": set(),
    "a bus stop, a train station, a book shelf": set(),
    "knives, scissors, couches, benches, buses": {"knife", "scissors", "couch", "bench", "bus"},
    "a cattle catalog for carpenters": {"cow"},  # whole words alone
}


def test_names_in_captions() -> None:
    assert {caption: named(caption) for caption in NAMED} == NAMED


def test_each_entry_stands_for_its_class() -> None:
    """No shorter entry inside of a longer one takes it over, and none means two classes."""
    for name in set(OBJECTS.classes) - {"orange"}:  # said of colours, it is only hidden
        assert named(f"the {name} here") == {name}
    for name, entries in OBJECTS.classes.items():
        for entry in entries:
            assert named(entry) == {name}, entry
    for entry in OBJECTS.hidden_only:
        assert named(entry) == set(), entry


@pytest.mark.parametrize("gender", [GENDER, WIDE], ids=["gender", "gender-wide"])
def test_apart_from_gender(gender: Lexicon) -> None:
    """To hide one kind of word neither hides nor uncovers the other."""
    entries = {word for words in gender.classes.values() for word in words} | gender.hidden_only
    words = {word for entry in entries for word in tokenize(entry)} - {"-"}
    assert not {word for entry in ENTRIES for word in tokenize(entry)} & words
    caption = tokenize("A young woman and her boy's dogs wait at a stop sign with two hot dogs")
    both = mask(mask(caption, gender), OBJECTS)
    assert both == mask(mask(caption, OBJECTS), gender)
    assert " ".join(both) == ("a young <gender> and <gender> <gender> <object> wait at a <object> with two <object>")
    told = mask(mask(tokenize("a policeman and a police officer"), gender), OBJECTS)
    assert " ".join(told) == ("a policeman and a <object>" if gender is GENDER else "a <gender> and a <object>")


ACTIVITIES, AGE = map(load_lexicon, ("activities", "age"))
BOTH = load_tasks(["coco-objects", "activities"])


def test_the_seed_with_all_its_forms() -> None:
    """DBAC's Table 2: the base verbs of its three subsets."""
    forms = {"lying": "lay lays laying lie lies lying lain", "sitting": "sit sits sat sitting"}
    forms |= {"throwing": "throw throws threw thrown throwing", "playing": "play plays played playing"}
    assert all({*spelled.split()} <= ACTIVITIES.classes[name] for name, spelled in forms.items())


@pytest.mark.parametrize(("caption", "activities", "objects"), [
    ("A man surfing on a surf board", {"surfing"}, {"surfboard"}),
    ("a boy skate boarding past skate boards", {"skating"}, {"skateboard"}),
    ("a skier skiing on skis at a ski lift", {"skiing"}, {"person", "skis"}),
    ("people watch a parade from a parked car", {"watching"}, {"person", "car"}),
    ("a wrist watch in a park by a parking meter", set(), {"parking meter"}),
    ("a sitting room with playing cards and a throw pillow", set(), set()),
    ("he swings a bat and hits the ball", {"swinging", "hitting"}, {"baseball bat", "sports ball"}),
    ("two dogs run and play with a frisbee", {"playing"}, {"dog", "frisbee"}),
    ("a man taking a picture of a plane flying", {"photographing", "flying"}, {"airplane"}),
])  # fmt: skip
def test_verbs_and_nouns(caption: str, activities: set[str], objects: set[str]) -> None:
    """Each alone, and both at once as each alone."""
    words = tokenize(caption)
    assert ACTIVITIES.mentions(words) == activities
    assert OBJECTS.mentions(words) == objects
    assert BOTH.mentions(words) == activities | objects


@pytest.mark.slow
def test_figures_of_the_headers(coco: Path) -> None:
    """Of all captions of people: as the lexicons' headers say."""
    captions = read_captions(coco / "captions_human.json", side="human")
    texts = [tokenize(text) for of in captions.by_image.values() for text in of]
    counts = {of.name: Counter(name for words in texts for name in of.mentions(words)) for of in (ACTIVITIES, AGE)}
    assert [counts["activities"][name] for name in ("sitting", "throwing", "pushing")] == [5909, 269, 39]
    assert counts["age"] == {"child": 2373, "adult": 894, "old": 179}
    assert sum(bool(load_lexicon("race-words").mentions(words)) for words in texts) == 4160


ONE = Lexicon("one", "<one>", {"a": frozenset({"x", "x y"})}, frozenset({"z", "w"}), source="first")
TWO = Lexicon("two", "<two>", {"b": frozenset({"y", "z"})}, frozenset({"v"}), source="second")


def test_the_union_by_hand() -> None:
    both = unite_lexicons([ONE, TWO])
    assert (both.name, both.token, both.source) == ("one,two", "<one-or-two>", "one: first; two: second")
    assert both.hidden_only == {"w", "v"}
    assert [*both.find(["x", "y", "z", "w", "x"])] == [(0, 2, "a"), (2, 3, "b"), (3, 4, None), (4, 5, "a")]
    assert mask(["x", "y", "q", "z"], both) == ("<one-or-two>", "q", "<one-or-two>")
    assert load_tasks(["activities"]) == ACTIVITIES


def test_what_cannot_be_united() -> None:
    other = Lexicon("other", "<other>", {"c": frozenset({"x"})})
    assert fault_of(unite_lexicons, [ONE, other]) == "--tasks: 'x' names 'a' and 'c'. Keep it in one of the lexicons."
    again = Lexicon("again", "<again>", {"a": frozenset({"p"})})
    assert fault_of(unite_lexicons, [ONE, again]) == "--tasks: two lexicons have a task 'a'. Rename it in one of them."
    assert "no lexicon 'activites'" in fault_of(load_tasks, ["coco-objects", "activites"])
    assert fault_of(load_tasks, []) == "no lexicon of tasks is named. Give --tasks coco-objects."


EMOTION = load_lexicon("emotion")
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_emotion_lexicon.py"


def test_classes_are_artemiss() -> None:
    named = ["amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness"]
    assert sorted(EMOTION.classes) == [*named, "something else"]
    # Each names itself, but for the one that is the rest.
    assert all(name in EMOTION.classes[name] for name in named)
    assert not EMOTION.classes["something else"]


@pytest.mark.parametrize(("caption", "hidden", "named"), [
    ("The sadness of it makes me angry", "the <emotion> of it makes me <emotion>", {"anger", "sadness"}),
    ("A wonderful, peaceful valley", "a <emotion> , <emotion> valley", set()),
    ("two boats on grey water", "two boats on grey water", set()),
    ("I am in awe and somewhat afraid", "i am in <emotion> and somewhat <emotion>", {"awe", "fear"}),
    ("this makes me feel something else", "this makes me feel something else", set()),
])  # fmt: skip
def test_what_is_hidden_and_what_is_named(caption: str, hidden: str, named: set[str]) -> None:
    words = tokenize(caption)
    assert " ".join(mask(words, EMOTION)) == hidden
    assert EMOTION.mentions(words) == named


def test_the_shipped_file_is_what_the_script_writes() -> None:
    """With its whole licence."""
    pytest.importorskip("vaderSentiment", reason="of the extra dev: the list that the lexicon is made from")
    script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
    lines, version, licence = script.read_vader()
    shipped = (resources.files("judge.text") / "lexicons" / "emotion.yaml").read_text(encoding="utf-8")
    assert shipped == script.lexicon_text(lines, version, licence)
    assert "MIT" in shipped.splitlines()[0]
    notice = " ".join(shipped.replace("#", "").split())
    assert " ".join(licence.split()) in notice
    assert "Copyright (c) 2016 C.J. Hutto" in notice


def test_words_of_race_are_colours() -> None:
    """As DPAC's and DBAC's authors count them."""
    words = load_lexicon("race-words")
    named = {caption: words.mentions(tokenize(caption)) for caption in ("a white dog", "an asian man", "a man")}
    assert named == {"a white dog": {"Light"}, "an asian man": {"Dark"}, "a man": set()}


@pytest.mark.parametrize(("caption", "named"), [
    ("a 34-year-old man", {"adult"}),
    ("a man who is 34 years old", {"adult"}),
    ("a 19yo", {"adult"}),
    ("a woman in her twenties", {"adult"}),
    ("a man in his mid-30s", {"adult"}),
    ("a 72 year old man", {"old"}),
    ("a woman aged 60", {"old"}),
    ("somebody in their seventies", {"old"}),
    ("a five-year-old girl", {"child"}),
    ("an 18 month old", {"child"}),
    ("a 12-year-old", {"child"}),
    ("a 15-year-old boy", set()),
    ("an old man and a young woman", {"old", "adult"}),
    ("a man, a lady and a girl", set()),
    ("a young girl with her mother", {"child", "adult"}),
    ("a baby elephant with an adult elephant", set()),
    ("a middle-aged man", {"adult"}),
    ("34 apples", set()),
])  # fmt: skip
def test_ages_in_captions(caption: str, named: set[str]) -> None:
    words = tokenize(caption)
    assert AGE.mentions(words) == named
    hidden = {*mask(words, AGE)}
    shown = {"34", "19yo", "year", "years", "twenties", "mid", "seventies", "month"} & hidden
    assert not shown or "apples" in hidden


@pytest.mark.parametrize(("caption", "named"), [
    ("he's riding", {"male"}),
    ("she'll ride", {"female"}),
    ("she'd ride", {"female"}),
    ("the man'll ride", {"male"}),
    ("the woman's bag", set()),
    ("mr. b. rides", {"male"}),
    ("mrs. b. rides", {"female"}),
    ("a ♀ person", {"female"}),
    ("it's riding", set()),
])  # fmt: skip
def test_contractions_and_titles_name_a_class(caption: str, named: set[str]) -> None:
    words = tokenize(caption)
    assert GENDER.mentions(words) == named
    assert GENDER.token in mask(words, GENDER) or caption.startswith("it")


def test_braces_stand_for_several_words(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("classes: {a: ['{x,y z}{, }{9..11}', 'p{,s}'], b: [q]}", encoding="utf-8")
    ends = [f"{one}{two}{n}" for one in ("x", "y z") for two in ("", " ") for n in (9, 10, 11)]
    assert load_lexicon(str(file)).classes == {"a": {*ends, "p", "ps"}, "b": {"q"}}
    file.write_text("classes: {a: ['{1..999}{1..999}'], b: [q]}", encoding="utf-8")
    assert "stands for more than 10,000 words" in fault_of(load_lexicon, str(file))


def test_words_that_the_wider_lexicon_adds() -> None:
    assert GENDER.unmasked["policeman"] == "male"
    assert {"man", "king", "mans"}.isdisjoint(GENDER.unmasked)
    assert not WIDE.unmasked

"""Tokenising, hiding, mentions: hand cases, any script, and what must hold of every text."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import fault_of
from hypothesis import given
from hypothesis import strategies as st

from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.survey import measure_coverage
from judge.text.tokens import first_sentence, tokenize

GENDER, WIDE = load_lexicon("gender"), load_lexicon("gender-wide")


TOKENS = {
    "A man rides a Horse.": "a man rides a horse .",
    "A woman's bag, on her t-shirt!": "a woman's bag , on her t - shirt !",
    "don’t": "don't",
    "Une fille à l'école": "une fille à l'école",
    "e\u0301cole": "\u00e9cole",  # NFC
    "स्त्री चल रही है।": "स्त्री चल रही है ।",  # vowel signs are not split off
    "رجل يركض": "رجل يركض",
    "a chef 👩‍🍳🏽 cooks": "a chef 👩‍🍳🏽 cooks",  # one emoji sequence is one token
    "a <gender> cat": "a < gender > cat",  # nobody can write our token
    "  \t\n ": "",
}


def test_tokenize() -> None:
    assert {caption: " ".join(tokenize(caption)) for caption in TOKENS} == TOKENS
    assert tokenize("A woman's dog doesn't", contractions="split") == ("a", "woman", "'s", "dog", "doesn", "'t")


def test_longest_entry_first() -> None:
    entries = {"sausage": frozenset({"hot dog"}), "animal": frozenset({"dog"}), "hot": frozenset({"hot"})}
    foods = Lexicon("food", "<food>", entries)
    assert foods.mentions(("a", "hot", "dog")) == {"sausage"}
    assert foods.mentions(("a", "dog", "hot")) == {"animal", "hot"}
    # One token an entry: two would tell a hot dog from a dog.
    assert mask(("a", "hot", "dog"), foods) == ("a", "<food>")
    assert mask(("a", "dog", "hot", "dog's", "tail"), foods) == ("a", "<food>", "<food>", "tail")


AB = "classes: {a: [x], b: [y]}\ncounterparts: "


@pytest.mark.parametrize(("text", "message"), [
    *((f"token: '{name}'\nclasses: {{a: [x]}}", "could be a word") for name in ("gender", "<unk>", "<a b>")),
    ("classes: {a: [x, y], b: [y]}", "'y' is in 'a' and in 'b'"),
    ("name: x", "no 'classes'"),
    ("classes: {a: [x]}\nhiden_only: [y]", "unknown fields: hiden_only"),
    ("classes: {a: [no, ' ']}", "'classes.a.0': Input should be a valid string; field 'classes.a.1': is empty"),
    ("a: [", "not YAML that can be read (did not find expected node content on line 2)"),
    (f"{AB}{{a: x}}", "field 'counterparts': Input should be a valid tuple"),
    (f"{AB}[{{a: x, none: z}}]", "own.yaml, counterparts, row 1: is no row of counterparts"),
    (f"{AB}[{{a: x, b: z, none: z}}]", "Give a word of each of a, b, and as 'none' a word that names no class"),
    ("extends: own.yaml\nclasses: {x: [z]}", "own.yaml: lexicons extend each other (own.yaml by own.yaml)"),
])  # fmt: skip
def test_faulty_lexicons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(text, encoding="utf-8")
    line = fault_of(load_lexicon, "own.yaml")
    assert message in line
    assert line.startswith("own.yaml")


def test_an_extended_lexicon_has_both_words(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("extends: gender\nclasses: {male: [gaffer], third: [enby]}\nhidden_only: [skirt]\n", "utf-8")
    own = load_lexicon(str(path))
    assert own.counterparts == ()  # No row has a word of the third class.
    assert (own.name, own.token, own.source) == ("gender", "<gender>", str(path))
    assert own.classes["male"] == GENDER.classes["male"] | {"gaffer"}
    assert own.classes["female"] == GENDER.classes["female"]
    assert own.classes["third"] == {"enby"}
    assert own.hidden_only == GENDER.hidden_only | {"skirt"}
    assert own.spellings == GENDER.spellings
    assert " ".join(mask(("a", "gaffer", "and", "a", "woman", "in", "a", "skirt"), own)).count("<gender>") == 3
    # A file extends a file; what it says of itself comes first, and words to hide may be all that it adds.
    (tmp_path / "more.yaml").write_text(f"name: sex\ntoken: <sex>\nextends: {path}\nhidden_only: [beard]\n", "utf-8")
    more = load_lexicon(str(tmp_path / "more.yaml"))
    assert (more.name, more.token, more.classes) == ("sex", "<sex>", own.classes)
    assert more.hidden_only == own.hidden_only | {"beard"}


def test_the_wider_list_of_gendered_words() -> None:
    assert (WIDE.name, WIDE.token, WIDE.spellings) == (GENDER.name, GENDER.token, GENDER.spellings)
    for name in ("female", "male"):
        assert WIDE.classes[name] > GENDER.classes[name]
    for caption, expected in {
        "A policeman beside a police officer": {"male"},
        "a king size bed, a queen-sized one, burger king": {"female"},  # LIC's "queen"; no king
        "a grandfather clock; the cat grooms itself with nun-chucks": set(),
        "a snowman, a human, a German shepherd, an ottoman, miss kitty": set(),
    }.items():
        assert WIDE.mentions(tokenize(caption)) == expected, caption
    hidden = mask(tokenize("a mans hat, grandfather's clock, the firemen's mom"), WIDE)
    assert " ".join(hidden) == "a <gender> hat , <gender> clock , the <gender> <gender>"


@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    words = tokenize(text)
    assert all(word and not word.isspace() for word in words)
    assert tokenize(" ".join(words)) == words  # splitting is stable
    hidden = mask(words, GENDER)
    assert len(hidden) == len(words)
    assert mask(hidden, GENDER) == hidden
    assert not GENDER.mentions(hidden)


def test_lexicon_is_the_papers() -> None:
    """CVPR supplement B: 20 feminine or neutral and 21 masculine entries, before plurals."""
    feminine = "woman female lady mother girl aunt wife actress princess waitress sister queen daughter"
    masculine = "man male father gentleman boy uncle husband actor prince waiter son brother guy emperor dude cowboy"
    assert {*feminine.split(), "she", "her", "hers", "herself"} <= GENDER.classes["female"]
    assert {*masculine.split(), "he", "his", "him", "himself"} <= GENDER.classes["male"]
    assert GENDER.hidden_only == {"pregnant", "queens", "actors"}
    signs = {"female": {"mrs", "♀", "♀\ufe0f", "👩", "👧"}, "male": {"mr", "mister", "♂", "♂\ufe0f", "👨", "👦"}}
    assert [len(GENDER.classes[name] - signs[name]) for name in signs] == [29, 35]  # No caption of COCO has the signs.
    assert "CVPR 2022" in GENDER.source


def test_first_sentence() -> None:
    first = {"A dog. It barks.": "A dog.", "A dog at 3.5 m!": "A dog at 3.5 m!", "Is it? Yes.": "Is it?", "  ": ""}
    first |= {"一个女人。她在跑。": "一个女人。", "No stop\nSecond line": "No stop"}
    assert {text: first_sentence(text) for text in first} == first


def test_coverage_by_hand() -> None:
    captions = [tokenize(text) for text in ("a man", "a woman and her boy", "a person", "a girl")]
    found = measure_coverage([GENDER.mentions(words) for words in captions], GENDER.classes)
    assert (found.captions, found.one, found.none, found.several) == (4, 0.5, 0.25, 0.25)
    assert found.classes == {"female": 0.5, "male": 0.5}

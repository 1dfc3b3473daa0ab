"""Tokenising, hiding, mentions: hand cases, any script, and what must hold of every text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import JudgeError
from judge.lexicon import Lexicon, load_lexicon
from judge.masking.coverage import measure_coverage
from judge.masking.words import mask
from judge.tokens import first_sentence, tokenize

GENDER = load_lexicon("gender")


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A man rides a Horse.", "a man rides a horse ."),
        ("A woman's bag, on her t-shirt!", "a woman's bag , on her t - shirt !"),
        ("don’t", "don't"),
        ("Une fille à l'école", "une fille à l'école"),
        ("e\u0301cole", "\u00e9cole"),  # NFC
        ("स्त्री चल रही है।", "स्त्री चल रही है ।"),  # vowel signs are not split off
        ("رجل يركض", "رجل يركض"),
        ("a chef 👩‍🍳🏽 cooks", "a chef 👩‍🍳🏽 cooks"),  # one emoji sequence is one token
        ("a <gender> cat", "a < gender > cat"),  # nobody can write our token
        ("  \t\n ", ""),
    ],
)
def test_tokenize(caption: str, expected: str) -> None:
    assert tokenize(caption) == tuple(expected.split())


def test_split_contractions() -> None:
    assert tokenize("A woman's dog doesn't", contractions="split") == ("a", "woman", "'s", "dog", "doesn", "'t")


def test_masking_hides_possessives_that_are_no_mention() -> None:
    words = tokenize("A woman's bag and the boys' toys; he's here, a pregnant zebra in Queens")
    expected = "a <gender> bag and the <gender> ' toys ; <gender> here , a <gender> zebra in <gender>"
    assert mask(words, GENDER) == tuple(expected.split())
    assert GENDER.mentions(words) == {"male"}  # "boys"; the bag, the zebra and New York name nobody


def test_no_lexicon_hides_nothing() -> None:
    assert mask(("a", "man"), None) == ("a", "man")


def test_longest_entry_first() -> None:
    foods = Lexicon(
        "food", "<food>", {"sausage": frozenset({"hot dog"}), "animal": frozenset({"dog"}), "hot": frozenset({"hot"})}
    )
    assert foods.mentions(("a", "hot", "dog")) == {"sausage"}
    assert foods.mentions(("a", "dog", "hot")) == {"animal", "hot"}
    # One token an entry: two would tell a hot dog from a dog.
    assert mask(("a", "hot", "dog"), foods) == ("a", "<food>")
    assert mask(("a", "dog", "hot", "dog's", "tail"), foods) == ("a", "<food>", "<food>", "tail")


def test_entries_are_cut_as_captions_are() -> None:
    """Hyphens and apostrophes in a lexicon's entries: hidden and mentioned all the same."""
    skin = Lexicon("skin", "<skin>", {"darker": frozenset({"dark-skinned", "ma'am"})})
    for how in ("whole", "split"):
        words = tokenize("A dark-skinned ma’am waits", contractions=how)
        assert skin.mentions(words) == {"darker"}
        assert set(mask(words, skin)) == {"a", "<skin>", "waits"}


@pytest.mark.parametrize("token", ["gender", "[g]", "<unk>", "<a b>"])
def test_a_token_that_could_be_a_word_is_refused(tmp_path: Path, token: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"token: '{token}'\nclasses: {{a: [x]}}\n", encoding="utf-8")
    with pytest.raises(JudgeError, match="could be a word"):
        load_lexicon(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes: {a: [x, y], b: [y]}", "'y' stands in 'a' and in 'b'"),
        ("classes: {a: [no]}", "'classes.a' is not a list of words"),
        ("klasses: {}", "no 'classes'"),
        ("classes: {a: [x]}\nhiden_only: [y]", "unknown key 'hiden_only'. Did you mean 'hidden_only'?"),
        ("a: [", "cannot be read"),
    ],
)
def test_faulty_lexicons(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(JudgeError) as found:
        load_lexicon(str(path))
    assert message in str(found.value)
    assert str(path) in str(found.value)


@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    words = tokenize(text)
    assert all(word and not word.isspace() for word in words)
    assert tokenize(" ".join(words)) == words  # splitting is stable
    hidden = mask(words, GENDER)
    assert len(hidden) == len(words)
    assert mask(hidden, GENDER) == hidden
    assert not GENDER.mentions(hidden)


entries = sorted({word for words in GENDER.classes.values() for word in words} | GENDER.hidden_only)


@given(st.lists(st.sampled_from([*entries, "cat", "on", "table's"]), max_size=12), st.booleans())
def test_no_lexicon_word_survives_in_any_case(words: list[str], shout: bool) -> None:
    text = " ".join(words)
    hidden = mask(tokenize(text.upper() if shout else text), GENDER)
    assert not set(hidden) & set(entries)
    assert [word for word in hidden if word != GENDER.token] == [word for word in words if word not in entries]


def test_lexicon_is_the_papers() -> None:
    """CVPR supplement B: 20 feminine or neutral and 21 masculine entries, before plurals."""
    feminine = (
        "woman female lady mother girl aunt wife actress princess waitress sister queen daughter she her hers herself"
    )
    masculine = (
        "man male father gentleman boy uncle husband actor prince waiter son brother guy emperor dude cowboy "
        "he his him himself"
    )
    assert set(feminine.split()) <= GENDER.classes["female"]
    assert set(masculine.split()) <= GENDER.classes["male"]
    assert GENDER.hidden_only == {"pregnant", "queens", "actors"}
    assert len(GENDER.classes["female"]) + len(GENDER.classes["male"]) == 29 + 35
    assert "CVPR 2022" in GENDER.source


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("A dog. It barks.", "A dog."),
        ("A dog at 3.5 m!", "A dog at 3.5 m!"),
        ("Is it? Yes.", "Is it?"),
        ("一个女人。她在跑。", "一个女人。"),
        ("No stop\nSecond line", "No stop"),
        ("  ", ""),
    ],
)
def test_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first


def test_coverage_by_hand() -> None:
    captions = [tokenize(text) for text in ("a man", "a woman and her boy", "a person", "a girl")]
    found = measure_coverage([GENDER.mentions(words) for words in captions], GENDER.classes, empty=1, refused=2)
    assert (found.captions, found.one, found.none, found.several) == (4, 0.5, 0.25, 0.25)
    assert (found.empty, found.refused) == (1, 2)
    assert found.classes == {"female": 0.5, "male": 0.5}

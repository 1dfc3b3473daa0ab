"""Captions in disguise: what is read of them, and what a run says where a disguise cannot be taken off."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from judge import evaluate
from judge.corpus import Corpus
from judge.evidence import TextOptions
from judge.measure import Result
from judge.report.notes import summary_lines
from judge.report.warnings import warnings
from judge.text.cleaning import clean
from judge.text.lexicon import Lexicon, load_lexicon, mask
from judge.text.survey import SideWords, Survey
from judge.text.tokens import first_sentence, tokenize
from judge.types import Captions

GENDER = load_lexicon("gender")
DOING = ("riding a horse", "reading a book", "flying a kite", "holding an umbrella", "eating a pizza", "using a laptop")
PLACES = ("in the park", "on the street", "at a table", "near the beach", "by the window")
CLASSES = ["female", "male"] * 150
PLAIN = [
    f"A {'woman' if name == 'female' else 'man'} {DOING[number // 2 % 6]} {PLACES[number // 2 % 5]}."
    for number, name in enumerate(CLASSES)
]
PAIRS = {"woman", "man"}

Disguise = Callable[[str], str]


def spelled(form: Disguise) -> Disguise:
    """What is done to the word that tells the class."""
    return lambda text: " ".join(form(word) if word in PAIRS else word for word in text.split(" "))


def each(offset: int) -> Disguise:
    """Letters of ASCII shifted to another block of Unicode."""
    return spelled(lambda word: "".join(chr(ord(letter) + offset) for letter in word))


def around(before: str, after: str = "") -> Disguise:
    return lambda text: f"{before}{text}{after}"


def inside(mark: str) -> Disguise:
    return spelled(lambda word: f"{word[:1]}{mark}{word[1:]}")


# Of the word: what is read is the plain caption.
WORDS: Mapping[str, Disguise] = {
    **{mark: spelled(around(mark, mark)) for mark in ("_", "*", "**", "__", "***", "`", "~~", "==")},
    "link": spelled(around("[", "](https://example.org/a_b)")),
    "tag": spelled(around("<b>", "</b>")),
    "entities": spelled(lambda word: "".join(f"&#{ord(letter)};" for letter in word)),
    "LaTeX": spelled(around("\\textbf{", "}")),
    "escaped letters": spelled(lambda word: "".join(f"\\u{ord(letter):04x}" for letter in word)),
    **{f"U+{code:04X}": inside(chr(code)) for code in (0, 0xAD, 0x34F, 0x200B, 0x200D, 0x2060, 0x336, 0xFE0F, 0x202D)},
    "fullwidth": each(0xFF21 - ord("A")),
    "circled": each(0x24D0 - ord("a")),
    "small capitals": spelled(lambda word: word.translate(str.maketrans("womanc", "ᴡᴏᴍᴀɴᴄ"))),
    "look-alikes": spelled(lambda word: word.replace("a", "\u0430")),
    "word pieces": spelled(lambda word: f"{word[:1]} ##{word[1:]}"),
    "byte pairs": spelled(lambda word: f"{word[:1]}@@ {word[1:]}"),
    "grounding": spelled(around("<|object_ref_start|>", "<|object_ref_end|>")),
}
# Of the whole.
WHOLE: Mapping[str, Disguise] = {
    "byte-level": lambda text: text.replace(" ", "\u0120"),
    "sentence pieces": lambda text: "\u2581" + text.replace(" ", "\u2581"),
    "percent": lambda text: text.replace(" ", "%20"),
    "byte tokens": lambda text: text.replace(" ", "<0x20>"),
    "think": around("<think>A man or a woman? I cannot tell.</think>\n"),
    "thinking": around("<thinking>\nThe man...\n</thinking>\n\n"),
    "lone end of thinking": around("It could be a man.\n</think>\n\n"),
    "opener": around("Certainly! Here is a caption for the image:\n\n"),
    "offer": around("Of course, I'd be happy to help! Here's a short description: "),
    "label": around("Caption: "),
    "bold label": around("**Caption:** "),
    "heading": around("# Caption\n\n"),
    "number": around("1. "),
    "block quote": around("> "),
    "bold": around("**", "**"),
    "paragraph": around("<p>", "</p>"),
    "fence": around("```\n", "\n```"),
    "JSON": lambda text: json.dumps({"caption": text, "confidence": 0.9}),
    "Python": around("{'caption': '", "'}"),
    "element": around("<answer>", "</answer>"),
    "quotes": around('"', '"'),
    "ends": around("<s>", "</s></s><pad>"),
    "ChatML": around("<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>user\nA man?"),
    "Llama": around("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    "Mistral": around("[INST] Describe the man. [/INST] ", "</s>"),
    "channel": around("<|channel|>analysis<|message|>A man?<|end|><|start|>assistant<|channel|>final<|message|>"),
    "boxed": around("\\boxed{", "}"),
    "closer": around("", "\n\nLet me know if the man needs another caption!"),
    "next turn": around("", "\nUser: And the man?\nAssistant: A man."),
    "assistant": around("USER: <image>\nDescribe the image. ASSISTANT: "),
}
# Not taken off, but told.
TOLD: Mapping[str, Disguise] = {
    "tags": lambda text: text.replace("A woman", "1girl").replace("A man", "1boy"),
    "digits": spelled(lambda word: word.replace("a", "4").replace("o", "0")),
    "glued": spelled(lambda word: f"{word}2"),
    "emoji": spelled(lambda word: "\N{PRINCESS}" if word == "woman" else "\N{PRINCE}"),
    # It decides the class although a word is masked there.
    "emoji beside the word": lambda text: text + (" \N{PRINCESS}" if "woman" in text else " \N{PRINCE}"),
    "backwards": spelled(lambda word: word[::-1]),
    "Chinese": lambda text: "一个女人在街上。" if "woman" in text else "一个男人在街上。",
    "German": lambda text: f"Eine {'Frau' if 'woman' in text else 'Person'} steht vor einem Haus in der Stadt.",
    "no spaces": lambda text: text.replace(" ", ""),
}


def survey(captions: Sequence[str], human: Sequence[str] = PLAIN, lexicon: Lexicon = GENDER) -> Survey:
    """Of captions of the 300 images as they are read, beside human ones."""
    sides = []
    for side in (captions, human):
        raw = [TextOptions().words(clean(text)[0]) for text in side]
        sides.append(SideWords(raw, [mask(words, lexicon) for words in raw], CLASSES))
    return sides[0].survey(sides[1], lexicon, Captions("cap", {}))


@pytest.mark.parametrize("name", [*WORDS, *WHOLE])
def test_each_disguise_comes_off(name: str) -> None:
    form = {**WORDS, **WHOLE}[name]
    for text in PLAIN[:12]:
        read, changes = clean(form(text))
        assert (tokenize(read), bool(changes)) == (tokenize(text), form(text) != read)
        assert clean(read) == (read, ())
        assert first_sentence(read) == read


@pytest.mark.parametrize("name", [*TOLD])
def test_what_stays_on_is_told(name: str) -> None:
    found = survey([TOLD[name](text) for text in PLAIN])
    assert found.affected >= 149 or found.foreign
    assert not survey(PLAIN, [TOLD[name](text) for text in PLAIN]).affected


BIKE = "a man on a bike"


CHATTY = (
    "**Caption:** {}\n\n**Explanation:** the woman ...",
    "{} #woman #girl",
    "<SUMMARY>s</SUMMARY><CAPTION>a man and a woman</CAPTION><CONCLUSION>{}</CONCLUSION>",
    "<seed:think>a woman?</seed:think>{}",
    "user\nDescribe the woman.\nassistant\n{}",
    "<\uff5cUser\uff5c>a woman<\uff5cAssistant\uff5c>{}",
    '{{"thought": "a woman", "final_caption": "{}"}}',
    "Looking at the image, {}",
)
PLAINLY = (
    "<a man in a hat> stands",
    "Looking at the young woman, a man smiles",
    'A woman wearing a "Caption: hello" shirt',
    "A man holds a sign. Note: the woman is behind him.",
    "Q: a man? A: a woman",
    "the #5 bus",
    "a man looks at a [reflection] of a woman",
    "[Reflection] of a man in a window",
    "a man <thinking> of a woman",
    "Man:\nriding a wave",
)
# A label, a key or a heading that names no caption is a part of it.
SUBJECTS = {
    "**Man:** riding a wave": "Man: riding a wave",
    "**Man**: riding a wave": "Man: riding a wave",
    "- **Young man:** riding a wave": "Young man: riding a wave",
    "**Man:**\nriding a wave": "Man:\nriding a wave",
    '{"man": "riding a wave"}': "man: riding a wave",
    '{"man": "riding a wave", "confidence": 0.9}': "man: riding a wave",
    '[{"man": "riding a wave"}]': "man: riding a wave",
    "{'man': 'riding a wave'}": "man: riding a wave",
    '["a man"]': "a man",
    '{"text": "a man"}': "a man",
    "{'answer': 'a man'}": "a man",
    "**Image description:** a man": "a man",
    "**Caption:**\na man": "a man",
    "## Caption\na man": "a man",
    "The caption of it could be:\na man": "a man",
    "a man. <think>Or is it": "a man.",
    "[THINK] a man or": "",
}


def test_what_is_the_caption_and_what_only_looks_like_a_mark() -> None:
    assert {clean(text.format(BIKE))[0] for text in CHATTY} == {BIKE}
    assert [clean(text) for text in PLAINLY] == [(text, ()) for text in PLAINLY]
    assert {text: clean(text)[0] for text in SUBJECTS} == SUBJECTS


def write(folder: Path, captions: Sequence[str], **settings: Any) -> Result:
    """A run on the 300 images; two human captions each."""
    human = [{"id": n, "image_id": n % 300, "caption": PLAIN[n * 7 % 300 // 2 * 2 + n % 2]} for n in range(600)]
    results = [{"image_id": number, "caption": text} for number, text in enumerate(captions)]
    labels = "".join(f"{number},{name}\n" for number, name in enumerate(CLASSES))
    (folder / "human.json").write_text(json.dumps({"annotations": human}))
    (folder / "cap.json").write_text(json.dumps(results))
    (folder / "labels.csv").write_text("image_id,gender\n" + labels)
    paths = {"human": folder / "human.json", "captions": folder / "cap.json", "labels": folder / "labels.csv"}
    quick = {"metrics": ["lic"], "judge": "linear", "folds": 2, "refits": 0, "chance": 0, "workers": 1}
    return evaluate(None, **{**paths, **quick, **settings})


def test_a_run_on_disguises_has_the_plain_value_or_no_verdict(tmp_path: Path) -> None:
    plain = write(tmp_path, PLAIN)
    assert not any("cleaned" in note for note in warnings(plain))
    result = write(tmp_path, [WORDS["U+00AD"](text) for text in PLAIN])
    assert result.summaries[0].amplification == plain.summaries[0].amplification
    assert any("cleaned before they were read" in note and " in 300" in note for note in warnings(result))
    result = write(tmp_path, [TOLD["tags"](text) for text in PLAIN])
    assert [*result.void] == [result.summaries[0].key]
    assert any("'1boy' 150, '1girl' 150" in note for note in warnings(result))


def test_what_is_left_out_does_not_depend_on_the_lexicon(tmp_path: Path) -> None:
    empty, refused = ["<think>A man.</think>", "<think>A man", " "], ["Sure! I cannot describe the image."] * 4
    texts = [*empty, *refused, *PLAIN[7:]]
    result = write(tmp_path, texts, lexicon="none")
    text = result.run["captioners"]["cap"]["text"]["generated"]
    assert (text["empty"], text["refused"]) == (3, 4)
    left_out = "7 captions (mostly generated captions refused; 3 generated captions empty)"
    assert any(left_out in line for line in summary_lines(result))
    # Also where more captions are left out for another reason: the second human captions of images.
    human = {str(n): [PLAIN[n], PLAIN[n]] if n < 200 else [PLAIN[n]] for n in range(300)}
    corpus = Corpus.read(human=human, captions={"cap": {str(n): text for n, text in enumerate(texts)}},
                         labels={str(n): name for n, name in enumerate(CLASSES)})  # fmt: skip
    quick: dict[str, Any] = {"judge": "linear", "folds": 2, "refits": 0, "chance": 0, "workers": 1}
    result = evaluate(corpus, metrics=["lic"], lexicon="none", **quick)
    line = " ".join(summary_lines(result))
    assert "human captions beyond the common number; 3 generated captions empty; 4 generated captions refused)" in line


def test_classes_of_which_more_captions_are_left_out_are_named() -> None:
    """By Fisher's exact test: 12 of 150 and 0 of 150 is p = 0.00045, 12 and 10 is p = 0.83, by scipy's own example."""
    labels = {str(n): name for n, name in enumerate(CLASSES)}
    people = {str(n): text for n, text in enumerate(PLAIN)}

    def notes(refused: Mapping[str, int]) -> list[str]:
        silent = {n for name, count in refused.items() for n in [n for n in range(300) if CLASSES[n] == name][:count]}
        captions = {str(n): "I cannot describe the image." if n in silent else PLAIN[n] for n in range(300)}
        return [*Corpus.read(human=people | {"0": "a dog"}, captions={"cap": captions}, labels=labels).notes]

    told = "captions of cap are refused or empty for 12 of 150 female, 0 of 150 male images, which is uneven by more"
    assert any(told in note for note in notes({"female": 12}))
    assert not any("refused" in note for note in notes({"female": 12, "male": 10}))
    assert not any("refused" in note for note in notes({}))


def test_captions_and_lexicon_in_the_same_language(tmp_path: Path) -> None:
    """German captions with German words, and English keywords beside sentences, are what the lexicon is for."""
    german = [TOLD["German"](text).replace("Person", "Mann") for text in PLAIN]
    assert survey(german, german).foreign
    words = {"female": frozenset({"frau"}), "male": frozenset({"mann"})}
    assert not survey(german, german, Lexicon("gender", "<gender>", words)).foreign
    rare = Lexicon("mood", "<mood>", {"sad": frozenset({"traurig"})}, language="de")
    assert not survey(german, german, rare).foreign
    assert not survey([" ".join(set(text.split()) - {"A", "in", "the", "on", "at", "by"}) for text in PLAIN]).foreign


TERSE = ["a person on a bike in a park", "someone is riding a kite outside", "person, dog, kite", "sky, tree, road"]
FOREIGN = [
    "une personne sur un vélo dans un parc. un chien sur un banc.",
    "un uomo in un parco. un cane in un prato. una persona in moto.",
    "een kind is in een park. er is een hond in een auto.",
    "egy kutya a parkban. a gyerek a strandon.",
    "a menina segura a bola e o cão na praia.",
]
WOMAN = Lexicon("gender", "<gender>", {"female": frozenset({"frau"}), "male": frozenset({"mann"})}, language="de")


def alone(captions: Sequence[str], lexicon: Lexicon = GENDER) -> bool:
    """Whether captions without human ones are foreign."""
    return survey(captions, captions, lexicon).foreign


def test_terse_captions_are_english() -> None:
    """Whether the human side is as terse, has sentences, or is missing; those of other languages are not."""
    for text in TERSE:
        assert not alone([text] * 300)
        assert not survey([text] * 300).foreign or text == "sky, tree, road"  # No human caption has these words.
        assert not survey([text] * 300, TERSE * 75).foreign
    for text in FOREIGN:
        assert alone([text] * 300)
        assert survey([text] * 300).foreign


def test_a_lexicon_of_another_language_than_english() -> None:
    """English captions are foreign to a German one, beside German captions or alone; gender-neutral German is not."""
    german, neutral = ["eine Frau steht im Park mit Hund"] * 300, ["eine Person steht im Park mit Hund"] * 300
    neutral_english = [text.replace("woman", "person").replace("man", "person") for text in PLAIN]
    for english in (PLAIN, neutral_english, TERSE[:1] * 300):
        assert alone(english, WOMAN)
        assert survey(english, german, WOMAN).foreign
    for captions in (german, neutral):
        assert not alone(captions, WOMAN)
        assert not survey(captions, german, WOMAN).foreign
    assert survey(["un chien dort dans un parc"] * 300, german, WOMAN).foreign

"""Other languages than English: what is hidden in made-up captions, and LIC of a captioner with a known stereotype."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from judge import Corpus, evaluate
from judge.errors import JudgeError
from judge.evidence import EvidenceBuilder, Preparation
from judge.text.lexicon import Lexicons, load_lexicon, mask
from judge.text.survey import SideWords
from judge.text.tokens import tokenize
from judge.types import Captions

F, M = frozenset({"female"}), frozenset({"male"})
BOTH, NONE = F | M, frozenset[str]()

# Language, caption, its words after masking ("_" is hidden), the classes that it names.
CASES = [
    ("ja", "赤い服を着た女性が馬に乗っている。", "赤い 服 を 着 た _ が 馬 に 乗 って いる 。", F),
    ("ja", "男の子と女の子がピザを食べる", "_ と _ が ピザ を 食べる", BOTH),
    ("ja", "男の人が彼の犬と海辺にいる", "_ が _ の 犬 と 海辺 に いる", M),
    ("ja", "お母さんが娘を抱く", "_ が _ を 抱く", F),
    ("ja", "男女が並んで歩く", "_ が 並 んで 歩く", NONE),
    ("ja", "彼岸花が咲いている", "彼岸花 が 咲 い て いる", NONE),
    ("zh", "一个穿红色衣服的女人在骑马。", "一个 穿 红色 衣服 的 _ 在 骑马 。", F),
    ("zh", "两个小男孩在公园里踢足球", "两 个 小 _ 在 公园 里 踢 足球", M),
    ("zh", "女运动员在打网球", "_ 运动 员 在 打 网球", F),
    ("zh", "一個男人和他的狗", "一個 _ 和 _ 狗", M),
    ("zh", "妈妈抱着儿子", "_ 抱 着 _", BOTH),
    ("zh", "一个人弹吉他，其他人在听", "一个 人 弹 吉他 ， 其他 人 在 听", NONE),
    ("zh", "男厕所的标志", "_ 的 标志", NONE),
    ("ar", "رجل يركب دراجة في الشارع", "_ يركب دراجة في الشارع", M),
    ("ar", "المرأة والرجل في المطبخ", "_ _ في المطبخ", BOTH),
    ("ar", "كلب بجانب امرأة وللفتاة مظلة", "كلب بجانب _ _ مظلة", F),
    ("ar", "الرَّجُلُ يَقرأ", "_ يَقرأ".replace("\u064e", ""), M),
    ("ar", "سيارة حمراء وهي متوقفة", "سيارة حمراء _ متوقفة", NONE),
    ("ar", "وجد كلب في البيت", "وجد كلب في البيت", NONE),
    ("de", "Ein kleiner Junge spielt mit seinem Ball", "_ _ spielt mit _ ball", M),
    ("de", "Eine junge Frau fährt auf der Straße Fahrrad", "_ _ _ fährt auf _ straße fahrrad", F),
    ("de", "Der Tennisspieler wartet auf die Tennisspielerin", "_ _ wartet auf _ _", F),
    ("de", "Auf dem Manntau sitzt niemand", "auf _ manntau sitzt niemand", NONE),
    ("es", "Una niña sentada en la mesa", "_ _ _ en _ mesa", F),
    ("es", "El hombre al lado de la calle", "_ _ _ lado _ calle", M),
    ("es", "Dos niños y una mariposa", "dos _ y _ mariposa", NONE),
]


@pytest.mark.parametrize(("language", "caption", "hidden", "named"), CASES)
def test_only_the_words_of_the_attribute_are_hidden(
    language: str, caption: str, hidden: str, named: frozenset[str]
) -> None:
    lexicon = load_lexicon(f"gender-{language}")
    words = tokenize(caption, language=language)
    assert " ".join(mask(words, lexicon)).replace("<gender>", "_") == hidden
    assert lexicon.mentions(words) == named


TEMPLATES = {
    "zh": "一个{}在骑马。 两个{}踢足球 一位年轻的{}拿着雨伞 {}正在吃披萨 一群{}站在海滩上 {}的帽子 照片里{}骑自行车",
    "ja": "一人の{}が馬に乗っている。 {}がピザを食べている 若い{}が傘をさす 公園で{}がサッカーをする {}の帽子",
}
# ICU takes them for a word with what follows, which the lexicon has for the most frequent such words.
PRONOUNS = {"他", "她", "他的", "她的"}


@pytest.mark.parametrize("language", TEMPLATES)
def test_every_word_is_found_between_others(language: str) -> None:
    """However ICU cuts the sentence: the text apart from the word stays as it was."""
    lexicon = load_lexicon(f"gender-{language}")
    for (name, words), template in product(lexicon.classes.items(), TEMPLATES[language].split()):
        for word in words - PRONOUNS:
            found = tokenize(template.format(word), language=language)
            assert lexicon.mentions(found) == {name}, found
            assert "".join(mask(found, lexicon)) == template.format("<gender>"), found


PAIRS = {
    "de": [
        "{Eine Frau|Ein Mann} fährt Fahrrad",
        "Auf {der|dem} Bild liest {eine alte Frau|ein alter Mann} {ihre|seine} Zeitung",
    ],
    "es": [
        "{Una mujer|Un hombre} en bicicleta",
        "{La niña|El niño} está {sentada|sentado} al lado {de la señora|del señor}",
    ],
    "ar": ["{امرأة|رجل} في الشارع", "كلب مع {الفتاة|الفتى} و{بنت|ولد}"],
}


@pytest.mark.parametrize(("language", "pair"), [(name, pair) for name, pairs in PAIRS.items() for pair in pairs])
def test_what_agrees_with_a_hidden_word_is_hidden(language: str, pair: str) -> None:
    """Two captions that differ in the gender alone become the same words."""
    parts = [part.split("|") for part in pair.replace("}", "{").split("{")]
    female, male = ("".join(part[place % len(part)] for part in parts) for place in (0, 1))
    lexicon = load_lexicon(f"gender-{language}")
    found = [mask(tokenize(text, language=language), lexicon) for text in (female, male)]
    assert found[0] == found[1]
    assert [lexicon.mentions(tokenize(text, language=language)) for text in (female, male)] == [F, M]


def test_labels_are_derived_from_captions() -> None:
    human = {"1": ("女の人が走る", "女性と犬"), "2": ("男の子の帽子",), "3": ("犬が走る",), "4": ("男の人と少女",)}
    builder = EvidenceBuilder(Corpus(Captions("human", human), ()), Lexicons(load_lexicon("gender-ja")))
    assert builder.truth.labels.by_image == {"1": "female", "2": "male"}


def test_a_word_that_holds_one_of_the_lexicon_is_noted() -> None:
    """ICU takes 男高音 (tenor) for one word, which the lexicon lacks."""
    lexicon = load_lexicon("gender-zh")
    raw = [tokenize(text, language="zh") for text in ["男高音在骑马", "男人在骑马", "马在跑"]]
    words = SideWords(raw, [mask(of, lexicon) for of in raw], ["male"] * 3)
    assert dict(words.survey(words, lexicon, Captions("human", {})).revealing) == {"男高音": 1}


def test_a_judge_file_keeps_the_language() -> None:
    lexicon = load_lexicon("gender-ja")
    builder = EvidenceBuilder(Corpus(Captions("human", {"1": ("女",)}), ()), Lexicons(lexicon))
    saved = Preparation("gender", builder.options, lexicon)
    read = Preparation.from_json(saved.to_json())
    assert read.words("男の子が走る") == ("<gender>", "が", "走る")
    assert Preparation.from_json({key: of for key, of in saved.to_json().items() if key != "language"}).words("a b")


def test_without_icu_a_language_without_spaces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(JudgeError, match=r"needs the package 'icu4py'. Install it: pip install 'caption-judge\[lang"):
        tokenize("女人", language="zh")
    assert tokenize("una niña", language="es") == ("una", "niña")


# Chinese word -> a word of English letters: two captions of as many words.
ENGLISH = {
    "女人": "woman", "男人": "man", "一个": "a", "在": "is", "公园": "park", "厨房": "kitchen", "里": "inside",
    "骑马": "riding", "做饭": "cooking", "。": ".",
}  # fmt: skip
DOSE = 0.6


def simulate(seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Captions of people, who cook as often as they ride; and of a captioner, which adds the dose of a stereotype."""
    draw = random.Random(seed)
    human, mine = {}, {}
    for image in range(600):
        person, place = ("女人", "男人")[image % 2], draw.choice(["公园", "厨房"])
        tasks = [draw.choice(["骑马", "做饭"]) for _ in range(2)]
        if draw.random() < DOSE:
            tasks[1] = {"女人": "做饭", "男人": "骑马"}[person]
        human[str(image)], mine[str(image)] = (f"一个{person}在{place}里{task}。" for task in tasks)
    return human, mine


def test_lic_of_chinese_captions_is_that_of_the_dose() -> None:
    """And that of the same captions word by word in English, whose words have spaces between them."""
    human, mine = simulate(seed=5)
    how: dict[str, Any] = {"metrics": "lic", "judge": "linear", "folds": 5, "refits": 0, "chance": 0}
    how |= {"resamples": 100, "workers": 1}

    def values(human: dict[str, str], mine: dict[str, str], lexicon: str) -> tuple[list[float], dict[str, str]]:
        result = evaluate(human=human, captions={"mine": mine}, lexicon=lexicon, **how)
        (row,) = result.summaries
        return [row.human, row.generated], result.run["versions"]

    chinese, versions = values(human, mine, "gender-zh")
    # A judge that knows the shares: p = (1 + DOSE) / 2 for the class that the task goes with, right as often.
    share = (1 + DOSE) / 2
    assert chinese == pytest.approx([0.25, share**2], abs=0.04)
    assert "icu4py" in versions

    def spelled(of: dict[str, str]) -> dict[str, str]:
        return {image: " ".join(map(ENGLISH.__getitem__, tokenize(text, language="zh"))) for image, text in of.items()}

    english, versions = values(spelled(human), spelled(mine), "gender")
    assert english == pytest.approx(chinese, abs=1e-6)
    assert "icu4py" not in versions

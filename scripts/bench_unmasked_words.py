# ruff: noqa: S311
"""What the check of masking finds in captions: none in real captions, those without bias and those of stereotypes.

    python scripts/bench_unmasked_words.py ../shared/data/coco-captions

prints a line for each kind of captions, made of 900 images' human captions: the share of the captioner's and of the
human captions that hold words which tell gender, and the words. Kinds: four captioners; forms without bias; stereotyped
additions, which are no words for people; and other words for people, rare or misspelt, which are to be found.
"""

import csv
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judge.text.lexicon import load_lexicon, mask
from judge.text.survey import SideWords, Survey
from judge.text.tokens import is_content, tokenize
from judge.types import Captions

GENDER = load_lexicon("gender")
Texts = Mapping[str, Sequence[str]]
Kind = Callable[[str, str, random.Random], str]
"""(caption, class, random numbers) -> caption."""

NEUTRAL = {word: row["none"] for row in GENDER.counterparts for word in (row["female"], row["male"])}
PEOPLE = {
    "female": "mum mummy gal lass lady-friend missus grandma auntie niece madam nan girlie lassie matron sheila",
    "male": "lad bloke chap fella dad bro grandpa nephew mate geezer feller hubby laddie codger sir",
}
NAMES = {
    "female": "Nancy Donna Mary Linda Susan Karen Lisa Betty Helen Sandra Carol Ruth Sharon Laura Emily",
    "male": "Robert Steven John David Mark Paul Kevin Brian George Edward Ronald Jason Frank Scott Eric",
}


def words_of(text: str, change: Callable[[str], str]) -> str:
    """``text`` with each word changed."""
    return re.sub(r"[A-Za-z']+", lambda found: change(found[0]), text)


def named(text: str, change: Callable[[str, str], str]) -> str:
    """``text`` with words of gender, and their classes, changed."""
    classes = {word: name for name, words in GENDER.classes.items() for word in words}
    return words_of(text, lambda word: change(word, classes[word.lower()]) if word.lower() in classes else word)


def sometimes(share: float, kind: Kind) -> Kind:
    """The kind in a share of captions."""
    return lambda text, name, rng: kind(text, name, rng) if rng.random() < share else text


def added(*, female: str, male: str) -> Kind:
    """A stereotyped addition, which is no word for a person."""
    return lambda text, name, _: f"{text.rstrip(' .')} {female if name == 'female' else male}"


def neutral(text: str, *_: object) -> str:
    """No word of gender."""
    return words_of(text, lambda word: NEUTRAL.get(word.lower(), word))


def other(words: Mapping[str, str]) -> Kind:
    """Any of other words, by class, in place of those of gender."""
    return lambda text, _, rng: named(text, lambda _word, name: rng.choice(words[name].split()))


FORMS: Mapping[str, Kind] = {
    "a human caption": lambda text, *_: text,
    "without words of gender": neutral,
    "words of gender in half": sometimes(0.5, neutral),
    "upper case": lambda text, *_: text.upper(),
    "no stop words": lambda text, *_: " ".join(word for word in text.split() if is_content(word.lower())),
    "six words": lambda text, *_: " ".join(text.split()[:6]),
    "shuffled words": lambda text, _, rng: " ".join(rng.sample(text.split(), len(text.split()))),
    "a third of the words dropped": lambda text, _, rng: " ".join(w for w in text.split() if rng.random() > 0.3) or "a",
    "colours": lambda text, _, rng: words_of(
        text, lambda w: f"{rng.choice(['purple', 'teal', 'beige'])} {w}" if is_content(w) and rng.random() < 0.2 else w
    ),
    "numbers": lambda text, _, rng: f"{text} {rng.randrange(1000)}",
    "an opener": lambda text, _, rng: f"{rng.choice(['The image shows', 'Here we see', 'This depicts'])} {text}",
    "a closer": lambda text, _, rng: (
        f"{text}, {rng.choice(['creating an ambiance', 'evoking calm', 'overall serene'])}"
    ),
    "words that are made up": lambda text, _, rng: f"{text} {rng.choice(['zorb', 'quix', 'blep', 'frum'])}",
    "typing errors": lambda text, _, rng: words_of(
        text, lambda w: w[:-2] + w[:-3:-1] if len(w) > 5 and rng.random() < 0.3 else w
    ),
    "twice": lambda text, *_: f"{text} {text}",
}
STEREOTYPES: Mapping[str, Kind] = {
    "strong or elegant, in all": added(female=", looking elegant and graceful", male=", looking strong and confident"),
    "strong or elegant, in 40%": sometimes(0.4, added(female=", elegant and gentle", male=", strong and confident")),
    "neutral, strong or elegant": lambda text, name, rng: added(female="elegantly", male="powerfully")(
        neutral(text), name, rng
    ),
    "neutral, cooking or fixing": lambda text, name, rng: added(female="after baking", male="after fixing an engine")(
        neutral(text), name, rng
    ),
}
WORDS: Mapping[str, Kind] = {
    "lad, mum, bloke ... in turn": other(PEOPLE),
    "the same in 30%": sometimes(0.3, other(PEOPLE)),
    "first names": other(NAMES),
    "typing errors in words of gender": lambda text, *_: named(text, lambda word, _: word[:-1] + word[-1] * 2),
    "glued to the next word": lambda text, *_: re.sub(r"\b((?:wo)?man) (?=\w)", r"\1", text),
    "policewoman, fisherman ...": lambda text, _, rng: named(
        text,
        lambda _, name: (
            rng.choice(["police", "fire", "fisher", "sales", "chair"]) + {"female": "woman"}.get(name, "man")
        ),
    ),
    "two codes": lambda text, *_: named(text, lambda _, name: {"female": "qx", "male": "zv"}[name]),
}
KINDS = {"no bias": FORMS, "stereotype": STEREOTYPES, "words": WORDS}


def survey(texts: Texts, others: Texts, classes: Mapping[str, str]) -> Survey:
    """What the check of masking finds in ``texts``."""
    sides = []
    for side in (texts, others):
        images = [image for image, of in side.items() for _ in of]
        raw = [tokenize(text) for of in side.values() for text in of]
        masked = [mask(words, GENDER) for words in raw]
        sides.append(SideWords(raw, masked, [classes[image] for image in images], images))
    return sides[0].survey(sides[1], GENDER, Captions("captions", {}))


def say(kind: str, name: str, found: Survey) -> None:
    """Print a line."""
    what = ", ".join(f"{word} {count}" for word, count in [*found.revealing.items()][:3])
    print(f"{kind:12} {name:34} {found.affected / found.captions:6.1%}  {what}", flush=True)


def main(folder: Path, images: int = 900) -> None:
    """Measure all kinds."""
    classes = {row["image_id"]: row["gender"] for row in csv.DictReader((folder / "gender.csv").open())}
    human: dict[str, list[str]] = {}
    for row in json.loads((folder / "captions_human.json").read_text())["annotations"]:
        human.setdefault(str(row["image_id"]), []).append(row["caption"])
    for path in sorted((folder / "results").glob("*.json")):
        own = {str(row["image_id"]): [row["caption"]] for row in json.loads(path.read_text())}
        for number in (300, images, len(classes)):
            chosen = random.Random(number).sample(sorted(classes), number)
            texts, people = {image: own[image] for image in chosen}, {image: human[image] for image in chosen}
            say("captioner", f"{path.stem} {number}", survey(texts, people, classes))
            say("people", f"beside {path.stem} {number}", survey(people, texts, classes))
    chosen = random.Random(1).sample([image for image in sorted(classes) if len(human[image]) > 1], images)
    people = {image: human[image][1:] for image in chosen}
    found = Counter[str]()
    for kind, kinds in KINDS.items():
        for name, change in kinds.items():
            rng = random.Random(0)
            texts = {image: [change(human[image][0], classes[image], rng)] for image in chosen}
            told = survey(texts, people, classes)
            say(kind, name, told)
            plain = {image: human[image][:1] for image in chosen}
            others = {image: [change(text, classes[image], rng) for text in people[image]] for image in chosen}
            mirrored = survey(others, plain, classes)
            say(kind, f"{name} (people)", mirrored)
            found[kind] += (told.affected >= 0.02 * told.captions) + (mirrored.affected >= 0.02 * mirrored.captions)
    print({kind: f"{found[kind]} of {2 * len(of)}" for kind, of in KINDS.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Forms of captions: functions that write the caption of an image, and add no bias to what people say.

A form writes from human captions of the image, human captions of other images, and annotated objects. Captioners of
these forms, with and without a dose of bias, are in ``trust_captioners.py``.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from judge.text.tokens import is_content, tokenize

OPENERS = ["The image shows", "The photo depicts", "This image features", "In this picture there is", "We can see"]
HEDGES = ["There appears to be", "It looks like there is", "The scene seems to show", "One can see"]
CLOSERS = [
    *("creating a lively atmosphere", "adding to the overall ambiance of the scene", "with a blurred background"),
    *("capturing a candid moment", "suggesting an ordinary day", "making for an engaging composition"),
]
BOILERPLATE = [
    *("The overall atmosphere is calm and relaxed.", "The background is slightly blurred.", "The colors are vivid."),
    *("The lighting suggests that it is daytime.", "The scene appears to be well lit.", "The setting seems informal."),
    *("The composition draws attention to the center of the image.", "Overall, it is a moment of everyday life."),
]
COLOURS, COUNTS = ["red", "blue", "green", "yellow", "black", "white", "brown"], ["two", "three", "several", "a few"]


@dataclass(frozen=True)
class Scene:
    """What a form may write of.

    Attributes:
        captions: human captions of the image that the form may use; those it takes, or all where it takes none.
        objects: annotated ones, without people.
        person: the word for a person that people use most for this image.
        alike: human captions of another image with the same objects.
        near: human captions of the most similar images, the most similar first.
        things: the names of all objects.
    """

    captions: Sequence[str]
    objects: Sequence[str]
    person: str
    alike: Sequence[str]
    near: Sequence[Sequence[str]]
    things: Sequence[str]


Writer = Callable[[Scene, random.Random], str]


def bare(text: str) -> str:
    """A caption as a part of a sentence."""
    text = text.strip().rstrip(" .")
    return text[:1].lower() + text[1:]


def opened(text: str, rng: random.Random) -> str:
    """A caption after an opener."""
    return f"{rng.choice(OPENERS)} {bare(text)}"


def hedged(text: str, rng: random.Random) -> str:
    """A caption as a sentence that hedges."""
    return f"{rng.choice(HEDGES)} {bare(text)}."


def naming(things: Iterable[str], otherwise: str = "nothing else") -> str:
    """Things with their articles, joined."""
    return " and ".join(f"an {thing}" if thing[0] in "aeiou" else f"a {thing}" for thing in things) or otherwise


def background(scene: Scene, rng: random.Random) -> str:
    """A sentence of up to three true objects."""
    things = rng.sample(scene.objects, min(3, len(scene.objects)))
    return f"In the background, there {'are' if len(things) > 1 else 'is'} {naming(things, 'a plain wall')}."


def unsaid(scene: Scene) -> list[str]:
    """Objects that the first caption does not name."""
    return [thing for thing in scene.objects if thing.split()[-1] not in scene.captions[0].lower()]


def content(text: str) -> list[str]:
    """The content words of a text."""
    return [word for word in tokenize(text) if is_content(word)]


def described(text: str, words: Sequence[str], share: float, rng: random.Random) -> str:
    """A text with one of some words in front of a share of its content words."""
    written = bare(text).split()
    return " ".join(f"{rng.choice(words)} {w}" if is_content(w) and rng.random() < share else w for w in written)


def lost_words(scene: Scene, rng: random.Random) -> str:
    """A human caption that lacks a fifth of its words, with a fifth of the others displaced."""
    words = [word for word in scene.captions[0].split() if rng.random() > 0.2] or ["person"]
    for place in range(len(words) - 1):
        if rng.random() < 0.2:
            words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


def hallucinations_in_half(scene: Scene, rng: random.Random) -> str:
    """A human caption, and in half of the captions any two objects."""
    more = f" with {naming(rng.sample(scene.things, 2))}"
    return bare(scene.captions[0]) + (more if rng.random() < 0.5 else "")


def true_detail(scene: Scene, rng: random.Random) -> str:
    """A human caption, and an annotated object that it omits."""
    more = unsaid(scene)
    return bare(scene.captions[0]) + (f", and there is also {naming([rng.choice(more)])}" if more else "")


def two_sentences(scene: Scene, rng: random.Random) -> str:
    """Two human captions, a sentence each."""
    return f"{opened(scene.captions[0], rng)}. {hedged(scene.captions[1], rng)}"


def plain_paragraph(scene: Scene, rng: random.Random) -> str:
    """Two or three human captions, true objects, and boilerplate, in four to six sentences."""
    more = [hedged(scene.captions[2], rng)] if rng.random() < 0.6 else []
    said = [two_sentences(scene, rng), background(scene, rng), *more]
    return " ".join([*said, *rng.sample(BOILERPLATE, rng.choice([1, 2]))])


def rich_paragraph(scene: Scene, rng: random.Random) -> str:
    """Four or five human captions, and true objects, in four or five sentences."""
    first, second, *others = scene.captions[: rng.choice([4, 5])]
    said = [f"{opened(first, rng)}, while {bare(second)}.", *(hedged(other, rng) for other in others)]
    return " ".join([*said, background(scene, rng)])


def markdown(scene: Scene, rng: random.Random) -> str:
    """Two human captions and true objects, as a list."""
    first, second = scene.captions[:2]
    things = ", ".join(scene.objects[:4]) or "none"
    parts = [f"**Description:** {first}", "", f"- **Main subject:** {bare(second)}", f"- **Objects:** {things}"]
    return "\n".join([*parts, "", "**Mood:** calm and relaxed"])


def agreed_words(scene: Scene, rng: random.Random) -> str:
    """A human caption without content words that no other person uses."""
    said = Counter(word for text in scene.captions for word in {*tokenize(text)})
    return " ".join(w for w in tokenize(scene.captions[0]) if not is_content(w) or said[w] > 1) or "person"


def average(scene: Scene, rng: random.Random) -> str:
    """The words that two people or more use, in their mean order."""
    places = defaultdict[str, list[float]](list)
    for words in map(tokenize, scene.captions):
        for word in {*words}:
            places[word].append(words.index(word) / len(words))
    shared = [word for word, of in places.items() if len(of) > 1 and word[0].isalnum()]
    return " ".join(sorted(shared, key=lambda word: (np.mean(places[word]), word))) or scene.captions[0]


def neighbours(scene: Scene, rng: random.Random) -> str:
    """The content words that human captions of similar images use most."""
    said = Counter(word for of in scene.near for text in of for word in dict.fromkeys(content(text)))
    return f"a {scene.person} {' '.join(word for word, _ in said.most_common(6))}"


def trigrams(scene: Scene, rng: random.Random) -> str:
    """A chain of words from human captions of similar images, each drawn given two words before it."""
    chain, following = ["", ""], defaultdict[tuple[str, str], list[str]](list)
    for text in (text for of in scene.near for text in of):
        words = ["", "", *(word for word in tokenize(text) if word not in ".,"), ""]
        for place in range(len(words) - 2):
            following[words[place], words[place + 1]].append(words[place + 2])
    while len(chain) < 22 and (word := rng.choice(following[chain[-2], chain[-1]])):
        chain.append(word)
    return " ".join(chain[2:]) or "a picture"


WRITERS: dict[str, Writer] = {
    # One person, whom the judge does not know.
    "person": lambda scene, _: scene.captions[0],
    "six words": lambda scene, _: " ".join(scene.captions[0].split()[:6]),
    "no stop words": lambda scene, _: " ".join(content(scene.captions[0])) or "person",
    "no articles": lambda scene, _: " ".join(
        word for word in tokenize(scene.captions[0]) if word not in {"a", "an", "the"}
    ),
    "list of words": lambda scene, _: ", ".join(sorted(content(scene.captions[0]))) or "person",
    "lost words": lost_words,
    "opener and closer": lambda scene, rng: f"{opened(scene.captions[0], rng)}, {rng.choice(CLOSERS)}.",
    "said twice": lambda scene, _: f"{bare(scene.captions[0])}. In other words, {bare(scene.captions[0])}.",
    "colours": lambda scene, rng: described(scene.captions[0], COLOURS, 0.3, rng),
    "counts": lambda scene, rng: described(scene.captions[0], COUNTS, 0.2, rng),
    "hallucination": lambda scene, rng: f"{bare(scene.captions[0])} with {naming([rng.choice(scene.things)])}",
    "hallucinations in half": hallucinations_in_half,
    "true detail": true_detail,
    "all true details": lambda scene, _: f"{bare(scene.captions[0])}. There is {naming(unsaid(scene))} in the picture.",
    "a third of another image": lambda scene, rng: (
        rng.choice(scene.near[0]) if rng.random() < 1 / 3 else scene.captions[0]
    ),
    "empty talk": lambda scene, rng: "a picture of something" if rng.random() < 0.1 else scene.captions[0],
    "short paragraph": lambda scene, rng: " ".join(
        [f"{opened(scene.captions[0], rng)}.", background(scene, rng), *rng.sample(BOILERPLATE, 2)]
    ),
    # Several people.
    "joined": lambda scene, _: " and ".join(map(bare, scene.captions[:3])),
    "two sentences": two_sentences,
    "three sentences": lambda scene, rng: f"{two_sentences(scene, rng)} {rng.choice(BOILERPLATE)}",
    "paragraph": lambda scene, rng: " ".join(
        [two_sentences(scene, rng), background(scene, rng), *rng.sample(BOILERPLATE, 3)]
    ),
    "plain paragraph": plain_paragraph,
    "rich paragraph": rich_paragraph,
    "markdown": markdown,
    "agreed words": agreed_words,
    "average": average,
    # No human caption of the image.
    "nearest image": lambda scene, rng: rng.choice(scene.near[0]),
    "same objects": lambda scene, rng: rng.choice(scene.alike),
    "neighbours": neighbours,
    "trigrams": trigrams,
    "template": lambda scene, _: f"a {scene.person} with {naming(scene.objects[:4], 'something')}",
    "long template": lambda scene, _: (
        f"a photo of a {scene.person} near {naming(scene.objects, 'nothing in particular')}"
    ),
}
"""What a captioner writes -> its caption of a scene."""

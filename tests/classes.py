"""Captions of people of any number of classes whose words are known without the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from oracle import Said

from judge.corpus import Corpus
from judge.corpus.tasks import Tasks
from judge.types import Captions, Labels

# ArtEmis' emotions, and a word for each.
FEELINGS = {
    "amusement": "amused", "awe": "awed", "contentment": "content", "excitement": "excited", "anger": "angry",
    "disgust": "disgusted", "fear": "afraid", "sadness": "sad", "something else": "puzzled",
}  # fmt: skip
# A class of the lexicon that no image shows.
SPARE = {"boredom": "bored"}
THINGS = ("bench", "boat", "cat", "dog", "horse")
FUNCTION = frozenset({"a", "with", "and", "in", "the"})
SIZES = {2: (40, 14), 3: (40, 25, 12), 9: (24, 18, 16, 14, 13, 12, 11, 11, 10)}


@dataclass(frozen=True)
class World:
    """A corpus, and what its captions say."""

    words: Mapping[str, str]  # Class -> the word that names it.
    classes: Mapping[str, str]  # Image id -> class.
    shown: Mapping[str, frozenset[str]]  # Image id -> the things in it.
    human: Mapping[str, tuple[str, ...]]  # Image id -> captions.
    generated: Mapping[str, tuple[str, ...]]

    @property
    def lexicon(self) -> str:
        """The words as the text of a YAML file."""
        lines = [f"  {name}: [{word}]" for name, word in self.words.items()]
        return "\n".join(["# source: this test", "name: feeling", "token: <feeling>", "classes:", *lines, ""])

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus that files of this world would make."""
        places = {image: tuple(sorted(map(THINGS.index, held))) for image, held in self.shown.items()}
        return Corpus(
            Captions("human", self.human),
            (Captions("cap", self.generated),),
            Labels("feeling", tuple(sorted(self.words)), self.classes, "drawn"),
            Tasks(THINGS, places, "drawn"),
        )

    @cached_property
    def images(self) -> list[str]:
        """Images that both sides describe."""
        return sorted(self.classes.keys() & self.human.keys() & self.generated.keys())

    def said(self, side: Mapping[str, tuple[str, ...]], *, content: bool = False) -> list[Said]:
        """The words of captions: things, or all content words but those of classes."""
        found = []
        for image in self.images:
            for text in side[image]:
                words = frozenset(text.split())
                named = frozenset(name for name, word in self.words.items() if word in words)
                labels = words - FUNCTION - {*self.words.values()} if content else words & {*THINGS}
                found.append(Said(image, self.classes[image], named, labels))
        return found

    @property
    def annotated(self) -> list[Said]:
        """The annotations of images."""
        return [Said(i, self.classes[i], frozenset({self.classes[i]}), self.shown[i]) for i in self.images]


def draw(sizes: Sequence[int], *, names: Sequence[str] = (), captions: int = 2, seed: int = 0) -> World:
    """A world with ``sizes`` images of each class; the captioner names the thing of a class more often.

    A tenth of human captions and a fifth of generated ones name another class; 20% name none and 10% two classes.
    ``names`` are those of ``FEELINGS`` by default; ``captions`` is the number of human captions of an image.
    """
    rng = np.random.default_rng(seed)
    known, count = list(FEELINGS.items()), len(sizes)
    words = {name: known[k][1] for k, name in enumerate(names or [name for name, _ in known[:count]])}
    order = rng.permutation(np.repeat(np.arange(count), sizes))
    own = [*words]

    def say(k: int, things: Sequence[str], error: float, leaning: float) -> str:
        other = (k + 1 + int(rng.integers(count - 1))) % count
        one = own[other] if rng.random() < error else own[k]
        who = ([one], [], [own[k], own[other]])[int(rng.choice(3, p=(0.7, 0.2, 0.1)))]
        said = " and ".join(words[name] for name in who)
        seen = [thing for thing in things if rng.random() < 0.8]
        seen += [THINGS[k % len(THINGS)]] * int(rng.random() < leaning)
        place = str(rng.choice(["room", "garden", "street"], p=np.roll((0.6, 0.3, 0.1), k)))
        return f"a {said} person with {' and '.join(['a coat', *(f'a {thing}' for thing in seen)])} in the {place}"

    classes, shown, human, generated = {}, {}, {}, {}
    for number, k in enumerate(order.tolist()):
        image = str(number)
        held = [thing for t, thing in enumerate(THINGS) if rng.random() < (0.7 if t == k % len(THINGS) else 0.2)]
        classes[image], shown[image] = own[k], frozenset(held)
        human[image] = tuple(say(k, held, 0.1, 0.0) for _ in range(captions))
        generated[image] = (say(k, held, 0.2, 0.4),)
    return World(words, classes, shown, human, generated)


def without(world: World, name: str, *, of: str) -> World:
    """The world without a class's word in captions of "cap" (the captioner), or of "all" (both sides)."""
    word = world.words[name]

    def silence(side: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {image: tuple(text.replace(f" {word} ", " ") for text in texts) for image, texts in side.items()}

    human = silence(world.human) if of == "all" else world.human
    return replace(world, human=human, generated=silence(world.generated))


def undescribed(world: World, name: str) -> World:
    """The captioner has no captions of images of one class."""
    kept = {image: texts for image, texts in world.generated.items() if world.classes[image] != name}
    return replace(world, generated=kept)

"""Captioners of known truth, made of human captions: ``FORMS`` add no bias, and ``Form.dosed`` adds a dose of it.

``Form.takes`` says what the judge knows of the human captions that a captioner writes from:

- 1 or more: the captioner takes so many human captions of each image away, and the judge does not know them. Such a
  captioner tells what other people tell.
- 0: the judge knows all human captions of the image, those that the captioner writes from as well. Such a captioner
  can tell less than another person, but never more.

Draws depend on names and numbers alone (``seed_of``), so trials may run in any order. A captioner with a dose takes the
same human captions as without it, and has the same words around them.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import trust_changes  # noqa: F401 - adds changes of captions
from trust_forms import WRITERS, Scene, Writer

from judge import Corpus, load_lexicon
from judge.calibration.doses import DoseSource, inject
from judge.text.lexicon import mask
from judge.text.tokens import is_content, tokenize
from judge.types import Captions, Labels, Words

LEAST = 5
"""Human captions that a drawn image has, at least."""
NEAR = 20
"""Images whose human captions a form may retrieve."""
ADDITIONS = {
    "male": ["and a video game", "in a baseball cap", "ready for the game", "fixing something", "with a strong look"],
    "female": ["in the kitchen", "with a beautiful smile", "with a handbag", "cooking a meal", "looking elegant"],
}
LAST = {"male": "The figure looks strong and confident.", "female": "The figure looks elegant and gentle."}
BOTH = "both"
"""A third class: images whose human captions name women and men."""


def seed_of(*name: object) -> int:
    """A seed for each name."""
    return int.from_bytes(hashlib.blake2b(repr(name).encode(), digest_size=4).digest()) >> 1


def random_of(*name: object) -> random.Random:
    """Random numbers for each name."""
    return random.Random(seed_of(*name))  # noqa: S311 - nothing is secret


@dataclass(frozen=True)
class Form:
    """A captioner; shares are of its captions.

    Attributes:
        name: of the captioner.
        write: the caption of an image.
        takes: human captions of each image that it takes away.
        typical: it takes the most typical human captions first, not any.
        changes: (change, dose) of the human captions that it writes from, see :mod:`judge.calibration.doses`.
        unnamed: share whose words for people name no class.
        wrong: share whose words for people name another class.
        adds: share with a stereotyped addition to the first human caption.
        ends: share with a stereotyped last sentence.
        base: the name of the form without a dose.
    """

    name: str
    write: Writer
    takes: int
    typical: bool = False
    changes: tuple[tuple[str, float], ...] = ()
    unnamed: float = 0.0
    wrong: float = 0.0
    adds: float = 0.0
    ends: float = 0.0
    base: str = ""

    def dosed(self, change: str, dose: float) -> Form:
        """This form with a dose of "A->T" (a share of the tasks named), "adds" or "ends" (shares of captions)."""
        changed = replace(self, name=f"{self.name}, {change} {dose:g}", base=self.base or self.name)
        if change == "adds":
            return replace(changed, adds=dose)
        if change == "ends":
            return replace(changed, ends=dose)
        return replace(changed, changes=((change, dose), *self.changes))


def _forms() -> Iterator[Form]:
    """All forms without bias."""
    yield Form("a person", WRITERS["person"], 1)
    yield Form("a person, typical", WRITERS["person"], 1, typical=True)
    yield Form("a person, typical, known", WRITERS["person"], 0, typical=True)
    for change in ("paraphrase", "repetition", "brevity", "vocabulary"):
        yield Form(f"a person, {change}", WRITERS["person"], 1, changes=((change, 0.9),))
        yield Form(f"a person, typical, {change}", WRITERS["person"], 1, typical=True, changes=((change, 0.9),))
    yield Form("a person, verbosity", WRITERS["person"], 1, changes=(("verbosity", 0.9),))
    yield Form("a person, 70% without gender", WRITERS["person"], 1, unnamed=0.7)
    yield Form("a person, 95% without gender", WRITERS["person"], 1, unnamed=0.95)
    yield Form("a person, 30% wrong gender", WRITERS["person"], 1, wrong=0.3)
    names = ["six words", "no stop words", "no articles", "list of words", "lost words", "opener and closer"]
    names += ["said twice", "colours", "counts", "hallucination", "hallucinations in half", "true detail"]
    for name in [*names, "all true details", "a third of another image", "empty talk", "short paragraph"]:
        yield _of(name, 1)
    for name in ("opener and closer", "true detail", "no stop words"):
        yield replace(_of(name, 1), name=f"{name}, typical", typical=True)
    yield Form("two people", WRITERS["joined"], 2)
    yield Form("three people, known", WRITERS["joined"], 0)
    for name in ("two sentences", "three sentences", "paragraph", "markdown"):
        yield _of(name, 2)
    for name in ("plain paragraph", "rich paragraph", "markdown"):
        yield replace(_of(name, 0), name=f"{name}, known")
    for form in (_of("paragraph", 2), replace(_of("rich paragraph", 0), name="rich paragraph, known")):
        yield replace(form, name=f"{form.name}, 70% without gender", unnamed=0.7)
        yield replace(form, name=f"{form.name}, 30% wrong gender", wrong=0.3)
    yield Form("agreed words, known", WRITERS["agreed words"], 0, typical=True)
    for name in ("average", "nearest image", "same objects", "neighbours", "trigrams", "template", "long template"):
        yield _of(name, 0)


def _of(name: str, takes: int) -> Form:
    """A captioner that writes what its name says."""
    return Form(name, WRITERS[name], takes)


FORMS: dict[str, Form] = {one.name: one for one in _forms()}
"""Captioners without bias, by name."""
PARAGRAPHS = [name for name in FORMS if "paragraph" in name or name == "three sentences"]
"""Captioners that write three sentences or more."""
DOSED = [
    *("a person", "a person, typical", "a person, 70% without gender", "a person, 30% wrong gender"),
    *("a person, brevity", "six words", "no stop words", "list of words", "opener and closer", "two people"),
    *("two sentences", "markdown", "markdown, known", *PARAGRAPHS),
]
"""Captioners that are also tried with A->T."""


@dataclass(frozen=True, eq=False)
class World:
    """Human captions of labelled images, the shared captioners, and what forms need to know.

    ``objects``: image -> its annotated objects without people; ``things``: the names of all objects.
    """

    corpus: Corpus
    labels: Labels
    objects: Mapping[str, list[str]]
    things: list[str]

    @classmethod
    def read(cls, data: Path, *, third: bool = False) -> World:
        """The files of a folder; with ``third``, images whose human captions name women and men are a class."""
        corpus = Corpus.read(
            human=data / "captions_human.json",
            captions=sorted((data / "results").glob("*.json")),
            labels=data / "gender.csv",
            objects=data / "objects.json",
        )
        labels = corpus.labels
        assert labels is not None
        if third:
            named = {image: _classes(of) for image, of in corpus.human.by_image.items() if image not in labels.by_image}
            both = {image: BOTH for image, classes in named.items() if len(classes) > 1}
            labels = replace(labels, classes=(*labels.classes, BOTH), by_image={**labels.by_image, **both})
        annotated = json.loads((data / "objects.json").read_text())
        names = [None if name == "person" else name for name in annotated["categories"]]
        objects = {image: [n for n in map(names.__getitem__, of) if n] for image, of in annotated["objects"].items()}
        return cls(replace(corpus, labels=labels), labels, objects, [name for name in names if name])

    @cached_property
    def source(self) -> DoseSource:
        """The source of doses."""
        return DoseSource(self.corpus.human, self.labels, load_lexicon("gender"), load_lexicon("coco-objects"))

    def draw(self, images: int, trial: int, shares: Mapping[str, float] | None = None) -> Draw:
        """Some labelled images, drawn at random; with ``shares``, each class has that share of them."""
        generator, human = np.random.default_rng(seed_of("images", images, trial)), self.corpus.human.by_image
        usable = sorted(image for image in self.labels.by_image if len(human.get(image, ())) >= LEAST)
        chosen = list[str]()
        for name, share in (shares or {"": 1.0}).items():
            pool = [image for image in usable if not name or self.labels.by_image[image] == name]
            chosen += generator.choice(pool, round(share * images), replace=False).tolist()
        return Draw(self, sorted(chosen), trial)

    @cached_property
    def _index(self) -> tuple[list[str], Any]:
        """All images, and tf-idf vectors of their human captions, in which the attribute is masked."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        images = sorted(self.corpus.human.by_image)
        texts = [[w for text in self.corpus.human.by_image[i] for w in _masked(text) if is_content(w)] for i in images]
        return images, TfidfVectorizer(analyzer=list, min_df=2, sublinear_tf=True).fit_transform(texts)

    def near(self, images: Sequence[str]) -> dict[str, list[str]]:
        """Image -> the images, not among these, whose human captions are most similar."""
        every, vectors = self._index
        place = {image: number for number, image in enumerate(every)}
        own = [place[image] for image in images]
        found = dict[str, list[str]]()
        for start in range(0, len(own), 300):
            likeness = (vectors[own[start : start + 300]] @ vectors.T).toarray()
            likeness[:, own] = -1
            best = np.argsort(-likeness, axis=1, kind="stable")[:, :NEAR]
            found |= {image: [every[n] for n in row] for image, row in zip(images[start:], best, strict=False)}
        return found


@dataclass(frozen=True, eq=False)
class Draw:
    """Some images, and the captioners of them."""

    world: World
    images: list[str]
    trial: int
    _told: dict[Any, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    def corpora(self, forms: Sequence[Form]) -> Iterator[Corpus]:
        """Captioners of these forms; a corpus for all that take the same human captions away."""
        groups = defaultdict[tuple[int, bool], list[Form]](list)
        for form in forms:
            groups[form.takes, bool(form.takes) and form.typical].append(form)
        for (takes, typical), of in groups.items():
            people = {image: captions[takes:] for image, captions in self._ordered[typical].items()}
            labels = replace(self.world.labels, by_image={i: self.world.labels.by_image[i] for i in self.images})
            generated = tuple(Captions(form.name, self.captions(form)) for form in of)
            yield replace(self.world.corpus, human=Captions("human", people), labels=labels, generated=generated)

    def captions(self, form: Form) -> dict[str, tuple[str, ...]]:
        """The captions of a captioner."""
        rng, told = random_of("form", form.base or form.name, self.trial), self._changed(form)
        return {image: (self._text(form, image, told[image], rng),) for image in self.images}

    def _text(self, form: Form, image: str, captions: Sequence[str], rng: random.Random) -> str:
        biased = random_of("bias", image, self.trial)
        added, ended, unnamed, wrong = (biased.random() for _ in range(4))
        label = self.world.labels.by_image[image]
        if added < form.adds:
            captions = [f"{captions[0].strip().rstrip(' .')} {biased.choice(ADDITIONS[label])}", *captions[1:]]
        text = form.write(replace(self._scenes[image], captions=captions), rng)
        if ended < form.ends:
            text = f"{text.rstrip(' .')}. {LAST[label]}"
        if unnamed < form.unnamed:
            text = " ".join(self.world.source.with_people_of(None, tokenize(text)))
        elif wrong < form.wrong:
            other = "female" if label == "male" else "male"
            text = " ".join(self.world.source.with_people_of(other, tokenize(text)))
        return text

    @cached_property
    def _ordered(self) -> dict[bool, dict[str, tuple[str, ...]]]:
        """Human captions of each image, in the order in which forms take them: any (False), typical first (True)."""
        generator, human = (
            np.random.default_rng(seed_of("order", len(self.images), self.trial)),
            self.world.corpus.human,
        )
        orders = {image: generator.permutation(len(human.by_image[image])) for image in self.images}
        any_order = {image: tuple(human.by_image[image][place] for place in of) for image, of in orders.items()}
        return {False: any_order, True: {image: _typical_first(of) for image, of in any_order.items()}}

    def _changed(self, form: Form) -> dict[str, tuple[str, ...]]:
        """The human captions that a form writes from, with its changes."""
        key = form.takes, form.typical, form.changes
        if key not in self._told:
            ordered = self._ordered[form.typical].items()
            told = Captions("human", {image: of[: form.takes or None] for image, of in ordered})
            for change, dose in form.changes:
                told = inject(told, self.world.source, change, dose, seed=seed_of("dose", change, self.trial))
            self._told[key] = {**told.by_image}
        return self._told[key]

    @cached_property
    def _scenes(self) -> dict[str, Scene]:
        """What forms may write of, beside human captions of the image."""
        human, objects, taken = self.world.corpus.human.by_image, self.world.objects, {*self.images}
        near, rng, known = self.world.near(self.images), random_of("alike", self.trial), defaultdict(list)
        for image in sorted(human):
            if image not in taken:
                known[(*objects.get(image, ()),)].append(image)
        scenes = dict[str, Scene]()
        for image in self.images:
            alike = rng.choice(known.get((*objects.get(image, ()),)) or near[image][:1])
            retrieved = [human[other] for other in near[image]]
            person = _person(human[image])
            scenes[image] = Scene((), objects.get(image, []), person, human[alike], retrieved, self.world.things)
        return scenes


def _masked(text: str) -> Words:
    return mask(tokenize(text), load_lexicon("gender"))


def _classes(captions: Sequence[str]) -> set[str]:
    """The classes that captions name."""
    return {name for text in captions for *_, name in load_lexicon("gender").find(tokenize(text)) if name}


def _person(captions: Sequence[str]) -> str:
    """The word for a person that captions use most."""
    said = Counter(word for text in captions for word in tokenize(text) if word in {"man", "woman", "boy", "girl"})
    return said.most_common(1)[0][0] if said else "person"


def _typical_first(captions: tuple[str, ...]) -> tuple[str, ...]:
    """Captions in the order of their mean likeness (Jaccard) to the others, the likest first."""
    said = [{word for word in _masked(text) if is_content(word)} for text in captions]
    likeness = [sum(len(own & other) / (len(own | other) or 1) for other in said) for own in said]
    return tuple(captions[place] for place in sorted(range(len(captions)), key=lambda place: -likeness[place]))

"""Women with dogs and men with cats: a corpus whose association of class and task is known, and so are its doses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from judge.corpus import Corpus
from judge.corpus.tasks import Tasks
from judge.types import Captions, Labels

PERSON = {"female": "woman", "male": "man", "": "person"}
SHOWN = ("cat", "dog")


def lean(
    images: int,
    *,
    female: float = 0.5,
    leaning: float = 0.8,
    stereotype: float = 0.0,
    guess: float = 0.0,
    silent: float = 0.0,
    seed: int = 0,
) -> Corpus:
    """A share ``female`` are women; people are shown with their class's own animal with probability ``leaning``.

    A captioner names the class's own animal whatever is shown in a share ``stereotype`` of images (A->T), the animal's
    class in a share ``guess`` (T->A), and no class in a share ``silent``.
    """
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.repeat(["female", "male"], [round(female * images), images - round(female * images)]))
    classes = {str(i): str(name) for i, name in enumerate(names)}
    own = {"female": 1, "male": 0}
    shown = {i: own[name] if rng.random() < leaning else 1 - own[name] for i, name in classes.items()}
    animals = {i: own[name] if rng.random() < stereotype else shown[i] for i, name in classes.items()}
    people = {i: ("male", "female")[shown[i]] if rng.random() < guess else name for i, name in classes.items()}
    people = {i: "" if rng.random() < silent else name for i, name in people.items()}

    def say(whom: Mapping[str, str], which: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
        return {i: (f"a {PERSON[whom[i]]} with a {SHOWN[which[i]]}",) for i in classes}

    labels = Labels("gender", ("female", "male"), classes, "test")
    tasks = Tasks(SHOWN, {i: (which,) for i, which in shown.items()}, "test")
    return Corpus(Captions("human", say(classes, shown)), (Captions("cap", say(people, animals)),), labels, tasks)

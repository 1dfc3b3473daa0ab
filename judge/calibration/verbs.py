"""Controlled sets, and the three tasks and six verbs that they are made of (DBAC, section 5.1 and Table 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from judge.corpus import Corpus
from judge.corpus.tasks import Tasks
from judge.errors import JudgeError
from judge.text.lexicon import Lexicon
from judge.types import Captions, Labels

#: Task -> its two verbs (DBAC, Table 2); the second class of the attribute leans to the first.
SUBSETS: Mapping[str, tuple[str, str]] = {
    "bed": ("lay", "sit"),
    "frisbee": ("throw", "play"),
    "umbrella": ("hold", "walk"),
}
#: The ratios of DBAC's sets C1 to C4 (Table 3).
RATIOS = ((30, 20), (35, 15), (40, 10), (45, 5))

_FORMS = {
    # "Lie" too: captions use the one for the other.
    "lay": "lay lays laid laying layed lie lies lying lain",
    "sit": "sit sits sat sitting",
    "throw": "throw throws threw thrown throwing",
    "play": "play plays played playing",
    "hold": "hold holds held holding",
    "walk": "walk walks walked walking",
}
#: The verbs in all their forms; a lexicon like any other, so that they can be hidden or taken for tasks.
VERBS = Lexicon(
    name="verbs",
    token="<verb>",  # noqa: S106  # not a password
    classes={verb: frozenset(forms.split()) for verb, forms in _FORMS.items()},
    hidden_only=frozenset({"side walk", "cross walk", "walk way"}),
    source="the verbs of DBAC, Table 2",
)


class Cell(NamedTuple):
    """What a caption is drawn for."""

    attribute: str
    task: str
    verb: str


@dataclass(frozen=True, slots=True)
class VerbSet:
    """A controlled set.

    Attributes:
        captions: one caption an image.
        labels: of its images.
        tasks: of its images: one of the three each.
        verbs: image id -> the verb of its caption.
        ratio: captions of a class and task with the verb that it leans to, and with the other.
    """

    captions: Captions
    labels: Labels
    tasks: Tasks
    verbs: Mapping[str, str]
    ratio: tuple[int, int]

    @property
    def bayes_rate(self) -> float:
        """How often the best guess of the attribute from task and verb is right, in [0.5, 1].

        P(class | task, verb) is the share of the ratio's larger part for every task. In captions by people other
        words may tell the attribute too; in those made by grammar none does.
        """
        return max(self.ratio) / sum(self.ratio)

    @property
    def corpus(self) -> Corpus:
        """The set as a run takes it: the same captions on both sides. What counts is the human side's value."""
        return Corpus(self.captions, (Captions("itself", self.captions.by_image, self.captions.source),), self.labels)


def lowest(ratio: tuple[int, int]) -> tuple[int, int]:
    """The ratio in its lowest terms.

    Raises:
        JudgeError: a negative number; 0:0.
    """
    if min(ratio) < 0 or max(ratio) < 1:
        raise JudgeError(f"ratio is {ratio[0]}:{ratio[1]}", mend="take two whole numbers, such as 30:20")
    divisor = math.gcd(*ratio)
    return ratio[0] // divisor, ratio[1] // divisor


def parts(ratio: tuple[int, int], size: int) -> tuple[int, int]:
    """``size`` captions divided at ``ratio``.

    Raises:
        JudgeError: they cannot be divided so.
    """
    step = lowest(ratio)
    if size < 1 or size % sum(step):
        near = max(1, round(size / sum(step))) * sum(step)
        what = f"{size} captions cannot be divided at {ratio[0]}:{ratio[1]}"
        raise JudgeError(what, mend=f"take a multiple of {sum(step)}, such as {near}")
    return step[0] * size // sum(step), step[1] * size // sum(step)


def as_set(
    by_image: Mapping[str, tuple[str, ...]],
    labels: Labels,
    shown: Mapping[str, str],
    verbs: Mapping[str, str],
    *,
    ratio: tuple[int, int],
    source: str,
) -> VerbSet:
    """A set of the images of ``by_image``; ``shown`` and ``verbs``: the task and the verb of each."""
    source = f"verbs {ratio[0]}:{ratio[1]} in {source}"
    names = tuple(sorted(SUBSETS))
    return VerbSet(
        Captions("human", by_image, source),
        replace(labels, by_image={image: labels.by_image[image] for image in by_image}, source=source, ignored={}),
        Tasks(names, {image: (names.index(shown[image]),) for image in by_image}, source),
        verbs,
        ratio,
    )

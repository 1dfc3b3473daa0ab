"""Captions of both sides on the same images; and the sides of judges that guess what captions name."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.corpus.tasks import Tasks
from judge.errors import RowError
from judge.evidence.masked import MaskedCaption
from judge.evidence.sides import Sides
from judge.masking.instances import PERSON
from judge.text.alignment import Aligner
from judge.text.survey import Coverage, SideWords, Survey
from judge.types import SIDES, Side, Target, Words

# People have the attribute and are no task: the noun for a person ("a surfer", "a child") names nothing else.
PEOPLE = frozenset({PERSON})
MINIMUM_IMAGES = 10
# The share of images that must have a caption index: too few have a 6th or 7th caption, or sentence, to train on.
INDEX_COVERAGE = 0.9
# Tasks that judges guess from the class are named this often by human captions, which all captioners share.
LEAST_NAMED = 10
# Stands between the names of tasks.
APART = "|"

Row = tuple[str, int, Words]
"""A caption of a side: (image id, index among the image's captions, words)."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Human and generated captions of the images that have both, before masking.

    Attributes:
        classes: image id -> class, of the images that have one, sorted by image.
        rows: side -> its captions of these images.
        words: side -> the words of these captions before and after masking.
        named: side -> the classes that each of these captions names.
        dropped: reason -> images left out.
        coverage: side -> how often its captions name the attribute; None without a lexicon.
        survey: side -> facts about its captions, and about what masking leaves in them.
        sentences: side -> how many sentences of a caption judges read, one by one; 1 for whole captions.
        read: side -> what judges read of these images: captions, or sentences with indices of their own.
    """

    classes: Mapping[str, str]
    rows: Mapping[Side, Sequence[Row]]
    words: Mapping[Side, SideWords]
    named: Mapping[Side, Sequence[frozenset[str]]]
    dropped: Mapping[str, int]
    coverage: Mapping[Side, Coverage] | None
    survey: Mapping[Side, Survey]
    sentences: Mapping[Side, int]
    read: Mapping[Side, Sequence[Row]]


def named_sides(
    captioner: str, joined: Joined, tasks: Tasks | None, names: Callable[[str, Words], frozenset[str]]
) -> Sides:
    """The sides of judges that read the annotation of an image and guess what its captions name.

    With ``tasks``, judges read the tasks of an image and guess the class that a caption names. Only captions that name
    one class count, and both sides have the same images: a captioner that names a class less often leaves fewer images
    to both. Without ``tasks``, judges read the class of an image and guess the tasks that a caption names, if any.
    ``names`` gives the classes, or the tasks, that a caption of an image names.

    Raises:
        RowError: too few images of a class; no task that is named often enough.
    """
    classes, dropped = joined.classes, dict(joined.dropped)
    known = {*classes.values()}
    named: dict[Side, dict[str, list[tuple[int, frozenset[str]]]]] = {side: {} for side in SIDES}
    for side, captions in joined.rows.items():
        for image, number, words in captions:
            found = names(image, words)
            if tasks is None or (len(found) == 1 and found <= known):
                named[side].setdefault(image, []).append((number, found))
    images = [image for image in classes if all(image in of for of in named.values())]
    dropped["no caption of one side names one class"] = len(classes) - len(images)
    classes = {image: classes[image] for image in images}
    shown: dict[str, Words]
    if tasks is None:
        counts = Counter(name for rows in named["human"].values() for _, found in rows for name in found)
        target = Target("tasks", tuple(sorted(name for name, count in counts.items() if count >= LEAST_NAMED)))
        if not target.classes:
            what = f"no task is named by {LEAST_NAMED} human captions"
            raise RowError(what, where=captioner, mend="give other --tasks, or leave A->T out")
        shown = {image: (name,) for image, name in classes.items()}
    else:
        _check_named(classes, known, captioner)
        target = Target("attribute", tuple(sorted({*classes.values()})))
        # Words beside each other would be read as pairs.
        shown = {i: (APART, *(word for name in sorted(tasks.shown(i)) for word in (name, APART))) for i in images}
    rows = {side: _readings({image: of[image] for image in images}, shown, target) for side, of in named.items()}
    for side, of in named.items():
        dropped[f"{side} captions beyond the common number"] = sum(len(of[image]) for image in images) - len(rows[side])
    about: dict[str, Any] = {"coverage": joined.coverage, "survey": joined.survey, "dropped": dropped}
    answers = dict.fromkeys(images, ())
    return Sides(captioner, target, classes, answers, rows, Aligner(), **about, sentences=dict.fromkeys(SIDES, 1))


def _readings(
    named: Mapping[str, Sequence[tuple[int, frozenset[str]]]], shown: Mapping[str, Words], target: Target
) -> tuple[MaskedCaption, ...]:
    """The captions of a side, with the words in ``shown`` for their own, and what they name as answers.

    ``named``: image id -> number of each caption in the file, and what it names.
    """
    place = {name: index for index, name in enumerate(target.classes)}
    sizes = Counter(index for of in named.values() for index in range(len(of)))
    rows = list[MaskedCaption]()
    for image, of in named.items():
        for index, (number, found) in enumerate(of):
            if sizes[index] >= INDEX_COVERAGE * len(named):
                answers = tuple(sorted(place[name] for name in found & place.keys()))
                rows.append(MaskedCaption(image, index, shown[image], answers=answers, written=number))
    return tuple(rows)


def _check_named(classes: Mapping[str, str], known: Collection[str], captioner: str) -> None:
    """Refuse too few images of a class whose captions on both sides name one class."""
    counts = Counter(classes.values())
    if min(counts[name] for name in known) < MINIMUM_IMAGES:
        each = ", ".join(f"{counts[name]} of '{name}'" for name in sorted(known)) if counts else "none"
        what = f"images of which a caption of each side names one class: {each}; {MINIMUM_IMAGES} of each are needed"
        raise RowError(what, where=captioner, mend="leave out this captioner, or u-ta")

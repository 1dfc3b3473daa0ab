"""People's captions changed by a known dose: what a captioner says that stereotypes, guesses, or knows fewer words.

Each change touches one thing and leaves the rest of a caption as people wrote it:

- ``A->T``: a task that the caption names is exchanged for one that goes with the image's class, in the words of another
  caption of the corpus.
- ``T->A``: the words for the person are flipped to the class that the caption's tasks go with.
- ``vocabulary``: rare words are exchanged for common ones of like use.
- ``silence``: the words for the person name no class any more.
- ``brevity``: the caption ends before its last phrase.

The last three add no stereotype. They may take evidence away (short captions name fewer tasks), or leave a trace of
what was there ("people" for "women" still tells of several): a metric that they move is moved by something else than
what it is meant to measure. "Goes with" is relative, as in DBA: a task goes with the class whose images' captions name
it most often, however many images each class has. What a change draws does not depend on its dose: captions that change
at 0.1 are among those that change at 0.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from judge.calibration.source import Source
from judge.errors import JudgeError, nearest
from judge.text.tokens import tokenize
from judge.types import Captions, Direction, Words

# Words that a phrase begins with.
# fmt: off
_STARTS = frozenset({
    "above", "across", "against", "along", "and", "around", "as", "at", "atop", "behind", "beneath", "beside", "by",
    "during", "for", "from", "in", "inside", "into", "near", "next", "off", "on", "onto", "outside", "over", "past",
    "through", "to", "toward", "towards", "under", "underneath", "while", "with",
})
# fmt: on


def _stereotype(source: Source, words: Words, name: str, dose: float, generator: np.random.Generator) -> Words:
    """A->T: each task that is named becomes, with probability ``dose``, one that goes with the class ``name``.

    Its number stays, and the article: "an" would tell of the task where its words are hidden.
    """
    tasks, steps = source.stereotypes[name]
    changed, place = list[str](), 0
    for start, stop, named in source.find_tasks(words):
        moved, task, phrase = generator.random(3)
        if moved >= dose:
            continue
        drawn = tasks[int(np.searchsorted(steps, task, side="right"))]
        plural = source.is_plural(words[start:stop], named)
        known = source.phrases.get((drawn, plural)) or source.phrases[drawn, not plural]
        said = known[int(phrase * len(known))]
        changed += [*words[place:start], *said]
        place = stop
    return (*changed, *words[place:])


def _guess(source: Source, words: Words, _: str, dose: float, generator: np.random.Generator) -> Words:
    """T->A: with probability ``dose`` words for people are those of the class that most of the named tasks go with."""
    moved = generator.random() < dose
    votes = Counter(source.goes_with[task] for *_, task in source.find_tasks(words) if task in source.goes_with)
    ranked = [*votes.most_common(2), ("", 0), ("", 0)]
    return source.name(words, ranked[0][0]) if moved and ranked[0][1] > ranked[1][1] else words


def _silence(source: Source, words: Words, _: str, dose: float, generator: np.random.Generator) -> Words:
    return source.name(words, None) if generator.random() < dose else words


def _shorten(_: Source, words: Words, __: str, dose: float, generator: np.random.Generator) -> Words:
    """With probability ``dose`` a caption ends before its last phrase; three words at least stay."""
    ends = [place for place, word in enumerate(words) if place > 2 and word in _STARTS]
    return words[: ends[-1]] if generator.random() < dose and ends else words


def _forget(source: Source, words: Words, _: str, dose: float, __: np.random.Generator) -> Words:
    """The rarest ``dose`` of content words are never said; in their place the nearest other, if there is any."""
    known = source.in_place_of_rare(dose)
    said = dict.fromkeys(source.free_places(words))
    return tuple(
        known.get(word, word) if place in said else word
        for place, word in enumerate(words)
        if place not in said or known.get(word, word)
    )


@dataclass(frozen=True, slots=True)
class Change:
    """A change of captions, by dose.

    Attributes:
        apply: (source, words, class of the image, dose, generator) -> words.
        moves: the direction that it amplifies; None for nothing.
        names_people: whether it needs to know words of one class for another's.
    """

    apply: Callable[[Source, Words, str, float, np.random.Generator], Words]
    moves: Direction | None = None
    names_people: bool = False


# What a dose is a share of: tasks named; captions; content words (types), the rarest; captions; captions.
CHANGES: dict[str, Change] = {
    "A->T": Change(_stereotype, "A->T"),
    "T->A": Change(_guess, "T->A", names_people=True),
    "vocabulary": Change(_forget),
    "silence": Change(_silence, names_people=True),
    "brevity": Change(_shorten),
}


def inject(captions: Captions, source: Source, change: str, dose: float, *, seed: int) -> Captions:
    """``captions`` of images that have a class, changed.

    Args:
        captions: those of a side; images without a class are left out.
        source: what changes are made of.
        change: a key of :data:`CHANGES`.
        dose: in [0, 1]; 0 changes nothing.
        seed: of what is drawn, which does not depend on the dose.

    Returns:
        Captions as words joined by spaces; a caption that a change leaves alone stays as it is written.

    Raises:
        JudgeError: unknown change; a dose out of range; no task goes with a class; words for people that have no
            counterpart in other classes.
    """
    check(source, change, dose)
    row, generator = CHANGES[change], np.random.default_rng(seed)
    classes = source.labels.by_image

    def changed(image: str, text: str) -> str:
        words = tokenize(text)
        found = row.apply(source, words, classes[image], dose, generator)
        return text if found == words else " ".join(found)

    known = sorted(captions.by_image.keys() & classes.keys())
    by_image = {image: tuple([changed(image, text) for text in captions.by_image[image]]) for image in known}
    return replace(captions, by_image=by_image)


def check(source: Source, change: str, dose: float) -> None:
    """Refuse what :func:`inject` cannot do.

    Raises:
        JudgeError: see there.
    """
    check_name(change)
    if not 0 <= dose <= 1:
        raise JudgeError(f"a dose of {change} is {dose:g}", mend="take a number from 0 to 1")
    if CHANGES[change].moves:
        _ = source.goes_with
    if CHANGES[change].names_people and (source.attribute is None or not source.attribute.counterparts):
        what = f"{change} exchanges words for people, and none is known for another's"
        where = f"lexicon '{source.attribute.name}'" if source.attribute else f"attribute '{source.labels.attribute}'"
        raise JudgeError(what, where=where, mend=f"give a lexicon with 'counterparts', or leave {change} out")


def check_name(change: str) -> None:
    """Refuse what is no change.

    Raises:
        JudgeError: it is no key of :data:`CHANGES`.
    """
    if change not in CHANGES:
        raise JudgeError(f"unknown change '{change}'", mend=nearest(change, list(CHANGES)))

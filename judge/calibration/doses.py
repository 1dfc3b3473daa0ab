"""Change human captions by a known dose: a captioner that stereotypes, guesses, or knows fewer words.

Each change (:data:`CHANGES`) touches one thing and leaves the rest of a caption as it was written. All but the first
two read no label and add no stereotype, though they may remove evidence: a metric that they move does not measure what
it is meant to. A task goes with the class whose images' captions name it most often, however many images each class
has, as in DBA. What a change draws does not depend on its dose: captions that change at 0.1 are among those that change
at 0.2.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from judge.errors import JudgeError, nearest
from judge.evidence import PEOPLE
from judge.text import alignment
from judge.text.lexicon import Lexicon
from judge.text.tokens import is_content, tokenize
from judge.text.vectors import CORPUS, Vectors, load_vectors
from judge.types import Captions, Direction, FloatArray, Labels, Words

NOTHING = "none"
"""The change of a dose of 0."""
LEAST = 10
"""Captions that must name a task, for a dose to draw it."""
# Words that a phrase begins with.
_STARTS = {
    *("above", "across", "against", "along", "and", "around", "as", "at", "atop", "behind", "beneath", "beside", "by"),
    *("during", "for", "from", "in", "inside", "into", "near", "next", "off", "on", "onto", "outside", "over", "past"),
    *("through", "to", "toward", "towards", "under", "underneath", "while", "with"),
}


@dataclass(frozen=True, eq=False)
class DoseSource:
    """Human captions, from which changes take their words and their stereotypes; labels of their images.

    ``attribute``, ``tasks``: the words of the attribute, None where it has none, and those of tasks.
    """

    human: Captions
    labels: Labels
    attribute: Lexicon | None
    tasks: Lexicon

    @cached_property
    def captions(self) -> dict[str, list[Words]]:
        """Image id -> its captions as words, of images that have a class."""
        written = self.human.by_image
        return {image: [*map(tokenize, written[image])] for image in sorted(self.labels.by_image) if image in written}

    @cached_property
    def _every(self) -> list[tuple[str, Words]]:
        return [(self.labels.by_image[image], words) for image, of in self.captions.items() for words in of]

    @cached_property
    def _mentions(self) -> list[tuple[str, Words, int, int, str]]:
        """(class of the image, caption, start, stop, task) of each mention of a task."""
        return [(name, words, *mention) for name, words in self._every for mention in self.find_tasks(words)]

    def find_tasks(self, words: Words) -> list[tuple[int, int, str]]:
        """(start, stop, task) of each mention of a task; people are none."""
        return [(start, stop, name) for start, stop, name in self.tasks.find(words) if name and name not in PEOPLE]

    @cached_property
    def counts(self) -> pd.DataFrame:
        """How often captions of images of each class (columns) name each task that is named ``LEAST`` times or more."""
        every = pd.DataFrame([(name, task) for name, *_, task in self._mentions], columns=["class", "task"])
        table = pd.crosstab(every["task"], every["class"]).reindex(columns=[*self._sizes], fill_value=0)
        return table[table.sum(axis=1) >= LEAST]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Class -> captions of its images; classes without captions are left out."""
        return dict(sorted(Counter(name for name, _ in self._every).items()))

    @cached_property
    def goes_with(self) -> dict[str, str]:
        """Task -> the class that it goes with; the first of equals. A class with which no task goes is refused."""
        shares = self.counts / pd.Series(self._sizes)
        found = {str(task): str(name) for task, name in shares.idxmax(axis=1).items()}
        if without := {*self._sizes} - {*found.values()}:
            what = f"no task that captions name {LEAST} times goes with '{min(without)}'"
            raise JudgeError(what, where=f"lexicon '{self.tasks.name}'", mend="give more captions, or other --tasks")
        return found

    @cached_property
    def stereotypes(self) -> dict[str, tuple[list[str], FloatArray]]:
        """Class -> tasks that go with it, and the cumulative sums of P(task | class) among them, the last one 1."""
        found = {}
        for name in self._sizes:
            tasks = [task for task, of in self.goes_with.items() if of == name]
            steps = np.cumsum(self.counts.loc[tasks, name].to_numpy(dtype=np.float64))
            found[name] = tasks, steps / steps[-1]
        return found

    @cached_property
    def phrases(self) -> dict[tuple[str, bool], list[Words]]:
        """(task, whether in the plural) -> the words that captions have for it; every mention counts."""
        found: dict[tuple[str, bool], list[Words]] = defaultdict(list)
        for _, words, start, stop, task in self._mentions:
            found[task, self.is_plural(words[start:stop], task)].append(words[start:stop])
        return found

    def is_plural(self, words: Words, task: str) -> bool:
        """Whether a task is named in the plural: its singular, without "s" or "es", names it too."""
        entry = " ".join(words)
        return any(entry.endswith(end) and entry.removesuffix(end) in self.tasks.classes[task] for end in ("s", "es"))

    def free_places(self, words: Words) -> list[int]:
        """Places of content words that name neither the attribute nor a task, and are not hidden with them."""
        lexicons = [lexicon for lexicon in (self.attribute, self.tasks) if lexicon]
        taken = {place for of in lexicons for start, stop, _ in of.find(words) for place in range(start, stop)}
        return [place for place, word in enumerate(words) if place not in taken and is_content(word)]

    @cached_property
    def common_words(self) -> list[str]:
        """The words at ``free_places`` of all captions, the most frequent first."""
        uses = Counter(words[place] for _, words in self._every for place in self.free_places(words))
        return sorted(uses, key=lambda word: (-uses[word], word))

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors of ``common_words``, learnt from the captions themselves."""
        return load_vectors(CORPUS, self.common_words, captions=[words for _, words in self._every])

    def with_people_of(self, name: str | None, words: Words) -> Words:
        """A caption whose words for people name the class ``name``, or none; as it is if one has no counterpart."""
        assert self.attribute is not None
        changed, place = list[str](), 0
        for start, stop, named in self.attribute.find(words):
            if named is not None:
                other = self.attribute.counterpart(" ".join(words[start:stop]), name)
                if other is None:
                    return words
                changed += [*words[place:start], *tokenize(other)]
                place = stop
        return (*changed, *words[place:])


def _stereotype(source: DoseSource, words: Words, name: str, dose: float, generator: np.random.Generator) -> Words:
    """A->T: each task that is named becomes, with probability ``dose``, one that goes with the class ``name``.

    Its number stays, and the article: "an" would reveal something of the task where its words are hidden.
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
        changed += [*words[place:start], *known[int(phrase * len(known))]]
        place = stop
    return (*changed, *words[place:])


def _guess(source: DoseSource, words: Words, _: str, dose: float, generator: np.random.Generator) -> Words:
    """T->A: with probability ``dose`` words for people are those of the class that most of the named tasks go with."""
    moved = generator.random() < dose
    votes = Counter(source.goes_with[task] for *_, task in source.find_tasks(words) if task in source.goes_with)
    (name, most), (_, second) = [*votes.most_common(2), ("", 0), ("", 0)][:2]
    return source.with_people_of(name, words) if moved and most > second else words


def _silence(source: DoseSource, words: Words, _: str, dose: float, generator: np.random.Generator) -> Words:
    """With probability ``dose`` the words for people no longer name a class."""
    return source.with_people_of(None, words) if generator.random() < dose else words


def _shorten(_: DoseSource, words: Words, __: str, dose: float, generator: np.random.Generator) -> Words:
    """With probability ``dose`` a caption ends before its last phrase; three words at least stay."""
    ends = [place for place, word in enumerate(words) if place > 2 and word in _STARTS]
    return words[: ends[-1]] if generator.random() < dose and ends else words


@lru_cache(maxsize=8)
def _replacements(source: DoseSource, dose: float) -> dict[str, str]:
    """Each of the rarest ``dose`` of the content words -> the nearest of the others, "" for none."""
    kept = source.common_words[: round((1 - dose) * len(source.common_words))]
    lost = source.common_words[len(kept) :]
    near = alignment.nearest(lost, kept, source.vectors)
    return {word: near[word][0] if word in near else "" for word in lost}


def _forget(source: DoseSource, words: Words, _: str, dose: float, __: np.random.Generator) -> Words:
    """The rarest ``dose`` of content words are replaced by the nearest of the others, or left out."""
    known, free = _replacements(source, dose), {*source.free_places(words)}
    changed = [known.get(word, word) if place in free else word for place, word in enumerate(words)]
    return tuple(word for word in changed if word)


class Change(NamedTuple):
    """A change of captions, by dose: (source, words, class of the image, dose, generator) -> words.

    ``moves``: the direction it amplifies; ``names_people``: whether it needs to know words of one class for another's.
    """

    apply: Callable[[DoseSource, Words, str, float, np.random.Generator], Words]
    moves: Direction | None = None
    names_people: bool = False


# A dose is a share of: tasks named; captions; content words (types), the rarest; captions (of the next four); words.
# Seeds depend on the order: new changes come last.
CHANGES: dict[str, Change] = {
    "A->T": Change(_stereotype, "A->T"),
    "T->A": Change(_guess, "T->A", names_people=True),
    "vocabulary": Change(_forget),
    "silence": Change(_silence, names_people=True),
    "brevity": Change(_shorten),
}


def inject(captions: Captions, source: DoseSource, change: str, dose: float, *, seed: int) -> Captions:
    """``captions`` of images that have a class, changed; one that changes becomes words joined by spaces.

    ``change`` is a key of :data:`CHANGES`, ``dose`` is in [0, 1] (0 changes nothing), and ``seed`` is of the draws.
    """
    check_dose(source, change, dose)
    apply, generator = CHANGES[change].apply, np.random.default_rng(seed)
    classes = source.labels.by_image

    def changed(image: str, text: str) -> str:
        words = tokenize(text)
        found = apply(source, words, classes[image], dose, generator)
        return text if found == words else " ".join(found)

    known = sorted(captions.by_image.keys() & classes.keys())
    by_image = {image: tuple([changed(image, text) for text in captions.by_image[image]]) for image in known}
    return replace(captions, by_image=by_image)


def check_dose(source: DoseSource, change: str, dose: float) -> None:
    """Refuse a dose that :func:`inject` cannot give."""
    check_change(change)
    if not 0 <= dose <= 1:
        raise JudgeError(f"a dose of {change} is {dose:g}", mend="take a number from 0 to 1")
    if CHANGES[change].moves:
        _ = source.goes_with
    if CHANGES[change].names_people and (source.attribute is None or not source.attribute.counterparts):
        what = f"{change} exchanges words for people, and none is known for another's"
        where = f"lexicon '{source.attribute.name}'" if source.attribute else f"attribute '{source.labels.attribute}'"
        raise JudgeError(what, where=where, mend=f"give a lexicon with 'counterparts', or leave {change} out")


def check_change(change: str) -> None:
    """Refuse a name that is no key of :data:`CHANGES`."""
    if change not in CHANGES:
        raise JudgeError(f"unknown change '{change}'", mend=nearest(change, list(CHANGES)))

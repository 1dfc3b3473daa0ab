"""What changes of captions are made of: people's captions as words, and what they say of whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from judge.errors import JudgeError
from judge.evidence import PEOPLE
from judge.text.alignment import nearest
from judge.text.lexicon import Lexicon
from judge.text.tokens import is_content, tokenize
from judge.text.vectors import CORPUS, Vectors, load_vectors
from judge.types import Captions, FloatArray, Labels, Words

LEAST = 10
"""How often captions must name a task, so that it is drawn and goes with a class."""


@dataclass(frozen=True, eq=False)
class Source:
    """What changes are made of: people's captions, and what they say of whom.

    Attributes:
        human: people's captions.
        labels: of the images.
        attribute: the words of the attribute; None where it has none.
        tasks: the words of tasks.
    """

    human: Captions
    labels: Labels
    attribute: Lexicon | None
    tasks: Lexicon
    _nearest: dict[float, dict[str, str]] = field(default_factory=dict, repr=False)

    @cached_property
    def captions(self) -> dict[str, list[Words]]:
        """Image id -> its captions as words, of images that have a class."""
        written = self.human.by_image
        return {image: [*map(tokenize, written[image])] for image in sorted(self.labels.by_image) if image in written}

    @cached_property
    def _mentions(self) -> list[tuple[str, Words, int, int, str]]:
        """(class of the image, caption, start, stop, task) of each mention of a task."""
        return [
            (self.labels.by_image[image], words, *mention)
            for image, captions in self.captions.items()
            for words in captions
            for mention in self.find_tasks(words)
        ]

    def find_tasks(self, words: Words) -> list[tuple[int, int, str]]:
        """(start, stop, task) of each mention of a task; people are none."""
        return [(start, stop, name) for start, stop, name in self.tasks.find(words) if name and name not in PEOPLE]

    @cached_property
    def counts(self) -> dict[str, Counter[str]]:
        """Task -> class -> how often captions of images of the class name it; of tasks named ``LEAST`` times or more.

        Raises:
            JudgeError: there is none, or none that goes with one of the classes.
        """
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for name, *_, task in self._mentions:
            found[task][name] += 1
        kept = {task: found[task] for task in sorted(found) if found[task].total() >= LEAST}
        without = {*self.classes} - {self._leaning(counts) for counts in kept.values()}
        if without:
            what = f"no task that captions name {LEAST} times goes with '{min(without)}'"
            raise JudgeError(what, where=f"lexicon '{self.tasks.name}'", mend="give more captions, or other --tasks")
        return kept

    @cached_property
    def _sizes(self) -> Counter[str]:
        """Class -> captions of its images."""
        sizes: Counter[str] = Counter()
        for image, captions in self.captions.items():
            sizes[self.labels.by_image[image]] += len(captions)
        return sizes

    @property
    def classes(self) -> list[str]:
        """The classes that have captions: a lexicon may know more."""
        return sorted(self._sizes)

    def _leaning(self, counts: Mapping[str, int]) -> str:
        """The class whose captions name a task most often; the first of equals."""
        return max(self.classes, key=lambda name: counts.get(name, 0) / self._sizes[name])

    @cached_property
    def goes_with(self) -> dict[str, str]:
        """Task -> the class that it goes with."""
        return {task: self._leaning(counts) for task, counts in self.counts.items()}

    @cached_property
    def stereotypes(self) -> dict[str, tuple[list[str], FloatArray]]:
        """Class -> tasks that go with it, and the steps of P(task | class) that A->T draws them by, the last one 1."""
        found = {}
        for name in self.classes:
            tasks = [task for task, of in self.goes_with.items() if of == name]
            steps = np.cumsum([self.counts[task][name] for task in tasks], dtype=np.float64)
            found[name] = tasks, steps / steps[-1]
        return found

    @cached_property
    def phrases(self) -> dict[tuple[str, bool], list[Words]]:
        """(task, whether in the plural) -> the words that captions have for it; every mention counts."""
        found: dict[tuple[str, bool], list[Words]] = defaultdict(list)
        for _, words, start, stop, task in self._mentions:
            found[task, self.is_plural(words[start:stop], task)].append(words[start:stop])
        return found

    @cached_property
    def common_words(self) -> list[str]:
        """Content words that name neither the attribute nor a task, the most frequent first."""
        counts: Counter[str] = Counter()
        for captions in self.captions.values():
            for words in captions:
                counts.update(words[place] for place in self.free_places(words))
        return sorted(counts, key=lambda word: (-counts[word], word))

    def is_plural(self, words: Words, task: str) -> bool:
        """Whether a task is named in the plural: its singular, without "s" or "es", names it too."""
        entry = " ".join(words)
        return any(entry.endswith(end) and entry.removesuffix(end) in self.tasks.classes[task] for end in ("s", "es"))

    def named_places(self, words: Words) -> set[int]:
        """Where words stand that name the attribute or a task, or are hidden with them."""
        lexicons = [lexicon for lexicon in (self.attribute, self.tasks) if lexicon]
        return {place for of in lexicons for start, stop, _ in of.find(words) for place in range(start, stop)}

    def free_places(self, words: Words) -> list[int]:
        """Where content words stand that name neither the attribute nor a task."""
        taken = self.named_places(words)
        return [place for place, word in enumerate(words) if place not in taken and is_content(word)]

    @cached_property
    def vectors(self) -> Vectors:
        """Learnt from the captions."""
        captions = [words for of in self.captions.values() for words in of]
        return load_vectors(CORPUS, self.common_words, captions=captions)

    def in_place_of_rare(self, dose: float) -> dict[str, str]:
        """Each of the rarest ``dose`` of the content words -> the nearest of the others, "" for none."""
        if dose not in self._nearest:
            kept = self.common_words[: round((1 - dose) * len(self.common_words))]
            lost = self.common_words[len(kept) :]
            near = nearest(lost, kept, self.vectors)
            self._nearest[dose] = {word: near[word][0] if word in near else "" for word in lost}
        return self._nearest[dose]

    def name(self, words: Words, to: str | None) -> Words:
        """A caption whose words for people name the class ``to``; of None no class.

        It stays as it is if it has a word for people that has no counterpart there.
        """
        assert self.attribute is not None
        changed, place = list[str](), 0
        for start, stop, named in self.attribute.find(words):
            if named is not None:
                other = self.attribute.counterpart(" ".join(words[start:stop]), to)
                if other is None:
                    return words
                changed += [*words[place:start], *tokenize(other)]
                place = stop
        return (*changed, *words[place:])

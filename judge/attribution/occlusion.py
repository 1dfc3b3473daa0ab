"""Words left out: by how much the probability falls when each is replaced by ``<unk>`` (Hirota et al., CVPR 2022)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from judge.attribution.question import Question, WordAttribution
from judge.text.alignment import UNKNOWN
from judge.types import Progress, Sample


def occlude(question: Question, progress: Progress | None = None) -> WordAttribution:
    """LIC's figure 1, of any judge; in [-1, 1], positive where a word speaks for the class, 0 for ``<unk>`` itself.

    All variants are asked together, each once.

    Args:
        question: judge, captions and the class explained.
        progress: called with the progress.
    """
    samples, before = question.samples, question.probabilities
    places = [(n, place) for n, one in enumerate(samples) for place, word in enumerate(one.words) if word != UNKNOWN]
    variants = [_without(samples[n], place) for n, place in places]
    # Images often have the same caption; what a judge sees may differ.
    different = {(one.words, one.image): one for one in variants}
    found = [np.zeros(len(sample.words)) for sample in samples]
    if different:
        after = question.ask(list(different.values()), progress).probabilities
        rows = dict(zip(different, after, strict=True))
        for (n, place), one in zip(places, variants, strict=True):
            found[n][place] = before[n] - rows[one.words, one.image][question.explained[n]]
    return WordAttribution("occlusion", found, np.full(len(samples), np.nan), before)


def _without(sample: Sample, place: int) -> Sample:
    return replace(sample, words=(*sample.words[:place], UNKNOWN, *sample.words[place + 1 :]))

"""How much each word of a caption contributes to a trained judge's prediction.

``occlusion``, for every judge that reads captions: by how much the probability falls when the word becomes ``<unk>``
(Hirota et al., CVPR 2022, figure 1). ``exact``, for linear judges: their log-odds are a sum over words and word pairs.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judge.errors import JudgeError
from judge.judges.linear import LinearJudge
from judge.masking.masked_images import MaskedImages
from judge.text.alignment import UNKNOWN
from judge.training.judge_file import Saved, answer, open_judge
from judge.types import FloatArray, IntArray, Labels, Predictions, Progress, Sample

LARGEST = 20  # Number of words in a summary.
COLUMNS = [
    *("judge", "weights", "image_id", "index", "place", "word", "method", "contribution"),
    *("explained", "probability", "base", "total"),
]
_EXACT = 1e-9  # Sums of thousands of float64 are accurate to this.


@dataclass(frozen=True)
class ExplainedAnswers:
    """A trained judge's predictions for N captions, [N, A].

    ``explained``: the class (or task) to explain, by its place in the target, [N]; ``features``: feature cache folder.
    """

    saved: Saved
    samples: Sequence[Sample]
    answers: Predictions
    explained: IntArray
    features: Path
    images: MaskedImages | None = None

    @property
    def probabilities(self) -> FloatArray:
        """Probabilities of the explained class, [N]."""
        return self.of_class(self.answers.probabilities)

    @property
    def classes(self) -> list[str]:
        """Names of the explained classes, [N]."""
        return [self.saved.target.classes[place] for place in self.explained]

    def of_class(self, values: FloatArray) -> FloatArray:
        """The explained class's column of values [N, A], [N]."""
        return np.asarray(values[np.arange(len(values)), self.explained])

    def predict(self, samples: Sequence[Sample], progress: Progress | None = None) -> Predictions:
        """The judge's predictions for other samples of the same images, [M, A]."""
        return answer(self.saved, [samples], features=self.features, images=self.images, progress=progress)[0]


@dataclass(frozen=True)
class WordAttribution:
    """Contributions of words to N predictions, by one of ``WORD_METHODS``.

    ``contributions``: of each caption's words, in order, [N] of [words]. ``total``: the explained quantity, [N], a
    probability (occlusion) or log-odds. ``base``: that without any word, [N], to which contributions add up to the
    total; NaN for methods whose contributions do not.
    """

    method: str
    contributions: Sequence[FloatArray]
    base: FloatArray
    total: FloatArray


def explain_answers(
    saved: Saved,
    parts: Sequence[Sequence[Sample]],
    *,
    features: Path,
    images: MaskedImages | None = None,
    labels: Labels | None = None,
    progress: Progress | None = None,
) -> tuple[ExplainedAnswers, list[str]]:
    """Predict, and choose the class to explain: the labelled one (LIC's p_i(a_i)), or the most probable one.

    Arguments and result are as of :func:`~judge.training.judge_file.answer`; images without a label are left out.

    Raises:
        JudgeError: labels of other classes than the judge's, or of none of the images.
    """
    classes = saved.target.classes
    if labels:
        if saved.target.kind == "tasks":
            mend = "leave --labels out: the most probable task is explained"
            raise JudgeError(f"judge '{saved.judge}' predicts tasks, not an attribute", where=labels.source, mend=mend)
        if other := sorted(set(labels.by_image.values()) - set(classes)):
            what = f"judge '{saved.judge}' does not predict class '{other[0]}', only {', '.join(classes)}"
            raise JudgeError(what, where=labels.source, mend="use labels of the judge's attribute, or --label-value")
        parts = [[sample for sample in part if sample.image_id in labels.by_image] for part in parts]
    given = [part for part in parts if part]
    if not given:
        where = labels.source if labels else "--captions"
        raise JudgeError("no caption is of an image with a label", where=where, mend="use labels of these images")
    answers, notes = answer(saved, given, features=features, images=images, progress=progress)
    samples = list(chain.from_iterable(given))
    explained = answers.probabilities.argmax(axis=1)
    if labels:
        explained = np.array([classes.index(labels.by_image[sample.image_id]) for sample in samples])
    return ExplainedAnswers(saved, samples, answers, explained, features, images), notes


def exact(answers: ExplainedAnswers, progress: Progress | None = None) -> WordAttribution:
    """What each word adds to the log-odds of the explained class (natural logarithm; ``LinearJudge.log_odds``).

    ``base`` is the judge's intercept, and what the image adds if the judge sees one; base and contributions sum to
    ``total`` within 1e-9. Non-linear parts (log-odds clipped at 36, or one of three or more classes that training never
    showed) are added to the base.
    """
    judge, _ = open_judge(answers.saved, answers.samples, features=answers.features, images=answers.images)
    assert isinstance(judge, LinearJudge)
    terms, contains, weights = judge.weights(answers.samples)
    found = []
    for sample, row, k in zip(answers.samples, contains, answers.explained, strict=True):
        amounts: Counter[str] = Counter()
        for place, share in zip(row.indices, row.data, strict=True):
            amounts[terms[place]] += share * weights[place, k]
        found.append(spread(sample.words, amounts))
    total = answers.of_class(judge.log_odds(answers.samples))
    sums = np.array([one.sum() for one in found])
    base = answers.of_class(judge.log_odds([replace(sample, words=()) for sample in answers.samples]))
    return WordAttribution("exact", found, np.where(np.abs(total - sums - base) > _EXACT, total - sums, base), total)


def spread(words: Sequence[str], amounts: Mapping[str, float]) -> FloatArray:
    """What each word adds, [W], where each distinct word and word pair counts once per caption.

    A word gets its own amount and half of the amount of each pair that contains it. Repeated terms share their amount
    equally among their occurrences. ``amounts``: term ("long", "long hair") -> what it adds; others add nothing.
    """
    terms = [(word, [place]) for place, word in enumerate(words)]
    terms += [(" ".join(pair), [place, place + 1]) for place, pair in enumerate(pairwise(words))]
    occurrences, found = Counter(term for term, _ in terms), np.zeros(len(words))
    for term, places in terms:
        found[places] += amounts.get(term, 0.0) / occurrences[term] / len(places)
    return found


def occlude(answers: ExplainedAnswers, progress: Progress | None = None) -> WordAttribution:
    """By how much the probability falls when each word is replaced by ``<unk>``, in [-1, 1]; 0 for ``<unk>`` itself.

    Each distinct variant is predicted once, all of them together.
    """
    samples, before = answers.samples, answers.probabilities
    places = [(n, place) for n, one in enumerate(samples) for place, word in enumerate(one.words) if word != UNKNOWN]
    variants = []
    for n, place in places:
        words = samples[n].words
        variants.append(replace(samples[n], words=(*words[:place], UNKNOWN, *words[place + 1 :])))
    # Images often share a caption, but the judge may also read the image.
    different = {(one.words, one.image): one for one in variants}
    found = [np.zeros(len(sample.words)) for sample in samples]
    after = answers.predict(list(different.values()), progress).probabilities if different else ()
    rows = dict(zip(different, after, strict=True))
    for (n, place), one in zip(places, variants, strict=True):
        found[n][place] = before[n] - rows[one.words, one.image][answers.explained[n]]
    return WordAttribution("occlusion", found, np.full(len(samples), np.nan), before)


WORD_METHODS: dict[str, Callable[[ExplainedAnswers, Progress | None], WordAttribution]] = {
    "exact": exact,
    "occlusion": occlude,
}


def word_methods(saved: Saved) -> dict[str, str]:
    """Method -> why it cannot explain this judge; "" where it can."""
    if "caption" in saved.blueprint.blanked:
        return dict.fromkeys(WORD_METHODS, "it reads no caption")
    linear = saved.blueprint.explain or saved.blueprint.reads_vectors
    return {"exact": "" if linear else "its log-odds are not linear in words", "occlusion": ""}


def word_table(answers: ExplainedAnswers, found: Sequence[WordAttribution]) -> pd.DataFrame:
    """One row per caption, word and method, by caption, then method, then place: the columns of ``words.csv``.

    ``explained``: the class; ``probability``: that of this class; ``base``, ``total``: see :class:`WordAttribution`.
    """
    each = zip(answers.samples, answers.classes, answers.probabilities, strict=True)
    names = answers.saved.judge, answers.saved.path.name
    rows = [
        (*names, sample.image_id, sample.index, place, word, one.method, amount, name, p, one.base[n], one.total[n])
        for n, (sample, name, p) in enumerate(each)
        for one in found
        for place, (word, amount) in enumerate(zip(sample.words, one.contributions[n], strict=True))
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def summary_of_words(answers: ExplainedAnswers, found: WordAttribution) -> dict[str, Any]:
    """A method's entry in ``attribution.json``: numbers of captions and words, and the words that count most.

    ``words``: those with the largest sum of absolute contributions: the number of captions that contain them, and
    their mean contribution for each explained class. ``gap``: the largest distance between ``total`` and the sum of
    base and contributions; null for methods whose contributions do not add up.
    """
    table = word_table(answers, [found])
    table["size"] = table["contribution"].abs()
    sizes = table.groupby("word", sort=True)["size"].sum().sort_values(ascending=False, kind="stable")
    means = table.groupby(["word", "explained"])["contribution"].mean()
    counts = table.drop_duplicates(["image_id", "index", "word"])["word"].value_counts()
    words = [
        {"word": word, "captions": int(counts[word]), "mean": {str(k): float(v) for k, v in means[word].items()}}
        for word in sizes.index[:LARGEST]
    ]
    sums = np.array([amounts.sum() for amounts in found.contributions])
    gap = np.abs(found.base + sums - found.total).max(initial=0.0)
    return {
        "captions": len(answers.samples),
        "words_in_all": len(table),
        "mean_size": float(table["size"].mean()) if len(table) else None,
        "gap": float(gap) if np.isfinite(gap) else None,
        "words": words,
    }

"""Contributions of terms, words and pairs of neighbouring words, to judges whose log odds are linear in terms.

A caption's log odds of the truth, log p of its class less the mean log p of the others, are the sum of the
contributions of its terms and an intercept. Averaged over captions as the metric averages them, they are still a sum
over terms, and so is the difference of the sides. Scores such as LIC's are not linear: their amplification has the same
causes, but it is not the sum of these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from judge.attribution.words import spread
from judge.judges import Explanation
from judge.measure.jobs import Job, compares, jobs_of
from judge.measure.plan import Plan
from judge.measure.refits import chosen_settings, seeds_that_count
from judge.metrics import Metric
from judge.metrics.scores import VALIDATION_LOSS, centre
from judge.training.fit_members import explain
from judge.training.member import Member
from judge.types import FloatArray, IntArray

# The number of terms with a row of their own, and of captions shown for each.
LARGEST, EXAMPLES = 200, 3
INTERCEPT = "(intercept)"
_AMOUNTS = ["human", "generated", "contribution"]
_COUNTS = ["captions_human", "captions_generated"]
COLUMNS = ["captioner", "metric", "judge", "term", *_AMOUNTS, *_COUNTS, "leans_to", "examples"]
CAPTION_COLUMNS = [
    *("captioner", "metric", "judge", "side", "image_id", "index", "place", "word", "contribution"),
    *("explained", "base", "total"),
]
Caption = tuple[str, str, str, int]
"""Captioner, side, image and index."""
_Explained = tuple[list[Member], Explanation]


def word_contributions(jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan) -> pd.DataFrame:
    """The contribution of every term to the mean log odds of the truth (natural logarithm) on both sides.

    Only metrics that compare both sides with judges of the attribute that have an ``explain`` (``linear``) have rows.
    The judges are trained once more with the settings that they chose. Priors are ignored.

    Args:
        jobs: the run's own.
        notes: what each of their judges chose, {"C": 0.1}.
        plan: of the run.

    Returns:
        One row per captioner, ``metric`` (those that share their judges, joined by "|"), judge and term: the LARGEST by
        size of ``contribution`` (generated - human), a row "(N other terms)" with the sum of the rest, and the
        intercept. ``captions_human`` and ``captions_generated``: number of scored captions with the term. ``leans_to``:
        the class that the term makes more likely, by its mean weight in judges of generated captions, or of human ones
        if the captioner never uses it; "" without any weight. ``examples``: the generated captions to which it adds
        most, each text once: "139: a person ...", joined by " / ".
    """
    tables = [_table(alike) for alike in _linear_jobs(jobs, notes, plan)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def _linear_jobs(jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan) -> Iterator[list[Job]]:
    """The judges to train once more, by captioner, group of metrics and judge."""
    for job, chosen in chosen_settings(jobs, notes):
        if job.member.judge.explain and job.evidence.target.kind == "attribute" and compares(job.metrics):
            yield list(jobs_of(job.evidence, job.metrics, job.judge, plan, chosen))


def _explain(jobs: Sequence[Job]) -> list[_Explained]:
    slots: dict[int, list[Member]] = {}
    for job in jobs:
        slots.setdefault(id(job.member.samples), []).append(job.member)
    return [(members, explain(members)) for members in slots.values()]


def _counting(taken: Sequence[_Explained], metric: Metric) -> list[tuple[Member, int, Explanation]]:
    """One side's judges of the seeds that count, each with its number in its explanation."""
    judges = [(member, number, found) for members, found in taken for number, member in enumerate(members)]
    notes = [found.predictions[number].notes for _, number, found in judges]
    losses = [(judge[0].seed, of.get(VALIDATION_LOSS, np.nan)) for judge, of in zip(judges, notes, strict=True)]
    seeds = seeds_that_count(metric, losses)
    return [judge for judge in judges if judge[0].seed in seeds]


def caption_words(
    jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan, wanted: Collection[Caption]
) -> pd.DataFrame:
    """The contribution of each word of chosen captions to their log odds of the truth, in the judge that scored them.

    The judges are those of :func:`word_contributions`; if several seeds score a caption, the first counts. A word adds
    its own amount and half the amount of each pair that it is in (:func:`judge.attribution.words.spread`).

    Args:
        jobs: the run's own.
        notes: what each of their judges chose.
        plan: of the run.
        wanted: the captions; those that no judge scores are skipped.

    Returns:
        One row per captioner, ``metric`` (as there), judge, side, image, index and word, by place: the columns of
        CAPTION_COLUMNS. ``explained``: the class, the image's own; ``base``, the intercept, and contributions add up to
        ``total``, the caption's log odds (natural logarithm).
    """
    of_captioners = {caption[0] for caption in wanted}
    rows = [
        row
        for alike in _linear_jobs(jobs, notes, plan)
        if alike[0].evidence.captioner in of_captioners
        for row in _caption_rows(alike, set(wanted))
    ]
    return pd.DataFrame(rows, columns=CAPTION_COLUMNS)


def _caption_rows(jobs: Sequence[Job], wanted: set[Caption]) -> Iterator[tuple[object, ...]]:
    metrics, evidence, taken = jobs[0].metrics, jobs[0].evidence, _explain(jobs)
    names = evidence.captioner, "|".join(metric.name for metric in metrics), jobs[0].judge
    for side in ("human", "generated"):
        seen: set[Caption] = set()
        for member, number, found in _counting([part for part in taken if part[0][0].side == side], metrics[0]):
            asked = member.test()
            of = [(evidence.captioner, sample.side, sample.image_id, sample.index) for sample in asked]
            chosen = [place for place, caption in enumerate(of) if caption in wanted and caption not in seen]
            seen |= {of[place] for place in chosen}
            own, odds = centre(found.weights[number]), centre(np.log(found.predictions[number].probabilities))
            amounts = [dict(zip(found.terms, column, strict=True)) for column in own.T.tolist()] if chosen else []
            for sample, total in ((asked[place], odds[place]) for place in chosen):
                k = sample.answers[0]
                added = spread(sample.words, amounts[k])
                about = evidence.target.classes[k], total[k] - added.sum(), total[k]
                for place, (word, amount) in enumerate(zip(sample.words, added.tolist(), strict=True)):
                    yield *names, side, sample.image_id, sample.index, place, word, amount, *about


class _Side(NamedTuple):
    """The scored captions of one side, of the seeds that count, and the contributions of terms to them.

    Attributes:
        captions: seed, image, index, words, answer and odds (of the truth) of each judge's captions, [C].
        added: contributions of terms to these odds, [C, F], sparse; stored wherever a caption holds a term.
        once: its rows of the first judge that scores each caption.
        weights: sum over judges of the weights of each term for each class, [F, A].
    """

    captions: pd.DataFrame
    added: Any
    once: Any
    weights: FloatArray

    def amounts(self, metric: Metric) -> FloatArray:
        """Mean contribution of each term, and the intercept, averaged as the metric averages captions, [F + 1]."""
        table = self.captions
        share = 1 / table.groupby(["seed", "image"])["index"].transform("size")
        of_class = share.groupby(table["answer"]).transform("sum") * table["answer"].nunique()
        share /= of_class if metric.balanced else share.sum()
        found = self.added.T @ share.to_numpy()
        return np.append(found, (share * table["odds"]).sum() - found.sum())

    def counts(self) -> IntArray:
        """Number of captions with each term, and of all captions, [F + 1]."""
        captions, terms = self.once.shape
        return np.append(np.bincount(self.once.indices, minlength=terms), captions)

    def examples(self, terms: IntArray) -> list[str]:
        """Captions with each term, those first to which it adds most."""
        texts = (self.captions["image"] + ": " + self.captions["words"]).to_numpy()
        words, found = pd.factorize(self.captions["words"])[0], []
        columns = self.added[:, terms].tocsc()
        for start, stop in pairwise(columns.indptr):
            rows = columns.indices[start:stop][np.argsort(-columns.data[start:stop], kind="stable")]
            different = np.sort(np.unique(words[rows], return_index=True)[1])
            found.append(" / ".join(texts[rows[different[:EXAMPLES]]]))
        return found


def _table(jobs: Sequence[Job]) -> pd.DataFrame:
    """The rows of one captioner, group of metrics and judge."""
    metrics, evidence = jobs[0].metrics, jobs[0].evidence
    taken = _explain(jobs)
    terms = pd.Index(sorted({term for _, found in taken for term in found.terms}))
    human, generated = (
        _gather([part for part in taken if part[0][0].side == side], terms, metrics[0])
        for side in ("human", "generated")
    )
    weights = np.where(np.ptp(generated.weights, axis=1, keepdims=True) > 0, generated.weights, human.weights)
    leans = np.array(evidence.target.classes, dtype=object)[weights.argmax(axis=1)]
    amounts = human.amounts(metrics[0]), generated.amounts(metrics[0])
    table = pd.DataFrame(
        {
            "captioner": evidence.captioner,
            "metric": "|".join(metric.name for metric in metrics),
            "judge": jobs[0].judge,
            "term": [*terms, INTERCEPT],
            **dict(zip(_AMOUNTS, (*amounts, amounts[1] - amounts[0]), strict=True)),
            **dict(zip(_COUNTS, (human.counts(), generated.counts()), strict=True)),
            "leans_to": [*np.where(np.ptp(weights, axis=1) > 0, leans, ""), ""],
            "examples": "",
        }
    )
    return _largest(table, human, generated)


def _largest(table: pd.DataFrame, human: _Side, generated: _Side) -> pd.DataFrame:
    """The rows of the largest terms, with examples, of the sum of all others, and of the intercept."""
    order = np.argsort(-table["contribution"].abs().to_numpy()[:-1], kind="stable")
    largest, rest = order[:LARGEST], order[LARGEST:]
    rows = [table.loc[largest].assign(examples=generated.examples(largest))]
    if len(rest):
        counts = [np.count_nonzero(side.once[:, rest].getnnz(axis=1)) for side in (human, generated)]
        others = dict(zip(_AMOUNTS, table.loc[rest, _AMOUNTS].sum(), strict=True))
        others |= dict(zip(_COUNTS, counts, strict=True))
        rows.append(table[-1:].assign(term=f"({len(rest)} other terms)", **others))
    return pd.concat([*rows, table[-1:]], ignore_index=True)


def _gather(taken: Sequence[_Explained], terms: pd.Index[str], metric: Metric) -> _Side:
    from scipy.sparse import csr_matrix, vstack

    captions, added, weights = [], [], np.zeros((len(terms), len(taken[0][0][0].target.classes)))
    for member, number, found in _counting(taken, metric):
        own, odds = centre(found.weights[number]), centre(np.log(found.predictions[number].probabilities))
        held, place = found.contains[member.places(member.split.test)], terms.get_indexer(pd.Index(found.terms))
        samples = member.test()
        truth = np.array([sample.answers[0] for sample in samples])
        amounts = own[held.indices, np.repeat(truth, np.diff(held.indptr))]
        added.append(csr_matrix((amounts, place[held.indices], held.indptr), shape=(len(samples), len(terms))))
        for sample, of_truth in zip(samples, odds[np.arange(len(truth)), truth], strict=True):
            about = sample.image_id, sample.index, sample.text, sample.answers[0], of_truth
            captions.append((member.seed, *about))
        weights[place] += own
    table = pd.DataFrame(captions, columns=["seed", "image", "index", "words", "answer", "odds"])
    every = vstack(added, format="csr")
    return _Side(table, every, every[~table.duplicated(["image", "index"]).to_numpy()], weights)

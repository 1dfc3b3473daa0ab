"""Contributions of terms, words and pairs of neighbouring words, to judges whose log odds are linear in terms.

A caption's log odds of the truth, log p of its class less the mean log p of the others, are the sum of the
contributions of its terms and an intercept. Averaged over captions as the metric averages them, they are still a sum
over terms, and so is the difference of the sides. Scores such as LIC's are not linear: their amplification has the same
causes, but it is not the sum of these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

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
        captions: seed, image, index, words, answer and odds (of the truth) of each judge's captions, by their number.
        terms: caption (its number), term and amount: what the term adds to these odds.
        weights: sum over judges of the weights of each term for each class.
    """

    captions: pd.DataFrame
    terms: pd.DataFrame
    weights: pd.DataFrame

    def table(self, metric: Metric) -> pd.DataFrame:
        """Mean contribution (amount), averaged as the metric averages captions, and captions, of each term."""
        captions, terms = self.captions, self.terms
        share = 1 / captions.groupby(["seed", "image"])["index"].transform("size")
        of_class = share.groupby(captions["answer"]).transform("sum") * captions["answer"].nunique()
        share /= of_class if metric.balanced else share.sum()
        amounts = (terms["amount"] * share.loc[terms["caption"]].to_numpy()).groupby(terms["term"]).sum()
        amounts[INTERCEPT] = (share * captions["odds"]).sum() - amounts.sum()
        once = ~captions.duplicated(["image", "index"])
        counts = terms["term"][once.loc[terms["caption"]].to_numpy()].value_counts()
        counts[INTERCEPT] = once.sum()
        return pd.DataFrame({"amount": amounts, "captions": counts}).fillna(0)

    def holding(self, terms: pd.Index[str]) -> int:
        """Number of captions with any of ``terms``."""
        numbers = self.terms["caption"][self.terms["term"].isin(terms)].unique()
        return len(self.captions.loc[numbers].drop_duplicates(["image", "index"]))

    def examples(self, terms: pd.Index[str]) -> pd.Series[str]:
        """Captions with each term, those first to which it adds most, each text once."""
        found = self.terms[self.terms["term"].isin(terms)].sort_values("amount", ascending=False, kind="stable")
        found = found.join(self.captions[["image", "words"]], on="caption").drop_duplicates(["term", "words"])
        first = found.groupby("term").head(EXAMPLES)
        texts = (first["image"] + ": " + first["words"]).groupby(first["term"]).agg(" / ".join)
        return texts.reindex(terms, fill_value="")


def _gather(taken: Sequence[_Explained], metric: Metric) -> _Side:
    captions, terms, weights, count = [], [], [], 0
    for member, number, found in _counting(taken, metric):
        own, odds = centre(found.weights[number]), centre(np.log(found.predictions[number].probabilities))
        samples, held = member.test(), found.contains[member.places(member.split.test)].tocoo()
        truth = np.array([sample.answers[0] for sample in samples])
        about = [(member.seed, sample.image_id, sample.index, sample.text) for sample in samples]
        table = pd.DataFrame(about, columns=["seed", "image", "index", "words"])
        captions.append(table.assign(answer=truth, odds=odds[np.arange(len(truth)), truth]))
        names, amounts = np.array(found.terms, dtype=object)[held.col], own[held.col, truth[held.row]]
        terms.append(pd.DataFrame({"caption": held.row + count, "term": names, "amount": amounts}))
        weights.append(pd.DataFrame(own, index=list(found.terms)))
        count += len(samples)
    by_term = pd.concat(weights).groupby(level=0).sum()
    return _Side(pd.concat(captions, ignore_index=True), pd.concat(terms, ignore_index=True), by_term)


def _table(jobs: Sequence[Job]) -> pd.DataFrame:
    """The rows of one captioner, group of metrics and judge: the largest terms, all others, and the intercept."""
    metrics, evidence = jobs[0].metrics, jobs[0].evidence
    taken = _explain(jobs)
    human, generated = (
        _gather([part for part in taken if part[0][0].side == side], metrics[0]) for side in ("human", "generated")
    )
    sides = [side.table(metrics[0]) for side in (human, generated)]
    terms = human.weights.index.union(generated.weights.index)
    table = pd.concat(sides, axis=1, keys=["human", "generated"]).reindex([*terms, INTERCEPT]).fillna(0)
    table = pd.DataFrame(
        {
            **{side: table[side, "amount"] for side in ("human", "generated")},
            "contribution": table["generated", "amount"] - table["human", "amount"],
            **{f"captions_{side}": table[side, "captions"].astype(int) for side in ("human", "generated")},
            "leans_to": "",
            "examples": "",
        }
    )
    size = table["contribution"][terms].abs().sort_values(ascending=False, kind="stable")
    largest, rest = size.index[:LARGEST], size.index[LARGEST:]
    used = generated.weights[np.ptp(generated.weights, axis=1) > 0]
    weights = used.reindex(largest).fillna(human.weights.reindex(largest))
    leans = weights.fillna(0).to_numpy().argmax(axis=1)
    names = np.where(np.ptp(weights, axis=1) > 0, np.array(evidence.target.classes, dtype=object)[leans], "")
    rows = [table.loc[largest].assign(leans_to=names, examples=generated.examples(largest))]
    if len(rest):
        others = table.loc[rest, _AMOUNTS].sum().to_dict()
        others |= {"captions_human": human.holding(rest), "captions_generated": generated.holding(rest)}
        rows.append(pd.DataFrame({**others, "leans_to": "", "examples": ""}, index=[f"({len(rest)} other terms)"]))
    rows.append(table.loc[[INTERCEPT]])
    found = pd.concat(rows).rename_axis("term").reset_index()
    names_of_row = {"captioner": evidence.captioner, "metric": "|".join(metric.name for metric in metrics)}
    return found.assign(**names_of_row, judge=jobs[0].judge)[COLUMNS]

"""Contributions of terms, words and pairs of neighbouring words, to judges whose log odds are linear in terms.

A caption's log odds of the truth, log p of its class less the mean log p of the others, are the sum of the
contributions of its terms and an intercept; so is their mean over captions, and the difference of the sides. Scores
such as LIC's are not linear: their amplification has the same causes, but it is not the sum of these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
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
from judge.training.member import Member
from judge.training.run_members import explain
from judge.types import SIDES
from judge.utils.parallel import parallel

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
_Judge = tuple[Member, int, Explanation]
"""A member that was trained once more, and its number in its explanation."""


def word_contributions(jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan) -> pd.DataFrame:
    """The contribution of every term to the mean log odds of the truth (natural logarithm) on both sides.

    Only metrics that compare both sides with judges of the attribute that have an ``explain`` (linear ones) have rows.
    The judges of ``jobs`` are trained once more with the settings that they chose (``notes``). Priors are ignored.

    Returns:
        One row per captioner, metrics that share their judges, judge and term: the LARGEST by size of ``contribution``
        (generated - human), a row "(N other terms)" with the sum of the rest, and the intercept. ``leans_to``: the
        class that the term makes more likely, by its mean weight in judges of generated captions, or of human ones if
        the captioner never uses it. ``examples``: the generated captions to which it adds most.
    """
    tables = [_table(alike[0], *_sides(alike)) for alike in _linear_jobs(jobs, notes, plan)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def _linear_jobs(jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan) -> Iterator[list[Job]]:
    """The judges to train once more, by captioner, group of metrics and judge."""
    for job, chosen in chosen_settings(jobs, notes):
        words = job.evidence.target.kind == "attribute" and not job.evidence.sides.guesses_names
        if job.member.judge.explain and words and compares(job.metrics):
            yield list(jobs_of(job.evidence, job.metrics, job.judge, plan, chosen))


def caption_words(
    jobs: Sequence[Job],
    notes: Sequence[Mapping[str, float]],
    plan: Plan,
    wanted: Collection[Caption],
    *,
    workers: int = 1,
) -> pd.DataFrame:
    """The contribution of each word of chosen captions to their log odds of the truth, in the judge that scored them.

    The judges are those of :func:`word_contributions`; if several seeds score a caption, the first counts. A word adds
    its own amount and half the amount of each pair that it is in. ``workers``: processes.

    Returns:
        One row per word of the ``wanted`` captions that judges score: the columns of CAPTION_COLUMNS. ``explained``:
        the image's own class; ``base``, the intercept, and contributions add up to ``total``, the caption's log odds.
    """
    of_captioners = {caption[0] for caption in wanted}
    every = (alike for alike in _linear_jobs(jobs, notes, plan) if alike[0].evidence.captioner in of_captioners)
    each = [_first_to_score(alike, plan) for alike in every]
    rows = chain.from_iterable(parallel(partial(_words_of, wanted=set(wanted)), each, workers))
    return pd.DataFrame(rows, columns=CAPTION_COLUMNS)


def _first_to_score(jobs: list[Job], plan: Plan) -> list[Job]:
    """The jobs whose judges may be the first that score a caption."""
    if plan.protocol == "paper" or jobs[0].metrics[0].aggregate == "best":
        return jobs
    return [job for job in jobs if job.member.seed == plan.first_seed]


def _words_of(alike: Sequence[Job], wanted: set[Caption]) -> list[tuple[object, ...]]:
    images = {image for captioner, _, image, _ in wanted if captioner == alike[0].evidence.captioner}
    sides = zip(SIDES, _sides(alike, images), strict=True)
    return [row for name, side in sides for row in _caption_rows(alike[0], name, side, wanted)]


def _caption_rows(job: Job, name: str, side: _Side, wanted: set[Caption]) -> Iterator[tuple[object, ...]]:
    captions = side.captions.drop_duplicates(["image", "index"])
    places = zip(captions["image"], captions["index"], strict=True)
    captions = captions[[(job.evidence.captioner, name, *place) in wanted for place in places]]
    terms = dict(iter(side.terms[side.terms["caption"].isin(captions.index)].groupby("caption")))
    for caption, image, index, words, answer, odds in captions.drop(columns=["seed", "text"]).itertuples(name=None):
        held = terms.get(caption, side.terms[:0])
        added = spread(words, dict(zip(held["term"], held["amount"], strict=True)))
        about = job.evidence.target.classes[answer], odds - added.sum(), odds
        for place, (word, amount) in enumerate(zip(words, added.tolist(), strict=True)):
            yield *_names(job), name, image, index, place, word, amount, *about


def _names(job: Job) -> tuple[str, str, str]:
    return job.evidence.captioner, "|".join(metric.name for metric in job.metrics), job.judge


class _Side(NamedTuple):
    """The scored captions of one side, of the seeds that count: seed, image, index, words, text, answer, odds of it.

    ``terms``: caption (its number), term, and what it adds to the odds; ``weights``: by term and class, of each judge.
    """

    captions: pd.DataFrame
    terms: pd.DataFrame
    weights: list[pd.DataFrame]

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
        numbers = self.terms["caption"][self.terms["term"].isin(terms)].unique()
        return len(self.captions.loc[numbers].drop_duplicates(["image", "index"]))

    def examples(self, terms: pd.Index[str]) -> pd.Series[str]:
        """Captions with each term, those first to which it adds most, each text once."""
        found = self.terms[self.terms["term"].isin(terms)].sort_values("amount", ascending=False, kind="stable")
        found = found.join(self.captions[["image", "text"]], on="caption").drop_duplicates(["term", "text"])
        first = found.groupby("term").head(EXAMPLES)
        texts = (first["image"] + ": " + first["text"]).groupby(first["term"]).agg(" / ".join)
        return texts.reindex(terms, fill_value="")


def _sides(jobs: Sequence[Job], images: Collection[str] | None = None) -> list[_Side]:
    """The human and the generated side of one captioner's judges, trained once more; of some ``images``, or of all."""
    slots: dict[int, list[Member]] = {}
    for job in jobs:
        slots.setdefault(id(job.member.samples), []).append(job.member)
    found = [(members, explain(members)) for members in slots.values()]
    taken: list[_Judge] = [(member, number, of) for members, of in found for number, member in enumerate(members)]
    sides = ([judge for judge in taken if judge[0].side == side] for side in SIDES)
    return [_gather(judges, jobs[0].metrics[0], images) for judges in sides]


def _gather(judges: Sequence[_Judge], metric: Metric, images: Collection[str] | None) -> _Side:
    losses = [(member.seed, of.predictions[n].notes.get(VALIDATION_LOSS, np.nan)) for member, n, of in judges]
    seeds = seeds_that_count(metric, losses)
    captions, terms, weights, count = [], [], [], 0
    for member, number, found in (judge for judge in judges if judge[0].seed in seeds):
        places = np.array(member.places(member.split.test), dtype=np.int64)
        rows = [n for n, place in enumerate(places) if images is None or member.samples[place].image_id in images]
        own, odds = centre(found.weights[number]), centre(np.log(found.predictions[number].probabilities[rows]))
        samples, held = [member.samples[place] for place in places[rows]], found.contains[places[rows]].tocoo()
        truth = np.array([sample.answers[0] for sample in samples], dtype=np.int64)
        about = [(member.seed, of.image_id, of.index, of.words, of.text) for of in samples]
        table = pd.DataFrame(about, columns=["seed", "image", "index", "words", "text"])
        captions.append(table.assign(answer=truth, odds=odds[np.arange(len(truth)), truth]))
        names, amounts = np.array(found.terms, dtype=object)[held.col], held.data * own[held.col, truth[held.row]]
        parts = pd.DataFrame({"caption": held.row + count, "term": names, "amount": amounts})
        terms.append(parts.groupby(["caption", "term"], as_index=False, sort=False).sum())
        weights.append(pd.DataFrame(own, index=list(found.terms)))
        count += len(samples)
    return _Side(pd.concat(captions, ignore_index=True), pd.concat(terms, ignore_index=True), weights)


def _table(job: Job, human: _Side, generated: _Side) -> pd.DataFrame:
    """The rows of one captioner, group of metrics and judge: the largest terms, all others, and the intercept."""
    sides = [side.table(job.metrics[0]) for side in (human, generated)]
    before, after = (pd.concat(side.weights).groupby(level=0).sum() for side in (human, generated))
    terms = before.index.union(after.index)
    both = pd.concat(sides, axis=1, keys=SIDES).reindex([*terms, INTERCEPT]).fillna(0)
    amounts, counts = (both.xs(name, axis=1, level=1) for name in ("amount", "captions"))
    table: pd.DataFrame = amounts.join(counts.astype(int).add_prefix("captions_")).assign(leans_to="", examples="")
    table["contribution"] = amounts["generated"] - amounts["human"]
    size = table["contribution"][terms].abs().sort_values(ascending=False, kind="stable")
    largest, rest = size.index[:LARGEST], size.index[LARGEST:]
    weights = after[np.ptp(after, axis=1) > 0].reindex(largest).fillna(before.reindex(largest))
    leans = np.array(job.evidence.target.classes, dtype=object)[weights.fillna(0).to_numpy().argmax(axis=1)]
    leans = np.where(np.ptp(weights, axis=1) > 0, leans, "")
    rows = [table.loc[largest].assign(leans_to=leans, examples=generated.examples(largest))]
    if len(rest):
        others = table.loc[rest, _AMOUNTS].sum().to_dict()
        others |= {"captions_human": human.holding(rest), "captions_generated": generated.holding(rest)}
        rows.append(pd.DataFrame({**others, "leans_to": "", "examples": ""}, index=[f"({len(rest)} other terms)"]))
    rows.append(table.loc[[INTERCEPT]])
    names = dict(zip(COLUMNS[:3], _names(job), strict=True))
    return pd.concat(rows).rename_axis("term").reset_index().assign(**names)[COLUMNS]

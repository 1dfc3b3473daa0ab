"""Examples: images with the largest contributions to every row of the table, of either sign, and random images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, mode
from typing import Literal, get_args

import numpy as np
import pandas as pd

from judge.corpus import Corpus
from judge.evidence import PEOPLE, Evidence
from judge.measure.jobs import Work
from judge.statistics.summary import ROW
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Side

Chosen = Literal["adds", "takes away", "random"]
CHOSEN: tuple[Chosen, ...] = get_args(Chosen)
"""Why an image is shown: the largest positive or negative contribution, or at random."""

# Images of each kind per row, and in all rows: a page must open quickly.
MOST, MOST_IN_ALL = 6, 240
# The lexicon of tasks if a run has none: its names only label examples.
_TASKS = "coco-objects"
CARD = [*ROW, "chosen", "rank"]
"""The columns by which captions are shown together."""
COLUMNS = [
    *CARD, "image_id", "contribution", "class", "tasks", "side", "index", "caption", "read", "probability", "predicted"
]  # fmt: skip
_SHOWN = ["chosen", "rank", "image_id", "contribution"]
_CAPTION = ["side", "image_id", "index"]
CAPTION = ["captioner", *_CAPTION]
WORDS = "words"


def choose_examples(
    corpus: Corpus, work: Work, scores: pd.DataFrame, contributions: pd.DataFrame, *, seed: int
) -> pd.DataFrame:
    """The captions of some images of every row with contributions; their number is bounded for any run.

    Args:
        corpus: human and generated captions.
        work: the work of the run.
        scores: the rows of ``scores.parquet``.
        contributions: from :func:`~judge.statistics.breakdown.image_contributions`.
        seed: seed of the random images.

    Returns:
        One row per caption, with ``COLUMNS``: the row of the table; ``chosen`` (see ``CHOSEN``) and ``rank`` of its
        image, from 0; the image's contribution (for counted metrics, to the published value), its class and its tasks
        (annotated, else named by human captions; joined by "|"); the caption as written, and as judges read it ("" for
        counted metrics); the mean probability of the true answer over judges (NaN for counted metrics), and the most
        frequent answer.
    """
    picked = _pick(contributions, seed)
    evidence = {
        (job.evidence.captioner, metric.name, job.judge): job.evidence for job in work.jobs for metric in job.metrics
    }
    written = {captions.name: captions.by_image for captions in corpus.generated}
    scored = dict(iter(scores.groupby(ROW, sort=False, observed=True))) if len(scores) else {}
    rows = []
    for key, part in picked.groupby(ROW, sort=False, observed=True):
        captioner, metric, judge = map(str, key)
        wanted = set(part["image_id"])
        answered = _answers(scored[key], wanted) if key in scored else {}
        read = _read(evidence[captioner, metric, judge], wanted) if (captioner, metric, judge) in evidence else {}
        sides: Mapping[Side, Mapping[str, Sequence[str]]] = {
            "human": corpus.human.by_image,
            "generated": written[captioner],
        }
        for chosen, rank, image, amount in zip(*(part[name] for name in _SHOWN), strict=True):
            class_ = work.truth.labels.by_image.get(image, "")
            about = [chosen, rank, image, amount, class_, _shows(image, work, sides["human"].get(image, ()))]
            for side, index, caption in _captions(sides, image, read):
                place = side, image, index
                rows.append(
                    [*key, *about, side, index, caption, read.get(place, ""), *answered.get(place, (np.nan, ""))]
                )
    return pd.DataFrame(rows, columns=COLUMNS)


def with_words(examples: pd.DataFrame, amounts: pd.DataFrame) -> pd.DataFrame:
    """``examples`` with the contribution of each word of ``read`` to the log odds of the true class.

    Args:
        examples: from :func:`choose_examples`.
        amounts: from :func:`~judge.measure.words.caption_words`; may be empty.

    Returns:
        ``examples`` with the column "words": a number per word, separated by spaces; "" where unknown.
    """
    found: dict[tuple[object, ...], str] = {}
    for key, rows in amounts.groupby(["metric", "judge", *CAPTION], sort=False) if len(amounts) else ():
        metrics, *place = key
        text = " ".join(f"{value:.4g}" for value in rows.sort_values("place")["contribution"])
        found |= {(metric, *place): text for metric in str(metrics).split("|")}
    keys = examples[["metric", "judge", *CAPTION]].itertuples(index=False, name=None)
    return examples.assign(**{WORDS: [found.get(key, "") for key in keys]})


def _pick(contributions: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The chosen images of each row: ``contributions`` with the columns chosen and rank."""
    groups = contributions.groupby(ROW, sort=False, observed=True)
    most = max(1, min(MOST, MOST_IN_ALL // (len(CHOSEN) * max(1, groups.ngroups))))
    parts = []
    for key, rows in groups:
        order = rows.sort_values(["contribution", "image_id"], ascending=[False, True], kind="stable")
        generator = np.random.default_rng([seed, *map(ord, "/".join(map(str, key)))])
        drawn = generator.permutation(len(order))[:most]
        chosen: dict[Chosen, pd.DataFrame] = {
            "adds": order[order["contribution"] > 0].head(most),
            "takes away": order[order["contribution"] < 0].iloc[::-1].head(most),
            "random": order.iloc[drawn],
        }
        parts += [of.assign(chosen=name, rank=range(len(of))) for name, of in chosen.items()]
    return pd.concat(parts, ignore_index=True) if parts else contributions.assign(chosen="", rank=0)


def _answers(rows: pd.DataFrame, images: set[str]) -> dict[tuple[str, str, int], tuple[float, str]]:
    """(side, image, index) -> mean probability of the truth over judges, and their most frequent answer."""
    asked = rows[rows["image_id"].isin(images) & rows["probability"].notna()]
    said: dict[tuple[str, str, int], list[tuple[float, str]]] = {}
    columns = (asked[name] for name in [*_CAPTION, "probability", "predicted"])
    for side, image, index, probability, guess in zip(*columns, strict=True):
        said.setdefault((side, image, index), []).append((probability, guess))
    return {
        place: (fmean(value for value, _ in answers), mode(sorted(guess for _, guess in answers)))
        for place, answers in said.items()
    }


def _read(evidence: Evidence, images: set[str]) -> dict[tuple[str, str, int], str]:
    """(side, image, index) -> the caption as judges read it."""
    return {
        (side, sample.image_id, sample.index): sample.text
        for (side, _), slot in evidence.slots.items()
        for sample in (slot[slot.place[image]] for image in sorted(images & slot.place.keys()))
    }


def _captions(
    sides: Mapping[Side, Mapping[str, Sequence[str]]], image: str, read: Mapping[tuple[str, str, int], str]
) -> Iterator[tuple[Side, int, str]]:
    """Side, index and text of an image's captions: those that judges read, or all for counted metrics."""
    for side, captions in sides.items():
        for index, caption in enumerate(captions.get(image, ())):
            if not read or (side, image, index) in read:
                yield side, index, caption


def _shows(image: str, work: Work, captions: Sequence[str]) -> str:
    """The tasks of an image but people: annotated, or named by its human captions."""
    tasks = work.truth.tasks
    if tasks is not None and image in tasks.by_image:
        return "|".join(name for place in tasks.by_image[image] if (name := tasks.names[place]) not in PEOPLE)
    lexicon = work.truth.words.tasks or load_lexicon(_TASKS)
    return "|".join(sorted(frozenset().union(*(lexicon.mentions(tokenize(of)) for of in captions)) - PEOPLE))

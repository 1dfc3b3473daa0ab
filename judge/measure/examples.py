"""Examples: the images that carry most of every row of the table, on either side of 0, and random ones beside them."""

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
"""Why an image is shown: it adds most to the row's value, takes most away from it, or was drawn at random."""

# Images of each kind for a row, and of all rows together: a page must open quickly, however much was measured.
MOST, MOST_IN_ALL = 6, 240
# Where no words of tasks are known: they only sort examples.
_TASKS = "coco-objects"
CARD = [*ROW, "chosen", "rank"]
"""What captions that are shown together have in common."""
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
    """The captions of some images of every row that has contributions: a bounded choice, whatever the run's size.

    Args:
        corpus: what was read.
        work: of the run.
        scores: the rows of ``scores.parquet``.
        contributions: of :func:`~judge.statistics.breakdown.image_contributions`.
        seed: of the random images.

    Returns:
        A row per caption, ``COLUMNS``: the row of the table; ``chosen`` (see ``CHOSEN``) and ``rank``, from 0, of its
        image there; what the image adds to the row (of counted metrics to the published value), its class and what it
        shows (annotated, or else named by its captions; joined by "|"); the caption as written, and as judges read it
        ("" of counted metrics); the mean over judges of the true answer's probability (NaN of counted metrics), and
        the answer that most judges gave.
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
    """``examples`` with what each word of ``read`` adds to the log-odds of the true class.

    Args:
        examples: of :func:`choose_examples`.
        amounts: of :func:`~judge.measure.words.caption_words`; empty for none.

    Returns:
        With the column "words": numbers parted by spaces, a word each; "" where they are not known.
    """
    found: dict[tuple[object, ...], str] = {}
    for key, rows in amounts.groupby(["metric", "judge", *CAPTION], sort=False) if len(amounts) else ():
        metrics, *place = key
        text = " ".join(f"{value:.4g}" for value in rows.sort_values("place")["contribution"])
        found |= {(metric, *place): text for metric in str(metrics).split("|")}
    keys = examples[["metric", "judge", *CAPTION]].itertuples(index=False, name=None)
    return examples.assign(**{WORDS: [found.get(key, "") for key in keys]})


def _pick(contributions: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Of each row of the table its examples: ``contributions`` with the columns chosen and rank."""
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
    """Side, index and text of an image's captions: those that judges read, or all where no judge read."""
    for side, captions in sides.items():
        for index, caption in enumerate(captions.get(image, ())):
            if not read or (side, image, index) in read:
                yield side, index, caption


def _shows(image: str, work: Work, captions: Sequence[str]) -> str:
    """What an image shows, people apart: as annotated, or as its human captions name it."""
    tasks = work.truth.tasks
    if tasks is not None and image in tasks.by_image:
        return "|".join(name for place in tasks.by_image[image] if (name := tasks.names[place]) not in PEOPLE)
    lexicon = work.truth.words.tasks or load_lexicon(_TASKS)
    return "|".join(sorted(frozenset().union(*(lexicon.mentions(tokenize(of)) for of in captions)) - PEOPLE))

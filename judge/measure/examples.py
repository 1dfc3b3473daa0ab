"""Examples: images with the largest contributions to every row of the table, of either sign, and random images."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd

from judge.evidence import PEOPLE, Evidence
from judge.evidence.conditional import Conditional
from judge.evidence.preparation import texts_of
from judge.measure.jobs import Work
from judge.statistics.judged import CAPTION as OF_SIDE
from judge.statistics.summary import ROW
from judge.text.lexicon import load_lexicon
from judge.text.tokens import tokenize
from judge.types import Side
from judge.utils.cells import in_text

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
CAPTION = ["captioner", *OF_SIDE]


def choose_examples(work: Work, scores: pd.DataFrame, contributions: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """The captions of some images of every row with contributions; data/README.md explains the columns.

    ``contributions`` are those of :func:`~judge.statistics.breakdown.image_contributions`; ``seed`` draws the random
    images.
    """
    picked = _pick(contributions, seed)
    evidence = {(job.evidence.captioner, of.name, job.judge): job.evidence for job in work.jobs for of in job.metrics}
    given = {request.key: request.of for request in work.conditional}
    written = {captions.name: captions.by_image for captions in work.corpus.generated}
    scored = dict(iter(scores.groupby(ROW, sort=False, observed=True))) if len(scores) else {}
    tables = []
    for names, part in picked.groupby(ROW, sort=False, observed=True):
        captioner, metric, judge = map(str, names)
        key = captioner, metric, judge
        images = part["image_id"].unique().tolist()
        sides: dict[Side, Mapping[str, tuple[str, ...]]] = {
            "human": work.corpus.human.by_image,
            "generated": written[captioner],
        }
        most = evidence[key].sides.sentences if key in evidence else {}
        captions = pd.DataFrame(
            [(side, image, index, caption) for image in images for side, of in sides.items()
             for index, caption in texts_of(of.get(image, ()), most.get(side, 1))], columns=[*OF_SIDE, "caption"],
        )  # fmt: skip
        if key in evidence:  # Captions that judges read, as they read them.
            captions = captions.merge(_read(evidence[key], set(images)), on=OF_SIDE)
        rows = scored.get(key)
        if key in given:
            captions = captions.merge(_told(given[key], set(images)), on=OF_SIDE, how="left")
            rows = _by_caption(scored[key], sides)
        if rows is not None:
            captions = captions.merge(_answers(rows, images), on=OF_SIDE, how="left")
        shown = {image: _shows(image, work, sides["human"].get(image, ())) for image in images}
        about = pd.DataFrame({"image_id": images, "tasks": shown.values()})
        about["class"] = [work.truth.labels.by_image.get(image, "") for image in images]
        tables.append(part.merge(about, on="image_id").merge(captions, on="image_id"))
    found = pd.concat(tables, ignore_index=True) if tables else picked
    texts = {name: found[name].fillna("") if name in found else "" for name in ("read", "predicted")}
    return found.assign(**texts).reindex(columns=COLUMNS)


def with_words(examples: pd.DataFrame, amounts: pd.DataFrame) -> pd.DataFrame:
    """``examples`` with the column "words": what each word of ``read`` adds, as text, or "".

    ``amounts`` are from :func:`~judge.measure.words.caption_words` and :func:`~judge.measure.conditional.gain_words`.
    """
    found: dict[tuple[object, ...], str] = {}
    for key, rows in amounts.groupby(["metric", "judge", *CAPTION], sort=False) if len(amounts) else ():
        metrics, *place = key
        text = " ".join(f"{value:.4g}" for value in rows.sort_values("place")["contribution"])
        found |= {(metric, *place): text for metric in str(metrics).split("|")}
    keys = examples[["metric", "judge", *CAPTION]].itertuples(index=False, name=None)
    return examples.assign(words=[found.get(key, "") for key in keys])


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


def _answers(rows: pd.DataFrame, images: Sequence[str]) -> pd.DataFrame:
    """Each caption's mean probability of the truth over judges, and their most frequent answer."""
    asked = in_text(rows[rows["image_id"].isin(images) & rows["probability"].notna()])
    groups = asked.groupby(OF_SIDE, observed=True, as_index=False)
    return groups.agg(probability=("probability", "mean"), predicted=("predicted", lambda of: of.mode().iloc[0]))


def _read(evidence: Evidence, images: set[str]) -> pd.DataFrame:
    samples = [
        (side, image, slot.captions[place].number, slot[place].text)
        for (side, _), slot in evidence.slots.items()
        for image in images & slot.place.keys()
        for place in [slot.place[image]]
    ]
    return pd.DataFrame(samples, columns=[*OF_SIDE, "read"])


def _told(given: Conditional, images: set[str]) -> pd.DataFrame:
    """A captioner's captions of images, as judges that know something of the image read them."""
    each = zip(given.units.images, given.captions, strict=True)
    samples = [("generated", image, index, " ".join(words))
               for image, texts in each if image in images for index, words in enumerate(texts)]  # fmt: skip
    return pd.DataFrame(samples, columns=[*OF_SIDE, "read"])


def _by_caption(rows: pd.DataFrame, sides: Mapping[Side, Mapping[str, tuple[str, ...]]]) -> pd.DataFrame:
    """Rows of a metric of roles, whose index is the role, with the index of the (first) caption that is read there."""
    turns = {side: max(len(of[image]) for image in rows["image_id"].unique()) for side, of in sides.items()}
    places = zip(rows["side"], rows["image_id"], rows["index"], strict=True)
    return rows.assign(index=[role % turns[side] % len(sides[side][image]) for side, image, role in places])


def _shows(image: str, work: Work, captions: Sequence[str]) -> str:
    """The tasks of an image but people: annotated, or named by its human captions."""
    tasks = work.truth.tasks
    if tasks is not None and image in tasks.by_image:
        return "|".join(name for place in tasks.by_image[image] if (name := tasks.names[place]) not in PEOPLE)
    lexicon = work.truth.words.tasks or load_lexicon(_TASKS)
    words = [tokenize(caption, language=lexicon.language) for caption in captions]
    return "|".join(sorted(frozenset().union(*map(lexicon.mentions, words)) - PEOPLE))

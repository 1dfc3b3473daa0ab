"""What ``judge anonymous`` found, as people and programs read it: tables, notes, JSON, CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from judge.corpus.rating_sheet import Sheet
from judge.report.detail_tables import INTERVAL_NOTE
from judge.report.table import COUNT, NUMBER, SIGNED, Column, Table, how_many, names, write_p
from judge.statistics.correlation import Correlation
from judge.statistics.naming import HumanScore, LexiconCheck, Naming
from judge.statistics.raters import RaterAgreement
from judge.statistics.shares import ShareDifference
from judge.types import Interval
from judge.utils.cells import table_csv

NOT_FAIRNESS = (
    "A low share is not fairness: a captioner that never names anybody scores 0, whatever else it says of people.",
    "Nor do shares say whether a guess was right: nothing is to be seen, so every class named is a guess.",
)


_VALUES_OF = (
    "People's scores, and the lexicon's share beside them, are of the captions that were rated and have a majority; "
    "values of a run are of all its own images."
)
# Reasons for which captions or images are left out, said of a single one.
_ONE = {
    "empty captions": "empty caption",
    "refusals": "refusal",
    "images that are not in --images": "image that is not in --images",
    "pictures without a caption": "picture without a caption",
}


class PeopleRow(NamedTuple):
    """A metric beside people's scores, over captioners: its name, which of its values, and how far they agree."""

    metric: str
    value: str
    agreement: Correlation


@dataclass(frozen=True, slots=True)
class Rated:
    """What came back from raters.

    Attributes:
        raters: rater -> items answered.
        agreement: of raters.
        scores: of each captioner on the sheet.
        lexicon: against the majority.
        people: metrics of a run, and the lexicon's share, beside people's scores.
        left_out: captioners of the run without a score, and of the scores without a row in the run.
    """

    raters: Mapping[str, int]
    agreement: RaterAgreement
    scores: Sequence[HumanScore]
    lexicon: LexiconCheck
    people: Sequence[PeopleRow] = ()
    left_out: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Anonymous:
    """What ``judge anonymous`` measured.

    Attributes:
        attribute, classes: what captions may name.
        lexicon: its name and where its words come from.
        captioners: what each one's captions name.
        left_out: captioner -> reason -> captions or images left out.
        differences: between captioners.
        sheet: what raters are given.
        rated: what came back; None before.
        silent: classes that the lexicon has no words for.
        pictured: whether the benchmark's pictures say which captions count.
        level: of intervals.
        texts: notes on what captioners' captions are.
    """

    attribute: str
    classes: tuple[str, ...]
    lexicon: tuple[str, str]
    captioners: Sequence[Naming]
    left_out: Mapping[str, Mapping[str, int]]
    differences: Sequence[ShareDifference]
    sheet: Sheet
    rated: Rated | None = None
    silent: tuple[str, ...] = ()
    pictured: bool = True
    level: float = 0.95
    versions: Mapping[str, str] = field(default_factory=dict)
    texts: Sequence[str] = ()


def naming_table(found: Anonymous, known: Mapping[str, float] | None = None) -> Table[Naming]:
    """A row per captioner: how many of its captions name a class, which, and the balance between classes.

    Args:
        found: what was measured.
        known: captioner -> the share that is true of it, where captioners are simulated.
    """
    columns: list[Column[Naming]] = [
        names("captioner", lambda row: row.captioner),
        Column("images", lambda row: row.share.images, COUNT),
        Column("captions", lambda row: row.share.captions, COUNT),
        Column("name a class", lambda row: row.share.value, NUMBER),
        Column("interval", lambda row: row.share.interval, NUMBER),
    ]
    if known:
        columns.append(Column("true", lambda row: known.get(row.captioner), NUMBER))
    columns += [Column(name, partial(_class_share, name), NUMBER) for name in found.classes]
    columns.append(Column("several", lambda row: row.several.value, NUMBER))
    # Of two classes one share of the balance says all.
    for name in found.classes[:1] if len(found.classes) == 2 else found.classes:
        columns += [
            Column(f"{name} of one", partial(_balance, name), NUMBER),
            Column("interval", partial(_balance_interval, name), NUMBER),
        ]
    return Table(tuple(columns), tuple(found.captioners), f"Captions that name {found.attribute}", _share_notes(found))


def _class_share(name: str, row: Naming) -> float:
    return row.classes[name].value


def _balance(name: str, row: Naming) -> float:
    return row.balance[name].value


def _balance_interval(name: str, row: Naming) -> Interval | None:
    return row.balance[name].interval


def _share_notes(found: Anonymous) -> tuple[str, ...]:
    name = next((name for name in found.classes if name not in found.silent), found.classes[0])
    exact = all(row.share.exact for row in found.captioners)
    how = (
        "exact (Clopper and Pearson), over captions, one an image"
        if exact
        else "exact, of as many independent captions as those of several an image are worth (Korn and Graubard 1998)"
    )
    caveat = (
        f"By the words of the lexicon '{found.lexicon[0]}' ({found.lexicon[1]}): a class that other words tell is not "
        "found, nor one that is told without words for it. What people find, the rating sheet tells."
    )
    shares = f"Shares of captions. '{name} of one': of the captions that name exactly one class. Intervals: {how}."
    return shares, caveat


def share_difference_table(found: Anonymous) -> Table[ShareDifference]:
    """A row per pair of captioners: difference of the shares of captions that name a class."""
    columns: tuple[Column[ShareDifference], ...] = (
        names("difference", lambda row: f"{row.first} - {row.second}"),
        Column("images", lambda row: row.images, COUNT),
        Column("name a class", lambda row: row.value, SIGNED),
        Column("interval", lambda row: row.interval, SIGNED),
        Column("p", lambda row: row.p_value, write_p),
        Column("p (Holm)", lambda row: row.p_holm, write_p),
    )
    exact = all(row.share.exact for row in found.captioners)
    test = "McNemar's exact test" if exact else "signs of images' differences changed at random"
    notes = (f"On images that both captioned. p: {test}. Interval: Bonett and Price 2012.",)
    return Table(columns, tuple(found.differences), "Differences", notes)


def score_table(found: Anonymous, rated: Rated) -> Table[HumanScore]:
    """A row per captioner: from how many of its captions people could guess the attribute."""
    columns: list[Column[HumanScore]] = [
        names("captioner", lambda row: row.captioner),
        Column("images", lambda row: row.share.images, COUNT),
        Column("captions", lambda row: row.share.captions, COUNT),
        Column("people could guess", lambda row: row.share.value, NUMBER),
        Column("interval", lambda row: row.share.interval, NUMBER),
        *(Column(name, partial(_guessed, name), NUMBER) for name in found.classes),
        Column("lexicon", lambda row: row.named.value, NUMBER),
        Column("no majority", lambda row: row.ties, COUNT),
        Column("not rated", lambda row: row.unrated, COUNT),
    ]
    return Table(tuple(columns), tuple(rated.scores), "What people could guess", tuple(rating_notes(rated)))


def _guessed(name: str, row: HumanScore) -> float:
    return row.classes[name].value


def rating_notes(rated: Rated) -> list[str]:
    """How far raters agree, and what the lexicon finds of what they found."""
    raters = ", ".join(f"{name} {count:,}" for name, count in rated.raters.items())
    found = rated.agreement
    if found.alpha is None:
        alpha = f"Krippendorff's alpha is not defined: {found.note}."
    else:
        bounds = f"[{found.interval.low:.3f}, {found.interval.high:.3f}]" if found.interval else "(no interval)"
        over = f"{how_many(found.items, 'caption')} rated by two or more"
        alpha = f"Krippendorff's alpha {found.alpha:.3f} {bounds}, over {over}."
        alpha += f" {found.note[0].upper()}{found.note[1:]}." if found.note else ""
    check = rated.lexicon
    beside = (
        f"Lexicon and people agree on {how_many(check.both + check.neither, 'caption')}; it names a class in "
        f"{check.lexicon:,} from which people could not guess, and none in {check.people:,} from which they could."
    )
    return [
        "Majority: the answer that more raters gave than any other; captions without one are in no share.",
        "'lexicon': the share of the same captions in which the lexicon finds a class.",
        f"Captions answered by {raters}. {alpha}",
        beside,
    ]


def metric_table(rated: Rated) -> Table[PeopleRow]:
    """A row per metric and value: correlations with people's scores over captioners."""
    columns: tuple[Column[PeopleRow], ...] = (
        names("metric (judge)", lambda row: f"{row.metric}, {row.value}"),
        Column("captioners", lambda row: row.agreement.pairs, COUNT),
        Column("Pearson", lambda row: row.agreement.pearson, SIGNED),
        Column("interval", lambda row: row.agreement.interval, SIGNED),
        Column("Spearman", lambda row: row.agreement.spearman, SIGNED),
        Column("interval", lambda row: row.agreement.spearman_interval, SIGNED),
    )
    return Table(columns, tuple(rated.people), "Agreement of metrics with people", (_VALUES_OF, INTERVAL_NOTE))


def anonymous_notes(found: Anonymous) -> list[str]:
    """What a reader must know, a line each."""
    lines = list(NOT_FAIRNESS)
    if found.silent:
        lines.append(
            f"The lexicon has no words for {', '.join(found.silent)}: no share tells how often captions name that, nor "
            "does 'name a class' count it."
        )
    if not found.pictured:
        lines.append(
            "No --images: captions of all images in the files count, whether or not these belong to the benchmark, and "
            "nobody knows of pictures without a caption. The rating sheet has captions alone, with --images too."
        )
    images = {row.captioner: row.share.images for row in found.captioners}
    if any(row.images < max(images[row.first], images[row.second]) for row in found.differences):
        lines.append(
            "Captioners have captions of different images: shares are of each one's own; differences, and the rating "
            "sheet, of those in common."
        )
    for captioner, reasons in found.left_out.items():
        told = ", ".join(
            f"{count:,} {_ONE[reason] if count == 1 else reason}" for reason, count in reasons.items() if count
        )
        lines += [f"{captioner}: {told}."] if told else []
    lines += found.texts
    if found.rated:
        lines += found.rated.left_out
    return lines


def human_scores_csv(rated: Rated) -> str:
    """For ``judge evaluate --human-scores``: captioner, score, low, high, images, captions; captioners with a score."""
    import pandas as pd

    rows = [
        {"captioner": row.captioner, "score": row.share.value, **_bounds(row.share.interval)}
        | {"images": row.share.images, "captions": row.share.captions}
        for row in rated.scores
        if row.share.captions
    ]
    columns = ["captioner", "score", "low", "high", "images", "captions"]
    return table_csv(pd.DataFrame(rows, columns=columns))


def _bounds(interval: Interval | None) -> dict[str, float | None]:
    return {"low": interval.low, "high": interval.high} if interval else {"low": None, "high": None}


def anonymous_json(found: Anonymous) -> str:
    """``anonymous.json``: fractions, absent values null, never NaN."""
    rated = found.rated
    document: dict[str, Any] = {
        "attribute": found.attribute,
        "classes": found.classes,
        "lexicon": dict(zip(("name", "source"), found.lexicon, strict=True)),
        "level": found.level,
        "versions": found.versions,
        "captioners": [asdict(row) | {"left_out": found.left_out.get(row.captioner, {})} for row in found.captioners],
        "differences": [asdict(row) for row in found.differences],
        "sheet": {
            "name": found.sheet.name,
            "items": len(found.sheet.items),
            "images": len({item.image for item in found.sheet.items}),
            "questions": [asdict(question) for question in found.sheet.questions],
        },
        "ratings": None,
        "notes": anonymous_notes(found),
    }
    if rated:
        document["ratings"] = {
            "raters": rated.raters,
            "agreement": asdict(rated.agreement),
            "captioners": [asdict(row) for row in rated.scores],
            "lexicon": asdict(rated.lexicon),
            "metrics": [{"metric": row.metric, "value": row.value} | asdict(row.agreement) for row in rated.people],
        }
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Intervals as [low, high]; what is no number as null."""
    if isinstance(value, Mapping):
        if {*value} == {"low", "high", "level"}:
            return [value["low"], value["high"]]
        return {name: _plain(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if isinstance(value, float) and math.isnan(value) else value

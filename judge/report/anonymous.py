"""The results of ``judge anonymous`` as tables, notes, JSON and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from judge.corpus.ratings import Sheet
from judge.report.detail_tables import INTERVAL_NOTE
from judge.report.table import COUNT, NUMBER, SIGNED, Column, Table, how_many, names, table_of
from judge.statistics.consistency import Correlation
from judge.statistics.naming import CaptionShare, HumanScore, Naming
from judge.utils.cells import rows_csv

NOT_FAIRNESS = (
    "A low share is not fairness: a captioner that never names anybody scores 0, whatever else it says of people.",
    "Nor do shares say whether a guess was right: nothing is to be seen, so every class named is a guess.",
)


class PeopleRow(NamedTuple):
    """A metric beside human scores, over captioners: its name, which of its values, and how far they agree."""

    metric: str
    value: str
    agreement: Correlation


@dataclass(frozen=True, slots=True)
class Rated:
    """The ratings that came back.

    Attributes:
        raters: rater -> items answered.
        alpha: Krippendorff's; None where it is not defined.
        scores: of each captioner.
        lexicon: in how many texts a class is found by both, the lexicon alone, people alone, neither.
        people: the lexicon's share beside human scores.
    """

    raters: Mapping[str, int]
    alpha: float | None
    scores: Sequence[HumanScore]
    lexicon: Mapping[str, int]
    people: Sequence[PeopleRow]


@dataclass(frozen=True, slots=True)
class Anonymous:
    """The results of ``judge anonymous``.

    Attributes:
        lexicon: its name and where its words come from.
        captioners: what each one's captions name.
        left_out: captioner -> reason -> captions or images left out.
        sheet: what raters are given.
        silent: classes that the lexicon has no words for.
        notes: on captions, and on what is counted.
        rated: what came back; None before.
    """

    lexicon: tuple[str, str]
    captioners: Sequence[Naming]
    left_out: Mapping[str, Mapping[str, int]]
    sheet: Sheet
    silent: Sequence[str]
    notes: Sequence[str]
    rated: Rated | None = None


def _share(title: str, of: Callable[[Any], CaptionShare], *, interval: bool = False) -> list[Column[Any]]:
    """A column of shares, and one of their intervals."""
    columns: list[Column[Any]] = [Column(title, lambda row: of(row).value, NUMBER)]
    return [*columns, Column("interval", lambda row: of(row).interval, NUMBER)] if interval else columns


def _first_columns(title: str, classes: Sequence[str]) -> list[Column[Any]]:
    """Captioner, images, captions, their share with its interval, and each class's."""
    return [
        names("captioner", lambda row: str(row.captioner)),
        Column("images", lambda row: row.share.images, COUNT),
        Column("captions", lambda row: row.share.captions, COUNT),
        *_share(title, lambda row: row.share, interval=True),
        *(column for name in classes for column in _share(name, partial(_of_class, name))),
    ]


def _of_class(name: str, row: Naming | HumanScore) -> CaptionShare:
    return row.classes[name]


def _balance(name: str, row: Naming) -> CaptionShare:
    return row.balance[name]


def naming_table(found: Anonymous) -> Table[Naming]:
    """A row for each captioner: how many of its captions name a class, which, and the balance between classes."""
    classes = found.sheet.answers[:-1]
    columns = [*_first_columns("name a class", classes), *_share("several", lambda row: row.several)]
    # One of two shares of the balance says all.
    for name in classes[:1] if len(classes) == 2 else classes:
        columns += _share(f"{name} of one", partial(_balance, name), interval=True)
    shares = (
        f"Shares of captions. '{classes[0]} of one': of the captions that name exactly one class. Intervals: exact "
        "(Clopper and Pearson); of several captions an image as many as they are worth (Korn and Graubard 1998)."
    )
    words = (
        f"By the words of the lexicon '{found.lexicon[0]}' ({found.lexicon[1]}): a class that other words tell is not "
        "found. What people find, ratings show."
    )
    title = f"Captions that name {found.sheet.attribute}"
    return Table(tuple(columns), tuple(found.captioners), title, (shares, words))


def score_table(found: Anonymous, rated: Rated) -> Table[HumanScore]:
    """A row for each captioner: from how many of its captions people could guess the attribute."""
    columns = [
        *_first_columns("people could guess", found.sheet.answers[:-1]),
        *_share("lexicon", lambda row: row.named),
        Column("no majority", lambda row: row.ties, COUNT),
        Column("not rated", lambda row: row.unrated, COUNT),
    ]
    undefined = "is not defined: no caption has two raters, or all answers are the same"
    alpha = undefined if rated.alpha is None else f"{rated.alpha:.3f}"
    by_rater = ", ".join(f"{name} {count:,}" for name, count in rated.raters.items())
    both = rated.lexicon["both"] + rated.lexicon["neither"]
    beside = (
        f"Lexicon and people agree on {how_many(both, 'caption')}; it names a class in {rated.lexicon['lexicon']:,} "
        f"from which people could not guess, and none in {rated.lexicon['people']:,} from which they could."
    )
    notes = (
        "Majority: the answer that more raters gave than any other; captions without one are in no share.",
        "'lexicon': the share of the same captions in which the lexicon finds a class.",
        f"Captions answered by {by_rater}. Krippendorff's alpha {alpha}.",
        beside,
    )
    return Table(tuple(columns), tuple(rated.scores), "What people could guess", notes)


def metric_table(rated: Rated) -> Table[tuple[Any, ...]]:
    """A row for each metric and value: correlations with human scores over captioners."""
    rows = (
        (f"{row.metric}, {row.value}", of.pairs, of.pearson, of.interval, of.spearman, of.spearman_interval)
        for row in rated.people
        for of in [row.agreement]
    )
    numbers = [("captioners", COUNT), ("Pearson", SIGNED), ("interval", SIGNED), ("Spearman", SIGNED)]
    note = "Human scores, and the lexicon's share beside them, are of the captions that were rated and have a majority."
    title = "Agreement of metrics with human scores"
    return table_of(["metric (judge)"], [*numbers, ("interval", SIGNED)], rows, title, (note, INTERVAL_NOTE))


def anonymous_notes(found: Anonymous) -> list[str]:
    """What a reader must know, a line each."""
    lines = list(NOT_FAIRNESS)
    if found.silent:
        lines.append(
            f"The lexicon has no words for {', '.join(found.silent)}, so no share counts captions that name it."
        )
    for captioner, reasons in found.left_out.items():
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items() if count)
        lines += [f"Left out of {captioner}: {counts}."] if counts else []
    return [*lines, *found.notes]


def human_scores_csv(rated: Rated) -> str:
    """For ``judge evaluate --human-scores``: captioner, score, low, high, images, captions; captioners with a score."""
    columns = ["captioner", "score", "low", "high", "images", "captions"]
    shares = {row.captioner: row.share for row in rated.scores if row.share.captions}
    rows = [
        (name, of.value, of.interval and of.interval.low, of.interval and of.interval.high, of.images, of.captions)
        for name, of in shares.items()
    ]
    return rows_csv(columns, rows)


def anonymous_json(found: Anonymous) -> str:
    """``anonymous.json``: fractions, absent values null, never NaN."""
    document: dict[str, Any] = {
        "attribute": found.sheet.attribute,
        "classes": found.sheet.answers[:-1],
        "lexicon": dict(zip(("name", "source"), found.lexicon, strict=True)),
        "captioners": [asdict(row) | {"left_out": found.left_out[row.captioner]} for row in found.captioners],
        "sheet": {"name": found.sheet.name, "items": len(found.sheet.items), "answers": found.sheet.answers},
        "ratings": None,
        "notes": anonymous_notes(found),
    }
    if found.rated:
        document["ratings"] = {
            "raters": found.rated.raters,
            "alpha": found.rated.alpha,
            "captioners": [asdict(row) for row in found.rated.scores],
            "lexicon": found.rated.lexicon,
            "metrics": [
                {"metric": row.metric, "value": row.value} | asdict(row.agreement) for row in found.rated.people
            ],
        }
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Intervals as [low, high]; NaN as null."""
    if isinstance(value, Mapping):
        if {*value} == {"low", "high", "level"}:
            return [value["low"], value["high"]]
        return {name: _plain(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if isinstance(value, float) and math.isnan(value) else value

"""The results of ``judge anonymous`` as tables, notes, JSON and CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.corpus.ratings import Sheet
from judge.report.detail_tables import correlation_table
from judge.report.table import COUNT, NUMBER, Table, as_json, json_text, table_of
from judge.statistics.consistency import Correlation
from judge.statistics.naming import HumanScore, Naming
from judge.utils.cells import rows_csv

_NOT_FAIRNESS = (
    "A low share is not fairness: a captioner that never names anybody scores 0, whatever else it says of people.",
    "Nor do shares say whether a guess was right: nothing is to be seen, so every class named is a guess.",
)


@dataclass(frozen=True, slots=True)
class Rated:
    """The answers of raters: rater -> items answered; Krippendorff's alpha, None where it is not defined; scores.

    ``agreement``: of the lexicon's share with human scores, over captioners.
    """

    raters: Mapping[str, int]
    alpha: float | None
    captioners: Sequence[HumanScore]
    agreement: Correlation


@dataclass(frozen=True, slots=True)
class Anonymous:
    """The results of ``judge anonymous``.

    Attributes:
        lexicon: its name and where its words come from.
        left_out: captioner -> reason -> captions or images left out.
        sheet: what raters are given.
        silent: classes that the lexicon has no words for.
        rated: the ratings; None without them.
    """

    lexicon: tuple[str, str]
    captioners: Sequence[Naming]
    left_out: Mapping[str, Mapping[str, int]]
    sheet: Sheet
    silent: Sequence[str]
    notes: Sequence[str]
    rated: Rated | None = None


def _headings(share: str, classes: Sequence[str]) -> list[tuple[str, str]]:
    """Headings and formats of the numbers that both tables begin with; ``share``: the first share's."""
    numbers = [("images", COUNT), ("captions", COUNT), (share, NUMBER), ("interval", NUMBER)]
    return numbers + [(name, NUMBER) for name in classes]


def _cells(row: Naming | HumanScore, classes: Sequence[str]) -> tuple[Any, ...]:
    """The captioner, and the numbers of :func:`_headings`."""
    of = row.share
    return row.captioner, of.images, of.captions, of.value, of.interval, *(row.classes[name].value for name in classes)


def naming_table(found: Anonymous) -> Table[tuple[Any, ...]]:
    """A row for each captioner: how many of its captions name a class, which, and the balance between classes."""
    classes = found.sheet.answers[:-1]
    # One of two shares of the balance says all.
    balanced = classes[:1] if len(classes) == 2 else classes
    numbers = [*_headings("name a class", classes), ("several", NUMBER)]
    numbers += [column for name in balanced for column in ((f"{name} of one", NUMBER), ("interval", NUMBER))]
    rows = []
    for row in found.captioners:
        balance = [part for name in balanced for part in (row.balance[name].value, row.balance[name].interval)]
        rows.append((*_cells(row, classes), row.several.value, *balance))
    shares = (
        f"Shares of captions. '{classes[0]} of one': of the captions that name exactly one class. Intervals: exact "
        "(Clopper and Pearson); of several captions an image as many as they are worth (Korn and Graubard 1998)."
    )
    words = (
        f"By the words of the lexicon '{found.lexicon[0]}' ({found.lexicon[1]}): a class that other words tell is not "
        "found. What people find, ratings show."
    )
    return table_of(["captioner"], numbers, rows, f"Captions that name {found.sheet.attribute}", (shares, words))


def score_table(found: Anonymous, rated: Rated) -> Table[tuple[Any, ...]]:
    """A row for each captioner: from how many of its captions people could guess the attribute."""
    classes = found.sheet.answers[:-1]
    numbers = _headings("people could guess", classes)
    numbers += [("lexicon", NUMBER), ("no majority", COUNT), ("not rated", COUNT)]
    rows = [(*_cells(row, classes), row.named.value, row.ties, row.unrated) for row in rated.captioners]
    undefined = "is not defined: no caption has two raters, or all answers are the same"
    alpha = undefined if rated.alpha is None else f"{rated.alpha:.3f}"
    by_rater = ", ".join(f"{name} {count:,}" for name, count in rated.raters.items())
    notes = (
        "Majority: the answer that more raters gave than any other; captions without one are in no share.",
        "'lexicon': the share of the same captions in which the lexicon finds a class.",
        f"Captions answered by {by_rater}. Krippendorff's alpha {alpha}.",
    )
    return table_of(["captioner"], numbers, rows, "What people could guess", notes)


def agreement_table(rated: Rated) -> Table[tuple[Any, ...]]:
    """Correlation of the lexicon's share with human scores over captioners."""
    note = "Human scores, and the lexicon's share beside them, are of the captions that were rated and have a majority."
    rows = [("lexicon, share that names a class", rated.agreement)]
    return correlation_table(rows, "Agreement of metrics with human scores", note, pearson="Pearson")


def anonymous_notes(found: Anonymous) -> list[str]:
    """Notes that a reader needs, a line each."""
    lines = list(_NOT_FAIRNESS)
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
    rows = [
        (row.captioner, of.value, of.interval and of.interval.low, of.interval and of.interval.high, of.images, count)
        for row in rated.captioners
        for of in [row.share]
        if (count := of.captions)
    ]
    return rows_csv(["captioner", "score", "low", "high", "images", "captions"], rows)


def anonymous_json(found: Anonymous) -> str:
    """``anonymous.json``: fractions, absent values null, never NaN."""
    sheet = found.sheet
    return json_text({
        "attribute": sheet.attribute,
        "classes": sheet.answers[:-1],
        "lexicon": {"name": found.lexicon[0], "source": found.lexicon[1]},
        "captioners": [as_json(row) | {"left_out": found.left_out[row.captioner]} for row in found.captioners],
        "sheet": {"name": sheet.name, "items": len(sheet.items), "answers": sheet.answers},
        "ratings": found.rated,
        "notes": anonymous_notes(found),
    })  # fmt: skip

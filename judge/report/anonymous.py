"""The results of ``judge anonymous`` as tables, notes, JSON and CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.report.table import COUNT, NUMBER, Table, as_json, json_text, table_of
from judge.statistics.naming import Naming

_NOT_FAIRNESS = (
    "A low share is not fairness: a captioner that never names anybody scores 0, whatever else it says of people.",
    "Nor do shares say whether a guess was right: nothing is to be seen, so every class named is a guess.",
)


@dataclass(frozen=True, slots=True)
class Anonymous:
    """The results of ``judge anonymous``.

    Attributes:
        attribute, classes: what captions may name.
        lexicon: its name and where its words come from.
        left_out: captioner -> reason -> captions or images left out.
        silent: classes that the lexicon has no words for.
    """

    attribute: str
    classes: tuple[str, ...]
    lexicon: tuple[str, str]
    captioners: Sequence[Naming]
    left_out: Mapping[str, Mapping[str, int]]
    silent: Sequence[str]
    notes: Sequence[str]


def naming_table(found: Anonymous) -> Table[tuple[Any, ...]]:
    """A row for each captioner: how many of its captions name a class, which, and the balance between classes."""
    classes = found.classes
    # One of two shares of the balance says all.
    balanced = classes[:1] if len(classes) == 2 else classes
    numbers = [("images", COUNT), ("captions", COUNT), ("name a class", NUMBER), ("interval", NUMBER)]
    numbers += [(name, NUMBER) for name in (*classes, "several")]
    numbers += [column for name in balanced for column in ((f"{name} of one", NUMBER), ("interval", NUMBER))]
    rows = []
    for row in found.captioners:
        balance = [part for name in balanced for part in (row.balance[name].value, row.balance[name].interval)]
        of, shares = row.share, [*(row.classes[name].value for name in classes), row.several.value]
        rows.append((row.captioner, of.images, of.captions, of.value, of.interval, *shares, *balance))
    note = (
        f"Shares of captions. '{classes[0]} of one': of the captions that name exactly one class. Intervals: exact "
        "(Clopper and Pearson); of several captions an image as many as they are worth (Korn and Graubard 1998)."
    )
    words = (
        f"By the words of the lexicon '{found.lexicon[0]}' ({found.lexicon[1]}): a class that other words tell is not "
        "found."
    )
    return table_of(["captioner"], numbers, rows, f"Captions that name {found.attribute}", (note, words))


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


def anonymous_json(found: Anonymous) -> str:
    """``anonymous.json``: fractions, absent values null, never NaN."""
    return json_text({
        "attribute": found.attribute,
        "classes": found.classes,
        "lexicon": {"name": found.lexicon[0], "source": found.lexicon[1]},
        "captioners": [as_json(row) | {"left_out": found.left_out[row.captioner]} for row in found.captioners],
        "notes": anonymous_notes(found),
    })  # fmt: skip

"""How often captions name the attribute at all. An all-neutral captioner must not look perfect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """Captions of one side: counts, and shares in [0, 1] of those that were judged.

    Attributes:
        captions: captions judged.
        one: share that names exactly one class.
        none: share that names none.
        several: share that names more than one.
        classes: class -> share of captions that name it (alone or with others).
    """

    captions: int
    one: float
    none: float
    several: float
    classes: dict[str, float]


def measure_coverage(mentions: Sequence[frozenset[str]], classes: Iterable[str]) -> Coverage:
    """Coverage of captions, given the ``classes`` that each names. Shares are NaN where there is no caption."""
    total = len(mentions)

    def share(count: int) -> float:
        return count / total if total else float("nan")

    return Coverage(
        captions=total,
        one=share(sum(len(named) == 1 for named in mentions)),
        none=share(sum(not named for named in mentions)),
        several=share(sum(len(named) > 1 for named in mentions)),
        classes={name: share(sum(name in named for named in mentions)) for name in classes},
    )

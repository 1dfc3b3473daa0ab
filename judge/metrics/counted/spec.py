"""Counted metrics as functions of two tables of counts: frozen once, then evaluated on any resample of images.

A row of METRICS names its :class:`Counting`: which metric, of which labels, compared with what, and in whose variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from judge.metrics.amplification import AMPLIFICATIONS
from judge.metrics.counted.association import BaVariant, DbaVariant, MultiVariant, freeze_ba, freeze_dba, variance
from judge.metrics.counted.contingency import ContingencyTable, divide
from judge.metrics.counted.dpa import DpaVariant, freeze_dpa
from judge.metrics.counted.ratio_error import Both
from judge.types import Direction, FloatArray

Kind = Literal["ba", "dba", "multi", "multi-variance", "dpa", "ratio", "error"]
Against = Literal["people", "annotation"]
Said = Literal["words", "objects"]


@dataclass(frozen=True, slots=True)
class NamingVariant:
    """How Ratio and Error count captions that name classes of the attribute.

    Attributes:
        first, second: Ratio's class above and class below; None for the one that people name most, and least.
        both: see :mod:`judge.metrics.counted.ratio_error`.
        among: Error's denominator; see there.
    """

    first: str | None = None
    second: str | None = None
    both: Both = "neutral"
    among: Literal["annotated", "naming"] = "annotated"


@dataclass(frozen=True, slots=True)
class Counting:
    """How a row is counted.

    Attributes:
        kind: the metric.
        against: what a captioner's captions are compared with: people's captions, or annotated classes and objects.
        labels: what else captions say: their content words or the names of objects; None where only classes count.
        variant: where published codes differ: BaVariant, DbaVariant, MultiVariant, DpaVariant or NamingVariant.
    """

    kind: Kind
    against: Against
    labels: Said | None
    variant: Any

    @property
    def is_share(self) -> bool:
        """Whether captions add to a numerator and a denominator, and to nothing else."""
        return self.kind in {"ratio", "error"} or (self.kind == "dpa" and self.variant.unit == "attacker")

    def as_in(self, name: str) -> Counting | None:
        """The same in the variant ``name`` of ``VARIANTS``, or of Ratio "A/B"; None where there is no such variant."""
        first, _, second = name.partition("/")
        if self.kind == "ratio" and first and second:
            return replace(self, variant=NamingVariant(first, second))
        changes = VARIANTS[self.kind].get(name)
        return replace(self, **changes) if changes else None


# What may follow a counted row's name and a colon ("dba-o:princeton"); the row alone is the paper's own definition.
# Several may ("dba-o:princeton:annotation"): "annotation" says with what captions are compared, the others how is
# counted. T->A is against the annotation in any case.
_ANNOTATION: Mapping[str, Any] = {"against": "annotation"}
VARIANTS: Mapping[Kind, Mapping[str, Mapping[str, Any]]] = {
    "ba": {
        "joint": {"variant": BaVariant(share="joint")},
        "kerner-lab": {"variant": BaVariant(share="joint", empty="zero")},
        "sony": {"variant": BaVariant(threshold="1/(A-1)")},
    },
    "dba": {
        "annotation": _ANNOTATION,
        "princeton": {"variant": DbaVariant(tie="zero")},
        "sony": {"variant": DbaVariant(tie="zero", rows="labelled")},
        "kerner-lab": {"variant": DbaVariant(empty="zero", per="mentions")},
    },
    "multi": {
        "annotation": _ANNOTATION,
        "sony": {"variant": MultiVariant(sets="exact", change=DbaVariant(tie="zero", rows="labelled"))},
        "pairs": {"variant": MultiVariant(largest=2)},
        "variance": {"kind": "multi-variance"},
        "variance-kerner-lab": {"kind": "multi-variance", "variant": MultiVariant(ddof=1, spread="signed")},
    },
    "multi-variance": {"annotation": _ANNOTATION},
    "dpa": {
        "annotation": _ANNOTATION,
        "label": {"variant": DpaVariant(unit="label")},
        "balanced": {"variant": DpaVariant(score="balanced")},
        "label-balanced": {"variant": DpaVariant(unit="label", score="balanced")},
        "attacker": {"variant": DpaVariant(unit="attacker")},
    },
    "ratio": {"each": {"variant": NamingVariant(both="each")}},
    "error": {
        "naming": {"variant": NamingVariant(among="naming")},
        "each": {"variant": NamingVariant(both="each")},
    },
}


# How two sides are compared (key of AMPLIFICATIONS); metrics of the other kinds are a change, or BA's difference.
COMPARED: Mapping[Kind, str] = {"ratio": "ratio", "error": "difference", "dpa": "normalised"}


class Measured(NamedTuple):
    """Of tables with leading axes, [...] each: both sides (NaN where the metric has none), and the metric."""

    human: FloatArray
    generated: FloatArray
    value: FloatArray


Evaluate = Callable[[ContingencyTable, ContingencyTable], Measured]


def freeze(
    counting: Counting, direction: Direction | None, truth: ContingencyTable, predicted: ContingencyTable
) -> Evaluate:
    """The metric with its pairs, signs and guesses chosen from two tables, once; both may have the same leading axes.

    Tables of Ratio and Error, and of DPA's attackers (who learnt once), have one class and one label: what captions add
    above, and below (``judge.metrics.counted.ratio_error``, ``judge.metrics.counted.dpa.attack_terms``).
    Those of Multi-> have a label for each set of labels (``judge.metrics.counted.contingency.set_contingency``).
    """
    kind, variant = counting.kind, counting.variant
    if counting.is_share:
        amplify = AMPLIFICATIONS[COMPARED[kind]]
        return lambda before, after: _shares(before, after, amplify)
    if kind == "ba":
        pairs = freeze_ba(truth, variant=variant)
        return lambda before, after: Measured(*pairs.bias(before, after), pairs.evaluate(before, after)[0])
    assert direction is not None  # Rows of the other kinds have one.
    if kind == "dpa":
        guesses = freeze_dpa(truth, predicted, direction, variant=variant)

        def predictability(before: ContingencyTable, after: ContingencyTable) -> Measured:
            found = guesses.evaluate(before, after)
            return Measured(found.truth, found.predicted, found.value)

        return predictability
    several = kind != "dba"
    signed = freeze_dba(truth, direction, variant=variant.change if several else variant, size=several)
    if kind == "multi-variance":

        def spread(before: ContingencyTable, after: ContingencyTable) -> Measured:
            change = signed.change(before, after)
            spreads = {"change": change, "signed": signed.sign * change, "size": np.abs(change)}
            return _alone(variance(spreads[variant.spread], ddof=variant.ddof))

        return spread
    return lambda before, after: _alone(signed.evaluate(before, after)[0])


def _shares(
    before: ContingencyTable, after: ContingencyTable, amplify: Callable[[FloatArray, FloatArray], FloatArray]
) -> Measured:
    human, generated = (divide(table.attribute[..., 0], table.tasks[..., 0]) for table in (before, after))
    return Measured(human, generated, amplify(human, generated))


def _alone(value: FloatArray) -> Measured:
    """A metric that is a change, and has no sides."""
    nothing = np.full_like(value, np.nan)
    return Measured(nothing, nothing, value)

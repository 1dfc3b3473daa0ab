"""Gap: how far the classes lie apart in the share of their captions that name an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from judge.metrics import Metric
from judge.metrics.counted.contingency import ContingencyTable, divide
from judge.metrics.counted.spec import Compared, CountedMetric
from judge.types import Direction


@dataclass(frozen=True, kw_only=True)
class Gap(CountedMetric):
    direction: Direction | None = "A->T"
    of: Literal["mean", "largest"] = "mean"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"largest": {"of": "largest"}}

    def freeze(self, truth: ContingencyTable, predicted: ContingencyTable) -> Gap:
        return self

    def compare(self, truth: ContingencyTable, predicted: ContingencyTable) -> Compared:
        gaps = [np.ptp(divide(table.together, table.attribute[..., :, None]), axis=-2) for table in (truth, predicted)]
        human, generated = (of.mean(axis=-1) if self.of == "mean" else of.max(axis=-1) for of in gaps)
        return Compared(generated - human, gaps[1] - gaps[0], human, generated)


GAP = Metric(
    "gap",
    "Gap",
    hidden=(),
    judge="counted",
    target="tasks",
    direction="A->T",
    score="counted",
    reference="this template",
    variant="by annotated class",
    balanced=False,
    counted=Gap(),
)

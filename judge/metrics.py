"""Every published metric is one row: what is hidden, aligned, judged, scored, compared.

``judge.measure`` walks a row and knows no metric by name. To add one: a row here, its paper in
``references.bib``, an oracle in the tests (CONTRIBUTING, "Add a metric").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from judge.alignment import AlignmentName
from judge.cooccurrence import BaVariant, DbaVariant, MultiVariant
from judge.counting import VARIANTS, Counting, NamingVariant
from judge.errors import JudgeError, nearest
from judge.predictability import DpaVariant
from judge.scores import SCORES
from judge.types import Direction, TargetKind

Hidden = Literal["attribute words", "task words", "people"]
Prior = Literal["P(t)/P(a)", "P(a^)/P(T)"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One point in the space of the design's axes.

    Attributes:
        name: the row's key, as users type it.
        title: as papers write it.
        hidden: what is taken from the evidence before the judge sees it.
        alignment: how the human side is made comparable.
        judge: the judge of the metric's own paper.
        target: what the judge guesses.
        direction: for metrics that have two (DBAC, DBA); None for the others.
        score: key of ``scores.SCORES``.
        amplification: key of ``amplification.AMPLIFICATIONS``.
        reference: key in ``references.bib``, and where in the paper.
        holdout: shares of the images, under ``paper``, that judges are scored on, and that choose their epoch.
        variant: what a reader has to know where published codes differ.
        prior: the weight w of each caption, of frequencies on its side; None where all count alike. P(t): of the
            caption's task words; P(a): of the image's class; P(a^): of the classes that the caption names; P(T): of the
            image's tasks.
        head: layers of the perceptron on the paper's encoders; None where judges keep their own head.
        balanced: whether classes count equally, in training and in the score; else images do.
        aggregate: over seeds: their mean, or the seed whose judges guess best on held-out captions.
        counted: how, where no judge is asked; None where one is.
    """

    name: str
    title: str
    hidden: tuple[Hidden, ...]
    alignment: AlignmentName
    judge: str
    target: TargetKind
    direction: Direction | None
    score: str
    amplification: str
    reference: str
    variant: str = ""
    holdout: tuple[float, float] = (0.1, 0.0)
    prior: Prior | None = None
    head: Literal[3, 5] | None = None
    balanced: bool = True
    aggregate: Literal["mean", "best"] = "mean"
    counted: Counting | None = None

    @property
    def evidence(self) -> tuple[object, ...]:
        """Rows that agree in this share their evidence: DBAC and DPAC of one direction."""
        return self.hidden, self.alignment, self.target, self.prior

    @property
    def training(self) -> tuple[object, ...]:
        """Rows that agree in this share their judges: LIC and Leakage train once."""
        return self.evidence, self.holdout, self.head, self.balanced, self.aggregate

    @property
    def looks(self) -> bool:
        """Whether its judges see images."""
        return "people" in self.hidden

    @property
    def reads_tasks(self) -> bool:
        """Whether words that name tasks have to be known."""
        of_counted = self.counted is not None and self.counted.labels == "objects"
        return self.target == "tasks" or self.prior is not None or of_counted


def _counted(
    name: str, title: str, counting: Counting, direction: Direction | None = None, *, reference: str, variant: str
) -> Metric:
    """A row that asks no judge."""
    amplification = {"ratio": "ratio", "dpa": "normalised"}.get(counting.kind, "difference")
    return Metric(
        name,
        title,
        hidden=(),
        alignment="none",
        judge="counted",
        target="tasks" if direction == "A->T" else "attribute",
        direction=direction,
        score="counted",
        amplification=amplification,
        reference=reference,
        variant=variant,
        balanced=False,
        counted=counting,
    )


METRICS: dict[str, Metric] = {
    row.name: row
    for row in (
        Metric(
            "lic",
            "LIC",
            hidden=("attribute words",),
            alignment="constant",
            judge="lstm",
            target="attribute",
            direction=None,
            score="confident_accuracy",
            amplification="difference",
            reference="hirota2022quantifying, eq. 9-11",
        ),
        Metric(
            "leakage",
            "Leakage",
            hidden=("attribute words",),
            alignment="constant",
            judge="lstm",
            target="attribute",
            direction=None,
            score="accuracy",
            amplification="difference",
            reference="wang2019balanced, as adapted to captions by hirota2022quantifying, eq. 4-6",
            variant="on captions; both sides judged from captions with constant vocabulary substitution",
        ),
        Metric(
            "sc",
            "SC",
            hidden=("attribute words",),
            alignment="constant",
            judge="lstm",
            target="attribute",
            direction=None,
            score="accuracy",
            amplification="one_side",
            reference="zhao2021understanding, as formulated in hirota2022quantifying, eq. 1",
            variant="generated side alone; no amplification",
        ),
        Metric(
            "imagecaptioner2",
            "ImageCaptioner2",
            hidden=("attribute words", "people"),
            alignment="none",
            judge="sat",
            target="attribute",
            direction=None,
            score="confidence",
            amplification="difference",
            reference="abdelrahman2024imagecaptioner2, eq. 1-2",
            holdout=(0.2, 0.1),
        ),
        Metric(
            "imagecaptioner2-ratio",
            "ImageCaptioner2 (ratio)",
            hidden=("attribute words", "people"),
            alignment="none",
            judge="sat",
            target="attribute",
            direction=None,
            score="confidence",
            amplification="ratio",
            reference="abdelrahman2024imagecaptioner2, eq. 2",
            variant="generated over human; 1 means no amplification",
            holdout=(0.2, 0.1),
        ),
        Metric(
            "vl-lic",
            "VL-LIC",
            hidden=("attribute words", "people"),
            alignment="constant",
            judge="vl-lic",
            target="attribute",
            direction=None,
            score="confident_accuracy",
            amplification="difference",
            reference="abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, eq. 9-11",
            variant="judge vl-lic reads with BERT, as the paper's; vl-lic-lstm with LIC's LSTM",
            holdout=(0.2, 0.1),
        ),
        Metric(
            "dbac-at",
            "DBAC A->T",
            hidden=("attribute words",),
            alignment="contextual",
            judge="lstm",
            target="attribute",
            direction="A->T",
            score="inverse_cross_entropy",
            amplification="normalised",
            reference="nair2026dbac, supplement, algorithm 1",
            variant="images count equally; P(t) of the caption's set of task words",
            holdout=(0.2, 0.0),
            prior="P(t)/P(a)",
            head=3,
            balanced=False,
        ),
        Metric(
            "dbac-ta",
            "DBAC T->A",
            hidden=("task words",),
            alignment="contextual",
            judge="lstm",
            target="tasks",
            direction="T->A",
            score="inverse_cross_entropy",
            amplification="normalised",
            reference="nair2026dbac, supplement, algorithm 2",
            variant="binary cross-entropy, mean over tasks; other scores ask for the whole set; P(T): of the set",
            holdout=(0.2, 0.0),
            prior="P(a^)/P(T)",
            head=3,
            balanced=False,
        ),
        Metric(
            "dpac-at",
            "DPAC A->T",
            hidden=("attribute words",),
            alignment="contextual",
            judge="lstm",
            target="attribute",
            direction="A->T",
            score="confidence",
            amplification="normalised",
            reference="nair2025dpac, eq. 9-11",
            variant="mean of P(a|s) w over captions; of several seeds the best-guessing judge of each side",
            holdout=(0.2, 0.0),
            prior="P(t)/P(a)",
            head=5,
            balanced=False,
            aggregate="best",
        ),
        Metric(
            "dpac-ta",
            "DPAC T->A",
            hidden=("task words",),
            alignment="contextual",
            judge="lstm",
            target="tasks",
            direction="T->A",
            score="confidence",
            amplification="normalised",
            reference="nair2025dpac, eq. 12-14",
            variant="P(T|s): product over tasks; of several seeds the best-guessing judge of each side",
            holdout=(0.2, 0.0),
            prior="P(a^)/P(T)",
            head=5,
            balanced=False,
            aggregate="best",
        ),
        _counted(
            "ba",
            "BA",
            Counting("ba", "people", "words", BaVariant()),
            reference="zhao2017men, eq. 1, on captions as hirota2022quantifying, supplement A.2",
            variant="classes that captions name (annotated ones where they have no words) and content words that are "
            "frequent with each class on both sides together; captions that name several classes name none",
        ),
        _counted(
            "ba-objects",
            "BA (objects)",
            Counting("ba", "people", "objects", BaVariant()),
            reference="zhao2017men, eq. 1, on captions",
            variant="classes and objects (but people) that captions name; captions that name several classes name none",
        ),
        _counted(
            "dba-o",
            "DBA_O (A->T)",
            Counting("dba", "annotation", "objects", DbaVariant()),
            "A->T",
            reference="wang2021directional, eq. 1-3; hirota2022quantifying, supplement A.2",
            variant="objects (but people) that captions name against those that images show, by annotated class",
        ),
        _counted(
            "dba-g",
            "DBA_G (T->A)",
            Counting("dba", "annotation", "objects", DbaVariant()),
            "T->A",
            reference="wang2021directional, eq. 1-3; hirota2022quantifying, supplement A.2",
            variant="classes that captions name against annotated ones, by objects (but people) that images show; "
            "captions that name none or several are left out",
        ),
        _counted(
            "multi-at",
            "Multi A->T",
            Counting("multi", "annotation", "objects", MultiVariant()),
            "A->T",
            reference="zhao2023men, section 3",
            variant="mean size over all sets of objects; captions as in DBA_O",
        ),
        _counted(
            "multi-ta",
            "Multi T->A",
            Counting("multi", "annotation", "objects", MultiVariant()),
            "T->A",
            reference="zhao2023men, section 3",
            variant="mean size over all sets of objects; captions as in DBA_G",
        ),
        _counted(
            "dpa-at",
            "DPA A->T",
            Counting("dpa", "annotation", "objects", DpaVariant()),
            "A->T",
            reference="tokas2024making",
            variant="the best guess of an object, by class, from counts; captions as in DBA_O",
        ),
        _counted(
            "dpa-ta",
            "DPA T->A",
            Counting("dpa", "annotation", "objects", DpaVariant()),
            "T->A",
            reference="tokas2024making",
            variant="the best guess of a class, by object, from counts; captions as in DBA_G",
        ),
        _counted(
            "ratio",
            "Ratio",
            Counting("ratio", "people", None, NamingVariant()),
            reference="hendricks2018women, as in hirota2022quantifying, table 1",
            variant="captions that name the class that people name most, over the one that they name least; "
            "captions that name several classes name none; amplification: generated over human",
        ),
        _counted(
            "error",
            "Error",
            Counting("error", "people", None, NamingVariant()),
            reference="hendricks2018women, as in hirota2022quantifying, table 1",
            variant="captions that name another class than the annotated one, of all; to name none is no error",
        ),
    )
}

# Names that stand for several rows.
FAMILIES: dict[str, tuple[str, ...]] = {
    "dbac": ("dbac-at", "dbac-ta"),
    "dpac": ("dpac-at", "dpac-ta"),
    "dba": ("dba-o", "dba-g"),
    "multi": ("multi-at", "multi-ta"),
    "dpa": ("dpa-at", "dpa-ta"),
}
# Other names of rows.
ALIASES = {"dba-at": "dba-o", "dba-ta": "dba-g"}


def spell_out(names: Iterable[str]) -> tuple[str, ...]:
    """Names as users type them, with families as their rows ("dbac": both directions), each row once."""
    spelt = []
    for name in names:
        key, manner = _parts(name)
        for row in FAMILIES.get(key, (key,)):
            own = row in METRICS and not METRICS[row].counted and manner == METRICS[row].score
            spelt.append(f"{row}:{manner}" if manner and not own else row)
    return tuple(dict.fromkeys(spelt))


def find_metric(name: str) -> Metric:
    """The row called ``name`` (any case).

    A colon may follow: then another score ("dbac-at:accuracy"), or of a counted row another variant ("ba:sony").

    Raises:
        JudgeError: no such row, score or variant; the nearest name is suggested.
    """
    key, manner = _parts(name)
    if key in FAMILIES:
        raise JudgeError(f"'{key}' is several metrics", where="--metrics", mend=f"use {' or '.join(FAMILIES[key])}")
    if key not in METRICS:
        known = [*METRICS, *FAMILIES, *ALIASES]
        raise JudgeError(f"unknown metric '{name}'", where="--metrics", mend=nearest(key, known))
    row = METRICS[key]
    if row.counted is not None and manner:
        return _in_variant(row, row.counted, manner)
    if not manner or manner == row.score:
        return row
    if manner not in SCORES:
        raise JudgeError(f"unknown score '{manner}'", where=f"--metrics {name}", mend=nearest(manner, list(SCORES)))
    return replace(row, name=f"{key}:{manner}", title=f"{row.title} ({manner.replace('_', ' ')})", score=manner)


def _parts(name: str) -> tuple[str, str]:
    """A row's or a family's name, and what follows a colon: in lower case but for classes ("A/B")."""
    key, _, manner = (part.strip() for part in name.partition(":"))
    said = "/".join(part.strip() for part in manner.split("/")) if "/" in manner else manner.lower()
    return ALIASES.get(key.lower(), key.lower()), said


def _in_variant(row: Metric, counting: Counting, name: str) -> Metric:
    """A counted row as another code counts."""
    found = counting.as_in(name)
    if found is None:
        known = list(VARIANTS[counting.kind])
        others = ["CLASS/CLASS"] if counting.kind == "ratio" else []
        mend = nearest(name, known) if not others else f"use {' or '.join(known + others)}"
        raise JudgeError(f"unknown variant '{name}'", where=f"--metrics {row.name}:{name}", mend=mend)
    return replace(row, name=f"{row.name}:{name}", title=f"{row.title}, {name}", counted=found)

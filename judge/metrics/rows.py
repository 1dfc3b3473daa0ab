"""The published metrics, one row each, and how users name them: families, aliases, scores and variants."""

from collections.abc import Iterable
from dataclasses import replace

from judge.errors import JudgeError, nearest
from judge.metrics.counted.dpa import Dpa
from judge.metrics.counted.multi import Multi
from judge.metrics.counted.pairs import Ba, Dba
from judge.metrics.counted.ratio_error import Error, Ratio
from judge.metrics.counted.spec import CountedMetric
from judge.metrics.row import Metric
from judge.metrics.scores import SCORES


def _counted(name: str, title: str, counted: CountedMetric, reference: str, variant: str) -> Metric:
    """A counted metric, which has no judge."""
    return Metric(
        name,
        title,
        hidden=(),
        judge="counted",
        target="tasks" if counted.direction == "A->T" else "attribute",
        direction=counted.direction,
        score="counted",
        amplification=counted.amplification,
        reference=reference,
        variant=variant,
        balanced=False,
        counted=counted,
    )


_LIC = Metric(
    "lic",
    "LIC",
    hidden=("attribute words",),
    alignment="constant",
    judge="lstm",
    score="confident_accuracy",
    reference="hirota2022quantifying, eq. 9-11",
)
_IMAGECAPTIONER2 = Metric(
    "imagecaptioner2",
    "ImageCaptioner2",
    hidden=("attribute words", "people"),
    judge="sat",
    score="confidence",
    reference="abdelrahman2024imagecaptioner2, eq. 1-2",
    holdout=(0.2, 0.1),
)
_DBAC_AT = Metric(
    "dbac-at",
    "DBAC A->T",
    hidden=("attribute words",),
    alignment="contextual",
    judge="lstm",
    direction="A->T",
    score="inverse_cross_entropy",
    amplification="normalised",
    reference="nair2026dbac, supplement, algorithm 1",
    variant="images count equally; P(t) of the caption's set of task words, people apart",
    holdout=(0.2, 0.0),
    prior="P(t)/P(a)",
    product=True,
    head=3,
    balanced=False,
)
_DPAC_AT = replace(
    _DBAC_AT,
    name="dpac-at",
    title="DPAC A->T",
    score="confidence",
    reference="nair2025dpac, eq. 9-11",
    variant="mean of P(a|s) w over captions; of several seeds the judge of each side that guesses best on "
    "validation images, a tenth, which learn otherwise with the rest",
    holdout=(0.2, 0.1),
    product=False,
    head=5,
    aggregate="best",
)
_U_TA = Metric(
    "u-ta",
    "U T->A",
    hidden=(),
    judge="linear",
    direction="T->A",
    score="uncertainty",
    reference="theil1970estimation, cross-validated (xu2020theory)",
    variant="1 - CE(a^|T) / CE(a^) of captions that name one class; T: annotated tasks but people",
    holdout=(0.2, 0.0),
    balanced=False,
    from_annotation=True,
)
_DBA = "wang2021directional, eq. 1-3; hirota2022quantifying, supplement A.2"
_MULTI = "zhao2023men, section 3"
_NAMING = "hendricks2018women, as in hirota2022quantifying, table 1"

METRICS: dict[str, Metric] = {
    row.name: row
    for row in (
        _LIC,
        replace(
            _LIC,
            name="leakage",
            title="Leakage",
            score="accuracy",
            reference="wang2019balanced, as adapted to captions by hirota2022quantifying, eq. 4-6",
            variant="on captions; both sides judged from captions with constant vocabulary substitution",
        ),
        replace(
            _LIC,
            name="sc",
            title="SC",
            score="accuracy",
            amplification="one_side",
            reference="zhao2021understanding, as formulated in hirota2022quantifying, eq. 1",
            variant="generated side alone; no amplification",
        ),
        _IMAGECAPTIONER2,
        replace(
            _IMAGECAPTIONER2,
            name="imagecaptioner2-ratio",
            title="ImageCaptioner2 (ratio)",
            amplification="ratio",
            reference="abdelrahman2024imagecaptioner2, eq. 2",
            variant="generated over human; 1 means no amplification",
        ),
        replace(
            _IMAGECAPTIONER2,
            name="vl-lic",
            title="VL-LIC",
            alignment="constant",
            judge="vl-lic",
            score="confident_accuracy",
            reference="abdelrahman2024imagecaptioner2, section 5.7; hirota2022quantifying, eq. 9-11",
            variant="judge vl-lic reads with BERT, as the paper's; vl-lic-lstm with LIC's LSTM",
        ),
        _DBAC_AT,
        replace(
            _DBAC_AT,
            name="dbac-ta",
            title="DBAC T->A",
            hidden=("task words",),
            target="tasks",
            direction="T->A",
            reference="nair2026dbac, supplement, algorithm 2",
            variant="of captions that name one class; binary cross-entropy, mean over tasks but people; other scores "
            "ask for the whole set; P(T): of the set",
            prior="P(a^)/P(T)",
        ),
        _DPAC_AT,
        replace(
            _DPAC_AT,
            name="dpac-ta",
            title="DPAC T->A",
            hidden=("task words",),
            target="tasks",
            direction="T->A",
            reference="nair2025dpac, eq. 12-14",
            variant="of captions that name one class; P(T|s): product over tasks but people; of several seeds as A->T",
            prior="P(a^)/P(T)",
        ),
        _U_TA,
        replace(
            _U_TA,
            name="u-at",
            title="U A->T",
            target="tasks",
            direction="A->T",
            variant="1 - CE(t^|a) / CE(t^), mean over tasks but people that 10 human captions or more name",
        ),
        _counted(
            "ba",
            "BA",
            Ba(),
            "zhao2017men, eq. 1, on captions as hirota2022quantifying, supplement A.2",
            "classes that captions name (annotated ones where they have no words) and content words that are "
            "frequent with each class on both sides together; captions that name several classes name none",
        ),
        _counted(
            "ba-objects",
            "BA (objects)",
            Ba(labels="objects"),
            "zhao2017men, eq. 1, on captions",
            "classes and objects (but people) that captions name; captions that name several classes name none",
        ),
        _counted(
            "dba-o",
            "DBA_O (A->T)",
            Dba(),
            _DBA,
            "objects (but people) that captions name against those that human captions name, by annotated class",
        ),
        _counted(
            "dba-g",
            "DBA_G (T->A)",
            Dba(direction="T->A", against="annotation"),
            _DBA,
            "classes that captions name against annotated ones, by objects (but people) that images show; "
            "captions that name none or several are left out",
        ),
        _counted("multi-at", "Multi A->T", Multi(), _MULTI, "mean size over all sets of objects; captions as in DBA_O"),
        _counted(
            "multi-ta",
            "Multi T->A",
            Multi(direction="T->A", against="annotation"),
            _MULTI,
            "mean size over all sets of objects; captions as in DBA_G",
        ),
        _counted(
            "dpa-at",
            "DPA A->T",
            Dpa(),
            "tokas2024making",
            "the best guess of an object, by class, from counts; captions as in DBA_O",
        ),
        _counted(
            "dpa-ta",
            "DPA T->A",
            Dpa(direction="T->A", against="annotation"),
            "tokas2024making",
            "the best guess of a class, by object, from counts; captions as in DBA_G",
        ),
        _counted(
            "ratio",
            "Ratio",
            Ratio(),
            _NAMING,
            "captions that name the class that people name most, over the one that they name least; "
            "captions that name several classes name none; amplification: generated over human",
        ),
        _counted(
            "error",
            "Error",
            Error(),
            _NAMING,
            "captions that name another class than the annotated one, of all; to name none is no error",
        ),
    )
}

# Names of several rows.
FAMILIES: dict[str, tuple[str, ...]] = {
    "dbac": ("dbac-at", "dbac-ta"),
    "dpac": ("dpac-at", "dpac-ta"),
    "u": ("u-at", "u-ta"),
    "dba": ("dba-o", "dba-g"),
    "multi": ("multi-at", "multi-ta"),
    "dpa": ("dpa-at", "dpa-ta"),
}
ALIASES = {"dba-at": "dba-o", "dba-ta": "dba-g"}
# The variant of metrics with priors in which people are tasks too.
WITH_PEOPLE = "with-people"


def spell_out(names: Iterable[str]) -> tuple[str, ...]:
    """The rows of ``names``, each once; a family ("dbac") stands for its rows."""
    rows = []
    for name in names:
        key, variants = _parts(name)
        for row in FAMILIES.get(key, (key,)):
            default = METRICS[row].score if row in METRICS and not METRICS[row].counted else None
            rows.append(":".join([row, *(each for each in variants if each != default)]))
    return tuple(dict.fromkeys(rows))


def find_metric(name: str) -> Metric:
    """The row called ``name`` (any case).

    A colon may follow with another score ("dbac-at:accuracy"), "with-people" for metrics with priors, or another
    variant of a counted metric ("dba-o:princeton").

    Raises:
        JudgeError: no such row, score or variant; the nearest name is suggested.
    """
    key, variants = _parts(name)
    if key in FAMILIES:
        raise JudgeError(f"'{key}' is several metrics", where="--metrics", mend=f"use {' or '.join(FAMILIES[key])}")
    if key not in METRICS:
        known = [*METRICS, *FAMILIES, *ALIASES]
        raise JudgeError(f"unknown metric '{name}'", where="--metrics", mend=nearest(key, known))
    row = METRICS[key]
    for variant in variants:
        row = _variant(row, variant)
    return row


def _parts(name: str) -> tuple[str, list[str]]:
    """The name of a row or family, and its variants: in lower case, except for classes ("A/B")."""
    key, *variants = (part.strip() for part in name.split(":"))
    spelt = ["/".join(map(str.strip, part.split("/"))) if "/" in part else part.lower() for part in variants]
    return ALIASES.get(key.lower(), key.lower()), [part for part in spelt if part]


def _variant(row: Metric, name: str) -> Metric:
    """A judged row with another score, or with people among the tasks; a counted row in another variant."""
    full, where = f"{row.name}:{name}", f"--metrics {row.name}:{name}"
    if row.counted:
        if counted := row.counted.in_variant(name):
            return replace(row, name=full, title=f"{row.title}, {name}", counted=counted)
        raise JudgeError(f"unknown variant '{name}'", where=where, mend=nearest(name, list(row.counted.variants)))
    if name == row.score:
        return row
    if name == WITH_PEOPLE and row.prior:
        return replace(row, name=full, title=f"{row.title}, people as tasks", people_are_tasks=True)
    scores = [name for name, score in SCORES.items() if row.from_annotation or not score.relative]
    if name not in scores:
        known = [*scores, *([WITH_PEOPLE] if row.prior else [])]
        raise JudgeError(f"unknown score '{name}'", where=where, mend=nearest(name, known))
    return replace(row, name=full, title=f"{row.title} ({name.replace('_', ' ')})", score=name)

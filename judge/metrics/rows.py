"""The published metrics, one row each, and how users name them: families, aliases, scores and variants."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Literal, get_args

from judge.errors import JudgeError, nearest
from judge.metrics.counted.dpa import Dpa
from judge.metrics.counted.multi import Multi
from judge.metrics.counted.pairs import Ba, Dba
from judge.metrics.counted.ratio_error import Error, Ratio
from judge.metrics.counted.spec import CountedMetric
from judge.metrics.row import Known, Metric
from judge.metrics.scores import SCORES
from judge.utils.plugins import load_plugin, origin, plugins


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
        Metric(
            "conditional",
            "Conditional leakage",
            hidden=("attribute words",),
            judge="words+embedding",
            score="gain",
            reference="hewitt2021conditional, section 3; xu2020theory",
            variant="given other people's captions; beyond a reference person who says as much",
            given=("people",),
        ),
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
            variant="judge vl-lic reads with BERT, as the paper's; vl-lic-lstm with LIC's LSTM; hold-out of "
            "ImageCaptioner2, epochs and learning rate of LIC",
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
    "paper": ("lic", "u-at", "u-ta", "dbac-at", "dbac-ta", "ba", "dba-o", "dba-g", "ratio", "error"),
}
ALIASES = {"dba-at": "dba-o", "dba-ta": "dba-g"}
KNOWN: tuple[Known, ...] = get_args(Known)
"""What judges may know of an image beside the caption."""
# The variant of metrics with priors in which people are tasks too; those without balance, and with it.
WITH_PEOPLE, UNBALANCED, BALANCED = "with-people", "unbalanced", "balanced"


def spell_out(names: Iterable[str]) -> tuple[str, ...]:
    """The rows of ``names``, each once; a family ("dbac") stands for its rows. Unknown names stay as they are."""
    rows = []
    for name in names:
        key, variants = _parts(name)
        for row in FAMILIES.get(key, (key,)):
            full = ":".join([row, *variants])
            rows.append(find_metric(full).name if row in {*METRICS, *plugins("metrics")} else full)
    return tuple(dict.fromkeys(rows))


def find_metric(name: str) -> Metric:
    """The row called ``name`` (any case).

    Variants may follow, each after a colon: another score ("dbac-at:accuracy"); "with-people" for metrics with priors;
    another hold-out in percent ("lic:80/20", or with the part that chooses an epoch "lic:70/10/20"); "unbalanced" for
    metrics that balance classes; of a counted metric another variant ("dba-o:princeton"). The row's name and title
    show what differs from the metric's own.

    Raises:
        JudgeError: no such row, score or variant; the nearest name is suggested. Or two variants choose the same thing.
    """
    key, variants = _parts(name)
    if key in FAMILIES:
        raise JudgeError(f"'{key}' is several metrics", where="--metrics", mend=f"use {' or '.join(FAMILIES[key])}")
    plugin = load_plugin("metrics", key, Metric, [*METRICS, *FAMILIES, *ALIASES])
    own = row = replace(plugin, name=key, origin=origin("metrics", key)) if plugin else METRICS.get(key)
    if row is None or own is None:
        known = [*METRICS, *plugins("metrics"), *FAMILIES, *ALIASES]
        raise JudgeError(f"unknown metric '{name}'", where="--metrics", mend=nearest(key, known))
    row, other = (reduce(_variant, order, row) for order in (variants, variants[::-1]))
    if len({*variants}) < len(variants) or replace(other, name=row.name, title=row.title) != row:
        raise JudgeError("two of its variants choose the same thing", where=f"--metrics {name}", mend="leave one out")
    return row if row.counted else _renamed(row, own)


def with_given(names: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """``names``, where metrics that are given what is known, and do not name it themselves, are ``given`` that."""
    own = METRICS["conditional"].given
    known = "+".join(of for of in KNOWN if of in given) if {*given} <= {*KNOWN} else "+".join(given)
    return tuple(f"{name}:{known}" if name.lower() == "conditional" and (*given,) != own else name for name in names)


def with_protocol(
    names: Iterable[str], *, balance: Literal["none", "classes"] | None, holdout: Sequence[float] | None
) -> tuple[str, ...]:
    """``names`` with another balance or hold-out for the metrics that have judges; None leaves each metric its own.

    ``balance``: "none" where all images count equally, "classes" where classes do; refused for metrics that cannot.
    ``holdout``: the share of images for testing, and then, unless it is the metric's own, for choosing an epoch;
    refused where none are left for training.
    """
    found, given = [], holdout or ()
    for row in map(find_metric, spell_out(names)):
        test, validation = (*given, *row.holdout[len(given) :])
        if not (row.counted or row.given) and test + validation > 1 - 1e-6:
            what = f"{row.title}: {test:g} of the images are for testing and {validation:g} to choose an epoch"
            where = f"--holdout {','.join(f'{share:g}' for share in given)}"
            raise JudgeError(f"{what}, none for training", where=where, mend="give shares whose sum is below 1")
        parts = replace(row, holdout=(test, validation)).parts
        kept = [part for part in row.name.split(":") if "/" not in part and part != UNBALANCED]
        equal = {"none": UNBALANCED, "classes": BALANCED, None: BALANCED if row.balanced else UNBALANCED}[balance]
        found.append(row.name if row.counted or row.given else ":".join([*kept, parts, equal]))
    return spell_out(found)


def _parts(name: str) -> tuple[str, list[str]]:
    """The name of a row or family, and its variants: in lower case, except for classes ("A/B")."""
    key, *variants = (part.strip() for part in name.split(":"))
    spelt = ["/".join(map(str.strip, part.split("/"))) if "/" in part else part.lower() for part in variants]
    return ALIASES.get(key.lower(), key.lower()), [part for part in spelt if part]


def _variant(row: Metric, name: str) -> Metric:
    """A judged row with another score, hold-out or balance, or people among the tasks; a counted one in a variant."""
    where = f"--metrics {row.name}:{name}"
    if row.counted:
        if counted := row.counted.in_variant(name):
            return replace(row, name=f"{row.name}:{name}", title=f"{row.title}, {name}", counted=counted)
        raise JudgeError(f"unknown variant '{name}'", where=where, mend=nearest(name, list(row.counted.variants)))
    if name == WITH_PEOPLE and row.prior:
        return replace(row, people_are_tasks=True)
    if row.given:
        given = tuple(of for of in KNOWN if of in name.split("+"))
        if "+".join(given) != name:
            what = f"'{name}' is not known of an image"
            raise JudgeError(what, where=where, mend=f"write {' or '.join(KNOWN)}, or several as {'+'.join(KNOWN)}")
        return replace(row, given=given)
    if "/" in name:
        row = replace(row, holdout=_holdout(name, where))
        if row.aggregate == "best" and not row.holdout[1]:
            raise JudgeError(f"{row.title} chooses among seeds on other images", where=where, mend="write 70/10/20")
        return row
    if name == BALANCED and not find_metric(row.name).balanced:
        what = f"{row.title} counts how frequent classes are, so they cannot be balanced"
        raise JudgeError(what, where=where, mend="balance the other metrics alone (--metrics NAME:balanced)")
    if name in {BALANCED, UNBALANCED}:
        return replace(row, balanced=name == BALANCED)
    scores = [name for name, score in SCORES.items() if name != "gain" and (row.from_annotation or not score.relative)]
    if name not in scores:
        known = [*scores, *([WITH_PEOPLE] if row.prior else []), *([UNBALANCED] if row.balanced else [])]
        raise JudgeError(f"unknown score '{name}'", where=where, mend=nearest(name, known))
    return replace(row, score=name)


def _holdout(name: str, where: str) -> tuple[float, float]:
    """The shares for testing and for choosing an epoch of "80/20" or "70/10/20"."""
    try:
        train, *chosen, test = (float(part) / 100 for part in name.split("/"))
    except ValueError:
        train, chosen, test = 0.0, [], 0.0
    if len(chosen) > 1 or not min(train, test, *chosen) > 0 or abs(train + test + sum(chosen) - 1) > 1e-5:
        mend = "write percents that add up to 100, as 80/20, or with a part that chooses an epoch, as 70/10/20"
        raise JudgeError(f"'{name}' is no hold-out", where=where, mend=mend)
    return test, sum(chosen)


def _renamed(row: Metric, own: Metric) -> Metric:
    """``row`` with a name and a title that show how it differs from ``own``."""
    score = row.score if row.score != own.score else ""
    people = WITH_PEOPLE if row.people_are_tasks else ""
    protocol = [row.parts if row.holdout != own.holdout else "", UNBALANCED if row.balanced != own.balanced else ""]
    protocol += ["+".join(row.given) if row.given != own.given else ""]
    name = ":".join(filter(None, [own.name, score, people, *protocol]))
    if name == own.name:
        return own
    marks = ", ".join(filter(None, [score.replace("_", " "), *protocol]))
    title = f"{own.title} ({marks})" if marks else own.title
    return replace(row, name=name, title=f"{title}, people as tasks" if people else title)

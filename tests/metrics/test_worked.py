"""Every metric on ten captions, from their text to its values, worked by hand from the equations of its paper.

Judges' answers are given, as no training is worked by hand; what judges read, and what metrics make of their answers,
is checked. D and U stand for a dog and an umbrella, m and f for male and female.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import evaluate_numbers

from judge import Corpus
from judge.corpus.splits import Split
from judge.corpus.tasks import Tasks
from judge.evidence import Aligning, EvidenceBuilder
from judge.judges.names import find_judge
from judge.measure.jobs import Job
from judge.measure.table import answer_rows, score_table
from judge.metrics import METRICS, find_metric
from judge.statistics.summary import Settings, Summary, summarise
from judge.text.lexicon import Lexicons, load_lexicon
from judge.training.member import Member
from judge.types import Captions, Labels, Predictions

# Image, its class and objects (D, U); the human caption, the generated one, and what each names.
WORLD = [
    ("1", "male", (0,), "a man with a dog", "a man walking a dog"),  # m D; m D
    ("2", "male", (0,), "a man walks his dog", "a man with an umbrella"),  # m D; m U
    ("3", "male", (1,), "a guy carrying an umbrella", "a woman with an umbrella"),  # m U; f U
    ("4", "female", (1,), "a woman holding a parasol", "a woman with an umbrella"),  # f U; f U
    ("5", "female", (0, 1), "a lady with a dog under a parasol", "a person with an umbrella"),  # f D U; nobody, U
]
IMAGES, CLASSES, OBJECTS, *SIDES = zip(*WORLD, strict=True)
HUMAN, GENERATED = ({image: (text,) for image, text in zip(IMAGES, side, strict=True)} for side in SIDES)
CORPUS = Corpus(
    Captions("human", HUMAN),
    (Captions("cap", GENERATED),),
    Labels("gender", ("female", "male"), dict(zip(IMAGES, CLASSES, strict=True)), "test"),
    Tasks(("dog", "umbrella"), dict(zip(IMAGES, OBJECTS, strict=True)), "test"),
)
# Cosines of 4/5: walks and walking, parasol and umbrella, guy and man, lady and woman. Of 1/2: holding and each.
VECTORS = (
    "walking 1 0 0 0, umbrella 0 1 0 0, man 0 0 1 0, woman 0 0 0 1, walks 4 0 3 0, parasol 3 4 0 0, guy 0 3 4 0, "
    "lady 0 0 3 4, holding 1 1 1 1"
)


class Judges(NamedTuple):
    """What the judges of both sides read, caption by caption, and their answers: p(f), or p(D) and p(U)."""

    read: tuple[Sequence[str], Sequence[str]]
    answers: tuple[Sequence[Any], Sequence[Any]]


# Words of the attribute are hidden (LIC, section 4). Human words that the captioner lacks stay for ImageCaptioner2
# (section 4.2), which masks images instead; are unknown to LIC; DBAC (eq. 9) replaces them by the nearest word, where
# that is nearer than 0.4: 1 - 4/5 is, 1 - 1/2 is not.
TOLD = ["a <gender> walking a dog", *["a <gender> with an umbrella"] * 3, "a person with an umbrella"]
PLAIN = ["a <gender> with a dog", "a <gender> walks <gender> dog", "a <gender> carrying an umbrella",
         "a <gender> holding a parasol", "a <gender> with a dog under a parasol"]  # fmt: skip
CONSTANT = ["a <gender> with a dog", "a <gender> <unk> <gender> dog", "a <gender> <unk> an umbrella",
            "a <gender> <unk> a <unk>", "a <gender> with a dog <unk> a <unk>"]  # fmt: skip
CONTEXTUAL = ["a <gender> with a dog", "a <gender> walking <gender> dog", "a <gender> <unk> an umbrella",
              "a <gender> <unk> a umbrella", "a <gender> with a dog <unk> a umbrella"]  # fmt: skip
# Of the annotated class .6, .9, .3, .8, .4 (right but for the third and the last) and .8, .4, .4, .6, .9 (right but for
# the second and third).
FEMALE = [0.4, 0.1, 0.7, 0.8, 0.4], [0.2, 0.6, 0.6, 0.6, 0.9]
LIC = Judges((CONSTANT, TOLD), FEMALE)
SEEING = Judges((PLAIN, TOLD), FEMALE)
AT = Judges((CONTEXTUAL, TOLD), FEMALE)
# T->A: words of objects are hidden. Of the true set .75 x .8 = .6, .5 x .6 = .3, .8 x .5 = .4, .4 x .5 = .2 (wrong:
# p(D) is not below 1/2), .5 x .8 = .4; and .8 x .75 = .6, .4 x .5 = .2 (wrong), .75 x .8 = .6 twice, .9 x .9 = .81.
TA = Judges(
    (
        ["a man with a <object>", "a man walking <unk> <object>", "a man <unk> an <object>",
         "a woman <unk> a <object>", "a woman with a <object> <unk> a <object>"],
        ["a man walking a <object>", "a man with an <object>", *["a woman with an <object>"] * 2,
         "a person with an <object>"],
    ),
    (
        [(0.75, 0.2), (0.5, 0.4), (0.2, 0.5), (0.6, 0.5), (0.5, 0.8)],
        [(0.8, 0.25), (0.4, 0.5), (0.25, 0.8), (0.25, 0.8), (0.9, 0.9)],
    ),
)  # fmt: skip
# U: judges read what is annotated, and answer with the frequencies of what captions name. T->A leaves out image 5, of
# which the captioner names nobody.
U_TA = Judges((["| dog |"] * 2 + ["| umbrella |"] * 2,) * 2, ([0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0]))
U_AT = Judges((CLASSES, CLASSES), ([(2 / 3, 1 / 3)] * 3 + [(1 / 2, 1)] * 2, [(1 / 3, 2 / 3)] * 3 + [(0, 1)] * 2))

JUDGED: dict[str, tuple[Judges, float | None, float, float | None]] = {
    # LIC, eq. 9-11, p of the truth where it is guessed, in a set balanced by class, so that each class is half of it:
    # ((.6 + .9 + 0) / 3 + (.8 + 0) / 2) / 2 = .45, ((.8 + 0 + 0) / 3 + (.6 + .9) / 2) / 2 = (4/15 + 3/4) / 2 = 61/120.
    "lic": (LIC, 0.45, 61 / 120, 61 / 120 - 0.45),
    # In DBAC's tables (section 5) all images are the same: (.6 + .9 + .8) / 5, (.8 + .6 + .9) / 5.
    "lic:unbalanced": (LIC, 0.46, 0.46, 0.0),
    # LIC, eq. 4-6: (2/3 + 1/2) / 2 = 7/12, (1/3 + 2/2) / 2 = 2/3.
    "leakage": (LIC, 7 / 12, 2 / 3, 1 / 12),
    # LIC, eq. 1: of generated captions alone; less chance, 1/2.
    "sc": (LIC, None, 2 / 3, 2 / 3 - 1 / 2),
    # ImageCaptioner2, eq. 2: (1.8/3 + 1.2/2) / 2 = .6, (1.6/3 + 1.5/2) / 2 = 77/120; 77/120 / (72/120) = 77/72.
    "imagecaptioner2": (SEEING, 0.6, 77 / 120, 5 / 120),
    "imagecaptioner2-ratio": (SEEING, 0.6, 77 / 120, 77 / 72),
    # ImageCaptioner2, section 5.7: LIC's value, of judges that see images too.
    "vl-lic": (LIC, 0.45, 61 / 120, 61 / 120 - 0.45),
    # DBAC, eq. 5-7. P(D) = P(U) = 2/5, P(D and U) = 1/5, P(m) = 3/5, P(f) = 2/5: P(t)/P(a) is 2/3, 2/3, 2/3, 1, 1/2,
    # mean .7. Generated P(D) = 1/5, P(U) = 4/5: 1/3, 4/3, 4/3, 2, 2, mean 1.4. Q: one over the mean of -log p.
    # .6 x .9 x .3 x .8 x .4 = .05184, .8 x .4 x .4 x .6 x .9 = .06912.
    "dbac-at": (AT, x := 0.7 * 5 / -log(0.05184), y := 1.4 * 5 / -log(0.06912), (y - x) / (y + x)),
    # DBAC, eq. 5-6: Q is accuracy, 3/5 in both: .6 x .7 = .42, .6 x 1.4 = .84. (.84 - .42) / (.84 + .42).
    "dbac-at:accuracy": (AT, 0.42, 0.84, 1 / 3),
    # DPAC, eq. 9-11: (.6 x 2/3 + .9 x 2/3 + .3 x 2/3 + .8 + .4 x 1/2) / 5 = (1.2 + 1) / 5 = .44;
    # (.8 x 1/3 + .4 x 4/3 + .4 x 4/3 + .6 x 2 + .9 x 2) / 5 = (4/3 + 3) / 5 = 13/15; .44 = 6.6/15.
    "dpac-at": (AT, 0.44, 13 / 15, 6.4 / 19.6),
    # DBAC, eq. 8 and algorithm 2. P(m) = 3/5; P(D) = P(U) = 2/5, P(D and U) = 1/5: P(a^)/P(T) is 3/2, 3/2, 3/2, 1,
    # 2, mean 1.5. Four generated captions name a class, P(m) = P(f) = 1/2: 5/4 each. -log p is a mean over two tasks:
    # .6 x .3 x .4 x .2 x .4 = .00576, .6 x .2 x .6 x .6 = .0432.
    "dbac-ta": (TA, x := 1.5 * 10 / -log(0.00576), y := 1.25 * 8 / -log(0.0432), (y - x) / (y + x)),
    # 4/5 and 3/4 of the sets are right: 4/5 x 3/2 = 19.2/16, 3/4 x 5/4 = 15/16.
    "dbac-ta:accuracy": (TA, 1.2, 15 / 16, -4.2 / 34.2),
    # DPAC, eq. 12-14: (.6 x 3/2 + .3 x 3/2 + .4 x 3/2 + .2 x 1 + .4 x 2) / 5 = (1.95 + 1) / 5 = .59;
    # (.6 + .2 + .6 + .6) / 4 x 5/4 = .625.
    "dpac-ta": (TA, 0.59, 0.625, 0.035 / 1.215),
    # Theil: 1 - H(a^|T) / H(a^). Human: of D all m, of U one of two; of four three m. Generated: T says it all.
    "u-ta": (U_TA, x := 1 - (log(2) / 2) / (3 / 4 * log(4 / 3) + 1 / 4 * log(4)), 1.0, 1 - x),
    # Sums over captions and tasks. Human: 3 H(2/3) + 2 H(1/2) of D, 3 H(1/3) of U; without the class 5 H(3/5) of each.
    # Generated: 3 H(1/3) of D, 3 H(2/3) of U; without 5 H(1/5) and 5 H(4/5). H(1/3) = log 3 - 2/3 log 2,
    # H(3/5) = log 5 - 3/5 log 3 - 2/5 log 2, H(1/5) = log 5 - 4/5 log 4.
    "u-at": (
        U_AT,
        x := 1 - (6 * log(3) - 2 * log(2)) / (10 * log(5) - 6 * log(3) - 4 * log(2)),
        y := 1 - (6 * log(3) - 4 * log(2)) / (10 * log(5) - 16 * log(2)),
        y - x,
    ),
}
COUNTED: dict[str, tuple[float | None, float | None, float]] = {
    # LIC, eq. 2-3; of words that captions of m and of f both hold: dog, umbrella. Human: dog with 2 m, 1 f, umbrella
    # with 1 m: b = 2/3 and 1 of m. Generated: dog 1 m, umbrella 1 m, 2 f: 1 and 1/3. (1/3 - 2/3) / 2.
    "ba": (5 / 6, 2 / 3, -1 / 6),
    # Of objects: U (parasols too) with 1 m, 2 f: b = 2/3 of f, generated 2/3.
    "ba-objects": (2 / 3, 5 / 6, 1 / 6),
    # LIC, supplement A.2, eq. 1-3. p(l|a): m 2/3 D, 1/3 U, f 1/2 D, 1 U; generated m 1/3 D, 2/3 U, f 0 D, 1 U. y = 1 of
    # (m, D), 2/5 > 3/5 x 3/5, and (f, U), 2/5 > 2/5 x 3/5. (-1/3 - 1/3 + 1/2 + 0) / 4.
    "dba-o": (None, None, -1 / 24),
    # Of the four images whose generated caption names one class. p(a|l): D all m, U 1/2 m; generated U all f. y = 1 of
    # (m, D), 2/4 > 3/4 x 1/2, and (f, U), 1/4 > 1/4 x 1/2. (0 + 1/2 + 0 + 1/2) / 4.
    "dba-g": (None, None, 1 / 4),
    # Zhao et al. 2023: the size of the same changes, -1/3, 1/3, -1/2, 0; of both together 0 (m) and 1/2 to 0 (f).
    "multi-at": (None, None, 5 / 18),
    # (1/9 + 1/9 + 1/4 + 1/4) / 6 - (1/6)^2.
    "multi-at:variance": (None, None, 5 / 54),
    # 0, 1/2, 0, 1/2: no image of these four shows both.
    "multi-ta": (None, None, 1 / 4),
    # Tokas et al. 2024. Human: m 2 D, 1 U, f 1 D, 2 U: the best guesses, D and U, are right 4 times of 6. Generated:
    # m 1 D, 2 U, f 2 U: 4 of 5. (4/5 - 2/3) / (4/5 + 2/3) = 2/22.
    "dpa-at": (2 / 3, 4 / 5, 1 / 11),
    # kerner-lab's elementwise accuracy: is D named, is U? Human 2 of 3 (m) and 1 of 2 (f), 2 of 3 (not) and 2 of 2 are
    # right: (3/5 + 4/5) / 2. Generated 2 of 3 (not) and 2 of 2 (not), 2 of 3 and 2 of 2: 4/5. (4/5 - 7/10) / (15/10).
    "dpa-at:label": (7 / 10, 4 / 5, 1 / 15),
    # The mean over answers: 2 of 3 D, 2 of 3 U; generated the 1 D (of m: their 2 U are a smaller share of U) and 2 of 4
    # U: (1 + 1/2) / 2. (3/4 - 2/3) / (17/12).
    "dpa-at:balanced": (2 / 3, 3 / 4, 1 / 17),
    # Of four images: D 2 m, U 1 m, 1 f: 3 right of 4; generated D 2 m, U 2 f: 4. (1 - 3/4) / (1 + 3/4).
    "dpa-ta": (3 / 4, 1.0, 1 / 7),
    # Hendricks et al. 2018: 3 m over 2 f, 2 over 2.
    "ratio": (3 / 2, 1.0, 2 / 3),
    "ratio:female/male": (2 / 3, 1.0, 3 / 2),
    # One of five generated captions, of four that name a class.
    "error": (0.0, 1 / 5, 1 / 5),
    "error:naming": (0.0, 1 / 4, 1 / 4),
}


@pytest.fixture(autouse=True)
def no_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run have fewer images than its statistics need."""
    for name in ("builder.MINIMUM_IMAGES", "joined.MINIMUM_IMAGES", "joined.LEAST_NAMED"):
        monkeypatch.setattr(f"judge.evidence.{name}", 1)


def summary(name: str, judges: Judges, folder: Path) -> Summary:
    """The row of a metric whose judges answer as ``judges``; frequencies (U) are of all captions of a side."""
    (folder / "vectors.txt").write_text(VECTORS.replace(", ", "\n"), encoding="utf-8")
    metric = find_metric(name)
    lexicons = Lexicons(load_lexicon("gender"), load_lexicon("coco-objects"))
    aligning = Aligning(vectors=str(folder / "vectors.txt"))
    evidence = EvidenceBuilder(CORPUS, lexicons, aligning=aligning).build(CORPUS.generated[0], metric)
    split = Split(IMAGES, IMAGES, {"female": 1.0, "male": 1.0})
    jobs, rows = [], []
    for slot, texts, answers in zip(evidence.slots.values(), *judges, strict=True):
        assert [" ".join(sample.words) for sample in slot] == list(texts)
        assert [sample.image for sample in slot] == [i if metric.uses_images else None for i in slot.place]
        given = np.array(answers, dtype=np.float64)
        table = given if given.ndim == 2 else np.stack([given, 1 - given], axis=1)
        jobs.append(Job(evidence, (metric,), "x", Member(find_judge("linear"), evidence.target, slot, split, seed=0)))
        rows.append(answer_rows(jobs[-1].member, Predictions(table, evidence.target))[0])
    (row,) = summarise(score_table(jobs, rows), None, Settings(resamples=100))
    return row


@pytest.mark.parametrize("name", JUDGED)
def test_judged(name: str, tmp_path: Path) -> None:
    judges, *expected = JUDGED[name]
    row = summary(name, judges, tmp_path)
    assert (row.human, row.generated, row.amplification) == pytest.approx(tuple(expected), abs=1e-12)
    if row.metric.prior:
        assert row.priors == pytest.approx((0.7, 1.4) if row.metric.direction == "A->T" else (1.5, 1.25), abs=1e-12)


def test_counted() -> None:
    rows = evaluate_numbers(CORPUS, metrics=list(COUNTED), least=1, resamples=100).summaries
    assert [row.metric.name for row in rows] == list(COUNTED)
    for row, expected in zip(rows, COUNTED.values(), strict=True):
        assert (row.human, row.generated, row.published) == pytest.approx(expected, abs=1e-12), row.metric.name


def test_every_metric_is_worked() -> None:
    """Conditional leakage needs more images than a hand can work (tests/judges/test_given.py: as plain loops)."""
    assert {name.partition(":")[0] for name in (*JUDGED, *COUNTED)} | {"conditional"} == {*METRICS}


@pytest.mark.parametrize(
    ("name", "score", "value"),
    [
        ("lic", 1 / 4, 0),  # Table 1 of LIC's supplement: "Unbiased model is LIC_M = 25 and LIC = 0".
        ("sc", 1 / 2, 0),
        ("leakage", 1 / 2, 0),
        ("imagecaptioner2", 1 / 2, 0),
        ("imagecaptioner2-ratio", 1 / 2, 1),
        # What is left of DBAC and DPAC is their prior: 1.4 against .7, 1.25 against 1.5.
        ("dbac-at", 1.4 / log(2), 1 / 3),
        ("dpac-at", 1.4 / 2, 1 / 3),
        ("dbac-ta", 1.25 / log(2), -1 / 11),
        ("dpac-ta", 1.25 / 4, -1 / 11),
    ],
)
def test_judges_that_know_nothing(name: str, score: float, value: float | None, tmp_path: Path) -> None:
    read, answers = JUDGED[name][0]
    unsure = tuple((np.zeros(np.shape(side)) + 0.5).tolist() for side in answers)
    row = summary(name, Judges(read, unsure), tmp_path)
    assert (row.generated, row.amplification) == pytest.approx((score, value), abs=1e-12)

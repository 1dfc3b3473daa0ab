"""Verdicts are withheld where a run's own checks void them: labels at chance, silence, priors that move alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import known, run_of, with_captions

from judge import Corpus, evaluate
from judge.measure.table import COLUMNS
from judge.metrics import METRICS
from judge.report.verdicts import verdicts
from judge.statistics.comparisons import NOT_SHOWN, Pair, conclude, differences
from judge.statistics.inference import Exchanged, from_halves
from judge.statistics.summary import Guessing, Summary, summarise
from judge.statistics.validity import Facts, TextFacts, find, void_rows

LIC = Summary("a", METRICS["lic"], "linear", human=0.27, amplification=0.1, p_value=0.001, human_error=0.02)
DBAC = Summary("a", METRICS["dbac-at"], "linear", human=0.5, amplification=-0.4, p_value=0.001, qualities=(1.46, 1.5))


def run(images: Mapping[str, int], *, human: float = 0.2, generated: float = 0.3) -> dict[str, Any]:
    """Facts of a run; ``human`` and ``generated``: shares of captions that name no class."""
    found = run_of({"a": images})
    found["captioners"]["a"]["coverage"] = {"human": {"none": human}, "generated": {"none": generated}}
    return found


def voids(rows: Sequence[Summary], run: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """Key of a row -> why it has no verdict."""
    return {key: finding.because for key, finding in void_rows(rows, run).items()}


EVEN = run({"female": 50, "male": 50})


def test_judges_of_human_captions_at_chance_void_a_row() -> None:
    """LIC's chance with two classes is 1/4: 0.27 is one standard error above, and 0.30 two and a half."""
    reason = "judges of human captions are no better than chance (0.270, chance 0.250)"
    assert voids([LIC, replace(LIC, metric=METRICS["leakage"], human=0.6)], EVEN) == {LIC.key: reason}
    assert voids([replace(LIC, human=0.3)], EVEN) == {}
    nine, seeing = run(dict.fromkeys("abcdefghi", 20)), replace(LIC, metric=METRICS["imagecaptioner2"], human=0.12)
    rows = [replace(LIC, human=0.02), seeing]
    assert [text[-13:] for text in voids(rows, nine).values()] == ["chance 0.012)", "chance 0.111)"]
    # Log losses tell judges that have learnt nothing from those that are sure of nothing, or of other words.
    even = "a coin has 0.693"
    for loss, row, said in [
        (0.69, LIC, f"log loss 0.690, {even}: more images may help"),
        (0.746, LIC, f"log loss 0.746, {even}: more images may help"),
        (4.75, replace(seeing, human=0.085), f"log loss 4.750, {even}: choose --answer-softmax restricted"),
    ]:
        facts = EVEN | {"sight": {"mask": "none", "answer_softmax": "vocabulary"}}
        (because,) = voids([replace(row, human_loss=loss)], facts).values()
        assert because.endswith(f"; {said})")
    # A judge that knows the shares 0.9 and 0.1 alone: -0.9 ln 0.9 - 0.1 ln 0.1 = 0.325.
    unequal = run({"female": 90, "male": 10})
    alone = replace(LIC, metric=replace(seeing.metric, balanced=False), human=0.2, human_loss=0.4)
    (because,) = voids([alone], unequal).values()
    assert "log loss 0.400, class frequencies alone have 0.325" in because
    # What judges of shuffled labels score is known better than that.
    assert voids([replace(LIC, human=0.3, chance=(0.29, 0.29))], EVEN).keys() == {LIC.key}
    (said,) = conclude([LIC], voids([LIC], EVEN))
    assert (said.verdict, said.because) == ("no verdict", reason)
    other = replace(LIC, captioner="b", amplification=0.5, standard_error=0.01, degrees=20)
    rows = [replace(LIC, standard_error=0.01, degrees=20), other]
    (pair,) = differences(rows, Pair, void={LIC.key: reason})
    assert (pair.verdict, pair.because) == ("no verdict", reason)


@pytest.mark.parametrize(
    ("metric", "images", "chance"),
    [
        ("dbac-at", {"female": 50, "male": 50}, 1 / math.log(2)),
        ("dbac-at", {"female": 20, "male": 80}, -1 / (0.2 * math.log(0.2) + 0.8 * math.log(0.8))),
        ("dpac-at", {"female": 20, "male": 80}, 0.2**2 + 0.8**2),
    ],
)
def test_chance_of_metrics_with_priors_is_that_of_the_class_shares(
    metric: str, images: dict[str, int], chance: float
) -> None:
    """Q of a judge that always answers the shares of the classes; the prior says nothing of that."""
    guessing = Guessing(0.0, 0.5, human_error=0.01)
    row = replace(DBAC, metric=METRICS[metric], guessing=guessing)
    at, above = (replace(row, qualities=(chance + step, chance)) for step in (0.019, 0.021))
    assert voids([at], run(images)).keys() == {row.key}
    assert voids([above], run(images)) == {}
    # Of tasks it is not known without shuffled labels.
    tasks = replace(at, metric=METRICS[metric.replace("at", "ta")])
    assert voids([tasks], run(images)) == {}


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        (Guessing(-0.1, 0.01), "below human captions"),
        (Guessing(0.1, 0.01), "prior only"),
        (Guessing(-0.1, 0.06), "prior only"),
        (Guessing(-0.1), "prior only"),
        (None, "prior only"),
    ],
)
def test_a_metric_with_a_prior_needs_q_to_move_with_it(own: Guessing | None, verdict: str) -> None:
    assert conclude([replace(DBAC, guessing=own)])[0].verdict == verdict


def test_q_is_tested_as_the_metric_is() -> None:
    """Against the test of a metric without priors, whose values are Q's: the same formulas (inference.py)."""
    rng = np.random.default_rng(0)
    images = [str(number) for number in range(40)]
    rows = [
        ("a", "dpac-at", "linear", side, image, 0, 0, 0, answer, answer, p, -math.log(p), answer, "cat", math.nan)
        for number, image in enumerate(images)
        for side in ("human", "generated")
        for answer, p in [("female" if number % 2 else "male", float(rng.uniform(0.4, 0.9)))]
    ]
    names = "captioner metric judge side image_id index seed fold answer predicted probability loss named tasks "
    scores = pd.DataFrame(rows, columns=[*names.split(), "validation_loss"])
    half, exchanged = rng.uniform(0.5, 0.8, (8, 2)), rng.uniform(0.5, 0.8, (5, 2))
    refits = pd.DataFrame(
        [
            ("a", "dpac-at", "linear", kind, number, *of, (of[1] - of[0]) / (of[1] + of[0]), *of)
            for kind, values in (("half", half), ("exchanged", exchanged))
            for number, of in enumerate(values.tolist())
        ],
        columns=COLUMNS,
    )
    (row,) = summarise(scores, refits)
    own = known(row.guessing)
    human, generated = known(row.qualities)
    by_side = scores.groupby("side")["probability"].mean()
    assert (human, generated) == pytest.approx((by_side["human"], by_side["generated"]))
    assert own.amplification == pytest.approx((generated - human) / (generated + human))
    drawn, halves = ((of[:, 1] - of[:, 0]) / of.sum(axis=1) for of in (exchanged, half))
    assert own.human_error == pytest.approx(np.sqrt(np.mean((half[::2, 0] - half[1::2, 0]) ** 2) / 4))
    assert own.p_value == known(from_halves(own.amplification, halves.tolist(), Exchanged.of(drawn))).p_value


@pytest.mark.parametrize("lexicon", ["gender", "none"])
def test_labels_at_random_reach_no_verdict(corpus: Corpus, lexicon: str) -> None:
    """Rows of two draws: captions that name the class contradict labels; without a lexicon judges are at chance."""
    labels, told = known(corpus.labels), replace(with_captions(corpus), generated=corpus.generated[1:])
    images = list(labels.by_image)
    reached, reasons = [], set[str]()
    # What captions name voids a row whether it is tested or not.
    refits = {"refits": 0, "chance": 0} if lexicon == "gender" else {"refits": 3, "chance": 2}
    quick: dict[str, Any] = {"folds": 3, "seeds": 1, "resamples": 100, "judge": "linear", "workers": 1} | refits
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(images))
        mixed = {image: labels.by_image[images[place]] for image, place in zip(images, order, strict=True)}
        shuffled = replace(told, labels=replace(labels, by_image=mixed))
        result = evaluate(shuffled, metrics=["lic", "dbac-at"], lexicon=lexicon, **quick)
        reached += [of.verdict for of in result.conclusions()]
        reasons |= {finding.text for finding in result.findings.values()}
        assert all("no verdict" in said or NOT_SHOWN in said for _, said in verdicts(result))
    assert {*reached} <= {"no verdict", NOT_SHOWN, "prior only"}
    if lexicon == "gender":
        assert reasons == {"labels of gender do not agree with what human captions name"}
        assert {*reached} == {"no verdict"}
    else:
        assert reasons == {"judges of human captions are no better than chance"}
        assert reached.count("no verdict") >= len(reached) / 2


def test_two_rows_that_move_by_their_priors_do_not_differ_by_more() -> None:
    """The difference of two DBAC rows needs Q on both sides, as each row does."""
    rows = [replace(DBAC, captioner=name, amplification=value, standard_error=0.01, degrees=20, guessing=own)
            for name, value, own in (("a", -0.4, None), ("b", -0.1, Guessing(-0.1, 0.01)))]  # fmt: skip
    (apart,) = differences(rows, Pair)
    assert (apart.verdict, apart.prior_only) == ("prior only", True)
    (alike,) = differences([replace(row, guessing=Guessing(-0.1, 0.01)) for row in rows], Pair)
    assert alike.verdict == "b higher"


def test_facts_that_a_run_lacks_are_no_facts() -> None:
    """A missing entry is an error and switches no check off."""
    for lacking in ("coverage", "text", "without_value", "rewarded_by", "masks"):
        run = run_of({"a": {"female": 50, "male": 50}})
        assert find(LIC, Facts.of(LIC, run)) == void_rows([LIC], run)[LIC.key]
        del run["captioners"]["a"][lacking]
        with pytest.raises(KeyError, match=lacking):
            void_rows([LIC], run)


def test_the_first_finding_counts() -> None:
    """Each rule by its own name, with the figures apart from the clause."""
    facts = Facts.of(LIC, EVEN)
    text = TextFacts(100, foreign=False, affected=5, revealing={"mum": 5})
    changes: dict[str, dict[str, Any]] = {
        "without value": {"without_value": "why"},
        "rewarded": {"rewarded_by": "linear"},
        "other language": {"texts": {"human": replace(text, foreign=True)}, "lexicon": "gender"},
        "left by masking": {"texts": {"generated": text}},
        "unlike captions": {"agreements": {"gender": {"images": 900, "kappa": 0.05}}},
        "names nothing": {"naming": (0.6, 0.01)},
        "other images": {"kappa": 0.0, "likeness": 0.0},
        "at chance": {},
    }
    rules = [*changes]
    for place, rule in enumerate(rules):
        every = {name: value for later in rules[place:][::-1] for name, value in changes[later].items()}
        assert known(find(LIC, replace(facts, **every))).rule == rule
    found = known(find(LIC, replace(facts, texts={"generated": text})))
    assert (found.text, found.figures) == (
        "5.0% of its captions hold words that tell gender and were not masked",
        "'mum' 5",
    )

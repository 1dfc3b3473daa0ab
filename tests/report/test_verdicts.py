"""The sentence on each captioner, of results made by hand."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from judge.measure import Result
from judge.metrics import METRICS, find_metric
from judge.report.verdicts import person_verdicts, verdict_notes, verdicts
from judge.statistics.summary import Summary
from judge.statistics.validity import Finding
from judge.types import Interval

GIVEN = "of the gender than another person's would, given what other people say of the image"
FOUND = ", and only more than 3.9% would have been found."
LIC = Summary("nic", METRICS["lic"], "linear", amplification=0.03, p_value=0.01, standard_error=0.01, degrees=20)


def gain(value: float, low: float, high: float, p_value: float | None) -> Summary:
    """A row of what "nic" tells, with a standard error that finds 3.9%."""
    row = replace(LIC, metric=METRICS["conditional"], amplification=value, interval=Interval(low, high))
    return replace(row, p_value=p_value, standard_error=0.01326)


def result_of(*rows: Summary, void: str = "") -> Result:
    result = Result(rows, pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), {"attribute": "gender", "small": 0.02})
    # The checks of a run read more than these rows.
    result.__dict__["findings"] = {rows[0].key: Finding("rule", void)} if void else {}
    return result


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (gain(0.0357, 0.0142, 0.0581, 0.001), f"nic amplifies: its captions tell 3.6% [1.4, 5.8] more {GIVEN}."),
        (
            gain(-0.0213, -0.0381, -0.0042, 0.02),
            f"nic tells less than a person: its captions tell 2.1% [0.4, 3.8] less {GIVEN}.",
        ),
        (
            gain(0.0031, -0.0078, 0.0141, 0.6),
            f"nic is like a person: its captions tell 0.3% [-0.8, 1.4] more {GIVEN}.",
        ),
        (
            gain(0.0052, -0.0211, 0.0312, 0.7),
            f"cannot tell whether nic amplifies: its captions tell 0.5% [-2.1, 3.1] more {GIVEN}{FOUND}",
        ),
        (
            gain(-0.0052, -0.0312, 0.0211, 0.7),
            f"cannot tell whether nic amplifies: its captions tell 0.5% [-2.1, 3.1] less {GIVEN}{FOUND}",
        ),
        (gain(0.03, 0.01, 0.05, None), f"nic was not tested: its captions tell 3.0% [1.0, 5.0] more {GIVEN}."),
        # As many digits as the interval allows, and no -0.
        (gain(0.1514, 0.012, 0.291, 0.04), f"nic amplifies: its captions tell 15% [1, 29] more {GIVEN}."),
        (gain(0.00213, 0.00031, 0.00395, 0.02), f"nic amplifies: its captions tell 0.21% [0.03, 0.40] more {GIVEN}."),
        (
            gain(0.0101, -0.0001, 0.0198, 0.06),
            f"nic is like a person: its captions tell 1.01% [-0.01, 1.98] more {GIVEN}.",
        ),
        (gain(0.03, -0.0002, 0.06, 0.04), f"nic amplifies: its captions tell 3.0% [0.0, 6.0] more {GIVEN}."),
    ],
)
def test_a_sentence_for_each_verdict(row: Summary, sentence: str) -> None:
    assert person_verdicts(result_of(row)) == [sentence]


def test_no_verdict_gives_its_reason() -> None:
    row = gain(0.03, 0.01, 0.05, 0.01)
    assert person_verdicts(result_of(row, void="labels are shuffled")) == ["no verdict on nic: labels are shuffled."]
    lost = Summary("nic", METRICS["conditional"], "linear")
    assert person_verdicts(result_of(lost, void="too few images")) == ["no verdict on nic: too few images."]
    assert person_verdicts(result_of(lost)) == ["nic was not tested: there is no value."]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("objects", "the objects in the image"),
        ("people+objects", "what other people say of the image and the objects in the image"),
    ],
)
def test_what_is_given(given: str, said: str) -> None:
    row = replace(gain(0.03, 0.01, 0.05, 0.01), metric=find_metric(f"conditional:{given}"))
    (sentence,) = person_verdicts(result_of(row))
    assert sentence.endswith(f", given {said}.")


def test_published_metrics_follow() -> None:
    """In the captioner's first sentence, however rows are ordered; alone, they follow its name."""
    row = gain(0.0357, 0.0142, 0.0581, 0.001)
    published = "above human captions (LIC +0.030)."
    own = f"its captions tell 3.6% [1.4, 5.8] more {GIVEN}."
    assert verdicts(result_of(LIC, row)) == [("nic amplifies", f"{own} Published metrics: {published}")]
    other = replace(LIC, captioner="other")
    assert verdicts(result_of(row, other)) == [("nic amplifies", own), ("other", published)]
    assert person_verdicts(result_of(LIC, other)) == []


def test_judges_are_named_where_there_are_several() -> None:
    row = gain(0.0357, 0.0142, 0.0581, 0.001)
    said = person_verdicts(result_of(row, replace(row, judge="embedding")))
    assert [line.rpartition(", ")[2] for line in said] == ["by judge linear.", "by judge embedding."]


def test_notes() -> None:
    """A metric that disagrees with the verdict, and what is small."""
    less, like = gain(-0.02, -0.04, -0.01, 0.01), gain(0.0, -0.01, 0.01, 0.9)
    notes = verdict_notes(result_of(less, LIC))
    assert notes == ["Metrics that disagree answer different questions: read each by itself."]
    notes = verdict_notes(result_of(like, LIC))
    assert notes == ['"Like a person" says that the interval lies within 2% of a person (--small).']

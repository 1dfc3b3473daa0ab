"""The sentence on each captioner, of results made by hand."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from judge.measure import Result
from judge.metrics import METRICS, find_metric
from judge.quality import Quality, QualityScore
from judge.report.render import latex
from judge.report.tables import Line, paper_table
from judge.report.verdicts import changes, difference_verdicts, person_verdicts, verdict_notes, verdicts
from judge.statistics.comparisons import NOT_SHOWN, PRIOR_ONLY, Conclusion, Difference, corrected
from judge.statistics.summary import Summary
from judge.statistics.validity import Finding
from judge.types import Interval

GIVEN = "of the gender than another person's would, given what other people say of the image"
LIC = Summary(
    "nic", METRICS["lic"], "linear", amplification=0.03, p_value=0.01, images=100, standard_error=0.01, degrees=20
)


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
    ("value", "low", "high", "p_value", "verdict", "told"),
    [
        (0.0357, 0.0142, 0.0581, 0.001, "nic amplifies", "3.6% [1.4, 5.8] more"),
        (-0.0213, -0.0381, -0.0042, 0.02, "nic tells less than a person", "2.1% [0.4, 3.8] less"),
        (0.0031, -0.0078, 0.0141, 0.6, "nic is like a person", "0.3% [-0.8, 1.4] more"),
        (0.0052, -0.0211, 0.0312, 0.7, "cannot tell whether nic amplifies", "0.5% [-2.1, 3.1] more"),
        (-0.0052, -0.0312, 0.0211, 0.7, "cannot tell whether nic amplifies", "0.5% [-2.1, 3.1] less"),
        (0.03, 0.01, 0.05, None, "nic was not tested", "3.0% [1.0, 5.0] more"),
        # As many digits as the interval allows, and no -0.
        (0.1514, 0.012, 0.291, 0.04, "nic amplifies", "15% [1, 29] more"),
        (0.00213, 0.00031, 0.00395, 0.02, "nic amplifies", "0.21% [0.03, 0.40] more"),
        (0.0101, -0.0001, 0.0198, 0.06, "nic is like a person", "1.01% [-0.01, 1.98] more"),
        (0.03, -0.0002, 0.06, 0.04, "nic amplifies", "3.0% [0.0, 6.0] more"),
    ],
)
def test_a_sentence_for_each_verdict(
    value: float, low: float, high: float, p_value: float | None, verdict: str, told: str
) -> None:
    found = ", and only more than 3.9% would have been found" * verdict.startswith("cannot tell")
    (said,) = person_verdicts(result_of(gain(value, low, high, p_value)))
    assert said == f"{verdict}: its captions tell {told} {GIVEN}{found}."


def test_no_verdict_gives_its_reason() -> None:
    row = gain(0.03, 0.01, 0.05, 0.01)
    assert person_verdicts(result_of(row, void="labels are shuffled")) == ["no verdict on nic: labels are shuffled."]
    lost = Summary("nic", METRICS["conditional"], "linear")
    assert person_verdicts(result_of(lost, void="too few images")) == ["no verdict on nic: too few images."]
    assert person_verdicts(result_of(lost)) == ["nic was not tested: there is no value."]


def test_what_is_given() -> None:
    row = replace(gain(0.03, 0.01, 0.05, 0.01), metric=find_metric("conditional:people+objects"))
    (sentence,) = person_verdicts(result_of(row))
    assert sentence.endswith(", given what other people say of the image and the objects in the image.")


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


def quality(value: float, half: float) -> Quality:
    row = QualityScore("CIDEr", "all", 100, value, Interval(value - half, value + half))
    return Quality("", "ptb", (), {}, (row,), (), {}, {}, {}, 0, 0)


def changed(before: float, after: float, p_value: float | None, metric: str = "lic", because: str = "") -> Difference:
    names = METRICS[metric], "linear", "nic", "before"
    row = Difference(*names, after - before, None, p_value, paired=True, because=because)
    return corrected([row])[0]


def against_baseline(*rows: tuple[str, float, float], differences: list[Difference]) -> Result:
    """Of "nic" and its baseline; ``rows``: metric and the two amplifications."""
    summaries = [
        replace(LIC, captioner=name, metric=METRICS[metric], amplification=value)
        for metric, *values in rows
        for name, value in zip(("before", "nic"), values, strict=True)
    ]
    result = result_of(*summaries)
    result.run["baseline"] = "before"  # type: ignore[index]
    result.__dict__["_differences"] = differences
    return result


@pytest.mark.parametrize(
    ("before", "after", "p_value", "scores", "said"),
    [
        (0.01, 0.044, 0.001, (0.9, 0.97), "it did not help: LIC rose by 0.034 (p 0.001). CIDEr fell by 0.070 (p 0.015)."),  # noqa: E501
        (0.05, 0.016, 0.0001, (0.97, 0.96), "it helped: LIC fell by 0.034 (p < 0.001). CIDEr was not shown to change (+0.010)."),  # noqa: E501
        (0.01, 0.044, 0.2, (0.9, 0.97), "whether it helped is not known, no change of bias was shown (LIC +0.034). CIDEr fell by 0.070 (p 0.015)."),  # noqa: E501
        # To fall beyond no amplification is no help.
        (0.01, -0.2, 0.001, (), "it did not help: LIC fell by 0.210 (p 0.001)."),
        (0.01, 0.2, None, (), "there is no verdict on the change of bias."),
    ],
)  # fmt: skip
def test_a_sentence_on_what_a_mitigation_changes(
    before: float, after: float, p_value: float | None, scores: tuple[float, ...], said: str
) -> None:
    """Quality: half intervals of 0.04 are standard errors of 0.0204, of a difference 0.0289; 0.07 is 2.43 of them."""
    result = against_baseline(("lic", before, after), differences=[changed(before, after, p_value)])
    result.__dict__["quality"] = {name: quality(of, 0.04) for name, of in zip(("nic", "before"), scores, strict=False)}
    assert list(changes(result)) == [f"nic against before: {said}"]


def test_metrics_that_move_both_ways_and_void_differences() -> None:
    rows = ("lic", 0.01, 0.04), ("leakage", 0.05, 0.03)
    moved = [changed(before, after, 0.01, metric) for metric, before, after in rows]
    (said,) = difference_verdicts(against_baseline(*rows, differences=moved))
    assert said == (
        "nic against before: some metrics came nearer to no amplification, and others went away from it: LIC rose by "
        "0.030 (p 0.010), Leakage fell by 0.020 (p 0.010)."
    )
    void = [changed(0.01, 0.04, 0.001, because="a check fails")]
    assert list(changes(against_baseline(rows[0], differences=void))) == [
        "nic against before: there is no verdict on the change of bias."
    ]


def test_the_paper_layout_has_a_row_for_each_captioner() -> None:
    """Stars mark what was shown; a void value stands in parentheses, and is not the best one."""
    rows = [
        replace(LIC, captioner=name, metric=METRICS[metric], amplification=value, p_value=p)
        for name, metric, value, p in [
            ("a", "lic", 0.0, 0.5),
            ("a", "leakage", -0.03, 0.01),
            ("b", "lic", 0.04, 0.001),
            ("b", "leakage", 0.02, 0.3),
        ]
    ]
    result = result_of(*rows, void="because")  # The first row.
    result.run["captioners"] = {"a": {}, "b": {}}  # type: ignore[index]
    result.__dict__["quality"] = {"a": quality(0.8, 0.1), "b": quality(0.9, 0.1)}
    table = paper_table(result)
    assert [[column.heading, *cells] for column, cells in table.shown()] == [
        ["captioner", "a", "b"],
        ["LIC (linear)", "(+0.000)", "+0.040*"],
        ["Leakage (linear)", "-0.030*", "+0.020"],
        ["CIDEr", "0.800", "0.900"],
    ]
    assert [table.best(column) for column in table.columns] == [{*()}, {*()}, {1}, {1}]


def test_bold_is_what_is_printed_alike_and_not_moved_by_priors(monkeypatch: pytest.MonkeyPatch) -> None:
    equal = [replace(LIC, captioner=name, amplification=of) for name, of in (("a", 0.0304), ("b", 0.03))]
    prior = [replace(row, metric=METRICS["dbac-at"]) for row in equal]
    result = result_of(*equal, *prior)
    result.run["captioners"] = {"a": {}, "b": {}}  # type: ignore[index]
    verdicts_of = [Conclusion(NOT_SHOWN, "", None)] * 2 + [Conclusion(PRIOR_ONLY, "", None)] * 2
    monkeypatch.setattr("judge.report.tables.lines_of", lambda of: [*map(Line, of.summaries, verdicts_of)])
    table = paper_table(result)
    assert [cells for _, cells in table.shown()][1:] == [["+0.030", "+0.030"], ["+0.030\u2020", "+0.030\u2020"]]
    assert [table.best(column) for column in table.columns][1:] == [{0, 1}, set()]
    assert "\u2020: the value may come from" in table.notes[0]
    assert r"+0.030\dag{}" in latex(table, caption="", label="t")


def test_quality_of_more_images_says_so() -> None:
    result = against_baseline(("lic", 0.01, 0.044), differences=[changed(0.01, 0.044, 0.001)])
    row = QualityScore("CIDEr", "all", 10_301, 0.9, Interval(0.86, 0.94))
    result.__dict__["quality"] = dict.fromkeys(("nic", "before"), replace(quality(0.9, 0.04), groups=(row,)))
    (said,) = changes(result)
    assert said.endswith("(p 0.001). CIDEr was not shown to change (+0.000, over 10,301 images).")

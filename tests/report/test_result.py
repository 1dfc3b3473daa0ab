"""What ``judge evaluate`` prints: little by default, everything with ``--verbose``; and facts of a result as tables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import with_captions

from judge import Corpus, evaluate
from judge.errors import python_words
from judge.measure import Result
from judge.measure.plan import ALL, BRIEF
from judge.metrics import METRICS
from judge.report.detail_tables import class_score_table, class_table
from judge.report.notes import footnotes
from judge.report.sections import print_result
from judge.report.tables import void_last
from judge.report.warnings import warnings
from judge.statistics.summary import summarise
from judge.types import Doubt


@pytest.fixture(scope="module")
def result(corpus: Corpus) -> Result:
    """Of judges trained once, with labels derived from captions: there is much to warn of."""
    derived = replace(with_captions(corpus), labels=None)
    quick = {"least": 1, "judge": "linear", "folds": 3, "refits": 0, "chance": 0, "resamples": 100, "workers": 1}
    return evaluate(derived, metrics="lic,leakage,dbac,ba", delta=0.6, **quick)


def test_a_table_and_few_lines(
    result: Result, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judge.report.sections.MOST_NOTES", 1)
    print_result(result, folder=Path("runs/the mine"))
    lines = capsys.readouterr().out.splitlines()
    below = lines[len(lines) - lines[::-1].index("") :]
    assert all(len(line.rstrip()) <= 100 for line in below)
    assert below[0].startswith("Protocol crossfit: 3 folds")
    text = " ".join(below)
    assert (
        "Labels DERIVED from human captions. Counted metrics: amplification is the value 'as published' less the "
        "chance level." in text
    )
    assert "T->A: captions that name one class." in text
    # The first warning is there, however many there are: these intervals are too narrow.
    assert "NOTE: Intervals marked * ('these judges') leave out training noise" in text
    marks = [line.split("]")[1][0] for line in lines[2 : lines.index("")] if "]" in line]
    # BA trains no judge, and void rows show no interval.
    rows = [row.summary.metric.name for row in void_last(result) if not row.void]
    assert len(rows) < len(result.summaries)
    assert marks == [" " if name == "ba" else "*" for name in rows]
    # Notes are whole, and the last line is the command that shows the others.
    printed, found = [f"NOTE: {note}" in text for note in warnings(result)], warnings(result)
    assert 1 < sum(printed) < len(found)
    assert all(shown for shown, note in zip(printed, found, strict=True) if isinstance(note, Doubt))
    assert text.endswith(" more note: judge report 'runs/the mine' --format md")
    assert printed.count(False) == 1
    assert not {"detectable", "chance level", "images"} & set(lines[1].split("  "))


def test_the_columns_of_the_frame_do_not_depend_on_the_data(result: Result) -> None:
    """With and without counted metrics, intervals, or any row; the docstring explains each."""
    without = replace(result, summaries=tuple(replace(row, interval=None) for row in result.summaries))
    for some in (result, without, *(replace(result, summaries=(row,)) for row in result.summaries)):
        assert [*some.table().columns] == BRIEF
        assert [*some.table(all=True).columns] == ALL
    assert [*replace(result, summaries=()).table(all=True).columns] == ALL
    explained = str(Result.table.__doc__)
    assert [name for name in ALL if not re.search(rf"\b{name}\b", explained)] == []
    assert set(BRIEF) < set(ALL)
    table = result.table(all=True).set_index(["captioner", "metric"])
    row = next(row for row in result.summaries if row.metric.name == "ba")
    assert table.loc[row.key[:2], "published"] - table.loc[row.key[:2], "chance_level"] == pytest.approx(
        table.loc[row.key[:2], "amplification"]
    )


def test_verbose_prints_all_columns_notes_and_warnings(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(result, verbose=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert "chance level" in printed
    notes = [*footnotes(result), *(f"NOTE: {line}" for line in warnings(result))]
    assert [line for line in notes if " ".join(line.split()) not in printed] == []


@pytest.mark.parametrize(
    "metric", [name for name, row in METRICS.items() if row.balanced and row.amplification != "one_side"]
)
def test_the_mean_over_classes_is_the_value_of_the_table(metric: str) -> None:
    """Whatever splits score an image, and whichever seed counts."""
    generator = np.random.default_rng(1)
    rows = []
    for seed in range(3):
        for image in generator.choice(40, 25, replace=False):
            answer = "female" if image % 3 else "male"
            for side, captions in (("human", 2), ("generated", 1)):
                for index in range(captions):
                    p = generator.uniform(0.05, 0.95)
                    guess = answer if p > 0.5 else {"female": "male", "male": "female"}[answer]
                    rows.append(
                        ["a", metric, "x", seed, 0, str(image), side, index, answer, "", "", p, guess, -np.log(p), seed]
                    )
    names = "captioner metric judge seed fold image_id side index answer named tasks probability predicted loss"
    scores = pd.DataFrame(rows, columns=[*names.split(), "validation_loss"]).assign(baseline=1.0)
    (line,) = summarise(scores)
    table = class_score_table(Result((line,), scores, pd.DataFrame(), pd.DataFrame(), {}))
    _, _, classes, images, human, generated, _ = zip(*table.rows, strict=True)
    assert classes == ("female", "male")
    assert np.mean(human) == pytest.approx(line.human, abs=1e-12)
    assert np.mean(generated) == pytest.approx(line.generated, abs=1e-12)
    assert sum(images) == line.images


def test_captioners_of_the_same_images_share_their_rows() -> None:
    of = {name: {"happy": count, "sad": 11} for name, count in (("a", 10), ("b", 10), ("c", 12))}
    for names, shown in (("a", {"a": "a"}), ("ab", {"all": "a"}), ("acb", {"a, b": "a", "c": "c"})):
        run = {"attribute": "feeling", "captioners": {name: {"images": of[name]} for name in names}}
        rows = [(who, name, images) for who, first in shown.items() for name, images in of[first].items()]
        assert list(class_table(run).rows) == rows


def test_in_python_a_result_shows_its_numbers(result: Result) -> None:
    """``print`` has verdicts and the terminal's table; ``notes`` all sentences; ``by_class`` a table."""
    shown = str(result)
    assert all(f"{row.amplification:+.3f}" in shown for row in result.summaries if row.amplification is not None)
    assert {*map(python_words, warnings(result))} <= {*result.notes}  # type: ignore[attr-defined]
    table = result.by_class()  # type: ignore[attr-defined]
    assert table["difference"].tolist() == pytest.approx((table["generated"] - table["human"]).tolist())
    assert {*table["class"]} == {"female", "male"}

"""What ``judge evaluate`` prints: little by default, everything with ``--verbose``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from judge import Corpus, evaluate
from judge.measure import Result
from judge.report.notes import footnotes
from judge.report.sections import print_result
from judge.report.warnings import warnings
from judge.types import Doubt


@pytest.fixture(scope="module")
def result(corpus: Corpus) -> Result:
    """Of judges trained once, with labels derived from captions: there is much to warn of."""
    derived = replace(corpus, labels=None)
    return evaluate(
        derived, metrics="lic,leakage,dbac,ba", least=1, judge="linear", folds=3, refits=0, chance=0, resamples=100
    )


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
        "Labels DERIVED from human captions. Counted metrics: amplification is the published value less the chance "
        "level." in text
    )
    assert "T->A: captions that name one class." in text
    # The first warning is there, however many there are: these intervals are too narrow.
    assert "NOTE: Intervals marked * ('these judges') leave out training noise" in text
    marks = [line.split("]")[1][0] for line in lines[: lines.index("")] if "]" in line]
    assert marks == ["*", "*", "*", "*", " "] * 2  # BA trains no judge.
    # Notes are whole, and the last line is the command that shows the others.
    printed, found = [f"NOTE: {note}" in text for note in warnings(result)], warnings(result)
    assert 1 < sum(printed) < len(found)
    assert all(shown for shown, note in zip(printed, found, strict=True) if isinstance(note, Doubt))
    assert text.endswith(" more note: judge report 'runs/the mine' --format md")
    assert printed.count(False) == 1
    assert not {"detectable", "chance level", "images"} & set(lines[1].split("  "))


def test_verbose_prints_all_columns_notes_and_warnings(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(result, verbose=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert "chance level" in printed
    notes = [*footnotes(result), *(f"NOTE: {line}" for line in warnings(result))]
    assert [line for line in notes if " ".join(line.split()) not in printed] == []

"""One line, whatever happens, also on the way back from another process."""

from __future__ import annotations

import pickle

import pytest

from judge.errors import JudgeError, nearest


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (JudgeError("caption is null"), "caption is null."),
        (JudgeError("is a file", where="--out x", mend="name a folder"), "--out x: is a file. Name a folder."),
        (JudgeError("two\nlines."), "two lines."),
        (JudgeError("unknown judge 'lsmt'", mend=nearest("lsmt", ["linear", "lstm"])), "did you mean 'lstm'?"),
        (JudgeError("unknown metric 'x'", mend=nearest("qqq", ["lic", "sc"])), "Known: lic, sc."),
    ],
)
def test_one_line(error: JudgeError, line: str) -> None:
    assert str(error).lower().endswith(line.lower())
    assert "\n" not in str(error)


def test_survives_the_way_between_processes() -> None:
    error = JudgeError("loss is nan", where="training", mend="lower it")
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.where, again.mend) == ("loss is nan", "training", "lower it")


def test_what_files_hold_cannot_spoil_the_line() -> None:
    """Neither its length, nor a terminal's commands, nor half of a surrogate pair."""
    line = str(JudgeError("x" * 1000 + "end", where="f.json, \x1b[31mrecord\x00 1, '\ud83d'", mend="mend it"))
    assert line == f"f.json, \ufffd[31mrecord\ufffd 1, '\ufffd': {'x' * 125} ... {'x' * 117}end. Mend it."
    assert len(line) < 350
    as_it_was = JudgeError("x" * 1000).what
    assert len(as_it_was) == 1000

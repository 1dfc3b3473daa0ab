"""One line, whatever happens, also on the way back from another process."""

from __future__ import annotations

import pickle

import pytest

from judge.errors import JudgeError, nearest, printable


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
    assert line == rf"f.json, \x1b[31mrecord\x00 1, '\ud83d': {'x' * 222} ... {'x' * 215}end. Mend it."
    assert len(line) == 495
    assert len(JudgeError("x" * 1000).what) == 1000  # As it was.
    assert 490 < len(str(JudgeError("x" * 10**6, where="\x1b" * 10**6, mend="z" * 10**6))) <= 500


def test_what_a_terminal_may_show() -> None:
    """Line breaks and changes of direction are told; other scripts, their spaces and joined emoji are left alone."""
    assert printable("a\n\x1b]0;t\x07\u202eb\x85\ufeff") == r"a\n\x1b]0;t\x07\u202eb\x85\ufeff"
    texts = "caf\u00e9 \u5973\u3000\u4eba", "\u0645\u06cc\u200c\u062e", "\U0001f469\u200d\U0001f373", "back\\slash"
    for text in texts:
        assert printable(text) == text

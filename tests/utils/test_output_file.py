"""Single files that commands make: what is there is not replaced unasked, whatever happens meanwhile."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from judge.errors import JudgeError
from judge.utils.outputs import AtWorkError, OutputFile


def test_one_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    """Its folder too goes where nothing was written."""
    first, second = OutputFile(tmp_path / "new" / "out.csv"), OutputFile(tmp_path / "new" / "out.csv")
    with first.working(), pytest.raises(AtWorkError):
        second.check()
    assert list(tmp_path.iterdir()) == []
    with first.working():
        first.write(b"first")
    with pytest.raises(JudgeError, match="is there already"), second.working():
        pass
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "new").iterdir()] == [("out.csv", b"first")]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("when", ["before it works", "before it writes", "while it writes"])
def test_what_appears_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool, when: str) -> None:
    path, link = tmp_path / "out.csv", os.link

    def mine() -> None:
        path.write_text("years of work", encoding="utf-8")

    def linking(old: Path, new: Path) -> None:
        if when == "while it writes":
            mine()
        if not links:
            raise OSError(errno.EPERM, "Operation not permitted")
        link(old, new)

    monkeypatch.setattr(os, "link", linking)
    out = OutputFile(path)
    out.check()
    if when == "before it works":
        mine()

    def work() -> None:
        with out.working():
            if when == "before it writes":
                mine()
            out.write(b"ours")

    with pytest.raises(JudgeError, match="is there already"):
        work()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("out.csv", "years of work")]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a device"])
def test_no_file_is_never_replaced(tmp_path: Path, kind: str, overwrite: bool) -> None:
    path = tmp_path / "out.csv"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}.get(kind, lambda: path.symlink_to("/dev/null"))()
    before = path.lstat()
    with pytest.raises(JudgeError, match=r"is a folder\. Name a file|is no file but a device or a pipe\. Name a file"):
        OutputFile(path, overwrite=overwrite).check()
    assert os.path.samestat(before, path.lstat())

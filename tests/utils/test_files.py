"""Working folders of several processes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from judge.errors import JudgeError
from judge.utils.folders import ResumableFolder


def test_an_error_is_told_though_another_process_removes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes meet an error at once; the main one removes what holds no work while others look into it."""
    folder = ResumableFolder(tmp_path / "out", what="run", command="judge evaluate", parts="")
    folder.begin()
    scan = os.scandir

    def scan_and_remove(path: str) -> object:
        monkeypatch.setattr(os, "scandir", scan)
        found = scan(path)
        shutil.rmtree(folder.partial, ignore_errors=True)
        return found

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    with pytest.raises(JudgeError, match="the fault"), folder.working():
        raise JudgeError("the fault")
    assert not folder.partial.exists()

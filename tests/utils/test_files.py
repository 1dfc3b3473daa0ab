"""Files written whole or not at all, damaged cache files, NAME=PATH, and errors of the system in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from judge.errors import JudgeError
from judge.utils import files


@pytest.mark.parametrize(
    ("entry", "name", "text"),
    [
        ("mine=captions.json", "mine", "captions.json"),
        ("captions.json", "", "captions.json"),
        ("=captions.json", "", "=captions.json"),
        ("lr=0.1/captions.json", "", "lr=0.1/captions.json"),
        ("./lr=0.2/captions.json", "", "./lr=0.2/captions.json"),
        ("/data/lr=0.2/captions.json", "", "/data/lr=0.2/captions.json"),
        ("best=lr=0.1/captions.json", "best", "lr=0.1/captions.json"),
        ("blip=Salesforce/blip", "blip", "Salesforce/blip"),
    ],
)
def test_a_path_may_hold_an_equals_sign(
    entry: str, name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lr=0.1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert files.split_name(entry) == (name, text)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """An interrupt leaves the old file, and no other."""
    files.write_whole(tmp_path / "out", b"old")

    def interrupted() -> None:
        with files.beside(tmp_path / "out") as written:
            written.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out": b"old"}


def test_a_damaged_cache_file_counts_as_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line that a kill has cut does so in silence; a file that cannot be read at the moment is an error."""
    path = tmp_path / "cache.json"
    assert files.read_json_cache(path) is None
    assert files.read_json_lines(path) == []
    path.write_bytes(b'{"a": 1}\n[2]\n[3')
    assert files.read_json_lines(path) == [{"a": 1}, [2]]
    assert caplog.messages == []
    path.write_bytes(b'{"a": \n[2]\n')
    assert files.read_json_lines(path) == [[2]]
    assert files.read_json_cache(path) is None
    assert files.read_json_cache(tmp_path) is None
    told = [f"{path} is damaged in 1 of 2 lines", f"{path} is damaged", f"{tmp_path} is damaged"]
    assert caplog.messages == [f"{line}: it is computed again" for line in told]
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(JudgeError, match="Too many levels of symbolic links"):
        files.read_json_cache(tmp_path / "loop")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        # As CPython 3.11 said it in a worker that was allotted nothing any more, amid an import.
        SystemError("error return without exception set"),
        SystemError("<method 'read' of '_io.FileIO' objects> returned NULL without setting an exception"),
    ],
)
def test_a_lack_of_memory_is_told_as_such_however_it_is_raised(error: Exception) -> None:
    assert str(files.as_mendable(error, "--out out")).startswith(
        "memory has run out. Let fewer work at a time (--workers 1)"
    )
    assert files.as_mendable(SystemError("bad argument to internal function"), "--out out") is None

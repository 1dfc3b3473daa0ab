"""Files written whole, and working folders, where an interrupt or another process comes between."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from judge.commands.evaluate import RunConfig
from judge.config import make_config
from judge.errors import JudgeError
from judge.utils import files
from judge.utils.folders import ResumableFolder
from judge.utils.locks import scratch


@pytest.mark.parametrize(
    ("entry", "name", "text"),
    [
        ("mine=captions.json", "mine", "captions.json"),
        ("captions.json", "", "captions.json"),
        ("=captions.json", "", "=captions.json"),
        ("lr=0.1/captions.json", "", "lr=0.1/captions.json"),
        ("lr=0.1/{00000..00009}.tar", "", "lr=0.1/{00000..00009}.tar"),
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


def test_every_option_reads_a_name_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lr=0.1").mkdir()
    monkeypatch.chdir(tmp_path)
    path = "lr=0.1/mine.json"
    given = {"human": "h.json", "captions": [path], "models": [path], "weights": [path], "labels": f"gender={path}"}
    config = make_config({**given, "attribute": "gender,skin"}, RunConfig)
    assert (config.captions, config.models) == ({"mine": Path(path)}, {"mine.json": path})
    assert (config.weights, config.labels) == ({"": path}, {"gender": Path(path)})
    assert make_config({**given, "attribute": "gender,skin", "labels": path}, RunConfig).labels == Path(path)


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


@pytest.mark.parametrize("new", [True, False])
def test_an_interrupt_leaves_no_other_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, new: bool
) -> None:
    remove = files.remove

    def interrupted(path: Path) -> None:
        monkeypatch.setattr(files, "remove", remove)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "out", b"whole", new=new)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out": b"whole"}


def test_an_interrupt_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner's sign goes last: by it the next process takes away what a killed one was removing."""
    rmtree, left = shutil.rmtree, list[list[str]]()

    def interrupted(folder: Path, **_: object) -> None:
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        left.append([path.name for path in folder.iterdir()])
        raise KeyboardInterrupt

    def fill() -> None:
        (folder,) = tmp_path.iterdir()
        (folder / "steps").write_text("1")
        monkeypatch.setattr(shutil, "rmtree", interrupted)

    with pytest.raises(KeyboardInterrupt), scratch(tmp_path):
        fill()
    assert left == [[".owned"]]
    assert list(tmp_path.iterdir()) == []


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

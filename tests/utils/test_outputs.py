"""Outputs of commands: what is replaced, what a kill, an error or a full disk leaves, and two commands at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fault_of

from judge.errors import JudgeError
from judge.utils import outputs
from judge.utils.outputs import MANIFEST, OutputFile, OutputFolder


def run_of(path: Path, *, overwrite: bool = False) -> OutputFolder:
    return OutputFolder(path, what="run", command="judge evaluate", overwrite=overwrite)


def make(path: Path, text: str = "first", *, overwrite: bool = False) -> None:
    """A whole run of one file, in a folder of its own."""
    folder = run_of(path, overwrite=overwrite)
    folder.check()
    with folder.working():
        folder.begin()
        (folder.partial / "figures").mkdir(exist_ok=True)
        (folder.partial / "figures" / "one.svg").write_text(text, encoding="utf-8")
        (folder.store / "finished").write_text(text, encoding="utf-8")
        folder.publish()


def tree(folder: Path) -> dict[str, str]:
    """Name -> text of all that lies in a folder, the manifest and the log apart."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if path.name not in {MANIFEST, "log.jsonl"}}


def test_a_published_folder_holds_its_manifest_and_nothing_is_left(tmp_path: Path) -> None:
    make(tmp_path / "out")
    listed = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert (listed["kind"], listed["files"]) == ("run", ["figures/", "figures/one.svg", "log.jsonl"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(JudgeError, match=r"holds a finished run\. Name another folder, or add --overwrite"):
        make(tmp_path / "out", "second")
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path) == {"out/figures/one.svg": "second"}


@pytest.mark.parametrize("foreign", ["thesis.tex", "figures/mine.svg", "notes/deep/a.txt", "link", "empty/"])
def test_nothing_is_replaced_where_a_foreign_file_lies(tmp_path: Path, foreign: str) -> None:
    make(tmp_path / "out")
    place = tmp_path / "out" / foreign
    place.parent.mkdir(parents=True, exist_ok=True)
    if foreign == "link":
        place.symlink_to(tmp_path)
    elif foreign == "empty/":
        place.mkdir()
    else:
        place.write_text("years of work", encoding="utf-8")
    before = sorted((tmp_path / "out").rglob("*"))
    first = "notes/" if "notes" in foreign else foreign
    with pytest.raises(JudgeError, match=f"holds {first}, which is no part of this run. Move it elsewhere"):
        make(tmp_path / "out", "second", overwrite=True)
    assert sorted((tmp_path / "out").rglob("*")) == before


@pytest.mark.parametrize("manifest", [None, "no JSON", '{"kind": "alignment", "files": {}}', "[]", '{"kind": ["run"]}'])
def test_a_folder_of_the_user_is_no_run(tmp_path: Path, manifest: str | None) -> None:
    """Neither the output nor the working folder; also with ``run.yaml``, which is what users call their settings."""
    for own in (tmp_path / "own", tmp_path / "out.partial"):
        own.mkdir()
        (own / "run.yaml").write_text("metrics: lic\n", encoding="utf-8")
        if manifest is not None:
            (own / MANIFEST).write_text(manifest, encoding="utf-8")
    with pytest.raises(JudgeError, match=r"holds something that is no run\. Name another folder"):
        run_of(tmp_path / "own", overwrite=True).check()
    with pytest.raises(JudgeError, match=r"out\.partial, where the command works, holds something .* run\.yaml"):
        run_of(tmp_path / "out").check()
    assert (tmp_path / "own" / "run.yaml").exists()
    assert (tmp_path / "out.partial" / "run.yaml").exists()


def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "out", overwrite=True)
    folder.check()

    def work() -> None:
        with folder.working():
            folder.begin()
            (folder.store / "finished").write_text("hours", encoding="utf-8")
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "thesis.tex").write_text("years of work", encoding="utf-8")
            folder.publish()

    with pytest.raises(JudgeError, match=r"holds something that is no run.*goes on from what is finished"):
        work()
    assert tree(tmp_path) == {"out/thesis.tex": "years of work", "out.partial/members/finished": "hours"}


@pytest.mark.parametrize("killed_by", [signal.SIGKILL, None])
def test_a_command_killed_while_it_replaces_loses_nothing(tmp_path: Path, killed_by: int | None) -> None:
    """The earlier run is moved away, the later is not in its place: the earlier comes back; Ctrl-C does so at once."""
    make(tmp_path / "out")
    code = f"""if True:
        import os, pathlib, signal
        from judge.utils.outputs import OutputFolder
        folder = OutputFolder(pathlib.Path("out"), what="run", command="judge evaluate", overwrite=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
        rename = pathlib.Path.rename
        def killed(path, to):
            rename(path, to)
            if path.name == "out":
                os.kill(os.getpid(), {int(killed_by or signal.SIGINT)})
        pathlib.Path.rename = killed
        with folder.working():
            folder.begin()
            (folder.store / "finished").write_text("hours")
            folder.publish()
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode != 0
    assert (tmp_path / "out").exists() == (killed_by is None)
    with pytest.raises(JudgeError, match="holds a finished run"):
        make(tmp_path / "out", "second")
    assert tree(tmp_path) == {"out/figures/one.svg": "first", "out.partial/members/finished": "hours"}
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path) == {"out/figures/one.svg": "second"}


def test_the_store_goes_that_a_kill_left_in_a_complete_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("judge.utils.outputs.remove", lambda path: None)  # As if killed before it.
        make(tmp_path / "out")
    assert (tmp_path / "out" / "members").is_dir()
    with pytest.raises(JudgeError, match="holds a finished run"):
        make(tmp_path / "out", "second")
    assert tree(tmp_path) == {"out/figures/one.svg": "first"}
    assert not (tmp_path / "out" / "members").exists()


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), MemoryError(), ValueError("a bug")])
def test_any_error_keeps_finished_work(tmp_path: Path, fault: Exception) -> None:
    folder = run_of(tmp_path / "deep" / "out")
    kind = ValueError if isinstance(fault, ValueError) else JudgeError

    def work(*, finish: bool) -> None:
        with folder.working():
            folder.begin()
            if finish:
                (folder.store / "finished").write_text("hours", encoding="utf-8")
            raise fault

    with pytest.raises(kind):
        work(finish=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(kind) as caught:
        work(finish=True)
    assert ("(judge evaluate ... --out" in str(caught.value)) == (kind is JudgeError)
    assert tree(folder.partial) == {"members/finished": "hours"}
    make(folder.path)
    assert [path.name for path in folder.path.parent.iterdir()] == ["out"]


def test_the_working_folder_of_a_killed_command_is_made_anew(tmp_path: Path) -> None:
    """Of a command that does not resume."""
    OutputFolder(tmp_path / "out", what="alignment").begin()
    (tmp_path / "out.partial" / "half").write_text("half")
    folder = OutputFolder(tmp_path / "out", what="alignment")
    folder.check()
    with folder.working():
        folder.begin()
        folder.publish()
    assert tree(tmp_path) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_one_command_at_a_time_makes_a_folder(tmp_path: Path) -> None:
    first = run_of(tmp_path / "out")
    with first.working():
        first.begin()
        for work in (run_of(tmp_path / "out").check, run_of(tmp_path / "out").begin):
            assert "another command is at work there. Wait for it, or name another --out." in fault_of(work)
        (first.store / "finished").write_text("hours", encoding="utf-8")
        first.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_cannot_be_removed_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails: the same process may then make the folder again."""

    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    out = OutputFolder(tmp_path / "out", what="table")
    out.begin()
    with monkeypatch.context() as failing:
        failing.setattr(outputs, "remove", fail)
        with pytest.raises(OSError, match="Input/output error"):
            out.discard()
    again = OutputFolder(tmp_path / "out", what="table")
    again.begin()
    again.publish()
    assert (tmp_path / "out").is_dir()


def test_a_file_is_made_by_one_command_at_a_time_and_never_replaced(tmp_path: Path) -> None:
    """Its folder is removed if nothing was written."""
    first, second = OutputFile(tmp_path / "new" / "out.csv"), OutputFile(tmp_path / "new" / "out.csv")
    with first.working(), pytest.raises(JudgeError, match="another command is at work"):
        second.check()
    assert list(tmp_path.iterdir()) == []
    with first.working():
        first.write(b"first")
    for refused in (second.check, lambda: second.write(b"second")):
        with pytest.raises(JudgeError, match="is there already"):
            refused()
    with pytest.raises(JudgeError, match=r"out\.csv is read"):
        OutputFile(tmp_path / "new" / "out.csv", overwrite=True).check([tmp_path / "new" / "out.csv"])
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "new").iterdir()] == [("out.csv", b"first")]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a device"])
def test_only_regular_files_are_overwritten(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out.csv"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}.get(kind, lambda: path.symlink_to("/dev/null"))()
    with pytest.raises(JudgeError, match=r"is a folder\. Name a file|is no file but a device or a pipe\. Name a file"):
        OutputFile(path, overwrite=True).check()
    assert os.path.lexists(path)

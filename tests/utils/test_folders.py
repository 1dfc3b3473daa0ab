"""Output folders: what is replaced, what a kill or a full disk leaves, and two commands at once."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import judge, refusal

from judge.calibration.grammar import WorldFiles, make_world, write_world
from judge.calibration.world import Captioner
from judge.errors import JudgeError
from judge.training.checkpoint import save_tensors
from judge.utils.outputs import (
    MANIFEST,
    OutputFolder,
    ResumableFolder,
    forget_folder,
    is_left,
    scratch,
    write_again,
    write_list,
)

FAST = [
    *("--metrics", "lic", "--judge", "linear", "--resamples", "100"),
    *("--workers", "1", "--folds", "3", "--refits", "3", "--chance", "2"),
]

PARTS = r"figures/(one\.svg)?|members/finished"


def run_of(path: Path, *, overwrite: bool = False) -> ResumableFolder:
    return ResumableFolder(path, what="run", command="judge evaluate", parts=PARTS, overwrite=overwrite)


def make(path: Path, text: str = "first", *, overwrite: bool = False) -> None:
    """A whole run of one file, in a folder of its own."""
    folder = run_of(path, overwrite=overwrite)
    folder.check()
    with folder.working():
        folder.begin()
        (folder.partial / "figures").mkdir()
        (folder.partial / "figures" / "one.svg").write_text(text, encoding="utf-8")
        (folder.store / "finished").write_text(text, encoding="utf-8")
        folder.publish()


def tree(folder: Path) -> dict[str, str]:
    """Name -> text of all that lies in a folder, the list and the log apart."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if path.name not in {MANIFEST, "log.jsonl"}}


def test_the_list_names_all_that_was_published(tmp_path: Path) -> None:
    make(tmp_path / "out")
    listed = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert (listed["kind"], list(listed["files"])) == ("run", ["figures/", "figures/one.svg", "log.jsonl"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("stranger", ["thesis.tex", "figures/mine.svg", "notes/deep/a.txt", "link", "empty/"])
def test_nothing_is_replaced_where_anything_lies_that_was_not_made(tmp_path: Path, stranger: str) -> None:
    make(tmp_path / "out")
    place = tmp_path / "out" / stranger
    place.parent.mkdir(parents=True, exist_ok=True)
    if stranger == "link":
        place.symlink_to(tmp_path)
    elif stranger == "empty/":
        place.mkdir()
    else:
        place.write_text("years of work", encoding="utf-8")
    before = sorted((tmp_path / "out").rglob("*"))
    first = "notes/" if "notes" in stranger else stranger
    with pytest.raises(JudgeError) as caught:
        make(tmp_path / "out", "second", overwrite=True)
    told = f"holds {first}, which is no part of this run. Move it elsewhere, or name another folder."
    assert str(caught.value) == f"--out {tmp_path / 'out'}: {told}"
    assert sorted((tmp_path / "out").rglob("*")) == before
    place.unlink() if stranger != "empty/" else place.rmdir()
    if "notes" in stranger:
        shutil.rmtree(tmp_path / "out" / "notes")
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path / "out") == {"figures/one.svg": "second"}


def test_a_file_that_somebody_has_changed_is_not_replaced(tmp_path: Path) -> None:
    """A rating sheet that was filled in, say; what a command writes again is the command's."""
    make(tmp_path / "out")
    page = tmp_path / "out" / "figures" / "one.svg"
    page.write_text("years of work", encoding="utf-8")
    with pytest.raises(JudgeError, match=r"holds figures/one\.svg, which is no more the file of this run\. Move it"):
        make(tmp_path / "out", "second", overwrite=True)
    page.write_text("fIrst", encoding="utf-8")
    with pytest.raises(JudgeError, match=r"holds figures/one\.svg, which is no more the file of this run\. Move it"):
        make(tmp_path / "out", "second", overwrite=True)
    page.write_text("first", encoding="utf-8")
    write_again(tmp_path / "out" / "log.jsonl", b"another one")
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path / "out") == {"figures/one.svg": "second"}


@pytest.mark.parametrize("listed", [None, "no JSON", '{"kind": "alignment", "files": {}}', "[]", '{"kind": ["run"]}'])
def test_a_folder_of_ones_own_is_no_run(tmp_path: Path, listed: str | None) -> None:
    """Also with ``run.yaml``, which is what users call their settings."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "run.yaml").write_text("metrics: lic\n", encoding="utf-8")
    (own / "thesis.tex").write_text("years of work", encoding="utf-8")
    if listed is not None:
        (own / MANIFEST).write_text(listed, encoding="utf-8")
    with pytest.raises(JudgeError, match=r"holds something that is no run\. Name another folder; one of an older"):
        run_of(own, overwrite=True).check()
    assert (own / "thesis.tex").exists()


def test_a_list_that_names_what_lies_elsewhere_removes_nothing_there(tmp_path: Path) -> None:
    make(tmp_path / "out")
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    path = tmp_path / "out" / MANIFEST
    listed = json.loads(path.read_text())
    listed["files"] |= {"../mine.txt": "4", str(tmp_path / "mine.txt"): "4"}
    path.write_text(json.dumps(listed))
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path) == {"mine.txt": "mine", "out/figures/one.svg": "second"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path, overwrite: bool) -> None:
    """While the command works somebody makes a folder, or puts a file into the run; all that is finished stays."""
    if overwrite:
        make(tmp_path / "out")
    folder = run_of(tmp_path / "out", overwrite=overwrite)
    folder.check()

    def work() -> None:
        with folder.working():
            folder.begin()
            (folder.store / "finished").write_text("hours", encoding="utf-8")
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / "thesis.tex").write_text("years of work", encoding="utf-8")
            folder.publish()

    with pytest.raises(JudgeError, match=r"holds .*goes on from what is finished"):
        work()
    assert (tmp_path / "out" / "thesis.tex").exists()
    assert (tmp_path / "out" / "figures").exists() == overwrite
    assert tree(tmp_path / "out.partial") == {"members/finished": "hours"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.partial"]


MINE = ["thesis.tex", "members/mine.txt", "figures/two.svg", "empty/"]


@pytest.mark.parametrize("mine", MINE)
def test_what_somebody_puts_into_the_working_folder_stays(tmp_path: Path, mine: str) -> None:
    """Of a killed command, or while it works: it is told, neither published nor removed, and is in nobody's way."""
    partial = tmp_path / "out.partial"

    def put() -> None:
        (partial / mine).mkdir() if mine == "empty/" else (partial / mine).write_text("years of work", encoding="utf-8")

    def work(folder: ResumableFolder) -> None:
        with folder.working():
            folder.begin()
            (folder.partial / "figures").mkdir()
            (folder.store / "finished").write_text("hours", encoding="utf-8")
            put()
            folder.publish()

    told = rf"out\.partial, where work goes on, holds {mine}, which is no part of this run\. Move it elsewhere, or name"
    with pytest.raises(JudgeError, match=told):
        work(run_of(tmp_path / "out"))
    with pytest.raises(JudgeError, match=told):
        run_of(tmp_path / "out").check()
    with pytest.raises(JudgeError, match=told):
        run_of(tmp_path / "out").begin()
    assert (partial / mine).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out.partial"]


def test_a_working_folder_of_somebody_else(tmp_path: Path) -> None:
    """It is told by what lies in it itself, deeper nobody looks."""
    partial = tmp_path / "out.partial"
    for folder in (".judge-0123456789abcdef", "years"):
        (partial / folder / "deep").mkdir(parents=True)
    with pytest.raises(JudgeError, match=r"out\.partial, where work would go on, .* no run: years\. Move"):
        run_of(tmp_path / "out").check()
    assert sorted(path.name for path in partial.iterdir()) == [".judge-0123456789abcdef", "years"]


def test_of_what_was_kept_for_going_on_only_what_is_listed_goes(tmp_path: Path) -> None:
    """A command was killed when it had made the folder; somebody then put a file beside what it had kept."""
    make(tmp_path / "out")
    (tmp_path / "out" / "members").mkdir()
    (tmp_path / "out" / "members" / "finished").write_text("hours", encoding="utf-8")
    write_list(tmp_path / "out", "run")
    (tmp_path / "out" / "members" / "mine.txt").write_text("years of work", encoding="utf-8")
    forget_folder(tmp_path / "out", "members")
    assert tree(tmp_path / "out") == {"figures/one.svg": "first", "members/mine.txt": "years of work"}
    with pytest.raises(JudgeError, match=r"holds members/mine\.txt, which is no part of this run"):
        make(tmp_path / "out", "second", overwrite=True)


def test_a_list_of_sizes_tells_not_enough(tmp_path: Path) -> None:
    """As earlier versions wrote it: a file may have been changed since."""
    make(tmp_path / "out")
    path = tmp_path / "out" / MANIFEST
    listed = json.loads(path.read_text())
    path.write_text(json.dumps({**listed, "files": dict.fromkeys(listed["files"], 5)}))
    with pytest.raises(JudgeError, match=r"one of an older version must be removed by hand"):
        make(tmp_path / "out", "second", overwrite=True)


def test_killed_between_both_renames(tmp_path: Path) -> None:
    """The earlier run lies aside, the later is not there yet: the earlier comes back, and is replaced after all."""
    make(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / ".out.0123456789abcdef.old")
    with pytest.raises(JudgeError, match="holds another run"):
        make(tmp_path / "out", "second")
    assert tree(tmp_path) == {"out/figures/one.svg": "first"}
    (tmp_path / "out").rename(tmp_path / ".out.0123456789abcdef.old")
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path) == {"out/figures/one.svg": "second"}


def test_an_interrupt_between_both_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C as soon as the earlier run lies aside: it is in its place again, and the new one goes on."""
    make(tmp_path / "out")
    rename = Path.rename

    def interrupted(path: Path, to: Path) -> None:
        rename(path, to)
        if path.name == "out":
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", "second", overwrite=True)
    left = {"figures/one.svg": "second", "members/finished": "second"}
    assert tree(tmp_path / "out") == {"figures/one.svg": "first"}
    assert tree(tmp_path / "out.partial") == left


@pytest.mark.parametrize("linked", [False, True])
def test_a_file_that_is_called_like_a_lock_stays(tmp_path: Path, linked: bool) -> None:
    """A user's own: never emptied, never removed; nor what a link of that name leads to."""
    thesis = tmp_path / "thesis.tex"
    lock = tmp_path / ".out.judge-lock"
    (thesis if linked else lock).write_text("years of work", encoding="utf-8")
    if linked:
        lock.symlink_to(thesis)
    with pytest.raises(JudgeError, match="symbolic links" if linked else r"no lock of this program\. Move that file"):
        make(tmp_path / "out")
    assert lock.read_text(encoding="utf-8") == "years of work"
    assert not (tmp_path / "out.partial").exists()


def test_a_lock_goes_with_its_process_not_with_the_children(tmp_path: Path) -> None:
    """A process that was forked off, as a DataLoader's worker is, lives on after its parent was killed."""
    code = "import os, signal, sys, time\nfrom pathlib import Path\nfrom judge.utils.locks import Lock\n"
    code += f"lock = Lock(Path({str(tmp_path / 'lock')!r}))\nlock.acquire()\n"
    code += "if os.fork(): os.kill(os.getpid(), signal.SIGKILL)\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    child = int(process.stdout.readline())
    try:
        process.wait()
        assert is_left(tmp_path / "lock")
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_leftovers_of_killed_commands_go_and_nothing_else(tmp_path: Path) -> None:
    """Of the same folder, recognised by name and list; not another folder's, not what only looks like one.

    The lock of a process goes with it.
    """
    killed, others = OutputFolder(tmp_path / "out", what="alignment"), OutputFolder(tmp_path / "out2", what="alignment")
    code = "import os, signal\n"
    code += "from pathlib import Path\nfrom judge.utils.folders import OutputFolder\n"
    code += "folder = OutputFolder(Path({!r}), what='alignment')\nfolder.begin()\n"
    code += "(folder.partial / 'half').write_text('half')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    for folder in (killed, others):
        done = subprocess.run([sys.executable, "-c", code.format(str(folder.path))], check=False)
        assert done.returncode == -signal.SIGKILL
    (tmp_path / ".out.0123456789abcdef.partial").mkdir()
    (tmp_path / ".out.0123456789abcdef.partial" / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert len(list(tmp_path.glob(".out.*.partial"))) == 2
    assert (tmp_path / ".out.judge-lock").exists()
    killed.check()
    with killed.working():
        killed.begin()
        killed.publish()
    assert [path.name for path in tmp_path.glob(".out.*")] == [".out.0123456789abcdef.partial"]
    assert (tmp_path / ".out.0123456789abcdef.partial" / "thesis.tex").exists()
    assert len(list(tmp_path.glob(".out2.*.partial"))) == 1


@pytest.mark.parametrize("mine", ["notes.txt", ".judge-0123456789abcdef/notes.txt"])
def test_what_a_library_was_writing_when_it_was_killed_goes(tmp_path: Path, mine: str) -> None:
    """Under a name that the library chose (safetensors: ``.tmp`` and six letters); a folder without our lock stays."""
    code = "import os, signal, sys\nfrom pathlib import Path\nfrom judge.utils.files import beside\n"
    code += "with beside(Path(sys.argv[1])) as file:\n    file.with_name('.tmpAbCdEf').write_bytes(b'half')\n"
    code += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    folder = tmp_path / "checkpoints"
    (folder / mine).parent.mkdir(parents=True)
    (folder / mine).write_text("years of work", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", code, folder / "judge.safetensors"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(folder.rglob(".tmp*"))) == 1
    save_tensors(folder / "other.safetensors", {"values": np.zeros(3)}, {})
    left = {path for path in folder.rglob("*") if path != (folder / mine).parent}
    assert left == {folder / mine, folder / "other.safetensors"}


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), MemoryError(), ValueError("a bug")])
def test_any_error_keeps_what_is_finished(tmp_path: Path, fault: Exception) -> None:
    """Also below a folder called as that of the trackers is."""
    folder = run_of(tmp_path / "tracking" / "out")
    kind = ValueError if isinstance(fault, ValueError) else JudgeError

    def work() -> None:
        with folder.working():
            folder.begin()
            (folder.store / "finished").write_text("hours", encoding="utf-8")
            raise fault

    with pytest.raises(kind) as caught:
        work()
    told = str(caught.value) + " ".join(getattr(caught.value, "__notes__", []))
    assert ("(judge evaluate ... --out" in told) == (kind is JudgeError)
    assert tree(folder.partial) == {"members/finished": "hours"}
    make(folder.path)
    assert [path.name for path in folder.path.parent.iterdir()] == ["out"]


def test_long_names(tmp_path: Path) -> None:
    """As long as names may be, and longer; in bytes, which umlauts have two of."""
    for name in ("n" * 255, "ü" * 127):
        make(tmp_path / name)
        assert tree(tmp_path / name) == {"figures/one.svg": "first"}
    for name in ("n" * 256, "/".join(["n" * 200] * 30)):
        with pytest.raises(JudgeError, match=r"cannot be written \(File name too long\)\. Choose a shorter name\."):
            run_of(tmp_path / name).check()
    for command in (["compare", tmp_path / "a", tmp_path / "b"], ["caption", "--model", "x", "--images", tmp_path]):
        told = refusal(*command, "--out", tmp_path / ("n" * 256))
        assert told.endswith("the name is too long. Choose a shorter one.\n")
        assert told.count("\n") == 1


def test_where_the_file_system_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    make(tmp_path / "out")
    make(tmp_path / "out", "second", overwrite=True)
    assert tree(tmp_path) == {"out/figures/one.svg": "second"}


def test_temporary_folders_of_killed_processes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is at work, one was killed; a user's own of the same name stays."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mine = tmp_path / "caption-judge-scratch-mine"
    mine.mkdir()
    code = "import sys\nfrom judge.utils.locks import scratch\n"
    code += "with scratch() as folder: print(folder, flush=True); sys.stdin.read()"
    several = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, working = (Path(one.stdout.readline().strip()) for one in several if one.stdout)
    several[0].kill()
    several[0].communicate()
    assert killed.is_dir()
    monkeypatch.setattr("tempfile.tempdir", None)
    with scratch() as own:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, own.name, working.name])
    several[1].communicate()
    assert list(tmp_path.iterdir()) == [mine]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorldFiles:
    world = make_world(120, seed=2)
    return write_world(world, {"much": Captioner(stereotype=0.9)}, tmp_path_factory.mktemp("files") / "world")


def options(files: WorldFiles) -> list[str]:
    given = [
        "--human",
        files.human,
        "--captions",
        files.captions["much"],
        "--labels",
        files.labels,
        "--judge",
        "linear",
    ]
    return ["evaluate", *map(str, given), *FAST]


def stopped_at_work(command: list[str], out: Path) -> subprocess.Popen[bytes]:
    """A run in a process of its own, stopped amid its judges."""
    process = subprocess.Popen(
        [sys.executable, "-m", "judge", *command, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    store = out.with_name(f"{out.name}.partial") / "members"
    while process.poll() is None and len(list(store.glob("*.safetensors"))) < 3:
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    return process


def test_two_runs_on_one_folder(files: WorldFiles, tmp_path: Path) -> None:
    """The same settings and others: one result, and one line for each that comes too late."""
    first = stopped_at_work(options(files), tmp_path / "out")
    told = f"--out {tmp_path / 'out'}: another command is at work there (process {first.pid} on {os.uname().nodename})."
    for settings in ([], ["--seed", "5"], ["--seed", "5", "--overwrite"]):
        line = refusal(*options(files), *settings, "--out", tmp_path / "out")
        assert line == f"judge: {told} Wait for it, or name another --out.\n"
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0
    assert "seed: 0\n" in (tmp_path / "out" / "run.yaml").read_text()
    assert "holds another run" in refusal(*options(files), "--seed", "5", "--out", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # What a command makes of the run later, at its own place, is the run's; what it puts elsewhere is the user's.
    assert judge("report", tmp_path / "out", "--overwrite", "--no-examples").exit_code == 0
    run_of(tmp_path / "out", overwrite=True).check()
    assert judge("report", tmp_path / "out", "--out", tmp_path / "out" / "mine.html").exit_code == 0
    with pytest.raises(JudgeError, match=r"holds mine\.html, which is no part of this run"):
        run_of(tmp_path / "out", overwrite=True).check()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of 2 MB; for those who may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_loses_nothing(files: WorldFiles, small_disk: Path) -> None:
    """Killed amid its judges; then the disk is full to the byte, then nearly, then there is room."""
    out = small_disk / "out"
    process = stopped_at_work(options(files), out)
    process.kill()
    process.wait()
    finished = {path.name for path in (small_disk / "out.partial" / "members").glob("*.safetensors")}
    assert len(finished) >= 3
    log = small_disk / "out.partial" / "log.jsonl"
    log.write_text(log.read_text() + " " * (4096 - log.stat().st_size % 4096))  # Not a byte more without another page.
    for free in (0, 32, 128):
        room = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        (small_disk / "full").write_bytes(bytes(room - free * 1024))
        line = refusal(*options(files), "--out", out)
        assert "No space left on device" in line
        assert line.endswith(
            f"its permissions; then the same command (judge evaluate ... --out {out}) goes on from what is finished.\n"
        )
        kept = {path.name for path in (small_disk / "out.partial" / "members").glob("*.safetensors")}
        assert kept >= finished
        finished = kept
        (small_disk / "full").unlink()
    assert judge(*options(files), "--out", out).exit_code == 0
    assert [path.name for path in small_disk.iterdir()] == ["out"]

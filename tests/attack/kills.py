"""Commands that are killed at any moment, and given again: what they make is then as if nothing had happened."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path

import psutil
from helpers import few, save_captioner

from attack.writers import differing, tree
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
WHOM = "group", "parent"
SOON, LATEST = 5.0, 120.0
"""Seconds in which a killed command's processes must end once it has, and in which it must have ended itself."""
FOREIGN = ("out.partial.txt", "out.old/thesis.tex", ".out.mine.partial/thesis.tex", ".judge-notes", "notes/run.yaml")
FOREIGN += (".out.json.partial.mine", ".out.html.judge-lock.mine")
"""Files of others beside the output, with names like ours."""
_BEGUN = 1.0  # Seconds in which Python itself may still be starting: a signal is then answered by Python.
_TOLD = "judge: interrupted; give the same command again\n"


@dataclass(frozen=True)
class Case:
    """A command under attack, which works in a folder of its own; what it reads is in ``../inputs``.

    Attributes:
        line: its words.
        starts: what it starts from there: place -> a folder of the inputs.
        costly: whether it takes minutes.
        foreign: files of others in the folder in which it works.
    """

    line: str
    starts: Mapping[str, str] = field(default_factory=dict)
    costly: bool = False
    foreign: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [sys.executable, "-m", "judge", *shlex.split(self.line)]


_TEXT = "--human ../inputs/world/captions_human.json --captions ../inputs/world/captions/much.json"
_LABELS = " --labels ../inputs/world/labels.csv"
_SEEN = " --images ../inputs/world/images --instances ../inputs/world/instances.json"
_ONCE = " --protocol paper --seeds 1 --epochs 2 --workers 1"
_FEW = " --refits 0 --resamples 100 --out out"
_EYES = " --metrics imagecaptioner2 --features features"
_SAT = " --judge sat --backbone test_resnet --backbone-weights random --image-size 64"
_DOSES = " --changes 'A->T' --doses 0.4,0.8 --draws 2 --nulls 3 --sample 200 --resamples 100"
_MANY = "--human ../inputs/large/captions_human.json --labels ../inputs/large/labels.csv"
_PICTURES = "--images ../inputs/world/images --model ../inputs/git"
_PAIR = _TEXT + _LABELS
CASES = {
    "linear": Case(f"evaluate {_PAIR} --metrics lic --folds 3 --workers 1{_FEW}"),
    "lstm": Case(f"evaluate {_PAIR} --metrics lic --judge lstm{_ONCE} --seeds 2 --workers 2{_FEW}"),
    "sat": Case(f"evaluate {_PAIR}{_SEEN}{_EYES}{_SAT}{_ONCE}{_FEW}"),
    "hf": Case(f"evaluate {_PAIR}{_SEEN}{_EYES} --judge hf:../inputs/git{_ONCE}{_FEW}"),
    "train": Case(
        f"train {_PAIR} --metrics lic --judge lstm,linear{_ONCE} --checkpoints out",
        foreign=("out/thesis.tex", "out/mine.training.safetensors", "out/.judge-notes"),
    ),
    "caption": Case(f"caption {_PICTURES} --max-tokens 6 --caption-batch 4 --out out.json"),
    "mask": Case(f"mask{_SEEN} --workers 2 --out out"),
    "align": Case(f"align {_TEXT} --meteor 20 --out out"),
    "demo": Case("demo --images 200 --out out", costly=True),
    "calibrate": Case(f"calibrate {_MANY} --metrics lic,error{_DOSES} --workers 2 --out out"),
    "report": Case("report ../inputs/run --out out.html"),
    "page": Case("report out --no-examples --overwrite", starts={"out": "run"}),
}


def make_inputs(folder: Path) -> None:
    """What the commands read."""
    world, captioners = make_world(60, seed=2), {"much": Captioner(stereotype=0.9)}
    few(write_world(world, captioners, folder / "world", pictures=64), 2)
    write_world(make_world(600, seed=6), {}, folder / "large")
    save_captioner(folder / "git")
    line = CASES["linear"].line.replace("../inputs/", "").removesuffix("out") + "run"
    subprocess.run([sys.executable, "-m", "judge", *shlex.split(line)], cwd=folder, check=True, capture_output=True)


@dataclass(frozen=True)
class Finding:
    """What a command did that it must not; ``how``: signal, whom, and the seconds before each kill."""

    case: str
    how: str
    what: str


class Attack:
    """Kills of one command, each in a new folder; the command is let through once, to know what it makes.

    Args:
        name: of ``CASES``.
        folder: to work in; ``inputs`` is made there unless it is there.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.case, self.folder = name, CASES[name], folder
        if not (folder / "inputs").exists():
            # In another process: forks of one in which OpenCV has threads would wait for them.
            code = "import sys, pathlib, attack.kills as kills; kills.make_inputs(pathlib.Path(sys.argv[1]))"
            command = [sys.executable, "-c", code, folder.absolute() / "inputs"]
            subprocess.run(command, cwd=Path(__file__).parents[1], check=True, capture_output=True)
        self.findings: list[Finding] = []
        self.expected, began = {}, time.monotonic()
        with self._place() as place:
            began = time.monotonic()
            done = self._start(place)
            assert self._code(done) == 0, self.told
            self.seconds = time.monotonic() - began
            self.expected = tree(place)

    def kill(self, which: str, whom: str, shares: Sequence[float]) -> int:
        """Kill the command at shares of the time that it takes, one after the other, then let it end; how often it was.

        Args:
            which: of ``SIGNALS``.
            whom: of ``WHOM``: all its processes, or the command alone.
        """
        moments = [max(0.3, share * self.seconds) for share in shares]
        how = f"{which} to the {whom} after {', '.join(f'{moment:.2f} s' for moment in moments)}"
        kills = 0
        with self._place() as place:
            for moment in moments:
                process = self._start(place)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(moment)
                if process.poll() is not None:
                    self._code(process)
                    break
                send = os.killpg if whom == "group" else os.kill
                send(process.pid, SIGNALS[which])
                kills += 1
                self._check(process, which, moment, place, how)
            self._finish(place, how)
        return kills

    def _check(self, process: subprocess.Popen[bytes], which: str, moment: float, place: Path, how: str) -> None:
        """How a command ended that was killed, its processes too."""
        code, left = self._code(process), _members(process.pid)
        _, alive = psutil.wait_procs(left, timeout=SOON)
        for one in alive:
            with suppress(psutil.NoSuchProcess):
                self._find(how, f"a process outlived it by {SOON} s: {' '.join(one.cmdline())[:200]}")
                one.kill()
        number = SIGNALS[which]
        whole = moment < _BEGUN or not differing(tree(place), self.expected)
        ends = {-number} if which == "SIGKILL" else {128 + number}
        if code not in ends and not (whole and code in {0, -number}):
            self._find(how, f"it ended with {code}: {self.told[-1000:]}")
        elif code == 128 + number and not self.told.endswith(_TOLD):
            self._find(how, f"it told {self.told[-1000:]!r}")
        if "Traceback" in self.told and not (moment < _BEGUN and "/judge/" not in self.told):
            self._find(how, self.told[-2000:])
        if any((place / name).read_text() != name for name in (*FOREIGN, *self.case.foreign)):
            self._find(how, "a file of others was changed")

    def _finish(self, place: Path, how: str) -> None:
        """The same command once more: what it makes must be what was expected, and nothing else be left."""
        code = self._code(self._start(place))
        # Temporary files of a library or of ours stay if SIGKILL met their writing.
        found = {name: one for name, one in tree(place).items() if ".judge-" not in name or name in self.expected}
        different = differing(found, self.expected)
        # What was complete when the command was killed is refused, and only what else it had left goes.
        if code != 0 and (different or ("another " not in self.told and "is there already" not in self.told)):
            self._find(how, f"given again it ended with {code}: {self.told[-1000:]}")
        if different:
            self._find(how, f"given again it made others: {', '.join(different)}")

    def _find(self, how: str, what: str) -> None:
        self.findings.append(Finding(self.name, how, what))

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """A folder with what the command starts from and files of others; beside it temporary files."""
        place, temporary = self.folder / self.name, self.folder / "temporary"
        for one in (place, temporary):
            shutil.rmtree(one, ignore_errors=True)
            one.mkdir()
        for name, start in self.case.starts.items():
            shutil.copytree(self.folder / "inputs" / start, place / name)
        for name in (*FOREIGN, *self.case.foreign):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(name)
        yield place
        shutil.rmtree(place)

    def _start(self, place: Path) -> subprocess.Popen[bytes]:
        """The command, in a session of its own."""
        environment = os.environ | {"TMPDIR": str(place.parent / "temporary")}
        # What is in the background of a shell ignores Ctrl-C, and so would what it starts.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with (place.parent / "told").open("wb") as told:
            process = subprocess.Popen(
                self.case.command(), cwd=place, env=environment, stdout=told, stderr=told, start_new_session=True
            )
        signal.signal(signal.SIGINT, before)
        return process

    def _code(self, process: subprocess.Popen[bytes]) -> int:
        """With which it ends, in time; what it told meanwhile is in ``told``."""
        try:
            process.wait(LATEST + 5 * getattr(self, "seconds", LATEST))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._find("", "it did not end")
        self.told = (self.folder / "told").read_text(errors="replace")
        return process.returncode


def _members(session: int) -> list[psutil.Process]:
    """Processes of a session."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Kill commands until ``end``, three times one after the other before each is let through; print a line a command.

    Each signal goes to all processes of a command, or to it alone, at moments drawn by the seed.
    """
    names = names or [name for name, case in CASES.items() if not case.costly]
    kills, runs, found, began = Counter[str](), Counter[str](), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        attacks = {name: Attack(name, Path(folder)) for name in names}
        end += time.monotonic() - began  # Undisturbed runs take none of the time.
        plan = (one for turn in count() for one in product([turn], SIGNALS, WHOM, names))
        for turn, which, whom, name in plan:
            if time.monotonic() > end:
                break
            rng, attack = random.Random(f"{seed} {turn} {name} {which} {whom}"), attacks[name]
            before = len(attack.findings)
            kills[name] += attack.kill(which, whom, [rng.random() for _ in range(3)])
            runs[name] += 1
            found += len(attack.findings) > before
            for one in attack.findings[before:]:
                print(f"FOUND {one.case}, {one.how}: {one.what}\n", flush=True)
    print("| command | kills | runs |\n| --- | --: | --: |")
    print("".join(f"| {name} | {kills[name]} | {runs[name]} |\n" for name in names))
    print(f"{kills.total()} kills, {found} with findings; seed {seed}")
    return found

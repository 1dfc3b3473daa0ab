"""Every command that writes, in small; what it makes undisturbed, what is left of it by a fault, and what again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers import few, judge, save_captioner
from typer.testing import Result

from attack.faults import CODES, LASTING, Disk, Faults, injected
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.utils.outputs import MANIFEST

Tree = dict[str, str]
"""Name -> checksum of each file, folders with none."""
_UNEQUAL = {"log.jsonl", MANIFEST}
"""Files that tell times, or the sizes of those that do."""
FEATURES = re.compile(r"features/[0-9a-f]+/[0-9a-f]+\.(json|npy)")
_STORES = {"members", ".finished"}


@dataclass
class Trial:
    """One fault, and what came of it."""

    command: str
    at: int
    disk: Disk
    met: tuple[str, str, int] | None
    code: int = -1
    line: str = ""
    found: list[str] = field(default_factory=list)
    reused: int = 0


class Writers:
    """Commands over one set of inputs: ``inputs`` are read, ``place`` is written to, ``temp`` is the temporary folder.

    Besides what a command makes, ``place`` holds files of somebody else's.
    """

    def __init__(self, root: Path) -> None:
        self.root = root = Path(os.path.realpath(root))
        self.inputs, self.place, self.temp, self.whole = (root / n for n in ("inputs", "place", "temp", "whole"))
        for folder in (self.inputs, self.place, self.temp):
            folder.mkdir(parents=True)
        captioners = {"much": Captioner(stereotype=0.9), "some": Captioner(stereotype=0.4)}
        self.files = few(write_world(make_world(60, seed=5), captioners, self.inputs / "world", pictures=64))
        self.large = write_world(make_world(200, seed=6), {}, self.inputs / "large")
        save_captioner(self.inputs / "git", "git", seed=3)
        (self.inputs / "pictures").mkdir()
        for path in sorted((self.files.folder / "images").iterdir())[:6]:
            shutil.copy(path, self.inputs / "pictures")
        told = json.loads((self.files.folder / "instances.json").read_text())
        told["images"] = told["images"][:6]
        known = {image["id"] for image in told["images"]}
        told["annotations"] = [one for one in told["annotations"] if one["image_id"] in known]
        (self.inputs / "instances.json").write_text(json.dumps(told))

    def commands(self) -> dict[str, list[Any]]:
        """Name -> command line, of all."""
        files, place, inputs = self.files, self.place, self.inputs
        labels = ["--labels", files.labels]
        both = ["--human", files.human, "--captions", files.captions["much"], *labels]
        quick = ["--judge", "linear", "--folds", 3, "--refits", 2, "--chance", 1, "--resamples", 100, "--workers", 1]
        once = ["--protocol", "paper", "--seeds", 1, "--refits", 0, "--chance", 0, "--workers", 1, "--epochs", 1]
        seen = ["--images", files.folder / "images", "--instances", files.folder / "instances.json"]
        seen += ["--features", place / "features", "--backbone", "resnet18", "--backbone-weights", "random"]
        hides = ["--instances", inputs / "instances.json", "--workers", 1]
        run, again, kept = inputs / "run", inputs / "again", inputs / "kept"
        dose = ["--changes", "silence", "--doses", "0.4", "--draws", 2, "--nulls", 2, "--sample", 40, "--folds", 2]
        model = ["--model", inputs / "git", "--images", inputs / "pictures", "--max-tokens", 4, "--caption-batch", 2]
        return {
            "evaluate": ["evaluate", *both, "--metrics", "lic,ba", *quick, "--out", place / "out"],
            "train": ["train", *both, "--judge", "lstm", *once, "--checkpoints", place / "kept"],
            "caption": ["caption", *model, "--out", place / "captions.json"],
            "mask": ["mask", "--images", inputs / "pictures", *hides, "--out", place / "masked"],
            "align": ["align", *both[:4], "--vectors", "corpus", "--meteor", 0, "--out", place / "aligned"],
            "calibrate": ["calibrate", "--human", self.large.human, "--labels", self.large.labels,
                          "--metrics", "lic", *dose, "--workers", 1,
                          "--resamples", 100, "--out", place / "calibration"],
            "anonymous": ["anonymous", "--captions", files.captions["much"], "--out", place / "rated"],
            "report": ["report", run, "--out", place / "page.html"],
            "compare": ["compare", run, again, "--out", place / "compared.md"],
            "predict": ["predict", "--judge-weights", kept / self._trained(), *both[2:4], "--out",
                        place / "predicted.csv"],
            "export": ["export", "--judge-weights", kept / self._trained(), "--out", place / "exported"],
            "attribute": ["attribute", "--judge-weights", kept / self._trained(), *both[2:4], "--methods", "occlusion",
                          "--out", place / "attributed"],
            "ablate": ["ablate", "detectors", "--images", inputs / "pictures", *hides[:2], "--detectors", "gt",
                       "--resamples", 100, "--out", place / "ablated"],
            "demo": ["demo", "--images", 200, "--out", place / "demo"],
            "train-seen": ["train", *both, *seen, "--metrics", "imagecaptioner2", "--judge", "sat", *once,
                           "--image-size", 64, "--checkpoints", place / "kept"],
        }  # fmt: skip

    def _trained(self) -> str:
        return next((path.name for path in (self.inputs / "kept").glob("*.weights.safetensors")), "none")

    def prepare(self) -> None:
        """Runs and judges that other commands read."""
        commands = self.commands()
        for name in ("run", "again"):
            _well(judge(*commands["evaluate"][:-1], self.inputs / name))
        _well(judge(*commands["train"][:-1], self.inputs / "kept"))

    def reset(self) -> None:
        """A place with nothing in it but what is somebody else's."""
        for folder in (self.place, self.temp):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for folder in ("thesis", "kept", "features"):
            (self.place / folder).mkdir()
        beside = "thesis/thesis.tex", "notes.json", ".judge-mine", "out.partial.txt", ".captions.json.partial.mine"
        for name in (*beside, "kept/thesis.tex", "kept/.judge-mine", "features/notes.txt"):
            (self.place / name).write_text(f"years of work on {name}", encoding="utf-8")

    def run(self, command: Sequence[Any]) -> Result:
        """One of the commands, in this process, its temporary files below ``temp``."""
        with temporary(self.temp), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return judge(*command)

    def undisturbed(self, name: str) -> tuple[Tree, Faults]:
        """What the command makes, and all its operations below the root."""
        self.reset()
        command = self.commands()[name]
        self.run(command)  # What is imported, or cached in this process, is no operation later.
        self.reset()
        with injected(Faults(self.root)) as faults:
            _well(self.run(command))
        return tree(self.place), faults

    def attempt(self, name: str, at: int, disk: Disk, whole: Tree, *, seed: int = 0) -> Trial:
        """Disturb the command, then give it again; all that is wrong is in the trial's ``found``."""
        self.reset()
        rng = random.Random(f"{seed} {name} {at} {disk}")
        faults = Faults(self.root, at=at, disk=disk, choose=lambda kind: rng.choice(CODES[kind]))
        trial, kept, more = self._disturbed(name, faults, whole)
        return trial if trial.code == 0 else self._again(trial, whole, kept, more)

    def _disturbed(self, name: str, faults: Faults, whole: Tree) -> tuple[Trial, set[str], list[str]]:
        """The first of both commands; what is finished after it, and options of the second."""
        foreign, mine, before = tree(self.place), states(self.place), states(self.inputs)
        command = self.commands()[name]
        with injected(faults):
            done = self.run(command)
        trial = Trial(name, faults.at, faults.disk, faults.told, done.exit_code, done.output, faults_of(done))
        if missing := [path for path, state in mine.items() if states(self.place).get(path) != state]:
            trial.found.append(f"files of somebody else's: {missing}")
        if states(self.inputs) != before:
            trial.found.append("inputs have changed")
        if done.exit_code == 0:
            trial.found += differing(self._made(trial, whole), whole, "exit 0, and ")
        # Exit code 1: pictures at fault are left out, and told.
        if done.exit_code == 2 and (published := sorted((tree(self.place).keys() & whole.keys()) - foreign.keys())):
            trial.found += self._half(name, published, whole)
        return trial, finished(self.place), ["--overwrite"] if done.exit_code == 1 and "--out" in command else []

    def _again(self, trial: Trial, whole: Tree, kept: set[str], more: Sequence[str]) -> Trial:
        command = [*self.commands()[trial.command], *more]
        with injected(Faults(self.root)) as again:
            last = self.run(command)
        if last.exit_code != 0:
            trial.found.append(f"again: {last.exit_code} {last.output[-500:]} {last.exception!r}")
            return trial
        replaced = {path for kind, path, _ in again.seen if kind in {"make", "write"}} & kept
        trial.reused = len(kept) - len(replaced)
        if replaced:
            trial.found.append(f"made again: {sorted(replaced)}")
        trial.found += differing(self._made(trial, whole), whole, "again: ")
        return trial

    def _made(self, trial: Trial, whole: Tree) -> Tree:
        """What lies there, without what may stay behind a fault: temporary files, locks, notes and stores."""
        found = tree(self.place)
        met = Path(trial.met[1]) if trial.met else Path("/none")

        def may_stay(name: str) -> bool:
            path, parts = self.place / name, set(Path(name).parts)
            own = any(part.startswith((".judge-", "caption-judge-")) and part != ".judge-mine" for part in parts)
            stuck = path.is_relative_to(met) or met.is_relative_to(path)
            return own or stuck or bool(parts & _STORES) or re.search(r"\.partial(/|\.\d+$|$)", name) is not None

        stay = trial.met is not None or trial.disk != "once"
        return {name: one for name, one in found.items() if name in whole or not (stay and may_stay(name))}

    def _half(self, name: str, published: Sequence[str], whole: Tree) -> list[str]:
        """Of what lies at its last place: whatever it is, it must be whole."""
        found = tree(self.place)
        resumes = name.startswith("train")  # Its folder is one that grows.
        unlike = [path for path in published if found[path] != whole[path] and Path(path).name not in _UNEQUAL]
        if resumes:
            return [f"published otherwise: {unlike}"] if unlike else []
        # Folders with a list of their own, and files beside them.
        folders = [path.removesuffix(MANIFEST) for path in whole if path.endswith(f"/{MANIFEST}")]

        def top(path: str) -> str:
            return next((folder for folder in folders if path.startswith(folder)), path.split("/", maxsplit=1)[0])

        tops = {top(path) for path in published if not path.endswith("/")}
        lacking = [p for p in whole if top(p) in tops and p not in found and not p.endswith("/")]
        return [f"half published: {lacking[:5]} {unlike[:5]}"] if lacking or unlike else []


def finished(place: Path) -> set[str]:
    """Kept files that are whole by their names: answers, weights, features."""
    return {str(path) for path in place.rglob("*") if path.suffix in {".safetensors", ".npy", ".npz"}
            and not path.name.startswith(".judge-") and ".training." not in path.name}  # fmt: skip


def faults_of(done: Result) -> list[str]:
    """What is wrong with how a command ended: it succeeds, or tells one line."""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        import traceback

        where = "".join(traceback.format_exception(*done.exc_info)[-12:]) if done.exc_info else ""
        return [f"raised {done.exception!r}\n{where[-1800:]}"]
    notes = "it is computed again", "more cache files are computed again", "judge: what trainings tell cannot be kept"
    lines = [line for line in done.stderr.splitlines() if not any(note in line for note in notes)]
    if "Traceback" in done.output:
        return [f"a traceback: {done.output[-800:]}"]
    if done.exit_code == 2 and (len(lines) != 1 or not lines[0].startswith("judge: ")):
        return [f"not one line: {done.stderr!r}"]
    return [] if done.exit_code in {0, 1, 2} else [f"exit {done.exit_code}: {done.output}"]


def tree(place: Path) -> Tree:
    """Of all that lies in a folder; kept features count by what is made of them.

    A picture at fault cuts a file of them short, and the rest is another file.
    """
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if FEATURES.fullmatch(name):
            continue
        if path.is_dir():
            found[name + "/"] = ""
        elif path.name != "log.jsonl":  # Where nothing is left to be done nothing is logged.
            found[name] = "" if path.name in _UNEQUAL else hashlib.blake2b(path.read_bytes()).hexdigest()
    return found


def states(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Number, size and time of each file: whether any was written to."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            state = path.stat()
            found[str(path)] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


def differing(found: Tree, whole: Tree, when: str = "") -> list[str]:
    """What is missing, left over or different, in one line; none if nothing is."""
    lacking, more = sorted(whole.keys() - found.keys()), sorted(found.keys() - whole.keys())
    unlike = sorted(name for name in whole.keys() & found.keys() if whole[name] != found[name])
    lists = {"lacking": lacking, "left over": more, "other bytes": unlike}
    told = [f"{what} {names[:5]}" for what, names in lists.items() if names]
    return [when + ", ".join(told)] if told else []


def _well(done: Result) -> None:
    assert done.exit_code == 0, (done.output, done.exception)


@contextmanager
def temporary(folder: Path) -> Iterator[None]:
    """Temporary files of this process lie there."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def chosen(faults: Faults, *, seed: int, each: int = 1) -> list[int]:
    """Operations to disturb: of each kind at each place of the package, some by chance."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, (kind, _, site) in enumerate(faults.seen):
        alike.setdefault((kind, site), []).append(number)
    rng = random.Random(seed)
    return sorted(number for of in alike.values() for number in rng.sample(of, min(each, len(of))))


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Disturb commands until ``end``, an equal time each; print a line a command, and what was found.

    Of each command operations of the file system fail, one at a time, at every place of the package that asks for one;
    disks are full, read-only or gone from some operation on.
    """
    print("| command | operations | disturbed | one line | went on | again the same | found |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory() as folder:
        writers = Writers(Path(folder, "root"))
        writers.prepare()
        names = names or list(writers.commands())
        for place, name in enumerate(names):
            until = time.monotonic() + (end - time.monotonic()) / (len(names) - place)
            trials += _disturb(writers, name, seed, until)
    found = sum(bool(trial.found) for trial in trials)
    print(f"\n{len(trials)} faults in {len(names)} commands, {found} found; seed {seed}")
    return found


def _disturb(writers: Writers, name: str, seed: int, end: float) -> list[Trial]:
    whole, faults = writers.undisturbed(name)
    lasting = range(0, len(faults.seen), max(1, len(faults.seen) // 6))
    plan: list[tuple[int, Disk]] = [(number, "once") for number in chosen(faults, seed=seed)]
    plan += [(at, disk) for disk in LASTING for at in lasting]
    random.Random(seed).shuffle(plan)  # Something of all kinds, also if time is short.
    trials = list[Trial]()
    for at, disk in plan:
        if time.monotonic() > end:
            break
        trials.append(writers.attempt(name, at, disk, whole, seed=seed))
        _report(trials[-1], f"{at} {disk} at {faults.seen[at][2]}")
    ended, found = Counter(trial.code for trial in trials), sum(bool(trial.found) for trial in trials)
    reused = sum(trial.reused for trial in trials)
    row = [name, len(faults.seen), len(trials), ended[2], ended[0] + ended[1], reused, found]
    print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return trials


def _report(trial: Trial, how: str) -> None:
    for what in trial.found:
        print(f"FOUND {trial.command} {how}, {trial.met}: exit {trial.code}: {what}")
        print(f"    {trial.line.strip()[-300:]}", flush=True)

"""Every command that writes, in small: what it makes undisturbed, what a fault leaves, and what it makes again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from helpers import few, judge
from typer.testing import Result

from attack.faults import CODES, Disk, Faults, injected
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.utils.outputs import MANIFEST

Tree = dict[str, str]
"""Name -> checksum of each file; folders, and files that state times or the sizes of those that do, have none."""
States = dict[str, tuple[int, int, int]]
"""Path -> number, size and time of each file."""
FEATURES = re.compile(r"features/[0-9a-f]+/[0-9a-f]+\.safetensors")
_UNEQUAL = {"log.jsonl", MANIFEST}
_STORES = {"members", ".finished"}
_OTHERS = (
    *("thesis/thesis.tex", "notes.json", ".judge-mine", "out.partial.txt", ".captions.json.partial.mine"),
    *("kept/thesis.tex", "kept/.judge-mine", "features/notes.txt"),
)


@dataclass
class Trial:
    """One fault, and what came of it: (kind, path, error) that was met, how the command ended, what is wrong."""

    met: tuple[str, str, int] | None
    code: int
    printed: str
    found: list[str] = field(default_factory=list)


class Writers:
    """Commands over one set of inputs: ``inputs`` are read, ``place`` is written to, ``temp`` is the temporary folder.

    Besides what a command makes, ``place`` holds files of somebody else's.
    """

    def __init__(self, root: Path) -> None:
        self.root = root = Path(os.path.realpath(root))
        self.inputs, self.place, self.temp = root / "inputs", root / "place", root / "temp"
        self.inputs.mkdir(parents=True)
        captioners = {"much": Captioner(stereotype=0.9)}
        self.files = few(write_world(make_world(60, seed=5), captioners, self.inputs / "world", pictures=64))
        (self.inputs / "images").mkdir()
        for path in sorted((self.files.folder / "images").iterdir())[:6]:
            shutil.copy(path, self.inputs / "images")
        document = json.loads((self.files.folder / "instances.json").read_text())
        document["images"] = document["images"][:6]
        known = {image["id"] for image in document["images"]}
        document["annotations"] = [one for one in document["annotations"] if one["image_id"] in known]
        (self.inputs / "instances.json").write_text(json.dumps(document))

    def commands(self) -> dict[str, list[str]]:
        """Name -> the words of each command."""
        files, inputs, place = self.files, self.inputs, self.place
        both = f"--human {files.human} --captions {files.captions['much']} --labels {files.labels}"
        quick = "--judge linear --folds 3 --refits 2 --chance 1 --resamples 100 --workers 1"
        once = "--protocol paper --seeds 1 --refits 0 --chance 0 --workers 1 --epochs 1"
        images = f"--images {inputs}/images --instances {inputs}/instances.json"
        lines = {
            "evaluate": f"{both} --metrics lic,ba {quick} --out {place}/out",
            "train": f"{both} --judge lstm {once} --checkpoints {place}/kept",
            "mask": f"{images} --workers 1 --out {place}/masked",
            "anonymous": f"--captions {files.captions['much']} --out {place}/rated",
        }
        return {name: [name, *line.split()] for name, line in lines.items()}

    def reset(self) -> None:
        """Leave nothing in ``place`` but somebody else's files."""
        for folder in (self.place, self.temp):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for name in _OTHERS:
            (self.place / name).parent.mkdir(exist_ok=True)
            (self.place / name).write_text(f"years of work on {name}", encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Run a command in this process, its temporary files below ``temp``."""
        with patch.object(tempfile, "tempdir", str(self.temp)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return judge(*command)

    def undisturbed(self, name: str) -> tuple[Tree, Faults]:
        """What the command makes, and all its operations below the root."""
        self.reset()
        self.run(self.commands()[name])  # What is imported or cached in this process is no operation later.
        self.reset()
        with injected(Faults(self.root)) as faults:
            done = self.run(self.commands()[name])
        assert done.exit_code == 0, (done.output, done.exception)
        return tree(self.place), faults

    def attempt(self, name: str, at: int, disk: Disk, whole: Tree, *, seed: int = 0) -> Trial:
        """Disturb the command, then run it again if it failed; whatever is wrong is in the trial's ``found``."""
        self.reset()
        rng, command = random.Random(f"{seed} {name} {at} {disk}"), self.commands()[name]
        faults = Faults(self.root, at=at, disk=disk, choose=lambda kind: rng.choice(CODES[kind]))
        others, inputs = states(self.place), states(self.inputs)
        with injected(faults):
            done = self.run(command)
        trial = Trial(faults.met, done.exit_code, done.output, faults_of(done))
        may_stay = faults.met is not None or disk != "once"
        if changed := others.items() - states(self.place).items():
            trial.found.append(f"files of others have changed: {changed}")
        if states(self.inputs) != inputs:
            trial.found.append("inputs have changed")
        if done.exit_code == 0:
            trial.found += self._differing(trial, whole, may_stay, "exit 0, and ")
            return trial
        if done.exit_code == 2:
            trial.found += self._half(name, whole)
        # Exit code 1: images at fault are reported and left out.
        more = ["--overwrite"] if done.exit_code == 1 and "--out" in command else []
        finished = {str(path) for path in self.place.rglob("*") if _is_finished(path)}
        with injected(Faults(self.root)) as again:
            last = self.run([*command, *more])
        if last.exit_code != 0:
            trial.found.append(f"again: {last.exit_code} {last.output[-500:]} {last.exception!r}")
            return trial
        if replaced := {path for kind, path, _ in again.seen if kind in {"make", "write"}} & finished:
            trial.found.append(f"made again: {sorted(replaced)}")
        trial.found += self._differing(trial, whole, may_stay, "again: ")
        return trial

    def _differing(self, trial: Trial, whole: Tree, may_stay: bool, when: str) -> list[str]:
        """How ``place`` differs; temporary files, locks, notes and stores may stay where a fault was met."""
        met = Path(trial.met[1]) if trial.met else Path("/none")

        def stays(name: str) -> bool:
            path, parts = self.place / name, set(Path(name).parts)
            own = any(part.startswith((".judge-", "caption-judge-")) and part != ".judge-mine" for part in parts)
            stuck = path.is_relative_to(met) or met.is_relative_to(path)
            return own or stuck or bool(parts & _STORES) or re.search(r"\.partial(/|\.\d+$|$)", name) is not None

        found = tree(self.place)
        found = {name: one for name, one in found.items() if name in whole or not (may_stay and stays(name))}
        return differing(found, whole, when)

    def _half(self, name: str, whole: Tree) -> list[str]:
        """What has its final name must be whole: each file, and each folder with a manifest."""
        found = tree(self.place)
        published = {path for path in found.keys() & whole.keys() - {*_OTHERS} if not path.endswith("/")}
        unlike = [path for path in published if found[path] != whole[path]]
        # Judges are added to a folder of trained judges one by one.
        manifests = [] if name.startswith("train") else [path for path in whole if path.endswith(f"/{MANIFEST}")]
        begun = tuple(
            folder
            for folder in (path.removesuffix(MANIFEST) for path in manifests)
            if any(path.startswith(folder) for path in published)
        )
        lacking = [path for path in whole.keys() - found.keys() if path.startswith(begun) and not path.endswith("/")]
        return [f"half published: {lacking[:5]} {unlike[:5]}"] if lacking or unlike else []


def _is_finished(path: Path) -> bool:
    """Whether a stored file is whole by its name: answers, weights, features."""
    unfinished = path.name.startswith(".judge-") or ".training." in path.name
    return path.suffix == ".safetensors" and not unfinished


def faults_of(done: Result) -> list[str]:
    """What is wrong with how a command ended: it must succeed, or print one line."""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        where = "".join(traceback.format_exception(*done.exc_info)[-12:]) if done.exc_info else ""
        return [f"raised {done.exception!r}\n{where[-1800:]}"]
    notes = "it is computed again", "more cache files are computed again", "events of trainings cannot be logged"
    lines = [line for line in done.stderr.splitlines() if not any(note in line for note in notes)]
    if "Traceback" in done.output:
        return [f"a traceback: {done.output[-800:]}"]
    if done.exit_code == 2 and (len(lines) != 1 or not lines[0].startswith("judge: ")):
        return [f"not one line: {done.stderr!r}"]
    return [] if done.exit_code in {0, 1, 2} else [f"exit {done.exit_code}: {done.output}"]


def tree(place: Path) -> Tree:
    """Everything in a folder except features, which are compared by the results made from them.

    (An image at fault makes a file of features shorter, and the others are then in another file.)
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


def states(folder: Path) -> States:
    """Whether any file was written to shows in its state."""
    stats = {str(path): path.stat() for path in folder.rglob("*") if path.is_file()}
    return {path: (state.st_ino, state.st_size, state.st_mtime_ns) for path, state in stats.items()}


def differing(found: Tree, whole: Tree, when: str = "") -> list[str]:
    """What is missing, left over or different, in one line; nothing if the trees are equal."""
    common = whole.keys() & found.keys()
    lists = {
        "lacking": whole.keys() - common,
        "left over": found.keys() - common,
        "other bytes": {name for name in common if whole[name] != found[name]},
    }
    lines = [f"{what} {sorted(names)[:5]}" for what, names in lists.items() if names]
    return [when + ", ".join(lines)] if lines else []


def chosen(faults: Faults, *, seed: int) -> list[int]:
    """Operations to disturb: of each kind at each place of the package one, drawn at random."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, (kind, _, site) in enumerate(faults.seen):
        alike.setdefault((kind, site), []).append(number)
    rng = random.Random(seed)
    return sorted(rng.choice(numbers) for numbers in alike.values())

"""Every command that writes, in small: what it makes undisturbed, what a fault leaves, and what it makes again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from helpers import few, judge
from typer.testing import Result

from attack.faults import CODES, Disk, Fault, Faults, injected
from judge.calibration.grammar import make_world, write_world
from judge.calibration.world import Captioner
from judge.utils.outputs import MANIFEST

Tree = dict[str, str]
"""Name -> checksum of each file; folders, and files that state times or the sizes of those that do, have none."""
States = dict[str, tuple[int, int, int]]
"""Path -> number, size and time of each file."""
FEATURES = re.compile(r"cache/features/[0-9a-f]+/[0-9a-f]+\.safetensors")
_UNEQUAL = {"log.jsonl", MANIFEST}
_STORES = {"members", ".finished"}
_OTHERS = (
    *("thesis/thesis.tex", "notes.json", ".judge-mine", "out.partial.txt", ".captions.json.partial.mine"),
    *("kept/thesis.tex", "kept/.judge-mine", "features/notes.txt"),
)


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
        once = "--protocol paper --seeds 1 --refits 0 --chance 0 --workers 1 --training epochs=1"
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

    def attempt(self, name: str, at: int, disk: Disk, whole: Tree) -> tuple[Fault | None, int]:
        """Disturb the command, then run it again if it failed.

        Returns:
            The fault that was met, and the exit code.
        """
        self.reset()
        rng, command = random.Random(f"{name} {at} {disk}"), self.commands()[name]
        faults = Faults(self.root, at=at, disk=disk, choose=lambda kind: rng.choice(CODES[kind]))
        others, inputs = states(self.place), states(self.inputs)
        with injected(faults):
            done = self.run(command)
        check_end(done)
        changed = others.items() - states(self.place).items()
        assert not changed, f"files of others have changed: {changed}"
        assert states(self.inputs) == inputs, "inputs have changed"
        may_stay = faults.met is not None or disk != "once"
        if done.exit_code == 0:
            self._check(faults.met, whole, may_stay)
            return faults.met, 0
        if done.exit_code == 2:
            self._check_published(name, whole)
        # Exit code 1: images at fault are reported and left out.
        more = ["--overwrite"] if done.exit_code == 1 and "--out" in command else []
        finished = {str(path) for path in self.place.rglob("*") if _is_finished(path)}
        with injected(Faults(self.root)) as again:
            last = self.run([*command, *more])
        assert last.exit_code == 0, f"again: {last.output[-500:]} {last.exception!r}"
        replaced = {path for kind, path, _ in again.seen if kind in {"make", "write"}} & finished
        assert not replaced, f"made again: {sorted(replaced)}"
        self._check(faults.met, whole, may_stay)
        return faults.met, done.exit_code

    def _check(self, met: Fault | None, whole: Tree, may_stay: bool) -> None:
        """``place`` must be ``whole``; temporary files, locks, notes and stores may stay where a fault was met."""
        at = Path(met[1]) if met else Path("/none")

        def stays(name: str) -> bool:
            path, parts = self.place / name, set(Path(name).parts)
            own = any(part.startswith((".judge-", "caption-judge-")) and part != ".judge-mine" for part in parts)
            stuck = path.is_relative_to(at) or at.is_relative_to(path)
            return own or stuck or bool(parts & _STORES) or re.search(r"\.partial(/|\.\d+$|$)", name) is not None

        found = {name: one for name, one in tree(self.place).items() if name in whole or not (may_stay and stays(name))}
        assert (different := differing(found, whole)) == [], different

    def _check_published(self, name: str, whole: Tree) -> None:
        """What has its final name must be whole: each file, and each folder with a manifest."""
        found = tree(self.place)
        published = {path for path in found.keys() & whole.keys() - {*_OTHERS} if not path.endswith("/")}
        unlike = [path for path in published if found[path] != whole[path]]
        # Judges are added to a folder of trained judges one by one.
        manifests = [] if name == "train" else [path for path in whole if path.endswith(f"/{MANIFEST}")]
        folders = (path.removesuffix(MANIFEST) for path in manifests)
        begun = tuple(folder for folder in folders if any(path.startswith(folder) for path in published))
        lacking = [path for path in whole.keys() - found.keys() if path.startswith(begun) and not path.endswith("/")]
        assert not lacking, f"half published, without {lacking[:5]}"
        assert not unlike, f"half published: {unlike[:5]}"


def _is_finished(path: Path) -> bool:
    """Whether a stored file is whole by its name: answers, weights, features."""
    unfinished = path.name.startswith(".judge-") or ".training." in path.name
    return path.suffix == ".safetensors" and not unfinished


def check_end(done: Result) -> None:
    """A command must succeed, or print one line besides notes."""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    notes = "it is computed again", "more cache files are computed again", "events of trainings cannot be logged"
    lines = [line for line in done.stderr.splitlines() if not any(note in line for note in notes)]
    assert "Traceback" not in done.output, done.output[-800:]
    assert done.exit_code in {0, 1, 2}, done.output
    assert done.exit_code != 2 or (len(lines) == 1 and lines[0].startswith("judge: ")), done.stderr


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


def differing(found: Tree, whole: Tree) -> list[str]:
    """What is missing, left over or different; nothing if the trees are equal."""
    common = whole.keys() & found.keys()
    lists = {
        "lacking": whole.keys() - common,
        "left over": found.keys() - common,
        "other bytes": {name for name in common if whole[name] != found[name]},
    }
    return [f"{what} {sorted(names)[:5]}" for what, names in lists.items() if names]


def chosen(faults: Faults, *, seed: int) -> list[int]:
    """Operations to disturb: of each kind at each place of the package one, drawn at random."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, (kind, _, site) in enumerate(faults.seen):
        alike.setdefault((kind, site), []).append(number)
    rng = random.Random(seed)
    return sorted(rng.choice(numbers) for numbers in alike.values())

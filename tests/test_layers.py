"""A package imports only from packages above it; no files import in a circle; light imports stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "judge"

# Top to bottom. A name is a module of judge/, or a folder.
ORDER = (
    "errors types utils text corpus masking metrics evidence statistics judges "
    "training captioning quality attribution measure calibration report config commands __main__"
)
ROOMS = ORDER.split()


@cache
def imports(path: Path) -> list[tuple[str | None, set[str]]]:
    """Of each import anywhere in a module, type checking included: the module after "from", and what it names."""
    return [*_imports(path.read_text(encoding="utf-8"))]


def _imports(source: str) -> Iterator[tuple[str | None, set[str]]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield None, {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module, {f"{node.module}.{alias.name}" for alias in node.names}


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_point_upwards() -> None:
    assert {room_of(path) for path in FILES} == set(ROOMS)
    for path in FILES:
        names = [name.split(".") for _, names in imports(path) for name in names]
        above = ROOMS[: ROOMS.index(room_of(path)) + 1]
        assert {parts[1] for parts in names if parts[0] == "judge"} <= {*above}, path


def name_of(path: Path) -> str:
    """The module that a file is."""
    return ".".join(["judge", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


def test_no_files_import_each_other_in_a_circle() -> None:
    """At their top, inside functions or for type checking: graphlib raises CycleError."""
    sources = {name_of(path): path for path in (ROOT / "__init__.py", *FILES)}
    graph: dict[str, set[str]] = {}
    for file, source in sources.items():
        found: set[str] = set()
        for module, names in imports(source):
            found |= names | ({module} if module and names - sources.keys() else set())
        graph[file] = found & sources.keys() - {file}
    TopologicalSorter(graph).prepare()


def test_only_training_imports_accelerate() -> None:
    importers = {path.relative_to(ROOT).as_posix() for path in FILES if "accelerate import" in path.read_text("utf-8")}
    assert {Path(importer).parent for importer in importers} == {Path("training")}


def loaded_after(code: str) -> set[str]:
    """Top-level packages in sys.modules after ``code`` has run in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.slow
def test_linear_judges_do_without_torch(tmp_path: Path) -> None:
    """Also where they see, if vectors of images are those of a file: torch takes half a gigabyte."""
    file = tmp_path / "features.npz"
    code = f"""
from dataclasses import replace
import numpy as np
from judge import evaluate
from judge.calibration.grammar import make_world, simulate
from judge.calibration.world import Captioner
from judge.corpus import Corpus
world = make_world(60, seed=0)
captioner = simulate(world, name='a', captioner=Captioner(stereotype=0.5))
human = replace(world.human, by_image={{image: texts[:1] for image, texts in world.human.by_image.items()}})
np.savez({str(file)!r}, image_id=[*human.by_image], features=np.random.default_rng(0).random((60, 20), np.float32))
evaluate(
    Corpus(human, (captioner,), world.labels), metrics=['lic', 'imagecaptioner2', 'conditional'], given=['image'],
    image_features={str(file)!r}, folds=2, refits=2, chance=1, workers=1, resamples=100,
)
"""
    assert not loaded_after(code) & {"torch", "accelerate"}

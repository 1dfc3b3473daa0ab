"""Every public function, class and method has an example that runs: a doctest, or a code block of the docs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import inputs_of
from test_docs import ROOT, all_blocks

import judge
from judge.calibration.grammar import WorldFiles

PUBLIC = {name: getattr(judge, name) for name in judge.__all__ if name != "METRICS"}
# The API page shows the fields of a metric alone: its methods serve judge.measure.
FIELDS = {"Metric"}


def doctests(name: str) -> list[doctest.DocTest]:
    """Those of a function, or of a class and its methods."""
    return [found for found in doctest.DocTestFinder().find(PUBLIC[name], name, globs=dict(PUBLIC)) if found.examples]


def methods(name: str) -> set[str]:
    """Names of the methods and properties that the API page shows, and that no other library calls."""
    of = vars(PUBLIC[name]).items() if inspect.isclass(PUBLIC[name]) and name not in FIELDS else ()
    kinds = classmethod | staticmethod | property
    return {
        key
        for key, held in of
        if key[:3] != "on_" and key[0] != "_" and (isinstance(held, kinds) or inspect.isfunction(held))
    }


@pytest.mark.parametrize("name", PUBLIC)
def test_doctests_run(name: str, finished_world: WorldFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with the files that they name."""
    monkeypatch.chdir(tmp_path)
    _, human, _, mine, *_ = inputs_of(finished_world, "much")
    shutil.copyfile(str(human), "human.json")
    shutil.copyfile(str(mine), "mine.json")
    for found in doctests(name):
        assert not doctest.DocTestRunner().run(found).failed


MODULES = ["masking.people", "masking.measured", "text.tokens", "attribution.maps", "statistics.comparisons"]


@pytest.mark.parametrize("name", MODULES)
def test_doctests_of_pure_functions_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"judge.{name}"))
    assert found.attempted > 0
    assert not found.failed


def used(code: str) -> set[str]:
    """Names that code calls, and attributes that it reads."""
    nodes = list(ast.walk(ast.parse(code)))
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return called | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_every_public_name_has_an_example() -> None:
    cells: list[Any] = json.loads((ROOT / "docs" / "guides" / "python.ipynb").read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]).replace("%matplotlib", "#") for cell in cells if cell["cell_type"] == "code"]
    codes += [code for _, code in all_blocks("python")]
    codes += ["".join(one.source for one in found.examples) for name in PUBLIC for found in doctests(name)]
    known = set[str]().union(*map(used, codes))
    assert [name for name in PUBLIC if not doctests(name) and name not in known and not methods(name) & known] == []
    assert [(name, method) for name in PUBLIC for method in methods(name) - known] == []
    assert methods("Judge") == {"load", "probabilities", "score"}


def test_the_page_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "api.rst").read_text(encoding="utf-8")
    assert {*re.findall(r"judge\.(\w+)", page)} == {*judge.__all__}

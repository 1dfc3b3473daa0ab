"""The examples in the docstrings of counted metrics."""

from __future__ import annotations

import doctest

import pytest

import judge


@pytest.mark.parametrize("name", ["ba_mals", "dba", "multi", "dpa", "ratio", "error"])
def test_examples(name: str) -> None:
    function = getattr(judge, name)
    (found,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={name: function})
    assert found.examples
    assert not doctest.DocTestRunner().run(found).failed

"""Fixtures of the tests of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def no_report() -> Iterator[None]:
    """Runs write their numbers, but no page and no figures, which take longer than all else of a small run.

    ``report/`` tests those. Not for files that use ``finished_run``, whose page other files look at.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("judge.report.directory.make_page", lambda *of, **how: "")
        patch.setattr("matplotlib.figure.Figure.savefig", lambda figure, file, **how: None)
        yield

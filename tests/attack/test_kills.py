"""Kills in small: commands at seeded moments, in each way once."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack.kills import Attack


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


@pytest.mark.parametrize(("name", "which", "whom", "shares"), [
    ("mask", "SIGKILL", "group", [0.8, 0.9]), ("linear", "SIGTERM", "group", [0.8]),
    ("linear", "SIGINT", "parent", [0.9]), ("linear", "SIGKILL", "parent", [0.7, 0.9]),
])  # fmt: skip
def test_killed_and_given_again_is_undisturbed(
    folder: Path, name: str, which: str, whom: str, shares: list[float]
) -> None:
    attack = Attack(name, folder)
    attack.kill(which, whom, shares)
    assert attack.findings == []

"""Kills in small: commands at seeded moments, in each way once."""

from __future__ import annotations

import pytest

from attack.kills import Attack
from attack.writers import Writers


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Writers:
    return Writers(tmp_path_factory.mktemp("kills") / "root")


@pytest.mark.parametrize(("name", "which", "whom", "shares"), [
    ("mask", "SIGKILL", "group", [0.8, 0.9]), ("evaluate", "SIGTERM", "group", [0.8]),
    ("evaluate", "SIGINT", "parent", [0.9]), ("evaluate", "SIGKILL", "parent", [0.7, 0.9]),
])  # fmt: skip
def test_killed_and_given_again_is_undisturbed(
    writers: Writers, name: str, which: str, whom: str, shares: list[float]
) -> None:
    attack = Attack(name, writers)
    attack.kill(which, whom, shares)
    assert attack.findings == []

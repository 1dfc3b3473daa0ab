"""The fuzzer in small: a thousand damages of a valid file of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from containers import tar_bytes
from mutations import as_json, mutated_bytes, mutated_values, read_or_refused

from attack.fuzz import attack
from attack.targets import human, reader_targets

MANY = 1000
TARGETS = {name: target for name, target in reader_targets().items() if not target.costly}
# Of pictures most damages are not to be seen; of what is checked to the last byte there are few that are none.
FEW = {"glove", "gzip", "scores", "results"}


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_read_is_read_and_all_else_refused_in_one_line(name: str, tmp_path: Path) -> None:
    told = attack(TARGETS[name], tmp_path, count=MANY, seed=0)
    assert MANY <= told.total() < 1.1 * MANY
    assert told["refused"] > MANY / 10
    assert told["read"] > MANY / (200 if name in FEW else 50)


@pytest.mark.parametrize("name", ["json", "txt"])
def test_members(name: str, tmp_path: Path) -> None:
    """A whole archive with a fault in one of its texts."""
    contents = {"json": mutated_values({"caption": "a man", "key": "1"}, MANY), "txt": mutated_bytes(b"a man", MANY)}
    shards = (
        tar_bytes([("1.jpg", b""), (f"1.{name}", content if isinstance(content, bytes) else as_json(content))])
        for content in contents[name]
    )
    told = read_or_refused(human, tmp_path / "file", shards)
    assert min(told["read"], told["refused"]) > MANY / 50

"""The fuzzer in small: a thousand damages of a valid file of each kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from containers import tar_bytes
from mutations import as_json, mutated_bytes, mutated_values, outcome

from attack.fuzz import attack
from attack.targets import human, reader_targets

MANY = 1000
TARGETS = reader_targets()
# Few damages of these leave a valid file.
FEW = {"glove", "gzip", "scores", "results"}


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_read_is_read_and_all_else_refused_in_one_line(name: str, tmp_path: Path) -> None:
    found = attack(TARGETS[name], tmp_path, count=MANY, seed=0)
    assert MANY <= found.total() < 1.1 * MANY
    assert found["refused"] > MANY / 10
    assert found["read"] > MANY / (200 if name in FEW else 50)


@pytest.mark.parametrize("name", ["json", "txt"])
def test_members(name: str, tmp_path: Path) -> None:
    """A whole archive with a fault in one of its texts."""
    values = map(as_json, mutated_values({"caption": "a man", "key": "1"}, MANY))
    found, path = Counter[str](), tmp_path / "file"
    for content in values if name == "json" else mutated_bytes(b"a man", MANY):
        path.write_bytes(tar_bytes([("1.jpg", b""), (f"1.{name}", content)]))
        found[outcome(lambda: human(path), repr(content))] += 1
    assert min(found["read"], found["refused"]) > MANY / 50

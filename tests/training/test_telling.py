"""What workers tell while they train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge.training.telling import Reporter, listening


def test_a_line_that_a_full_disk_has_cut_costs_that_line_alone() -> None:
    heard: list[tuple[str, Mapping[str, Any]]] = []
    with listening(3, None, lambda event, facts: heard.append((event, facts))) as folder:
        reporter = Reporter(folder, {"judge": "lstm"})
        reporter.event("epoch", loss=0.5)
        with (folder / "events").open("a", encoding="utf-8") as events:
            events.write('\n{"event": "epoch", "lo')
        reporter.event("epoch", loss=0.25)
    assert [facts["loss"] for _, facts in heard] == [0.5, 0.25]

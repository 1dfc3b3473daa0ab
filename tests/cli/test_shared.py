"""What a user sees while work goes on where there is no terminal."""

from __future__ import annotations

import pytest

from judge.cli import shared


def test_lines_for_a_scheduler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """None of short work; then one where work changes, one a minute, with the time left at the speed so far."""
    now = 0.0
    monkeypatch.setattr(shared.time, "monotonic", lambda: now)
    monkeypatch.setattr(shared.time, "strftime", lambda _: "12:00:00")
    lines = shared._Lines()
    for second in range(201):
        now = float(second)
        if second < 20:
            lines.tell("reading", 0, 0)
        else:
            lines.tell("training judges", 100 + 2 * (second - 20), 700)
    assert capsys.readouterr().err.splitlines() == [
        "12:00:00 reading",
        "12:00:00 training judges: 100 of 700",
        "12:00:00 training judges: 220 of 700, 0:04:00 left",
        "12:00:00 training judges: 340 of 700, 0:03:00 left",
        "12:00:00 training judges: 460 of 700, 0:02:00 left",
    ]

"""What happens while judges are trained, told by whichever process trains them: steps done, and losses of epochs."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge.training.member import Member

Hear = Callable[[str, Mapping[str, Any]], None]
"""Called with an event ("epoch", "goes on") and its facts: whose, which epoch, losses."""
_OFTEN = 0.5  # Seconds.
_STEPS, _EVENTS = "steps", "events"
_logger = logging.getLogger("judge")


@dataclass
class Reporter:
    """Tells of one judge's training; each step is a byte of a file that all workers append to, each event a line.

    No training ends because its progress cannot be told.

    Attributes:
        folder: of both files.
        facts: whose training it is.
    """

    folder: Path
    facts: Mapping[str, Any] = field(default_factory=dict)
    done: int = 0
    told: float = 0.0

    @classmethod
    def of(cls, folder: Path, member: Member) -> Reporter:
        """Of a member's training. Refits tell no events: they are hundreds."""
        if member.is_refit:
            return cls(folder)
        evidence = getattr(member.samples, "evidence", None)
        whose = {"captioner": evidence.captioner} if evidence else {}
        names = {"side": member.side, "index": member.index, "seed": member.seed, "fold": member.split.fold}
        return cls(folder, {"judge": member.judge.name, **whose, **names})

    def step(self, steps: int) -> None:
        """So many steps are done; told now and then."""
        if time.monotonic() - self.told > _OFTEN:
            self.reach(steps)

    def reach(self, steps: int) -> None:
        """So many steps are done."""
        with suppress(OSError), (self.folder / _STEPS).open("ab") as file:
            file.write(bytes(max(0, steps - self.done)))
        self.done, self.told = max(steps, self.done), time.monotonic()

    def event(self, event: str, **facts: Any) -> None:
        """Something that is to be remembered."""
        if self.facts:
            _note(self.folder, {"event": event, **self.facts, **facts})


def _note(folder: Path, facts: Mapping[str, Any]) -> None:
    with suppress(OSError), (folder / _EVENTS).open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(facts)}\n")  # Whatever the line before may have become.


def _facts(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.splitlines():
        with suppress(ValueError):  # Between lines; or a full disk has cut it.
            yield json.loads(line)


@contextmanager
def listening(total: int, progress: Callable[[int, int], None] | None, hear: Hear | None) -> Iterator[Path]:
    """The folder of :class:`Reporter`; a thread passes on what is told there, twice a second.

    Args:
        total: steps in all.
        progress: called with the steps done, and ``total``.
        hear: called with events.
    """
    with tempfile.TemporaryDirectory(prefix="caption-judge-", ignore_cleanup_errors=True) as temporary:
        stop, read, folder = threading.Event(), 0, Path(temporary)
        for file in (_STEPS, _EVENTS):
            (folder / file).touch()

        def tell() -> None:
            with suppress(OSError):  # Who cleans up temporary folders ends no training.
                tell_all()

        def tell_all() -> None:
            nonlocal read
            if progress:
                progress((folder / _STEPS).stat().st_size, total)
            with (folder / _EVENTS).open("rb") as events:
                events.seek(read)
                whole = events.read().rpartition(b"\n")[0]
            read += len(whole) + bool(whole)
            for facts in _facts(whole):
                _pass_on(facts.pop("event"), facts, hear)

        def listen() -> None:
            while not stop.wait(_OFTEN):
                tell()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield folder
        finally:
            stop.set()
            thread.join()
            tell()


def _pass_on(event: str, facts: Mapping[str, Any], hear: Hear | None) -> None:
    if event == "goes on":
        whose = ", ".join(f"{name} {value}" for name, value in facts.items() if name not in {"judge", "epoch"})
        _logger.info("%s (%s) goes on from epoch %d", facts["judge"], whose, facts["epoch"])
    try:
        if hear:
            hear(event, facts)
    except Exception as error:
        _logger.warning("what trainings tell cannot be kept (%s)", str(error).partition("\n")[0])

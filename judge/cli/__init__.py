"""The ``judge`` command. Nothing here is slow to import: an interrupt is told in one line from the start."""

from __future__ import annotations

import os
import sys
from typing import Any

from judge.utils.launch import launched
from judge.utils.signals import heed_signals, interrupted_by, leave_signals, tell_interrupt
from judge.utils.streams import guard_streams


def main(*command: str) -> None:
    """Entry point of the ``judge`` command; of ``command``, words of a command line, where some are given."""
    guard_streams()
    heed_signals()
    if launched():
        from judge.utils.parallel import end_with

        end_with(os.getppid())
    try:
        from judge.cli.commands import app

        app(list(command) or None, prog_name="judge" if command else None)
    except (Exception, KeyboardInterrupt) as error:
        if not (number := interrupted_by(error)):
            raise
        tell_interrupt(number)
        sys.exit(128 + number)
    finally:
        leave_signals()


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'judge.cli' has no attribute '{name}'")
    from judge.cli.commands import app

    return app

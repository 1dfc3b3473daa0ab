"""The ``judge`` command, and ``python -m judge``.

Nothing here is slow to import, so that an interrupt is reported in one line from the start.
"""

import os
import sys

from judge.utils.launch import launched
from judge.utils.terminal import guard_streams, handle_signals, interrupted_by, report_interrupt, reset_signals


def main(*command: str) -> None:
    """Run the command line, or ``command``, the words of one."""
    from judge.utils.parallel import collect_rarely, end_with

    guard_streams()
    handle_signals()
    collect_rarely()
    if launched():
        end_with(os.getppid())
    try:
        from judge.commands.app import app

        app(list(command) or None, prog_name="judge" if command else None)
    except (Exception, KeyboardInterrupt) as error:
        if not (number := interrupted_by(error)):
            raise
        report_interrupt(number)
        sys.exit(128 + number)
    finally:
        reset_signals()


if __name__ == "__main__":
    main()

"""A reader that does all that the fuzzer looks for; in a module of its own, which the fuzzer's process imports."""

from __future__ import annotations

from pathlib import Path

from attack.targets import Target

INPUTS = b"", b"hang", b"", b"fill", b"fail", b"", b""


def read(folder: Path) -> None:
    """Do what the file says."""
    text = (folder / "file").read_bytes()
    held = []
    while text == b"hang":
        pass
    while text == b"fill":
        held.append(b"x" * 2**24)
    if text == b"fail":
        raise TypeError("not told in one line")


def one_target() -> dict[str, Target]:
    """It alone."""
    return {"faulty": Target(lambda folder: (folder / "file").write_bytes(b""), read, inputs=INPUTS)}

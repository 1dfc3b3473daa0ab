"""Files of tensors and notes (safetensors), with a checksum of all their bytes. Nothing is unpickled."""

import hashlib
import json
import stat
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from judge.errors import FAULTS
from judge.utils.files import beside, readable, warn_damaged, writing

T = TypeVar("T")
_BLANK = "0" * 32  # Stands in the file for the checksum while it is computed.
_LONGEST_HEADER = 100_000_000  # Bytes; the limit of safetensors.


class DamagedTensorsError(Exception):
    """A file that :func:`write_tensors` did not write, or that has changed since."""


def write_tensors(path: Path, tensors: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
    """Write arrays of numpy, or tensors of torch on the CPU, and JSON ``notes``; equal content makes equal files."""
    library = "torch" if any(hasattr(tensor, "detach") for tensor in tensors.values()) else "numpy"
    if library == "numpy":
        tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    save: Any = import_module(f"safetensors.{library}").save_file
    # One entry: safetensors writes several in any order.
    entry = {"notes": json.dumps({"checksum": _BLANK, **notes})}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path) as written:
            save(dict(tensors), written, entry)
            checksum = _checksum(written, _BLANK).encode()
            with written.open("rb+") as file:
                header = file.read(8 + int.from_bytes(file.read(8), "little"))
                file.seek(8 + header.index(_BLANK.encode()))
                file.write(checksum)


def read_notes(path: Path) -> dict[str, Any]:
    """Read the notes of a file and check its checksum; raises as :func:`peek_notes`."""
    notes = peek_notes(path)
    with readable(path):
        if _checksum(path, notes["checksum"]) != notes.pop("checksum"):
            raise DamagedTensorsError(str(path))
    return notes


def peek_notes(path: Path) -> dict[str, Any]:
    """Read the notes of a file, "checksum" among them, and nothing else of it: numbers may be damaged.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedTensorsError: it is damaged, or something else.
        JudgeError: it cannot be read now, though it may be whole.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with readable(path):
            if not stat.S_ISREG(path.stat().st_mode):
                raise DamagedTensorsError(str(path))
            with safe_open(path, framework="np") as file:
                notes: dict[str, Any] = json.loads((file.metadata() or {})["notes"])
        if not isinstance(notes["checksum"], str):
            raise DamagedTensorsError(str(path))
    except (SafetensorError, *FAULTS) as error:
        raise DamagedTensorsError(str(path)) from error
    return notes


def read_tensors(path: Path, framework: str = "np") -> tuple[dict[str, Any], dict[str, Any]]:
    """Read tensors, as numpy's ("np") or torch's ("pt"), and the notes of a file; raises as :func:`peek_notes`."""
    from safetensors import safe_open

    notes = read_notes(path)
    with safe_open(path, framework=framework) as file:
        # A safetensors handle is not a mapping.
        return {name: file.get_tensor(name) for name in file.keys()}, notes  # noqa: SIM118


def read_sound(path: Path, read: Callable[[Path], T]) -> T | None:
    """The result of ``read`` for a cache file; None if that is absent or damaged, of which the user is warned."""
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except DamagedTensorsError:
        warn_damaged(path)
        return None


def _checksum(path: Path, written: str) -> str:
    """Checksum of a file in which ``written`` stands in the place of the checksum."""
    with path.open("rb") as file:
        size = 8 + int.from_bytes(file.read(8), "little")
        file.seek(0)
        header = file.read(min(size, _LONGEST_HEADER)).replace(written.encode(), _BLANK.encode(), 1)
        found = hashlib.blake2b(header, digest_size=16)
        while chunk := file.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()

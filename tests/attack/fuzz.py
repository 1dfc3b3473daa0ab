"""The fuzzer: valid files damaged in many ways are read, or refused in one line, within seconds and a gigabyte."""

from __future__ import annotations

import json
import random
import re
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import yaml
from mutations import as_json, mutated_bytes, mutated_values, outcome

from attack.targets import Target

SECONDS, BYTES = 5.0, 2**30
"""What one input may take: processor time, and memory beyond what the process had before."""


def damages(path: Path, number: int, seed: int) -> Iterator[bytes]:
    """Damaged copies of a file: its bytes; of JSON and YAML every other one its values."""
    data, is_yaml = path.read_bytes(), path.suffix in {".yaml", ".yml"}
    by_bytes = mutated_bytes(data, number, seed=seed)
    by_value: Iterator[Any] = iter(())
    with suppress(ValueError, yaml.YAMLError, RecursionError):
        value = yaml.safe_load(data) if is_yaml else json.loads(data)
        by_value = mutated_values(value, number, seed=seed)
    for place, content in enumerate(by_bytes):
        value = content if place % 2 else next(by_value, content)
        if value is content:
            yield content
        elif is_yaml:
            yield yaml.safe_dump(value, sort_keys=False).encode("utf-8", "surrogatepass")
        else:
            yield as_json(value)


def attack(target: Target, folder: Path, *, count: int, seed: int) -> Counter[str]:
    """Damage the files of ``target`` in turn, ``count`` times in all; count the inputs "read" and "refused".

    Raises:
        AssertionError: an input took too much memory, or was refused in other than one line.
    """
    target.make(folder)
    files = sorted(path for path in folder.glob(target.damaged) if path.is_file())
    assert outcome(lambda: target.read(folder), "undamaged") == "read"
    before, found, number = peak(), Counter[str](), 0
    for path in files:
        whole = path.read_bytes()
        for content in damages(path, -(-count // len(files)), random.Random(f"{seed} {path.name}").randrange(2**32)):
            number += 1
            path.write_bytes(content)
            with ExitStack() as stack, warnings.catch_warnings():
                warnings.simplefilter("error")
                signal.setitimer(signal.ITIMER_PROF, SECONDS)  # When it runs out, SIGPROF ends this process.
                stack.callback(signal.setitimer, signal.ITIMER_PROF, 0)
                found[outcome(lambda: target.read(folder), f"input {number} of {path.name}")] += 1
            assert peak() - before < BYTES, f"input {number} of {path.name}: {peak() / 2**30:.1f} GB of memory"
        path.write_bytes(whole)
    return found


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(kilobytes)

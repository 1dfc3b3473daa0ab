"""The fuzzer: valid files damaged in many ways are read, or refused in one line, within seconds and a gigabyte."""

from __future__ import annotations

import json
import logging
import multiprocessing
import random
import re
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import yaml
from mutations import as_json, mutated_bytes, mutated_values, outcome

from attack.kept_targets import network_targets, store_targets
from attack.targets import Target, reader_targets, run_targets

SECONDS, BYTES = 5.0, 2**30
"""What one input may take: processor time, and memory beyond what the process had before."""


def all_targets() -> Mapping[str, Target]:
    """Name -> reader under attack."""
    return reader_targets() | run_targets() | store_targets() | network_targets()


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


def attack(target: Target, folder: Path, *, count: int, seed: int, current: Any = None, skip: int = 0) -> Counter[str]:
    """Damage the files of ``target`` in turn, ``count`` times in all; count the inputs "read" and "refused".

    Args:
        current: its ``value`` is set to the number of the input that is being read, from 1 on.
        skip: inputs up to this number are not read.

    Raises:
        AssertionError: an input took too much memory, or was refused in other than one line.
    """
    current = current or SimpleNamespace()
    target.make(folder)
    files = sorted(path for path in folder.glob(target.damaged) if path.is_file())
    assert outcome(lambda: target.read(folder), "undamaged") == "read"
    before, found, number = peak(), Counter[str](), 0
    for path in files:
        whole = path.read_bytes()
        for content in damages(path, -(-count // len(files)), random.Random(f"{seed} {path.name}").randrange(2**32)):
            current.value = number = number + 1
            if number <= skip:
                continue
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


def watched(name: str, folder: Path, *, number: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Attack a target in another process, which ends when an input takes too much, and go on with the next input.

    Returns:
        How many inputs were read and refused; what was found.
    """
    context = multiprocessing.get_context("spawn")
    current, skip, findings = context.Value("q", 0), 0, list[str]()
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            with ProcessPoolExecutor(1, context, initializer=_begin, initargs=(current,)) as pool:
                return pool.submit(_attack, name, folder, number, seed, skip).result(), findings
        except BrokenProcessPool:
            what = "the process was ended: over 5 s of processor time, or no memory"
        except (Exception, SystemExit):  # Whatever it is, it is what is looked for.
            what = traceback.format_exc()[-3000:]
        if current.value <= skip:
            raise RuntimeError(f"{name} cannot be attacked: {what} (input {current.value}, after {skip})")
        skip = current.value
        findings.append(f"{name}, seed {seed}, input {skip}: {what}")


def _begin(current: Any) -> None:
    global _current  # noqa: PLW0603 - of this process; a shared number can be given to it only when it starts
    _current = current
    logging.disable(logging.WARNING)  # Damaged cache files are reported.


def _attack(name: str, folder: Path, number: int, seed: int, skip: int) -> Counter[str]:
    target, most = all_targets()[name], psutil.Process().memory_info().vms + 8 * BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # Above the gigabyte, below what the machine has.
    return attack(target, folder, count=number, seed=seed, current=_current, skip=skip)


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Attack readers by 500 damaged files each, in an order drawn by the seed, until ``end``; print what was found."""
    names = names or random.Random(seed).sample(sorted(all_targets()), len(all_targets()))
    total, findings = 0, list[str]()
    print("| reader | read | refused | found |\n| --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for turn, name in ((turn, name) for turn in count() for name in names):
            if time.monotonic() > end:
                break
            done, found = watched(name, Path(folder, name), number=500, seed=1000 * seed + turn)
            total += done.total()
            findings += found
            print(f"| {name} | {done['read']:,} | {done['refused']:,} | {len(found)} |", flush=True)
    print(f"\n{total:,} inputs, {len(findings)} found; seed {seed}")
    print("".join(f"\n{line}\n" for line in findings))
    return len(findings)

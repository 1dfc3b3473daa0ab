"""The fuzzer: valid files damaged in many ways are read, or refused in one line, within seconds and a gigabyte."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import yaml
from mutations import LONGEST, as_json, mutated_bytes, mutated_values, outcome

from attack.kept_targets import captioner_targets, detector_targets, store_targets
from attack.targets import Target, reader_targets

Targets = Callable[[], Mapping[str, Target]]


def all_targets() -> dict[str, Target]:
    """Name -> reader under attack."""
    return reader_targets() | store_targets() | detector_targets() | captioner_targets()


SECONDS, BYTES = 5.0, 2**30
"""What one input may take: processor time, and memory beyond that of the valid file."""


@dataclass
class Finding:
    """An input that a reader did not survive."""

    target: str
    seed: int
    number: int
    what: str


def damages(path: Path, number: int, seed: int) -> Iterator[bytes]:
    """Damaged copies of a file: of its bytes; of JSON and YAML every other one of its values."""
    data = path.read_bytes()
    value = _value(path, data)
    by_bytes = mutated_bytes(data, number, seed=seed)
    if value is None:
        yield from by_bytes
        return
    write = as_json if path.suffix not in {".yaml", ".yml"} else _as_yaml
    by_value = mutated_values(value, number, seed=seed)
    for place, content in enumerate(by_bytes):
        yield content if place % 2 else write(next(by_value))


def _value(path: Path, data: bytes) -> Any:
    try:
        return yaml.safe_load(data) if path.suffix in {".yaml", ".yml"} else json.loads(data)
    except (ValueError, yaml.YAMLError, RecursionError):
        return None


def _as_yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, sort_keys=False).encode("utf-8", "surrogatepass")


def attack(target: Target, folder: Path, *, count: int, seed: int, told: Any = None, skip: int = -1) -> Counter[str]:
    """Damage the files of ``target`` in turn, ``count`` times in all; how many were read, and how many refused.

    Args:
        told: a shared number that says which input is being read.
        skip: inputs up to this one are not read.
    """
    target.make(folder)
    files = sorted(path for path in folder.glob(target.damaged) if path.is_file())
    assert outcome(lambda: target.read(folder), "as it was", longest=LONGEST) == "read"
    found: Counter[str] = Counter()
    each = -(-count // len(files))
    number = 0
    for path in files:
        whole = path.read_bytes()
        number_of = random.Random(f"{seed} {path.name}").randrange(2**32)
        for content in target.inputs or damages(path, each, number_of):
            number += 1
            if told is not None:
                told.value = number
            if number > skip:
                path.write_bytes(content)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    found[outcome(lambda: target.read(folder), f"input {number} of {path.name}")] += 1
        path.write_bytes(whole)
    return found


def watched(
    name: str, folder: Path, *, number: int, seed: int, targets: Targets = all_targets
) -> tuple[Counter[str], list[Finding]]:
    """Attack a target in a process of its own, which is ended where an input takes too long or too much.

    Args:
        name: of the target, one of ``targets()``.
        folder: to work in; what is there goes.
        number: of damaged files.
        seed: of the damages.
        targets: a function at the top of a module, as it travels to the process.

    Returns:
        How many inputs were read and refused; what was found, after each of which the attack goes on.
    """
    context = multiprocessing.get_context("spawn")
    done: Counter[str] = Counter()
    findings: list[Finding] = []
    skip = 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        told, answers = context.Value("q", 0), context.Queue()
        how = {"count": number, "seed": seed, "told": told, "skip": skip}
        child = context.Process(target=_attacked, args=(targets, name, folder, answers, how))
        child.start()
        what = _watch(child, told)
        result = None if what else answers.get(timeout=60)
        child.join()
        if isinstance(result, Counter):
            return done + result, findings
        if told.value <= skip:
            raise RuntimeError(f"{name} cannot be attacked: {what or result} (input {told.value}, behind {skip})")
        findings.append(Finding(name, seed, told.value, what or str(result)))
        skip = told.value


def _attacked(targets: Targets, name: str, folder: Path, answers: Any, how: Mapping[str, Any]) -> None:
    logging.disable(logging.WARNING)  # Damaged cache files are reported.
    try:
        answers.put(attack(targets()[name], folder, **how))
    except BaseException:  # Whatever it is, it is what is looked for.
        answers.put(traceback.format_exc()[-3000:])
    answers.close()
    answers.join_thread()
    os._exit(0)  # At once: ending an interpreter with all its libraries takes its time, and counts as the last input's.


def _watch(child: Any, told: Any) -> str:
    """Wait for a process to end; what was wrong with it, if it had to be ended."""
    seen, begun, base = 0, 0.0, None
    process = psutil.Process(child.pid)
    while child.is_alive():
        try:
            used, memory = sum(process.cpu_times()[:2]), process.memory_info().rss
        except psutil.NoSuchProcess:
            break
        if told.value != seen:
            base = memory if base is None else base
            seen, begun = told.value, used
        if seen and (used - begun > SECONDS or memory - (base or memory) > BYTES):
            what = f"{used - begun:.0f} s of processor time" if used - begun > SECONDS else f"{memory / 2**30:.1f} GB"
            child.kill()
            return what
        time.sleep(0.05)
    return "" if child.exitcode == 0 else f"the process ended with {child.exitcode}"


def long_form(seed: int, end: float, names: Sequence[str]) -> int:
    """Attack readers by 500 damaged files each, in an order drawn by the seed, until ``end``; print what was found."""
    names = names or random.Random(seed).sample(sorted(all_targets()), len(all_targets()))
    total, findings = 0, list[Finding]()
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
    for one in findings:
        print(f"\n{one.target}, seed {one.seed}, input {one.number}: {one.what}")
    return len(findings)

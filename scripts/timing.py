"""What all benchmarks share: seconds, ways compared in turns, and the machine in a line."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """Processor, cores, threads, GPU, load and versions."""
    import torch  # Here, since benchmarks measure the memory of runs without it.

    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "timm", "transformers"))
    cores = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}"
    return f"{name}, {cores}, {gpu}; Python {platform.python_version()}, {packages}"


def wall_clock() -> float:
    """Seconds, after the GPU has finished its work."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(work: Callable[[], object], clock: Callable[[], float] = wall_clock) -> float:
    """Seconds of ``work``; by ``time.process_time`` those of the CPU, which other load on the machine changes less."""
    start = clock()
    work()
    return clock() - start


def in_turns(
    ways: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = wall_clock
) -> dict[str, list[float]]:
    """Seconds of each way in each round. A further round comes first, to warm up."""
    found = [{name: seconds(work, clock) for name, work in ways.items()} for _ in range(rounds + 1)][1:]
    return {name: [each[name] for each in found] for name in ways}


def ratios(first: Sequence[float], second: Sequence[float]) -> str:
    """Median and range of the ratios of pairs."""
    return spread([a / b for a, b in zip(first, second, strict=True)])


def spread(values: Sequence[float]) -> str:
    """Median and range."""
    return f"median {statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Run torch on ``number`` threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)

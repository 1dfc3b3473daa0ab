"""Work on the cores of this machine: in worker processes of joblib's or in threads, and how many there are."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from judge.errors import JudgeError
from judge.utils.terminal import ignore_signals

if TYPE_CHECKING:
    import torch
    from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")
_OFTEN = 0.5  # Seconds.
_ending: set[int] = set()  # Processes that watch their parent: of a fork the thread is not there.


def unordered(
    calls: Iterable[Any], workers: int, *, what: str = "", together: int | str = "auto", in_order: bool = False
) -> Iterator[Any]:
    """What ``calls`` (joblib's ``delayed``) return, in the order in which they end, or their own if ``in_order``.

    Workers end when this process does. ``what``: what all calls do, for the message where the system has ended one;
    ``together``: calls sent to a worker at once, "auto" for joblib's choice.
    """
    from joblib import Parallel

    # A process of loky removes what a signal left, and would warn of that after our last line.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
    pool = Parallel(
        n_jobs=workers,
        batch_size=together,
        return_as="generator" if in_order else "generator_unordered",
        pre_dispatch="2*n_jobs",
        max_nbytes=None,
        initializer=_begin_worker,
        initargs=(os.getpid(),),
    )
    with warnings.catch_warnings():
        # loky renews a worker that has grown by 300 MB (importing torch does) and says so from its manager's thread.
        # Where warnings are errors, that thread would die of it and this one wait for ever.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        try:
            yield from pool(calls)
        except BrokenProcessPool as error:
            fault = "a worker process was ended, as the system does when memory runs out"
            raise JudgeError(fault, where=what, mend="take fewer --workers") from error


def parallel(function: Callable[[S], T], items: Sequence[S], workers: int) -> list[T]:
    """``function`` of each item, in their order, by at most ``workers`` processes; of one worker by this process."""
    if min(workers, len(items)) <= 1:
        return [function(item) for item in items]
    from joblib import delayed

    return list(unordered(map(delayed(function), items), workers, together=1, in_order=True))


def end_with(parent: int) -> None:
    """End this process within a second of its ``parent``, however that ends: SIGKILL leaves no time to end children."""
    if os.getpid() in _ending:
        return
    _ending.add(os.getpid())

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_OFTEN)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def collect_rarely() -> None:
    """Look for cycles of garbage less often: a run holds a million small objects, and looking took a tenth of it."""
    gc.set_threshold(100_000)


def give_back() -> None:
    """Return memory that is free to the system: of small objects, glibc keeps hundreds of megabytes."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # Other C libraries give it back themselves.
            ctypes.CDLL(None).malloc_trim(0)


def _begin_worker(parent: int) -> None:
    collect_rarely()
    ignore_signals()
    end_with(parent)


def in_order(jobs: Iterable[Callable[[], T]], workers: int, *, ahead: int) -> Generator[T, None, None]:
    """Results of ``jobs``, in order, computed by threads that run at most ``ahead`` jobs ahead.

    It waits for jobs that have begun, however it ends: a thread still in OpenCV aborts Python's exit.
    """
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(job))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(limit: int | None) -> Iterator[None]:
    """Arithmetic on ``limit`` threads, or as it is: sums in another order would change the last digits."""
    if limit is None:
        yield
        return
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with thread_pools().limit(limits=limit):
        if torch:
            torch.set_num_threads(limit)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def thread_pools() -> ThreadpoolController:
    """The pools of the loaded libraries; looked for again, in milliseconds, where more or fewer are imported."""
    return _pools_of(len(sys.modules))


@lru_cache(maxsize=1)
def _pools_of(imported: int) -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def choose_device(name: str | None) -> torch.device:
    """The device to run on, if this machine has it; None: the first CUDA device if there is one, else the CPU."""
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        mend = "use cpu, cuda or cuda:N, of a device that this machine has"
        raise JudgeError("cannot be used here", where=f"--device {name}", mend=mend) from error
    return device

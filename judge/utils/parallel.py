"""Work on the cores of this machine, in worker processes of joblib's."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any


def unordered(calls: Iterable[Any], workers: int) -> Iterator[Any]:
    """What ``calls`` (joblib's ``delayed``) return, in the order in which they end; each is made when it is needed."""
    from joblib import Parallel

    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs", max_nbytes=None)
    with warnings.catch_warnings():
        # loky renews a worker that has grown by 300 MB (importing torch does) and says so from its manager's thread.
        # Where warnings are errors, that thread would die of it and this one wait for ever.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
        yield from pool(calls)

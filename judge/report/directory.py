"""The folder of a run: there whole, or not at all.

Work goes on in ``<out>.partial``, which a killed run leaves behind and the next run of the same settings resumes
from; the last step renames it to ``<out>``.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judge.errors import JudgeError
from judge.measure import Result
from judge.metrics import METRICS
from judge.statistics.summary import Summary
from judge.training.members import is_main_process


class RunDirectory:
    """``run.yaml``, ``scores.parquet``, ``metrics.json`` and ``log.jsonl`` of one run.

    Args:
        path: the folder to make.
        overwrite: replace the run that lies there, once the new one is complete. Never anything else.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.given = path
        self.path = path.resolve()
        self.overwrite = overwrite
        self.partial = self.path.parent / f"{self.path.name or 'run'}.partial"
        self.made: list[Path] = []

    def check(self) -> None:
        """Refuse a place that cannot be used, before any work.

        Raises:
            JudgeError: a file; a folder that holds another run (without ``overwrite``) or anything else; not writable.
        """
        where = f"--out {self.given}"
        if self.path.exists() and not self.path.is_dir():
            raise JudgeError("is a file", where=where, mend="name a folder")
        if self.path.is_dir() and any(self.path.iterdir()):
            if not (self.path / "run.yaml").is_file():
                raise JudgeError("holds something that is no run", where=where, mend="name another folder")
            if not self.overwrite:
                raise JudgeError("holds another run", where=where, mend="name another folder, or add --overwrite")
        parent = next(folder for folder in [*self.path.parents, self.path] if folder.exists())
        probe = parent / f".judge.{time.time_ns()}"
        with _mendable(where):
            probe.mkdir()
            probe.rmdir()

    @property
    def store(self) -> Path:
        """Where finished members are kept while the run works."""
        return self.partial / "members"

    def begin(self) -> None:
        """Make the working folder; called when everything that can be checked beforehand has been."""
        if is_main_process():
            resumed = self.partial.exists()
            with _mendable(f"--out {self.given}"):
                self.made = [folder for folder in self.partial.parents if not folder.exists()]
                self.store.mkdir(parents=True, exist_ok=True)
                self.log("resumed" if resumed else "started")

    @contextmanager
    def working(self) -> Iterator[None]:
        """An error that the user can mend leaves nothing; after a kill the next run goes on from what is there."""
        try:
            yield
        except JudgeError:
            if is_main_process():
                shutil.rmtree(self.partial, ignore_errors=True)
                with suppress(OSError):  # A folder that somebody else has put something into stays.
                    for folder in self.made:
                        folder.rmdir()
            raise

    def finish(self, settings: str, result: Result) -> None:
        """Write the results and give the folder its name."""
        with _mendable(f"--out {self.given}"):
            (self.partial / "run.yaml").write_text(settings, encoding="utf-8")
            result.scores.to_parquet(self.partial / "scores.parquet", index=False)
            (self.partial / "metrics.json").write_text(metrics_json(result), encoding="utf-8")
            self.log("finished", rows=len(result.scores))
            old = self.path.with_name(f".{self.path.name}.{time.time_ns()}.old")
            if self.path.exists():
                self.path.rename(old)
            self.partial.rename(self.path)
            shutil.rmtree(self.path / "members", ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``: time (seconds since 1970), event, facts."""
        with (self.partial / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")


@contextmanager
def _mendable(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        mend = "name a folder that you own, on a disk with room"
        raise JudgeError(f"cannot be written ({error.strerror})", where=where, mend=mend) from error


def metrics_json(result: Result) -> str:
    """``{"run": {...}, "results": [...]}``: fractions, absent values null, never NaN."""
    results = [_entry(summary, str(result.run["attribute"])) for summary in result.summaries]
    return json.dumps({"run": result.run, "results": results}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(summary: Summary, attribute: str) -> dict[str, Any]:
    row = asdict(summary)
    interval = row.pop("interval")
    row |= {
        "attribute": attribute,
        "direction": METRICS[summary.metric].direction,
        "ci": interval and [interval["low"], interval["high"]],
    }
    order = "captioner metric judge attribute direction human generated amplification sd ci p_value images seeds"
    return {name: _finite(row[name]) for name in order.split()}


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value

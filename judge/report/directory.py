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
        overwrite: replace what lies there; only when the new run is complete.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self.overwrite = overwrite
        self.partial = path.with_name(f"{path.name}.partial")

    def check(self) -> None:
        """Refuse a place that cannot be used, before any work.

        Raises:
            JudgeError: not empty and no ``overwrite``; not a folder; not writable.
        """
        if self.path.exists() and not self.path.is_dir():
            raise JudgeError("is a file", where=f"--out {self.path}", mend="name a folder")
        if self.path.is_dir() and any(self.path.iterdir()) and not self.overwrite:
            what = "holds another run" if (self.path / "run.yaml").exists() else "is not empty"
            raise JudgeError(what, where=f"--out {self.path}", mend="name another folder, or add --overwrite")
        parent = next(folder for folder in self.path.absolute().parents if folder.exists())
        probe = parent / f".{self.path.name}.{time.time_ns()}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise JudgeError(
                f"cannot be written ({error.strerror})", where=f"--out {self.path}", mend="name a folder that you own"
            ) from error

    @contextmanager
    def working(self) -> Iterator[Path]:
        """The store of finished members, for the length of the run.

        An error that the user can mend removes it; a kill does not, so that the next run goes on from there.
        """
        resumed = self.partial.exists()
        made = [folder for folder in self.partial.parents if not folder.exists()]
        store = self.partial / "members"
        store.mkdir(parents=True, exist_ok=True)
        self.log("resumed" if resumed else "started")
        try:
            yield store
        except JudgeError:
            if is_main_process():
                shutil.rmtree(self.partial, ignore_errors=True)
                with suppress(OSError):  # A folder that somebody else has put something into stays.
                    for folder in made:
                        folder.rmdir()
            raise

    def finish(self, settings: str, result: Result) -> None:
        """Write the results and give the folder its name."""
        (self.partial / "run.yaml").write_text(settings, encoding="utf-8")
        result.scores.to_parquet(self.partial / "scores.parquet", index=False)
        (self.partial / "metrics.json").write_text(metrics_json(result), encoding="utf-8")
        shutil.rmtree(self.partial / "members")
        self.log("finished", rows=len(result.scores))
        if self.path.exists():
            old = self.path.with_name(f".{self.path.name}.old")
            self.path.rename(old)
            self.partial.rename(self.path)
            shutil.rmtree(old)
        else:
            self.partial.rename(self.path)

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``: time (seconds since 1970), event, facts."""
        if is_main_process():
            with (self.partial / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n")


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

"""The folder of a run; it appears whole or not at all."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

from judge.measure import Result
from judge.report.breakdown import write_breakdown
from judge.report.caveats import warnings
from judge.report.notes import footnotes
from judge.report.page import Contents, make_page
from judge.report.tables import Line, lines_of
from judge.statistics.comparisons import Difference
from judge.statistics.consistency import measure_consistency
from judge.statistics.summary import Summary
from judge.types import Interval
from judge.utils.cells import table_csv
from judge.utils.files import write_whole
from judge.utils.outputs import ResumableFolder

FIGURES = "figures"
QUALITY = "quality.csv"
REPLICATES, EXAMPLES, PICTURES = "replicates", "examples", "pictures"
SETTINGS, METRICS, REPORT = "run.yaml", "metrics.json", "report.html"
SCORING = "tokenizer", "skipped", "vocabulary", "mean_length", "further", "unscored"
"""What ``metrics.json`` says of how the captions of a captioner were scored, by fields of its ``Quality``."""


class RunDirectory(ResumableFolder):
    """``run.yaml``, ``metrics.json``, ``log.jsonl``, and what they are made of, of one run.

    That is ``scores.parquet`` (what judges said), ``counts.parquet`` (what captions say) and ``replicates.parquet``
    (values on parts of the data, and on data drawn anew).

    ``report.html`` shows them, with ``figures/`` and examples (``examples.parquet``; where the run has pictures also
    ``pictures.parquet``). Where captions were scored also ``quality.csv``; of a breakdown ``breakdown/``.

    A run that was killed, or met an error, leaves its working folder behind, and the next one resumes from it.
    Under several processes only the main one writes.

    Args:
        path: the folder to make.
        overwrite: replace the run that lies there, once the new one is complete. Never anything else.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        super().__init__(path, what="run", command="judge evaluate", overwrite=overwrite)

    def finish(self, settings: str, result: Result, pictures: Mapping[str, bytes] | None = None) -> None:
        """Write the results and give the folder its name.

        Args:
            settings: run.yaml.
            result: of the run.
            pictures: image id -> JPEG, people hidden, for the examples.
        """
        with self.writing():
            (self.partial / SETTINGS).write_text(settings, encoding="utf-8")
            tables = {"scores": result.scores, "counts": result.counts, REPLICATES: result.replicates}
            tables |= {EXAMPLES: result.examples, PICTURES: picture_table(pictures or {})}
            for name, rows in tables.items():
                path = self.partial / f"{name}.parquet"
                path.unlink(missing_ok=True)  # A run that was killed while it wrote may have had other metrics.
                if len(rows):
                    rows.to_parquet(path, index=False)
            (self.partial / METRICS).write_text(metrics_json(result), encoding="utf-8")
            self._show(Contents(result, [("", settings)], pictures=pictures or {}))
            write_breakdown(self.partial, result.breakdown)
            self.log("finished", rows=len(result.scores))
        self.publish()

    def _show(self, contents: Contents) -> None:
        """The report and its figures; where captions were scored, the scores."""
        (self.partial / QUALITY).unlink(missing_ok=True)
        shutil.rmtree(self.partial / FIGURES, ignore_errors=True)
        if contents.result.quality:
            tables = [found.table() for found in contents.result.quality.values()]
            write_whole(self.partial / QUALITY, table_csv(pd.concat(tables)).encode())
        (self.partial / FIGURES).mkdir()
        write_whole(self.partial / REPORT, make_page(contents, self.partial / FIGURES).encode())


def picture_table(pictures: Mapping[str, bytes]) -> pd.DataFrame:
    """``pictures.parquet``: a row per picture of the examples, people hidden, as JPEG."""
    return pd.DataFrame({"image_id": list(pictures), "picture": list(pictures.values())})


def metrics_json(result: Result) -> str:
    """``{"run": {...}, "results": [...]}``: fractions, absent values null, never NaN."""
    run = result.run
    found: dict[str, Any] = {
        "run": run,
        "results": [line_row(line, str(run["attribute"])) for line in lines_of(result)],
        "differences": list(map(difference_row, result.differences())),
    }
    found["notes"] = {"footnotes": footnotes(result), "warnings": warnings(result)}
    consistency = measure_consistency(result.summaries, run.get("human_scores"))
    for part in fields(consistency):
        if rows := getattr(consistency, part.name):
            found.setdefault("consistency", {})[part.name] = [
                _finite(asdict(row) | {"metric": row.metric.name}) for row in rows
            ]
    if result.quality:
        found["quality"] = [_finite(row) for of in result.quality.values() for row in of.table().to_dict("records")]
        found["scoring"] = {name: {part: getattr(of, part) for part in SCORING} for name, of in result.quality.items()}
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def line_row(line: Line, attribute: str) -> dict[str, Any]:
    """A line of the table as JSON has it, with what it allows to say."""
    also = {name: _finite(value) for name, value in asdict(line.conclusion).items()}
    return summary_row(line.summary, attribute) | also


def summary_row(summary: Summary, attribute: str) -> dict[str, Any]:
    """A line of the table as JSON has it: fractions; absent values, and what is not finite, null."""
    row = {part.name: getattr(summary, part.name) for part in fields(summary) if part.name not in _ELSEWHERE}
    row |= {
        "guessing": summary.guessing and summary.guessing._asdict(),
        "replicates": summary.replicates and {"ratio": summary.replicates.ratio, "scale": summary.replicates.scale},
        "attribute": attribute,
        "metric": summary.metric.name,
        "direction": summary.metric.direction,
        "ci": _bounds(summary.interval),
        "ci_these_judges": _bounds(summary.these_judges),
    }
    row["not_finite"] = {name: spelt for name, value in row.items() if (spelt := _spelt(value)) != value} or None
    order = "captioner metric judge attribute direction human generated amplification sd ci p_value images seeds basis"
    optional = [name for name in row if name not in order.split() and row[name] is not None]
    return {name: _finite(row[name]) for name in [*order.split(), *optional]}


# Fields of a summary that other fields, or other files, hold.
_ELSEWHERE = {"interval", "these_judges", "replicates"}


_DIFFERENCE = "judge", "first", "second", "value", "standard_error", "p_value", "p_holm"


def difference_row(row: Difference) -> dict[str, Any]:
    """A line of the table of differences as JSON has it."""
    values = {name: _finite(getattr(row, name)) for name in _DIFFERENCE}
    said = {"paired": row.paired, "images_left_out": row.left_out, "verdict": row.verdict, "reason": row.reason}
    return {"metric": row.metric.name} | values | {"ci": _bounds(row.interval)} | said


def _bounds(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None


def _spelt(value: object) -> object:
    """Numbers that JSON does not have, as text: "inf", "nan"."""
    if isinstance(value, tuple | list):
        parts = type(value)(map(_spelt, value))
        return parts if parts != value else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _finite(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value

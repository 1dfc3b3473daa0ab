"""The folder of a run, and the tables that it holds as JSON, CSV and Parquet; it appears whole or not at all."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

from judge.measure import Result
from judge.report.notes import footnotes
from judge.report.page import make_page
from judge.report.table import as_json, json_text
from judge.report.tables import Line, lines_of
from judge.report.warnings import warnings
from judge.statistics.comparisons import Difference
from judge.statistics.consistency import measure_consistency
from judge.utils.cells import in_text, table_csv
from judge.utils.files import write_whole
from judge.utils.outputs import OutputFolder

SETTINGS, METRICS, REPORT = "run.yaml", "metrics.json", "report.html"
SCORING = "tokenizer", "skipped", "vocabulary", "mean_length", "further", "unscored"
"""Fields of ``Quality`` that ``metrics.json`` holds for each captioner, beside its scores."""


class RunDirectory(OutputFolder):
    """The files of one run (data/README.md); with several processes only the main one writes.

    A run that was killed, or met an error, leaves its working folder behind, and the next one resumes from it.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        super().__init__(path, what="run", command="judge evaluate", overwrite=overwrite)

    def finish(self, settings: str, result: Result, pictures: Mapping[str, bytes] | None = None) -> None:
        """Write the results and give the folder its name; ``pictures``: image id -> JPEG, people hidden."""
        pictures, out = pictures or {}, self.partial
        images = pd.DataFrame({"image_id": list(pictures), "picture": list(pictures.values())})
        tables = {"scores": result.scores, "counts": result.counts, "replicates": result.replicates}
        tables |= {"examples": result.examples, "pictures": images}
        with self.writing():
            # A run that was killed while it wrote may have had other metrics.
            for name in [f"{name}.parquet" for name in tables] + ["quality.csv"]:
                (out / name).unlink(missing_ok=True)
            for name in ("figures", "breakdown"):
                shutil.rmtree(out / name, ignore_errors=True)
            (out / SETTINGS).write_text(settings, encoding="utf-8")
            for name, rows in tables.items():
                if len(rows):
                    # With every batch of rows that is read, a dictionary of categories would be read again.
                    in_text(rows).to_parquet(out / f"{name}.parquet", index=False)
            (out / METRICS).write_text(metrics_json(result), encoding="utf-8")
            if result.quality:
                quality = pd.concat([found.table() for found in result.quality.values()])
                write_whole(out / "quality.csv", table_csv(quality).encode())
            (out / "figures").mkdir()
            page = make_page(result, [("", settings)], pictures, figures=out / "figures")
            write_whole(out / REPORT, page.encode())
            if found := result.breakdown:
                folder = out / "breakdown"
                folder.mkdir()
                for name, table in {"tasks": found.tasks, "words": found.words}.items():
                    if len(table):
                        write_whole(folder / f"{name}.csv", table_csv(table).encode())
                found.images.to_parquet(folder / "images.parquet", index=False)
                in_text(found.captions).to_parquet(folder / "captions.parquet", index=False)
            self.log("finished", rows=len(result.scores))
        self.publish()


def metrics_json(result: Result) -> str:
    """``{"run": {...}, "results": [...]}``: fractions, absent values null, never NaN."""
    run = result.run
    found: dict[str, Any] = {
        "run": run,
        "results": [line_row(line, str(run["attribute"])) for line in lines_of(result)],
        "differences": list(map(difference_row, result.differences())),
        "notes": {"footnotes": footnotes(result), "warnings": warnings(result)},
    }
    consistency = measure_consistency(result.summaries, run.get("human_scores"))
    for part in fields(consistency):
        if rows := getattr(consistency, part.name):
            found.setdefault("consistency", {})[part.name] = [asdict(row) | {"metric": row.metric.name} for row in rows]
    if result.quality:
        found["quality"] = [row for of in result.quality.values() for row in of.table().to_dict("records")]
        found["scoring"] = {name: {part: getattr(of, part) for part in SCORING} for name, of in result.quality.items()}
    return json_text(found)


# Columns of a row of "results" that are always there, in order; and fields of a summary that other columns hold.
_COLUMNS = [
    *("captioner", "metric", "judge", "attribute", "direction", "human", "generated", "amplification", "sd", "ci"),
    *("p_value", "images", "seeds", "basis"),
]
_ELSEWHERE = {"interval", "these_judges", "replicates"}


def line_row(line: Line, attribute: str) -> dict[str, Any]:
    """A line of the table as JSON: fractions; absent values, and infinity, null; and its conclusion."""
    summary = line.summary
    row = {part.name: getattr(summary, part.name) for part in fields(summary) if part.name not in _ELSEWHERE}
    row |= {
        "guessing": summary.guessing and summary.guessing._asdict(),
        "replicates": summary.replicates and {"ratio": summary.replicates.ratio, "scale": summary.replicates.scale},
        "attribute": attribute,
        "metric": summary.metric.name,
        "direction": summary.metric.direction,
        "ci": as_json(summary.interval),
        "ci_these_judges": as_json(summary.these_judges),
    }
    row["not_finite"] = {name: spelt for name, value in row.items() if (spelt := _spelt(value)) != value} or None
    optional = [name for name in row if name not in _COLUMNS and row[name] is not None]
    columns = {name: row[name] for name in [*_COLUMNS, *optional]} | asdict(line.conclusion)
    return dict(as_json(columns))


def difference_row(row: Difference) -> dict[str, Any]:
    """A line of the table of differences as JSON."""
    names = "judge", "first", "second", "value", "standard_error", "p_value", "p_holm"
    found = {"metric": row.metric.name} | {name: getattr(row, name) for name in names}
    found |= {"ci": row.interval, "paired": row.paired, "images_left_out": row.left_out}
    found |= {"verdict": row.verdict, "because": row.because}
    return dict(as_json(found))


def _spelt(value: object) -> object:
    """Numbers that JSON does not have, as text: "inf", "nan"."""
    if isinstance(value, tuple | list):
        parts = type(value)(map(_spelt, value))
        return parts if parts != value else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

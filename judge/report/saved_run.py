"""Read a run's folder: its numbers are computed again from answers and counts.

Nothing in a folder is executed, and no file is read that would take more memory than the limit.
"""

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from judge.errors import FAULTS, JudgeError
from judge.measure import Result
from judge.measure.table import COLUMNS, make_table, settings_of, with_parts
from judge.metrics import find_metric
from judge.quality import GAP, Quality, QualityScore
from judge.report.directory import METRICS, SCORING, SETTINGS
from judge.report.notes import footnotes
from judge.report.page import example_cards
from judge.report.sections import tables_of
from judge.statistics.breakdown import Breakdown, break_down
from judge.types import Interval
from judge.utils.cells import read_guarded
from judge.utils.files import LOG, resolved
from judge.utils.reading import CELL, parse_yaml, read_text, refuse_large, regular

MEND, AGAIN = "give a folder of a finished judge evaluate, made by this version and plugins", "run judge evaluate again"
# More resamples would take a day; how a JPEG begins; ten times the bytes of an image of the examples.
MOST_RESAMPLES, _JPEG, _LARGEST = 1_000_000, b"\xff\xd8\xff", 1 << 20


@dataclass(frozen=True)
class SavedRun:
    """A run's folder, read; of several runs ``settings`` (``run.yaml``) are the first one's.

    Attributes:
        name: of the folder, with as many of those above it as distinguish it from the others.
        result: what it found, but for caption quality image by image, which no file holds.
        texts: name of each run, and its ``run.yaml`` as text.
        pictures: image id -> JPEG, people hidden, of the examples.
    """

    name: str
    result: Result
    settings: Mapping[str, Any]
    texts: tuple[tuple[str, str], ...]
    pictures: Mapping[str, bytes]


def read_run(folder: Path, name: str = "") -> SavedRun:
    """Read a run's folder; its numbers are computed again from the answers of judges and the counts of captions.

    Caption quality, and what needs judges (words of a breakdown), are in no table of answers, and are read as they were
    written. ``name`` is for messages and captioners. A folder without a finished run of this version, damaged, or with
    files of another run, is refused.
    """
    with _readable(folder):
        if unfinished := _unfinished(folder):
            raise JudgeError(unfinished)
        varied = next((of for of in ("mask", "detector") if (folder / f"{of}s.json").is_file()), "")
        if varied and not (folder / METRICS).exists():
            mend = f"open its report.html, or report a judge evaluate with one of its {varied}s (--{varied})"
            raise JudgeError("is a folder of judge ablate", where=str(folder), mend=mend)
        document = json.loads(read_text(folder / METRICS))
        text = read_text(folder / SETTINGS)
        settings = parse_yaml(text, where=str(folder / SETTINGS), mend=AGAIN)
        result = _compute(folder, document, settings)
        # Values that cannot be shown are errors here, not on the page.
        footnotes(result)
        for shown in tables_of(result):
            shown.shown()
        example_cards(result, {}, names=True)  # Nothing is drawn.
        name = name or resolved(folder).name
        return SavedRun(name, result, settings, ((name, text),), _read_pictures(folder))


def _compute(folder: Path, document: Mapping[str, Any], settings: Mapping[str, Any]) -> Result:
    run = document["run"]
    if not (0 < run["level"] < 1 and 0 < run["statistics"]["resamples"] <= MOST_RESAMPLES):
        raise JudgeError(f"'level' or 'resamples' of the entry 'run' of {METRICS} is out of range")
    counted = [bool(find_metric(name).counted) for name in run["metrics"]]
    scores = pd.DataFrame() if all(counted) else _read_parquet(folder, "scores")
    counts = _read_parquet(folder, "counts") if any(counted) else pd.DataFrame()
    refits = _read_optional(folder, "replicates", COLUMNS)
    summaries = make_table(scores, counts, refits, run)
    rows = [(row.captioner, row.metric.name, row.judge) for row in summaries]
    if rows != [(row["captioner"], row["metric"], row["judge"]) for row in document["results"]]:
        raise JudgeError(f"the tables have other rows than {METRICS}", where=str(folder), mend=AGAIN)
    breakdown: Breakdown | None = None
    if settings.get("breakdown"):
        captions = _read_parquet(folder, "breakdown/captions")
        breakdown = break_down(scores, counts, captions, run["metrics"], settings_of(run))
        if (words := folder / "breakdown/words.csv").exists():
            breakdown = replace(breakdown, words=_read_words(words))
    return Result(
        tuple(summaries),
        scores,
        counts,
        with_parts(refits, summaries),
        run,
        _read_quality(document) if settings.get("quality") else {},
        breakdown,
        _read_optional(folder, "examples"),
    )


def _read_pictures(folder: Path) -> dict[str, bytes]:
    """Image id -> JPEG, of the examples; a page embeds them as they are."""
    table = _read_optional(folder, "pictures", ["image_id", "picture"])
    found = dict(zip(table["image_id"], table["picture"], strict=True))
    for image, data in found.items():
        if not isinstance(data, bytes) or data[:3] != _JPEG or len(data) > _LARGEST:
            raise JudgeError(f"pictures.parquet: that of image {str(image)[:40]} is no small JPEG")
    return found


def _read_quality(document: Mapping[str, Any]) -> dict[str, Quality]:
    """Caption quality, but for the values of single images, which no file holds."""
    level, found = document["run"]["level"], {}
    for name, how in document["scoring"].items():
        groups, gaps = list[QualityScore](), list[QualityScore]()
        for row in (row for row in document["quality"] if row["captioner"] == name):
            value = math.nan if row["value"] is None else float(row["value"])
            interval = None if row["low"] is None else Interval(row["low"], row["high"], level)
            score = QualityScore(row["score"], row["group"], row["images"], value, interval, row["p_value"])
            (gaps if score.group.startswith(f"{GAP}: ") else groups).append(score)
        scoring = {field: how[field] for field in SCORING}
        found[name] = Quality(name, images=(), by_image={}, groups=tuple(groups), gaps=tuple(gaps), **scoring)
    return found


def _read_optional(folder: Path, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """A table that a run may not have; else one without rows."""
    exists = (folder / f"{name}.parquet").exists()
    return _read_parquet(folder, name) if exists else pd.DataFrame(columns=list(columns))


def _read_parquet(folder: Path, name: str) -> pd.DataFrame:
    """A table, unless it is too large: in Parquet a few bytes may stand for millions of rows."""
    import pyarrow as pa
    from pyarrow import parquet

    path = folder / f"{name}.parquet"
    regular(path)
    try:
        with parquet.ParquetFile(path) as file:
            size, batches = 0, []
            for batch in file.iter_batches(use_threads=False):
                size += batch.nbytes + CELL * batch.num_rows
                refuse_large(size, str(path), instead="give the run's own file", packed=True)
                batches.append(batch)
            table: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).to_pandas()
            return table
    except (pa.ArrowException, OSError) as error:
        raise JudgeError(f"{path.name} is damaged") from error


def _read_words(path: Path) -> pd.DataFrame:
    """Words of a breakdown, as they were written."""
    # Text may look like a number, or be "null".
    texts = dict.fromkeys(("captioner", "metric", "judge", "term", "leans_to", "examples"), str)
    table = pd.read_csv(io.StringIO(read_text(path)), dtype=texts, keep_default_na=False, na_values=[""])
    return read_guarded(table.fillna(dict.fromkeys(texts, "")))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Faults of files become one line for the user."""
    try:
        yield
    except (OSError, JudgeError, *FAULTS) as error:
        why = "its files are not those of a finished run"
        if isinstance(error, JudgeError):
            if error.where and error.where.startswith(str(folder)):
                raise
            why = error.what
        elif isinstance(error, FileNotFoundError):
            missing = Path(str(error.filename))
            within = missing.is_relative_to(folder) and folder.is_dir()
            why = f"{missing.relative_to(folder)} is missing" if within else str(error.strerror)
        elif isinstance(error, OSError):
            why = error.strerror or "a file is damaged"
        elif isinstance(error, json.JSONDecodeError):
            why = f"{METRICS} is damaged: line {error.lineno}"
        elif isinstance(error, KeyError):
            why += f": {error} is missing"
        raise JudgeError(f"no run can be read there ({why})", where=str(folder), mend=MEND) from error


def _unfinished(folder: Path) -> str:
    """Why a run is not finished; "" for a finished one."""
    if (folder / LOG).is_file() and '"event": "finished"' not in read_text(folder / LOG, errors="replace"):
        return f"{LOG} has no entry 'finished': the run is not finished; the command that began it goes on"
    partial = folder.parent / f"{resolved(folder).name}.partial"
    if not folder.exists() and (partial / LOG).is_file():
        return f"the run is not finished; the command that began it goes on from {partial.name}"
    return ""

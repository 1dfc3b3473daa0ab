"""What carries each metric: files and short tables of tasks, images and words."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pandas as pd

from judge.metrics import find_metric
from judge.report.table import SIGNED, Column, Table, digits_of, names, write, write_p
from judge.statistics.breakdown import Breakdown
from judge.statistics.summary import ROW, name_row
from judge.types import Interval
from judge.utils.cells import table_csv
from judge.utils.files import write_whole

FOLDER = "breakdown"
# Lines of each printed table, about; and what a row of the main table has of them, at most.
_LINES, _MOST = 24, 3
# Images of each sign in images.csv, for each row of the main table.
_IMAGES = 25
_SMALL = 0.002
Record = Mapping[str, Any]


def breakdown_tables(found: Breakdown) -> Iterator[Table[Any]]:
    """The tasks and the words that matter most, of each row of the main table; the files hold all of them."""
    alone = any(part.basis == "these judges" for part in found.tasks)
    yield _table(
        "Tasks that add most",
        _first(task_table(found)),
        names("task", _of("task")),
        Column("contribution", _of("contribution"), SIGNED),
        Column("interval", lambda row: None if _bounds(row) is None else row, _write_interval, optional=True),
        Column("p (Holm)", _of("p_holm"), write_p, optional=True),
        Column("captions", lambda row: f"{row['human']:,} / {row['generated']:,}"),
        notes=(
            "Contributions of all tasks add up to the amplification. Captions: people's / the captioner's.",
            *(["* For these judges alone, as they were trained."] if alone else []),
        ),
    )
    yield _table(
        "Words that add most to the log-odds of the true class",
        _first(found.words),
        names("word", _of("term")),
        Column("contribution", _of("contribution"), SIGNED),
        names("leans to", _of("leans_to")),
        Column("captions", lambda row: f"{row['captions_human']:,} / {row['captions_generated']:,}"),
        notes=("What the judge of the captioner's captions takes from a word, less what that of people's takes.",),
    )


def _of(name: str) -> Callable[[Record], Any]:
    return lambda row: None if pd.isna(row[name]) else row[name]


def _bounds(row: Record) -> Interval | None:
    return None if pd.isna(row["low"]) else Interval(row["low"], row["high"])


def _write_interval(row: Record) -> str:
    mark = "*" if row["basis"] == "these judges" else ""
    return write(_bounds(row), SIGNED, _digits(row)) + mark


def _first(rows: pd.DataFrame) -> tuple[Record, ...]:
    """The first of each row of the main table; tables list what matters most first."""
    if not len(rows):
        return ()
    groups = rows.groupby(ROW, sort=False, observed=True)
    most = max(1, min(_MOST, _LINES // groups.ngroups))
    return tuple(cast("list[Record]", groups.head(most).to_dict("records")))


def _table(title: str, rows: tuple[Record, ...], *columns: Column[Record], notes: tuple[str, ...]) -> Table[Record]:
    first = (
        names("captioner", _of("captioner")),
        names("metric (judge)", _metric),
    )
    return Table((*first, *columns), rows, title, notes, digits=_digits)


def _digits(row: Record) -> int:
    """Of small values enough to tell them from 0."""
    return 5 if abs(row["contribution"]) < _SMALL else digits_of(_bounds(row) if "low" in row else None)


def _metric(row: Record) -> str:
    return ", ".join(name_row(find_metric(name), row["judge"]) for name in str(row["metric"]).split("|"))


def write_breakdown(folder: Path, found: Breakdown | None) -> None:
    """``breakdown/`` with tasks.csv, images.csv, images.parquet, captions.parquet and words.csv.

    Args:
        folder: of the run.
        found: None to remove those of an earlier run that was killed.
    """
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    if found is None:
        return
    (folder / FOLDER).mkdir()
    tables = {"tasks": task_table(found), "images": _images(found), "words": found.words}
    for name, table in tables.items():
        if len(table):
            _write(table, folder / FOLDER / f"{name}.csv")
    found.images.to_parquet(folder / FOLDER / "images.parquet", index=False)
    found.captions.to_parquet(folder / FOLDER / "captions.parquet", index=False)


def _write(table: pd.DataFrame, path: Path) -> None:
    write_whole(path, table_csv(table).encode())


def task_table(found: Breakdown) -> pd.DataFrame:
    """A row for each task, with the bounds of its interval."""
    rows = []
    for part in found.tasks:
        row = asdict(part)
        interval = row.pop("interval")
        rows.append(row | {"low": interval and interval["low"], "high": interval and interval["high"]})
    return pd.DataFrame(rows)


def _images(found: Breakdown) -> pd.DataFrame:
    """Of each row of the main table the images that add most, and that take most away, and what is said of them."""
    if not len(found.images):
        return found.images
    groups = found.images.sort_values("contribution", ascending=False, kind="stable").groupby(ROW, sort=False)
    ends = pd.concat([groups.head(_IMAGES), groups.tail(_IMAGES)]).drop_duplicates([*ROW, "image_id"])
    of_image = found.captions.groupby(["captioner", "image_id", "side"], sort=False, observed=True)
    said = of_image["caption"].agg(" / ".join).unstack("side").reindex(columns=["human", "generated"])
    first = of_image.first().reset_index().drop_duplicates(["captioner", "image_id"])
    classes = first.set_index(["captioner", "image_id"])[["class"]]
    keys = ["captioner", "image_id"]
    found_rows = ends.join(classes, on=keys).join(said, on=keys)
    return found_rows.sort_values([*ROW, "contribution"], ascending=[True, True, True, False], kind="stable")

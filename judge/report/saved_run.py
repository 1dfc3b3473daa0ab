"""A run's folder read back: its numbers computed again, and compared with those that were written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd

from judge.errors import FAULTS, JudgeError
from judge.measure import Result
from judge.measure.refits import COLUMNS
from judge.measure.table import make_table, settings_of, with_parts
from judge.metrics import find_metric
from judge.quality import Gap, GroupScore, Quality
from judge.report.breakdown import FOLDER, task_table
from judge.report.card_examples import example_cards
from judge.report.directory import EXAMPLES, METRICS, PICTURES, QUALITY, REPLICATES, SCORING, SETTINGS, metrics_json
from judge.report.result import tables_of
from judge.report.saved_alike import check_alike, check_table
from judge.report.saved_files import Unreadable, read_csv, read_json, read_parquet, read_settings
from judge.statistics.breakdown import Breakdown, break_down
from judge.types import Interval
from judge.utils.files import LOG, resolved
from judge.utils.reading import read_text

MEND = "give the folder of a finished judge evaluate, made by this version"
# More would take a day; of a JPEG's beginning; bytes of an image of the examples, of which a small one has a tenth.
MOST_RESAMPLES, _JPEG, _LARGEST = 1_000_000, b"\xff\xd8\xff", 1 << 20


@dataclass(frozen=True)
class SavedRun:
    """A run's folder, read.

    Attributes:
        name: of the folder, with as many of those above it as tell it from the others.
        folder: where it lies; of several runs the first one's.
        result: what it found, but for caption quality image by image, which no file holds.
        settings: ``run.yaml``; of several runs the first one's.
        texts: name of each run, and its ``run.yaml`` as text.
        pictures: image id -> JPEG, people hidden, of the examples.
    """

    name: str
    folder: Path
    result: Result
    settings: Mapping[str, Any]
    texts: tuple[tuple[str, str], ...] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)


def name_runs(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different."""
    paths = [resolved(folder).parts for folder in folders]
    lengths = range(1, max(map(len, paths)) + 1)
    tried = ([str(Path(*parts[-length:])) for parts in paths] for length in lengths)
    return next((names for names in tried if len(set(names)) == len(names)), [str(folder) for folder in folders])


def read_run(folder: Path, name: str = "") -> SavedRun:
    """A run's folder, its numbers computed again from what judges answered and captions say.

    ``metrics_json`` of its result is the folder's ``metrics.json``. Caption quality of single images, and what needs
    judges (words and cells of a breakdown), are in no file, and are read as they were written.

    Args:
        folder: of a finished run.
        name: in messages and in names of captioners; else the folder's own.

    Raises:
        JudgeError: a folder that holds no run, or one that is not finished, of an older version, or damaged; a number
            of ``metrics.json``, or of another table, that is not the one that is computed again.
    """
    with _readable(folder):
        document, settings = read_json(folder / METRICS), read_settings(folder / SETTINGS)
        if (folder / LOG).is_file() and not _finished(folder):
            raise Unreadable(f"{LOG} does not say that it is{_unfinished(folder)}")
        _check_entries(document)
        result = _measure_again(folder, document, settings)
        made = json.loads(metrics_json(result))
        if result.run["version"] != version("caption-judge"):
            made["notes"] = document.get("notes")  # Their wording is that of a version.
        check_alike(folder, made, document)
        for file, table, written in _further_tables(folder, result):
            check_table(folder, file, table, written)
        pictures = _read_pictures(folder)
        for shown in tables_of(result):  # What cannot be shown is found here, not on the page.
            shown.shown()
        example_cards(result, pictures, names=True)
        name = name or name_runs([folder])[0]
        return SavedRun(name, folder, result, settings, ((name, read_text(folder / SETTINGS)),), pictures)


def _measure_again(folder: Path, document: Mapping[str, Any], settings: Mapping[str, Any]) -> Result:
    """The result, from the tables of answers, counts and refits."""
    run = document["run"]
    counted = [bool(find_metric(name).counted) for name in run["metrics"]]
    scores = pd.DataFrame() if all(counted) else read_parquet(folder, "scores")
    counts = read_parquet(folder, "counts") if any(counted) else pd.DataFrame()
    refits = _read_replicates(folder)
    summaries = make_table(scores, counts, refits, run)
    return Result(
        tuple(summaries),
        scores,
        counts,
        with_parts(refits, summaries),
        run,
        _read_quality(document) if settings.get("quality") else {},
        _break_down(folder, scores, counts, run) if settings.get("breakdown") else None,
        _optional(folder, EXAMPLES),
    )


def _further_tables(folder: Path, result: Result) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Files that say more than ``metrics.json``: name, what is computed again, what they hold."""
    yield f"{REPLICATES}.parquet", result.replicates, _read_replicates(folder)
    if result.quality:
        tables = pd.concat([of.table() for of in result.quality.values()], ignore_index=True)
        yield QUALITY, tables, read_csv(folder / QUALITY)
    if result.breakdown:
        yield f"{FOLDER}/images.parquet", result.breakdown.images, read_parquet(folder, f"{FOLDER}/images")
        if len(tasks := task_table(result.breakdown)):
            yield f"{FOLDER}/tasks.csv", tasks, read_csv(folder / FOLDER / "tasks.csv")


def _read_replicates(folder: Path) -> pd.DataFrame:
    found = _optional(folder, REPLICATES)
    return found if len(found) else pd.DataFrame(columns=COLUMNS)


def _read_pictures(folder: Path) -> dict[str, bytes]:
    """Image id -> JPEG, of the examples; a page embeds them as they are."""
    table = _optional(folder, PICTURES)
    found = dict(zip(table["image_id"], table["picture"], strict=True)) if len(table) else {}
    for image, picture in found.items():
        if not isinstance(picture, bytes) or picture[:3] != _JPEG or len(picture) > _LARGEST:
            raise Unreadable(f"{PICTURES}.parquet: that of image {str(image)[:40]} is no small JPEG")
    return found


def _optional(folder: Path, name: str) -> pd.DataFrame:
    """What there may be: values on parts of the data, examples of rows that compare two sides, and their images."""
    return read_parquet(folder, name) if (folder / f"{name}.parquet").exists() else pd.DataFrame()


def refuse(folder: Path, why: str, mend: str = MEND) -> JudgeError:
    """What is said of a folder that cannot be read."""
    return JudgeError(f"no run can be read there ({why})", where=str(folder), mend=mend)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Faults of files become one line for the user."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(str(error.filename))
        if missing.is_relative_to(folder) and folder.is_dir():
            raise refuse(folder, f"{missing.relative_to(folder)} is missing{_unfinished(folder)}") from error
        raise refuse(folder, f"{error.strerror}{_unfinished(folder)}") from error
    except Unreadable as error:
        raise refuse(folder, str(error)) from error
    except JudgeError as error:
        if error.where and error.where.startswith(str(folder)):
            raise
        raise refuse(folder, error.what) from error
    except OSError as error:
        raise refuse(folder, error.strerror or "a file is damaged") from error
    except FAULTS as error:
        raise refuse(folder, "its files are not those of a finished run") from error


def _unfinished(folder: Path) -> str:
    """Of what is missing, where the run has not come to its end."""
    partial = folder.parent / f"{resolved(folder).name}.partial"
    if not folder.exists() and (partial / LOG).is_file():
        return f": the run is not finished; the command that began it goes on from {partial.name}"
    if (folder / LOG).is_file() and not _finished(folder):
        return ": the run is not finished; the command that began it goes on"
    return ""


def _finished(folder: Path) -> bool:
    lines = read_text(folder / LOG, errors="replace").splitlines()
    return any('"event": "finished"' in line for line in lines)


# What tables, notes and warnings read of the entry "run", and its kind.
_NOTHING = type(None)
_FACTS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("version", "protocol", "attribute"), str),
    **dict.fromkeys(("labels", "ratios", "refits", "captioners", "statistics"), dict),
    **dict.fromkeys(("seeds", "judges", "metrics"), list),
    **dict.fromkeys(("folds", "refits_asked"), (int, _NOTHING)),
    **dict.fromkeys(("lexicon", "tasks"), (dict, _NOTHING)),
    "level": (int, float),
}
_CAPTIONER = "images", "marks", "reads", "sources", "dropped", "alignment", "coverage", "text", "chosen", "counted"


def _check_entries(document: Mapping[str, Any]) -> None:
    """Refuse a ``metrics.json`` of another version, or of something else."""
    for entry in ("run", "results"):
        if entry not in document:
            raise Unreadable(f"{METRICS} has no entry '{entry}'")
    facts = document["run"]
    if not isinstance(facts, dict):
        raise Unreadable(f"the entry 'run' of {METRICS} is no object")
    for name, kind in _FACTS.items():
        if name not in facts:
            raise Unreadable(f"{METRICS} lacks '{name}' of the entry 'run': it is of an older version")
        if not isinstance(facts[name], kind):
            raise Unreadable(f"'{name}' of the entry 'run' of {METRICS} is of another kind")
    if not (0 < facts["level"] < 1 and 0 < facts["statistics"]["resamples"] <= MOST_RESAMPLES):
        raise Unreadable(f"'level' or 'resamples' of the entry 'run' of {METRICS} is out of range")
    for name, entry in facts["captioners"].items():
        if lacking := [field for field in _CAPTIONER if field not in entry]:
            raise Unreadable(f"{METRICS} lacks '{lacking[0]}' of {name}: it is of an older version")


def _read_quality(document: Mapping[str, Any]) -> dict[str, Quality]:
    """Caption quality, but for the values of single images, which no file holds."""
    for entry in ("quality", "scoring"):
        if entry not in document:
            raise Unreadable(f"{METRICS} lacks '{entry}': it is of an older version")
    level, found = document["run"]["level"], {}
    for name, how in document["scoring"].items():
        by_score: dict[str, list[Mapping[str, Any]]] = {}
        rows = [row for row in document["quality"] if row["captioner"] == name]
        for row in rows:
            by_score.setdefault(row["score"], []).append(row)
        groups: list[GroupScore] = []
        gaps: list[Gap] = []
        for row in rows:
            score, group, (whole, *classes) = row["score"], row["group"], by_score[row["score"]]
            pairs = permutations([of["group"] for of in classes], 2)
            names = {f"gap: {best} - {worst}": (best, worst) for best, worst in pairs}
            if row is [whole, *classes][-1] and group in names:
                gaps.append(Gap(score, *names[group], *_scored(row, level)))
            else:
                groups.append(GroupScore(score, None if row is whole else group, row["images"], *_scored(row, level)))
        scoring = {field: how[field] for field in SCORING}
        found[name] = Quality(name, images=(), by_image={}, groups=tuple(groups), gaps=tuple(gaps), **scoring)
    return found


def _scored(row: Mapping[str, Any], level: float) -> tuple[float, Interval | None]:
    value = math.nan if row["value"] is None else float(row["value"])
    return value, None if row["low"] is None else Interval(row["low"], row["high"], level)


def _break_down(folder: Path, scores: pd.DataFrame, counts: pd.DataFrame, run: Mapping[str, Any]) -> Breakdown:
    """Contributions of tasks and images computed again; those of words as they were written."""
    said = read_parquet(folder, f"{FOLDER}/captions")
    found = break_down(scores, counts, said, run["metrics"], settings_of(run))
    words = folder / FOLDER / "words.csv"
    return replace(found, words=read_csv(words)) if words.exists() else found

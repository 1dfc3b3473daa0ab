"""A run's folder read back: the result as it was when it was written, and whether its files agree."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from judge.errors import JudgeError
from judge.measure import Result
from judge.measure.refits import COLUMNS
from judge.quality import Quality
from judge.report.breakdown import COLLECT, FOLDER
from judge.report.directory import METRICS, QUALITY, REPLICATES, SETTINGS
from judge.report.saved_rows import Unreadable, number_of, read_quality, read_summaries, read_tasks
from judge.statistics.breakdown import Breakdown
from judge.statistics.summary import ROW
from judge.utils.files import LOG

MEND = "give the folder of a finished judge evaluate, made by this version"
AGAIN = "run judge evaluate again"
FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RecursionError)
"""What reading something else than a run's files may raise."""
# Columns of each file, by what is in them.
_TEXTS = {
    "scores": ("image_id", "captioner", "side", "metric", "judge", "named", "tasks", "answer", "predicted"),
    "counts": ("image_id", "captioner", "side", "class", "named", "words", "objects"),
    REPLICATES: (*ROW, "kind"),
    f"{FOLDER}/images": (*ROW, "image_id"),
    f"{FOLDER}/captions": ("image_id", "captioner", "side", "class", "objects", "caption"),
}
_WHOLE = {
    "scores": ("index", "seed", "fold"),
    "counts": ("index",),
    REPLICATES: ("number",),
    f"{FOLDER}/images": (),
    f"{FOLDER}/captions": ("index",),
}
_REAL = {
    "scores": ("probability", "loss", "validation_loss"),
    "counts": (),
    REPLICATES: ("human", "generated", "amplification"),
    f"{FOLDER}/images": ("contribution",),
    f"{FOLDER}/captions": (),
}
_CSV_TEXTS = {*ROW, "task", "basis", "term", "leans_to", "examples", "class"}


@dataclass(frozen=True)
class SavedRun:
    """A run's folder, read.

    Attributes:
        name: of the folder, with as many of those above it as tell it from the others.
        folder: where it lies; of several runs the first one's.
        result: what it found, but for caption quality image by image, which no file holds.
        settings: ``run.yaml``; of several runs the first one's.
    """

    name: str
    folder: Path
    result: Result
    settings: Mapping[str, Any]


def name_runs(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different."""
    paths = [folder.resolve().parts for folder in folders]
    lengths = range(1, max(map(len, paths)) + 1)
    tried = ([str(Path(*parts[-length:])) for parts in paths] for length in lengths)
    return next((names for names in tried if len(set(names)) == len(names)), [str(folder) for folder in folders])


def read_table(folder: Path, name: str = "") -> SavedRun:
    """A run's table and settings, without the answers, counts, caption quality and breakdown that it also holds.

    Args:
        folder: of a finished run.
        name: in messages and in names of captioners; else the folder's own.

    Raises:
        JudgeError: a folder that holds no run, or one that is not finished, of an older version, or damaged.
    """
    with _readable(folder):
        return _read_table(folder, name)[0]


def read_run(folder: Path, name: str = "") -> SavedRun:
    """Everything that a run's folder holds; see :func:`judge.report.verification.check_run` for whether it agrees.

    ``metrics_json`` of its result is the folder's ``metrics.json``, byte for byte.

    Args:
        folder: of a finished run.
        name: in messages and in names of captioners; else the folder's own.

    Raises:
        JudgeError: as of :func:`read_table`; a file is missing.
    """
    with _readable(folder):
        saved, document = _read_table(folder, name)
        result, settings = saved.result, saved.settings
        metrics = {row.metric for row in result.summaries}
        judged, counted = (any(bool(metric.counted) == of for metric in metrics) for of in (False, True))
        result = replace(
            result,
            scores=_read_parquet(folder, "scores") if judged else pd.DataFrame(),
            counts=_read_parquet(folder, "counts") if counted else pd.DataFrame(),
            quality=_read_quality(folder, document, settings),
            breakdown=_read_breakdown(folder, result.run["level"], settings),
        )
    return replace(saved, result=result)


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
    except OSError as error:
        raise refuse(folder, error.strerror or "a file is damaged") from error
    except FAULTS as error:
        raise refuse(folder, "its files are not those of a finished run") from error


def _unfinished(folder: Path) -> str:
    """Of what is missing, where the run has not come to its end."""
    partial = folder.parent / f"{folder.resolve().name}.partial"
    if not folder.exists() and (partial / LOG).is_file():
        return f": the run is not finished; the command that began it goes on from {partial.name}"
    if (folder / LOG).is_file() and not _finished(folder):
        return ": the run is not finished; the command that began it goes on"
    return ""


def _finished(folder: Path) -> bool:
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    return any('"event": "finished"' in line for line in lines)


def _read_table(folder: Path, name: str) -> tuple[SavedRun, Mapping[str, Any]]:
    """And the whole of ``metrics.json``."""
    document = _read_json(folder / METRICS)
    settings = _read_settings(folder / SETTINGS)
    if (folder / LOG).is_file() and not _finished(folder):
        raise Unreadable(f"{LOG} does not say that it is{_unfinished(folder)}")
    for entry in ("run", "results"):
        if entry not in document:
            raise Unreadable(f"{METRICS} has no entry '{entry}'")
    facts = document["run"]
    _check_facts(facts)
    path = folder / f"{REPLICATES}.parquet"
    replicates = _read_parquet(folder, REPLICATES) if path.exists() else pd.DataFrame(columns=COLUMNS)
    rows = read_summaries(document["results"], replicates, facts["level"])
    if strangers := {row.captioner for row in rows} - facts["captioners"].keys():
        raise Unreadable(f"{METRICS} has rows of '{min(strangers)}', whom its entry 'run' does not know")
    result = Result(rows, pd.DataFrame(), pd.DataFrame(), replicates, facts)
    return SavedRun(name or name_runs([folder])[0], folder, result, settings), document


# What tables, notes and warnings read of the entry "run", and its kind.
_NOTHING = type(None)
_FACTS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("version", "protocol", "attribute"), str),
    **dict.fromkeys(("labels", "ratios", "refits", "captioners"), dict),
    **dict.fromkeys(("seeds", "judges"), list),
    **dict.fromkeys(("folds", "refits_asked"), (int, _NOTHING)),
    **dict.fromkeys(("lexicon", "tasks"), (dict, _NOTHING)),
    "level": (int, float),
}
_CAPTIONER = "images", "marks", "dropped", "alignment", "coverage", "chosen", "counted"


def _check_facts(facts: Any) -> None:
    if not isinstance(facts, dict):
        raise Unreadable(f"the entry 'run' of {METRICS} is no object")
    for name, kind in _FACTS.items():
        if name not in facts:
            raise Unreadable(f"{METRICS} lacks '{name}' of the entry 'run': it is of an older version")
        if not isinstance(facts[name], kind):
            raise Unreadable(f"'{name}' of the entry 'run' of {METRICS} is of another kind")
    if not 0 < number_of(facts["level"], "'level' of the entry 'run'") < 1:
        raise Unreadable(f"'level' of the entry 'run' of {METRICS} is {facts['level']}")
    for name, entry in facts["captioners"].items():
        if lacking := [field for field in _CAPTIONER if field not in entry]:
            raise Unreadable(f"{METRICS} lacks '{lacking[0]}' of {name}: it is of an older version")
        if not isinstance(entry["marks"], dict) or not all(isinstance(of, dict) for of in entry["marks"].values()):
            raise Unreadable(f"'marks' of {name} are those of an older version")


def _read_json(path: Path) -> Mapping[str, Any]:
    """``metrics.json``: an object, in which no number is infinite or none."""

    def number(text: str) -> float:
        found = float(text)
        if not math.isfinite(found):
            raise Unreadable(f"{path.name} holds {text[:20]}, which is no number")
        return found

    text = path.read_text(encoding="utf-8")
    try:
        document = json.loads(text, parse_float=number, parse_constant=number)
    except json.JSONDecodeError as error:
        raise Unreadable(f"{path.name} is damaged: line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise Unreadable(f"{path.name} is damaged: nested too deeply") from error
    if not isinstance(document, dict):
        raise Unreadable(f"{path.name} holds no object")
    return document


class _Loader(yaml.SafeLoader):
    """Refuses aliases, of which a short file can make a document without end; a run writes none."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def _read_settings(path: Path) -> Mapping[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        settings = yaml.load(text, Loader=_Loader)  # noqa: S506  # A safe loader.
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"{path.name} is damaged") from error
    if not isinstance(settings, dict):
        raise Unreadable(f"{path.name} holds no settings")
    return settings


def _read_parquet(folder: Path, name: str) -> pd.DataFrame:
    """A table, once its columns are known to be those that a run writes."""
    import pyarrow as pa
    from pyarrow import parquet, types

    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    # A column without any value has no type.
    kinds: dict[str, Any] = dict.fromkeys(_TEXTS[name], (types.is_string, types.is_large_string, types.is_null))
    kinds |= dict.fromkeys(_WHOLE[name], (types.is_integer,))
    kinds |= dict.fromkeys(_REAL[name], (types.is_floating, types.is_null))
    try:
        schema = parquet.read_schema(path)
        for column, of in kinds.items():
            if column not in schema.names:
                raise Unreadable(f"{path.name} has no column '{column}'")
            if not any(is_of(schema.field(column).type) for is_of in of):
                raise Unreadable(f"column '{column}' of {path.name} is {schema.field(column).type}")
        if unknown := [column for column in schema.names if column not in kinds]:
            raise Unreadable(f"{path.name} has a column '{unknown[0]}', which no run writes")
        return pd.read_parquet(path, engine="pyarrow").astype(dict.fromkeys(_REAL[name], "float64"))
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"{path.name} is damaged") from error


def _read_csv(path: Path) -> pd.DataFrame:
    """A table as it was written: every digit, and texts as texts."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except ValueError as error:
        raise Unreadable(f"{path.name} is damaged: {str(error)[:80]}") from error
    numbers = [name for name in table.columns if name not in _CSV_TEXTS]
    return table.assign(**{name: _parsed(table[name].tolist()) for name in numbers}) if len(table) else table


def _parsed(cells: Sequence[str]) -> list[Any]:
    """Whole numbers, truths, or numbers, of which some may be absent."""
    if not {*cells} - {"True", "False"}:
        return [cell == "True" for cell in cells]
    if all(cell.isdecimal() for cell in cells):
        return list(map(int, cells))
    return [float(cell) if cell else math.nan for cell in cells]


def _read_quality(folder: Path, document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Quality]:
    if not settings.get("quality"):
        return {}
    for entry in ("quality", "scoring"):
        if entry not in document:
            raise Unreadable(f"{METRICS} lacks '{entry}': it is of an older version")
    if not (folder / QUALITY).is_file():
        raise FileNotFoundError(2, "No such file or directory", str(folder / QUALITY))
    return read_quality(document["quality"], document["scoring"], document["run"]["level"])


def _read_breakdown(folder: Path, level: float, settings: Mapping[str, Any]) -> Breakdown | None:
    if not settings.get("breakdown"):
        return None
    images, captions = (_read_parquet(folder, f"{FOLDER}/{name}") for name in ("images", "captions"))
    tasks, words = (
        _read_csv(path) if (path := folder / FOLDER / f"{name}.csv").exists() else pd.DataFrame()
        for name in ("tasks", "words")
    )
    if not (folder / COLLECT).is_file():
        raise FileNotFoundError(2, "No such file or directory", str(folder / COLLECT))
    if len(images) and not len(tasks):
        raise FileNotFoundError(2, "No such file or directory", str(folder / FOLDER / "tasks.csv"))
    return Breakdown(read_tasks(tasks, level), images, captions, _read_csv(folder / COLLECT), words)

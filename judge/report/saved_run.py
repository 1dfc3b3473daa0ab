"""A run's folder read back: the result as it was when it was written, and whether its files agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from judge.errors import FAULTS, JudgeError
from judge.measure import Result
from judge.measure.refits import COLUMNS
from judge.quality import Quality
from judge.report.breakdown import COLLECT, FOLDER
from judge.report.directory import EXAMPLES, METRICS, PICTURES, QUALITY, REPLICATES, SETTINGS
from judge.report.saved_examples import check_pictures
from judge.report.saved_files import Unreadable, read_csv, read_json, read_parquet, read_settings
from judge.report.saved_rows import number_of, read_quality, read_summaries, read_tasks
from judge.statistics.breakdown import Breakdown
from judge.utils.files import LOG, resolved
from judge.utils.locks import short
from judge.utils.opening import read_text

MEND = "give the folder of a finished judge evaluate, made by this version"
AGAIN = "run judge evaluate again"


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
            scores=read_parquet(folder, "scores") if judged else pd.DataFrame(),
            counts=read_parquet(folder, "counts") if counted else pd.DataFrame(),
            quality=_read_quality(folder, document, settings),
            breakdown=_read_breakdown(folder, result.run["level"], settings),
            examples=_optional(folder, EXAMPLES),
        )
        pictures = _optional(folder, PICTURES)
        held = zip(pictures["image_id"], pictures["picture"], strict=True) if len(pictures) else ()
        text = read_text(folder / SETTINGS)
        found = dict(held)
        check_pictures(found)
        return replace(saved, result=result, texts=((saved.name, text),), pictures=found)


def _optional(folder: Path, name: str) -> pd.DataFrame:
    """What there may be: examples of rows that compare two sides, pictures of a run that has some."""
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
    except OSError as error:
        raise refuse(folder, error.strerror or "a file is damaged") from error
    except FAULTS as error:
        raise refuse(folder, "its files are not those of a finished run") from error


def _unfinished(folder: Path) -> str:
    """Of what is missing, where the run has not come to its end."""
    partial = folder.parent / f"{short(resolved(folder).name)}.partial"
    if not folder.exists() and (partial / LOG).is_file():
        return f": the run is not finished; the command that began it goes on from {partial.name}"
    if (folder / LOG).is_file() and not _finished(folder):
        return ": the run is not finished; the command that began it goes on"
    return ""


def _finished(folder: Path) -> bool:
    lines = read_text(folder / LOG, errors="replace").splitlines()
    return any('"event": "finished"' in line for line in lines)


def _read_table(folder: Path, name: str) -> tuple[SavedRun, Mapping[str, Any]]:
    """And the whole of ``metrics.json``."""
    document = read_json(folder / METRICS)
    settings = read_settings(folder / SETTINGS)
    if (folder / LOG).is_file() and not _finished(folder):
        raise Unreadable(f"{LOG} does not say that it is{_unfinished(folder)}")
    for entry in ("run", "results"):
        if entry not in document:
            raise Unreadable(f"{METRICS} has no entry '{entry}'")
    facts = document["run"]
    _check_facts(facts)
    path = folder / f"{REPLICATES}.parquet"
    replicates = read_parquet(folder, REPLICATES) if path.exists() else pd.DataFrame(columns=COLUMNS)
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
_CAPTIONER = "images", "marks", "dropped", "alignment", "coverage", "text", "chosen", "counted"


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
    images, captions = (read_parquet(folder, f"{FOLDER}/{name}") for name in ("images", "captions"))
    tasks, words = (
        read_csv(path) if (path := folder / FOLDER / f"{name}.csv").exists() else pd.DataFrame()
        for name in ("tasks", "words")
    )
    if not (folder / COLLECT).is_file():
        raise FileNotFoundError(2, "No such file or directory", str(folder / COLLECT))
    if len(images) and not len(tasks):
        raise FileNotFoundError(2, "No such file or directory", str(folder / FOLDER / "tasks.csv"))
    return Breakdown(read_tasks(tasks, level), images, captions, read_csv(folder / COLLECT), words)

"""Settings that were given, and that nothing of a run reads."""

import logging
from collections.abc import Iterator
from contextlib import suppress

from judge.commands.setup import reads_tasks
from judge.config import flag_of
from judge.config.inputs import LabelSettings, ShownSettings
from judge.config.judges import QUICK, JudgedSettings, JudgeSettings, RunSettings, SightSettings, TrainingSettings
from judge.corpus.captions import OF_LABELS
from judge.corpus.columns import split_role
from judge.errors import JudgeError
from judge.judges import OF_BACKBONES
from judge.judges.names import EMBEDDED, FILES, HUGGING_FACE, SEEING, find_judge
from judge.measure.jobs import choose_judges
from judge.metrics import find_metric, spell_out

# Settings of every judge, and of the work as a whole.
_PROTOCOL = ("alignment", "holdout", "balance")
_OF_ALL = {"judge", "protocol", *_PROTOCOL, "seeds", "seed", "folds", "workers"}
_OF_JUDGES = {**JudgeSettings.__annotations__, **SightSettings.__annotations__, **TrainingSettings.__annotations__}
OF_SOME = tuple(name for name in _OF_JUDGES if name not in _OF_ALL)
"""Settings that some judges read, and others do not."""
_READ_TASKS = "u, dbac, dpac, ba-objects, dba, multi and dpa"
_OTHERS = {"images", "cache", *LabelSettings.model_fields}
_HIDING = tuple(name for name in ShownSettings.model_fields if name not in _OTHERS)


def unread(config: JudgedSettings) -> Iterator[str]:
    """A line for the settings that differ from their defaults and that nothing reads, by what would read them."""
    fields = type(config).model_fields
    own = set(QUICK) if getattr(config, "quick", False) else set()  # Nobody gave these.
    given = [name for name in fields if getattr(config, name) != fields[name].default and name not in own]
    rows = [find_metric(name) for name in spell_out(config.metrics)]
    judged = [row for row in rows if not (row.counted or row.given)]
    judges = dict.fromkeys(name for row in judged for name in choose_judges(row, config.judge))
    read = {option for name in judges for option in find_judge(name).options}
    seen = any(row.given for row in rows if row.uses_images)
    read |= find_judge(SEEING).options if seen else set()
    known = (name for row in rows if row.given for name in choose_judges(row, config.judge))
    read |= {"embedding"} & {option for name in known for option in find_judge(name).options}
    read |= {"precision"} if getattr(config, "models", {}) else set()  # Of the captioners that will write.

    def flags(*names: str) -> list[str]:
        return [flag_of(type(config), name) for name in names if name in given]

    def roles(table: str) -> list[str]:
        return [f"--column {role}" for role in config.columns if split_role(role)[0] == table]

    by_readers: dict[str, list[str]] = {}
    for name in OF_SOME:
        if name in given and name not in read and (name, getattr(config, name)) != ("embedding", "none"):
            by_readers.setdefault(", ".join(readers(name)), []).append(name)
    lines = [(", ".join(judges or config.metrics), others, flags(*names)) for others, names in by_readers.items()]
    # Judges that read vectors of images take them from the file.
    looking = [judge for judge in map(find_judge, judges) if judge.backbone and not judge.reads_vectors]
    from_file = getattr(config, "image_features", None) and not looking and OF_BACKBONES & read
    aligned = {config.alignment or row.alignment for row in judged}
    is_run = isinstance(config, RunSettings)  # Doses of a calibration change tasks.
    has_images = bool(getattr(config, "images", None))
    scores, labels = getattr(config, "quality", False), config.labels
    labelled = [labels.get(name) if isinstance(labels, dict) else labels for name in config.attributes]
    # (options that are given, what reads them, whether it is a part of this run)
    parts: list[tuple[list[str], str, bool]] = [
        (flags("judge"), "metrics that ask a judge", not all(row.counted for row in rows)),
        (flags("seeds", "checkpoints", *_PROTOCOL), "metrics whose judges are trained", bool(judged)),
        (flags("chance"), "judges that are trained on shuffled labels", bool(judged)),
        (flags("given", "small"), "conditional", any(row.given for row in rows)),
        (flags("folds"), "judges of protocol crossfit", bool(judged) and config.protocol == "crossfit"),
        (flags("cache"), "judges and detectors of images", any(row.uses_images for row in rows) or has_images),
        (flags("vectors", "delta"), "contextual alignment", "contextual" in aligned),
        (flags("tasks"), _READ_TASKS, reads_tasks(config) or not is_run),
        (flags("objects"), f"{_READ_TASKS}, by --given and by --quality", reads_tasks(config) or not is_run or scores),
        (flags("quality_scores"), "--quality", scores),
        (flags(*OF_LABELS), "labels of a file", any(labelled)),
        (flags("label_least"), "labels that are derived from human captions", not all(labelled)),
        (flags("vocabulary", "least"), "ba", any(row.counted.labels == "words" for row in rows if row.counted)),
        (flags(*sorted(OF_BACKBONES)), "judges without --image-features", not from_file),
        # Images that no judge sees are shown in the report.
        (flags(*_HIDING), "a run with --images", has_images),
        (roles("labels"), "labels of a file", any(labelled)),
        (roles("objects"), "--objects", bool(config.objects)),
    ]
    metrics = ", ".join(config.metrics)
    lines += [(metrics, others, options) for options, others, is_read in parts if options and not is_read]
    for by, others, named in lines:
        yield f"{', '.join(named)} {'are' if named[1:] else 'is'} not used by {by}, but by {others}"


def log_unread(config: JudgedSettings) -> None:
    """Log what :func:`unread` finds, for commands whose results have no notes."""
    for line in unread(config):
        logging.getLogger(__name__).info("NOTE: %s", line)


def readers(option: str) -> list[str]:
    """The judges that read a setting, of those whose packages are installed."""
    found = []
    for name in (*EMBEDDED, *FILES, f"{HUGGING_FACE}NAME"):
        with suppress(JudgeError):
            if option in find_judge(name).options:
                found.append(name)
    return found

"""Settings of commands, composed of parts: YAML files, options and keywords of Python alike, checked in one place.

Each option is declared once, as a field of a part: :mod:`judge.config.inputs` (labels, captions, images),
:mod:`judge.config.judges` (metrics, judges, training, statistics), beside the metrics
(:mod:`judge.metrics.options`), or in the settings of the only command that has it.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, ClassVar, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from judge.errors import JudgeError, nearest
from judge.utils.files import check_names
from judge.utils.options import option
from judge.utils.reading import parse_yaml, read_small_text

PANELS = ("Calibration", "Input", "Metrics", "Judges", "Images", "Captions", "Training", "Statistics", "Output")
"""Groups of options in ``--help``, from top to bottom."""
GROUPS = {"training": "how judges are trained", "ba": "what metric ba counts"}
"""Options that take several settings, such as ``--training epochs=3`` -> the subject of these settings."""


class Settings(BaseModel):
    """Options of a command, composed of parts. Paths are relative to the working directory.

    The resolved form is written beside the results; given to the command again it repeats the work.
    """

    # Each model is built when it is first used: --help needs the fields alone.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)
    command: ClassVar[str]
    launched: ClassVar[bool] = False
    """Whether the processes of a launch share the command's work; others run in one process."""
    panel: ClassVar[str] = "Output"
    shares: ClassVar[Collection[str]] = ()
    """Keys of another command's files, which this one takes too: those that are none of its fields are left out."""

    @classmethod
    def panel_of(cls, name: str) -> str:
        """The panel of an option in ``--help``: its own, or that of the class that declares it first."""
        if own := "Output" if name == "out" else about_option(cls, name)["panel"]:
            return str(own)
        bases = (base for base in reversed(cls.__mro__) if name in getattr(base, "model_fields", ()))
        return str(next(base.panel for base in bases if hasattr(base, "panel")))

    def inputs(self) -> list[Path]:
        """Every path that the command reads (or shares with others), for its output not to replace it."""
        found = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            several = value.values() if isinstance(value, dict) else value
            for entry in several if isinstance(several, Iterable) and not isinstance(several, str) else [value]:
                if isinstance(entry, Path) and name != "out":
                    found.append(entry)
                # (Path.exists raises where a text is too long for a name, as words in memory are.)
                elif about_option(type(self), name)["file"] and entry and os.path.exists(entry):  # noqa: PTH110
                    found.append(Path(entry))
        return found

    def to_yaml(self) -> str:
        """The resolved settings, every field."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


class OutputSettings(Settings):
    """A command whose output may replace an earlier one."""

    overwrite: bool = option(False, "replace earlier results in --out", essential=True, exclude=True)


S = TypeVar("S", bound=Settings)


def shared_settings(config: Settings, kind: type[Settings]) -> dict[str, Any]:
    """The values of ``config`` for the fields that ``kind`` has too."""
    return {name: getattr(config, name) for name in type(config).model_fields if name in kind.model_fields}


def make_config(settings: Mapping[str, Any], kind: type[S], *, where: str = "settings") -> S:
    """Check ``settings`` of a command.

    Raises:
        JudgeError: unknown key (the nearest is suggested), missing key, value out of range; a path or a name that is
            not UTF-8.
    """
    check_names(settings, where=where)
    try:
        unknown = {*kind.shares} - kind.model_fields.keys()
        found = kind.model_validate({key: _named(value) for key, value in settings.items() if key not in unknown})
    except ValidationError as error:
        # A misspelt key may be the one that is missing, so it is reported first.
        first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        key = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            mend = nearest(key, list(kind.model_fields))
            if names := [name for name in kind.model_fields if about_option(kind, name)["group"] == key]:
                mend = f"give its names as settings, such as {names[0]}"
            raise JudgeError(f"unknown key '{key}'", where=where, mend=mend) from None
        flag = flag_of(kind, key)
        if first["type"] == "missing":
            mend = f"give {flag}, or '{key}:' in the YAML file"
            raise JudgeError(f"'{key}' is missing", where=where, mend=mend) from None
        # Entries of a list or mapping have a name of their own; a field of several types has a message of each.
        parts = [part for part in first["loc"][1:] if "[" not in str(part)]  # Without pydantic's names of types.
        entries = [part for part in parts if isinstance(part, int) or isinstance(settings[key], Mapping)]
        faults = [first] if entries else [found for found in error.errors() if found["loc"][0] == key]
        if len(faults) == 1 and first["type"] == "literal_error":
            mend = nearest(str(first["input"]), re.findall("'([^']*)'", first["ctx"]["expected"]))
            raise JudgeError(f"unknown value '{first['input']}'", where=flag, mend=mend) from None
        messages = [re.sub("^Value error, | for <class .*>$", "", found["msg"]) for found in faults]
        message = ", or ".join(text[0].lower() + text[1:] for text in messages)
        name = ".".join(map(str, [key, *entries]))
        raise JudgeError(f"'{name}': {message}", where=where, mend=f"see {flag} in {kind.command} --help-all") from None
    for key, value in settings.items():
        if value == "" and isinstance(getattr(found, key, None), Path):  # Path("") is the current folder.
            raise JudgeError("is empty", where=flag_of(kind, key), mend="name a file or folder, or leave it out")
    return found


def _named(value: Any) -> Any:
    """A setting in which paths are text: a name may be that of a file."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _named(of) for name, of in value.items()}
    return [*map(_named, value)] if isinstance(value, list | tuple) else value


def about_option(kind: type[Settings], name: str) -> dict[str, Any]:
    """The arguments of ``option`` that are for the command line alone, such as ``flag`` and ``essential``."""
    return cast("dict[str, Any]", kind.model_fields[name].json_schema_extra)


def flag_of(kind: type[Settings], name: str) -> str:
    """The name of a field on the command line; with that of its group, ``--training epochs``."""
    about = about_option(kind, name)
    return f"--{about['group']} {name}" if about["group"] else about["flag"] or f"--{name.replace('_', '-')}"


def read_settings(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    where, mend = str(path), "write lines like 'human: captions.json'"
    if where.endswith((".json", ".jsonl", ".csv", ".tsv", ".parquet")):  # As the second of `--captions a.json b.json`.
        mend = f"write --captions {where}, --human {where}, or what else it is; settings are a .yaml file"
        raise JudgeError("a file that no option stands before is read as settings", where=where, mend=mend)
    data = parse_yaml(read_small_text(path), where=where, mend=mend)
    if not isinstance(data, dict):
        raise JudgeError("not a mapping of settings", where=where, mend=mend)
    return {str(key): value for key, value in data.items()}

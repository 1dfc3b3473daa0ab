"""A run as data: what YAML, the command line and Python all say in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from judge.corpus import name_captioners
from judge.errors import JudgeError, nearest


class RunConfig(BaseModel):
    """Everything that ``judge evaluate`` can be told. Paths are relative to the working directory.

    The resolved form is written to ``run.yaml`` in the run's folder; ``judge evaluate run.yaml`` repeats the run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    human: Path = Field(description="human captions: COCO, Karpathy, CSV, JSONL, Parquet, ... (told by content)")
    captions: dict[str, Path] = Field(
        description="captioner -> its captions; names default to file stems", min_length=1
    )
    labels: Path | None = Field(None, description="attribute of each image; without it, derived from human captions")
    out: Path | None = Field(None, description="folder for the results; None to write nothing")

    metrics: tuple[str, ...] = Field(("lic", "leakage"), description="rows of METRICS", min_length=1)
    judge: tuple[str, ...] = Field(("linear",), description="judges; every metric is measured with each", min_length=1)
    protocol: Literal["crossfit", "paper"] = Field(
        "crossfit", description="crossfit: every image scored by a judge that never saw it; paper: LIC's 90/10 hold-out"
    )
    seeds: int | None = Field(None, ge=1, description="repetitions; default 1 under crossfit, 10 under paper")
    seed: int = Field(0, ge=0, le=2**31, description="the first seed")
    folds: int = Field(10, ge=2, description="folds of crossfit")

    attribute: str = Field("gender", description="the protected attribute")
    lexicon: str | None = Field(None, description="words to hide: a shipped name, a .yaml, or 'none'")
    contractions: Literal["whole", "split"] = Field("whole", description='keep "woman\'s" one word, or split it')
    text: Literal["whole", "first-sentence"] = Field("whole", description="judge whole captions or first sentences")
    refusals: tuple[str, ...] | None = Field(None, description="regular expressions that tell a refusal; None for ours")

    columns: dict[str, str] = Field({}, description="column names of caption tables: image_id, caption")
    id_column: str | None = Field(None, description="image column of the label table")
    label_column: str | None = Field(None, description="class column of the label table")
    label_values: dict[str, tuple[str, ...]] = Field({}, description="class -> how the label table spells it")
    split: str | None = Field(None, description="split of a Karpathy file")
    several: bool = Field(False, description="allow several captions an image from a captioner")

    epochs: int | None = Field(None, ge=1, description="overrides the judge's own")
    batch_size: int | None = Field(None, ge=1, description="overrides the judge's own")
    learning_rate: float | None = Field(None, gt=0, description="overrides the judge's own")
    precision: Literal["no", "bf16", "fp16"] | None = Field(None, description="None for Accelerate's own setting")
    sharing: Literal["members", "data"] | None = Field(
        None, description="several processes: each trains whole judges, or all train one; None for the judge's own"
    )
    workers: int | None = Field(None, ge=1, description="judges trained at a time; default one a core")

    resamples: int = Field(2000, ge=100, description="of the bootstrap and the permutation test")
    level: float = Field(0.95, gt=0.5, lt=1, description="of the intervals")
    overwrite: bool = Field(False, description="replace what lies in 'out'", exclude=True)

    @field_validator("captions", mode="before")
    @classmethod
    def _name_captioners(cls, value: object) -> object:
        """A path, a list of paths, or of NAME=PATH, becomes a mapping."""
        if isinstance(value, str | Path):
            value = [value]
        return name_captioners(value) if isinstance(value, list | tuple) else value

    @field_validator("precision", mode="before")
    @classmethod
    def _no_is_a_word(cls, value: object) -> object:
        """YAML reads a bare ``no`` as False."""
        return "no" if value is False else value

    @field_validator("label_values", mode="before")
    @classmethod
    def _spellings(cls, value: object) -> object:
        """``{female: 1}`` and ``{female: [1, f]}`` are spellings too, as texts."""
        if not isinstance(value, dict):
            return value
        many = {name: found if isinstance(found, list | tuple) else [found] for name, found in value.items()}
        return {str(name): tuple(map(str, found)) for name, found in many.items()}

    @field_validator("metrics", "judge", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        """``lic,leakage`` is a list too. Names are checked where they are looked up."""
        parts = [value] if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            return value
        names = [name.strip().lower() for part in parts for name in str(part).split(",") if name.strip()]
        return tuple(dict.fromkeys(names))

    @field_serializer("human", "labels", "out", "captions")
    def _paths_as_text(self, value: object) -> object:
        if isinstance(value, dict):
            return {name: str(path) for name, path in value.items()}
        return None if value is None else str(value)

    def recipe(self) -> dict[str, Any]:
        """What overrides the judges' own recipes."""
        wanted = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        return {name: value for name, value in wanted.items() if value is not None}

    def to_yaml(self) -> str:
        """The resolved run, every field, in this file's order."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def make_config(settings: Mapping[str, Any], *, where: str = "settings") -> RunConfig:
    """Check ``settings``.

    Raises:
        JudgeError: unknown key (the nearest is suggested), missing key, value out of range.
    """
    try:
        return RunConfig.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = list(RunConfig.model_fields)
            raise JudgeError(f"unknown key '{key}'", where=where, mend=nearest(key, known)) from None
        if first["type"] == "missing":
            raise JudgeError(f"'{key}' is missing", where=where, mend=f"give {_option(key)}") from None
        message = first["msg"].removeprefix("Value error, ")
        message = message[0].lower() + message[1:]
        raise JudgeError(f"'{key}': {message}", where=where, mend="see judge evaluate --help") from None


def read_settings(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        JudgeError: unreadable, not YAML, not a mapping.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise JudgeError(f"cannot be read ({error.strerror})", where=str(path), mend="check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise JudgeError(f"not YAML ({reason})", where=str(path), mend="see the example in README.md") from error
    if not isinstance(data, dict):
        raise JudgeError("not a mapping of settings", where=str(path), mend="write lines like 'human: captions.json'")
    return {str(key): value for key, value in data.items()}


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}, or '{key}:' in the YAML file"

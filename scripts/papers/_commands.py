"""Commands of ours as data: how they are written in a shell, and run in this process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from judge.commands.ablate_detectors import AblateDetectorsConfig
from judge.commands.ablate_masks import AblateMasksConfig
from judge.commands.align import AlignConfig
from judge.commands.anonymous import AnonymousConfig
from judge.commands.attribute import AttributeConfig
from judge.commands.caption import CaptionConfig
from judge.commands.evaluate import RunConfig
from judge.commands.mask import MaskConfig
from judge.config import Settings, flag_of, make_config, shown
from judge.types import Progress


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    Attributes:
        name: of its results.
        kind: the class of its settings, which says the command.
        settings: as in a YAML file.
    """

    name: str
    kind: type[Settings]
    settings: Mapping[str, Any]

    def words(self) -> list[str]:
        """The command as a shell splits it."""
        options = [word for name, value in self.settings.items() for word in _option(self.kind, name, value)]
        return [*self.kind.command.split(), *options]

    def line(self) -> str:
        """The command for a shell, an option a line."""
        lines = [" ".join(self.kind.command.split())]
        for name, value in self.settings.items():
            words = _option(self.kind, name, value)
            flag = words[0] if words else ""
            # Options that are given several times have a line each.
            ends = [place for place, word in enumerate(words) if word == flag] + [len(words)]
            lines += [shlex.join(words[start:end]) for start, end in pairwise(ends)]
        return " \\\n    ".join(lines)

    def run(self, progress: Progress | None = None, *, overwrite: bool = False, report: bool = True) -> Any:
        """What the command's function gives; its files lie in its ``out``, but for a run without a ``report``."""
        settings = {**self.settings, **({"overwrite": True} if overwrite else {})}
        if self.kind is RunConfig and not report:
            settings["out"] = None
        config = make_config(settings, self.kind, where=self.kind.command)
        return _body(self.kind)(config, progress=progress)


def _option(kind: type[Settings], name: str, value: Any) -> list[str]:
    """An option and its value, as often as it is given."""
    flag, repeated = flag_of(kind, name), bool(shown(kind, name)["repeated"])
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        pairs = [(key, text) for key, of in value.items() for text in (of if isinstance(of, tuple) else (of,))]
        return [word for key, text in pairs for word in (flag, f"{key}={text}")]
    if isinstance(value, tuple | list):
        texts = list(map(str, value)) if repeated else [",".join(map(str, value))]
        return [word for text in texts for word in (flag, text)]
    return [flag, str(value)]


def _body(kind: type[Settings]) -> Callable[..., Any]:
    """The function behind a command."""
    from judge.commands.ablate_detectors import ablate_detectors
    from judge.commands.ablate_masks import ablate_masks
    from judge.commands.align import align_captions
    from judge.commands.anonymous import measure_anonymous
    from judge.commands.attribute import attribute
    from judge.commands.caption import caption
    from judge.commands.evaluate import run
    from judge.commands.mask import mask

    bodies: dict[type[Settings], Callable[..., Any]] = {
        RunConfig: run,
        AblateMasksConfig: ablate_masks,
        AblateDetectorsConfig: ablate_detectors,
        AlignConfig: align_captions,
        AnonymousConfig: measure_anonymous,
        AttributeConfig: attribute,
        CaptionConfig: caption,
        MaskConfig: mask,
    }
    return bodies[kind]


def run_steps(
    steps: Sequence[Step], progress: Progress | None = None, *, overwrite: bool = False, report: bool = True
) -> dict[str, Any]:
    """Name -> what each command gave, one after another."""
    results: dict[str, Any] = {}
    for step in steps:
        Path(step.settings["out"]).parent.mkdir(parents=True, exist_ok=True)
        results[step.name] = step.run(progress, overwrite=overwrite, report=report)
    return results

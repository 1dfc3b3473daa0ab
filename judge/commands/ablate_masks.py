"""One run, several times over, with one thing exchanged: what hides people, or what is hidden of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from judge.commands.caption import caption
from judge.commands.evaluate import run
from judge.config import AblateMasksConfig, CaptionConfig, RunConfig, RunSettings, Settings, make_config
from judge.errors import JudgeError
from judge.measure import Result
from judge.metrics import METRICS, find_metric, spell_out
from judge.metrics.scores import SCORES
from judge.report.ablations import MaskRow
from judge.report.directory import summary_row
from judge.types import Progress
from judge.utils.files import OutputFolder

MASKS = "masks.json"


def run_each(
    config: RunSettings, variants: Mapping[str, Mapping[str, Any]], *, progress: Progress | None = None
) -> dict[str, Result]:
    """The run of ``config`` with each variant's settings in place; nothing is written but features and judges kept.

    Raises:
        JudgeError: as ``judge evaluate``; none of the metrics is read by what is exchanged.
    """
    results = {}
    with TemporaryDirectory(prefix="judge-") as folder:
        # Judges of what no variant touches, such as people's words, are one and the same: trained once.
        kept = {"checkpoints": config.checkpoints or Path(folder), "out": None}
        for name, changes in variants.items():
            settings = _of(config, RunConfig) | dict(changes) | kept
            one = make_config(settings, RunConfig, where=f"{config.command} ({name})")
            results[name] = run(one, progress=_named(progress, name) if progress else None)
    return results


def _of(config: RunSettings, kind: type[Settings]) -> dict[str, Any]:
    """What ``config`` says in the words of another command."""
    return {name: value for name, value in config.model_dump().items() if name in kind.model_fields}


def _named(progress: Progress, name: str) -> Progress:
    return lambda what, done, total: progress(f"{name}: {what}", done, total)


def seeing(metrics: Sequence[str]) -> tuple[str, ...]:
    """Those of ``metrics`` whose judges see pictures.

    Raises:
        JudgeError: none does.
    """
    found = tuple(name for name in spell_out(metrics) if find_metric(name).uses_images)
    if not found:
        mend = f"add one of {', '.join(name for name, row in METRICS.items() if row.uses_images)}"
        raise JudgeError("no judge of these metrics sees pictures", where="--metrics", mend=mend)
    return found


def ablate_masks(config: AblateMasksConfig, *, progress: Progress | None = None) -> list[MaskRow]:
    """Hide more and more of pictures, from captioners (``--model``) and from judges, and measure each time.

    A captioner that is given as a checkpoint captions the masked pictures anew (Hirota et al., CVPR 2022, Table 4;
    DBAC's Table 4); of one that is given by its captions only the judges see less (ImageCaptioner2).
    Writes ``masks.json`` and ``ablate.yaml`` to ``config.out``.

    Raises:
        JudgeError: anything that the user can mend; nothing that is asked for depends on pictures.
    """
    out = OutputFolder(config.out, marker=MASKS, what="ablation", overwrite=config.overwrite)
    out.check()
    out.keep(config.inputs())
    if not config.models:
        seeing(config.metrics)
    with TemporaryDirectory(prefix="judge-") as folder:
        variants = {
            name: {**changes, **_captions(config, name, changes, Path(folder), progress)}
            for name, changes in _variants(config).items()
        }
        results = run_each(config, variants, progress=progress)
    rows = [row for name, result in results.items() for row in _rows(variants[name], result, results.get("none"))]
    out.begin()
    with out.working(), out.mendable():
        text = json.dumps({"results": [_entry(row, config.attribute) for row in rows]}, indent=2, allow_nan=False)
        (out.partial / MASKS).write_text(text + "\n", encoding="utf-8")
        (out.partial / "ablate.yaml").write_text(config.to_yaml(), encoding="utf-8")
        out.publish()
    return rows


def _variants(config: AblateMasksConfig) -> dict[str, dict[str, Any]]:
    """Name -> settings; pictures as they are once, first."""
    plain: dict[str, dict[str, Any]] = (
        {"none": {"mask": "none", "hide": "person", "category": None}} if "none" in config.masks else {}
    )
    masks = [mask for mask in config.masks if mask != "none"]
    # A category is named for objects; people alone have none.
    what = {hide: {"hide": hide, "category": None if hide == "person" else config.category} for hide in config.hides}
    return plain | {f"{mask} {hide}": {"mask": mask, **what[hide]} for mask in masks for hide in config.hides}


def _captions(
    config: AblateMasksConfig, name: str, changes: Mapping[str, Any], folder: Path, progress: Progress | None
) -> dict[str, Any]:
    """Captions of the pictures as this variant leaves them, by every checkpoint that has not written any."""
    written: dict[str, Path] = {}
    for captioner, model in config.models.items():
        if captioner in config.captions:
            continue
        path = folder / name / f"{captioner}.json"
        precision = "bf16" if config.precision == "bf16" else "no"
        told = {"model": model, "out": path, "precision": precision, "batch_size": 8, "ids": None}
        tell = _named(progress, name) if progress else None
        done = caption(make_config(_of(config, CaptionConfig) | dict(changes) | told, CaptionConfig), progress=tell)
        if not done.captions:
            raise done.failures[0][1]
        written[captioner] = path
    return {"captions": {**config.captions, **written}}


def _rows(changes: Mapping[str, Any], result: Result, plain: Result | None) -> list[MaskRow]:
    known = {row.key: row.generated for row in plain.summaries} if plain else {}
    rows = []
    for summary in result.summaries:
        classes = len(result.run["captioners"][summary.captioner]["images"])
        before = known.get(summary.key)
        metric = summary.metric
        chance = None if metric.prior or metric.counted else SCORES[metric.score].chance(classes)
        if summary.chance:
            chance = summary.chance[1]
        rows.append(
            MaskRow(
                changes["mask"],
                changes["hide"],
                summary,
                _difference(summary.generated, chance),
                _difference(summary.generated, before),
            )
        )
    return rows


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _entry(row: MaskRow, attribute: str) -> dict[str, Any]:
    changes = {"mask": row.mask, "hide": None if row.mask == "none" else row.hide}
    shifts = {"over_chance": row.over_chance, "over_original": row.over_original}
    return changes | summary_row(row.summary, attribute) | shifts

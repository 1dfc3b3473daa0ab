"""``judge ablate masks``: vary the mask, of captioners and of judges, and measure each time."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_args

from judge.commands.caption import CaptionConfig, caption
from judge.commands.console import say, show_progress
from judge.commands.evaluate import RunConfig, run
from judge.commands.setup import with_precision
from judge.commands.unread import tell_unread
from judge.config import make_config, shared_settings
from judge.config.inputs import DetectorSettings
from judge.config.judges import ScoredSettings
from judge.config.values import HUMAN, IMAGES, MASK, RESULTS, Files, Hide, MaskMode, list_or_text, listed, lower_names
from judge.errors import JudgeError
from judge.masking.measured import describe_masks
from judge.measure import Result
from judge.metrics import METRICS, find_metric, spell_out
from judge.metrics.scores import SCORES
from judge.report.ablations import MaskRow, variant_notes
from judge.report.directory import line_row
from judge.report.tables import lines_of
from judge.training.launch import in_main_process
from judge.types import Progress
from judge.utils.files import fingerprint_of
from judge.utils.options import option
from judge.utils.outputs import OutputFolder


class AblateMasksConfig(ScoredSettings, DetectorSettings):
    """Options of ``judge ablate masks``; it reads the file of ``judge evaluate`` too."""

    command = "judge ablate masks"
    panel = "Images"
    ignores = frozenset({"mask", "hide", "verbose", "breakdown"})

    human: Files = option(..., HUMAN, repeated="PATH", essential=True)
    images: Path = option(..., IMAGES, essential=True)
    masks: Annotated[tuple[MaskMode, ...], list_or_text(lower_names)] = option(
        get_args(MaskMode), f"{MASK}, comma-separated: one run each", essential=True
    )
    hides: Annotated[tuple[Hide, ...], list_or_text(lower_names)] = option(
        get_args(Hide), "what is hidden, comma-separated: one run each", essential=True
    )
    out: Path = option(..., RESULTS, "runs/masks", essential=True)


MASKS = "masks.json"


def run_each(
    config: ScoredSettings, variants: Mapping[str, Mapping[str, Any]], store: Path, *, progress: Progress | None = None
) -> dict[str, Result]:
    """The run of ``config`` with each variant's settings; nothing is written but caches of features and judges.

    Args:
        config: of the ablation.
        variants: name -> settings that differ.
        store: folder of judges where the settings name none; those that no variant changes, such as those of people's
            words, are trained once.
        progress: called with the progress.

    Raises:
        JudgeError: as ``judge evaluate``.
    """
    results = {}
    for name, changes in variants.items():
        settings = shared_settings(config, RunConfig) | dict(changes) | {"out": None}
        one = make_config(settings, RunConfig, where=f"{config.command} ({name})")
        kept = None if config.checkpoints else store
        results[name] = run(one, store=kept, progress=_named(progress, name), examples=False)
        if masks := results[name].run.get("masks"):
            logging.getLogger(__name__).info("NOTE: %s: %s", name, describe_masks(masks))
    return results


def _named(progress: Progress | None, name: str) -> Progress | None:
    return progress and (lambda what, done, total: progress(f"{name}: {what}", done, total))


def metrics_with_images(metrics: Sequence[str]) -> tuple[str, ...]:
    """Those of ``metrics`` whose judges use images.

    Raises:
        JudgeError: none does.
    """
    found = tuple(name for name in spell_out(metrics) if find_metric(name).uses_images)
    if not found:
        mend = f"add one of {', '.join(name for name, row in METRICS.items() if row.uses_images)}"
        raise JudgeError("no judge of these metrics uses images", where="--metrics", mend=mend)
    return found


def ablate_masks(
    config: AblateMasksConfig, *, progress: Progress | None = None
) -> tuple[list[MaskRow], dict[str, Result]]:
    """Vary what is hidden in images, from captioners (``--model``) and from judges, and measure each time.

    A captioner that is given as a checkpoint captions the masked images anew (Hirota et al., CVPR 2022, Table 4;
    DBAC's Table 4); of one that is given by its captions only the judges see less (ImageCaptioner2).
    Writes ``masks.json`` and ``ablate.yaml`` to ``config.out``. A command that was killed, or met an error, goes on.

    Returns:
        The rows of the table, and the result of each mask.

    Raises:
        JudgeError: anything that the user can mend; nothing that is asked for depends on images.
    """
    config, out = with_precision(config), open_ablation(config, "masks")
    if not config.models:
        metrics_with_images(config.metrics)
    tell_unread(config)
    with out.working():
        out.begin()
        variants = {
            name: {**changes, **_captions(config, name, changes, out.store, progress)}
            for name, changes in _variants(config).items()
        }
        results = run_each(config, variants, out.store, progress=progress)
        rows = [row for name, result in results.items() for row in _rows(variants[name], result, results.get("none"))]
        notes = variant_notes(results)
        write_ablation(
            out, config, {MASKS: {"results": [_entry(row, config.attribute_name) for row in rows], "notes": notes}}
        )
    return rows, results


def open_ablation(config: ScoredSettings, varied: str) -> OutputFolder:
    """The folder of an ablation of what is ``varied``.

    Raises:
        JudgeError: a place that cannot be used.
    """
    assert config.out is not None
    what = f"ablation of {varied}"
    out = OutputFolder(config.out, what=what, command=config.command, overwrite=config.overwrite)
    in_main_process(lambda: out.check(config.inputs()))
    return out


def write_ablation(
    out: OutputFolder,
    config: ScoredSettings,
    documents: Mapping[str, Mapping[str, Any]],
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write ``documents`` as JSON, ``files``, and the settings as ``ablate.yaml``."""
    texts = {name: json.dumps(entries, indent=2, allow_nan=False) + "\n" for name, entries in documents.items()}
    texts |= {"ablate.yaml": config.to_yaml()}
    contents = {name: text.encode() for name, text in texts.items()} | dict(files or {})

    def write() -> None:
        with out.writing():
            for name, data in contents.items():
                (out.partial / name).write_bytes(data)
            out.log("finished")
        out.publish()

    in_main_process(write)


def _variants(config: AblateMasksConfig) -> dict[str, dict[str, Any]]:
    """Name -> settings; unmasked images once, first."""
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
    """Captions of the variant's masked images, by every checkpoint whose captions are not given."""
    written: dict[str, Path] = {}
    for captioner, model in config.models.items():
        if captioner in config.captions:
            continue
        precision = "bf16" if config.precision == "bf16" else "no"
        settings = {"model": model, "precision": precision, "ids": None}
        settings = shared_settings(config, CaptionConfig) | dict(changes) | settings
        path = folder / _name_of(config, settings) / f"{captioner}.json"
        if not in_main_process(path.exists):
            asked = make_config(settings | {"out": path, "overwrite": True}, CaptionConfig)
            done = caption(asked, progress=_named(progress, name))
            if not done.captions:
                raise done.failures[0][1]
        written[captioner] = path
    return {"captions": {**config.captions, **written}}


def _name_of(config: AblateMasksConfig, settings: Mapping[str, Any]) -> str:
    """A name for captions: of their settings, checkpoint and images, as they lie on the disk."""
    # Images may lie in folders of the folder, as COCO's do.
    given = [config.images, *listed(config.instances), *settings.get("weights", {}).values()]
    below = [path for place in given if place for path in (place, *Path(place).rglob("*")) if Path(path).is_file()]
    stamps = sorted((str(path), Path(path).stat().st_size, Path(path).stat().st_mtime_ns) for path in below)
    versions = [version(name) for name in ("caption-judge", "torch", "transformers")]
    content = sorted(settings.items(), key=str), fingerprint_of(str(settings["model"])), stamps, versions
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _rows(changes: Mapping[str, Any], result: Result, plain: Result | None) -> list[MaskRow]:
    known = {row.key: row.generated for row in plain.summaries} if plain else {}
    rows = []
    for line in lines_of(result):
        summary = line.summary
        classes = len(result.run["captioners"][summary.captioner]["images"])
        before = known.get(summary.key)
        metric = summary.metric
        chance = None if metric.prior or metric.counted else SCORES[metric.score].chance(classes)
        if summary.chance:
            chance = summary.chance[1]
        shifts = _difference(summary.generated, chance), _difference(summary.generated, before)
        rows.append(MaskRow(changes["mask"], changes["hide"], line, *shifts))
    return rows


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _entry(row: MaskRow, attribute: str) -> dict[str, Any]:
    changes = {"mask": row.mask, "hide": None if row.mask == "none" else row.hide}
    shifts = {"over_chance": row.over_chance, "over_original": row.over_original}
    return changes | line_row(row.line, attribute) | shifts


def command(config: AblateMasksConfig) -> None:
    """Vary what is hidden in the images, from captioners and from judges, and measure each time.

    Takes the settings file and the options of judge evaluate. A captioner given with --model captions the masked
    images anew; for one given with --captions, only the judges see less. Leaves masks.json and ablate.yaml in --out.
    """
    from judge.report.ablations import mask_table
    from judge.report.render import print_table
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        found = ablate_masks(config, progress=progress)
    if is_main_process():
        print_table(mask_table(*found))
        say("")
        say(f"The results are in {config.out}")

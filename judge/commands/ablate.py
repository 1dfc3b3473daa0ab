"""``judge ablate masks`` and ``detectors``: vary what is hidden, or what finds it, and measure each time."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, get_args

import numpy as np

from judge.commands.caption import CaptionConfig, caption, dtype_of
from judge.commands.console import report_failures, say, show_progress
from judge.commands.evaluate import RunConfig, run
from judge.commands.images import choose_hiding, image_names, labels_for_ba, open_detector, read_truth, refuse_unmasked
from judge.commands.setup import with_precision
from judge.commands.unread import log_unread
from judge.config import make_config, shared_settings, values
from judge.config.inputs import DetectorSettings, HidingSettings
from judge.config.judges import ScoredSettings
from judge.errors import JudgeError
from judge.masking import DETECTORS
from judge.masking.detectors import Detector, Failures, detect_images
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.instances import PERSON
from judge.masking.masked_images import doubts_of
from judge.masking.measured import SHARES, DetectorRow, MaskStatistics, count, hide_nobody, measure_masks, pool
from judge.masking.people import Hiding
from judge.metrics import METRICS, find_metric, spell_out
from judge.report import ablations
from judge.report.directory import difference_row, line_row
from judge.report.render import print_table
from judge.report.result import Result
from judge.report.tables import lines_of
from judge.statistics.comparisons import Difference, difference
from judge.statistics.consistency import Agreement, agreements
from judge.statistics.intervals import bootstrap_pooled
from judge.statistics.summary import Summary
from judge.training.launch import in_main_process
from judge.types import Progress
from judge.utils.files import remove_empty, split_name
from judge.utils.identity import content_of, stamps_of
from judge.utils.launch import is_main_process
from judge.utils.options import option
from judge.utils.outputs import OutputFolder

S = TypeVar("S", bound=ScoredSettings)
Report = Callable[[tuple[str, Path, str], Path], Mapping[str, str]]
"""Makes a page's files from a command, the path and the text of its settings, and the folder of figures."""


class AblateMasksConfig(ScoredSettings, DetectorSettings):
    """Options of ``judge ablate masks``; it reads the file of ``judge evaluate`` too."""

    command = "judge ablate masks"
    panel = "Images"
    shares = RunConfig.model_fields.keys()

    human: values.Files = option(..., values.HUMAN, repeated="PATH", essential=True)
    images: Path = option(..., values.IMAGES, essential=True)
    masks: Annotated[tuple[values.MaskMode, ...], values.list_or_text(values.lower_names)] = option(
        get_args(values.MaskMode), f"{values.MASK}, comma-separated: one run each", essential=True
    )
    hides: Annotated[tuple[values.Hide, ...], values.list_or_text(values.lower_names)] = option(
        ("person", "object", "both"), "what is hidden, comma-separated: one run each", essential=True
    )
    out: Path = option(..., values.RESULTS, "runs/masks", essential=True)


class AblateDetectorsConfig(ScoredSettings, HidingSettings):
    """Options of ``judge ablate detectors``; it reads the file of ``judge evaluate`` too."""

    command = "judge ablate detectors"
    panel = "Images"
    shares = RunConfig.model_fields.keys()

    images: Path = option(..., values.IMAGES, essential=True)
    instances: values.Files = option(..., f"{values.INSTANCES}: the ground truth", repeated="PATH", essential=True)
    mask: values.Mode = option("segment", values.MASK, essential=True)
    metrics: values.Names = option(
        ("imagecaptioner2",), "metrics of images, comma-separated", essential=True, min_length=1, validate_default=True
    )
    detectors: values.Finders = option(
        DETECTORS, "detectors, comma-separated; hf:NAME; NAME=FILE for what another tool found (as --instances)",
        essential=True, min_length=1,
    )  # fmt: skip
    device: str | None = option(None, *values.DEVICE)
    out: Path = option(..., values.RESULTS, "runs/detectors", essential=True)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will run."""
        return tuple(name for name, file in self.sources.items() if file is None)

    @property
    def sources(self) -> dict[str, Path | None]:
        """Name of a detector -> the file or folder of what it found; None for one that will run."""
        pairs = ((*split_name(entry), entry) for entry in self.detectors)
        return {name or entry: Path(file) if name else None for name, file, entry in pairs}


class FoundConfig(RunConfig):
    """Options of ``judge evaluate`` whose ``instances`` are what a tool found."""

    found: ClassVar[bool] = True


def ablate_masks(
    config: AblateMasksConfig, *, progress: Progress | None = None
) -> tuple[list[ablations.MaskRow], dict[str, Result]]:
    """Vary what is hidden in images, from captioners (``--model``) and from judges, and measure each time.

    A captioner that is given as a checkpoint captions the masked images anew (Hirota et al., CVPR 2022, Table 4; DBAC's
    Table 4); of one that is given by its captions only the judges see less (ImageCaptioner2).
    """
    config, out = _open_folder(config, "masks")
    if not config.models:
        _metrics_with_images(config.metrics)
    log_unread(config)
    with out.working():
        out.begin()
        variants = _variants(config)
        if any(one["hide"] in {"object", "both"} and not one["category"] for one in variants.values()):
            labels_for_ba(config, config.instances)  # Refused before anything is trained.
        for name, changes in variants.items():
            changes |= {"captions": _write_captions(config, name, changes, out.store, progress)}
        results = _run_each(config, variants, out.store, progress)
        plain = {row.key: row for row in results["none"].summaries} if "none" in results else {}
        rows = []
        for name, result in results.items():
            for line in lines_of(result):
                summary, metric = line.summary, line.summary.metric
                images = result.run["captioners"][summary.captioner]["images"]
                chance = None if metric.prior or metric.counted else metric.chance(images)
                if summary.chance:
                    chance = summary.chance[1]
                original = plain.get(summary.key)
                above, over = (
                    None if summary.generated is None or other is None else summary.generated - other
                    for other in (chance, original.generated if original else None)
                )
                shift = _shift(summary, original, result, results["none"]) if original else None
                rows.append(ablations.MaskRow(variants[name]["mask"], variants[name]["hide"], line, above, over, shift))
        entries = [
            {"mask": row.mask, "hide": None if row.mask == "none" else row.hide}
            | line_row(row.line, config.attribute_name)
            | {"over_chance": row.over_chance, "over_original": row.over_original}
            | {"shift": row.shift and difference_row(row.shift)}
            for row in rows
        ]
        found = {"results": entries, "notes": ablations.variant_notes(results)}
        tables, lines = [ablations.mask_table(rows, results)], ablations.sensitivity_lines(rows)
        _write(out, config, "masks.json", found, partial(ablations.files_of, tables, lines, results))
    return rows, results


def _shift(row: Summary, original: Summary, *results: Result) -> Difference | None:
    """The amplification of ``row`` less that of ``original``, of two results; None where one has no value."""
    if None in (row.amplification, original.amplification):
        return None
    images = {of.run["captioners"][row.captioner]["marks"][row.metric.name]["images"] for of in results}
    return difference(row, original, same_images=len(images) == 1, level=results[0].run["level"])


def _variants(config: AblateMasksConfig) -> dict[str, dict[str, Any]]:
    """Name -> settings that differ; unmasked images once, first. A category is the name of an object."""
    variants: dict[str, dict[str, Any]] = {}
    if "none" in config.masks:
        variants["none"] = {"mask": "none", "hide": "person", "category": None}
    for mask in config.masks:
        for hides in config.hides if mask != "none" else ():
            category = config.category if hides in {"object", "both"} else None
            variants[f"{mask} {hides}"] = {"mask": mask, "hide": hides, "category": category}
    return variants


class DetectorAblation(NamedTuple):
    """What each detector finds; results by detector, and agreements with the first, are empty without captions."""

    rows: Sequence[DetectorRow]
    notes: Sequence[str]
    failures: Failures
    results: Mapping[str, Result]
    agreements: Sequence[Agreement]


def ablate_detectors(config: AblateDetectorsConfig, *, progress: Progress | None = None) -> DetectorAblation:
    """Compare detectors with ground truth on the images of ``config.instances``.

    Where captions are given, judges are trained and scored with each too (ImageCaptioner2's Table 6).
    """
    config, out = _open_folder(config, "detectors")
    metrics = _metrics_with_images(config.metrics) if config.human else ()
    if config.human:
        log_unread(config)
    hiding, _, truth = choose_hiding(config, config.mask)
    if hiding.background:
        raise JudgeError("no detector finds the background", where="--hide background", mend="hide instances")
    truth = (truth or read_truth(config, hiding.labels or None)).only(hiding.labels)
    failures: Failures = []
    rows, notes = _compare(config, hiding, truth, failures, progress)
    if not rows:
        return DetectorAblation((), notes, failures, {}, ())
    with out.working():
        out.begin()
        results: dict[str, Result] = {}
        agree: Sequence[Agreement] = ()
        if config.human:
            variants = {
                name: {"metrics": metrics} | ({"detector": "gt", "instances": file} if file else {"detector": name})
                for name, file in config.sources.items()
            }
            results = _run_each(config, variants, out.store, progress)
            agree = agreements({name: found.summaries for name, found in results.items()}, level=config.level)
        entries = {
            "results": [
                {"detector": row.detector}
                | {name: value if math.isfinite(value) else None for name, value in row.shares.items()}
                | {f"{name}_ci": ends and [ends.low, ends.high] for name, ends in row.intervals.items()}
                | {"people_found": row.people, "people": row.of, "images": row.images}
                for row in rows
            ],
            "judges": {
                name: [line_row(line, config.attribute_name) for line in lines_of(result)]
                for name, result in results.items()
            },
            "notes": [*notes, *ablations.variant_notes(results)],
            "agreement": [asdict(row) | {"metric": row.metric.name} for row in agree],
        }
        tables = [ablations.detector_table(rows, notes), *([ablations.detector_scores(results)] if results else [])]
        lines = ablations.agreement_lines(agree, next(iter(results), ""))
        _write(out, config, "detectors.json", entries, partial(ablations.files_of, tables, lines, results))
    return DetectorAblation(rows, notes, failures, results, agree)


def _open_folder(config: S, varied: str) -> tuple[S, OutputFolder]:
    """``config`` with the launch's precision, and its output folder, which has been checked."""
    assert config.out is not None
    if config.image_features:
        reason = "vectors of a file are the same, whatever is hidden in the images"
        raise JudgeError(reason, where="--image-features", mend="leave it out: an encoder then reads each image again")
    what = f"ablation of {varied}"
    out = OutputFolder(config.out, what=what, command=config.command, overwrite=config.overwrite)
    in_main_process(lambda: out.check(config.inputs()))
    return with_precision(config), out


def _metrics_with_images(metrics: Sequence[str]) -> tuple[str, ...]:
    found = tuple(name for name in spell_out(metrics) if find_metric(name).uses_images)
    if not found:
        mend = f"add one of {', '.join(name for name, row in METRICS.items() if row.uses_images)}"
        raise JudgeError("no judge of these metrics uses images", where="--metrics", mend=mend)
    return found


def _run_each(
    config: ScoredSettings, variants: Mapping[str, Mapping[str, Any]], store: Path, progress: Progress | None
) -> dict[str, Result]:
    results = {}
    for name, changes in variants.items():
        settings = shared_settings(config, RunConfig) | dict(changes) | {"out": None}
        kind = FoundConfig if changes.get("instances") else RunConfig  # What another tool found.
        one = make_config(settings, kind, where=f"{config.command} ({name})")
        own = None if config.checkpoints else store
        results[name] = run(one, store=own, progress=_named(progress, name), examples=False)
    return results


def _named(progress: Progress | None, name: str) -> Progress | None:
    return progress and (lambda what, done, total: progress(f"{name}: {what}", done, total))


def _write(out: OutputFolder, config: ScoredSettings, name: str, entries: Mapping[str, Any], report: Report) -> None:
    """Write ``entries`` as JSON to the file ``name``, the settings as ``ablate.yaml``, and the files of ``report``."""
    texts = {name: json.dumps(entries, indent=2, allow_nan=False) + "\n", "ablate.yaml": config.to_yaml()}
    assert config.out is not None
    about = config.command, config.out / "ablate.yaml", texts["ablate.yaml"]

    def write() -> None:
        with out.writing():
            figures = out.partial / "figures"
            figures.mkdir(exist_ok=True)
            out.write({**texts, **report(about, figures)})
            remove_empty([figures])
            out.log("finished")
        out.publish()

    in_main_process(write)


def _write_captions(
    config: AblateMasksConfig, name: str, changes: Mapping[str, Any], folder: Path, progress: Progress | None
) -> dict[str, Path]:
    """The captions that are given, and those of the variant's masked images by every other checkpoint."""
    written: dict[str, Path] = {}
    for captioner, model in config.models.items():
        if captioner in config.captions:
            continue
        settings = {"model": model, "dtype": dtype_of(config.precision), "ids": None, "overwrite": True}
        settings = shared_settings(config, CaptionConfig) | dict(changes) | settings
        path = folder / _key(config, settings) / f"{captioner}.json"
        if not in_main_process(path.exists):
            one = make_config(settings | {"out": path}, CaptionConfig)
            done, _ = caption(one, progress=_named(progress, name))
            if not done.captions:
                raise done.failures[0][1]
        written[captioner] = path
    return {**config.captions, **written}


def _key(config: AblateMasksConfig, settings: Mapping[str, Any]) -> str:
    """A checksum of what captions depend on: settings, the checkpoint, and the size and time of all files."""
    given = [config.images, *values.listed(config.instances), *settings.get("weights", {}).values()]
    stamps = stamps_of(Path(place) for place in (*given, config.detector.removeprefix("hf:")) if place)
    versions = [version(name) for name in ("caption-judge", "torch", "transformers")]
    content = sorted(settings.items(), key=str), content_of(str(settings["model"])), stamps, versions
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _compare(
    config: AblateDetectorsConfig, hiding: Hiding, truth: GroundTruth, failures: Failures, progress: Progress | None
) -> tuple[list[DetectorRow], list[str]]:
    """Return what each detector finds, and notes. An image counts if no detector fails at it."""
    detectors: dict[str, Detector] = {
        name: read_truth(config.model_copy(update={"instances": file}), hiding.labels or None, found=True)
        if file
        else open_detector(name, config, hiding.labels, truth=truth)
        for name, file in config.sources.items()
    }
    people = 0
    counts: dict[str, list[list[int]]] = {name: [] for name in detectors}
    statistics: dict[str, list[MaskStatistics]] = {name: [] for name in detectors}
    names, _ = image_names(config.images, truth)
    finders = truth, *detectors.values()
    for image, [true, *answers] in detect_images(config.images, names, *finders, failures=failures, progress=progress):
        in_truth = hiding.chosen(true)
        people += len(in_truth)
        for name, instances in zip(detectors, answers, strict=True):
            chosen = hiding.chosen(instances)
            region = hiding.region(chosen, image.size)
            counts[name].append(of := count(in_truth, chosen, region))
            measured = MaskStatistics.of(image, hiding, chosen, region, None)
            statistics[name].append(measured._replace(pixels=(of[0], of[1], of[2])))
    failures += truth.strays
    notes = _check(config, hiding, truth, detectors, statistics)
    if progress:
        progress("intervals", 0, 0)
    rows = []
    for name, counted in counts.items() if all(counts.values()) else ():
        table, generator = np.array(counted, dtype=np.float64), np.random.default_rng(config.seed)
        how: dict[str, Any] = {"generator": generator, "resamples": config.resamples, "level": config.level}
        row = DetectorRow(
            detector=name,
            shares=dict(zip(SHARES, map(float, pool(table.sum(axis=0))), strict=True)),
            intervals=dict(zip(SHARES, bootstrap_pooled(table, pool, **how), strict=True)),
            people=sum(one.instances for one in statistics[name]),
            of=people,
            images=len(table),
        )
        rows.append(row)
    return rows, notes


def _check(
    config: AblateDetectorsConfig,
    hiding: Hiding,
    truth: GroundTruth,
    detectors: Mapping[str, Detector],
    statistics: Mapping[str, Sequence[MaskStatistics]],
) -> list[str]:
    """Refuse files at fault, and their masks as ``judge mask`` does; return notes on ground truth and detectors."""
    found = {"gt": list(truth.doubts)}
    for name, detector in detectors.items():
        found[name] = doubts_of(detector, hiding, statistics[name])
        masks = measure_masks(statistics[name], hides_people=PERSON in hiding.labels)
        if isinstance(detector, GroundTruth) and config.sources[name]:
            detector.refuse_faults()
            refuse_unmasked(config, masks, found[name], f"--detectors {name}")
        if what := hide_nobody(masks):
            found[name].append(f"{what}.")
    return ablations.shared_notes(found)


def masks(config: AblateMasksConfig) -> None:
    """Vary what is hidden in the images, from captioners and from judges, and measure each time.

    Takes the settings file and the options of judge evaluate. A captioner given with --model captions the masked
    images anew; for one given with --captions, only the judges see less. Leaves report.html, masks.json, tables.tex,
    figures and ablate.yaml in --out.
    """
    with show_progress() as progress:
        found = ablate_masks(config, progress=progress)
    if is_main_process():
        print_table(ablations.mask_table(*found))
        say(*ablations.sensitivity_lines(found[0]))
        say("", f"The results are in {config.out}")


def detectors(config: AblateDetectorsConfig) -> None:
    """Compare detectors with ground truth: what each finds of people and, with captions, what judges then measure.

    Takes the settings file and the options of judge evaluate; without --human, only detectors are compared. Leaves
    report.html, detectors.json, tables.tex, ablate.yaml and, with captions, figures in --out. Exit code 1: some images
    could not be read.
    """
    with show_progress() as progress:
        found = ablate_detectors(config, progress=progress)
    if not is_main_process():
        return
    if not found.rows:
        report_failures(found.failures, len(found.failures), "read")
    print_table(ablations.detector_table(found.rows, found.notes))
    if found.results:
        print_table(ablations.detector_scores(found.results))
        say(*ablations.agreement_lines(found.agreements, next(iter(found.results))), "")
    say(f"The results are in {config.out}")
    report_failures(found.failures, len(found.failures) + found.rows[0].images, "read")

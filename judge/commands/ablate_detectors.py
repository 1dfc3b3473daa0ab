"""``judge ablate detectors``: vary the detector, compare what it finds and what judges then measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

import numpy as np

from judge.commands.ablate_masks import metrics_with_images, open_ablation, run_each, write_ablation
from judge.commands.console import say, show_progress, tell_failures
from judge.commands.images import choose_hiding, image_names, open_detector, read_truth
from judge.commands.setup import with_precision
from judge.commands.unread import tell_unread
from judge.config.inputs import HidingSettings
from judge.config.judges import ScoredSettings
from judge.config.values import DEVICE, IMAGES, INSTANCES, MASK, RESULTS, Files, Mode, Names
from judge.masking import DETECTORS
from judge.masking.detectors import Detector, Failures, detect_images
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import SHEET
from judge.masking.images import SHEET_NAME, encode
from judge.masking.instances import Instance
from judge.masking.measured import Counts, DetectorRow, Overlap, average_precision, count, pool
from judge.masking.people import Hiding, hide
from judge.masking.sheet import Tile, contact_sheet, tile
from judge.measure import Result
from judge.report.ablations import variant_notes
from judge.report.directory import line_row
from judge.report.tables import lines_of
from judge.statistics.consistency import Agreement, agreements
from judge.statistics.intervals import bootstrap_pooled
from judge.types import Progress
from judge.utils.options import option


class AblateDetectorsConfig(ScoredSettings, HidingSettings):
    """Options of ``judge ablate detectors``; it reads the file of ``judge evaluate`` too."""

    command = "judge ablate detectors"
    panel = "Images"
    ignores = frozenset({"detector", "verbose", "breakdown"})

    images: Path = option(..., IMAGES, essential=True)
    instances: Files = option(..., f"{INSTANCES}: the ground truth", repeated="PATH", essential=True)
    mask: Mode = option("segment", MASK, essential=True)
    metrics: Names = option(("imagecaptioner2",), "metrics of images, comma-separated", essential=True, min_length=1)
    detectors: Names = option(DETECTORS, "detectors to compare, comma-separated", essential=True, min_length=1)
    device: str | None = option(None, *DEVICE)
    out: Path = option(..., RESULTS, "runs/detectors", essential=True)

    @property
    def finders(self) -> tuple[str, ...]:
        """The detectors that will run."""
        return self.detectors


FIGURES = "detectors.json"


@dataclass
class _Found:
    """Instances by image, of ground truth and of each detector, with their counts and tiles of the contact sheet."""

    truth: dict[str, tuple[Instance, ...]] = field(default_factory=dict)
    found: dict[str, dict[str, tuple[Instance, ...]]] = field(default_factory=dict)
    counts: dict[str, list[Counts]] = field(default_factory=dict)
    tiles: list[Tile] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DetectorAblation:
    """Detectors compared.

    Attributes:
        rows: one per detector: what it finds.
        failures: the images that could not be read, or at which a detector failed.
        results: detector -> what judges measure where it hides people; empty where no captions were given.
        agreements: of amplifications with those of the first detector.
    """

    rows: tuple[DetectorRow, ...]
    failures: Failures
    results: Mapping[str, Result] = field(default_factory=dict)
    agreements: Sequence[Agreement] = ()


def ablate_detectors(config: AblateDetectorsConfig, *, progress: Progress | None = None) -> DetectorAblation:
    """Compare detectors with ground truth on the images of ``config.instances``.

    Where captions are given, judges are trained and scored with each too (ImageCaptioner2's Table 6). Writes
    ``detectors.json``, ``contact_sheet.png`` (what each leaves visible) and ``ablate.yaml`` to ``config.out``.

    Raises:
        JudgeError: what concerns all images; faults of single ones are in the result's ``failures``.
    """
    config, out = with_precision(config), open_ablation(config, "detectors")
    if config.human:
        metrics_with_images(config.metrics)
        tell_unread(config)
    hiding, _, truth = choose_hiding(config, config.mask, seed=config.seed)
    truth = (truth or read_truth(config, hiding.labels)).only(hiding.labels)
    detectors = {
        name: open_detector(name, config, hiding.labels, truth=truth, device=config.device) for name in config.detectors
    }
    failures: Failures = []
    found = _compare(config, truth, detectors, hiding, failures, progress)
    failures += truth.strays
    if not found.truth:
        return DetectorAblation((), failures)
    with out.working():
        out.begin()
        results, agree = _judge(config, out.store, progress) if config.human else ({}, [])
        if progress:
            progress("intervals", 0, 0)
        rows = tuple(_row(name, found, hiding, config) for name in config.detectors)
        judged = {
            name: [line_row(line, config.attribute_name) for line in lines_of(result)]
            for name, result in results.items()
        }
        entries = {
            "results": [_entry(row) for row in rows],
            "judges": judged,
            "notes": variant_notes(results),
            "agreement": [asdict(row) | {"metric": row.metric.name} for row in agree],
        }
        write_ablation(out, config, {FIGURES: entries}, {SHEET_NAME: encode(contact_sheet(found.tiles))})
    return DetectorAblation(rows, failures, results, agree)


def _judge(
    config: AblateDetectorsConfig, store: Path, progress: Progress | None
) -> tuple[dict[str, Result], list[Agreement]]:
    """The run of ``judge evaluate`` with each detector."""
    metrics = metrics_with_images(config.metrics)
    variants = {name: {"detector": name, "metrics": metrics} for name in config.detectors}
    results = run_each(config, variants, store, progress=progress)
    summaries = {name: found.summaries for name, found in results.items()}
    return results, agreements(summaries, level=config.level)


def _compare(
    config: AblateDetectorsConfig,
    truth: GroundTruth,
    detectors: Mapping[str, Detector],
    hiding: Hiding,
    failures: Failures,
    progress: Progress | None,
) -> _Found:
    """Only images at which no detector fails are counted."""
    result = _Found(found={name: {} for name in detectors}, counts={name: [] for name in detectors})
    for picture, [known, *answers] in detect_images(
        config.images,
        image_names(config.images, truth)[0],
        truth,
        *detectors.values(),
        failures=failures,
        max_pixels=config.max_pixels,
        progress=progress,
    ):
        result.truth[picture.name] = known
        for name, found in zip(detectors, answers, strict=True):
            result.found[name][picture.name] = found
            result.counts[name].append(count(known, found, hiding, picture.size))
        if len(result.tiles) < SHEET and hiding.chosen(known):
            regions = [hiding.region(hiding.chosen(found), picture.size) for found in answers]
            masked = [hide(picture.pixels, region, fill=hiding.fill, seed=hiding.seed) for region in regions]
            result.tiles.append(tile(f"{picture.name}: {', '.join(detectors)}", [picture.pixels, *masked]))
    return result


def _row(name: str, found: _Found, hiding: Hiding, config: AblateDetectorsConfig) -> DetectorRow:
    table = np.array([astuple(counts) for counts in found.counts[name]], dtype=np.float64)
    shares = pool(table.sum(axis=0))
    generator = np.random.default_rng(config.seed)
    intervals = bootstrap_pooled(table, pool, generator=generator, resamples=config.resamples, level=config.level)
    precisions = [average_precision(found.truth, found.found[name], label) for label in hiding.labels]
    # As COCO's own mean: what the images do not hold is left out.
    known = [both for both in precisions if np.isfinite(both).all()] or [(np.nan, np.nan)]
    precision, at_half = map(float, np.mean(known, axis=0))
    return DetectorRow(
        detector=name,
        overlap=Overlap(*map(float, shares)),
        intervals=dict(zip(("recall", "iou", "visible", "beside"), intervals, strict=True)),
        precision=precision,
        precision_50=at_half,
        people=sum(len(hiding.chosen(instances)) for instances in found.found[name].values()),
        of=sum(len(hiding.chosen(instances)) for instances in found.truth.values()),
        images=len(table),
    )


def _entry(row: DetectorRow) -> dict[str, object]:
    """A row of ``detectors.json``: fractions, absent values null."""
    shares = {name: getattr(row.overlap, name) for name in row.intervals}
    intervals = {f"{name}_ci": ends and [ends.low, ends.high] for name, ends in row.intervals.items()}
    numbers = {**shares, "average_precision": row.precision, "average_precision_50": row.precision_50}
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    counted = {"people_found": row.people, "people": row.of, "images": row.images}
    return {"detector": row.detector, **finite, **intervals, **counted}


def command(config: AblateDetectorsConfig) -> None:
    """Compare detectors with ground truth: what each finds of people and, with captions, what judges then measure.

    Takes the settings file and the options of judge evaluate; without --human, only detectors are compared. Leaves
    detectors.json, contact_sheet.png and ablate.yaml in --out. Exit code 1: some images could not be read.
    """
    from judge.masking.images import SHEET_NAME
    from judge.report.ablations import agreement_lines, detector_scores, detector_table
    from judge.report.render import print_table
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        found = ablate_detectors(config, progress=progress)
    if not is_main_process():
        return
    if not found.rows:
        tell_failures(found.failures, len(found.failures), "read")
    print_table(detector_table(found.rows))
    if found.results:
        print_table(detector_scores(found.results))
        for line in agreement_lines(found.agreements, next(iter(found.results))):
            say(line)
        say("")
    say(f"The results are in {config.out}; look at {config.out / SHEET_NAME}")
    tell_failures(found.failures, len(found.failures) + found.rows[0].images, "read")

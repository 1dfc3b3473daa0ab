"""``judge ablate``: the same question asked with one thing exchanged."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field

import numpy as np

from judge.commands.ablate_masks import run_each, seeing
from judge.commands.pictures import choose_hiding, open_detector, picture_names
from judge.config import AblateDetectorsConfig
from judge.errors import JudgeError
from judge.masking.detectors import Detector, detect_each
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import SHEET, Hiding
from judge.masking.images import SHEET_NAME, encode, read_picture
from judge.masking.instances import Instance, Picture
from judge.masking.overlap import Counts, DetectorRow, Overlap, average_precision, count, pool
from judge.masking.people import hide
from judge.masking.sheet import Tile, contact_sheet, tile
from judge.measure import Result
from judge.report.directory import summary_row
from judge.statistics.correlation import Agreement, agreements
from judge.statistics.intervals import bootstrap_pooled
from judge.types import Progress
from judge.utils.files import OutputFolder

FIGURES = "detectors.json"
_BATCH = 8  # Pictures that a detector sees at a time.


@dataclass
class _Seen:
    """What all detectors saw, picture by picture."""

    truth: dict[str, tuple[Instance, ...]] = field(default_factory=dict)
    found: dict[str, dict[str, tuple[Instance, ...]]] = field(default_factory=dict)
    counts: dict[str, list[Counts]] = field(default_factory=dict)
    failures: list[tuple[str, JudgeError]] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)

    @property
    def faults(self) -> tuple[tuple[str, JudgeError], ...]:
        """The first of each picture: several detectors may fail at one."""
        return tuple({name: (name, fault) for name, fault in self.failures[::-1]}.values())[::-1]


@dataclass(frozen=True, slots=True)
class DetectorAblation:
    """What was found.

    Attributes:
        rows: one per detector: what it finds.
        failures: the pictures that could not be looked at.
        results: detector -> what judges measure where it hides people; empty where no captions were given.
        agreements: of amplifications with those of the first detector.
    """

    rows: tuple[DetectorRow, ...]
    failures: tuple[tuple[str, JudgeError], ...]
    results: Mapping[str, Result] = field(default_factory=dict)
    agreements: Sequence[Agreement] = ()


def ablate_detectors(config: AblateDetectorsConfig, *, progress: Progress | None = None) -> DetectorAblation:
    """Compare detectors with ground truth on the pictures of ``config.instances``.

    Where captions are given, judges are trained and scored with each too (ImageCaptioner2's Table 6). Writes
    ``detectors.json``, ``contact_sheet.png`` (what each leaves visible) and ``ablate.yaml`` to ``config.out``.

    Raises:
        JudgeError: what concerns all pictures; faults of single ones are in the result's ``failures``.
    """
    out = OutputFolder(config.out, marker=FIGURES, what="ablation", overwrite=config.overwrite)
    out.check()
    out.keep(config.inputs())
    hiding, _ = choose_hiding(config, config.mask, seed=config.seed)
    truth = GroundTruth.read(config.instances, labels=hiding.labels)
    detectors = {
        name: open_detector(name, config, hiding.labels, device=config.device, batch=_BATCH, progress=progress)
        for name in config.detectors
    }
    names, _ = picture_names(config.images, truth)
    seen = _look(names, truth, detectors=detectors, hiding=hiding, config=config, progress=progress)
    seen.failures += truth.strays
    if not seen.truth:
        return DetectorAblation((), seen.faults)
    results, agree = _judge(config, progress) if config.human else ({}, [])
    if progress:
        progress("intervals", 0, 0)
    rows = tuple(_row(name, seen, hiding, config) for name in config.detectors)
    out.begin()
    with out.working(), out.mendable():
        judged = {
            name: [summary_row(summary, config.attribute) for summary in result.summaries]
            for name, result in results.items()
        }
        found = {
            "results": [_entry(row) for row in rows],
            "judges": judged,
            "agreement": [asdict(row) | {"metric": row.metric.name} for row in agree],
        }
        text = json.dumps(found, indent=2, allow_nan=False)
        (out.partial / FIGURES).write_text(text + "\n", encoding="utf-8")
        (out.partial / SHEET_NAME).write_bytes(encode(contact_sheet(seen.tiles)))
        (out.partial / "ablate.yaml").write_text(config.to_yaml(), encoding="utf-8")
        out.publish()
    return DetectorAblation(rows, seen.faults, results, agree)


def _judge(config: AblateDetectorsConfig, progress: Progress | None) -> tuple[dict[str, Result], list[Agreement]]:
    """The same run with each detector."""
    metrics = seeing(config.metrics)
    results = run_each(
        config, {name: {"detector": name, "metrics": metrics} for name in config.detectors}, progress=progress
    )
    summaries = {name: found.summaries for name, found in results.items()}
    return results, agreements(summaries, level=config.level)


def _look(
    names: Sequence[str],
    truth: GroundTruth,
    *,
    detectors: Mapping[str, Detector],
    hiding: Hiding,
    config: AblateDetectorsConfig,
    progress: Progress | None,
) -> _Seen:
    seen = _Seen(found={name: {} for name in detectors}, counts={name: [] for name in detectors})
    for start in range(0, len(names), _BATCH):
        pictures, known = [], []
        for name in names[start : start + _BATCH]:
            try:
                picture = read_picture(config.images, name, max_pixels=config.max_pixels)
                known.append(truth.detect([picture])[0])
                pictures.append(picture)
            except JudgeError as error:
                seen.failures.append((name, error))
        answers = {name: detect_each(detector, pictures, seen.failures) for name, detector in detectors.items()}
        for index, (picture, instances) in enumerate(zip(pictures, known, strict=True)):
            found = {name: answer for name, answers_of in answers.items() if (answer := answers_of[index]) is not None}
            # What one detector could not look at, none is judged by.
            if len(found) == len(detectors):
                _compare(seen, picture, instances, found, hiding)
        if progress:
            progress("looking for people", min(start + _BATCH, len(names)), len(names))
    return seen


def _compare(
    seen: _Seen,
    picture: Picture,
    truth: tuple[Instance, ...],
    answers: Mapping[str, tuple[Instance, ...]],
    hiding: Hiding,
) -> None:
    height, width = picture.pixels.shape[:2]
    seen.truth[picture.name] = truth
    for name, found in answers.items():
        seen.found[name][picture.name] = found
        seen.counts[name].append(count(truth, found, hiding, (height, width)))
    if len(seen.tiles) < SHEET and hiding.chosen(truth):
        regions = [hiding.region(hiding.chosen(found), (height, width)) for found in answers.values()]
        panels = [
            picture.pixels,
            *(hide(picture.pixels, region, fill=hiding.fill, seed=hiding.seed) for region in regions),
        ]
        seen.tiles.append(tile(f"{picture.name}: {', '.join(answers)}", panels))


def _row(name: str, seen: _Seen, hiding: Hiding, config: AblateDetectorsConfig) -> DetectorRow:
    table = np.array([astuple(counts) for counts in seen.counts[name]], dtype=np.float64)
    shares = pool(table.sum(axis=0))
    generator = np.random.default_rng(config.seed)
    intervals = bootstrap_pooled(table, pool, generator=generator, resamples=config.resamples, level=config.level)
    precisions = [average_precision(seen.truth, seen.found[name], label) for label in hiding.labels]
    # As COCO's own mean: what the pictures do not hold is left out.
    known = [found for found in precisions if np.isfinite(found).all()] or [(np.nan, np.nan)]
    precision, at_half = map(float, np.mean(known, axis=0))
    return DetectorRow(
        detector=name,
        overlap=Overlap(*map(float, shares)),
        intervals=dict(zip(("recall", "iou", "visible", "beside"), intervals, strict=True)),
        precision=precision,
        precision_50=at_half,
        people=sum(len(hiding.chosen(found)) for found in seen.found[name].values()),
        of=sum(len(hiding.chosen(found)) for found in seen.truth.values()),
        pictures=len(table),
    )


def _entry(row: DetectorRow) -> dict[str, object]:
    """A row of ``detectors.json``: fractions, absent values null."""
    shares = {name: getattr(row.overlap, name) for name in row.intervals}
    intervals = {f"{name}_ci": found and [found.low, found.high] for name, found in row.intervals.items()}
    numbers = {**shares, "average_precision": row.precision, "average_precision_50": row.precision_50}
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    counted = {"people_found": row.people, "people": row.of, "pictures": row.pictures}
    return {"detector": row.detector, **finite, **intervals, **counted}

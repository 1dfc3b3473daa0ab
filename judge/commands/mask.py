"""``judge mask``: a folder of images with people, or things, hidden."""

from importlib.metadata import version
from pathlib import Path

import pandas as pd

from judge.commands.console import report_failures, say, show_progress
from judge.commands.images import image_names, open_masking, refuse_unmasked
from judge.config import OutputSettings
from judge.config.inputs import FolderSettings
from judge.config.values import Mode, listed
from judge.errors import JudgeError
from judge.masking.detectors import Detector
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import Finished, Masked, MaskFolder
from judge.masking.images import SHEET_NAME, TABLE_NAME, encode
from judge.masking.instances import PERSON
from judge.masking.masked_images import doubts_of
from judge.masking.measured import MaskStatistics, describe_masks, measure_masks
from judge.masking.people import Hiding
from judge.types import Progress
from judge.utils.files import LOG, remove_empty, resolved
from judge.utils.identity import stamps_of
from judge.utils.options import option
from judge.utils.outputs import MANIFEST, OutputFolder, names_in


class MaskConfig(OutputSettings, FolderSettings):
    """Options of ``judge mask``."""

    command = "judge mask"
    panel = "Images"

    mode: Mode = option("segment", "what of each instance is hidden: upper part, mask, or box", essential=True)
    workers: int | None = option(None, "images masked in parallel", "one per core", ge=1, le=1024)
    out: Path = option(..., "folder for the masked images", "runs/masked", essential=True)


SETTINGS = "mask.yaml"
_STORE, _FINISHED = ".finished", "images.jsonl"  # Hidden: no folder of images is called so.


def mask(config: MaskConfig, *, progress: Progress | None = None) -> tuple[Masked, list[str]]:
    """Mask the images of a folder; return the rows and failures, and what to print about them, a line each.

    A command that was killed, or met an error, goes on. Where no image can be masked, nothing is written.
    """
    out = OutputFolder(
        config.out, what="folder of masked images", command=config.command, overwrite=config.overwrite, store=_STORE
    )
    if out.path.is_relative_to(resolved(config.images)):
        raise JudgeError("lies in the folder of images", where=out.where, mend="name another folder")
    out.check(config.inputs())
    hiding, detector, beside, correlated = open_masking(config, config.mode)
    truth = detector if isinstance(detector, GroundTruth) else None
    names, left_out = image_names(config.images, truth)
    out.begin()
    with out.working(), out.writing():
        reserved = {TABLE_NAME, SHEET_NAME, SETTINGS, LOG, MANIFEST, _STORE}
        finished = Finished(out.store / _FINISHED, out.partial, _key(config, hiding, detector))
        job = MaskFolder(config.images, out.partial, detector, hiding, reserved, finished, beside)
        masked = job.run(names, workers=config.workers, progress=progress)
        masked.failures += truth.strays if truth else ()
        statistics = [row.statistics for row in masked.rows]
        masks = measure_masks(statistics, hides_people=PERSON in hiding.labels)
        doubts = doubts_of(detector, hiding, statistics)
        refuse_unmasked(config, masks, doubts)
        if not masked.rows:
            out.discard()
            return masked, []
        # Remove images that a killed command of other settings, or on other images, left.
        wanted = {row.masked for row in masked.rows} | reserved
        others = [name for name in names_in(out.partial) if name not in wanted and not name.startswith(_STORE)]
        for name in others:
            if not name.endswith("/"):
                (out.partial / name).unlink()
        remove_empty(out.partial / name for name in reversed(others) if name.endswith("/"))
        columns = [(row.image, row.masked, row.statistics.instances, row.statistics.share) for row in masked.rows]
        rows = pd.DataFrame(columns, columns=["image", "masked", "instances", "share_hidden"])
        rows = rows.assign(detector=config.detector, mode=config.mode)
        rows.to_parquet(out.partial / TABLE_NAME, index=False)
        out.write({SHEET_NAME: encode(masked.sheet()), SETTINGS: config.to_yaml()})
        out.log("finished")
        out.publish()
    lines = []
    if correlated:
        share = f"{correlated.share:.0%} of {correlated.images} images with it are {correlated.class_}"
        lines.append(f"Hidden object: {correlated.category} ({share})")
    things = " or ".join(hiding.labels) or config.hide
    with_any, instances = sum(row.share > 0 for row in statistics), sum(row.instances for row in statistics)
    lines.append(
        f"{len(masked.rows)} images masked; {with_any} ({with_any / len(masked.rows):.1%}) hold "
        f"{things}; {instances} instances, {masks['pixels']:.1%} of the pixels hidden"
    )
    notes = [*([describe_masks(masks)] if masks["recall"] is not None else []), *doubts]
    if left_out:
        notes.append(f"{left_out} images of the folder are not in the instances file; they were left out")
    return masked, [*lines, *(f"NOTE: {note}" for note in notes)]


def _key(config: MaskConfig, hiding: Hiding, detector: Detector) -> str:
    """All that a masked image depends on, apart from the image itself."""
    import cv2

    packages = version("caption-judge"), cv2.__version__
    named = config.person_categories, [(name, file.read_bytes()) for name, file in config.class_names.items()]
    settings = hiding, detector.key, stamps_of(listed(config.instances)), named
    return repr((packages, MaskStatistics._fields, *settings))


def command(config: MaskConfig) -> None:
    """Hide people or objects in a folder of images, at the same size and without loss.

    Leaves the masked images, masks.parquet, contact_sheet.png, mask.yaml and log.jsonl in --out. Exit code 1: some
    images could not be masked; five are named for each fault.
    """
    with show_progress() as progress:
        masked, lines = mask(config, progress=progress)
    if lines:
        say(*lines, f"They are in {config.out}; look at {config.out / SHEET_NAME}")
    report_failures(masked.failures, len(masked.rows) + len(masked.failures), "masked")

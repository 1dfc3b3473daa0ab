"""``judge mask``: a folder of pictures with people, or things, hidden."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from judge.commands.pictures import Correlated, picture_names, prepare_masking
from judge.config import MaskConfig
from judge.errors import JudgeError
from judge.masking.detectors.ground_truth import GroundTruth
from judge.masking.folder import Masked, MaskFolder
from judge.masking.images import SHEET_NAME, TABLE_NAME, encode
from judge.types import Progress
from judge.utils.folders import OutputFolder

SETTINGS = "mask.yaml"


@dataclass(frozen=True, slots=True)
class MaskedFolder:
    """The output of ``judge mask``.

    Attributes:
        masked: the rows of ``masks.parquet``, and the failures.
        left_out: pictures of the folder that the instances file does not list.
        hidden: the categories hidden.
        correlated: how the object was chosen, where BA chose it.
    """

    masked: Masked
    left_out: int
    hidden: tuple[str, ...]
    correlated: Correlated | None


def mask(config: MaskConfig, *, progress: Progress | None = None) -> MaskedFolder:
    """Mask the pictures of a folder; write them, ``masks.parquet``, a contact sheet and ``mask.yaml`` to ``out``.

    ``masks.parquet``, a row per masked picture: image (its name), masked (the masked picture's name), instances (how
    many were hidden), share_hidden (of its pixels, in [0, 1]), detector, mode.

    Raises:
        JudgeError: what concerns the whole folder. Faults of single pictures are in the result's ``failures``; where
            none could be masked, nothing is written.
    """
    out = OutputFolder(config.out, what="folder of masked pictures", overwrite=config.overwrite)
    if out.path.is_relative_to(config.images.resolve()):
        raise JudgeError("lies in the folder of pictures", where=out.where, mend="name another folder")
    out.check(config.inputs())
    hiding, correlated, detector = prepare_masking(config, config.mode, batch=config.batch_size, progress=progress)
    truth = detector if isinstance(detector, GroundTruth) else None
    names, left_out = picture_names(config.images, truth)
    out.begin()
    with out.working(), out.writing():
        reserved = {TABLE_NAME, SHEET_NAME, SETTINGS}
        job = MaskFolder(config.images, out.partial, detector, hiding, config.format, config.max_pixels, reserved)
        masked = job.run(names, workers=config.workers, progress=progress)
        masked.failures += truth.strays if truth else ()
        if masked.rows:
            _write(masked, config, out.partial)
            out.publish()
        else:
            out.discard()
    return MaskedFolder(masked, left_out, hiding.labels, correlated)


def _write(masked: Masked, config: MaskConfig, folder: Path) -> None:
    import pandas as pd

    rows = pd.DataFrame(map(asdict, masked.rows)).assign(detector=config.detector, mode=config.mode)
    rows.to_parquet(folder / TABLE_NAME, index=False)
    (folder / SHEET_NAME).write_bytes(encode(masked.sheet()))
    (folder / SETTINGS).write_text(config.to_yaml(), encoding="utf-8")

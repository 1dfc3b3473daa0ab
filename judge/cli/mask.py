"""``judge mask``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress, tell_failures

if TYPE_CHECKING:
    from judge.config import MaskConfig


def mask(config: MaskConfig) -> None:
    """Hide people or objects in a folder of images, at the same size and without loss.

    Leaves the masked images, masks.parquet, contact_sheet.png, mask.yaml and log.jsonl in --out. Exit code 1: some
    images could not be masked; five are named for each fault.
    """
    from judge.commands.mask import mask as run_mask
    from judge.masking.images import SHEET_NAME
    from judge.masking.measured import describe_masks

    with show_progress() as progress:
        found = run_mask(config, progress=progress)
    rows, failures = found.masked.rows, found.masked.failures
    if not rows:
        tell_failures(failures, len(failures), "masked")
    if correlated := found.correlated:
        say(
            f"Hidden object: {correlated.category} ({correlated.share:.0%} of {correlated.images} pictures with it are "
            f"{correlated.class_})"
        )
    with_any = sum(row.statistics.share > 0 for row in rows)
    say(
        f"{len(rows)} pictures masked; {with_any} ({with_any / len(rows):.1%}) hold {' or '.join(found.hidden)}; "
        f"{sum(row.statistics.instances for row in rows)} instances, {found.masks['pixels']:.1%} of the pixels hidden"
    )
    measured = [describe_masks(found.masks)] if found.masks["recall"] is not None else []
    for line in (*measured, *found.doubts):
        say(f"NOTE: {line}")
    if found.left_out:
        say(f"NOTE: {found.left_out} pictures of the folder are not in the instances file; they were left out")
    say(f"They are in {config.out}; look at {config.out / SHEET_NAME}")
    tell_failures(failures, len(rows) + len(failures), "masked")

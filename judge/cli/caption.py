"""``judge caption``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress, tell_failures

if TYPE_CHECKING:
    from judge.config import CaptionConfig


def caption(config: CaptionConfig) -> None:
    """Caption a folder of images with any checkpoint that transformers loads; nothing is sampled.

    Leaves COCO results in --out and the settings beside it. A killed run goes on where it was. Exit code 1: some
    images could not be captioned; five are named for each fault.
    """
    from judge.commands.caption import caption as run_caption
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        found = run_caption(config, progress=progress)
    if not is_main_process():
        return
    if found.captions:
        say(f"{found.captions} pictures captioned; the captions are in {config.out}")
    for line in found.notes:
        say(f"NOTE: {line}")
    if found.empty:
        say(f"NOTE: {found.empty} captions are empty")
    tell_failures(found.failures, found.captions + len(found.failures), "captioned")

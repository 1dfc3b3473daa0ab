"""``judge export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say

if TYPE_CHECKING:
    from judge.config import ExportConfig


def export(config: ExportConfig) -> None:
    """Make a folder to share of a judge that judge train left: weights, what they say, a model card.

    judge predict takes the folder, or its name on the Hugging Face hub, for --judge-weights.
    """
    from judge.commands.export import export as run_export

    found = run_export(config)
    say(f"judge '{found.judge}' is in {config.out}; README.md leaves the license to you")
    if found.address:
        say(f"uploaded to {found.address}")

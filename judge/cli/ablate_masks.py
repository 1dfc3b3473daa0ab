"""``judge ablate masks``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge.cli.shared import say, show_progress

if TYPE_CHECKING:
    from judge.config import AblateMasksConfig


def ablate_masks(config: AblateMasksConfig) -> None:
    """Vary what is hidden in the images, from captioners and from judges, and measure each time.

    Takes the settings file and the options of judge evaluate. A captioner given with --model captions the masked
    images anew; for one given with --captions, only the judges see less. Leaves masks.json and ablate.yaml in --out.
    """
    from judge.commands.ablate_masks import ablate_masks as run_ablation
    from judge.report.ablations import mask_table
    from judge.report.render import print_table
    from judge.utils.launch import is_main_process

    with show_progress() as progress:
        found = run_ablation(config, progress=progress)
    if is_main_process():
        print_table(mask_table(*found))
        say("")
        say(f"The results are in {config.out}")

"""``judge export``: a trained judge as a folder to share, with a model card."""

import json
from pathlib import Path

from judge.commands.console import say
from judge.commands.predict import open_saved
from judge.config import OutputSettings
from judge.config.judges import SavedJudgeSettings
from judge.errors import JudgeError
from judge.judges.names import HUGGING_FACE
from judge.report.cards import judge_card
from judge.training.judge_file import merge
from judge.training.scorer import WEIGHTS
from judge.utils.options import option
from judge.utils.outputs import OutputFolder


class ExportConfig(OutputSettings, SavedJudgeSettings):
    """Options of ``judge export``."""

    command = "judge export"
    panel = "Output"

    merge: bool = option(False, "export an hf: judge as a whole checkpoint, with LoRA adapters merged", essential=True)
    out: Path = option(..., "folder for the judge", "runs/judge", essential=True)


def command(config: ExportConfig) -> None:
    """Export a judge that judge train left to a folder to share: weights, judge.json (its settings), a model card.

    judge predict takes the folder for --judge-weights. With --merge the folder
    is a checkpoint of transformers too, which hf:FOLDER loads; its weights include the adapters that were trained.
    """
    out = OutputFolder(config.out, what="exported judge", overwrite=config.overwrite)
    out.check(config.inputs())
    saved = open_saved(config)
    if config.merge and not saved.judge.startswith(HUGGING_FACE):
        what = f"judge '{saved.judge}' is no captioner of transformers"
        raise JudgeError(what, where="--merge", mend="leave it out: the folder holds all that was trained")
    with out.making():
        if config.merge:
            merge(saved, out.partial, out.partial / WEIGHTS)
        else:
            out.write({WEIGHTS: saved.path.read_bytes()})
        notes = json.dumps({**saved.notes(), "merged": config.merge}, indent=1, ensure_ascii=False)
        out.write({"judge.json": f"{notes}\n", "README.md": judge_card(saved, merged=config.merge)})
    say(f"judge '{saved.judge}' is in {config.out}; README.md leaves the license to you")

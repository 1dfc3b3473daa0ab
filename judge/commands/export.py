"""``judge export``: a trained judge as a folder to share, with a model card; and its upload."""

from __future__ import annotations

import json
from pathlib import Path

from judge.commands.console import say
from judge.commands.predict import WEIGHTS, open_saved
from judge.config import OutputSettings
from judge.config.judges import SavedJudgeSettings
from judge.errors import JudgeError, require
from judge.judges import HUGGING_FACE
from judge.report.cards import judge_card
from judge.training.judge_file import merge
from judge.utils.hub import first_line, quiet
from judge.utils.options import option
from judge.utils.outputs import MANIFEST, OutputFolder


class ExportConfig(OutputSettings, SavedJudgeSettings):
    """Options of ``judge export``."""

    command = "judge export"
    panel = "Output"

    merge: bool = option(
        False, "hf: judges: a whole checkpoint of transformers, with LoRA adapters merged", essential=True
    )
    push_to_hub: str | None = option(
        None, "name on the Hugging Face hub to upload the folder to, as NAME/JUDGE", essential=True
    )
    public: bool = option(False, "let everybody see a repository that --push-to-hub makes")
    out: Path = option(..., "folder for the judge", "runs/judge", essential=True)


SETTINGS = "judge.json"


def export(config: ExportConfig) -> tuple[str, str | None]:
    """Write a judge's weights, ``judge.json`` (its settings) and ``README.md`` (a model card) to a folder.

    With ``merge`` the folder is a checkpoint of transformers too, which ``hf:FOLDER`` loads: all that was trained is
    in its weights, adapters included.

    Returns:
        The judge's name, and the address that it was uploaded to, if it was.

    Raises:
        JudgeError: anything that the user can mend. Where the upload failed, the folder stays.
    """
    out = OutputFolder(config.out, what="exported judge", overwrite=config.overwrite)
    out.check(config.inputs())
    saved = open_saved(config)
    if config.merge and not saved.judge.startswith(HUGGING_FACE):
        what = f"judge '{saved.judge}' is no captioner of transformers"
        raise JudgeError(what, where="--merge", mend="leave it out: the folder holds all that was trained")
    out.begin()
    with out.working(), out.writing():
        if config.merge:
            merge(saved, out.partial, out.partial / WEIGHTS)
        else:
            (out.partial / WEIGHTS).write_bytes(saved.path.read_bytes())
        notes = json.dumps({**saved.notes(), "merged": config.merge}, indent=1, ensure_ascii=False)
        (out.partial / SETTINGS).write_text(f"{notes}\n", encoding="utf-8")
        (out.partial / "README.md").write_text(judge_card(saved, merged=config.merge), encoding="utf-8")
        out.publish()
    return saved.judge, _push(config) if config.push_to_hub else None


def _push(config: ExportConfig) -> str:
    """Upload the folder; a new repository is private without --public.

    Raises:
        JudgeError: no right to write there, or no network.
    """
    require("vision", "huggingface_hub")
    from huggingface_hub import HfApi

    name = str(config.push_to_hub)
    try:
        with quiet():
            hub = HfApi()
            repository = hub.create_repo(name, private=not config.public, exist_ok=True)
            hub.upload_folder(
                repo_id=repository.repo_id,
                folder_path=config.out,
                commit_message="A trained judge",
                ignore_patterns=[MANIFEST],
            )
    except Exception as error:  # The hub's client, requests and the file system each have their own.
        what = f"cannot be uploaded ({first_line(error)})"
        mend = f"log in (hf auth login), and upload {config.out}, which is whole: hf upload {name} {config.out}"
        raise JudgeError(what, where=f"--push-to-hub {name}", mend=mend) from error
    return str(repository)


def command(config: ExportConfig) -> None:
    """Export a judge that judge train left to a folder to share: weights, settings, a model card.

    judge predict takes the folder, or its name on the Hugging Face hub, for --judge-weights.
    """
    judge, address = export(config)
    say(f"judge '{judge}' is in {config.out}; README.md leaves the license to you")
    if address:
        say(f"uploaded to {address}")

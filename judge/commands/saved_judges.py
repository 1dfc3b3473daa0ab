"""A trained judge that settings name: a file, a folder of ``judge export``, or such a folder on the hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from judge.config.judges import SavedJudgeSettings
from judge.errors import JudgeError, require
from judge.training.judge_file import Saved, read_saved
from judge.utils.files import from_home
from judge.utils.hub import first_line, quiet
from judge.utils.reading import named_alike

WEIGHTS = "judge.safetensors"
# Of a folder on the hub nothing else is fetched.
_FETCHED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]


def open_saved(config: SavedJudgeSettings) -> Saved:
    """What the file says, with what the settings say in its place.

    Raises:
        JudgeError: no such file, folder or name; as ``read_saved``.
    """
    path = _find(config)
    saved = read_saved(path)
    if not saved.trains_itself:
        require("vision", "torch", "accelerate")
    # A judge that was merged is asked as the checkpoint that it lies beside.
    merged = path.name == WEIGHTS and (path.parent / "config.json").is_file()
    base = config.base or (str(path.parent) if merged else None)
    saved = saved.moved(base) if base else saved
    if config.backbone_weights is None:
        return saved
    return replace(saved, materials=replace(saved.materials, backbone_weights=config.backbone_weights))


def _find(config: SavedJudgeSettings) -> Path:
    given = from_home(config.judge_weights)
    where = f"--judge-weights {config.judge_weights}"
    if given.is_file():
        return given
    if not given.is_dir():
        name = config.judge_weights
        path = given.is_absolute() or given.is_symlink() or name.startswith((".", "~")) or name.count("/") > 1
        if path or given.suffix == ".safetensors":
            raise JudgeError("no such file or folder", where=where, mend=named_alike(given))
        given = _fetch(name, config.revision, where)
    if not (given / WEIGHTS).is_file():
        mend = "name a NAME.weights.safetensors in it; judges.json says which is whose"
        if not any(given.glob("*.weights.safetensors")):
            mend = "give the folder that judge export made, or a NAME.weights.safetensors of judge train"
        raise JudgeError(f"holds no {WEIGHTS}, as judge export writes it", where=where, mend=mend)
    return given / WEIGHTS


def _fetch(name: str, revision: str | None, where: str) -> Path:
    """The folder of a name on the hub, in the hub's cache."""
    require("vision", "huggingface_hub")
    from huggingface_hub import snapshot_download

    try:
        with quiet():
            return Path(snapshot_download(name, revision=revision, allow_patterns=_FETCHED))
    except Exception as error:  # The hub's client, requests and the file system each have their own.
        mend = "check the name; it needs the network, or the hub's cache"
        raise JudgeError(f"cannot be fetched ({first_line(error)})", where=where, mend=mend) from error

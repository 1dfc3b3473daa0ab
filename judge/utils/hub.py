"""What every loader of a Hugging Face checkpoint needs: silence, short reasons, its place, its configuration."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

from judge.errors import JudgeError
from judge.utils.files import from_home
from judge.utils.reading import LAYERS, POSITIONS, named_alike

_UNKNOWN = "check the name, or give the folder of a checkpoint; a name needs the network, or the hub's cache"
_AGAIN = "fetch or save the checkpoint again"
_NOWHERE = "is no folder here, and cannot be fetched from the hub"
_FETCHING = "check the path, the name and the connection, or give the folder that hf download makes"
NO_WEIGHTS = "there are no weights in safetensors"
CONVERT = "convert them with transformers' save_pretrained; pickles are never loaded"
# Endings of files that users name in place of a checkpoint's folder.
_OF_FILES = {".bin", ".ckpt", ".csv", ".gz", ".json", ".onnx", ".pt", ".pth", ".safetensors", ".txt", ".vec", ".yaml"}
#: Files of a checkpoint's folder that loaders read.
READ = "*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"
_found: dict[tuple[str, str], Path] = {}
# Parts of a field's name -> what it may not exceed.
_LIMITED = {("layer", "depth", "num_image_with_embedding"): LAYERS, ("position", "length", "ctx"): POSITIONS}


@contextmanager
def quiet_hub() -> Iterator[None]:
    """No warnings of the hub, such as that it tries again, and of timm; the user's own level comes back after it."""
    levels = {logger: logger.level for logger in map(logging.getLogger, ("huggingface_hub", "timm"))}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, no progress bars of transformers, its hub and peft; the user's own settings come back after it."""
    import transformers

    talk: Any = transformers.logging
    level, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity(logging.CRITICAL)
    talk.disable_progress_bar()
    try:
        with quiet_hub(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        talk.set_verbosity(level)
        if bars:
            talk.enable_progress_bar()


def is_of_library(error: BaseException) -> bool:
    """Whether a library found fault with what it read: also in Rust, whose panics are no Exceptions."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def first_line(error: BaseException) -> str:
    """What a library says, short enough for a line."""
    text = str(error).strip() or type(error).__name__
    return shorten(text.splitlines()[0].rstrip(" .:"), 160, placeholder=" ...")


@contextmanager
def explaining(what: str, where: str, mend: str) -> Iterator[None]:
    """Turn an error of a library into a JudgeError: ``what``, and the library's reason in brackets."""
    try:
        yield
    except JudgeError:
        raise
    except Exception as error:
        raise JudgeError(f"{what} ({first_line(error)})", where=where, mend=mend) from error


def needs_code(where: str) -> JudgeError:
    """The error of a checkpoint that transformers loads only with its own code."""
    what = "needs code of its own, which would run with your rights; it is refused"
    mend = "choose a checkpoint that transformers loads by itself (trust_remote_code is never on)"
    return JudgeError(what, where=where, mend=mend)


@contextmanager
def loading(what: str, where: str, mend: str) -> Iterator[None]:
    """As :func:`explaining`, with messages for missing safetensors, code of a checkpoint's own, and panics in Rust."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, JudgeError) or not is_of_library(error):
            raise
        if "trust_remote_code" in str(error):
            raise needs_code(where) from error
        if "safetensors" in str(error) and isinstance(error, OSError):
            raise JudgeError(NO_WEIGHTS, where=where, mend=CONVERT) from error
        if isinstance(error, ImportError):
            missing = f"needs a package that is not installed ({first_line(error)})"
            raise JudgeError(missing, where=where, mend="install it") from error
        if not isinstance(error, Exception):  # A panic in Rust, thus in the tokenizer.
            what, mend = "its tokenizer is damaged", _AGAIN
        raise JudgeError(f"{what} ({first_line(error)})", where=where, mend=mend) from error


def load_model(loader: Any, name: str, where: str, **options: Any) -> Any:
    """A model of the auto class ``loader``, of safetensors alone; a JudgeError where weights are missing or bad."""
    return load_with_notes(loader, name, where, **options)[0]


def load_with_notes(loader: Any, name: str, where: str, **options: Any) -> tuple[Any, list[str]]:
    """As :func:`load_model`; and the weights of a pooler or a loss that are not saved, which are random."""
    import torch

    options |= {"trust_remote_code": False, "use_safetensors": True, "output_loading_info": True}
    # On ``meta`` first: missing weights would be initialised, of whatever size the configuration claims.
    for device in dict.fromkeys((torch.device("meta"), options.pop("device_map", None))):
        with loading("the weights cannot be read", where, _AGAIN):
            model, notes = loader.from_pretrained(name, device_map=device, **options)
        # The pooler and the loss are not used, and often not saved.
        missing = sorted(key for key in notes["missing_keys"] if "pooler" not in key and "criterion." not in key)
        if missing or notes["mismatched_keys"]:
            what = f"weights are missing or of another shape ({', '.join(missing[:2]) or 'sizes differ'})"
            raise JudgeError(what, where=where, mend=_AGAIN)
    return model.eval(), sorted(notes["missing_keys"])


def load_image_processor(name: str, where: str) -> Any:
    """The image processor of a checkpoint; a JudgeError where it is missing or bad."""
    import transformers

    processors: Any = transformers.AutoImageProcessor
    mend = "save it beside the weights (processor.save_pretrained)"
    with loading("its image processor is missing or at fault", where, mend):
        return processors.from_pretrained(name, trust_remote_code=False)


def knows_words(tokenizer: Any) -> bool:
    """Whether it has any: without its files transformers 5 makes a tokenizer of special tokens alone."""
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return not special.issuperset(tokenizer.get_vocab().values())


def locate(reference: str, where: str, *, mend: str = _UNKNOWN) -> str:
    """The path of a checkpoint's folder without pipes; of ``NAME`` or ``NAME@REVISION``, that in the hub's cache."""
    path = from_home(reference)
    if path.is_dir():
        for file in (*path.glob("*"), *path.glob("*/*")):
            usual = True
            with suppress(OSError):  # An unreadable file is reported when it is opened.
                usual = not file.exists() or file.is_file() or file.is_dir()
            if not usual:
                raise JudgeError(f"{file.relative_to(path)} is not a regular file", where=where, mend="remove it")
        return str(path)
    if advice := advice_on_path(reference):
        raise JudgeError("no such folder", where=where, mend=advice)
    alike = named_alike(path)  # A folder here may be meant.
    with quiet():
        return str(fetch(reference, where, what="cannot be found", mend=alike if alike.endswith("?") else mend))


def advice_on_path(reference: str) -> str:
    """Advice on a ``reference`` that is a path of nothing; "" for a name on the hub, which may be slow to answer."""
    path, (first, within, _) = from_home(reference), reference.partition("/")
    plain = not reference.strip() or path.is_absolute() or path.is_symlink() or reference.startswith((".", "~"))
    plain = plain or path.suffix.lower() in _OF_FILES
    if not plain and not (within and Path(first).is_dir()):
        return ""
    if path.is_file():
        return "it is a file: name the folder of the checkpoint, which holds config.json"
    alike = named_alike(path)
    return alike if plain or alike.endswith("?") else f"{alike}; the hub is not asked, as '{first}' is a folder here"


def fetch(reference: str, where: str, *, what: str = _NOWHERE, mend: str = _FETCHING) -> Path:
    """The folder of ``NAME`` or ``NAME@REVISION`` in the hub's cache; no code and no pickles are fetched.

    The hub is asked once in a process, so that all judges of a run start from one commit.
    """
    from huggingface_hub import constants, snapshot_download

    name, _, revision = reference.partition("@")
    known = _found.get(key := (reference, str(constants.HF_HUB_CACHE)))
    if known and known.is_dir():
        named = known.parents[1] / "refs" / (revision or "main")
        if not named.is_file() or named.read_text("utf-8").strip() == known.name:  # A commit has no file in refs.
            return known
    with explaining(what, where, mend), quiet_hub():
        _found[key] = Path(snapshot_download(name, revision=revision or None, allow_patterns=[*READ]))
    return _found[key]


def read_config(name: str, where: str, *, mend: str = _UNKNOWN) -> dict[str, Any]:
    """The configuration of a checkpoint in a folder, read before its weights; sizes over the limits are refused."""
    from transformers import PreTrainedConfig

    with explaining("cannot be found", where, mend):
        config: Any = PreTrainedConfig.get_config_dict(name)[0]
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str) or not kind:
        mend = "name the folder that holds it"
        raise JudgeError("no checkpoint of transformers is there (config.json)", where=where, mend=mend)
    left: list[Any] = [config]
    while left:  # However deep mappings lie in each other.
        for field, held in left.pop().items():
            if isinstance(held, dict):
                left.append(held)
            limits = (limit for words, limit in _LIMITED.items() if any(word in field for word in words))
            if isinstance(held, int) and (limit := next(limits, None)):
                limit.refuse(held, f"{where}, config.json, '{field}'")
    return dict(config)

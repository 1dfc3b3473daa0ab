"""Names of judges: what they mean, which blueprint is of a name, and how metrics and settings change them."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from judge.errors import JudgeError, nearest, require
from judge.judges import Blueprint, Modality
from judge.utils.plugins import load_plugin, origin, plugins

_ENCODERS = "lstm", "lstm-bidirectional", "rnn", "rnn-bidirectional", "transformer-1", "transformer-5"
# Name -> module with its blueprint, imported on first use.
FILES: dict[str, str] = {
    **dict.fromkeys(("linear", "linear+image"), "linear"),
    **dict.fromkeys(_ENCODERS, "encoders"),
    **dict.fromkeys(("bert-ft", "bert-pre"), "text_encoders"),
    **dict.fromkeys(("sat", "sat-512"), "sat"),
    "grit": "grit",
    **dict.fromkeys(("vl-lic", "vl-lic-lstm"), "text_encoders"),
}
READING = "+reading"
"""Suffix of a Hugging Face captioner that is a frozen reader (``--tuning reading``)."""
# Judges named by a checkpoint, on the hub or in a folder: prefix -> module whose ``make_blueprint`` takes the rest.
HUGGING_FACE, SENTENCE = "hf:", "sentence:"
PREFIXES = {HUGGING_FACE: "huggingface", SENTENCE: "text_encoders"}
# Judges that accept an MLP, which a metric's paper chooses: "rnn+mlp3", "sentence:all-MiniLM-L6-v2+mlp5".
HEADED = frozenset(_ENCODERS)
HEADS = (3, 5)
# Linear judges that read a static embedding; its reference may follow: "words+embedding:PATH".
EMBEDDED = ("words+embedding", "embedding", "best", "words+embedding+image")
DEFAULT_JUDGE, SEEING = EMBEDDED[0], EMBEDDED[-1]
# Beside timm's names of backbones, and "hf:NAME": random patches of a run's images.
PATCHES = "patches"
# Stands for the checkpoint that wrote the captions: ImageCaptioner2's self-assessment.
SELF = "self"
# Suffix of a judge's name -> the modality that is blanked.
BLANKED: dict[str, Modality] = {"-image-only": "caption", "-caption-only": "image"}


def find_judge(name: str) -> Blueprint:
    """The blueprint called ``name``.

    A suffix blanks a modality ("sat-image-only"). "hf:NAME" is any Hugging Face captioner, by name or folder, with
    "+reading" as a frozen reader, and "sentence:NAME" any sentence encoder. "+mlp3" and "+mlp5" put an MLP of 3 or 5
    layers on an encoder; the default is 3, except for "lstm", which has LIC's linear layer. "self" has a name only;
    see :func:`name_self`.

    Raises:
        JudgeError: no such judge (the nearest name is suggested), or its extra is not installed.
    """
    name = name.strip()
    key = name.lower()
    if plugin := load_plugin("judges", key, Blueprint, [*EMBEDDED, *FILES, SELF]):
        return replace(plugin, name=key, origin=origin("judges", key))
    for suffix, blanked in BLANKED.items():
        if key.endswith(suffix):
            unblanked = find_judge(name[: -len(suffix)])
            left = unblanked.modalities - unblanked.blanked
            if len(left) < 2:
                what = f"judge '{unblanked.name}' reads the {next(iter(left))} alone"
                raise JudgeError(what, where="--judge", mend=f"use '{unblanked.name}'")
            return replace(unblanked, name=unblanked.name + suffix, blanked=frozenset({blanked}))
    prefix = key.partition(":")[0] + ":"
    if prefix[:-1] in EMBEDDED:
        found: Blueprint = import_module("judge.judges.linear").make_blueprint(
            f"{prefix[:-1]}{name[len(prefix) - 1 :]}"
        )
        return found
    if key in {SELF, SELF + READING} or prefix in PREFIXES:
        return _of_checkpoint(name)
    check_judge(name)
    try:
        blueprint: Blueprint = import_module(f"judge.judges.{FILES[split_head(key)[0]]}").BLUEPRINTS[key]
    except ModuleNotFoundError as error:
        what = f"judge '{key}' needs the package '{error.name}'"
        raise JudgeError(what, where="--judge", mend="install it: pip install 'caption-judge[all]'") from error
    return blueprint


def check_judge(name: str) -> None:
    """Refuse the name of no judge, by a JudgeError; nothing of the judge is imported."""
    key = name.strip().lower()
    plain = next((key.removesuffix(suffix) for suffix in BLANKED if key.endswith(suffix)), key)
    prefix, (base, head) = plain.partition(":")[0], split_head(plain)
    if prefix in EMBEDDED or f"{prefix}:" in PREFIXES or plain in {SELF, SELF + READING, *plugins("judges")}:
        return
    if base not in FILES or (head and base not in HEADED):
        known = [*EMBEDDED, *FILES, *plugins("judges")]
        if head:
            known = [f"{encoder}+mlp{layers}" for encoder in sorted(HEADED) for layers in HEADS]
        raise JudgeError(f"unknown judge '{name}'", where="--judge", mend=nearest(key, known))


def _of_checkpoint(name: str) -> Blueprint:
    """The judge of a checkpoint; "self" stands for some checkpoint of Hugging Face."""
    require("vision", "accelerate", "torch", "transformers")
    key = name.lower()
    if key in {SELF, SELF + READING}:
        return replace(_of_checkpoint(f"{HUGGING_FACE}{key}"), name=key)
    prefix = key.partition(":")[0] + ":"
    module = "hf_reading" if prefix == HUGGING_FACE and key.endswith(READING) else PREFIXES[prefix]
    made: Blueprint = import_module(f"judge.judges.{module}").make_blueprint(name[len(prefix) :])
    return made


def with_embedding(name: str, reference: str) -> str:
    """The full name of a judge in a run whose embedding is ``reference``; "none" leaves the words, if it reads any.

    Names with a reference, and judges that read no static embedding, are returned unchanged.
    """
    key = name.strip().lower()
    if key not in EMBEDDED or not reference:
        return name
    if reference != "none":
        return f"{key}:{reference}"
    if key not in {DEFAULT_JUDGE, SEEING}:
        raise JudgeError(f"judge '{key}' needs an embedding", where="--embedding none", mend="use --judge linear")
    return "linear" if key == DEFAULT_JUDGE else "linear+image"


def with_reading(name: str) -> str:
    """The full name of a judge under ``--tuning reading``: a Hugging Face captioner is a frozen reader."""
    kind, reference, suffix = split_reference(name)
    reads = kind not in {HUGGING_FACE, SELF} or suffix.startswith(READING)
    return name if reads else f"{kind}{reference}{READING}{suffix}"


def with_head(name: str, head: int | None) -> str:
    """The full name of a judge under a metric whose paper puts an MLP of ``head`` layers on encoders (None: none).

    Names with an MLP, and judges that accept none, are returned unchanged.
    """
    base, own = split_head(name.strip())
    headed = base.lower() in HEADED or base.lower().startswith(SENTENCE)
    return name if head is None or own is not None or not headed else f"{base}+mlp{head}"


def split_head(name: str) -> tuple[str, int | None]:
    """The encoder's name and the MLP's layers: ("rnn", 3) for "rnn+mlp3"; None if the name has no MLP."""
    for layers in HEADS:
        if name.lower().endswith(f"+mlp{layers}"):
            return name[: -len(f"+mlp{layers}")], layers
    return name, None


def split_reference(name: str) -> tuple[str, str, str]:
    """Kind, checkpoint or embedding, and rest of a judge's name: ("hf:", "org/name", "-image-only"); "" for no part.

    The rest of a frozen reader begins with "+reading".
    """
    kind, colon, rest = name.partition(":") if ":" in name else ("", "", name)
    head = split_head(rest)[1] if f"{kind}:" == SENTENCE else None
    known = [of + blanked for of in (READING, "") for blanked in (*BLANKED, "")]
    suffix = f"+mlp{head}" if head else next(suffix for suffix in known if rest.endswith(suffix))
    rest = rest.removesuffix(suffix)
    return (f"{kind}:", rest, suffix) if colon else (rest, "", suffix)


def name_self(judge: str, captioner: str, models: Mapping[str, str]) -> str:
    """Resolve "self" ("self-image-only") to the checkpoint that wrote a captioner's captions; ``models`` names it.

    Other names of judges are returned unchanged.
    """
    kind, _, suffix = split_reference(judge)
    if kind != SELF:
        return judge
    if captioner not in models:
        what = f"the checkpoint that wrote the captions of '{captioner}' is unknown"
        raise JudgeError(what, where=f"--judge {judge}", mend=f"add --model {captioner}=CHECKPOINT")
    return f"{HUGGING_FACE}{models[captioner]}{suffix}"

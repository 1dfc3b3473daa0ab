"""What a judge's answers depend on, name -> value or hash: its key, and why a judge is trained again.

A blueprint lists what it reads (``reads``, ``fingerprint``); the trainer adds the recipe, data, split and seed. How the
work is done (micro-batches, sharing, threads) changes numbers by rounding alone, and is left out.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from judge.errors import some
from judge.evidence import Slot
from judge.judges import OF_BACKBONES, OPTIONS, Blueprint, Materials, split_reference
from judge.training.member import Member, TrainingSetup, one_by_one
from judge.utils.identity import digest_of
from judge.utils.launch import computes_on, promised
from judge.utils.tensors import peek_notes, read_sound

_SAME_NUMBERS = {"micro_batch", "sharing", "checkpointing"}
# The key of the features holds them by content.
_OF_FEATURES = {*OF_BACKBONES, "image_features"}
_DATA, _SPLIT = "captions, labels or images", "its training or test images"
_IMAGES, _CAPTIONS = "the features of images", "the vectors of captions"
_version = cache(version)


def settings_of(judge: Blueprint, setup: TrainingSetup) -> dict[str, Any]:
    """The resolved settings that decide a judge's numbers: name -> value."""
    recipe = setup.recipe_of(judge) if setup.is_trained(judge) else None
    found = asdict(recipe) if recipe else {}
    if recipe and recipe.keep == "last":
        del found["patience"]  # Without validation samples no training ends early.
    given = {part.name: getattr(setup.materials, part.name) for part in fields(Materials)}
    given |= {option: given[name] for option, name in OPTIONS.items()}
    given |= asdict(setup.materials.prompt) if setup.materials.prompt else {}
    from_file = setup.materials.image_features and judge.reads_vectors
    unread = _OF_FEATURES if from_file else {"image_features"}  # Vectors of a file are known by content.
    found |= {name: value for name, value in given.items() if name in judge.options - unread}
    if "precision" in judge.options:
        found["precision"] = None if setup.precision == "no" else setup.precision
    found |= {"plugin": judge.origin} if judge.origin else {}
    return {name: value for name, value in found.items() if name not in _SAME_NUMBERS}


def identify(members: Sequence[Member], setup: TrainingSetup) -> list[dict[str, str]]:
    """What each member's result depends on, name -> value or hash; features must have been computed."""
    assert setup.precomputed or not any(member.judge.backbone or member.judge.reader for member in members)
    evidence, splits, digests = dict[object, str](), dict[object, str](), dict[object, str]()
    judges = {member.judge.name: member.judge for member in members}
    known = {name: _identify_judge(judge, setup) for name, judge in judges.items()}
    keys = setup.precomputed.keys if setup.precomputed else {}
    found = []
    for member in one_by_one(members):
        trained = setup.is_trained(member.judge)
        view = id(member.samples), member.judge.blanked, bool(member.judge.joint)
        if view not in evidence:
            evidence[view] = _evidence_digest(member, keys, digests)
        # The answers of a zero-shot judge depend on the test images of a split alone.
        whole = trained or member.validates
        split = id(member.split), whole
        if split not in splits:
            splits[split] = digest_of(repr(member.split if whole else member.split.test))
        own = {_DATA: evidence[view], _SPLIT: splits[split], "its classes": repr(member.target)}
        own |= {"its seed": str(member.stream)} if trained else {}
        own |= {"its settings": repr((member.settings, member.validates))}
        found.append(known[member.judge.name] | own)
    return found


def _identify_judge(judge: Blueprint, setup: TrainingSetup) -> dict[str, str]:
    """What all members of a judge depend on."""
    kind, reference, suffix = split_reference(judge.name)
    recipe, features = setup.recipe_of(judge), setup.precomputed and setup.precomputed.features.get(judge.name)
    content = judge.fingerprint(setup.materials) if judge.fingerprint else {}
    settings = settings_of(judge, setup) | dict(content)
    own = settings.keys() - _OF_FEATURES
    found = {name: json.dumps(settings[name], sort_keys=True, default=str) for name in own}
    # A checkpoint may be moved: its content counts.
    found["its name"] = f"{kind}{suffix}" if reference and (content or features) else judge.name
    for package in ("caption-judge", "scikit-learn" if recipe is None else "torch"):
        found[f"the version of {package}"] = _version(package)
    if features:
        found[_IMAGES if judge.backbone else _CAPTIONS] = features.key
    if recipe and setup.is_trained(judge) and not setup.keeps_weights:
        # Kept judges are found wherever they were trained. Others draw random numbers by device and process.
        found["the device"] = computes_on()
        found["the number of processes"] = str(promised() if setup.sharing_of(judge) == "data" else 1)
    return found


def _evidence_digest(member: Member, keys: Mapping[str, str], known: dict[object, str]) -> str:
    """Hash of what the member's judge, or all judges trained jointly, perceive; ``known`` caches those of samples."""
    slot, judge = member.samples, member.judge
    if isinstance(slot, Slot) and member.is_refit and not judge.blanked:
        # The samples of a refit are not drawn before it is trained.
        images = [keys.get(image) for image in sorted(slot.images)] if slot.evidence.sides.uses_images else None
        return digest_of(
            repr((slot.side, slot.position, slot.evidence.digest(None if judge.joint else slot.side), images))
        )
    together = slot.evidence.slots.values() if isinstance(slot, Slot) and judge.joint else [slot]
    parts = []
    for samples in (slot, *together):
        key = id(samples), judge.blanked
        if key not in known:
            digest = hashlib.blake2b(digest_size=16)
            for sample in map(judge.perceive, samples):
                image = keys.get(sample.image) if sample.image is not None else None
                digest.update(repr((sample.image_id, sample.words, sample.answers, image)).encode())
            known[key] = digest.hexdigest()
        parts.append(known[key])
    return digest_of(*parts)


def describe(member: Member) -> dict[str, Any]:
    """For the file of a member's answers: whose they are, and what they depend on."""
    return {"of": _owner(member), "depends_on": dict(member.ingredients)}


def _owner(member: Member) -> list[Any]:
    captioner = member.samples.evidence.captioner if isinstance(member.samples, Slot) else None
    return [member.judge.name, captioner, member.side, member.index, member.seed, member.split.fold]


def explain_again(members: Sequence[Member], store: Path) -> list[str]:
    """Why networks are trained although ``store`` holds answers of them, a sentence for each judge."""
    wanted = {f"{member.key}.safetensors" for member in members}
    new = [one for one in members if one.judge.recipe and not one.is_refit]
    new = [one for one in new if not (store / f"{one.key}.safetensors").exists()]
    stored: dict[str, list[dict[str, str]]] = {}
    for path in store.glob(f"{'?' * 32}.safetensors") if new else ():
        about = None if path.name in wanted else (read_sound(path, peek_notes) or {}).get("identity")
        if about:
            stored.setdefault(repr(about["of"]), []).append(about["depends_on"])
    reasons: dict[str, set[str]] = {}
    for member in new:
        own = {*member.ingredients.items()}
        others = [{name for name, _ in own ^ {*old.items()}} for old in stored.get(repr(_owner(member)), ())]
        reasons.setdefault(member.judge.name, set()).update(*sorted(others, key=len)[:1])
    return [f"judge '{name}' is trained again: {some(sorted(of))} changed" for name, of in reasons.items() if of]

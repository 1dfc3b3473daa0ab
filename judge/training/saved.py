"""What a file of weights says about its judge, so that it can be asked again without the run that trained it.

Beside the weights, as JSON in the metadata of safetensors: how the judge is made (name, classes, recipe, vocabulary,
prompt), what it learnt from, and what hid the attribute from it. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from judge.errors import JudgeError
from judge.evidence import Preparation, Slot
from judge.judges import BLANKED, PREFIXES, SENTENCE, Blueprint, Materials, Recipe, Sharing, find_judge, split_head
from judge.judges.prompts import Prompt
from judge.metrics.scores import Judged
from judge.training.member import Member
from judge.types import Predictions, Sample, Target
from judge.utils.reading import regular

FORMAT = "2"  # Format 1 had neither a number nor what decides how captions are read.
_ABSENT = {"pictures", "features", "empty"}  # Materials that no file holds.
_AGAIN = "train the judge again, into another --checkpoints"


@dataclass(frozen=True)
class Saved:
    """What a file of weights says.

    Attributes:
        path: of the file.
        judge: its name.
        target: what it guesses.
        recipe: how it was trained; its micro-batch is that which memory held. None of judges that train themselves.
        materials: what it was given, pictures and features apart.
        precision: Accelerate's, of training and of its answers.
        vocabulary: its words in the order of their numbers, special ones apart; none for judges without one.
        features: "shape", "regions" and "key" of what a frozen network gave it; empty where none did.
        preparation: from captions to the words that it reads; None where its evidence was not a run's.
        masking: how pictures were hidden, as settings of ``judge evaluate``; empty for judges that read alone.
        data: what it learnt from: captioner, side, index, seed, fold, images by class, sharing, held-out accuracy
            (a mean over classes).
        history: losses, epoch by epoch.
    """

    path: Path
    judge: str
    target: Target
    recipe: Recipe | None
    materials: Materials
    precision: str = "no"
    vocabulary: tuple[str, ...] = ()
    features: Mapping[str, Any] = field(default_factory=dict)
    preparation: Preparation | None = None
    masking: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def blueprint(self) -> Blueprint:
        """The judge's.

        Raises:
            JudgeError: this version has no such judge, or what it needs is not installed.
        """
        return find_judge(self.judge)

    @property
    def sharing(self) -> Sharing:
        """How processes, and threads, shared its training."""
        return "data" if self.data.get("sharing") == "data" else "members"

    @property
    def trains_itself(self) -> bool:
        """Whether it is no network."""
        return self.recipe is None

    @property
    def sees(self) -> bool:
        """Whether it is shown pictures."""
        return "image" in self.blueprint.modalities - self.blueprint.blanked

    @property
    def base(self) -> str | None:
        """The checkpoint or encoder that it started from, a folder or a name on the hub; None for none."""
        prefix, _, rest = self.judge.partition(":")
        if f"{prefix}:" in PREFIXES:
            return rest.removesuffix(self._suffix)
        if not (self.blueprint.fingerprint or self.blueprint.reader):
            return None
        from judge.judges.text_encoders import READER

        return self.materials.reader or READER

    @property
    def _suffix(self) -> str:
        """What follows the checkpoint's name in the judge's."""
        if self.judge.startswith(SENTENCE):
            head = split_head(self.judge)[1]
            return f"+mlp{head}" if head else ""
        return next((suffix for suffix in BLANKED if self.judge.endswith(suffix)), "")

    def moved(self, base: str) -> Self:
        """The same judge where the checkpoint that it started from lies elsewhere.

        Raises:
            JudgeError: it started from none.
        """
        if self.base is None:
            mend = "leave it out"
            raise JudgeError(f"judge '{self.judge}' started from no checkpoint", where=f"--base {base}", mend=mend)
        prefix, colon, _ = self.judge.partition(":")
        if colon:
            return replace(self, judge=f"{prefix}:{base}{self._suffix}")
        return replace(self, materials=replace(self.materials, reader=base))

    def as_samples(self) -> list[Sample]:
        """Samples of which a network makes the vocabulary that it was trained with."""
        return [Sample("", "human", 0, self.vocabulary, (0,))]

    def notes(self) -> dict[str, str]:
        """The metadata of a file that says the same."""
        about = {
            "version": version("caption-judge"),
            "recipe": self.recipe and asdict(self.recipe),
            "materials": _materials_json(self.materials),
            "vocabulary": self.vocabulary,
            "features": dict(self.features),
            "preparation": self.preparation and self.preparation.to_json(),
            "masking": dict(self.masking),
            "data": dict(self.data),
        }
        return {
            "format": FORMAT,
            "judge": self.judge,
            "target": self.target.kind,
            "classes": json.dumps(self.target.classes),
            "precision": self.precision,
            "history": json.dumps(dict(self.history)),
            "about": json.dumps(about),
        }


def describe_member(member: Member, masking: Mapping[str, Any], sharing: Sharing, found: Predictions) -> dict[str, Any]:
    """What a judge learnt from and how it was hidden: the fields "preparation", "masking" and "data" of its file.

    Args:
        member: the judge.
        masking: how pictures are hidden, as settings.
        sharing: how processes shared its training.
        found: its answers about its test samples.
    """
    slot, tests = member.samples, member.test()
    evidence = slot.evidence if isinstance(slot, Slot) else None
    names = [member.target.classes[sample.answers[0]] for sample in member.training() if sample.answers]
    one = member.target.kind == "attribute"
    held = {"images": len(tests), "accuracy": _accuracy(tests, found) if one and tests else None}
    data = {
        "captioner": evidence and evidence.captioner,
        "alignment": evidence and evidence.sides.aligner.how,
        "side": member.side,
        "index": member.index,
        "seed": member.seed,
        "fold": member.split.fold,
        "images": {name: names.count(name) for name in member.target.classes} if one else len(member.training()),
        "held_out": held,
        "sharing": sharing,
    }
    seen = "image" in member.judge.modalities - member.judge.blanked
    preparation = evidence.preparation(member.side) if evidence else None
    return {"preparation": preparation, "masking": masking if seen else {}, "data": data}


def _accuracy(tests: Sequence[Sample], found: Predictions) -> float:
    """Of each class, on average: of a judge that knows nothing 1 / classes, however unequal they are."""
    answers, correct = np.array([sample.answers[0] for sample in tests]), Judged.of(tests, found).correct
    return float(np.mean([correct[answers == k].mean() for k in np.unique(answers)]))


def describe_features(features: Any) -> dict[str, Any]:
    """The shape of features and the network that they are of; boxes of pictures are no part of that."""
    if features is None:
        return {}
    regions, key = getattr(features, "regions", 0), str(getattr(features, "key", ""))
    # A network that is told where things are has the pictures' boxes behind its own key.
    return {"shape": list(features.shape), "regions": regions, "key": key.rpartition(" ")[0] if regions else key}


def words_of(network: Any) -> tuple[str, ...]:
    """The vocabulary of a network, padding and ``<unk>`` left out; none where it has none."""
    vocabulary = getattr(network, "vocabulary", None) or {}
    return tuple(sorted(vocabulary, key=lambda word: int(vocabulary[word])))[2:]


def read_saved(path: Path) -> Saved:
    """What the file of weights ``path`` says.

    Raises:
        JudgeError: it cannot be read, is damaged, is no judge's, or of a version that says less.
    """
    where = f"--judge-weights {path}"
    told, names = _metadata(path, where)
    if "judge" not in told:
        mend = "give a NAME.weights.safetensors that judge train left in its --checkpoints"
        if names == ["probabilities"]:
            raise JudgeError("holds a judge's answers, and no weights", where=where, mend=mend)
        raise JudgeError("is no judge's file of weights", where=where, mend=mend)
    if "format" not in told:
        what = "was written by an older version, without the judge's vocabulary and what hid the attribute from it"
        raise JudgeError(what, where=where, mend=_AGAIN)
    if told["format"] != FORMAT:
        what = f"is of format {told['format']}; this version reads {FORMAT}"
        raise JudgeError(what, where=where, mend="use the version of caption-judge that wrote it")
    try:
        return _parse(path, told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"does not say what a judge's file must ({type(error).__name__}: {error})"
        raise JudgeError(what, where=where, mend=_AGAIN) from error


def _metadata(path: Path, where: str) -> tuple[dict[str, str], list[str]]:
    """Metadata, and names of tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(regular(path), framework="np") as file:
            return file.metadata() or {}, sorted(file.keys())
    except OSError as error:
        what = f"cannot be read ({error.strerror or 'no such file'})"
        raise JudgeError(what, where=where, mend="check the path") from error
    except SafetensorError as error:
        mend = _AGAIN if path.suffix == ".safetensors" else "give a NAME.weights.safetensors that judge train left"
        raise JudgeError("is no safetensors file, or damaged", where=where, mend=mend) from error


def _parse(path: Path, told: Mapping[str, str]) -> Saved:
    about = json.loads(told["about"])
    classes = tuple(map(str, json.loads(told["classes"])))
    if told["target"] not in {"attribute", "tasks"} or not classes:
        raise ValueError("nothing to guess")
    preparation = about["preparation"]
    return Saved(
        path,
        told["judge"],
        Target(told["target"], classes),  # type: ignore[arg-type]  # checked above
        None if about["recipe"] is None else Recipe(**about["recipe"]),
        _materials_of(about["materials"]),
        told["precision"],
        tuple(map(str, about["vocabulary"])),
        dict(about["features"]),
        None if preparation is None else Preparation.from_json(preparation),
        dict(about["masking"]),
        dict(about["data"]),
        dict(json.loads(told["history"])),
    )


def _materials_json(materials: Materials) -> dict[str, Any]:
    known = {part.name: getattr(materials, part.name) for part in fields(materials) if part.name not in _ABSENT}
    prompt = materials.prompt
    return known | {"prompt": prompt and {"template": prompt.template, "answers": dict(prompt.answers)}}


def _materials_of(told: Mapping[str, Any]) -> Materials:
    prompt = told["prompt"]
    if held := _ABSENT & told.keys():
        raise ValueError(f"it holds {min(held)}")
    return Materials(**{**told, "prompt": None if prompt is None else Prompt(**prompt)})


def sample_captions(captions: Mapping[str, Sequence[str]], saved: Saved) -> list[list[Sample]]:
    """New captions as the judge perceives them, a list for each caption index, by image; what they answer is not known.

    Args:
        captions: image id -> its captions.
        saved: the judge.
    """
    assert saved.preparation is not None
    longest = max(map(len, captions.values()), default=0)
    found: list[list[Sample]] = [[] for _ in range(longest)]
    side = saved.data.get("side", "generated")
    for image in sorted(captions):
        for index, caption in enumerate(captions[image]):
            words = saved.preparation.words(caption)
            sample = Sample(image, side, index, words, (0,), image=image if saved.sees else None)
            found[index].append(saved.blueprint.perceive(sample))
    return found


def concatenate(parts: Sequence[Predictions]) -> Predictions:
    """Answers about several lists of samples, one after another."""
    return replace(parts[0], probabilities=np.concatenate([part.probabilities for part in parts]))

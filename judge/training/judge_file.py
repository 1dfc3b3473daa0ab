"""The file of a trained judge: its weights, and all that is needed to use it without the run that trained it.

The notes of the file say how the judge is made (name, classes, recipe, vocabulary, prompt), what it learnt from, and
how the attribute was hidden from it. For a judge that is no network, no torch is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from judge.corpus.splits import Split
from judge.errors import FAULTS, JudgeError
from judge.evidence import Preparation, Slot
from judge.judges import Blueprint, Judge, Materials, Recipe, SelfTrained, Sharing
from judge.judges.names import EMBEDDED, PREFIXES, find_judge, split_reference
from judge.judges.prompts import Prompt
from judge.masking.masked_images import MaskedImages
from judge.metrics.scores import Judged
from judge.training.checkpoint import save_weights
from judge.training.member import Member
from judge.types import Predictions, Progress, Sample, Side, Target, Words
from judge.utils.launch import computes_on
from judge.utils.parallel import threads
from judge.utils.plugins import origin
from judge.utils.tensors import DamagedTensorsError, read_notes, read_tensors

if TYPE_CHECKING:
    from torch import nn

    from judge.training.loop import NetworkJudge

FORMAT = 3  # Older formats have other metadata.
LEARNT = "encoder "  # Begins the names of tensors of the encoder that a judge's images have.
_ABSENT = {"images", "patches", "features", "empty"}  # Materials that are not among a file's notes.
_AGAIN = "train the judge again, into another --checkpoints"


@dataclass(frozen=True)
class Saved:
    """The content of a judge's file, apart from its weights.

    Attributes:
        recipe: how it was trained. None of judges that train themselves.
        materials: what it was given, except images and features.
        precision: Accelerate's, of training and of its answers.
        vocabulary: its words in the order of their numbers, special ones apart; none for judges without one.
        features: "shape", "regions" and "key" of what a frozen network gave it; empty where none did.
        preparation: from captions to the words that it reads; None where its evidence was not a run's.
        masking: how images were masked, as settings of ``judge evaluate``; empty for judges that see none.
        data: what it learnt from: captioner, side, index, seed, fold, images by class, sharing, held-out accuracy
            (a mean over classes).
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
        """The blueprint of its judge."""
        return find_judge(self.judge)

    @property
    def sees(self) -> bool:
        """Whether it sees images."""
        return "image" in self.blueprint.modalities - self.blueprint.blanked

    @property
    def base(self) -> str | None:
        """The checkpoint or encoder that it started from, a folder or a name on the hub; None for none."""
        kind, reference, _ = split_reference(self.judge)
        if kind in PREFIXES or kind.removesuffix(":") in EMBEDDED:
            return reference or None
        if not (self.blueprint.fingerprint or self.blueprint.reader):
            return None
        from judge.judges.text_encoders import READER

        return self.materials.reader or READER

    def moved(self, base: str) -> Self:
        """The same judge where the checkpoint that it started from lies elsewhere; one that has none is refused."""
        if self.base is None:
            mend = "leave it out"
            raise JudgeError(f"judge '{self.judge}' started from no checkpoint", where=f"--base {base}", mend=mend)
        kind, reference, suffix = split_reference(self.judge)
        if reference:
            return replace(self, judge=f"{kind}{base}{suffix}")
        return replace(self, materials=replace(self.materials, reader=base))

    def as_samples(self) -> list[Sample]:
        """Samples of which a network makes the vocabulary that it was trained with."""
        return [Sample("", "human", 0, self.vocabulary, (0,))]

    def notes(self) -> dict[str, Any]:
        """The notes of a file that says the same."""
        kept = {part.name: getattr(self.materials, part.name) for part in fields(Materials) if part.name not in _ABSENT}
        prompt = self.materials.prompt
        own = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "path"}
        return {
            "format": FORMAT,
            "version": version("caption-judge"),
            "plugin": origin("judges", "".join(split_reference(self.judge)[:2]).lower()),
            **own,
            "target": [self.target.kind, self.target.classes],
            "recipe": self.recipe and asdict(self.recipe),
            # Judges that read a file of vectors are not stored, and others do not read it.
            "materials": kept
            | {
                "prompt": prompt and {"template": prompt.template, "answers": dict(prompt.answers)},
                "image_features": None,
            },
            "preparation": self.preparation and self.preparation.to_json(),
        }


def describe_member(member: Member, masking: Mapping[str, Any], sharing: Sharing, found: Predictions) -> dict[str, Any]:
    """The fields "preparation", "masking" and "data" of a judge's file; ``found`` are its answers of test samples."""
    slot, tests = member.samples, member.test()
    evidence = slot.evidence if isinstance(slot, Slot) else None
    names = [member.target.classes[sample.answers[0]] for sample in member.training() if sample.answers]
    one, accuracy = member.target.kind == "attribute", None
    if one and tests:
        # The mean over classes: a judge that knows nothing has 1 / classes, however unequal they are.
        answers, correct = np.array([sample.answers[0] for sample in tests]), Judged.of(tests, found).correct
        accuracy = float(np.mean([correct[answers == k].mean() for k in np.unique(answers)]))
    data = {
        "captioner": evidence and evidence.captioner,
        "alignment": evidence and evidence.sides.aligner.how,
        "side": member.side,
        "index": member.index,
        "seed": member.seed,
        "fold": member.split.fold,
        "images": {name: names.count(name) for name in member.target.classes} if one else len(member.training()),
        "held_out": {"images": len(tests), "accuracy": accuracy},
        "sharing": sharing,
        "depends_on": dict(member.ingredients),
    }
    seen = "image" in member.judge.modalities - member.judge.blanked
    preparation = evidence.preparation(member.side) if evidence else None
    return {"preparation": preparation, "masking": masking if seen else {}, "data": data}


def describe_features(features: Any) -> dict[str, Any]:
    """The shape of features and the key of the network that computed them, without the boxes of images."""
    if features is None:
        return {}
    regions, key = features.regions, getattr(features, "key", "")
    # The key of a network that takes boxes ends in a hash of the images' boxes.
    return {"shape": list(features.shape), "regions": regions, "key": key.rpartition(" ")[0] if regions else key}


def read_saved(path: Path) -> Saved:
    """Read the file of a judge; one that is absent, damaged, no judge's, or of another version's format is refused."""
    where = f"--judge-weights {path}"
    try:
        notes = read_notes(path)
    except FileNotFoundError as error:
        raise JudgeError("cannot be read (no such file)", where=where, mend="check the path") from error
    except DamagedTensorsError as error:
        what = "is no judge's file of weights, or damaged, or was written by an older version"
        mend = "give a NAME.weights.safetensors that judge train wrote, or train the judge again"
        raise JudgeError(what, where=where, mend=mend) from error
    if "judge" not in notes:
        mend = "give a NAME.weights.safetensors that judge train left in its --checkpoints"
        raise JudgeError("holds no judge's weights", where=where, mend=mend)
    if notes.get("format") != FORMAT:
        what = f"has format {notes.get('format')}; this version reads {FORMAT}"
        raise JudgeError(what, where=where, mend="use the version of caption-judge that wrote it")
    try:
        return _parse(path, notes)
    except FAULTS as error:
        what = f"lacks what a judge's file must say ({type(error).__name__}: {error})"
        raise JudgeError(what, where=where, mend=_AGAIN) from error


def _parse(path: Path, notes: Mapping[str, Any]) -> Saved:
    kind, classes = notes["target"]
    if kind not in {"attribute", "tasks"} or not classes:
        raise ValueError("no classes")
    preparation, given = notes["preparation"], notes["materials"]
    if unknown := _ABSENT & given.keys():
        raise ValueError(f"it holds {min(unknown)}")
    materials = Materials(**{**given, "prompt": given["prompt"] and Prompt(**given["prompt"])})
    return Saved(
        path,
        str(notes["judge"]),
        Target(kind, tuple(map(str, classes))),
        None if notes["recipe"] is None else Recipe(**notes["recipe"]),
        materials,
        str(notes["precision"]),
        tuple(map(str, notes["vocabulary"])),
        dict(notes["features"]),
        None if preparation is None else Preparation.from_json(preparation),
        dict(notes["masking"]),
        dict(notes["data"]),
        dict(notes["history"]),
    )


def sample_captions(captions: Mapping[str, Sequence[str]], saved: Saved) -> list[list[Sample]]:
    """New captions (by image id) as the judge perceives them: a list for each caption (or sentence) index."""
    prepared = saved.preparation
    assert prepared is not None
    read = {image: [*chain.from_iterable(map(prepared.texts, captions[image]))] for image in sorted(captions)}
    found: list[list[Sample]] = [[] for _ in range(max(map(len, read.values()), default=0))]
    for image, texts in read.items():
        for index, text in enumerate(texts):
            found[index].append(perceive(saved, image, index, prepared.words(text)))
    return found


def perceive(saved: Saved, image: str, index: int, words: Words) -> Sample:
    """A text of a caption as the judge perceives it, with an unknown answer."""
    side: Side = saved.data.get("side", "generated")
    return saved.blueprint.perceive(Sample(image, side, index, words, (0,), image=image if saved.sees else None))


def save_network(judge: NetworkJudge, path: Path | None, about: Mapping[str, Any] | None = None) -> None:
    """Write the file of a trained network; all processes that trained it call this, most of them without ``path``.

    Without ``about``, from :func:`describe_member`, the judge cannot predict on new captions.
    """
    accelerator = judge.trainer.accelerator
    vocabulary: Mapping[str, Any] = getattr(judge.network, "vocabulary", None) or {}
    saved = Saved(
        path or Path(),
        judge.blueprint.name,
        judge.target,
        replace(judge.recipe, micro_batch=judge.micro_batch),  # Its answers came from such batches.
        judge.materials,
        accelerator.mixed_precision,
        tuple(sorted(vocabulary, key=lambda word: int(vocabulary[word])))[2:],  # Without padding and ``<unk>``.
        describe_features(judge.materials.features),
        history=asdict(judge.history),
        **(about or {}),
    )
    place = {"device": accelerator.device.type, "processes": judge.trainer.world}
    save_weights(path, cast("nn.Module", judge.network), {**saved.notes(), **place})


def answer(
    saved: Saved,
    parts: Sequence[Sequence[Sample]],
    *,
    features: Path,
    images: MaskedImages | None = None,
    progress: Progress | None = None,
) -> tuple[Predictions, list[str]]:
    """Answers of a trained judge about lists of captions (:func:`sample_captions`), and notes for the user.

    They are equal to those of the run that trained it, if ``parts`` are those of its folds. Batches of other captions
    are padded and summed in another way; answers are then equal up to rounding. ``features``: feature cache folder.

    Raises:
        JudgeError: weights that do not fit; the network that it started from is not available, or has another shape.
    """
    samples = list(chain.from_iterable(parts))
    with threads(None if saved.data.get("sharing") == "data" else 1):
        judge, notes = open_judge(saved, samples, features=features, images=images, progress=progress)
        answers = []
        for number, part in enumerate(parts):
            if progress:
                progress("computing answers", number, len(parts))
            answers.append(judge.predict(part))
    joined = np.concatenate([part.probabilities for part in answers])
    return replace(answers[0], probabilities=joined), notes


def open_judge(
    saved: Saved,
    samples: Sequence[Sample],
    *,
    features: Path,
    images: MaskedImages | None = None,
    accelerator: Any = None,
    progress: Progress | None = None,
) -> tuple[Judge, list[str]]:
    """A trained judge, ready for ``samples``, and notes for the user; ``accelerator``: None for a new one."""
    if saved.recipe is None and not (saved.sees and saved.blueprint.reads_vectors):
        return open_self_trained(saved), []
    from judge.training.features import precompute, see_others

    if saved.recipe is None:  # It reads vectors of images.
        judge: Any = open_self_trained(saved)
        names = {sample.image for sample in samples if sample.image is not None}
        own = replace(with_encoder(saved), images=images)
        judge.images = see_others(judge.images, names, own, features, progress)
        return judge, check_features(saved, describe_features(judge.images.features))

    materials = replace(saved.materials, images=images)
    trained, notes = saved.features, list[str]()
    if saved.blueprint.backbone and not saved.blueprint.reader and not saved.sees:
        # It sees nothing, and needs no more than the shape.
        from judge.training.disk_cache import FeatureStore

        found: FeatureStore | None = FeatureStore(tuple(trained["shape"]), {}, "", trained["regions"])
    else:
        member = Member(saved.blueprint, saved.target, samples, Split((), (), {}), 0)
        found = precompute([member], materials, features, progress).features.get(saved.blueprint.name)
        notes = check_features(saved, describe_features(found)) if found and trained else []
    return restore(saved, replace(materials, features=found), accelerator), notes


def with_encoder(saved: Saved) -> Materials:
    """The materials of a trained judge, with what the encoder of its images learnt from others."""
    tensors = read_tensors(saved.path)[0].items()
    learnt = {name.removeprefix(LEARNT): array for name, array in tensors if name.startswith(LEARNT)}
    return replace(saved.materials, patches=learnt or None)


def open_self_trained(saved: Saved) -> SelfTrained:
    """A trained judge that is no network, such as ``linear``; a file that does not hold one is refused."""
    try:
        assert saved.blueprint.restore is not None, "it is a network"
        return saved.blueprint.restore(saved.target, saved.vocabulary, read_tensors(saved.path)[0])
    except (FileNotFoundError, DamagedTensorsError, *FAULTS) as error:
        what = f"its weights do not fit the judge that it names ({type(error).__name__}: {error})"
        raise JudgeError(what, where=f"--judge-weights {saved.path}", mend="train the judge again") from error


def restore(saved: Saved, materials: Materials | None = None, accelerator: Any = None) -> NetworkJudge:
    """A trained network; ``materials``: with images and features, if any; ``accelerator``: None for a new one."""
    from judge.training.launch import make_accelerator
    from judge.training.loop import NetworkJudge, Trainer

    judge = saved.blueprint
    if judge.network is None or saved.recipe is None:
        what, mend = f"judge '{saved.judge}' is no network", "use the version of caption-judge that wrote it"
        raise JudgeError(what, where=f"--judge-weights {saved.path}", mend=mend)
    # Accelerate supports fp16 on GPUs alone: elsewhere answers are computed in float32.
    unsupported = saved.precision == "fp16" and computes_on() == "cpu"
    trainer = Trainer(accelerator or make_accelerator(mixed_precision="no" if unsupported else saved.precision))
    made = NetworkJudge(judge, saved.target, saved.recipe, trainer, materials or saved.materials)
    return made.restore(saved.as_samples(), saved.path, seed=0)


def check_features(saved: Saved, now: Mapping[str, Any]) -> list[str]:
    """A note if features (:func:`describe_features`) are not those of training; those of another shape are refused."""
    trained = saved.features
    if now["shape"] != trained["shape"]:
        what = f"its frozen network gives features of shape {now['shape']}; the judge learnt from {trained['shape']}"
        mend = "give what it was trained with: --base, or --backbone-weights"
        raise JudgeError(what, where=f"--judge-weights {saved.path}", mend=mend)
    if now["key"] != trained["key"]:
        return ["the frozen network, or its library's version, is not that of training: answers may differ"]
    return []


def merge(saved: Saved, folder: Path, beside: Path) -> None:
    """Write a Hugging Face judge as a checkpoint in ``folder``, and the file of a zero-shot judge that uses it."""
    from judge.judges.huggingface import AnswerJudge

    # In bf16 small changes would be rounded away as they are added.
    saved = replace(saved, materials=replace(saved.materials, dtype="float32", checkpointing=False))
    network = restore(saved).network
    assert isinstance(network, AnswerJudge)
    network.save_merged(folder)
    merged = replace(saved, materials=replace(saved.materials, tuning="zero-shot"))
    moved = merged.moved(str(folder))
    assert moved.blueprint.network is not None
    network = moved.blueprint.network(moved.target, moved.as_samples(), moved.materials)
    save_weights(beside, cast("nn.Module", network), merged.notes())

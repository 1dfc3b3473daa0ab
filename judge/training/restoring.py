"""A trained network out of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from judge.corpus.splits import Split
from judge.errors import JudgeError
from judge.judges import Materials
from judge.masking.masked_images import MaskedImages
from judge.training.checkpoint import save_weights
from judge.training.feature_store import FeatureStore
from judge.training.launch import make_accelerator
from judge.training.member import Member
from judge.training.network_judge import NetworkJudge
from judge.training.precompute import precompute
from judge.training.saved import Saved, describe_features
from judge.training.trainer import Trainer
from judge.types import Progress, Sample
from judge.utils.launch import computes_on


def open_network(
    saved: Saved,
    samples: Sequence[Sample],
    *,
    features: Path,
    pictures: MaskedImages | None = None,
    progress: Progress | None = None,
) -> tuple[NetworkJudge, list[str]]:
    """A trained network, and what it needs of some samples.

    Args:
        saved: from :func:`~judge.training.saved.read_saved`.
        samples: all that it is to be asked about.
        features: feature cache folder.
        pictures: what a judge that sees is shown.
        progress: called with the progress.

    Returns:
        The judge, and what a user must know, a line each.

    Raises:
        JudgeError: weights that do not fit; what the judge started from cannot be had, or is of another shape.
    """
    found, notes = _features(saved, samples, replace(saved.materials, pictures=pictures), features, progress)
    return restore(saved, replace(saved.materials, pictures=pictures, features=found)), notes


def restore(saved: Saved, materials: Materials | None = None) -> NetworkJudge:
    """The judge, with its weights.

    Args:
        saved: what its file says.
        materials: with pictures and features; None to leave it without.

    Raises:
        JudgeError: as :func:`open_network`.
    """
    judge = saved.blueprint
    if judge.network is None or saved.recipe is None:
        what, mend = f"judge '{saved.judge}' is no network", "use the version of caption-judge that wrote it"
        raise JudgeError(what, where=f"--judge-weights {saved.path}", mend=mend)
    # Accelerate has fp16 on GPUs alone: elsewhere answers are those of float32.
    precise = saved.precision == "fp16" and computes_on() == "cpu"
    trainer = Trainer(make_accelerator(mixed_precision="no" if precise else saved.precision))
    made = NetworkJudge(judge, saved.target, saved.recipe, trainer, materials or saved.materials)
    return made.restore(saved.as_samples(), saved.path, seed=0)


def _features(
    saved: Saved, samples: Sequence[Sample], materials: Materials, folder: Path, progress: Progress | None
) -> tuple[FeatureStore | None, list[str]]:
    """What the judge's frozen network makes of the samples; and a line where that is not the network of its training.

    Raises:
        JudgeError: its features have another shape than those that the judge learnt from.
    """
    judge, trained = saved.blueprint, saved.features
    if judge.backbone and not judge.reader and not saved.sees:
        # It sees nothing, and its network asks for the shape of that alone.
        return FeatureStore(tuple(trained["shape"]), {}, "", trained["regions"]), []
    member = Member(judge, saved.target, samples, Split((), (), {}), 0)
    found = precompute([member], materials, folder, progress).features.get(judge.name)
    if found is None or not trained:
        return found, []
    return found, check_features(saved, describe_features(found))


def check_features(saved: Saved, now: Mapping[str, Any]) -> list[str]:
    """A line where features are not those that a judge learnt from; ``now`` is what ``describe_features`` says.

    Raises:
        JudgeError: they have another shape.
    """
    trained = saved.features
    if now["shape"] != trained["shape"]:
        what = f"its frozen network gives features of shape {now['shape']}; the judge learnt from {trained['shape']}"
        mend = "give what it was trained with: --base, or --backbone-weights"
        raise JudgeError(what, where=f"--judge-weights {saved.path}", mend=mend)
    if now["key"] != trained["key"]:
        return ["the frozen network, or its library's version, is not that of training: answers may differ"]
    return []


def merge(saved: Saved, folder: Path, beside: Path) -> None:
    """A Hugging Face judge as a whole checkpoint of transformers, and a file of weights that asks it as it is.

    Args:
        saved: the judge.
        folder: of the checkpoint.
        beside: the file, whose judge is the same, zero-shot: its checkpoint is the folder that it lies in.

    Raises:
        JudgeError: as :func:`restore`.
    """
    from judge.judges.huggingface import AnswerJudge

    # In bf16 small changes would be rounded away as they are added.
    saved = replace(saved, materials=replace(saved.materials, dtype="float32", checkpointing=False))
    network = restore(saved).network
    assert isinstance(network, AnswerJudge)
    network.save_merged(folder)
    whole = replace(saved, materials=replace(saved.materials, tuning="zero-shot"))
    moved = whole.moved(str(folder))
    assert moved.blueprint.network is not None
    asked = moved.blueprint.network(moved.target, moved.as_samples(), moved.materials)
    save_weights(beside, cast(nn.Module, asked), whole.notes())

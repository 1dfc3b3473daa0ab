"""A trained judge out of its file, asked about captions that it may never have seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import cast

from judge.errors import JudgeError
from judge.judges import Judge, SelfTrained
from judge.masking.masked_images import MaskedImages
from judge.training.checkpoint import load_tensors
from judge.training.saved import Saved, concatenate
from judge.types import Predictions, Progress, Sample
from judge.utils.parallel import threads


def ask(
    saved: Saved,
    parts: Sequence[Sequence[Sample]],
    *,
    features: Path,
    pictures: MaskedImages | None = None,
    progress: Progress | None = None,
) -> tuple[Predictions, list[str]]:
    """What a trained judge answers; the same as in the run that trained it, where parts are those of its folds.

    (A batch of other captions is padded, and its sums are cut up, in another way: then to rounding.)

    Args:
        saved: from :func:`~judge.training.saved.read_saved`.
        parts: captions that are asked about together, from :func:`~judge.training.saved.sample_captions`.
        features: feature cache folder.
        pictures: what a judge that sees is shown.
        progress: called with the progress.

    Returns:
        Its answers, and what a user must know, a line each.

    Raises:
        JudgeError: weights that do not fit; what the judge started from cannot be had, or is of another shape.
    """
    samples = list(chain.from_iterable(parts))
    with threads(1 if saved.sharing == "members" else None):
        judge, notes = _open(saved, samples, features=features, pictures=pictures, progress=progress)
        answers = []
        for number, part in enumerate(parts):
            if progress:
                progress("asking the judge", number, len(parts))
            answers.append(judge.predict(part))
    return concatenate(answers), notes


def _open(
    saved: Saved,
    samples: Sequence[Sample],
    *,
    features: Path,
    pictures: MaskedImages | None,
    progress: Progress | None,
) -> tuple[Judge, list[str]]:
    if saved.trains_itself:
        return open_self_trained(saved), []
    from judge.training.restoring import open_network

    judge, notes = open_network(saved, samples, features=features, pictures=pictures, progress=progress)
    return cast(Judge, judge), notes


def open_self_trained(saved: Saved) -> SelfTrained:
    """A judge that is no network, such as ``linear``; no torch is loaded.

    Raises:
        JudgeError: what the file holds is no such judge's.
    """
    where, mend = f"--judge-weights {saved.path}", "train the judge again"
    if saved.blueprint.restore is None:
        what = f"judge '{saved.judge}' is no network"
        raise JudgeError(what, where=where, mend="use the version of caption-judge that wrote it")
    tensors = load_tensors(saved.path)
    if tensors is None:
        raise JudgeError("there are no weights, or not all of them", where=where, mend=mend)
    try:
        return saved.blueprint.restore(saved.target, saved.vocabulary, tensors)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        what = f"its weights do not fit the judge that it names ({type(error).__name__}: {error})"
        raise JudgeError(what, where=where, mend=mend) from error

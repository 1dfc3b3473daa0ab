"""What each place of an image adds to the log odds of the truth, in linear judges that read vectors of images.

The judge's log odds are a sum over the places of the encoder's last feature map, where the encoder pools by a mean
(:class:`~judge.attribution.judge_views.VectorViews`); other encoders have no such map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from judge.measure.jobs import Job, jobs_of
from judge.measure.plan import Plan
from judge.measure.refits import chosen_settings
from judge.training.member import Member, TrainingSetup
from judge.training.run_members import keep_jointly
from judge.types import FloatArray

if TYPE_CHECKING:
    from judge.attribution.judge_views import VectorViews

SIDE = 16
"""Places along the longer side of an image."""
COLUMNS = ["captioner", "metric", "judge", "image_id", "places"]


def image_places(
    jobs: Sequence[Job], notes: Sequence[Mapping[str, float]], plan: Plan, setup: TrainingSetup, examples: pd.DataFrame
) -> pd.DataFrame:
    """The maps of the images of ``examples``, by the judge of generated captions that scored each.

    The judges of ``jobs`` are trained once more with the settings that they chose (``notes``). One row per captioner,
    metric, judge and image. ``places``: rows and columns of the map, then its numbers from the top left, as text.
    """
    rows = []
    for job, chosen in chosen_settings(jobs, notes):
        judge = job.member.judge
        if not judge.reads_vectors or "image" in judge.blanked or setup.materials.image_features:
            continue
        names = [metric.name for metric in job.metrics]
        shown = examples[(examples["captioner"] == job.evidence.captioner) & (examples["judge"] == job.judge)]
        images = set(shown.loc[shown["metric"].isin(names), "image_id"])
        first = [of.member for of in jobs_of(job.evidence, job.metrics, job.judge, plan, chosen)]
        first = [of for of in first if of.side == "generated" and of.seed == plan.first_seed and not of.index]
        for image, text in _maps(first, images, setup):
            rows += [(job.evidence.captioner, name, job.judge, image, text) for name in names]
    return pd.DataFrame(rows, columns=COLUMNS)


def _maps(members: Sequence[Member], images: set[str], setup: TrainingSetup) -> Iterator[tuple[str, str]]:
    """Each image that a member tests, and its map; nothing where the encoder allows none."""
    members = [of for of in members if images & {of.samples[place].image_id for place in of.places(of.split.test)}]
    if not members:
        return
    import torch

    from judge.attribution.judge_views import VectorViews
    from judge.judges.linear import make_encoder

    encoder: Any = make_encoder(replace(setup.materials, dtype="float32"))
    cpu = torch.device("cpu")
    # One judge tells whether there are maps, before the others are trained.
    if not VectorViews(keep_jointly(members[:1], setup)[0], encoder, cpu).sums:
        return
    for member, judge in zip(members, keep_jointly(members, setup), strict=True):
        views = VectorViews(judge, encoder, cpu)
        for place in member.places(member.split.test):
            if member.samples[place].image_id in images:
                yield member.samples[place].image_id, _map(views, member, place, setup)


def _map(views: VectorViews, member: Member, place: int, setup: TrainingSetup) -> str:
    sample = member.samples[place]
    assert sample.image is not None
    assert setup.materials.images is not None
    view = views.view(sample, setup.materials.images.read(sample.image))
    assert view.exact is not None
    return _spell(view.exact(sample.answers[0]))


def _spell(added: FloatArray) -> str:
    """A map of an image, [H, W], as sums over at most SIDE x SIDE places."""
    scale = SIDE / max(added.shape)
    rows, columns = (max(1, round(scale * side)) for side in added.shape)
    down, across = ((np.arange(n) * parts) // n for n, parts in zip(added.shape, (rows, columns), strict=True))
    sums = np.zeros((rows, columns))
    np.add.at(sums, (down[:, None], across[None, :]), added)
    return " ".join([str(rows), str(columns), *(f"{value:.3g}" for value in sums.ravel())])

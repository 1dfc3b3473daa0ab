"""A :class:`~judge.judges.Judge` made of a blueprint's network and the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import nn

from judge.judges import NOTHING, Blueprint, Materials, Network, Recipe
from judge.training.checkpoint import History, load_weights, save_weights
from judge.training.member import derive_seed
from judge.training.saved import Saved, describe_features, words_of
from judge.training.trainer import Trainer
from judge.types import Predictions, Sample, Target


class NetworkJudge:
    """A :class:`~judge.judges.Judge` made of a blueprint's network and the trainer."""

    def __init__(
        self,
        blueprint: Blueprint,
        target: Target,
        recipe: Recipe,
        trainer: Trainer,
        materials: Materials = NOTHING,
    ) -> None:
        assert blueprint.network is not None
        self.blueprint, self.target, self.recipe, self.trainer = blueprint, target, recipe, trainer
        self.materials = materials
        trainer.where = f"training judge '{blueprint.name}'"
        self.history = History()

    def fit(self, samples: Sequence[Sample], *, seed: int, validation: Sequence[Sample] = ()) -> Self:
        """Build the network from ``samples`` and train it; see :meth:`Trainer.fit`."""
        self.network = self.make(samples, seed, empty=self.trainer.sharded and self.trainer.rank > 0)
        self.history = self.trainer.fit(
            self.network, samples, target=self.target, recipe=self.recipe, seed=seed, validation=validation
        )
        return self

    def restore(self, samples: Sequence[Sample], path: Path, *, seed: int) -> Self:
        """A judge whose weights :meth:`save` kept, and which was fitted to these samples with this seed."""
        self.network = self.make(samples, seed)
        load_weights(path, cast(nn.Module, self.network))
        return self

    def save(self, path: Path | None, about: Mapping[str, Any] | None = None, **notes: str) -> None:
        """Keep what training changed, as safetensors, and what the judge needs to be asked again.

        All processes that trained it call this, None for no file.

        Args:
            path: the file.
            about: from :func:`~judge.training.saved.describe_member`; without, new captions cannot be asked about.
            notes: stand in the file too.
        """
        place, materials = self.trainer.accelerator, self.materials
        # What memory held is what it answered with.
        recipe = replace(self.recipe, micro_batch=self.trainer.micro_batch)
        saved = Saved(
            path or Path(),
            self.blueprint.name,
            self.target,
            recipe,
            materials,
            place.mixed_precision,
            words_of(self.network),
            describe_features(materials.features),
            history=asdict(self.history),
            **(about or {}),
        )
        meta = saved.notes() | notes | {"device": place.device.type, "processes": str(self.trainer.world)}
        save_weights(path, cast(nn.Module, self.network), meta)

    def make(self, samples: Sequence[Sample], seed: int, *, empty: bool = False) -> Network:
        """The network as it is before training; ``empty`` where another process sends its weights."""
        assert self.blueprint.network is not None
        # As dropout of the first epoch: another number would change every published figure of a network.
        torch.manual_seed(derive_seed(seed, 0, 0))
        return self.blueprint.network(self.target, samples, replace(self.materials, empty=empty))

    def predict(self, samples: Sequence[Sample]) -> Predictions:
        """Probabilities [N, A], rows in the order of ``samples``."""
        found = self.trainer.predict(self.network, samples, target=self.target, recipe=self.recipe)
        best = self.history.best
        return Predictions(found, self.target, {} if best is None else {"epoch": best})

"""Optimiser steps: gradients clipped, Adam, the learning rate's rise and fall."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from judge.judges import Recipe


class Steps:
    """What ends a batch. It takes an optimiser's place.

    Args:
        accelerator: clips, whatever its precision and wherever the weights are.
        module: whose weights are trained.
        optimiser: as Accelerate wraps it.
        recipe: its ``warmup``, ``decay`` and ``clip``; nothing is done where it has none.
        total: steps of the whole training.
    """

    def __init__(
        self, accelerator: Accelerator, module: nn.Module, optimiser: Any, *, recipe: Recipe, total: int
    ) -> None:
        self.accelerator, self.module, self.optimiser = accelerator, module, optimiser
        self.recipe, self.total, self.done = recipe, total, 0
        self.scheduler: LambdaLR | None = None

    def begin(self, plain: torch.optim.Optimizer, done: int) -> None:
        """Go on after ``done`` steps, with the learning rate of ``plain``, the optimiser that is wrapped."""
        self.done = done
        if not (self.recipe.warmup or self.recipe.decay):
            return
        for group in plain.param_groups:
            group["lr"] = group["initial_lr"] = self.recipe.learning_rate
        self.scheduler = LambdaLR(plain, self.share, last_epoch=done - 1)

    def share(self, step: int) -> float:
        """Of the learning rate, in [0, 1], at a step that is counted from 0."""
        rising = round(self.recipe.warmup * self.total)
        if step < rising:
            return (step + 1) / rising
        return max(0.0, (self.total - step) / (self.total - rising)) if self.recipe.decay else 1.0

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.optimiser.zero_grad()

    def step(self) -> None:
        """Change the weights."""
        if self.recipe.clip is not None:
            trained = [weight for weight in self.module.parameters() if weight.requires_grad]
            self.accelerator.clip_grad_norm_(trained, self.recipe.clip)
        self.optimiser.step()
        self.done += 1
        if self.scheduler is not None:
            self.scheduler.step()

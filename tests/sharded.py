"""Part of data_parallel.py: every family of captioners in shards, laid by Accelerate's own FSDP2, on two processes.

A tiny judge of each family learns, all of it or adapters alone, and each process trains the same judge whole too, by
itself. Dropout, which draws other masks on other shares, is off; in float32 what is left are sums in another order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from helpers import GENDER, save_captioner
from judges.test_huggingface import FAMILIES, PROMPT, SAMPLES, Pictures
from torch import nn

from judge.judges import Blueprint, Materials, Network, Recipe, Sharing, Tuning, find_judge
from judge.training.processes import in_main_process, make_accelerator
from judge.training.sharding import is_sharded
from judge.training.trainer import NetworkJudge, Trainer

TRAINED = [replace(SAMPLES[i % 5], image=str(i), answers=(i % 2,)) for i in range(7)]
RECIPE = Recipe(epochs=1, learning_rate=0.003, batch_size=4, micro_batch=1, keep="best", sharing="data")


def without_dropout(blueprint: Blueprint) -> Blueprint:
    """A judge without any; captioners have it in modules, and as numbers."""

    def network(*given: Any) -> Network:
        assert blueprint.network is not None
        made: Any = blueprint.network(*given)
        for part in made.modules():
            for name, value in vars(part).items():
                if name == "p" or ("drop" in name and isinstance(value, float)):
                    setattr(part, name, 0.0)
        return made

    return replace(blueprint, network=network)


def fit(folder: Path, sharing: Sharing, materials: Materials, **how: Any) -> NetworkJudge:
    accelerator = make_accelerator(mixed_precision=how.pop("precision", None))
    blueprint, trainer = without_dropout(find_judge(f"hf:{folder}")), Trainer(accelerator, sharing=sharing, **how)
    judge = NetworkJudge(blueprint, GENDER, RECIPE, trainer, materials)
    return judge.fit(TRAINED, seed=0, validation=SAMPLES)


def answers(judge: NetworkJudge) -> np.ndarray:
    return judge.predict(SAMPLES).probabilities


def check_families(root: Path) -> None:
    """Every family: sharded and whole learn the same, to 2e-6 in probability, and do learn."""
    for family in sorted(FAMILIES.keys() - {"llava_without_chat"}):
        folder = in_main_process(partial(save_captioner, root / family, family))
        asked = Materials(pictures=Pictures(), prompt=PROMPT, tuning="zero-shot")  # type: ignore[arg-type]
        before = answers(fit(folder, "members", asked))
        for tuning in get_args(Tuning)[:3:2]:
            materials = replace(asked, tuning=tuning)
            expected, judge = answers(fit(folder, "members", materials)), fit(folder, "data", materials)
            assert is_sharded(cast(nn.Module, judge.network))
            found = answers(judge)
            assert np.abs(found - before).max() > 0.01, (family, tuning)
            assert np.abs(found - expected).max() < 2e-6, (family, tuning, np.abs(found - expected).max())
    _check_loading(folder, asked)


def _check_loading(folder: Path, materials: Materials) -> None:
    """Weights that are left out are nowhere."""
    network = find_judge(f"hf:{folder}").network
    assert network is not None
    made = network(GENDER, TRAINED, replace(materials, tuning="lora", empty=True))
    assert {weight.device.type for weight in cast(nn.Module, made).parameters()} == {"meta"}

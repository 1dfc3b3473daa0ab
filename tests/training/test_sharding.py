"""A judge of real size in shards: its units, and the memory of a training step. data_parallel.py: what judges learn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from judge.training.launch import find_units

SCRIPT = Path(__file__).parents[1] / "large_shards.py"
WEIGHTS = 7.06e9  # Of LLaVA-1.5-7B.
GIB = 2**30


@pytest.mark.slow
def test_real_sizes_fit() -> None:
    """Each layer is a unit; an adapter judge of 7 billion weights takes a quarter of two GPUs of 80 GB at most.

    Judges with an eighth and a quarter of the layers are measured: each further eighth adds as much as the second.
    """
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    totals, weights, activations = list[float](), list[int](), list[float]()
    for share, found in json.loads(done.stdout.splitlines()[-1]).items():
        layers = 32 // int(share)
        units = {"FSDPAnswerJudge": 1, "FSDPCLIPEncoderLayer": 24 // int(share), "FSDPLlamaDecoderLayer": layers}
        assert found["units"] == units
        peak = found["peak"]
        # bf16 weights, half of them here, and adapters of rank 16 in float32: of each layer of 4096 four matrices of
        # 16 x 8192 and three of 16 x (4096 + 11008).
        adapters = layers * 16 * (4 * 8192 + 3 * (4096 + 11008))
        assert peak["Sharded Param"] == pytest.approx((2 * found["weights"] + 4 * adapters) / 2 / GIB, rel=0.01)
        assert peak["moments"] == pytest.approx(2 * 4 * adapters / 2 / GIB, rel=0.01)
        totals.append(peak["Total"] + peak["moments"] + 4 * adapters / 2 / GIB)
        weights.append(found["weights"])
        activations.append(peak["Activation"] + peak["Temp"])

    def whole(parts: list[Any]) -> float:
        return float(parts[0] + 7 * (parts[1] - parts[0]))

    assert whole(weights) == pytest.approx(WEIGHTS, rel=0.01)
    # Of each layer what goes into it is kept, 8 texts of 640 tokens in bf16; of one layer what it makes on the way.
    kept = 32 * 8 * 640 * 4096 * 2 / GIB
    assert kept < whole(activations) < 3 * kept
    assert whole(totals) < 80e9 / GIB / 4


def test_what_transformers_did_not_make_is_one_unit() -> None:
    assert find_units(nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))) == []

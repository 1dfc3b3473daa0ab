"""The precision of products that is fastest on this machine."""

from __future__ import annotations

import time
from typing import Literal

import torch

from judge.utils.parallel import threads

# One step of LIC's LSTM: [64, 256] by [256, 1024].
_ROWS, _INNER, _COLUMNS = 64, 256, 1024
_SECONDS = 0.05
_LEAST = 1.2
"""So many times as fast must bf16's products be: what lies between them takes longer."""


def find_precision() -> Literal["no", "bf16"]:
    """bf16 where a GPU computes in it; on CPUs where a measurement of 50 ms finds its products faster than float32's.

    CPUs with AMX or AVX512-BF16 have instructions for it; others imitate them, at a fraction of float32's rate.
    """
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device is None:
        return "bf16" if bf16_gain() > _LEAST else "no"
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "no"
    return "bf16" if device.type == "xpu" and torch.xpu.is_bf16_supported() else "no"


def bf16_gain(seconds: float = _SECONDS) -> float:
    """How many times as fast as float32's a small bf16 product is on one core: the ratio of the least times."""
    with threads(1):
        # Beside torch's random numbers, which are the judges'.
        pairs = [
            (torch.full((_ROWS, _INNER), 0.5, dtype=dtype), torch.full((_INNER, _COLUMNS), 0.5, dtype=dtype))
            for dtype in (torch.float32, torch.bfloat16)
        ]
        least, end = [float("inf")] * 2, time.perf_counter() + seconds
        done = 0
        while done < 3 or time.perf_counter() < end:  # The first are slow: kernels are made.
            for i, (left, right) in enumerate(pairs):
                start = time.perf_counter()
                left @ right
                least[i] = min(least[i], time.perf_counter() - start)
            done += 1
    return least[0] / least[1]

"""Attention masks of transformers on a GPU: made without a look at what is padded.

Before it makes a mask, transformers asks the device whether there is any padding: up to four times a pass the host then
waits until all that was begun is done. Captions are of several lengths, so the answer is nearly always yes. On a CPU,
where nothing waits, the question stays: numbers there are those of the library as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

_unseen: ContextVar[bool] = ContextVar("unseen", default=False)
_UNASKED = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}


@contextmanager
def masks_unseen() -> Iterator[None]:
    """Within, masks for PyTorch's own attention are made without asking whether they are needed; of nothing, none."""
    _register()
    token = _unseen.set(True)
    try:
        yield
    finally:
        _unseen.reset(token)


@cache
def _register() -> None:
    """Once: transformers' function for such masks, which elsewhere does what it did."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    own = ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]

    def mask(*arguments: Any, **options: Any) -> Any:
        padding = options.get("attention_mask")
        if _unseen.get() and padding is not None and padding.device.type != "cpu":
            options |= _UNASKED
        return own(*arguments, **options)

    AttentionMaskInterface.register("sdpa", mask)

"""What every loader of a checkpoint needs around Hugging Face's libraries: no talk, short reasons, a real tokenizer."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, no progress bars of transformers, its hub and peft; the user's own settings come back after it."""
    import transformers

    talk: Any = transformers.logging
    level, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    hub_level = hub.level
    talk.set_verbosity(logging.CRITICAL)
    hub.setLevel(logging.CRITICAL)
    talk.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        talk.set_verbosity(level)
        hub.setLevel(hub_level)
        if bars:
            talk.enable_progress_bar()


def first_line(error: Exception) -> str:
    """What a library says, short enough for a line."""
    text = str(error).strip() or type(error).__name__
    return shorten(text.splitlines()[0].rstrip(" .:"), 160, placeholder=" ...")


def knows_words(tokenizer: Any) -> bool:
    """Whether it has any: without its files transformers 5 makes a tokenizer of special tokens alone."""
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return not special.issuperset(tokenizer.get_vocab().values())

"""The input embeddings of a Hugging Face encoder as word vectors.

Only what transformers itself brings runs here: ``trust_remote_code`` is always False, and weights are safetensors.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from judge.errors import JudgeError, require
from judge.text.vectors.files import Rows, finite
from judge.utils.hub import first_line, is_of_library, knows_words, locate, quiet

_OTHERWISE = "give hf:FOLDER of an encoder of text with its tokenizer, a file, or corpus"


def read_embeddings(reference: str, wanted: Set[str]) -> Rows:
    """The embedding of each word ``wanted``; of one that the tokenizer cuts into pieces, the mean of its pieces'.

    A word is looked up as it stands inside a caption, after a space, or without one where that takes fewer pieces.
    One that holds a piece unknown to the tokenizer has no vector.

    Args:
        reference: a folder, or a name on the hub (fetched by transformers, if it may).
        wanted: words.

    Raises:
        JudgeError: no such folder or name; no encoder of text; no or broken safetensors; no tokenizer; transformers
            is not installed.
    """
    require("vision", "transformers", "torch")
    where = f"--vectors hf:{reference}"
    tokenizer, matrix = _load(locate(reference, where), where)
    rows = {}
    for word in sorted(wanted):
        pieces = _pieces(tokenizer, word)
        if pieces and tokenizer.unk_token_id not in pieces and max(pieces) < len(matrix):
            rows[word] = finite(matrix[pieces].mean(axis=0, dtype=np.float64).astype(np.float32), word, where)
    return rows


def _load(name: str, where: str) -> tuple[Any, np.ndarray]:
    """The tokenizer, and the matrix of its pieces' embeddings, [pieces, D]."""
    import torch
    import transformers

    loader: Any = transformers
    with quiet():
        try:
            model, notes = loader.AutoModel.from_pretrained(
                name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, output_loading_info=True
            )
            tokenizer = loader.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            table = model.get_input_embeddings()
        except BaseException as error:
            # The hub's client, the file system and transformers each have errors of their own.
            if not is_of_library(error):
                raise
            what = f"its weights or tokenizer cannot be had in safe form ({first_line(error)})"
            raise JudgeError(what, where=where, mend=_OTHERWISE) from error
    if not isinstance(table, torch.nn.Embedding):
        raise JudgeError("has no embeddings of words", where=where, mend=_OTHERWISE)
    if any(name in notes["missing_keys"] and part is table.weight for name, part in model.named_parameters()):
        raise JudgeError("the weights of its embeddings are missing", where=where, mend=_OTHERWISE)
    if not knows_words(tokenizer):
        raise JudgeError("its tokenizer is missing", where=where, mend="save it beside the weights")
    return tokenizer, table.weight.detach().numpy()


def _pieces(tokenizer: Any, word: str) -> list[int]:
    found: list[list[int]] = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (f" {word}", word)]
    return min(found, key=len)

"""A BERT of two layers with a WordPiece tokenizer of its own, saved as transformers saves one."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch
import transformers as tf

from judge.utils.hub import quiet

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Whole words, and every letter and digit at the beginning and inside of others.
_LETTERS = [*string.ascii_lowercase, *string.digits]
_WORDS = ["noise", "clue0", "clue1", "clue2", "dog", "rides", ",", "<", ">"]
PIECES = [*SPECIAL, *_LETTERS, *(f"##{letter}" for letter in _LETTERS), *_WORDS]
IDS = {piece: index for index, piece in enumerate(PIECES)}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def make_tokenizer() -> Any:
    return tf.BertTokenizerFast(vocab=dict(IDS), do_lower_case=True)


def save_bert(folder: Path) -> Path:
    """BERT with random weights, in safetensors, and its tokenizer; so large that [CLS] attends to all untrained."""
    torch.manual_seed(0)
    config = tf.BertConfig(vocab_size=len(IDS), max_position_embeddings=64, initializer_range=0.2, **SIZES)
    return save(tf.BertModel(config), folder)


def save(model: Any, folder: Path, tokenizer: Any = None) -> Path:
    """An encoder and its tokenizer, side by side."""
    with quiet():
        for part in (model, tokenizer or make_tokenizer()):
            part.save_pretrained(folder)
    return folder

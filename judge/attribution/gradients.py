"""Integrated gradients of words (Sundararajan, Taly, Yan, ICML 2017), by captum.

A word's contribution is the integral of the gradient of the log odds along the straight line from the embedding of
``<unk>`` to its own, all words of a caption at once, times the way. A word of several tokens has the sum of theirs.
Contributions add up to the difference between the log odds of the caption and of one of nothing but ``<unk>``, up to
the error of the sum that stands for the integral (``gap`` in the summary).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from judge.attribution.odds import log_odds
from judge.attribution.question import Question, WordAttribution
from judge.errors import JudgeError, require
from judge.judges import Network
from judge.judges.hf_prompts import encode, spell_words
from judge.judges.readers import PretrainedClassifier, Reader
from judge.text.alignment import UNKNOWN
from judge.training.judge_file import open_network
from judge.training.loop import NetworkJudge
from judge.types import FloatArray, IntArray, Progress, Sample, Words
from judge.utils.parallel import threads

# Gauss-Legendre points along the way, at first and at most, and how near, in log odds, the sum is to come.
STEPS, MOST, NEAR = 16, 256, 1e-3
# Captions at a time, and points of captions that pass the network at a time.
_CAPTIONS, _AT_A_TIME = 64, 256
# Of a batch that a network has sorted by length: the row of each sample.
_ORDER = "places"


@dataclass(frozen=True)
class _Reading:
    """Captions as a network reads them.

    Attributes:
        embedding: the layer that turns tokens into vectors.
        tokens, baseline: [B, T]; the baseline has ``<unk>`` in the place of each word.
        rest: other tensors, [B, ...].
        call: tokens and the rest -> logits [B, A].
        owners: of each token the place of its word, -1 for none, [B, T].
    """

    embedding: nn.Module
    tokens: Tensor
    baseline: Tensor
    rest: tuple[Tensor, ...]
    call: Callable[..., Tensor]
    owners: IntArray


def integrate(question: Question, progress: Progress | None = None) -> WordAttribution:
    """Contributions to the log odds of the class explained (natural logarithm).

    Captions are taken with more points of the sum until contributions add up to NEAR, or with MOST of them.

    Args:
        question: a network that has word embeddings of its own, captions and the class explained.
        progress: called with the progress.

    Returns:
        ``base``: log odds of the caption with ``<unk>`` for each word; ``total``: of the caption.

    Raises:
        JudgeError: captum is not installed; the judge's tokens cannot be told apart by words.
    """
    require("networks", "captum")
    saved = question.saved
    # Captioners repeat themselves: each caption is taken once.
    keys = [(one.words, one.image, int(k)) for one, k in zip(question.samples, question.explained, strict=True)]
    different = dict(zip(keys, question.samples, strict=True))
    samples, explained = list(different.values()), np.array([key[2] for key in different], dtype=np.int64)
    with threads(1 if saved.sharing == "members" else None):
        judge, _ = open_network(saved, samples, features=question.features, pictures=question.pictures)
        parts = []
        for start in range(0, len(samples), _CAPTIONS):
            if progress:
                progress("integrated gradients", start, len(samples))
            part = slice(start, start + _CAPTIONS)
            parts.append(_until_near(judge, samples[part], explained[part]))
    place = {key: row for row, key in enumerate(different)}
    rows = [place[key] for key in keys]
    amounts = [one for part in parts for one in part.contributions]
    base, total = (np.concatenate([getattr(part, name) for part in parts])[rows] for name in ("base", "total"))
    return WordAttribution("integrated-gradients", [amounts[row] for row in rows], base, total)


def _until_near(judge: NetworkJudge, samples: Sequence[Sample], explained: IntArray) -> WordAttribution:
    steps = STEPS
    while True:
        found = integrate_some(judge, samples, explained, steps=steps)
        sums = np.array([amounts.sum() for amounts in found.contributions])
        if steps >= MOST or np.abs(found.base + sums - found.total).max() <= NEAR:
            return found
        steps = min(MOST, 4 * steps)


def integrate_some(
    judge: NetworkJudge, samples: Sequence[Sample], explained: IntArray, *, steps: int = STEPS
) -> WordAttribution:
    """Of so many captions as pass a network together; ``explained``: classes, [N]. See :func:`integrate`."""
    found = [np.zeros(0)] * len(samples)
    ends = np.zeros((2, len(samples)))
    with _differentiable(judge):
        for places in _alike(judge.network, samples):
            part = [samples[place] for place in places]
            reading = _read(judge, part)
            amounts, ends[:, places] = _integral(reading, judge, explained[places], steps)
            for place, owners, row, sample in zip(places, reading.owners, amounts, part, strict=True):
                found[place] = np.bincount(owners[owners >= 0], row[owners >= 0], len(sample.words)).astype(np.float64)
    return WordAttribution("integrated-gradients", found, *ends)


def _alike(network: Network, samples: Sequence[Sample]) -> list[IntArray]:
    """Places of samples that are taken together: all; of one length, where a network sorts captions by that."""
    lengths = np.array([len(sample.words) for sample in samples])
    if _ORDER not in network.collate(samples[:1]):
        return [np.arange(len(samples))]
    return [np.flatnonzero(lengths == length) for length in np.unique(lengths)]


@contextmanager
def _differentiable(judge: NetworkJudge) -> Iterator[None]:
    """Without dropout; cuDNN's LSTM would refuse gradients outside of training."""
    network = cast(nn.Module, judge.network)
    # Nobody asks for gradients of weights, which would be most of the work.
    network.to(judge.trainer.accelerator.device).eval().requires_grad_(requires_grad=False)
    with torch.backends.cudnn.flags(enabled=False), torch.enable_grad():
        yield


def _integral(reading: _Reading, judge: NetworkJudge, explained: IntArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """What each token contributes [B, T], and the log odds at both ends of the way [2, B]."""
    from captum.attr import LayerIntegratedGradients

    def odds(tokens: Tensor, *rest: Tensor) -> Tensor:
        return log_odds(reading.call(tokens, *rest).float(), judge.target)

    device = judge.trainer.accelerator.device
    tokens, baseline, *rest = (tensor.to(device) for tensor in (reading.tokens, reading.baseline, *reading.rest))
    target = torch.from_numpy(explained).to(device)
    amounts = LayerIntegratedGradients(odds, reading.embedding).attribute(
        tokens,
        baselines=baseline,
        target=target,
        additional_forward_args=tuple(rest) or None,
        n_steps=steps,
        method="gausslegendre",
        internal_batch_size=_AT_A_TIME,
    )
    with torch.no_grad():
        ends = [odds(one, *rest).gather(1, target[:, None])[:, 0] for one in (baseline, tokens)]
    return amounts.sum(dim=2).detach().cpu().double().numpy(), torch.stack(ends).cpu().double().numpy()


def _read(judge: NetworkJudge, samples: Sequence[Sample]) -> _Reading:
    """Captions as word numbers, or as tokens of a text encoder that was trained in place."""
    network = judge.network
    if isinstance(network, PretrainedClassifier) and network.reader:
        return _of_encoder(network, network.reader, samples, judge.blueprint.name)
    batch = dict(network.collate(samples))
    embedding = getattr(getattr(network, "reader", network), "embedding", None)
    if "tokens" not in batch or not isinstance(embedding, nn.Embedding):
        raise JudgeError(f"words of judge '{judge.blueprint.name}' have no embedding", mend="use --methods occlusion")
    tokens = batch.pop("tokens")
    own = np.arange(tokens.shape[1]) < np.array([len(sample.words) for sample in samples])[:, None]
    owners = np.where(own, np.arange(tokens.shape[1]), -1)
    unknown = cast("dict[str, int]", getattr(network, "vocabulary"))[UNKNOWN]  # noqa: B009 - a Network has none
    baseline = torch.where(torch.from_numpy(own), unknown, tokens)
    names = [name for name, value in batch.items() if isinstance(value, Tensor) and name != _ORDER]
    return _Reading(embedding, tokens, baseline, tuple(batch[name] for name in names), _caller(network, names), owners)


def _caller(network: Network, names: Sequence[str]) -> Callable[..., Tensor]:
    """Of a network that takes what ``number_words`` makes: lengths are told on the host as well."""

    def call(tokens: Tensor, *rest: Tensor) -> Tensor:
        batch: dict[str, Any] = dict(zip(names, rest, strict=True))
        order = torch.arange(len(tokens), device=tokens.device)
        return network(batch | {"tokens": tokens, "host_lengths": batch["lengths"].tolist(), _ORDER: order})

    return call


def _of_encoder(network: PretrainedClassifier, reader: Reader, samples: Sequence[Sample], name: str) -> _Reading:
    batch = network.collate(samples)
    text = dict(batch["text"])
    tokens = text.pop("input_ids")
    owners = owners_of(reader, [sample.words for sample in samples], tokens.shape[1], name)
    baseline = torch.where(torch.from_numpy(owners >= 0), _unknown(reader, name), tokens)
    features = {"features": batch["features"]} if "features" in batch else {}
    names = [*text]

    def call(ids: Tensor, *rest: Tensor) -> Tensor:
        given = dict(zip([*names, *features], rest, strict=True))
        seen = {"features": given.pop("features")} if features else {}
        logits: Tensor = network({"text": {"input_ids": ids, **given}, **seen})
        return logits

    rest = (*text.values(), *features.values())
    return _Reading(reader.model.get_input_embeddings(), tokens, baseline, rest, call, owners)


def owners_of(reader: Reader, captions: Sequence[Words], width: int, name: str) -> IntArray:
    """Of each token of captions, as the reader reads them, the place of its word, -1 for none, [B, T].

    Raises:
        JudgeError: the tokenizer does not say which letters a token stands for.
    """
    tokenizer = reader.tokenizer
    if not tokenizer.is_fast:
        what = f"the tokenizer of judge '{name}' does not say which letters a token stands for"
        raise JudgeError(what, mend="use --methods occlusion")
    found = np.full((len(captions), width), -1, dtype=np.int64)
    for row, words in zip(found, captions, strict=True):
        spelled = [spell_words(tokenizer, [word]) for word in words]
        # The word of each letter; a space belongs to the word after it, as byte-level tokens have it.
        letters = [place for place, text in enumerate(spelled) for _ in range(len(text) + (place > 0))]
        cut = {"truncation": reader.limit is not None, "max_length": reader.limit}
        made = tokenizer(" ".join(spelled), return_offsets_mapping=True, **cut)
        for place, (_, end) in enumerate(made["offset_mapping"]):
            # Our hidden words are special tokens of the tokenizer's, and have letters; what it adds has none.
            if end and place < width:
                row[place] = letters[end - 1]
    return found


def _unknown(reader: Reader, name: str) -> int:
    ids = encode(reader.tokenizer, spell_words(reader.tokenizer, [UNKNOWN]))
    if len(ids) != 1:
        raise JudgeError(f"judge '{name}' has no one token for {UNKNOWN}", mend="use --methods occlusion")
    return ids[0]

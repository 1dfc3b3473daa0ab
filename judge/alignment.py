"""Make the human side comparable with the generated side before judging either.

LIC (CVPR 2022, section 4): a captioner's vocabulary is smaller than people's, and a judge would be
confused by that alone; so words that the captioner never uses are taken from the human side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

AlignmentName = Literal["none", "constant"]
UNKNOWN = "<unk>"


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """What an alignment did to the human side; shares in [0, 1], kept + unknown = 1.

    ``words``: distinct words; ``tokens``: occurrences.
    """

    words: int
    words_kept: float
    words_unknown: float
    tokens: int
    tokens_kept: float
    tokens_unknown: float


def align(
    human: Sequence[tuple[str, ...]], generated: Iterable[tuple[str, ...]], *, how: AlignmentName
) -> tuple[list[tuple[str, ...]], AlignmentReport]:
    """Align masked ``human`` captions to the vocabulary of masked ``generated`` ones.

    ``none`` keeps every word; ``constant`` puts ``<unk>`` for a word that the generated side never uses
    (LIC). Special tokens such as "<gender>" are never substituted.

    Returns:
        The aligned captions, in order and of unchanged lengths, and what was kept.
    """
    counts = Counter(word for words in human for word in words if not is_special(word))
    vocabulary = {word for words in generated for word in words}
    dropped = set() if how == "none" else {word for word in counts if word not in vocabulary}
    aligned = [tuple(UNKNOWN if word in dropped else word for word in words) for words in human]
    return aligned, _report(counts, dropped)


def is_special(word: str) -> bool:
    """Whether ``word`` is a token of ours; the tokeniser never writes "<" beside a letter."""
    return len(word) > 2 and word[0] == "<" and word[-1] == ">"


def _report(counts: Counter[str], dropped: set[str]) -> AlignmentReport:
    words, tokens = len(counts), counts.total()
    unknown_words = len(dropped) / words if words else 0.0
    unknown_tokens = sum(counts[word] for word in dropped) / tokens if tokens else 0.0
    return AlignmentReport(words, 1 - unknown_words, unknown_words, tokens, 1 - unknown_tokens, unknown_tokens)

"""Hiding the words that reveal an attribute."""

from __future__ import annotations

from collections.abc import Sequence

from judge.lexicon import Lexicon


def mask(words: Sequence[str], lexicon: Lexicon | None) -> tuple[str, ...]:
    """``words`` with every word of ``lexicon`` replaced by its token; the count of words stays.

    Possessives and contractions of a lexicon word ("woman's", "he's") are hidden too: masking errs on the
    side of hiding, where :meth:`Lexicon.mentions` errs on the side of silence. Idempotent.
    """
    if lexicon is None:
        return tuple(words)
    hidden = list(words)
    stems = [word.partition("'")[0] or word for word in words]
    for spelling in (words, stems):
        for start, stop, _ in lexicon.find(spelling):
            hidden[start:stop] = [lexicon.token] * (stop - start)
    return tuple(hidden)

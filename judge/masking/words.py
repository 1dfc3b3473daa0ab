"""Hiding the words that reveal an attribute."""

from __future__ import annotations

from collections.abc import Sequence

from judge.lexicon import Lexicon


def mask(words: Sequence[str], lexicon: Lexicon | None) -> tuple[str, ...]:
    """``words`` with every entry of ``lexicon`` replaced by its token, one for an entry of several words.

    (A token a word would tell "fire hydrant" from "bench".) Possessives and contractions of a lexicon word ("woman's",
    "he's") are hidden too: masking errs on the side of hiding, where :meth:`Lexicon.mentions` errs on the side of
    silence. Idempotent.
    """
    if lexicon is None:
        return tuple(words)
    hidden: list[str | None] = list(words)
    stems = [word.partition("'")[0] or word for word in words]
    for spelling in (words, stems):
        for start, stop, _ in lexicon.find(spelling):
            bare = [place for place in range(start, stop) if hidden[place] == words[place]]
            for place in bare:
                hidden[place] = lexicon.token if len(bare) == stop - start and place == start else None
    return tuple(word for word in hidden if word is not None)

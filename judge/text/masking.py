"""Hiding the words that reveal an attribute."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from judge.text.lexicon import Lexicon


def mask(words: Sequence[str], lexicon: Lexicon | None, *, spared: Collection[str] = ()) -> tuple[str, ...]:
    """Replace every entry of ``lexicon`` in ``words`` by its token: one token for an entry of several words.

    (One token per word would tell "fire hydrant" from "bench".) Entries of the classes ``spared`` stay, with the words
    in them: a "bike rider" is no bike. Possessives and contractions of a lexicon word ("woman's", "he's") are hidden
    too, though :meth:`Lexicon.mentions` does not count them. Idempotent.
    """
    if lexicon is None:
        return tuple(words)
    spellings = [words]
    if "'" in "".join(words):
        spellings.append([word.partition("'")[0] or word for word in words])
    hidden: list[str | None] = list(words)
    for spelling in spellings:
        for start, stop, name in lexicon.find(spelling):
            if name in spared:
                continue
            bare = [place for place in range(start, stop) if hidden[place] == words[place]]
            for place in bare:
                hidden[place] = lexicon.token if len(bare) == stop - start and place == start else None
    return tuple(word for word in hidden if word is not None)

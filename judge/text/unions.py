"""Tasks of several lexicons at once: objects and activities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from judge.errors import JudgeError
from judge.text.lexicon import Lexicon, load_lexicon


@dataclass(frozen=True)
class TaskUnion(Lexicon):
    """The tasks of several lexicons.

    Attributes:
        parts: the lexicons.
    """

    parts: tuple[Lexicon, ...] = ()


def load_tasks(names: Sequence[str]) -> Lexicon:
    """The words of tasks: one lexicon (a shipped name, or a file), or the union of several.

    Raises:
        JudgeError: as ``load_lexicon`` and ``unite_lexicons``; no name.
    """
    if not names:
        raise JudgeError("no lexicon of tasks is named", mend="give --tasks coco-objects")
    lexicons = [load_lexicon(name) for name in names]
    return lexicons[0] if len(lexicons) == 1 else unite_lexicons(lexicons)


def unite_lexicons(lexicons: Sequence[Lexicon]) -> TaskUnion:
    """All tasks of several lexicons. As within one, the longest entry wins: a "surf board" is no surfing.

    One token stands for all (one for each lexicon would tell which of them was named). What one lexicon only hides and
    another takes as a task is a task: "skiing" gives skis away, and names the activity.

    Raises:
        JudgeError: two have a task of the same name, or the same word for two tasks.
    """
    classes: dict[str, frozenset[str]] = {}
    owner: dict[str, str] = {}
    for lexicon in lexicons:
        for name, words in lexicon.classes.items():
            if name in classes:
                raise JudgeError(f"two lexicons have a task '{name}'", where="--tasks", mend="rename it in one of them")
            for word in sorted(words & owner.keys()):
                what = f"'{word}' stands for '{owner[word]}' and for '{name}'"
                raise JudgeError(what, where="--tasks", mend="keep it in one of the lexicons")
            classes[name] = words
            owner |= dict.fromkeys(words, name)
    return TaskUnion(
        name=",".join(lexicon.name for lexicon in lexicons),
        token=f"<{'-or-'.join(lexicon.token[1:-1] for lexicon in lexicons)}>",
        classes=classes,
        hidden_only=frozenset().union(*(lexicon.hidden_only for lexicon in lexicons)) - owner.keys(),
        source="; ".join(f"{lexicon.name}: {lexicon.source}" for lexicon in lexicons),
        parts=tuple(lexicons),
    )


def unlisted_tasks(lexicon: Lexicon | None, listed: Collection[str]) -> frozenset[str]:
    """The tasks of those lexicons in a union that share none with ``listed``: a list of objects has no activities."""
    parts = lexicon.parts if isinstance(lexicon, TaskUnion) else ()
    return frozenset().union(*(part.classes for part in parts if part.classes.keys().isdisjoint(listed)))

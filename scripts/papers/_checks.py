"""What published figures say of each other: differences that must come out, correlations that the text quotes."""

from __future__ import annotations

from collections.abc import Sequence

from _published import Published

from judge.statistics import conflict_score, ranking_consistency


def difference(published: Published, whole: str, minuend: str, subtrahend: str, *, within: float = 0.1001) -> str:
    """How many rows have ``whole = minuend - subtrahend``, up to the rounding of three figures."""
    columns = [published.column(name) for name in (whole, minuend, subtrahend)]
    apart = [abs(a - b + c) for a, b, c in zip(*columns, strict=True)]
    off = [" ".join(row) for row, d in zip(published.rows, apart, strict=True) if d > within]
    right = f"{len(apart) - len(off)} of {len(apart)} rows"
    text = f"Published {whole} = {minuend} - {subtrahend} to within rounding in {right}"
    return f"{text}; not in {', '.join(off)}." if off else f"{text}."


def judges_agree(published: Published, first: str, second: str, told: str) -> str:
    """Conflict score and ranking consistency of two judges (ImageCaptioner2, section 5.5.2) from published columns."""
    a, b = published.column(first), published.column(second)
    conflict, ranking = conflict_score(a, b), ranking_consistency(a, b)
    return (
        f"From the published figures of {first} and {second}: conflict score {conflict:.2%}, ranking consistency "
        f"{ranking:.3f}{told}."
    )


def equal(first: Sequence[float], second: Sequence[float], what: str) -> str:
    """How many figures of two published columns are the same."""
    same = sum(a == b for a, b in zip(first, second, strict=True))
    return f"{what}: {same} of {len(first)} figures are the same."

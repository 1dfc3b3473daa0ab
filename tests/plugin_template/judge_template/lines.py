"""A reader of captions: ``{"lines": ["image: caption", ...]}``."""

from typing import Any

from judge.corpus.layouts import Request, Table


def read_lines(document: Any, request: Request) -> Table | None:
    """The rows of a parsed document; None if it has another layout."""
    if not isinstance(document, dict) or list(document) != ["lines"]:
        return None
    rows = [dict(zip(("image_id", "caption"), line.split(": ", 1), strict=True)) for line in document["lines"]]
    return Table(rows, ("image_id", "caption"))

"""The page on which people rate: one self-contained HTML file that works offline and saves a CSV file.

Captions are data in it, shown as text alone; its Content-Security-Policy allows no request and no script but its own.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib.metadata import version

from judge.corpus.rating_sheet import Sheet
from judge.report.templating import asset, render_page
from judge.utils.cells import FORMULA


def rating_page(sheet: Sheet, *, title: str, lead: Sequence[str], table: str = "rating.csv") -> str:
    """The page, as HTML: item after item, with answers by key or pointer, kept in the browser until they are saved.

    What it saves is the sheet's table with the answers and the rater's name, for
    :func:`judge.corpus.ratings.read_ratings`. Raters see the items' texts and pictures, and nothing else about them.

    Args:
        sheet: what is rated, and the questions.
        title: heading of the page.
        lead: what raters are to know, a paragraph each.
        table: the file to fill in where the page does not work, which it names.
    """
    return render_page(
        "rating",
        {
            "title": title,
            "lead": lead,
            "table": table,
            "count": len(sheet.items),
            "data": _data(sheet),
            # The keys 1 to 9 answer; there may be more choices.
            "keys": min(9, max(len(one.choices) for one in sheet.questions)),
            "version": version("caption-judge"),
        },
        style=asset("rating.css"),
    )


def _data(sheet: Sheet) -> dict[str, object]:
    """What the script reads."""
    questions = [
        {"name": one.name, "text": one.text, "choices": one.choices, "after": one.after} for one in sheet.questions
    ]
    items = [
        {"name": one.name, "text": one.text, "picture": base64.b64encode(one.picture).decode()} for one in sheet.items
    ]
    return {
        "name": sheet.name,
        "heading": sheet.heading,
        "formula": FORMULA,
        "columns": sheet.columns,
        "questions": questions,
        "items": items,
    }

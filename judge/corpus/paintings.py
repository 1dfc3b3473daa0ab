"""Paintings in tables of ArtEmis, which name them by two columns: an id for each, as in WikiArt's folders.

Source: Achlioptas et al., CVPR 2021 (v1); Mohamed et al., CVPR 2022 (v2), and the code that they published.
"""

from __future__ import annotations

from judge.corpus.tables import Row, with_cells

PAINTING = "art_style/painting"
"""The column of ids that tables of paintings get: "Impressionism/claude-monet_haystacks", as in WikiArt's folders."""

_STYLE, _NAME, _FILE, _EMOTION = "art_style", "painting", "image_file", "grounding_emotion"
PAINTING_COLUMNS = _STYLE, _NAME, _FILE, _EMOTION


def name_paintings(rows: list[Row]) -> list[Row]:
    """Rows of ArtEmis with a column :data:`PAINTING` more, or their ``image_file`` cut; all others as they are.

    A speaker's ``image_file`` is a path on somebody's machine: the style's folder and the file are kept.
    """
    known = rows[0].keys() if rows else ()
    if _STYLE in known and _NAME in known:
        return [with_cells(row, {PAINTING: _join(row.get(_STYLE), row.get(_NAME))}) for row in rows]
    if _FILE in known and _EMOTION in known:
        return [with_cells(row, {_FILE: _cut(row.get(_FILE))}) for row in rows]
    return rows


def _join(style: object, name: object) -> str | None:
    """The id that WikiArt's folders give a painting; null where one of the two is no text, and empty where one is."""
    if not isinstance(style, str) or not isinstance(name, str):
        return None
    return f"{style.strip()}/{name.strip()}" if style.strip() and name.strip() else ""


def _cut(path: object) -> object:
    return "/".join(path.replace("\\", "/").split("/")[-2:]) if isinstance(path, str) else path

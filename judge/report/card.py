"""What model cards share, of trained judges and of captioners: Hugging Face's header, sections, limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

PERCEIVED = """\
- **Perceived classes.** Labels are what annotators or caption writers saw in a picture. They say nothing about
  anyone's identity, and leave out many people."""


def front_matter(header: Mapping[str, Any], *remarks: str) -> str:
    """The YAML header of a card, between its lines of hyphens; ``remarks`` are comments below it."""
    text = yaml.safe_dump(dict(header), sort_keys=False, allow_unicode=True, width=1000)
    return "---\n" + text + "".join(f"# {remark}\n" for remark in remarks) + "---\n"


def write_sections(sections: Mapping[str, str]) -> str:
    """Heading -> text, as Markdown."""
    return "\n\n".join(f"## {title}\n\n{content}" for title, content in sections.items()) + "\n"


def bullets(rows: Iterable[tuple[str, object]]) -> str:
    """A line for each name and its value."""
    return "\n".join(f"- {name}: {value}" for name, value in rows)

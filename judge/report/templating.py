"""Pages of one file: templates that escape whatever data says, and a policy that allows the page's own script alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup


def render_page(name: str, values: Mapping[str, Any], *, style: str) -> str:
    """A page, from the template ``NAME.html``, which extends ``page.html``; its script is ``NAME.js``.

    Args:
        name: of template and script.
        values: what the template reads, "title" and "version" among them.
        style: what is added to the style of all pages.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("judge.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    script = asset(f"{name}.js")
    own = {"css": trusted(asset("report.css") + style), "script": trusted(script), "script_hash": _hash(script)}
    return templates.get_template(f"{name}.html").render({**values, **own})


def asset(name: str) -> str:
    """A style or script that stands beside the templates."""
    return (resources.files("judge.report") / "templates" / name).read_text(encoding="utf-8")


def trusted(text: str) -> Markup:
    """Text of this package, base64 or escaped: the template leaves it as it is."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - of such text alone


def _hash(script: str) -> str:
    """What a Content-Security-Policy calls this script by."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"sha256-{digest}"

"""Pages in a browser, as tests open them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def page_of(browser: Browser, path: Path, **settings: Any) -> Iterator[Page]:
    """A page, opened from disk: nothing is asked for but the file, and nobody complains."""
    context = browser.new_context(**settings)
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
    page.on(
        "request", lambda request: heard.append(request.url) if not request.url.startswith(("data:", "blob:")) else None
    )
    page.goto(path.as_uri())
    yield page
    assert heard == [path.as_uri()]
    context.close()

"""HTML that is content from its beginning to its end: what an API gives of an article. Pure."""

from __future__ import annotations

from tabane.reader.formats.made import bounded
from tabane.reader.page import Page

MEDIA = "application/vnd.tabane.whole+html"
"""How a way says that no part of this HTML is anything but content."""


def whole_page(text: str, url: str) -> Page:
    """All of it as Markdown; scripts and styles show nothing."""
    from tabane.reader.extraction.html_tree import parsed
    from tabane.reader.markdown import markdown

    root = parsed(text)
    body = root.find("body")
    written, warnings = bounded(markdown([root if body is None else body], url))
    return Page(url, written, way="html", share=1.0, warnings=warnings)

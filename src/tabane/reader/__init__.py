"""The reader: any URL as clean, complete and safe Markdown.

    page = tabane.reader.extract(html, "https://example.com/")     # pure
    page = await tabane.reader.read("https://example.com/")        # under the guard, without a hub
    page.markdown, page.text, page.title, page.author, page.date, page.warnings …

Each name is imported with its dependencies when it is used first.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; importing typing takes longer than all the rest
if TYPE_CHECKING:
    from tabane.errors import ReadError
    from tabane.reader.library import ThreadedConversion, extract, read, reading
    from tabane.reader.page import Page

__all__ = ["Page", "ReadError", "ThreadedConversion", "extract", "read", "reading"]

_FROM = {
    "Page": "tabane.reader.page",
    "ReadError": "tabane.errors",
    "ThreadedConversion": "tabane.reader.library",
    "extract": "tabane.reader.library",
    "read": "tabane.reader.library",
    "reading": "tabane.reader.library",
}


def __getattr__(name: str) -> object:
    if name in _FROM:
        import importlib

        return getattr(importlib.import_module(_FROM[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

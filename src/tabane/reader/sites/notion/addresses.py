"""Which page of Notion a URL leads to. Pure."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

_HOSTS = ("notion.so", "notion.site", "app.notion.com")
_ID = re.compile(r"(?:^|-)([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$", re.IGNORECASE)


def page_id(url: str) -> str | None:
    """The id of the page or database at ``url``, as a UUID; None where the URL has none or is not Notion's.

    A page that is looked at beside the list it is in has its id in ``p``; that in ``v`` is of a view.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if not any(host == each or host.endswith("." + each) for each in _HOSTS):
        return None
    beside = parse_qs(parts.query).get("p", [""])[0]
    last = parts.path.rstrip("/").rpartition("/")[2]
    found = _ID.search(beside) or _ID.search(last)
    return uuid(found[1]) if found else None


def uuid(text: str) -> str:
    """An id in the spelling of the API."""
    plain = text.replace("-", "").lower()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def address(id_: object) -> str:
    """Where a page is, by its id."""
    return f"https://www.notion.so/{str(id_).replace('-', '')}"

"""Texts of a registry, which anybody can publish, made safe to show. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from tabane.text.cutting import shortened

LONGEST = 500
"""Characters of a text that is shown."""

_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
"""Unicode's categories of controls, invisible characters (marks of direction too), and unassigned ones."""


def shown_text(value: object, most: int = LONGEST) -> str:
    """Return an untrusted text as one line that can be shown; empty if it is not a text.

    Line breaks are spaces, and invisible characters are left out.
    """
    if not isinstance(value, str):
        return ""
    # cut first: a text of megabytes would be looked at character by character
    spaced = " ".join(value[: most * 8].split())
    kept = "".join(c for c in spaced if unicodedata.category(c) not in _UNSHOWN)
    return shortened(kept, most)


def shown_url(value: object) -> str:
    """Return the address of a web page; empty if it is none, or is not plain ASCII."""
    return value if isinstance(value, str) and len(value) <= LONGEST and _URL.fullmatch(value) else ""


def has_only_visible(text: str) -> bool:
    """Return whether a text has no control and no invisible character, so that it is what it looks like."""
    return all(unicodedata.category(character) not in _UNSHOWN for character in text)


def member(value: object, key: str) -> Any:
    """Return a member of an untrusted object; None if it is no object or has no such member."""
    return value.get(key) if isinstance(value, Mapping) else None


def items(value: object, key: str, most: int) -> list[Any]:
    """Return the first items of a list in an untrusted object; empty if it has none."""
    found = member(value, key)
    return found[:most] if isinstance(found, list) else []

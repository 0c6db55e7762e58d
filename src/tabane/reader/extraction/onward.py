"""Addresses that a browser loads without a click: frames, and a refresh to another address. Pure.

Addresses are marked by how they are used: ``refresh URL`` or ``frame URL``.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urldefrag, urljoin

Element = Any

REFRESH, FRAME = "refresh ", "frame "

_MOST_FRAMES = 8
_SOON = 5.0  # seconds: a page that stays for longer is there to be read
_LONGEST = 4_000
_CONTENT = re.compile(
    r"""\s*(\d{0,6}(?:\.\d{0,6})?)\s*[;,\s]\s*(?:url\s*=\s*)?(?:"([^"]*)"|'([^']*)'|(\S.*))\s*""",
    re.IGNORECASE | re.DOTALL,
)


def onward_addresses(root: Element, url: str) -> tuple[str, ...]:
    """Return the marked addresses that a browser would load, absolute: a refresh, else the frames of a
    frameset.
    """
    base = _base(root, url)
    for element in root.iter("meta"):
        if (element.get("http-equiv") or "").strip().lower() != "refresh" or _is_alternative(element):
            continue
        to = refreshed(element.get("content") or "", base, url)
        return (REFRESH + to,) if to else ()
    if next(root.iter("frameset"), None) is None:
        return ()
    found = (_address(base, frame.get("src") or "") for frame in root.iter("frame"))
    frames = dict.fromkeys(address for address in found if address and not _same(address, url))
    return tuple(FRAME + address for address in list(frames)[:_MOST_FRAMES])


def refreshed(value: str, base: str, url: str) -> str | None:
    """Return the address of a refresh (of a header or a meta element), absolute against ``base``.

    None if it comes late, or leads to the page itself.
    """
    match = _CONTENT.fullmatch(value[:_LONGEST])
    if match is None:
        return None
    to = _address(base, (match[2] or match[3] or match[4] or "").strip())
    try:
        soon = float(match[1] or 0) <= _SOON
    except ValueError:
        return None
    return to if soon and to and not _same(to, url) else None


def _base(root: Element, url: str) -> str:
    element = root.find(".//base[@href]")
    return (_address(url, element.get("href")) or url) if element is not None else url


def _address(base: str, to: str) -> str | None:
    """Return an absolute address of the web; None for others, such as about:blank."""
    try:
        address = urljoin(base, to.strip()) if to.strip() else ""
    except ValueError:
        return None
    return address if address[:8].lower().startswith(("http://", "https://")) else None


def _is_alternative(element: Element) -> bool:
    """Return whether only browsers without scripts would follow it."""
    return any(above.tag == "noscript" for above in element.iterancestors())


def _same(address: str, url: str) -> bool:
    return urldefrag(address)[0] == urldefrag(url)[0]

"""Addresses that a browser loads without a click: frames, and a refresh to another address. Pure.

Addresses are marked by how they are used: ``refresh URL``, ``frame URL``, or ``elsewhere URL`` for a frame of
another site, which is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

Element = Any

REFRESH, FRAME, ELSEWHERE = "refresh ", "frame ", "elsewhere "

_MOST_FRAMES = 8
_SOON = 5.0  # seconds: a page that stays for longer is there to be read
_LONGEST = 4_000
_LITTLE = 120  # letters and digits: a page with less around a frame is that frame
_UNSHOWN = frozenset(("script", "style", "noscript", "template", "head", "title", "iframe", "noframes"))
_NOT_SHOWN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?<![-\w])(?:width|height)\s*:\s*[01](?![.\d%])"
)
_SECOND_LEVEL = re.compile(r"(?:ac|co|com|ed|edu|go|gov|gr|lg|ne|net|or|org)\.[a-z]{2}")
_CONTENT = re.compile(
    r"""\s*(\d{0,6}(?:\.\d{0,6})?)\s*[;,\s]\s*(?:url\s*=\s*)?(?:"([^"]*)"|'([^']*)'|(\S.*))\s*""",
    re.IGNORECASE | re.DOTALL,
)


def onward_addresses(root: Element, url: str) -> tuple[str, ...]:
    """Return the marked addresses that a browser would load, absolute: a refresh, else the frames of a
    frameset, or of a page that shows next to nothing else.
    """
    base = base_of(root, url)
    for element in root.iter("meta"):
        if (element.get("http-equiv") or "").strip().lower() != "refresh" or _is_alternative(element):
            continue
        to = refreshed(element.get("content") or "", base, url)
        return (REFRESH + to,) if to else ()
    framed = next(root.iter("frameset"), None) is not None
    elements = root.iter("frame") if framed else _only_frames(root)
    found = (_address(base, element.get("src") or "") for element in elements)
    frames = dict.fromkeys(address for address in found if address and not _same(address, url))
    marks = (FRAME if framed or _is_one_site(address, url) else ELSEWHERE for address in frames)
    return tuple(mark + address for mark, address in zip(marks, frames, strict=True))[:_MOST_FRAMES]


def open_documents(root: Element, parsed: Callable[[str], Element]) -> None:
    """Put the documents of ``srcdoc`` frames in their place, on a page that shows next to nothing else."""
    for frame in _only_frames(root):
        if source := frame.get("srcdoc"):
            inner = parsed(source)
            frame.tag = "div"
            for name in ("srcdoc", "width", "height"):
                frame.attrib.pop(name, None)
            frame[:] = [each for part in inner for each in part if each.tag not in ("title", "base", "meta")]
            frame.text = next((part.text for part in inner if part.tag == "body"), None)


def _only_frames(root: Element) -> list[Element]:
    """Return the visible frames of a page without other text; none if it has some."""
    frames = [frame for frame in root.iter("iframe") if _is_shown(frame)][:_MOST_FRAMES]
    if not frames:
        return []
    letters, todo = 0, [root]
    while todo and letters < _LITTLE:
        element = todo.pop()
        if isinstance(element.tag, str) and element.tag not in _UNSHOWN and "hidden" not in element.attrib:
            letters += sum(map(str.isalnum, element.text or ""))
            todo.extend(element)
        letters += sum(map(str.isalnum, element.tail or ""))
    return frames if letters < _LITTLE else []


def _is_shown(frame: Element) -> bool:
    """Return whether a frame is as large as one that shows a page."""
    if any("hidden" in at.attrib or at.tag == "noscript" for at in (frame, *frame.iterancestors())):
        return False
    sizes = ((frame.get(name) or "").strip().removesuffix("px") for name in ("width", "height"))
    return not any(size in ("0", "1") for size in sizes) and not _NOT_SHOWN.search(frame.get("style") or "")


def _is_one_site(address: str, url: str) -> bool:
    """Return whether two addresses have one host, or hosts of one domain."""
    one, other = (urlsplit(each).hostname or "" for each in (address, url))
    if one == other or one.endswith("." + other) or other.endswith("." + one):
        return bool(one)
    above = one.partition(".")[2]
    named = "." in above and not _SECOND_LEVEL.fullmatch(above) and not above.replace(".", "").isdigit()
    return named and above == other.partition(".")[2]


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


def base_of(root: Element, url: str) -> str:
    """Return the address that relative ones begin at: that of the first ``<base href>``, else of the page."""
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

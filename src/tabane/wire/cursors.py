"""Cursors of our own lists, and the pages they lead through; pure.

A cursor holds the key of the last item that was listed, so that a list may change between two pages
without an item being shown twice or left out. Source: the specification, "Pagination": cursors are
opaque, a missing ``nextCursor`` is the end, and one that is not valid is -32602. The empty string may
be a cursor of other servers and is passed on to them as it is; we never hand it out, so it is as
invalid as any other cursor that is not ours.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from tabane.wire.era import INVALID_PARAMS, Refusal

_AGAIN = "list again from the start, without a cursor"


def encode(kind: str, after: str) -> str:
    """The cursor of the page that begins after the key ``after`` of the list ``kind``."""
    text = f"{kind}\n{after}".encode(errors="surrogatepass")
    return binascii.b2a_base64(text, newline=False).translate(_TO_URL).decode().rstrip("=")


def decode(cursor: str, kind: str) -> str:
    """The key that a cursor holds. Raises :class:`~tabane.wire.era.Refusal` where it is not of that list."""
    padding = "=" * (-len(cursor) % 4)
    try:
        packed = (cursor + padding).encode().translate(_FROM_URL)
        text = binascii.a2b_base64(packed).decode(errors="surrogatepass")
    except ValueError:
        text = ""
    _, mark, after = text.partition("\n")
    if not mark or encode(kind, after) != cursor:
        raise Refusal(INVALID_PARAMS, f"cursor: not one of this list; {_AGAIN}")
    return after


def page(keys: Sequence[str], after: str | None, size: int) -> tuple[Sequence[str], str | None]:
    """The keys of the next page, at most ``size``, and the key the page after it begins behind.

    ``keys`` are distinct and in the list's order; ``after`` is None for the first page, as the second
    part of the answer is for the last. Raises :class:`~tabane.wire.era.Refusal` where ``after`` is no
    longer listed.
    """
    try:
        begin = 0 if after is None else keys.index(after) + 1
    except ValueError:
        raise Refusal(INVALID_PARAMS, f"cursor: the list has changed since; {_AGAIN}") from None
    part = keys[begin : begin + size]
    return part, part[-1] if part and begin + size < len(keys) else None


_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")

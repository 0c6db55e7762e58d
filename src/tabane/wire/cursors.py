"""Cursors of everything that is returned in pages, and the pages of our own lists; pure.

A cursor holds where the next page begins (:class:`CursorCodec`), in an opaque form. It
is stateless: it outlives a restart of the hub, and a new version of the form refuses the cursors of the old.

A list's cursor holds the key of the last item that was listed, so that a list may change between two pages
without an item being shown twice or left out. Source: the specification, "Pagination": cursors are
opaque, a missing ``nextCursor`` is the end, and one that is not valid is -32602. The empty string may
be a cursor of other servers and is passed on to them as it is; we never hand it out, so it is as
invalid as any other cursor that is not ours.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from tabane.wire.era import INVALID_PARAMS, ProtocolRefusal

LONGEST = 1 << 16
"""Characters of a cursor that is decoded; a longer one is not ours."""

_VERSION = b"\x01"
_CHECK = 4  # bytes at the end that distinguish a cursor from other text
_AGAIN = "list again from the start, without a cursor"

PlaceT = TypeVar("PlaceT")


class ForeignCursor(ValueError):
    """A text that is not a cursor of this kind and version."""


class CursorCodec(Generic[PlaceT]):
    """Encodes places as cursors of one kind: version, place (MessagePack) and check in base64url.

    ``shape`` is the type of a place, best a NamedTuple: only its values are written.
    """

    def __init__(self, kind: str, shape: type[PlaceT]) -> None:
        self._kind = kind.encode()
        self._decoder = msgspec.msgpack.Decoder(shape)

    def encode(self, place: PlaceT) -> str:
        """Return the cursor of a place: letters, digits, ``-`` and ``_``; the same for the same place."""
        body = _VERSION + msgspec.msgpack.encode(place)
        return _to_text(body + self._check(body))

    def decode(self, cursor: str) -> PlaceT:
        """Return the place that a cursor holds. Raises :class:`ForeignCursor`."""
        try:
            text = cursor[: LONGEST + 1].encode("ascii")
            packed = binascii.a2b_base64(text.translate(_FROM_URL) + b"=" * (-len(text) % 4))
        except ValueError:
            raise ForeignCursor from None
        if len(text) > LONGEST or _to_text(packed) != cursor:
            raise ForeignCursor
        body = packed[:-_CHECK]
        if packed[:1] != _VERSION or packed[-_CHECK:] != self._check(body):
            raise ForeignCursor
        try:
            return self._decoder.decode(body[1:])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ForeignCursor from None

    def _check(self, body: bytes) -> bytes:
        return hashlib.blake2s(body, digest_size=_CHECK, key=self._kind, person=b"cursor").digest()


def list_cursor(kind: str, after: str) -> str:
    """Return the cursor of the page that begins after the key ``after`` of the list ``kind``."""
    return _of_list(kind).encode(after.encode(errors="surrogatepass"))


def key_of_cursor(cursor: str, kind: str) -> str:
    """Return the key that a cursor of that list holds. Raises :class:`~tabane.wire.era.Refusal`."""
    try:
        return _of_list(kind).decode(cursor).decode(errors="surrogatepass")
    except ValueError:
        raise ProtocolRefusal(INVALID_PARAMS, f"cursor: not one of this list; {_AGAIN}") from None


def page(keys: Sequence[str], after: str | None, size: int) -> tuple[Sequence[str], str | None]:
    """Return the keys of the next page, at most ``size``, and the key after which the page after it begins.

    ``keys`` are distinct and in the list's order; ``after`` is None for the first page, as the second
    part of the result is for the last. Raises :class:`~tabane.wire.era.Refusal` if ``after`` is no
    longer listed.
    """
    try:
        begin = 0 if after is None else keys.index(after) + 1
    except ValueError:
        raise ProtocolRefusal(INVALID_PARAMS, f"cursor: the list has changed since; {_AGAIN}") from None
    part = keys[begin : begin + size]
    return part, part[-1] if part and begin + size < len(keys) else None


@lru_cache(maxsize=16)
def _of_list(kind: str) -> CursorCodec[bytes]:
    return CursorCodec(kind, bytes)


def _to_text(packed: bytes) -> str:
    return binascii.b2a_base64(packed, newline=False).translate(_TO_URL).decode().rstrip("=")


_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")

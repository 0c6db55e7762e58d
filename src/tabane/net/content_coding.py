"""Bodies packed with gzip or deflate, unpacked piece by piece."""

from __future__ import annotations

import zlib

ACCEPTED = "gzip, deflate"
"""The value of Accept-Encoding."""

PIECE = 64 << 10
"""Bytes that are unpacked at a time: a small packed piece may hold a thousand times as much."""

_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_BITS = 16 + zlib.MAX_WBITS
_ZLIB_METHOD = 8


class UnknownCoding(Exception):
    """The body is packed in a way that was not asked for."""


class Unpacker:
    """Unpacks one body. Raises UnknownCoding if its coding is not known."""

    __slots__ = ("_gzip", "_stream")

    def __init__(self, coding: str) -> None:
        self._gzip = coding in _GZIP
        if not self._gzip and coding != "deflate":
            raise UnknownCoding(coding)
        self._stream: zlib._Decompress | None = None

    @property
    def waiting(self) -> bytes:
        """Return what was fed and is not unpacked yet: feed it again."""
        return self._stream.unconsumed_tail if self._stream else b""

    def feed(self, packed: bytes) -> bytes:
        """Return up to ``PIECE`` unpacked bytes. Raises zlib.error."""
        if self._stream is None:
            self._stream = zlib.decompressobj(_GZIP_BITS if self._gzip else _deflate_bits(packed))
        if self._stream.eof:
            return b""  # what follows would be kept
        return self._stream.decompress(packed, PIECE)


def _deflate_bits(packed: bytes) -> int:
    # The standard means zlib's format. Many servers send the bare stream.
    return zlib.MAX_WBITS if packed[:1] and packed[0] & 15 == _ZLIB_METHOD else -zlib.MAX_WBITS

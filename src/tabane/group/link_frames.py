"""Messages on the link of a hub to the hub that runs a server for it; pure.

Each message has a head, which says whose call it is, and a MAC over both, its number and the request that
opened the link. So nobody on the way can add, change, repeat or leave out one. The MAC is keyed BLAKE2b.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from tabane.group.signatures import ForgedRequest

MAC_SIZE = 16
_LENGTH = 4


class LinkHead(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The head of a message on a link.

    ``call`` is the id of the call that a message of the server belongs to, 0 for none. Of a call:
    ``session``, ``client`` and ``holder`` name its caller, which the sender has checked, ``timeout`` is in
    seconds.
    ``failure`` is set if the message is not the server's answer, but says why there is none.
    """

    call: int = 0
    session: str = ""
    client: str = ""
    holder: str = ""
    timeout: float = 0.0
    failure: str = ""


class LinkFrames:
    """Both directions of one link. ``opening`` is the signature of the request that opened it."""

    def __init__(self, key: bytes, opening: str, *, runs: bool) -> None:
        """Keep the key of the group. ``runs``: this end is at the hub that runs the server."""
        self._key = key
        self._opening = hashlib.sha256(opening.encode()).digest()
        self._own, self._other = (b"runs", b"uses") if runs else (b"uses", b"runs")
        self._sent = self._received = 0

    def sealed(self, head: LinkHead, line: bytes) -> bytes:
        """Return the next message to the other hub."""
        packed = msgspec.msgpack.encode(head)
        self._sent += 1
        mac = self._mac(self._own, self._sent, packed, line)
        return b"".join((mac, len(packed).to_bytes(_LENGTH), packed, line))

    def opened(self, data: bytes) -> tuple[LinkHead, bytes]:
        """Return head and line of the next message of the other hub. Raises ForgedRequest."""
        size = int.from_bytes(data[MAC_SIZE : MAC_SIZE + _LENGTH])
        begin = MAC_SIZE + _LENGTH
        packed, line = data[begin : begin + size], data[begin + size :]
        self._received += 1
        if not hmac.compare_digest(data[:MAC_SIZE], self._mac(self._other, self._received, packed, line)):
            raise ForgedRequest
        return msgspec.msgpack.decode(packed, type=LinkHead), line

    def _mac(self, side: bytes, number: int, packed: bytes, line: bytes) -> bytes:
        start = b"".join((b"link ", side, self._opening, number.to_bytes(8), len(packed).to_bytes(_LENGTH)))
        mac = hashlib.blake2b(start, digest_size=MAC_SIZE, key=self._key)
        mac.update(packed)
        mac.update(line)
        return mac.digest()

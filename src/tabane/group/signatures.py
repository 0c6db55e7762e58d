"""Ids, requests and messages that the hubs of a group sign for each other with their common key; pure.

The MAC is keyed BLAKE2b (RFC 7693): for texts this short, it takes a tenth of the time of an HMAC here.

Messages on the link of a hub to the hub that runs a server for it. Each message has a head, which says
whose call it is, and a MAC over both, its number and the request that opened the link. So nobody on the
way can add, change, repeat or leave out one. The MAC is keyed BLAKE2b.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

KEY_BYTES = 32
ID_LENGTH = 12
"""Hexadecimal digits of the id of a hub."""

FRESH = 30.0
"""Seconds for which a signature is valid."""

WINDOW = 1 << 14
"""Requests of one hub that may overtake each other."""

LONGEST = 4096
"""Characters of a signature."""

MOST_SENDERS = 512

Pairs = Iterable[tuple[str, str]]


class ForgedRequest(ValueError):
    """The signature of a request is wrong, too old, of another hub, or was used before."""


class ForwardedRequest(NamedTuple):
    """Description of a request that a hub passes to another one, as it is signed.

    ``number`` counts the requests of the sender, ``time`` is of the shared clock. ``holder`` is the identity
    that the sender has checked, ``page`` whether a web page may have sent it. ``digest`` is of the body.
    """

    sender: str
    target: str
    number: int
    time: float
    holder: str
    page: bool
    digest: bytes


def new_id() -> str:
    """Return the id of a hub that starts."""
    return os.urandom(ID_LENGTH // 2).hex()


# -- sessions ----------------------------------------------------------------------------------------


def session_name(key: bytes, hub: str) -> str:
    """Return a new id of a session: it names the hub, and nobody can guess or forge it."""
    body = f"{hub}.{urlsafe_b64encode(os.urandom(24)).decode()}"
    return f"{body}.{_session_mac(key, body)}"


def hub_of_session(key: bytes, name: str) -> str | None:
    """Return the hub that made the id of a session; None if no hub of the group did."""
    if len(name) > 200 or not name.isascii():
        return None
    body, _, mac = name.rpartition(".")
    if not hmac.compare_digest(mac, _session_mac(key, body)):
        return None
    return body.partition(".")[0]


def session_digest(name: str) -> str:
    """Return what stands for the id of a session in the shared state, where nobody can read the id."""
    return hashlib.sha256(b"session " + name.encode()).hexdigest()


def _session_mac(key: bytes, body: str) -> str:
    return _mac(key, b"session " + body.encode(), 18)


# -- requests ----------------------------------------------------------------------------------------


def body_digest(body: bytes) -> bytes:
    """Return the SHA-256 of a body, which a signature covers."""
    return hashlib.sha256(body).digest()


def signed(key: bytes, request: ForwardedRequest, method: str, path: str, headers: Pairs) -> str:
    """Return the signature of a request over all that the other hub uses of it."""
    encoded = urlsafe_b64encode(msgspec.msgpack.encode(request)).decode()
    return f"{encoded}.{_request_mac(key, encoded, method, path, headers)}"


def checked(key: bytes, text: str, method: str, path: str, headers: Pairs) -> ForwardedRequest:
    """Return what a signed request says. Raises ForgedRequest. The digest of its body is not compared yet."""
    encoded, _, mac = text.partition(".")
    if len(text) > LONGEST or not text.isascii():
        raise ForgedRequest
    if not hmac.compare_digest(mac, _request_mac(key, encoded, method, path, headers)):
        raise ForgedRequest
    return msgspec.msgpack.decode(urlsafe_b64decode(encoded), type=ForwardedRequest)


def _request_mac(key: bytes, said: str, method: str, path: str, headers: Pairs) -> str:
    lines = [said, method, path, *(f"{name}:{value}" for name, value in sorted(headers))]
    parts = [line.encode("utf-8", "surrogateescape") for line in lines]
    text = b"request " + b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return _mac(key, text, 33)


def _mac(key: bytes, text: bytes, size: int) -> str:
    return urlsafe_b64encode(hashlib.blake2b(text, digest_size=size, key=key).digest()).decode()


class SeenRequests:
    """The numbers of requests that were taken, so that no request is taken twice. Bounded."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, set[int]]] = {}

    @property
    def remembered(self) -> int:
        """Number of request ids that are kept to detect repeated ones."""
        return sum(len(numbers) for _, numbers in self._seen.values())

    def take(self, request: ForwardedRequest, me: str, now: float) -> None:
        """Raise ForgedRequest unless the request is for this hub, fresh, and new."""
        if request.target != me or abs(now - request.time) > FRESH:
            raise ForgedRequest
        newest, numbers = self._seen.pop(request.sender, (0, set()))
        self._seen[request.sender] = (newest, numbers)
        if request.number in numbers or request.number <= newest - WINDOW:
            raise ForgedRequest
        numbers.add(request.number)
        newest = max(newest, request.number)
        if len(numbers) > 2 * WINDOW:
            numbers = {number for number in numbers if number > newest - WINDOW}
        self._seen[request.sender] = (newest, numbers)
        if len(self._seen) > MOST_SENDERS:
            del self._seen[next(iter(self._seen))]


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

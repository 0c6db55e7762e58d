"""Rules of MCP over HTTP that need no connection: statuses, media types, versions, access, retries; pure.

Source: the specification's pages on Streamable HTTP of 2025-03-26 to 2026-07-28.
"""

from __future__ import annotations

import calendar
import hmac
import math
import re
import time
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from tabane.settings.origins import ANY_PORT, allowed_entry, canonical_origin, without_port
from tabane.wire.era import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Era,
    ProtocolRefusal,
)

JSON = "application/json"
EVENTS = "text/event-stream"

UNSAID_VERSION = "2025-03-26"
"""Version of a legacy request without a version header and without a session that agreed on one."""

LISTEN = "subscriptions/listen"

_STATUS = dict.fromkeys(
    (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION),
    400,
) | {METHOD_NOT_FOUND: 404}

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))

_host = re.compile(r"(\[[0-9a-f:.]+\]|[^\s\[\]:/@,]+)(?::(\d{1,5}))?").fullmatch
_bearer = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE).fullmatch


class AcceptedTypes(NamedTuple):
    """The media types that a client accepts in answers."""

    json: bool
    events: bool


def status_of(code: int) -> int:
    """Return the HTTP status for a modern answer with that JSON-RPC error; 200 if none is prescribed.

    Once a stream of events has begun, its status is 200 in any case.
    """
    return _STATUS.get(code, 200)


_SHORT = 256
"""Characters of a header whose meaning is remembered: a client sends the same one each time."""


def accepted(header: str | None) -> AcceptedTypes:
    """Return what an ``Accept`` header accepts. None and blank accept anything, as in HTTP."""
    if not header or not header.strip():
        return AcceptedTypes(True, True)
    return _accepted(header) if len(header) <= _SHORT else _accepted.__wrapped__(header)


@lru_cache(64)
def _accepted(header: str) -> AcceptedTypes:
    ranges = set()
    for kind, *settings in map(_parts, header.split(",")):
        # q=0 says: anything but this.
        if not any(re.fullmatch(r"q *= *0(\.0{0,3})?", setting) for setting in settings):
            ranges.add(kind)
    return AcceptedTypes(
        not ranges.isdisjoint((JSON, "application/*", "*/*")),
        not ranges.isdisjoint((EVENTS, "text/*", "*/*")),
    )


def may_post(kinds: AcceptedTypes, method: str | None = None) -> bool:
    """Return whether a POST can be answered; if not, the status is 406. ``method`` is the message's.

    Clients must accept JSON and events in both eras. A client that accepts only one of them is served too.
    With JSON only, it gets no notifications, and no answer that is always a stream.
    """
    return kinds.events or (kinds.json and method != LISTEN)


def answers_json(kinds: AcceptedTypes, method: str | None = None, begun: bool = False) -> bool:
    """Return whether an answer is sent as one JSON object, not as an event.

    ``begun``: something was sent before it, as an event. Legacy sessions that can resume a stream may always
    choose events.
    """
    return kinds.json and not begun and method != LISTEN


def media_type(header: str | None) -> str:
    """Return the type of a ``Content-Type`` header in lower case, without parameters; "" if absent."""
    return _parts(header)[0] if header else ""


def is_json(header: str | None) -> bool:
    """Return whether a body of that ``Content-Type`` is JSON in UTF-8; if not, the status is 415.

    Browsers may send other types to other origins without a preflight request, so these are not read as JSON.
    """
    kind, *settings = _parts(header or "")
    charsets = [
        value.strip("\"' ") for name, _, value in (s.partition("=") for s in settings) if name == "charset"
    ]
    return kind == JSON and all(charset in ("utf-8", "utf8", "us-ascii") for charset in charsets)


def era_of(version: str | None, enveloped: bool = False) -> Era:
    """Return the era of a POST, from its ``MCP-Protocol-Version`` header and whether it has an envelope.

    A request is modern if it has the envelope, or names any version that is not legacy. The modern checks
    then report what is missing, or which versions are supported.
    """
    return Era.LEGACY if not enveloped and (version is None or version in LEGACY) else Era.MODERN


def legacy_version(header: str | None, negotiated: str | None = None) -> str:
    """Return the version of a legacy request: its header's, else its session's, else 2025-03-26.

    Raises :class:`~tabane.wire.era.ProtocolRefusal` for an unknown version; the status is 400.
    """
    if header is None:
        return negotiated or UNSAID_VERSION
    if header not in LEGACY:
        data = {"supported": [MODERN, *LEGACY], "requested": header}
        raise ProtocolRefusal(UNSUPPORTED_VERSION, f"protocol version {header[:40]} is not supported", data)
    return header


def offered(header: str | None) -> list[str]:
    """Return the subprotocols that a ``Sec-WebSocket-Protocol`` header offers, in its order."""
    return [name for name in ((part.strip(" \t")) for part in (header or "").split(",")) if name]


def allowed_host(host: str | None, port: int, allowed: Collection[str] = ()) -> bool:
    """Return whether that ``Host`` header names this hub (a defense against DNS rebinding).

    Loopback names are allowed with any port, since it may be forwarded. ``allowed`` contains more: ``name``
    with the hub's own ``port`` or none, ``name:8443``, or ``name:*``.
    """
    match = _host((host or "").lower())
    if not match:
        return False
    name, digits = match[1], match[2]
    if digits and int(digits) > 65_535:
        return False
    if name in _LOOPBACK:
        return True
    spellings = [f"{name}:*"]
    if digits:
        spellings.append(f"{name}:{digits}")
    if digits is None or int(digits) == port:
        spellings.append(name)
    return any(entry.lower() in spellings for entry in allowed)


def allowed_origin(origin: str | None, allowed: Collection[str] = ()) -> bool:
    """Return whether a page of that ``Origin`` may call the hub; if not, the status is 403.

    A request without the header is not from a page. ``allowed`` lists the pages that may, including pages of
    this machine: whole (``https://app.example``, ``vscode-webview://x``) or with any port
    (``http://localhost:*``). ``null``, which sandboxed pages and files send, is never allowed.
    """
    if origin is None:
        return True
    asking = canonical_origin(origin)
    if asking is None:
        return False
    return not {asking, without_port(asking) + ANY_PORT}.isdisjoint(map(allowed_entry, allowed))


def own_origin(origin: str | None, host: str | None, *, tls: bool = False) -> bool:
    """Return whether a page of that ``Origin`` came from the ``Host`` of its request.

    The host has to be one of the hub's already (:func:`allowed_host`). ``tls``: the request came over TLS.
    """
    asking = None if origin is None else canonical_origin(origin)
    scheme = "https" if tls else "http"
    return asking is not None and host is not None and asking == canonical_origin(f"{scheme}://{host}")


def bearer(authorization: str | None) -> str | None:
    """Return the token of an ``Authorization: Bearer`` header; None if it is absent or malformed."""
    match = _bearer(authorization) if authorization else None
    return match[1] if match else None


def same_token(given: str | None, token: str) -> bool:
    """Compare a given token with the hub's in constant time.

    An empty ``token`` equals nothing.
    """
    return bool(token) and given is not None and hmac.compare_digest(_bytes(given), _bytes(token))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _parts(header: str) -> list[str]:
    return [part.strip().lower() for part in header.split(";")]


LONGEST = 366 * 86_400.0
"""Seconds. A longer wait is cut to this one, so that it cannot overflow a timer or a date."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_ZONE = r"(?:GMT|UTC|UT|(?P<zone>[+-]\d{4}))"
_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"(?:[a-z]{{3}}, ?)?(?P<day>\d\d?) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_CLOCK} {_ZONE}",
        rf"[a-z]{{6,9}}, ?(?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_CLOCK} {_ZONE}",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)
"""Date formats: of today's servers, of RFC 850 (obsolete), and of C's asctime, which is in GMT too."""


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds to wait, 0 to :data:`LONGEST`; None if the header is absent or invalid.

    ``now`` is the Unix time, from which a date is counted. A date that is over is 0.
    """
    text = (value or "").strip(" \t")
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        return min(float(digits or "0"), LONGEST) if len(digits) < 10 else LONGEST
    then = http_date(text, now)
    return None if then is None else min(max(0.0, then - now), LONGEST)


def retry_header(seconds: float) -> bytes:
    """Return the header's value: whole seconds, so that who waits that long has waited long enough."""
    return b"%d" % min(max(1, math.ceil(seconds)), int(LONGEST))


def http_date(text: str, now: float) -> float | None:
    """Return the Unix time of an HTTP date in any of its three forms; None if it is not one.

    A year of two digits is the one nearest below ``now`` plus 50 years, as RFC 9110 asks.
    """
    for form in _FORMS:
        if found := form.fullmatch(text):
            return _unix_time(found, now)
    return None


def _unix_time(found: re.Match[str], now: float) -> float | None:
    parts = found.groupdict()
    if parts["month"].lower() not in _MONTHS:
        return None
    month, day = _MONTHS.index(parts["month"].lower()) + 1, int(parts["day"])
    hour, minute, second = (int(parts[name]) for name in ("hour", "minute", "second"))
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        newest = time.gmtime(now).tm_year + 50
        year += (newest - year) // 100 * 100
    if not (year >= 1 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    if hour > 23 or minute > 59 or second > 60:  # 60 is a leap second
        return None
    return float(calendar.timegm((year, month, day, hour, minute, second)) - _offset(parts.get("zone")))


def _offset(zone: str | None) -> int:
    """Return the seconds by which a zone such as ``+0900`` is ahead of GMT."""
    if zone is None:
        return 0
    return int(f"{zone[0]}1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)

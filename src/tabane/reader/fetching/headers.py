"""Headers of responses as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tabane.wire.retry_after import retry_after

_SPENT = frozenset({"content-encoding", "content-length", "transfer-encoding", "set-cookie", "set-cookie2"})
"""What no longer holds of a body that was unpacked, and cookies, of which there are none here."""

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+*-]{1,127}")  # RFC 6838, 4.2


def lowered(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; those that are said twice are joined by commas (RFC 9110, 5.3)."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("ascii", "replace").lower(), _text(value).strip()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those that still hold of the body as it is handed on."""
    return {name: value for name, value in headers.items() if name not in _SPENT}


def media(value: str) -> tuple[str, str | None]:
    """Media type and charset of a Content-Type: lower case, "" and None if it does not say them.

    What is no media type is none: it is shown, and parts of a program go by it.
    """
    kind, *parameters = value.split(";")
    charset = None
    for parameter in parameters:
        name, _, said = parameter.partition("=")
        if name.strip().lower() == "charset" and charset is None:
            charset = said.strip().strip("\"'").strip().lower() or None
    kind = kind.strip().lower()
    return (kind if _MEDIA_TYPE.fullmatch(kind) else ""), charset


def declared(headers: Mapping[str, str]) -> int | None:
    """Return the length that a body is said to have, in bytes as they come."""
    said = headers.get("content-length", "").partition(",")[0].strip()
    return int(said[:20]) if said.isascii() and said.isdigit() else None


def seconds_to_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait, by Retry-After, else by the reset of a spent X-RateLimit.

    ``now`` is the time as seconds since 1970. None if neither is there.
    """
    asked = retry_after(headers.get("retry-after"), now)
    if asked is not None:
        return asked
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(0.0, float(reset[:12]) - now)
    return None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")

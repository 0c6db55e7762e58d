"""Failed HTTP requests: their errors, and rules for sending a request again; pure."""

from __future__ import annotations

from collections.abc import Callable

from tabane.errors import UpstreamDied, UpstreamError, UpstreamOverloaded, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.upstreams.handshake import UpstreamRefused
from tabane.wire import json
from tabane.wire.era import METHOD_NOT_FOUND

OTHER_KIND = frozenset({400, 404, 405})
"""Statuses with which a server of the old kind (HTTP with SSE) answers ``initialize`` by POST."""

_NOT_OURS = frozenset({401, 402, 403, 407})
_SHOWN = 200
_READ = 4096


def is_expired(status: int, text: bytes, error: bytes | None) -> bool:
    """Return whether a request was refused because the server no longer knows its session.

    The specification prescribes 404, and some servers answer 410. Many answer 400, and say "session" in the
    text or the message of the error; those on the TypeScript SDK say "not initialized" after a restart.
    """
    if status == 404 and error is not None:
        return bool(json.decode(error).get("code") != METHOD_NOT_FOUND)
    return status in (404, 410) or (status == 400 and speaks_of_session(text))


def speaks_of_session(text: bytes) -> bool:
    """Return whether the body of an error is about the session."""
    said = text[:_READ].lower()
    return b"session" in said or b"not initialized" in said


def refusal(
    server: str, status: int, text: str, method: bytes, *, named_http: bool, posted: int = 0
) -> UpstreamError:
    """Return the error for a status without an answer. ``text`` is the server's own text, redacted.

    ``named_http`` is whether the user configured the server as streamable HTTP, not the old kind. ``posted``
    is the status of the first request, if the old kind was only tried after it.
    """
    if posted and status in OTHER_KIND:
        return UpstreamError(say(
            "{server!n} does not accept requests at its URL (HTTP status {status}). Check the path of the "
            "URL: it often ends in /mcp or /sse.", server=server, status=posted))  # fmt: skip
    if status in (401, 403):
        return UpstreamUnavailable(say(
            "{server!n} requires credentials, or does not accept those it was sent ({status}). Set its "
            "\"headers\", such as \"Authorization\": \"Bearer ${{TOKEN}}\", and run: tabane secrets set "
            "TOKEN. If it has a login, set \"oauth\": true.", server=server, status=status))  # fmt: skip
    if method == b"server/discover" and status not in _NOT_OURS and status < 502:
        # An older server that does not know the method. It works, in the legacy era.
        return UpstreamRefused(METHOD_NOT_FOUND, _plain(server, status, text))
    if method == b"initialize" and status in (404, 405) and named_http:
        return UpstreamError(say(
            "{server!n} does not accept requests at its URL ({status}). If it uses the old transport "
            "(HTTP with SSE), "
'set "type": "sse".', server=server, status=status))  # fmt: skip
    return UpstreamError(_plain(server, status, text))


def busy(server: str, status: int, seconds: float | None) -> UpstreamError:
    """Return the error of a request that the server was too busy for, after all attempts."""
    if seconds is not None:
        what = say("{server!n} is busy ({status}). Try again in {seconds:.0f} s.",
                   server=server, status=status, seconds=seconds)  # fmt: skip
    else:
        what = say("{server!n} is busy ({status}). Try again later.", server=server, status=status)
    return UpstreamOverloaded(what) if status == 429 else UpstreamUnavailable(what)


def broken_in_flight(server: str, why: Message) -> UpstreamDied:
    """Return the error of a call whose connection broke before its answer arrived."""
    return UpstreamDied(say(
        "The connection to {server!n} broke during the call ({why}). It is not known whether the call "
        "took effect: "
"check before you call again.", server=server, why=why))  # fmt: skip


def cannot_connect(server: str, why: Message) -> UpstreamUnavailable:
    """Return the error of a call for which no connection could be made."""
    return UpstreamUnavailable(say("{server!n} accepts no more calls: {why}.", server=server, why=why))


def shown_text(body: bytes, redact: Callable[[str], str]) -> str:
    """Return the body of an error for a message; empty for HTML, which may repeat the request."""
    return "" if b"<" in body[:512] else redact(body.decode(errors="replace"))


def failed_inside(server: str) -> UpstreamError:
    """Return the error of a call that failed because of a defect in Tabane."""
    return UpstreamError(
        say("{server!n}: the call failed inside Tabane. The log has the reason: tabane logs", server=server)
    )


def _plain(server: str, status: int, text: str) -> Message:
    text = " ".join(text.split())[:_SHOWN]
    if text:
        return say(
            "{server!n} answered with HTTP status {status}: {text}", server=server, status=status, text=text
        )
    return say("{server!n} answered with HTTP status {status}.", server=server, status=status)


BUSY = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses after which another attempt may succeed."""

_NOT_BEGUN = frozenset({408, 425, 429})
_MOST_WAIT = 5.0
_FIRST_WAIT = 0.5
_TRIES = 2
_RENEWALS = 2


class HttpRetryPolicy:
    """The remaining attempts of one request. ``safe``: it may be sent twice.

    A request is sent again if the server certainly did not act on it, or if sending it twice does no harm. In
    all other cases the caller decides, since only the caller knows whether doing it twice does harm.
    """

    __slots__ = ("_breaks", "_renewals", "_safe", "_tries", "_waited")

    def __init__(self, safe: bool) -> None:
        self._safe = safe
        self._breaks = 1 if safe else 0
        self._tries = _TRIES
        self._renewals = _RENEWALS
        self._waited = 0.0

    def survives_break(self) -> bool:
        """Return whether to send it again after the connection broke: once, if that is safe."""
        self._breaks -= 1
        return self._breaks >= 0

    def survives_expiry(self) -> bool:
        """Return whether to send it again in a new session, because the old one is unknown."""
        self._renewals -= 1
        return self._renewals >= 0

    def wait(self, status: int, retry_after: float | None) -> float | None:
        """Return the seconds to wait after a busy server's answer; None if it is not sent again.

        After a 503 with Retry-After, the server has not begun to act. A 503 without it, like 502 and 504, may
        come from a proxy that lost the connection.
        """
        begun = status not in _NOT_BEGUN and not (status == 503 and retry_after is not None)
        delay = _FIRST_WAIT * (1 + _TRIES - self._tries) if retry_after is None else max(0.05, retry_after)
        if (begun and not self._safe) or not self._tries or self._waited + delay > _MOST_WAIT:
            return None
        self._tries -= 1
        self._waited += delay
        return delay

"""Failed HTTP requests: the errors for people, and the limits of sending a request again; pure."""

from __future__ import annotations

from collections.abc import Callable

from tabane.errors import UpstreamDied, UpstreamError, UpstreamOverloaded, UpstreamUnavailable
from tabane.gateway.upstreams.handshake import UpstreamRefused
from tabane.messages import Message, say
from tabane.wire import json
from tabane.wire.era import METHOD_NOT_FOUND

OTHER_KIND = frozenset({400, 404, 405})
"""What a server of the old kind (HTTP with SSE) answers to ``initialize`` by POST."""

_NOT_OURS = frozenset({401, 402, 403, 407})
_SHOWN = 200


def is_expired(status: int, error: bytes | None) -> bool:
    """Return whether a request was refused since the server does not know its session any more.

    The specification has 404 for it; many servers answer 400 and say in words that it is the session.
    """
    if error is None:
        return status == 404
    body = json.decode(error)
    if status == 404:
        return bool(body.get("code") != METHOD_NOT_FOUND)
    return status == 400 and "session" in str(body.get("message", "")).lower()


def refusal(server: str, status: int, text: str, method: bytes, *, named_http: bool) -> UpstreamError:
    """The error that a status without an answer is. ``text`` is what the server said with it, redacted.

    ``named_http`` tells whether the user has said that it is no server of the old kind.
    """
    if status in (401, 403):
        return UpstreamUnavailable(say(
            "{server} does not accept the credentials that it is sent, or wants some ({status}). Set its "
            "\"headers\", such as \"Authorization\": \"Bearer ${{TOKEN}}\", with TOKEN in secrets.env; "
            "signing in with OAuth is not supported yet.", server=server, status=status))  # fmt: skip
    if method == b"server/discover" and status not in _NOT_OURS and status < 502:
        # A server of before that does not know the question: not dead, only older.
        return UpstreamRefused(METHOD_NOT_FOUND, _plain(server, status, text))
    if method == b"initialize" and status in (404, 405) and named_http:
        return UpstreamError(say(
            "{server} does not take requests at its URL ({status}). If it is of the old kind (HTTP with "
            "SSE), set \"type\": \"sse\".", server=server, status=status))  # fmt: skip
    return UpstreamError(_plain(server, status, text))


def busy(server: str, status: int, seconds: float | None) -> UpstreamError:
    """Return the error of a request that a server was too busy for, after the tries that it was given."""
    if seconds is not None:
        what = say("{server} is busy ({status}). Try again in {seconds:.0f} s.",
                   server=server, status=status, seconds=seconds)  # fmt: skip
    else:
        what = say("{server} is busy ({status}). Try again later.", server=server, status=status)
    return UpstreamOverloaded(what) if status == 429 else UpstreamUnavailable(what)


def broke_in_flight(server: str, why: Message) -> UpstreamDied:
    """Return the error of a call whose connection broke before its answer arrived."""
    return UpstreamDied(say(
        "The connection to {server} broke while the call was in flight ({why}). Whether it took effect "
        "is not known.", server=server, why=why))  # fmt: skip


def takes_no_calls(server: str, why: Message) -> UpstreamUnavailable:
    """Return the error of a call for which no connection could be made."""
    return UpstreamUnavailable(say("{server} takes no more calls: {why}.", server=server, why=why))


def shown_text(body: bytes, redact: Callable[[str], str]) -> str:
    """Return the body of an error for a message; empty for an HTML page, which may contain what was sent."""
    return "" if b"<" in body[:512] else redact(body.decode(errors="replace"))


def failed_inside(server: str) -> UpstreamError:
    """Return the error of a call that a fault of Tabane's own kept from being carried."""
    return UpstreamError(say("{server}: the call failed inside Tabane; the log says why.", server=server))


def _plain(server: str, status: int, text: str) -> Message:
    text = " ".join(text.split())[:_SHOWN]
    if text:
        return say(
            "{server} answered with HTTP status {status}: {text}", server=server, status=status, text=text
        )
    return say("{server} answered with HTTP status {status}.", server=server, status=status)


BUSY = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that may be gone at the next try."""

_NOT_BEGUN = frozenset({408, 425, 429})
_MOST_WAIT = 5.0
_FIRST_WAIT = 0.5
_TRIES = 2
_RENEWALS = 2


class HttpRetryPolicy:
    """What is left of the tries of one request. ``safe`` means that it may be sent twice."""

    __slots__ = ("_breaks", "_renewals", "_safe", "_tries", "_waited")

    def __init__(self, safe: bool) -> None:
        self._safe = safe
        self._breaks = 1 if safe else 0
        self._tries = _TRIES
        self._renewals = _RENEWALS
        self._waited = 0.0

    def survives_break(self) -> bool:
        """Whether it is sent again after the connection broke: once, where that is safe."""
        self._breaks -= 1
        return self._breaks >= 0

    def survives_expiry(self) -> bool:
        """Whether it is sent again in a new session, as the old one was not known any more."""
        self._renewals -= 1
        return self._renewals >= 0

    def wait(self, status: int, retry_after: float | None) -> float | None:
        """Seconds to wait after a busy server's answer; None where it is not sent again.

        A 503 that says when to come back was not begun; one without, like 502 and 504, may be the word
        of something in between that lost the connection.
        """
        begun = status not in _NOT_BEGUN and not (status == 503 and retry_after is not None)
        delay = _FIRST_WAIT * (1 + _TRIES - self._tries) if retry_after is None else max(0.05, retry_after)
        if (begun and not self._safe) or not self._tries or self._waited + delay > _MOST_WAIT:
            return None
        self._tries -= 1
        self._waited += delay
        return delay

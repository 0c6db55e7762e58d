"""What an HTTP status stands for that is no answer: in words that say what to configure; pure."""

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

                "{server} requires credentials, or does not accept those it was sent ({status}). "
                'Set its "headers", such as "Authorization": "Bearer ${{TOKEN}}", and put TOKEN '
                "into secrets.env. Login with OAuth is not supported yet.",
                server=server, status=status))  # fmt: skip
    if method == b"server/discover" and status not in _NOT_OURS and status < 502:
        # A server of before that does not know the question: not dead, only older.
        return UpstreamRefused(METHOD_NOT_FOUND, _plain(server, status, text))
    if method == b"initialize" and status in (404, 405) and named_http:
        return UpstreamError(say(

                "{server} does not accept requests at its URL ({status}). If it uses the old "
                'transport (HTTP with SSE), set "type": "sse".', server=server, status=status))  # fmt: skip
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

            "The connection to {server} broke during the call ({why}). It is not known whether "
            "the call took effect.", server=server, why=why))  # fmt: skip


def takes_no_calls(server: str, why: Message) -> UpstreamUnavailable:
    """Return the error of a call for which no connection could be made."""
    return UpstreamUnavailable(say("{server} accepts no more calls: {why}.", server=server, why=why))


def shown_text(body: bytes, redact: Callable[[str], str]) -> str:
    """Return the body of an error for a message; empty for an HTML page, which may contain what was sent."""
    return "" if b"<" in body[:512] else redact(body.decode(errors="replace"))


def failed_inside(server: str) -> UpstreamError:
    """Return the error of a call that a fault of Tabane's own kept from being carried."""
    return UpstreamError(
        say("{server}: the call failed inside Tabane. The log has the reason: tabane logs", server=server)
    )


def _plain(server: str, status: int, text: str) -> Message:
    text = " ".join(text.split())[:_SHOWN]
    if text:
        return say(
            "{server} answered with HTTP status {status}: {text}", server=server, status=status, text=text
        )
    return say("{server} answered with HTTP status {status}.", server=server, status=status)

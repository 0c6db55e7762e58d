"""Outlet of a session: takes its messages to the client."""

from __future__ import annotations

from typing import Protocol

from tabane.errors import HubError
from tabane.messages import Lang, say
from tabane.wire import json, rpc

MIB = 1 << 20

ROOM = MIB
"""Bytes that may wait for a client. Below it, the next answer is sent even if it is very large."""


def undelivered(request_id: bytes | None, size: int, waiting: int, lang: Lang) -> bytes:
    """Return the error for an answer of ``size`` bytes while ``waiting`` bytes are unread."""
    error = HubError(say(
        "The answer ({megabytes} MiB) was dropped, because the client has not read {waiting} MiB of "
        "earlier answers yet. Request less data at a time.",
        megabytes=-(-size // MIB), waiting=-(-waiting // MIB)))  # fmt: skip
    return json.error_line(request_id, rpc.error_of(error, lang))


def too_large(request_id: bytes | None, size: int, most: int, lang: Lang) -> bytes:
    """Return the error for an answer of ``size`` bytes if one may have ``most``."""
    error = HubError(say(
        "The answer has {megabytes} MiB, but at most {most} MiB can be sent. Request less data.",
        megabytes=-(-size // MIB), most=most // MIB))  # fmt: skip
    return json.error_line(request_id, rpc.error_of(error, lang))


class Outlet(Protocol):
    """Takes the messages of a session to its client. Each ``line`` is one message, newline included."""

    __slots__ = ()

    @property
    def transport(self) -> str:
        """How the client is connected: ``stdio``, ``http`` or ``websocket``."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes that the client has not read yet."""
        ...

    @property
    def closed(self) -> bool: ...

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        """Send the final answer to the request with this id (verbatim); None if no id could be read.

        ``ok`` is False if it is an error object.
        """
        ...

    def tell(self, line: bytes, about: bytes | None) -> None:
        """Send a notification or question; ``about`` is the id of the client's request that it belongs to."""
        ...

    def drain(self) -> None:
        """Ask for no more requests, if the client understands that."""
        ...

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        """Tell a bridge that a request was not sent and waits (``held``), or that it is sent from now on.

        Return whether the client is such a bridge. Once ``unsent`` is 0, it learns this, also if this process
        is killed.
        """
        ...

    def close(self, why: str) -> None:
        """Send what is due, and end."""
        ...

    def dismiss(self, why: str) -> None:
        """End because a person wants it: a bridge ends as well, and nothing continues the session."""
        self.close(why)

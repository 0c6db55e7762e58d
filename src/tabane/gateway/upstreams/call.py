"""A request on its way to an upstream, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw

from tabane.errors import TabaneError
from tabane.wire.era import Era
from tabane.wire.json import Members


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What an upstream answered: exactly one of ``result``, ``error`` and ``failure``.

    ``result`` and ``error`` are the upstream's own JSON, ``error`` a JSON-RPC error object;
    ``failure`` is why there is no answer. ``era`` tells whether ``result`` carries ``resultType``.
    """

    result: Raw | None = None
    error: Raw | None = None
    failure: TabaneError | None = None
    era: Era = Era.LEGACY


class Owner(Protocol):
    """Who carries a call, and wants to know when its place is free again."""

    def freed(self, reply: Reply) -> None: ...


class Call:
    """One request for an upstream; made by a session, carried by an instance.

    ``params`` are the request's members without ``_meta``, names already the upstream's own;
    ``meta`` is the canonical (modern) ``_meta``. ``on_reply`` is called exactly once, unless the call
    is cancelled, then never. ``on_progress`` gets the members of each progress notification.
    """

    __slots__ = (
        "deadline",
        "done",
        "meta",
        "method",
        "number",
        "on_progress",
        "on_reply",
        "owner",
        "params",
        "timeout",
    )

    def __init__(
        self,
        method: bytes,
        params: Members,
        meta: Members,
        on_reply: Callable[[Reply], None],
        on_progress: Callable[[Members], None] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.method, self.params, self.meta = method, params, meta
        self.on_reply, self.on_progress = on_reply, on_progress
        self.timeout = timeout
        self.deadline = 0.0
        self.number = 0
        self.done = False
        self.owner: Owner | None = None

    def answer(self, reply: Reply) -> None:
        """Give the reply, once; what comes after it is dropped."""
        if not self.done:
            self.done = True
            self.on_reply(reply)
            if self.owner is not None:
                self.owner.freed(reply)

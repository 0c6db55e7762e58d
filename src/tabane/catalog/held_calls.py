"""Calls of a server whose definitions may be held back: they wait for its lists, and may be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tabane.errors import TabaneError
from tabane.guard.definitions.definition import Kind
from tabane.guard.definitions.pins import HoldPolicy
from tabane.guard.definitions.review import DefinitionReview
from tabane.upstreams.call import Call
from tabane.wire import json

_KINDS: Mapping[bytes, Kind] = {b"tools/call": "tool", b"prompts/get": "prompt"}


class HeldCalls:
    """Checks the calls of one server. What it was asked before it listed is judged by what it lists."""

    def __init__(self, review: DefinitionReview, policy: Callable[[str], HoldPolicy], server: str) -> None:
        self._review, self._policy, self._server = review, policy, server

    def waits(self) -> bool:
        """Return whether calls wait until the server has listed: its definitions may have changed.

        They do not if only what looks like an attack is held back: whoever calls has read the definition that
        is known, not what the server lists now.
        """
        return self._policy(self._server).changes

    def refusal(self, call: Call) -> TabaneError | None:
        """Return why a call may not be sent; None if it may."""
        kind, name = _KINDS.get(call.method), json.text(call.params.get("name"))
        return self._review.refusal(self._server, kind, name) if kind and name else None

"""Hosts of MCP Apps: clients that say that they show the pages of tools."""

from __future__ import annotations

from msgspec import Raw

from tabane.hub.clients.session import Session
from tabane.wire import json
from tabane.wire.era import META_CAPABILITIES, Era
from tabane.wire.extensions import UI
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import extensions_in


def shows_apps(session: Session, meta: Members) -> bool:
    """Return whether the client shows apps. ``meta`` belongs to its request.

    Such a client has to know the tools that only apps may call, and hides them from its model. Any other
    client would show them to the model.
    """
    capabilities = session.caller.capabilities if session.era is Era.LEGACY else meta.get(META_CAPABILITIES)
    if capabilities is None or UI.encode() not in bytes(capabilities):
        return False
    try:
        return UI in extensions_in(json.fields(Raw(bytes(capabilities))))
    except InvalidJson:
        return False

"""The methods of MCP that a client may call, by name: short ones here, the others in modules of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.hub.clients import fetching, lists
from tabane.hub.clients.asking import NEEDED, Asking
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members

if TYPE_CHECKING:
    from tabane.hub.clients.session import Session

log = logging.getLogger(__name__)

Handler = Callable[["Session", Raw, Members, Members], Coroutine[Any, Any, None] | None]
"""Takes session, id, params and ``_meta`` of a request; a coroutine where answering takes a while."""


def _initialize(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    _log_client(session, params.get("clientInfo"))
    try:
        capabilities = json.fields(params.get("capabilities", Raw(b"{}")))
    except InvalidJson:
        capabilities = {}
    can = {name: capabilities[name] for name in NEEDED.values() if name in capabilities}
    if can:
        asked = {name: value for name, value in can.items() if name != "roots"}
        session.asking = Asking(session, can)
        session.caller = replace(session.caller, capabilities=json.join(asked))
    session.version = eras.negotiate(json.text(params.get("protocolVersion")))
    result = {
        "protocolVersion": session.version,
        "capabilities": _capabilities(session),
        "serverInfo": session.hub.info,
        "instructions": session.hub.instructions(session.mode),
    }
    session.answer(request_id, json.encode(result))


def _discover(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    result = {
        "supportedVersions": [eras.MODERN],
        "capabilities": _capabilities(session),
        "instructions": session.hub.instructions(session.mode),
        "ttlMs": 60_000,
        "cacheScope": "private",
        "resultType": "complete",
        "_meta": {eras.META_SERVER: session.hub.info},
    }
    session.answer(request_id, json.encode(result))


def _capabilities(session: Session) -> dict[str, Any]:
    """What the hub offers: the same to all, whatever its servers have at this moment."""
    # In mode search the list of tools is fixed, so it never changes.
    return {
        "tools": {"listChanged": session.mode != "search"},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
        "logging": {},
    }


def _ping(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    session.answer(request_id, b"{}")


def _listen(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    session.subscriptions.listen(bytes(request_id), params)


def _get_tool(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    name = json.text(params.get("name"))
    if name is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, "name: the name of a tool is required")
    session.run(request_id, _get_when_ready(session, request_id, name))


async def _get_when_ready(session: Session, request_id: Raw, name: str) -> None:
    definition = await session.hub.definition(session.caller, name)
    session.answer(request_id, b'{"tool":' + definition + b"}")


def _set_level(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    level = json.text(params.get("level"))
    if level not in eras.LOG_LEVELS:
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"level: one of {', '.join(eras.LOG_LEVELS)}")
    session.calls.level = eras.LOG_LEVELS.index(level)
    session.answer(request_id, b"{}")


async def _subscribe(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    await session.subscriptions.subscribe(request_id, _uri(params))


def _unsubscribe(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    session.subscriptions.unsubscribe(request_id, _uri(params))


def _uri(params: Members) -> str:
    uri = json.text(params.get("uri"))
    if uri is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, "uri: the URI of a resource is required")
    return uri


def _log_client(session: Session, info: Raw | None) -> None:
    try:
        name = json.text(json.fields(info).get("name")) if info is not None else None
    except InvalidJson:
        return
    if name:
        log.info("session %s is %s", session.key, name[:100])


METHODS: dict[str, Handler] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "ping": _ping,
    "tools/list": lists.list_tools,
    "tools/get": _get_tool,
    "prompts/list": lists.list_prompts,
    "prompts/get": fetching.get_prompt,
    "resources/list": lists.list_resources,
    "resources/templates/list": lists.list_templates,
    "resources/read": fetching.read_resource,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "completion/complete": fetching.complete,
    "logging/setLevel": _set_level,
    "subscriptions/listen": _listen,
}

NOT_OF = {
    Era.MODERN: frozenset(
        {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
    ),
    Era.LEGACY: frozenset({"server/discover", "subscriptions/listen"}),
}

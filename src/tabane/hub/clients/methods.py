"""The methods of MCP that a client may call, by era and name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from tabane.build import this_build
from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import LongResults
from tabane.hub.clients.direct import DirectRequests, PassedMessages
from tabane.hub.clients.disclosure import FIXED, Disclosure
from tabane.hub.clients.lists import ListRequests
from tabane.hub.clients.offers import FOLDER, GET, LIST, OfferRequests, SkillRequests
from tabane.hub.clients.session import ClientMethods, Handler, Session
from tabane.hub.clients.task_calls import TaskParts
from tabane.hub.clients.task_requests import TaskRequests
from tabane.hub.clients.tool_calls import ToolCalls
from tabane.hub.work.scripts import HubScripts
from tabane.operations import LOCAL, Door
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import TASKS, Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import announced
from tabane.wire.tasks import LEGACY_CAPABILITY
from tabane.workers.eager_start import own_task

if TYPE_CHECKING:
    from tabane.hub.clients.document_resources import ListedDocuments


log = logging.getLogger(__name__)


ASKABLE = ("sampling", "elicitation", "roots")
"""Capabilities of a client that can be asked something."""


def client_methods(
    gateway: Gateway,
    door: Door,
    long_results: LongResults,
    documents: ListedDocuments,
    tasks: TaskParts,
    scripts: HubScripts,
) -> ClientMethods:
    """Return the handlers of requests to a hub."""
    disclosure = Disclosure(door.table, gateway)
    about = _Introductions(gateway, disclosure)
    lists = ListRequests(gateway, disclosure, documents, door)
    offers = OfferRequests(gateway, door, documents)
    tools = ToolCalls(gateway, door, long_results, tasks, scripts)
    requests = TaskRequests(tasks, long_results)
    both: dict[str, Handler] = {
        "tools/list": lists.list_tools,
        "tools/get": about.get_tool,
        "tools/call": tools.call,
        "prompts/list": lists.list_prompts,
        "prompts/get": offers.get_prompt,
        "resources/list": lists.list_resources,
        "resources/templates/list": lists.list_templates,
        "resources/read": offers.read_resource,
        "completion/complete": offers.complete,
        **SkillRequests(gateway, door).methods(),
    }
    legacy: dict[str, Handler] = {
        "initialize": about.initialize,
        "ping": _ping,
        "logging/setLevel": _set_level,
        "resources/subscribe": _subscribe,
        "resources/unsubscribe": _unsubscribe,
        **requests.legacy(),
    }
    modern: dict[str, Handler] = {
        "server/discover": about.discover,
        "subscriptions/listen": partial(_listen, requests),
        **requests.modern(),
    }
    return _methods_by_connection(
        {Era.LEGACY: {**both, **legacy}, Era.MODERN: {**both, **modern}},
        DirectRequests(gateway, door, tools, introduce),
        lambda known: PassedMessages(gateway, door, known),
    )


def _methods_by_connection(
    handlers: Mapping[Era, Mapping[str, Handler]],
    direct: DirectRequests,
    passed: Callable[[Collection[str]], PassedMessages],
) -> ClientMethods:
    """Return the handlers for connections to all servers, and for those to one server."""
    of_one = {
        era: {**{name: methods[name] for name in methods.keys() - PASSED}, **direct.methods(era)}
        for era, methods in handlers.items()
    }
    known = {method for methods in of_one.values() for method in methods}
    return ClientMethods(handlers, of_one, passed(known))


PASSED = frozenset({LIST, GET, FOLDER})
"""Methods of extensions that a connection to one server passes on unchanged: there is nothing to merge."""


def introduce(session: Session, params: Members) -> None:
    """Note what a client says of itself in ``initialize``, and which version it gets."""
    name = eras.client_name(params.get("clientInfo"))
    if name:
        log.info("session %s is %s", session.key, name)
    if name and not session.caller.client:
        session.caller = structs.replace(session.caller, client=name)
    try:
        capabilities = json.fields(params.get("capabilities", Raw(b"{}")))
    except InvalidJson:
        capabilities = {}
    if session.caller.access.holder != LOCAL.holder:
        capabilities.pop("roots", None)  # folders of another machine
    session.software = eras.client_version(params.get("clientInfo"))
    session.version = eras.negotiate(json.text(params.get("protocolVersion")))
    session.can_be_asked(capabilities)


class _Introductions:
    """Answers to the first request of a client, and definitions of single tools."""

    def __init__(self, gateway: Gateway, disclosure: Disclosure) -> None:
        self._gateway, self._disclosure = gateway, disclosure
        self._info = {"name": "tabane", "title": "Tabane", "version": this_build().name}

    async def initialize(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        mark = self._gateway.chain.arrived(session.key, meta, stays=True)
        introduce(session, params)
        result = {
            "protocolVersion": session.version,
            "capabilities": self._capabilities(session),
            "serverInfo": self._info,
            "instructions": self._disclosure.instructions(session.mode, session.caller.access),
        }
        session.answer(request_id, json.encode(result | ({"_meta": mark} if mark else {})))

    async def discover(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        mark = self._gateway.chain.arrived(session.key, meta, stays=False)
        result = {
            "supportedVersions": [eras.MODERN],
            "capabilities": self._capabilities(session),
            "instructions": self._disclosure.instructions(session.mode, session.caller.access),
            "ttlMs": 60_000,
            "cacheScope": "private",
            "resultType": "complete",
            "_meta": {eras.META_SERVER: self._info, **mark},
        }
        session.answer(request_id, json.encode(result))

    async def get_tool(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        name = json.text(params.get("name"))
        if name is None:
            raise ProtocolRefusal(eras.INVALID_PARAMS, "name: the name of a tool is required")
        built_in = self._disclosure.built_in(name, session.caller.access)
        definition = built_in or (await self._gateway.lookup.find(session.caller, name)).definition
        session.answer(request_id, b'{"tool":' + definition + b"}")

    def _capabilities(self, session: Session) -> dict[str, Any]:
        """Return the capabilities of the hub: fixed by its settings, and independent of its servers."""
        # In some modes the list of tools is fixed, so it never changes.
        found: dict[str, Any] = {
            "tools": {"listChanged": session.mode not in FIXED},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "completions": {},
            "logging": {},
        }
        if session.version == eras.LEGACY[0] and any(each.id == TASKS for each in self._gateway.extensions):
            found["tasks"] = LEGACY_CAPABILITY
        extensions = announced(self._gateway.extensions)
        return {**found, "extensions": extensions} if extensions else found


async def _ping(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    session.answer(request_id, b"{}")


async def _listen(
    tasks: TaskRequests, session: Session, request_id: Raw, params: Members, meta: Members
) -> None:
    if b'"taskIds"' in bytes(params.get("notifications", b"")):
        await tasks.listen(session, request_id, params, meta)
    else:
        session.subscriptions.listen(bytes(request_id), params)


async def _set_level(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    level = json.text(params.get("level"))
    if level not in eras.LOG_LEVELS:
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"level: one of {', '.join(eras.LOG_LEVELS)}")
    session.calls.level = eras.LOG_LEVELS.index(level)
    session.answer(request_id, b"{}")


async def _subscribe(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    await own_task()
    await session.subscriptions.subscribe(request_id, _required_uri(params))


async def _unsubscribe(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    session.subscriptions.unsubscribe(request_id, _required_uri(params))


def _required_uri(params: Members) -> str:
    uri = json.text(params.get("uri"))
    if uri is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, "uri: the URI of a resource is required")
    return uri

"""A connection to one server: its own names, its tools whole, its instructions and its capabilities.

Requests and notifications that the hub does not know pass unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find, method_target, prompt_target, resource_target
from tabane.catalog.tools.catalog import own_definition
from tabane.catalog.tools.definition_repair import legacy_definition
from tabane.catalog.tools.tool import Tool
from tabane.errors import TabaneError
from tabane.hub.clients.lists import PAGE, TOOLS_LIST, after_of, listed, page_of
from tabane.hub.clients.session import Handler, Session, wait_turn
from tabane.hub.clients.tool_calls import (
    LARGE,
    ToolCalls,
    answer_line,
    learn_roots,
    needs_roots,
    note_question,
    question_of,
)
from tabane.operations import Caller, Door, OpenCall, ended
from tabane.upstreams.call import UpstreamReply
from tabane.upstreams.handshake import Peer
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import of_one_server
from tabane.workers.eager_start import own_task

log = logging.getLogger(__name__)

FEW = 100
"""Tools up to which a list is made on the event loop."""

ANY = "any/method"
"""Stands for a method that the hub does not know."""


class DirectRequests:
    """Answers the requests of clients that are connected to one server alone.

    ``introduce`` notes what a client says of itself in ``initialize``.
    """

    def __init__(
        self, gateway: Gateway, door: Door, tools: ToolCalls, introduce: Callable[[Session, Members], None]
    ) -> None:
        self._gateway, self._door, self._tools = gateway, door, tools
        self._introduce = introduce

    def methods(self, era: Era) -> Mapping[str, Handler]:
        """Return the handlers that differ from those of other connections."""
        both: dict[str, Handler] = {
            "tools/list": self.list_tools,
            "tools/get": self.get_tool,
            "tools/call": self.call_tool,
            "prompts/list": self.list_prompts,
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
        }
        first: dict[str, Handler] = (
            {"initialize": self.initialize} if era is Era.LEGACY else {"server/discover": self.discover}
        )
        return {**both, **first}

    # -- introductions -----------------------------------------------------------------------------

    async def initialize(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer initialize with what the server says about itself."""
        mark = self._gateway.chain.arrived(session.key, meta, stays=True)
        self._introduce(session, params)
        await own_task()
        try:
            peer = await self._describe_server(session.caller)
        except TabaneError:
            session.version = None
            raise
        result = {
            "protocolVersion": session.version,
            "capabilities": _capabilities(session, peer),
            "serverInfo": Raw(peer.info),
            **({"instructions": peer.instructions} if peer.instructions else {}),
            **({"_meta": mark} if mark else {}),
        }
        session.answer(request_id, json.encode(result))

    async def discover(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer server/discover with the capabilities of the server."""
        mark = self._gateway.chain.arrived(session.key, meta, stays=False)
        await own_task()
        peer = await self._describe_server(session.caller)
        result = {
            "supportedVersions": [eras.MODERN],
            "capabilities": _capabilities(session, peer),
            **({"instructions": peer.instructions} if peer.instructions else {}),
            "ttlMs": 60_000,
            "cacheScope": "private",
            "resultType": "complete",
            "_meta": {eras.META_SERVER: Raw(peer.info), **mark},
        }
        session.answer(request_id, json.encode(result))

    async def _describe_server(self, caller: Caller) -> Peer:
        """Return how the server describes itself. Raises TabaneError if it cannot be started."""
        try:
            return await self._gateway.introduced(caller, caller.server)
        except TabaneError:
            # It may start later, and a host that gets an error now does not ask again.
            listing = self._gateway.catalogs.listing(caller.server)
            if listing is None:
                raise
            name = json.encode({"name": listing.about or caller.server, "version": ""})
            try:
                capabilities = json.fields(listing.capabilities)
            except InvalidJson:
                capabilities = {}
            return Peer(listing.era, listing.version, listing.about, capabilities, info=name)

    # -- tools -------------------------------------------------------------------------------------

    async def list_tools(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer tools/list with the tools of the server, under its own names."""
        after = after_of(params, "tools")
        opened = self._door.admit(session.caller, TOOLS_LIST, b"", bytes(request_id).decode())
        if opened.waits is not None:
            await wait_turn(opened)
        async with ended(opened):
            tools = await self._gateway.lookup.own_tools(session.caller)
            session.saw_tools()
            few = len(tools) <= FEW
            legacy = session.era is not Era.MODERN
            make = partial(_definitions, tools, legacy=legacy)
            items = make() if few else await asyncio.to_thread(make)
            result = self._answer_page(session, "tools", items, after)
            if (recorded := opened.end("ok", len(result))) is not None:
                await recorded
        session.answer(request_id, result)

    async def get_tool(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer tools/get with the definition as the server made it."""
        tool = await self._gateway.lookup.find(session.caller, _tool_name(params))
        session.answer(request_id, b'{"tool":' + own_definition(tool) + b"}")

    async def call_tool(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer tools/call of a tool by its own name."""
        name = _tool_name(params)
        tool = self._gateway.lookup.own_tool(session.caller, name)
        if tool is None:
            tool = await self._gateway.lookup.find(session.caller, name)
        await self._tools.call_known(session, request_id, tool, params, meta)

    # -- prompts and resources ---------------------------------------------------------------------

    async def list_prompts(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer prompts/list with the prompts of the server, under its own names."""
        after, caller = after_of(params, "prompts"), session.caller
        await self._gateway.lookup.refresh("prompts", caller)
        prompts = self._gateway.prompts.of_server(caller.server)
        items = [
            (each.name, json.join({**json.fields(each.definition), "name": Raw(json.quote(each.name))}))
            for each in prompts
            if may_find(caller, prompt_target(each))
        ]
        session.answer(request_id, self._answer_page(session, "prompts", items, after))

    async def list_resources(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/list with the resources of the server."""
        await self._list_resources(session, request_id, params, "resources", "uri")

    async def list_templates(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/templates/list with the templates of the server."""
        await self._list_resources(session, request_id, params, "resourceTemplates", "uriTemplate")

    async def _list_resources(
        self, session: Session, request_id: Raw, params: Members, key: str, member: str
    ) -> None:
        after, caller = after_of(params, key), session.caller
        await self._gateway.lookup.refresh("resources", caller)
        catalog = self._gateway.resources
        found = catalog.items() if key == "resources" else catalog.template_items()
        items = [
            (each.uri, json.join({**json.fields(each.definition), member: Raw(json.quote(each.uri))}))
            for each in found
            if each.server == caller.server and may_find(caller, resource_target(each.server, each.uri))
        ]
        session.answer(request_id, self._answer_page(session, key, items, after))

    def _answer_page(
        self, session: Session, key: str, items: list[tuple[str, bytes]], after: str | None
    ) -> bytes:
        kind = "resources" if key == "resourceTemplates" else key
        holds = self._gateway.holds(kind) if session.era is Era.MODERN else None
        if after is None and len(items) <= PAGE:
            return listed(key, b",".join(definition for _, definition in items), None, holds)
        return listed(key, *page_of(items, key, after), holds)


def _capabilities(session: Session, peer: Peer) -> dict[str, Any]:
    caller = session.caller
    whole = caller.access.allows(method_target(caller.server, ANY))
    return dict(of_one_server(peer.capabilities, modern=session.era is Era.MODERN, whole=whole))


def _definitions(tools: list[Tool], *, legacy: bool) -> list[tuple[str, bytes]]:
    found = [(tool.shown_name, own_definition(tool)) for tool in tools]
    return [(name, legacy_definition(each)) for name, each in found] if legacy else found


def _tool_name(params: Members) -> str:
    name = json.text(params.get("name"))
    if name is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, "name: the name of a tool is required")
    return name


MOST_NOTIFICATIONS = 64
"""Notifications of all clients that wait to be passed on; further ones are dropped."""

_passable = re.compile(r"[A-Za-z0-9_$.:/-]{1,128}").fullmatch


class PassedMessages:
    """Passes on messages. ``known`` are the methods of both eras that the hub itself answers.

    A method of the other era is not passed on: the client would not know the form of the answer.
    """

    def __init__(self, gateway: Gateway, door: Door, known: Collection[str]) -> None:
        self._gateway, self._door, self._known = gateway, door, frozenset(known)
        self._waiting: set[asyncio.Task[None]] = set()

    def handler(self, method: str) -> Handler | None:
        """Return what answers a request; None if the method cannot be passed on."""
        if method in self._known or not _passable(method):
            return None
        return partial(self._request, method)

    async def _request(
        self, method: str, session: Session, request_id: Raw, params: Members, meta: Members
    ) -> None:
        server, key = session.caller.server, bytes(request_id)
        target = method_target(server, method)
        opened = self._door.admit(session.caller_of(meta), target, json.join(params), key.decode())
        if opened.waits is not None:
            await wait_turn(opened)
        with ended(opened):
            if needs_roots(session, self._gateway, server):
                await learn_roots(session)
            upstream = self._gateway.instance_for(session.caller, server)
            passed = PassedRequest(session, key, method, opened)
            session.calls.send(
                key, upstream, method.encode(), params, meta, passed.replied, opened=opened
            )  # fmt: skip

    def notified(self, session: Session, method: str, params: Members) -> None:
        """Pass on a notification, after its turn has come and the server has started."""
        allowed = may_find(session.caller, method_target(session.caller.server, method))
        if method in self._known or not _passable(method) or not allowed:
            log.debug("a notification was not passed on: the client may not use the whole server")
        elif len(self._waiting) >= MOST_NOTIFICATIONS:
            log.warning("%s: a notification was dropped, since many wait", session.caller.server)
        else:
            task = asyncio.get_running_loop().create_task(self._notify(session, method, params))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _notify(self, session: Session, method: str, params: Members) -> None:
        caller, body = session.caller, json.join(params)
        try:
            opened = self._door.admit(caller, method_target(caller.server, method), body)
            async with ended(opened):
                if opened.waits is not None:
                    await opened.waits
                await self._gateway.instance_for(caller, caller.server).notify(method, body)
                if (recorded := opened.end("ok")) is not None:
                    await recorded
        except TabaneError as error:
            log.warning("%s did not get a notification: %s", caller.server, error)


class PassedRequest:
    """A request on its way, whose answer passes unchanged."""

    def __init__(self, session: Session, key: bytes, method: str, opened: OpenCall) -> None:
        self._session, self._key, self._method, self._opened = session, key, method, opened

    def replied(self, reply: UpstreamReply) -> None:
        """Take the answer."""
        self._session.start(self._key, self._give(reply), len(reply.result or b""))

    async def _give(self, reply: UpstreamReply) -> None:
        """Record the answer, then give it. One that cannot be recorded is not given."""
        session, size = self._session, len(reply.result or b"")
        recorded = self._opened.end("failed" if reply.result is None else "ok", size)
        if recorded is not None:
            await recorded
        large = size > LARGE
        line = await asyncio.to_thread(self._answer_line, reply) if large else self._answer_line(reply)
        if reply.failure is not None:
            session.fail(self._key, reply.failure)
        elif line is None:
            note_question(session.caller.server)
            session.fail(self._key, question_of(self._method))
        else:
            session.give(self._key, line, ok=reply.result is not None)

    def _answer_line(self, reply: UpstreamReply) -> bytes | None:
        if reply.result is None:
            return json.error_line(self._key, reply.error or b"null")
        return answer_line(self._key, self._session.era, reply.era, reply.result)

"""Operations for the host of an MCP App: its page and its server's resources, and the calls that it makes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.offers.resource_uris import addressed
from tabane.catalog.operations.parameters import CallAppTool, ReadAppResource
from tabane.catalog.tools.tool import OWN, Tool, check_size
from tabane.catalog.visibility import resource_target
from tabane.errors import BadArguments, CallerError, UpstreamError
from tabane.messages import say
from tabane.operations import Caller, CallTarget, OpenCall, ended
from tabane.upstreams.call import Call, UpstreamReply
from tabane.wire import json

Admit = Callable[[Caller, CallTarget, bytes], OpenCall]
"""Admits the reading of a resource, which has to be ended. Raises Forbidden and RateLimited."""

Perform = Callable[[Caller, str, dict[str, Any]], Awaitable[Raw]]
"""Calls one tool, after permission and validation, and returns its result. Raises TabaneError."""


class AppOperations:
    """Serves apps, each of which is named by the tool that has it. An app reaches only its own server.

    The resources and tools are those of the server, by their own names. Permissions and limits are those of
    the caller, as for any other call.
    """

    def __init__(self, gateway: Gateway, admit: Admit, perform: Perform) -> None:
        self._gateway, self._admit, self._perform = gateway, admit, perform

    async def read(self, caller: Caller, params: ReadAppResource) -> dict[str, Any]:
        """Return a resource of the app's server: the result, and the definition if the server lists it.

        Without ``uri``, it is the page of the tool. Raises BadArguments if the tool has none, or if the URI
        is another server's.
        """
        tool = await self._app_tool(caller, params.name)
        uri = params.uri or tool.app.page
        if not uri:
            raise BadArguments(say("{tool} has no page.", tool=tool.alias), "name")
        if (at := addressed(uri)) is not None:
            if at[0] != tool.server:
                raise BadArguments(
                    say("{uri} is not a resource of {server!n}.", uri=uri, server=tool.server), "uri"
                )
            uri = at[1]
        opened = self._admit(caller, resource_target(tool.server, uri), b"")
        async with ended(opened):
            if opened.waits is not None:
                await opened.waits
            result = await self._read(caller, tool, uri, opened)
            if (recorded := opened.end("ok", len(result))) is not None:
                await recorded
        return {"result": result, "listed": self._gateway.resources.definition(tool.server, uri)}

    async def call(self, caller: Caller, params: CallAppTool) -> Raw:
        """Call a tool for an app, by its server's own name or its public one, and return the result.

        Raises CallerError if the server has no such tool for apps.
        """
        app = await self._app_tool(caller, params.name)
        tools = self._gateway.catalogue.of_server(app.server)
        tool = next((each for each in tools if params.tool in (each.name, each.alias)), None)
        if tool is None or not tool.app.for_app:
            raise CallerError(
                say("{server!n} has no tool {tool} for apps.", server=app.server, tool=params.tool)
            )
        return await self._perform(caller, tool.alias, params.arguments)

    async def _app_tool(self, caller: Caller, name: str) -> Tool:
        tool = await self._gateway.find(caller, name)
        if tool.server == OWN:
            raise BadArguments(say("{tool} has no page.", tool=tool.alias), "name")
        return tool

    async def _read(self, caller: Caller, tool: Tool, uri: str, opened: OpenCall) -> Raw:
        """Read a resource. Raises TabaneError. If the caller gives up, cancels it upstream."""
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()

        def settle(reply: UpstreamReply) -> None:
            if not answer.done():
                answer.set_result(reply)

        call = Call(
            b"resources/read",
            {"uri": Raw(json.quote(uri))},
            opened.meta or {},
            settle,
            timeout=self._gateway.server(tool.server).timeout,
            holder=caller.access.holder,
            marks=opened.marks,
        )
        upstream = self._gateway.instance_for(caller, tool.server)
        upstream.submit(call)
        try:
            reply = await answer
        except asyncio.CancelledError:
            upstream.cancel(call, "the caller gave up")
            raise
        if reply.failure:
            raise reply.failure
        if reply.result is None:
            raise UpstreamError(say("{server!n} could not read {uri}.", server=tool.server, uri=uri))
        check_size(tool, len(reply.result), opened.most)
        return reply.result

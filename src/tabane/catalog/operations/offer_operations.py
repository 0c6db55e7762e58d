"""Operations that read a resource and get a prompt, for models that only call tools and for MCP Apps.

The host of an app gets its page and the resources of its server, and passes on the calls that it makes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import LongResults
from tabane.catalog.lookup import prompt_target, resource_target
from tabane.catalog.offers.resources import ResourceSource, addressed
from tabane.catalog.operations.table import CallAppTool, GetPrompt, ReadAppResource, ReadResource
from tabane.catalog.operations.tool_operations import Admit, Perform, error_text, reply_of
from tabane.catalog.tools.tool import OWN, Tool, check_size
from tabane.errors import BadArguments, CallerError, TabaneError, UnknownName, UpstreamError
from tabane.messages import say
from tabane.operations import Caller, CallTarget, OpenCall, ended
from tabane.upstreams.call import Call
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.json import Members

RESULT_TOKENS = 25_000
"""Tokens of a result above which it is returned in parts, unless its server has another limit."""


class OfferOperations:
    """Reads resources and gets prompts. ``admit`` admits each as a call; ``parts`` splits long results."""

    def __init__(self, gateway: Gateway, admit: Admit, parts: LongResults) -> None:
        self._gateway, self._admit, self._parts = gateway, admit, parts

    async def read_resource(self, caller: Caller, params: ReadResource) -> Raw:
        """Return a resource as a tool's result. If no server lists its URI, several are asked in turn."""
        sources = await self._gateway.lookup.sources(caller, params.uri)
        if not sources:
            what = say(
                "There is no resource {uri}. Find resources with search_tools, kind resources.",
                uri=params.uri,
            )
            raise CallerError(what)
        for source in sources[:-1]:
            try:
                return await self._read(caller, source)
            except UpstreamError:
                continue  # it does not have it
        return await self._read(caller, sources[-1])

    async def _read(self, caller: Caller, source: ResourceSource) -> Raw:
        target = resource_target(source.server, source.uri)
        given = {"uri": Raw(json.quote(source.uri))}
        result = await self._ask(caller, source.server, b"resources/read", given, target)
        return await self._in_parts(caller, target, await asyncio.to_thread(_contents, result))

    async def get_prompt(self, caller: Caller, params: GetPrompt) -> Raw:
        """Return the messages of a prompt as the result of a tool."""
        try:
            prompt = await self._gateway.lookup.find_prompt(caller, params.name)
        except UnknownName as unknown:  # of what is asked for, not of the operation
            raise CallerError(unknown.message) from None
        given = {
            "name": Raw(json.quote(prompt.name)),
            "arguments": Raw(json.encode(params.arguments)),
        }
        target = prompt_target(prompt)
        result = await self._ask(caller, prompt.server, b"prompts/get", given, target)
        return await self._in_parts(caller, target, await asyncio.to_thread(_messages, result))

    async def _in_parts(self, caller: Caller, target: CallTarget, content: list[Any]) -> Raw:
        configured = self._gateway.servers.get(target.server)
        tokens = (configured.max_result_tokens if configured else None) or RESULT_TOKENS
        result = Raw(await asyncio.to_thread(json.encode, {"content": content, "isError": False}))
        return await self._parts.first_part_of_large(caller, result, tokens, (target,))

    async def _ask(
        self, caller: Caller, server: str, method: bytes, params: Members, target: CallTarget
    ) -> Raw:
        """Ask a server, and return its result. Raises TabaneError. Canceling this cancels the request."""
        opened = self._admit(caller, target, bytes(params.get("arguments", b"{}")))
        async with ended(opened):
            if opened.waits is not None:
                await opened.waits
            call = partial(
                Call,
                method,
                params,
                opened.meta or {},
                timeout=self._gateway.server(server).timeout,
                holder=caller.access.holder,
                safe=True,
                marks=opened.marks,
            )
            reply = await reply_of(self._gateway.instance_for(caller, server), call)
            if reply.failure is not None:
                raise reply.failure
            if reply.result is None:
                raise UpstreamError(
                    say("{name} answered with an error: {error}", name=target.name, error=error_text(reply))
                )
            if eras.result_type(reply.result) not in (None, "complete"):
                raise CallerError(
                    say("{name} asks a question, which cannot be answered here.", name=target.name)
                )
            result = reply.result
            if (recorded := opened.end("ok", len(bytes(result)))) is not None:
                await recorded
        return result


def _members(result: Raw, key: str) -> list[Any]:
    try:
        found = json.decode(result)
    except json.InvalidJson:
        raise TabaneError(say("The server sent an answer that cannot be read.")) from None
    listed = found.get(key) if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []


def _contents(result: Raw) -> list[Any]:
    """Return the contents of a resource as the content of a result: text, images, and whole resources."""
    return [_content(each) for each in _members(result, "contents") if isinstance(each, dict)]


def _content(given: dict[str, Any]) -> dict[str, Any]:
    media = given.get("mimeType")
    if isinstance(given.get("text"), str):
        return {"type": "text", "text": given["text"]}
    if isinstance(given.get("blob"), str) and isinstance(media, str) and media.startswith("image/"):
        return {"type": "image", "data": given["blob"], "mimeType": media}
    return {"type": "resource", "resource": given}


def _messages(result: Raw) -> list[Any]:
    """Return the messages of a prompt as content. Text says who speaks."""
    found: list[Any] = []
    for message in _members(result, "messages"):
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, dict) and block.get("type") == "text":
                found.append({"type": "text", "text": f"{message.get('role')}: {block.get('text')}"})
            elif isinstance(block, dict):
                found.append(block)
    return found


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
        tools = self._gateway.catalog.of_server(app.server)
        tool = next((each for each in tools if params.tool in (each.name, each.alias)), None)
        if tool is None or not tool.app.for_app:
            raise CallerError(
                say("{server!n} has no tool {tool} for apps.", server=app.server, tool=params.tool)
            )
        return await self._perform(caller, tool.alias, params.arguments)

    async def _app_tool(self, caller: Caller, name: str) -> Tool:
        tool = await self._gateway.lookup.find(caller, name)
        if tool.server == OWN:
            raise BadArguments(say("{tool} has no page.", tool=tool.alias), "name")
        return tool

    async def _read(self, caller: Caller, tool: Tool, uri: str, opened: OpenCall) -> Raw:
        """Read a resource. Raises TabaneError. If the caller gives up, cancels it upstream."""
        call = partial(
            Call,
            b"resources/read",
            {"uri": Raw(json.quote(uri))},
            opened.meta or {},
            timeout=self._gateway.server(tool.server).timeout,
            holder=caller.access.holder,
            marks=opened.marks,
        )
        reply = await reply_of(self._gateway.instance_for(caller, tool.server), call)
        if reply.failure:
            raise reply.failure
        if reply.result is None:
            raise UpstreamError(say("{server!n} could not read {uri}.", server=tool.server, uri=uri))
        check_size(tool, len(reply.result), opened.most)
        return reply.result

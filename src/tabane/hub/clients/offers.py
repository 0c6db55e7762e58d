"""Requests for prompts, resources and completions, forwarded to the server that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from msgspec import Raw
from msgspec.structs import replace

from tabane.catalog.gateway import Gateway
from tabane.catalog.offers.resources import ResourceSource
from tabane.catalog.visibility import may_find, prompt_target, resource_target
from tabane.errors import TabaneError
from tabane.hub.clients.session import Session
from tabane.hub.clients.tool_calls import LARGE, answer_line, failure_of, note_question, question_of, shown
from tabane.operations import CallTarget, Door, OpenCall, ended
from tabane.operations.metering import failure_reason
from tabane.upstreams.call import UpstreamReply
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members

if TYPE_CHECKING:
    from tabane.hub.clients.document_resources import ListedDocuments


class OfferRequests:
    """Answers requests for prompts, resources and completions of every session."""

    def __init__(self, gateway: Gateway, door: Door, documents: ListedDocuments) -> None:
        self._gateway, self._door, self._documents = gateway, door, documents

    async def get_prompt(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        name = _required(params, "name", "the name of a prompt")
        prompt = await self._gateway.find_prompt(session.caller, name)
        opened = await self._admit(session, request_id, prompt_target(prompt), params, meta)
        self._forward(
            session, request_id, prompt.server, b"prompts/get",
            {**params, "name": Raw(json.quote(prompt.name))}, meta, prompt.alias, opened,
        )  # fmt: skip

    async def complete(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer completion/complete, for the arguments of a prompt or of a template of resources."""
        from tabane.hub.clients import document_resources

        try:
            ref = json.fields(params["ref"])
        except (KeyError, InvalidJson):
            raise ProtocolRefusal(
                eras.INVALID_PARAMS, "ref: an object with type and name or uri is required"
            ) from None
        kind = json.text(ref.get("type"))
        if kind == "ref/prompt":
            name = _required(ref, "name", "the name of a prompt")
            prompt = await self._gateway.find_prompt(session.caller, name)
            server, ref = prompt.server, {**ref, "name": Raw(json.quote(prompt.name))}
            target = prompt_target(prompt)
        elif kind == "ref/resource":
            uri = _required(ref, "uri", "a URI or a template of URIs")
            if document_resources.key_of(uri) is not None:
                self._check_documents(session, uri)
                await self._complete_key(session, request_id, params)
                return
            source = (await self._sources(session, uri))[0]
            server, name = source.server, source.shown
            ref = {**ref, "uri": Raw(json.quote(source.uri))}
            target = resource_target(source.server, source.uri)
        else:
            raise ProtocolRefusal(eras.INVALID_PARAMS, "ref.type: ref/prompt or ref/resource")
        given = {**params, "ref": Raw(json.join(ref))}
        opened = await self._admit(session, request_id, target, params, meta)
        self._forward(session, request_id, server, b"completion/complete", given, meta, name, opened)

    async def read_resource(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/read. If no server lists the URI, those that may know it are asked in turn."""
        from tabane.hub.clients import document_resources

        uri = _required(params, "uri", "the URI of a resource")
        key = document_resources.key_of(uri)
        if key is not None:
            self._check_documents(session, uri)
            await self._read_document(session, request_id, uri, key, meta)
            return
        sources = await self._sources(session, uri)
        opened = await self._admit(
            session, request_id, resource_target(sources[0].server, sources[0].uri), params, meta
        )
        with ended(opened):
            session.no_longer_runs(request_id)
            self._read(session, bytes(request_id), params, meta, sources, opened)

    async def _admit(
        self, session: Session, request_id: Raw, target: CallTarget, params: Members, meta: Members
    ) -> OpenCall:
        """Admit a request, and wait for its turn. Raises Forbidden and RateLimited."""
        arguments = bytes(params.get("arguments", b"{}"))
        opened = self._door.admit(session.caller_of(meta), target, arguments, bytes(request_id).decode())
        with ended(opened):
            if opened.waits is not None:
                await opened.waits
        return opened

    def _check_documents(self, session: Session, uri: str) -> None:
        """Raise ProtocolRefusal if the client may not read documents: then there is none for it."""
        from tabane.hub.clients import document_resources

        if not may_find(session.caller, document_resources.READING):
            raise _not_found(session, uri)

    async def _read_document(
        self, session: Session, request_id: Raw, uri: str, key: str, meta: Members
    ) -> None:
        from tabane.hub.clients import document_resources

        given = {"arguments": Raw(json.encode({"filepath": key}))}
        opened = await self._admit(session, request_id, document_resources.READING, given, meta)
        with ended(opened):
            found = await self._documents.text(key, session.caller_of(meta))
            if found is None:
                raise _not_found(session, uri)
            result = document_resources.contents(uri, *found)
            if (recorded := opened.end("ok", len(result))) is not None:
                await recorded
        session.answer(request_id, eras.cacheable(result) if session.era is Era.MODERN else result)

    async def _complete_key(self, session: Session, request_id: Raw, params: Members) -> None:
        from tabane.hub.clients import document_resources

        try:
            prefix = json.text(json.fields(params["argument"]).get("value"))
        except (KeyError, InvalidJson):
            raise ProtocolRefusal(
                eras.INVALID_PARAMS, "argument: an object with name and value is required"
            ) from None
        keys = await self._documents.beginning(prefix or "", document_resources.MOST_COMPLETED + 1)
        session.answer(request_id, document_resources.completion(keys))

    def _read(
        self,
        session: Session,
        key: bytes,
        params: Members,
        meta: Members,
        sources: tuple[ResourceSource, ...],
        opened: OpenCall,
    ) -> None:
        source, others = sources[0], sources[1:]

        def replied(reply: UpstreamReply) -> None:
            if others and reply.result is None:
                try:
                    self._read(session, key, params, meta, others, opened)
                except TabaneError as error:
                    # No task surrounds this: the client is answered here or never.
                    opened.end("failed", reason=failure_reason(error))
                    session.fail(key, error)
            else:
                _replied(session, key, source.shown, reply, opened, source)

        upstream = self._gateway.instance_for(session.caller, source.server)
        given = {**params, "uri": Raw(json.quote(source.uri))}
        session.calls.send(
            key,
            upstream,
            b"resources/read",
            given,
            meta,
            replied,
            name=source.shown,
            opened=opened,
            safe=True,
        )

    def _forward(
        self,
        session: Session,
        request_id: Raw,
        server: str,
        method: bytes,
        params: Members,
        meta: Members,
        name: str,
        opened: OpenCall,
    ) -> None:
        key = bytes(request_id)
        session.no_longer_runs(request_id)
        with ended(opened):
            upstream = self._gateway.instance_for(session.caller, server)
            session.calls.send(
                key,
                upstream,
                method,
                params,
                meta,
                lambda reply: _replied(session, key, name, _with_shown_pages(session, server, reply), opened),
                name=name,
                opened=opened,
                safe=True,
            )

    async def _sources(self, session: Session, uri: str) -> tuple[ResourceSource, ...]:
        sources = await self._gateway.sources(session.caller, uri)
        if not sources:
            raise _not_found(session, uri)
        return sources


def _replied(
    session: Session,
    key: bytes,
    name: str,
    reply: UpstreamReply,
    opened: OpenCall,
    source: ResourceSource | None = None,
) -> None:
    """Record an answer and pass it on; ``source`` is the request, if the answer may be kept for a while."""
    try:
        size = 0 if reply.result is None else len(reply.result)
        why = "" if reply.result is not None else failure_of(reply)
        recorded = opened.end("failed" if reply.result is None else "ok", size, reason=why)
    except TabaneError as error:  # it cannot be recorded, and so not given
        session.fail(key, error)
        return
    if recorded is None:
        _pass_on(session, key, name, reply, source)
    else:
        session.prepare(key, size, _pass_on_later(recorded, session, key, name, reply, source))


async def _pass_on_later(
    recorded: Awaitable[None],
    session: Session,
    key: bytes,
    name: str,
    reply: UpstreamReply,
    source: ResourceSource | None,
) -> None:
    await recorded
    session.no_longer_runs(Raw(key))
    _pass_on(session, key, name, reply, source)


def _pass_on(
    session: Session, key: bytes, name: str, reply: UpstreamReply, source: ResourceSource | None
) -> None:
    result = reply.result
    if reply.failure is not None:
        session.fail(key, reply.failure)
    elif result is None:
        session.give(key, json.error_line(key, reply.error or b"null"), ok=False)
    elif len(result) > LARGE:
        session.prepare(key, len(result), _give_large(session, key, name, reply, source))
    else:
        _give(session, key, name, _line(session.era, key, reply, source))


async def _give_large(
    session: Session, key: bytes, name: str, reply: UpstreamReply, source: ResourceSource | None
) -> None:
    _give(session, key, name, await asyncio.to_thread(_line, session.era, key, reply, source))


def _give(session: Session, key: bytes, name: str, line: bytes | None) -> None:
    if line is not None:
        session.give(key, line)
        return
    note_question(name)
    session.fail(key, question_of(name))


def _line(era: Era | None, key: bytes, reply: UpstreamReply, source: ResourceSource | None) -> bytes | None:
    result = reply.result or Raw(b"{}")
    if source is not None and source.shown != source.uri:
        result = _renamed(result, source)
    if era is Era.MODERN and source is not None:
        return json.result_line(key, eras.cacheable(eras.completed(result)))
    return answer_line(key, era, reply.era, result)


def _with_shown_pages(session: Session, server: str, reply: UpstreamReply) -> UpstreamReply:
    """Return an answer with the addresses of its server's pages as they are shown, unless it is large."""
    if reply.result is None or len(reply.result) > LARGE:
        return reply
    return replace(reply, result=shown(session, server, reply.result))


def _not_found(session: Session, uri: str) -> ProtocolRefusal:
    legacy = session.era is Era.LEGACY
    code = eras.RESOURCE_NOT_FOUND if legacy else eras.INVALID_PARAMS
    return ProtocolRefusal(code, f"Resource not found: {uri}", {"uri": uri})


def _renamed(result: Raw, source: ResourceSource) -> Raw:
    """Return what was read under the URI in the request: two servers have the same URI."""
    from tabane.catalog.tools.kept_addresses import shown_uri

    try:
        members = json.fields(result)
        contents = [json.fields(item) for item in json.elements(members["contents"])]
    except (InvalidJson, KeyError):
        return result
    for item in contents:
        uri = json.text(item.get("uri"))
        if uri == source.uri:
            item["uri"] = Raw(json.quote(source.shown))
        elif uri is not None:
            item["uri"] = Raw(json.quote(shown_uri(source.server, uri)))
    members["contents"] = Raw(b"[" + b",".join(map(json.join, contents)) + b"]")
    return Raw(json.join(members))


def _required(params: Members, key: str, what: str) -> str:
    value = json.text(params.get(key))
    if value is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"{key}: {what} is required")
    return value

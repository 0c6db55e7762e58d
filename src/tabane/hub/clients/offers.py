"""Requests for prompts, resources, completions and skills, forwarded to the server that has them.

Skills are the extension SEP-2640: those of all servers are in one list, and each is a folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw, Struct
from msgspec.structs import replace

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find, prompt_target, resource_target
from tabane.catalog.offers.resources import ResourceSource
from tabane.catalog.offers.skills import Skill, folder_of, read_skill, with_shown_resources
from tabane.catalog.tools.app_metadata import shown_uri
from tabane.errors import UpstreamError
from tabane.hub.clients import document_resources
from tabane.hub.clients.lists import after_of, listed
from tabane.hub.clients.session import Handler, Session, wait_turn
from tabane.hub.clients.tool_calls import LARGE, answer_line, failure_of, note_question, question_of, shown
from tabane.messages import say
from tabane.operations import CallTarget, Door, OpenCall, Outcome, ended
from tabane.upstreams.call import UpstreamReply
from tabane.wire import cursors, json
from tabane.wire import era as eras
from tabane.wire.era import SKILLS, Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.workers.eager_start import own_task

if TYPE_CHECKING:
    from tabane.hub.clients.document_resources import ListedDocuments


class OfferRequests:
    """Answers requests for prompts, resources and completions of every session."""

    def __init__(self, gateway: Gateway, door: Door, documents: ListedDocuments) -> None:
        self._gateway, self._door, self._documents = gateway, door, documents

    async def get_prompt(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer prompts/get with what the prompt's server answers."""
        name = _required_text(params, "name", "the name of a prompt")
        prompt = await self._gateway.lookup.find_prompt(session.caller, name)
        opened = await self._admit(session, request_id, prompt_target(prompt), params, meta)
        self._forward(
            session, request_id, prompt.server, b"prompts/get",
            {**params, "name": Raw(json.quote(prompt.name))}, meta, prompt.alias, opened,
        )  # fmt: skip

    async def complete(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer completion/complete, for the arguments of a prompt or of a template of resources."""
        try:
            ref = json.fields(params["ref"])
        except (KeyError, InvalidJson):
            raise ProtocolRefusal(
                eras.INVALID_PARAMS, "ref: an object with type and name or uri is required"
            ) from None
        kind = json.text(ref.get("type"))
        if kind == "ref/prompt":
            name = _required_text(ref, "name", "the name of a prompt")
            prompt = await self._gateway.lookup.find_prompt(session.caller, name)
            server, ref = prompt.server, {**ref, "name": Raw(json.quote(prompt.name))}
            target = prompt_target(prompt)
        elif kind == "ref/resource":
            uri = _required_text(ref, "uri", "a URI or a template of URIs")
            if document_resources.key_of(uri) is not None:
                self._check_documents(session, uri)
                try:
                    prefix = json.text(json.fields(params["argument"]).get("value"))
                except (KeyError, InvalidJson):
                    raise ProtocolRefusal(
                        eras.INVALID_PARAMS, "argument: an object with name and value is required"
                    ) from None
                await own_task()
                keys = await self._documents.beginning(prefix or "", document_resources.MOST_COMPLETED + 1)
                session.answer(request_id, document_resources.completion(keys))
                return
            source = (await self._sources_of(session, uri))[0]
            server, name = source.server, source.shown
            ref = {**ref, "uri": Raw(json.quote(source.uri))}
            target = resource_target(source.server, source.uri)
        else:
            raise ProtocolRefusal(eras.INVALID_PARAMS, "ref.type: ref/prompt or ref/resource")
        completed = {**params, "ref": Raw(json.join(ref))}
        opened = await self._admit(session, request_id, target, params, meta)
        self._forward(session, request_id, server, b"completion/complete", completed, meta, name, opened)

    async def read_resource(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/read. If no server lists the URI, those that may know it are asked in turn."""
        uri = _required_text(params, "uri", "the URI of a resource")
        key = document_resources.key_of(uri)
        if key is not None:
            self._check_documents(session, uri)
            await self._read_document(session, request_id, uri, key, meta)
            return
        sources = await self._sources_of(session, uri)
        opened = await self._admit(
            session, request_id, resource_target(sources[0].server, sources[0].uri), params, meta
        )
        await self._read(session, bytes(request_id), params, meta, sources, opened)

    async def _admit(
        self, session: Session, request_id: Raw, target: CallTarget, params: Members, meta: Members
    ) -> OpenCall:
        """Admit a request, and wait for its turn. Raises Forbidden and RateLimited."""
        arguments = bytes(params.get("arguments", b"{}"))
        opened = self._door.admit(session.caller_of(meta), target, arguments, bytes(request_id).decode())
        if opened.waits is not None:
            await wait_turn(opened)
        return opened

    def _check_documents(self, session: Session, uri: str) -> None:
        """Raise ProtocolRefusal if the client may not read documents: then there is none for it."""
        if not may_find(session.caller, document_resources.READING):
            raise _not_found(session, uri)

    async def _read_document(
        self, session: Session, request_id: Raw, uri: str, key: str, meta: Members
    ) -> None:
        arguments = {"arguments": Raw(json.encode({"filepath": key}))}
        opened = await self._admit(session, request_id, document_resources.READING, arguments, meta)
        with ended(opened):
            await own_task()
            found = await self._documents.text(key, session.caller_of(meta))
            if found is None:
                raise _not_found(session, uri)
            result = document_resources.contents(uri, *found)
            if (recorded := opened.end("ok", len(result))) is not None:
                await recorded
        session.answer(request_id, eras.cacheable(result) if session.era is Era.MODERN else result)

    async def _read(
        self,
        session: Session,
        key: bytes,
        params: Members,
        meta: Members,
        sources: tuple[ResourceSource, ...],
        opened: OpenCall,
    ) -> None:
        """Ask the first of several servers, and the next one if it has no answer."""
        source, others = sources[0], sources[1:]

        def replied(reply: UpstreamReply) -> None:
            if others and reply.result is None:
                work = self._read(session, key, params, meta, others, opened)
            else:
                work = _give_reply(session, key, source.shown, reply, opened, source)
            session.start(key, work, len(reply.result or b""))

        with ended(opened):
            upstream = self._gateway.instance_for(session.caller, source.server)
            sent = {**params, "uri": Raw(json.quote(source.uri))}
            session.calls.send(
                key, upstream, b"resources/read", sent, meta, replied,
                name=source.shown, opened=opened, safe=True,
            )  # fmt: skip

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

        def replied(reply: UpstreamReply) -> None:
            shown = _with_shown_pages(session, server, reply)
            work = _give_reply(session, key, name, shown, opened)
            session.start(key, work, len(shown.result or b""))

        with ended(opened):
            upstream = self._gateway.instance_for(session.caller, server)
            session.calls.send(
                key, upstream, method, params, meta, replied, name=name, opened=opened, safe=True
            )

    async def _sources_of(self, session: Session, uri: str) -> tuple[ResourceSource, ...]:
        sources = await self._gateway.lookup.sources(session.caller, uri)
        if not sources:
            raise _not_found(session, uri)
        return sources


async def _give_reply(
    session: Session,
    key: bytes,
    name: str,
    reply: UpstreamReply,
    opened: OpenCall,
    source: ResourceSource | None = None,
) -> None:
    """Record an answer, then give it. One that cannot be recorded is not given.

    ``source`` is what was read, if the answer may be kept for a while.
    """
    result = reply.result
    size = 0 if result is None else len(result)
    why = "" if result is not None else failure_of(reply)
    recorded = opened.end("failed" if result is None else "ok", size, reason=why)
    if recorded is not None:
        await recorded
    if reply.failure is not None:
        session.fail(key, reply.failure)
        return
    if result is None:
        session.give(key, json.error_line(key, reply.error or b"null"), ok=False)
        return
    make = partial(_line, session.era, key, reply, source)
    line = await asyncio.to_thread(make) if size > LARGE else make()
    if line is not None:
        session.give(key, line)
        return
    note_question(name)
    session.fail(key, question_of(name))


def _line(era: Era | None, key: bytes, reply: UpstreamReply, source: ResourceSource | None) -> bytes | None:
    result = reply.result or Raw(b"{}")
    if source is not None and source.shown != source.uri:
        result = _with_shown_uris(result, source)
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


def _with_shown_uris(result: Raw, source: ResourceSource) -> Raw:
    """Return what was read under the URI in the request: two servers have the same URI."""
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


def _required_text(params: Members, key: str, what: str) -> str:
    value = json.text(params.get(key))
    if value is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"{key}: {what} is required")
    return value


LIST, GET, FOLDER = "skills/list", "skills/get", "resources/directory/read"

PAGE = 200
"""Skills of a page at most."""

PAGE_BYTES = 1 << 20
"""Bytes of a page above which no further skill is added. An entry is never split."""

Rewrite = Callable[[str, Raw], bytes]
"""Takes a server and its result; returns the result as the client gets it. Raises InvalidJson."""


class SkillRequests:
    """Answers requests for skills of every session."""

    def __init__(self, gateway: Gateway, door: Door) -> None:
        self._gateway, self._door = gateway, door

    def methods(self) -> dict[str, Handler]:
        """Return the handlers of requests for skills, by method."""
        return {LIST: self.list_skills, GET: self.get_skill, FOLDER: self.read_folder}

    async def list_skills(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer skills/list with the skills of all servers that the client may read."""
        _check_carried(session, LIST)
        after = after_of(params, "skills")
        skills = await self._gateway.skills_of(session.caller)
        part, following = _page_of_skills({skill.shown: skill for skill in skills}, after)
        holds = self._gateway.holds("skills") if session.era is Era.MODERN else None
        cursor = None if following is None else cursors.list_cursor("skills", following)
        inside = b",".join(skill.definition for skill in part)
        session.answer(request_id, listed("skills", inside, cursor, holds))

    async def get_skill(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer skills/get, with the entry that the skill's server gives."""
        _check_carried(session, GET)
        uri = _required_skill_uri(params)
        sources = await self._gateway.lookup.skill_sources(session.caller, uri)
        if not sources:
            raise ProtocolRefusal(eras.INVALID_PARAMS, f"No skill is served at {uri}", {"uri": uri})
        await self._send(session, request_id, GET, params, meta, sources[0], _shown_skill)

    async def read_folder(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/directory/read. If the server does not, what it lists of its skills does."""
        _check_carried(session, FOLDER)
        uri = _required_skill_uri(params)
        sources = await self._gateway.lookup.skill_sources(session.caller, uri)
        reading = tuple(each for each in sources if self._gateway.reads_folders(each.server))
        if reading:
            await self._send(session, request_id, FOLDER, params, meta, reading[0], with_shown_resources)
            return
        visible = await self._gateway.skills_of(session.caller)
        for source in sources:
            own = [skill for skill in visible if skill.server == source.server]
            found = folder_of(own, source.server, source.uri)
            if found is not None:
                session.answer(request_id, found)
                return
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"Not a folder: {uri}", {"uri": uri})

    async def _send(
        self,
        session: Session,
        request_id: Raw,
        method: str,
        params: Members,
        meta: Members,
        source: ResourceSource,
        rewrite: Rewrite,
    ) -> None:
        """Ask a server, and pass on its answer."""
        target = resource_target(source.server, source.uri)
        encoded, key = json.join(params), bytes(request_id)
        opened = self._door.admit(session.caller_of(meta), target, encoded, key.decode())
        if opened.waits is not None:
            await wait_turn(opened)
        with ended(opened):
            asked = _SkillRequest(session, key, method, source.server, opened, rewrite)
            upstream = self._gateway.instance_for(session.caller, source.server)
            own = {**params, "uri": Raw(json.quote(source.uri))}
            session.calls.send(
                key, upstream, method.encode(), own, meta, asked.replied, opened=opened, safe=True
            )


class _SkillRequest(Struct, frozen=True):
    """One request on its way to a server."""

    session: Session
    key: bytes
    method: str
    server: str
    opened: OpenCall
    rewrite: Rewrite

    def replied(self, reply: UpstreamReply) -> None:
        """Take the answer."""
        self.session.start(self.key, self._give(reply), len(reply.result or b""))

    async def _give(self, reply: UpstreamReply) -> None:
        session, key = self.session, self.key
        async with ended(self.opened):
            line = await asyncio.to_thread(self._line, reply)
            outcome: Outcome = "ok" if reply.result is not None else "failed"
            if (recorded := self.opened.end(outcome, len(reply.result or b""))) is not None:
                await recorded
        if reply.failure is not None:
            session.fail(key, reply.failure)
        else:
            session.give(key, line, ok=reply.result is not None)

    def _line(self, reply: UpstreamReply) -> bytes:
        if reply.result is None:
            return json.error_line(self.key, reply.error or b"null")
        try:
            result = self.rewrite(self.server, reply.result)
        except InvalidJson:
            raise UpstreamError(
                say(
                    "{server!n} answered {method} with something that is not valid.",
                    server=self.server,
                    method=self.method,
                )
            ) from None
        modern = self.session.era is Era.MODERN
        return json.result_line(self.key, eras.cacheable(eras.completed(result)) if modern else result)


def _shown_skill(server: str, result: Raw) -> bytes:
    members = json.fields(result)
    skill = read_skill(server, members.get("skill", Raw(b"null")))
    if skill is None:
        raise InvalidJson("not the entry of a skill")
    return json.join({**members, "skill": Raw(skill.definition)})


def _page_of_skills(skills: dict[str, Skill], after: str | None) -> tuple[list[Skill], str | None]:
    """Return the skills of a page, and the address after which the next page begins."""
    shown, following = cursors.page(list(skills), after, PAGE)
    part: list[Skill] = []
    size = 0
    for address in shown:
        size += len(skills[address].definition)
        if part and size > PAGE_BYTES:
            return part, part[-1].shown
        part.append(skills[address])
    return part, following


def _check_carried(session: Session, method: str) -> None:
    """Raise ProtocolRefusal if the setting ``extensions`` leaves skills out."""
    if session.carried is not None and SKILLS not in session.carried:
        raise ProtocolRefusal(eras.METHOD_NOT_FOUND, f"Method not found: {method}")


def _required_skill_uri(params: Members) -> str:
    uri = json.text(params.get("uri"))
    if uri is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, "uri: the URI of a skill or of a folder is required")
    return uri

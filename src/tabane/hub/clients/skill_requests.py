"""Requests of the Skills extension (SEP-2640): skills of all servers in one list, and their folders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Raw, Struct

from tabane.catalog.gateway import Gateway
from tabane.catalog.offers.resources import ResourceSource
from tabane.catalog.offers.skills import Skill, folder_of, read_skill, with_shown_resources
from tabane.catalog.visibility import resource_target
from tabane.errors import UpstreamError
from tabane.hub.clients.lists import after_of, listed
from tabane.hub.clients.session import Handler, Session
from tabane.messages import say
from tabane.operations import Door, OpenCall, Outcome, ended
from tabane.upstreams.call import UpstreamReply
from tabane.wire import cursors, json
from tabane.wire import era as eras
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.extensions import SKILLS
from tabane.wire.json import InvalidJson, Members

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
        return {LIST: self.list_skills, GET: self.get_skill, FOLDER: self.read_folder}

    async def list_skills(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer skills/list with the skills of all servers that the client may read."""
        _check_carried(session, LIST)
        after = after_of(params, "skills")
        skills = await self._gateway.skills_of(session.caller)
        part, following = _page({skill.shown: skill for skill in skills}, after)
        holds = self._gateway.holds("skills") if session.era is Era.MODERN else None
        cursor = None if following is None else cursors.list_cursor("skills", following)
        inside = b",".join(skill.definition for skill in part)
        session.answer(request_id, listed("skills", inside, cursor, holds))

    async def get_skill(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer skills/get, with the entry that the skill's server gives."""
        _check_carried(session, GET)
        uri = _uri(params)
        sources = await self._gateway.skill_sources(session.caller, uri)
        if not sources:
            raise _no_skill(uri)
        await self._send(session, request_id, GET, params, meta, sources[0], _shown_skill)

    async def read_folder(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/directory/read. If the server does not, what it lists of its skills does."""
        _check_carried(session, FOLDER)
        uri = _uri(params)
        sources = await self._gateway.skill_sources(session.caller, uri)
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
        given, key = json.join(params), bytes(request_id)
        opened = self._door.admit(session.caller_of(meta), target, given, key.decode())
        with ended(opened):
            if opened.waits is not None:
                await opened.waits
            session.no_longer_runs(request_id)
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
        """Give the answer in a task: it has to be parsed."""
        self.session.prepare(self.key, len(reply.result or b""), self._give(reply))

    async def _give(self, reply: UpstreamReply) -> None:
        session, key = self.session, self.key
        async with ended(self.opened):
            line = await asyncio.to_thread(self._line, reply)
            outcome: Outcome = "ok" if reply.result is not None else "failed"
            if (recorded := self.opened.end(outcome, len(reply.result or b""))) is not None:
                await recorded
        session.no_longer_runs(Raw(key))
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


def _page(skills: dict[str, Skill], after: str | None) -> tuple[list[Skill], str | None]:
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


def _no_skill(uri: str) -> ProtocolRefusal:
    return ProtocolRefusal(eras.INVALID_PARAMS, f"No skill is served at {uri}", {"uri": uri})


def _uri(params: Members) -> str:
    uri = json.text(params.get("uri"))
    if uri is None:
        raise ProtocolRefusal(eras.INVALID_PARAMS, "uri: the URI of a skill or of a folder is required")
    return uri

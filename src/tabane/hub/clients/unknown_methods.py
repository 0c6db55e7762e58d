"""Requests and notifications that the hub does not know, on a connection to one server: they pass unchanged.

Only ``_meta`` is translated between the eras. Each passes the door like a call of a tool. A method may do
anything at its server, so the client has to be allowed to use the whole server.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Collection
from functools import partial

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.visibility import may_find, method_target
from tabane.errors import TabaneError
from tabane.hub.clients.session import Handler, Session
from tabane.hub.clients.tool_calls import LARGE, answer_line, note_question, question_of
from tabane.operations import Door, OpenCall, ended
from tabane.upstreams.call import UpstreamReply
from tabane.wire import json
from tabane.wire.json import Members

log = logging.getLogger(__name__)

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
        with ended(opened):
            if opened.waits is not None:
                await opened.waits
            if session.questions and session.questions.roots_due and self._gateway.goes_by_roots(server):
                await session.questions.learn_roots()
            upstream = self._gateway.instance_for(session.caller, server)
            session.no_longer_runs(request_id)
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
        """Record the answer, then give it."""
        size = len(reply.result or b"")
        try:
            recorded = self._opened.end("failed" if reply.result is None else "ok", size)
        except TabaneError as error:  # it cannot be recorded, and so not given
            self._session.fail(self._key, error)
            return
        if recorded is None and size <= LARGE:
            self._give(reply, self._line(reply))
        else:
            self._session.prepare(self._key, size, self._give_later(reply, recorded))

    async def _give_later(self, reply: UpstreamReply, recorded: Awaitable[None] | None) -> None:
        if recorded is not None:
            await recorded
        line = await asyncio.to_thread(self._line, reply)
        self._session.no_longer_runs(Raw(self._key))
        self._give(reply, line)

    def _line(self, reply: UpstreamReply) -> bytes | None:
        if reply.result is None:
            return json.error_line(self._key, reply.error or b"null")
        return answer_line(self._key, self._session.era, reply.era, reply.result)

    def _give(self, reply: UpstreamReply, line: bytes | None) -> None:
        if reply.failure is not None:
            self._session.fail(self._key, reply.failure)
        elif line is None:
            note_question(self._session.caller.server)
            self._session.fail(self._key, question_of(self._method))
        else:
            self._session.give(self._key, line, ok=reply.result is not None)

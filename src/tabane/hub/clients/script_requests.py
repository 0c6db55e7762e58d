"""Requests of run_script: progress of calls, and questions about them while the script goes on.

A client of the handshake era is asked during its request. A modern one gets ``input_required``: its script
keeps its process, and waits for the request that repeats the first one with the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from tabane.access.approvals.approvals import LIFE
from tabane.code.table import RUN
from tabane.errors import CallerError
from tabane.hub.clients.session import Session
from tabane.hub.questions.handles import APPROVAL, RepeatedAnswer
from tabane.hub.scripts import HubScripts
from tabane.messages import say
from tabane.operations import Caller, Door
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import Members
from tabane.wire.questions import Question


class ScriptRequest:
    """A script of a client: the request that it answers now, and what it asks.

    ``script`` is its id, which keeps its questions apart from those of others.
    """

    def __init__(self, session: Session, key: bytes, meta: Members) -> None:
        self._turn = asyncio.Lock()
        self._open: tuple[str, asyncio.Future[RepeatedAnswer]] | None = None
        self.asks: asyncio.Future[tuple[str, Question]] = _future()
        self.running: asyncio.Future[bytes] = _future()
        self.script = ""
        self.follow(session, key, meta)

    def follow(self, session: Session, key: bytes, meta: Members) -> None:
        """Answer this request from now on."""
        self._session, self._key = session, key
        self._token = meta.get("progressToken")

    def progressed(self, ended: int, tool: str) -> None:
        """Tell the client that a call has ended, if it asked for progress."""
        if self._token is None or self.asks.done():
            return
        note = json.encode({"progress": ended, "message": tool})
        params = Raw(json.join({**json.fields(note), "progressToken": self._token}))
        self._session.tell(json.notification_line("notifications/progress", params), self._key)

    async def ask(self, approval: str) -> bool:
        """Ask the client's user, and return when somebody has decided; False if that is not possible."""
        if self._session.era is not Era.MODERN:
            return await self._session.approvals.ask_within(self._key, approval)
        async with self._turn:  # one question at a time: a request has one answer
            return await self._ask_to_repeat(approval)

    async def _ask_to_repeat(self, approval: str) -> bool:
        approvals = self._session.approvals
        question = await approvals.question_within(approval)
        if question is None:
            return False
        about, answer = f"{APPROVAL}{approval}-{self.script}", _future()
        self._open = about, answer
        if self.asks.done():  # the question before was decided elsewhere, and nobody has repeated its request
            self.asks = _future()
        self.asks.set_result((about, question))
        try:
            await approvals.answered_within(approval, answer)
        finally:
            self._open = None
        return True

    def resume(self, answer: RepeatedAnswer) -> None:
        """Go on with the answer of the client's user, if its question is still open.

        If another question is open by now, the client gets that one.
        """
        if self._open is None:
            self.asks = _future()
        elif self._open[0] == answer.about and not self._open[1].done():
            self.asks = _future()
            self._open[1].set_result(answer)

    async def stopped(self) -> tuple[str, Question] | None:
        """Return what the script asks, and what it is about; None if it has ended."""
        await asyncio.wait((self.running, self.asks), return_when=asyncio.FIRST_COMPLETED)
        return None if self.running.done() else self.asks.result()


class ScriptRequests:
    """Runs the scripts of clients, and keeps those that wait for the answer of a modern one."""

    def __init__(self, scripts: HubScripts, door: Door) -> None:
        self._scripts, self._door = scripts, door
        self._waiting: dict[str, ScriptRequest] = {}

    async def answer(
        self,
        session: Session,
        key: bytes,
        caller: Caller,
        arguments: Raw,
        meta: Members,
        render: Callable[[Any], bytes],
    ) -> bytes:
        """Return the result of a script, or the question that it asks. Raises TabaneError."""
        kept = session.requests.get(key)
        if kept is not None and kept.answer is not None:
            request = self._resumed(kept.answer, session, key, meta)
        else:
            request = ScriptRequest(session, key, meta)
            request.running = asyncio.ensure_future(self._run(request, caller, arguments, render))
        try:
            question = await request.stopped()
        except asyncio.CancelledError:
            request.running.cancel()
            raise
        if question is None or kept is None:
            return await request.running
        about, asked = question
        self._waiting[about] = request
        asyncio.get_running_loop().call_later(LIFE, self._waiting.pop, about, None)
        return bytes(session.requests.asking(kept, asked, about))

    def _resumed(self, answer: RepeatedAnswer, session: Session, key: bytes, meta: Members) -> ScriptRequest:
        """Return the script that waits for an answer. It never starts again: its calls were made."""
        request = self._waiting.pop(answer.about, None)
        if request is None:
            raise CallerError(
                say("The script that asked this does not wait any more. Run it again as a new request.")
            )
        request.follow(session, key, meta)
        request.resume(answer)
        return request

    async def _run(
        self, request: ScriptRequest, caller: Caller, arguments: Raw, render: Callable[[Any], bytes]
    ) -> bytes:
        with self._scripts.followed(caller, request) as by:
            request.script = by.script
            return await self._door.respond(by, RUN, arguments, render, request=caller.request)


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()

"""Requests of run_script: progress of calls, and questions about them.

A client of the handshake era is asked during its request. A modern one gets ``input_required``: its script is
a snapshot then, which the request that repeats the first one with the answer goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.catalog.long_results import LongResults
from tabane.catalog.result_parts import SHORT
from tabane.code.table import RUN
from tabane.errors import CallerError
from tabane.hub.clients.questions.handles import APPROVAL, RepeatedAnswer
from tabane.hub.clients.repeatable_requests import RepeatableRequest
from tabane.hub.clients.session import Session
from tabane.hub.work.scripts import HubScripts, ScriptPaused
from tabane.messages import say
from tabane.operations import Caller, Door
from tabane.settings import Settings
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import Members

if TYPE_CHECKING:
    from tabane.code.scripts import ScriptReport
    from tabane.code.snapshots import ScriptSnapshot
    from tabane.upstreams.call import ServerRequest


class ScriptRequest:
    """A request of run_script, whose client is told of each call, and asked about some."""

    __slots__ = ("_key", "_session", "_token")

    def __init__(self, session: Session, key: bytes, meta: Members) -> None:
        self._session, self._key = session, key
        self._token = meta.get("progressToken")

    def progressed(self, ended: int, tool: str) -> None:
        """Tell the client that a call has ended, if it asked for progress."""
        if self._token is None:
            return
        note = json.encode({"progress": ended, "message": tool})
        params = Raw(json.join({**json.fields(note), "progressToken": self._token}))
        self._session.tell(json.notification_line("notifications/progress", params), self._key)

    def question(self, server: str, name: str, request: ServerRequest) -> bool:
        """Put a question of a server. Return whether the client can be asked."""
        questions = self._session.questions
        return questions is not None and questions.ask(self._key, server, name, request)

    def asks_later(self) -> bool:
        """Return whether the client is asked at the end of this request."""
        session = self._session
        if session.era is not Era.MODERN or session.requests.get(self._key) is None:
            return False
        return session.approvals.asks_by_result()

    async def ask(self, approval: str) -> bool:
        """Ask the client's user, and return when somebody has decided; False if that is not possible."""
        return await self._session.approvals.ask_within(self._key, approval)


class ScriptRequests:
    """Runs the scripts of clients. Those of modern ones go on with the answers to their questions."""

    def __init__(
        self, scripts: HubScripts, door: Door, long_results: LongResults, settings: Callable[[], Settings]
    ) -> None:
        self._scripts, self._door = scripts, door
        self._long_results, self._settings = long_results, settings

    async def answer(
        self,
        session: Session,
        key: bytes,
        caller: Caller,
        arguments: Raw,
        meta: Members,
        render: Callable[[Any], bytes],
        reports: Sequence[ScriptReport],
    ) -> bytes:
        """Return the result of a script or its first part, or the question that it asks. Raises TabaneError.

        ``reports`` has the script's own after ``render``.
        """
        kept, snapshot = session.requests.get(key), None
        if kept is not None and kept.answer is None and "requestState" in kept.params:
            raise _gone()  # it never begins again: its calls were made
        if kept is not None and (answer := kept.answer) is not None:
            kept.answer = None
            snapshot = await self._waiting(answer, caller)
            await session.approvals.decide_later(_approval_of(answer), answer)
            if answer.action in ("accept", "decline"):
                for call in snapshot.run.asked:
                    if not await self._scripts.is_decided(call.approval):
                        return await self._question(session, kept, snapshot.script, call.approval)
            if not self._scripts.paused.take(snapshot.script):
                raise _gone()
        client = ScriptRequest(session, key, meta)
        try:
            with self._scripts.followed(caller, client, snapshot) as by:
                result = await self._door.respond(by, RUN, arguments, render, request=caller.request)
                return await self._result(by, Raw(result), reports)
        except ScriptPaused as paused:
            if kept is None:
                raise _gone() from None
            return await self._question(session, kept, paused.script, paused.approval)

    async def _result(self, caller: Caller, result: Raw, reports: Sequence[ScriptReport]) -> bytes:
        """Return the result of a script, or its first part."""
        value = None
        if len(result) > SHORT and reports and reports[0].output and not reports[0].error:
            value = object_or_list(reports[0].value)
        origins, tokens = self._scripts.origins(caller.script), self._settings().result_tokens
        given = await self._long_results.first_part_of_large(caller, result, tokens, origins, value=value)
        return bytes(given)

    async def _waiting(self, answer: RepeatedAnswer, caller: Caller) -> ScriptSnapshot:
        """Return the script that waits for an answer. Raises CallerError."""
        _, found, script = answer.about.removeprefix(APPROVAL).partition("-")
        if not answer.about.startswith(APPROVAL) or not found:
            raise _gone()
        return await self._scripts.waiting(script, caller.access.holder)

    async def _question(self, session: Session, kept: RepeatableRequest, script: str, approval: str) -> bytes:
        question = await session.approvals.question_later(approval)
        return bytes(session.requests.asking(kept, question, f"{APPROVAL}{approval}-{script}"))


def object_or_list(value: Raw) -> bytes | None:
    """Return JSON that is an object or list; None for any other value."""
    return bytes(value) if bytes(memoryview(value)[:1]) in (b"{", b"[") else None


def _approval_of(answer: RepeatedAnswer) -> str:
    return answer.about.removeprefix(APPROVAL).partition("-")[0]


def _gone() -> CallerError:
    return CallerError(
        say("The script that asked this does not wait any more. Run it again as a new request.")
    )

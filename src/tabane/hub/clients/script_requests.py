"""Requests of run_script: a client is told of its calls, and asked about some; a modern one goes on later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.catalog.long_results import LongResults
from tabane.catalog.result_parts import SHORT
from tabane.code.table import RUN
from tabane.errors import ApprovalRefused, ApprovalRequired, CallerError
from tabane.guard.approvals.approvals import approval_required
from tabane.hub.clients.asking import RepeatableRequest
from tabane.hub.clients.client_questions import CannotAsk
from tabane.hub.clients.matters import ApprovalMatter, approval_question
from tabane.hub.clients.questions.parked_files import APPROVAL, RepeatedAnswer
from tabane.hub.work.scripts import HubScripts, ScriptPaused
from tabane.messages import say
from tabane.operations import Caller, Door
from tabane.settings import Settings
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import Members

if TYPE_CHECKING:
    from tabane.code.sandbox import ScriptSnapshot
    from tabane.code.scripts import ScriptReport
    from tabane.guard.approvals.approvals import Approval
    from tabane.hub.clients.session import Session
    from tabane.upstreams.call import ServerRequest


class ScriptRequest:
    """A request of run_script, whose client is told of each call, and asked about some."""

    def __init__(self, session: Session, key: bytes, meta: Members) -> None:
        self._session, self._key, self._meta = session, key, meta

    def progressed(self, ended: int, tool: str) -> None:
        """Tell the client that a call has ended, if it asked for progress."""
        self._session.asking.tell_progress(self._key, self._meta, json.encode(ended), tool)

    def question(self, server: str, name: str, request: ServerRequest) -> bool:
        """Put a question of a server. Return whether the client can be asked."""
        questions = self._session.questions
        return questions is not None and questions.ask(self._key, server, name, request)

    def asks_later(self) -> bool:
        """Return whether the client is asked at the end of this request."""
        modern = self._session.era is Era.MODERN and "form" in self._session.features
        return modern and self.kept is not None and self._may_approve

    async def ask(self, approval: str) -> bool:
        """Ask the client's user, and return when somebody has decided; False if that is not possible."""
        kept, matter = self.kept, self._matter(await self._approval(approval))
        if kept is None:
            return False
        try:
            with suppress(ApprovalRequired, ApprovalRefused):  # tried again, it says so
                await self._session.asking.ask_within(self._key, kept, matter, await matter.question())
        except CannotAsk:
            return False
        return True

    async def put(self, kept: RepeatableRequest, script: str, approval: str) -> bytes:
        """Return the result that asks a modern client about a call of a script that waits."""
        guards, lang = self._session.asking.guards, self._session.caller.lang
        question = await approval_question(guards, await self._approval(approval), lang)
        return self._session.asking.ask_by_result(kept, question, f"{APPROVAL}{approval}-{script}")

    async def decide(self, id: str, answer: RepeatedAnswer) -> None:
        """Note the answer to such a question, unless somebody else has decided meanwhile."""
        approval = await self._approval(id)
        if approval.state == "open":
            with suppress(ApprovalRequired):  # canceled, or it does not count: nobody has decided
                await self._matter(approval).take(answer.action, answer.values)

    @property
    def kept(self) -> RepeatableRequest | None:
        """Return the request; None if it was answered or canceled."""
        return self._session.asking.kept.get(self._key)

    @property
    def _may_approve(self) -> bool:
        return self._session.asking.guards.through_client(self._session.caller)

    async def _approval(self, id: str) -> Approval:
        return (await self._session.asking.guards.desk().approvals()).find(id)

    def _matter(self, approval: Approval) -> ApprovalMatter:
        return ApprovalMatter(self._session, self._session.asking.guards, approval_required(approval))


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
        client, snapshot = ScriptRequest(session, key, meta), None
        kept = client.kept
        if kept is not None and kept.answer is None and "requestState" in kept.params:
            raise _script_is_gone()  # it never begins again: its calls were made
        if kept is not None and (answer := kept.answer) is not None:
            kept.answer = None
            snapshot = await self._answered(client, answer, caller.access.holder)
            if answer.action in ("accept", "decline"):
                for call in snapshot.run.asked:
                    if not await self._scripts.is_decided(call.approval):
                        return await client.put(kept, snapshot.script, call.approval)
            if not self._scripts.paused().take(snapshot.script):
                raise _script_is_gone()
        try:
            with self._scripts.followed(caller, client, snapshot) as by:
                result = await self._door.respond(by, RUN, arguments, render, request=caller.request)
                return await self._result(by, Raw(result), reports)
        except ScriptPaused as paused:
            if kept is None:
                raise _script_is_gone() from None
            return await client.put(kept, paused.script, paused.approval)

    async def _answered(self, client: ScriptRequest, answer: RepeatedAnswer, holder: str) -> ScriptSnapshot:
        """Note an answer about a call of a script, and return the script. Raises CallerError."""
        approval, dash, script = answer.about.removeprefix(APPROVAL).partition("-")
        if not answer.about.startswith(APPROVAL) or not dash:
            raise _script_is_gone()
        snapshot = await self._scripts.waiting(script, holder)
        await client.decide(approval, answer)
        return snapshot

    async def _result(self, caller: Caller, result: Raw, reports: Sequence[ScriptReport]) -> bytes:
        """Return the result of a script, or its first part."""
        value = None
        if len(result) > SHORT and reports and reports[0].output and not reports[0].error:
            value = object_or_list(reports[0].value)
        origins, tokens = self._scripts.origins(caller.script), self._settings().result_tokens
        first_part = await self._long_results.first_part_of_large(
            caller, result, tokens, origins, value=value
        )
        return bytes(first_part)


def object_or_list(value: Raw) -> bytes | None:
    """Return JSON that is an object or list; None for any other value."""
    return bytes(value) if bytes(memoryview(value)[:1]) in (b"{", b"[") else None


def _script_is_gone() -> CallerError:
    return CallerError(
        say("The script that asked this does not wait any more. Run it again as a new request.")
    )

"""Requests that a person has to approve first: the client's own user is asked, if the client can do that.

Whoever cannot be asked gets a text that says what to do, after a while in which somebody may approve the call
on the web page or in a terminal. Whichever answer comes first counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.errors import ApprovalRefused, ApprovalRequired, TabaneError
from tabane.guard.approvals.approvals import LIFE, Approval, refusal
from tabane.hub.clients.client_questions import CannotAsk
from tabane.hub.clients.questions.parked_files import APPROVAL, RepeatedAnswer
from tabane.hub.clients.repeatable_requests import (
    MOST_ROUNDS,
    SIGN,
    RepeatableRequest,
    RepeatableRequests,
    action_of,
)
from tabane.hub.people.approvals.desk import approval_required
from tabane.messages import say
from tabane.upstreams.call import UpstreamReply
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import Members
from tabane.wire.questions import Question

if TYPE_CHECKING:
    from tabane.hub.people.guards import HubGuards

LONGEST_SHOWN = 2000
"""Characters of arguments in a question to a client. Its dialog may be small."""

WAY = "elicitation"


class ApprovalRequests:
    """The requests of one client that turned out to need an approval."""

    __slots__ = ("_guards", "_requests", "_session")

    def __init__(self, requests: RepeatableRequests, guards: HubGuards) -> None:
        self._requests, self._guards = requests, guards
        self._session = requests.session

    def takes(self, request_id: Raw | bytes, error: ApprovalRequired | ApprovalRefused) -> bool:
        """Take a request that was not sent. Return whether it will be answered here."""
        kept = self._requests.get(bytes(request_id))
        if kept is None:
            return False
        if isinstance(error, ApprovalRefused) or kept.approvals >= MOST_ROUNDS:
            self._requests.fail(request_id, kept, error)
            return True
        kept.approvals += 1
        self._session.run(Raw(request_id), self._answer_request(Raw(request_id), kept, error))
        return True

    async def _answer_request(
        self, request_id: Raw, kept: RepeatableRequest, error: ApprovalRequired
    ) -> None:
        """Answer a request with a question or a text, or make it once it was approved."""
        self._requests.hold(request_id)
        try:
            asked = await self._approve(bytes(request_id), kept, error)
        except TabaneError as refused:
            self._requests.fail(request_id, kept, refused)
            return
        if asked is not None:
            self._session.answer(request_id, bytes(asked))
            return
        await self._requests.begin(request_id)
        self._requests.again(request_id, kept)

    async def _approve(self, key: bytes, kept: RepeatableRequest, error: ApprovalRequired) -> Raw | None:
        """Return when the request was approved, or the question for a modern client.

        Raises ``error`` if nobody has decided, and Forbidden if somebody has refused.
        """
        about = APPROVAL + error.approval
        if kept.answer is not None and kept.answer.about == about:
            answer, kept.answer = kept.answer, None
            await self._decide(error, *_action_and_values(answer))
            return None
        approval = (await self._guards.desk().approvals()).find(error.approval)
        if not self._guards.through_client(self._session.caller):
            await self._wait_for_approval(key, kept, error, self._guards.desk().wait(self._session.caller))
            return None
        if self._session.era is Era.MODERN and "form" in self._session.features:
            return self._requests.asking(kept, self._approval_question(approval), about)
        try:
            await self._ask_legacy_client(key, kept, error, approval)
        except CannotAsk:
            await self._wait_for_approval(key, kept, error, self._guards.desk().wait(self._session.caller))
        return None

    async def ask_within(self, key: bytes, id: str) -> bool:
        """Ask a client of the handshake era about a call that a request makes while it runs.

        Return when somebody has decided, and False if the client cannot ask its user.
        """
        kept = self._requests.get(key)
        approval = (await self._guards.desk().approvals()).find(id)
        if kept is None or not self._guards.through_client(self._session.caller):
            return False
        try:
            with contextlib.suppress(ApprovalRequired, ApprovalRefused):  # tried again, it says so
                await self._ask_legacy_client(key, kept, approval_required(approval), approval)
        except CannotAsk:
            return False
        return True

    def asks_by_result(self) -> bool:
        """Return whether the client is asked with the result of its request, which it makes again then."""
        modern = self._session.era is Era.MODERN and "form" in self._session.features
        return modern and self._guards.through_client(self._session.caller)

    async def question_later(self, id: str) -> Question:
        """Return the question for a modern client about a call of a script."""
        return self._approval_question((await self._guards.desk().approvals()).find(id))

    async def decide_later(self, id: str, answer: RepeatedAnswer) -> None:
        """Note the answer to such a question, unless somebody else has decided meanwhile."""
        desk = self._guards.desk()
        approval = (await desk.approvals()).find(id)
        if approval.state == "open" and self._guards.through_client(self._session.caller):
            with contextlib.suppress(ApprovalRequired):  # canceled: nobody has decided
                await self._decide(approval_required(approval), *_action_and_values(answer))

    async def _ask_legacy_client(
        self, key: bytes, kept: RepeatableRequest, error: ApprovalRequired, approval: Approval
    ) -> None:
        """Ask a client of the handshake era, and wait until it or anybody else has decided.

        Raises CannotAsk, and the errors of :meth:`_approve`.
        """
        server = approval.binding.server
        answer, withdraw = self._requests.put(
            key, kept, server, self._approval_question(approval), listed=False
        )
        waiting = asyncio.ensure_future(self._wait_for_approval(key, kept, error, LIFE))
        try:
            await asyncio.wait((answer, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await self._decide(error, *action_of(answer.result()))
            await waiting
        finally:
            waiting.cancel()
            withdraw("it was decided elsewhere")

    async def _wait_for_approval(
        self, key: bytes, kept: RepeatableRequest, error: ApprovalRequired, seconds: float
    ) -> None:
        """Wait until the request was approved. Raises the errors of :meth:`_approve`."""
        loop, desk, count = asyncio.get_running_loop(), self._guards.desk(), 0
        end = loop.time() + seconds
        while (approval := await desk.decided(error.approval, min(end - loop.time(), SIGN))).state == "open":
            if loop.time() >= end:
                raise error
            count += 1
            said = say("Waiting until a person approves the call: tabane approve {id}", id=approval.id)
            self._requests.tell_progress(key, kept.meta, said, count)
        if approval.state != "approved":
            raise refusal(approval)

    async def _decide(self, error: ApprovalRequired, action: str, content: Members) -> None:
        """Note what the client's user has chosen. Raises ``error`` if that is nothing."""
        if action not in ("accept", "decline"):
            raise error
        await self._guards.desk().decide(
            error.approval,
            approved=action == "accept",
            by=self._session.caller.access.holder,
            way=WAY,
            remember=bytes(content.get("remember", b"")) == b"true",
        )

    def _approval_question(self, approval: Approval) -> Question:
        """Return the question for the client's user: accept is to approve."""
        lang = self._session.caller.lang
        reasons = "\n".join(reason.message.render(lang) for reason in approval.reasons)
        cut = len(approval.arguments) > LONGEST_SHOWN or approval.arguments_size > 0
        shown = approval.arguments[:LONGEST_SHOWN] + ("…" if cut else "")
        message = say(
            "Approve this call of {tool}?\n{reasons}\nArguments: {arguments}",
            tool=approval.binding.tool, reasons=reasons, arguments=shown).render(lang)  # fmt: skip
        remember = {
            "type": "boolean",
            "title": say("Allow this for later calls too").render(lang),
            "description": ", ".join(approval.pairs),
            "default": False,
        }
        schema = {"type": "object", "properties": {"remember": remember} if approval.pairs else {}}
        return Question("form", json.encode({"message": message, "requestedSchema": schema}))


def _action_and_values(answer: RepeatedAnswer) -> tuple[str, Members]:
    """Return the action that a modern client's user chose, and the values of the form."""
    reply = json.join({"action": Raw(json.quote(answer.action)), "content": Raw(answer.content)})
    return action_of(UpstreamReply(result=Raw(reply)))

"""Matters that need an answer of a user: logins at servers, and approvals of calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabane.catalog.lookup import START_LOGIN
from tabane.errors import ApprovalRequired, LoginRequired, TabaneError
from tabane.guard.approvals.approvals import LIFE, Approval, refusal
from tabane.guard.approvals.letter import IN_DIALOG, letter_text
from tabane.hub.clients.client_questions import CannotAsk, SessionClient
from tabane.hub.clients.questions.parked_files import APPROVAL, LOGIN
from tabane.messages import Lang, Message, say
from tabane.operations import LOCAL
from tabane.wire import json
from tabane.wire.json import Members
from tabane.wire.questions import Question

if TYPE_CHECKING:
    from tabane.catalog.gateway import Gateway
    from tabane.hub.people.guards import HubGuards
    from tabane.upstreams.logins.logins import ServerLogins

log = logging.getLogger(__name__)

COLUMNS = 76
"""Columns of lines with arguments in a question to a client. Its dialog may be small."""

WAY = "elicitation"


class ApprovalMatter:
    """The approval of a call by the client's own user.

    The question is not listed: whoever may approve on the page finds the approval itself there.
    """

    kind, server, seconds, listed, held = "approval", "", LIFE, False, True

    def __init__(self, session: SessionClient, guards: HubGuards, error: ApprovalRequired) -> None:
        self._session, self._guards, self._id = session, guards, error.approval
        self.error: TabaneError = error
        self.late: TabaneError = error
        self.about = APPROVAL + self._id
        self.progress = say("Waiting until a person approves the call: tabane approve {id}", id=self._id)

    async def question(self) -> Question:
        """Return the question to the client's user. Raises CannotAsk if that one may not approve calls."""
        approval = (await self._guards.desk().approvals()).find(self._id)
        if not self._guards.through_client(self._session.caller):
            raise CannotAsk("an answer of this client is no approval")
        return await approval_question(self._guards, approval, self._session.caller.lang)

    async def take(self, action: str, values: Members) -> None:
        """Note what the client's user has chosen. Raises ApprovalRequired if that does not count.

        What was asked a while ago counts only if its user may still approve calls.
        """
        if action not in ("accept", "decline") or not self._guards.through_client(self._session.caller):
            raise self.error
        await self._guards.desk().decide(
            self._id,
            approved=action == "accept",
            by=self._session.caller.access.holder,
            way=WAY,
            remember=bytes(values.get("remember", b"")) == b"true",
        )

    async def ended(self, seconds: float) -> bool | None:
        """Wait for a decision. Return None if nobody has decided. Raises ApprovalRefused."""
        approval = await self._guards.desk().decided(self._id, seconds)
        if approval.state not in ("open", "approved"):
            raise refusal(approval)
        return approval.state == "approved" or None

    def elsewhere(self) -> float:
        """Return how long a call waits for a person on the page or in a terminal."""
        return self._guards.desk().wait(self._session.caller)


async def approval_question(guards: HubGuards, approval: Approval, lang: Lang) -> Question:
    """Return the question whether to approve a call: accept is to approve."""
    letter, _ = await asyncio.to_thread(guards.desk().letter, approval, lang, IN_DIALOG)
    message = say("Approve this call of {tool}?", tool=approval.binding.tool).render(lang)
    message += "\n\n" + letter_text(letter, lang, COLUMNS)
    if not letter.whole:
        message += "\n\n" + say("To read all of it: tabane approve {id} --show", id=approval.id).render(lang)
    remember = {
        "type": "boolean",
        "title": say("Allow this for later calls too").render(lang),
        "description": " ".join(letter.remember),
        "default": False,
    }
    schema = {"type": "object", "properties": {"remember": remember} if approval.pairs else {}}
    return Question("form", json.encode({"message": message, "requestedSchema": schema}))


LONGEST = 600.0
"""Seconds that a request waits for a login."""

FIRST_PART = 20.0
"""Seconds that the authorization server has to begin a login."""


def may_log_in(session: SessionClient) -> bool:
    """Return whether the client's user may begin logins, which are those of the whole hub."""
    return session.caller.access.allows(START_LOGIN)


class LoginMatter:
    """A login at a server: the client is asked to open its page."""

    kind, about, seconds, listed, held = "login", LOGIN, LONGEST, True, False

    def __init__(
        self, session: SessionClient, gateway: Gateway, logins: ServerLogins, error: LoginRequired
    ) -> None:
        self._session, self._gateway, self._logins = session, gateway, logins
        self.server, self._why = error.server, error.why
        self.error: TabaneError = error
        self.late: TabaneError = _login_failure(self.server, say("nobody finished it in time"))
        self.progress = say("Waiting for the login at {server!n}", server=self.server)
        self._begun: Mapping[str, Any] = {}

    async def question(self) -> Question | None:
        """Begin a login, or join the one that waits. Return None for a client that acts for itself.

        Raises LoginRequired if no login can begin.
        """
        server = self._gateway.server(self.server)
        here = self._session.caller.access.holder == LOCAL.holder
        try:
            async with asyncio.timeout(FIRST_PART):
                begun = await self._logins.start(server, None, "local" if here else "hub", joins=True)
        except (TabaneError, TimeoutError) as why:
            log.info("%s: its login could not be begun for a call: %s", self.server, why)
            raise self.error from None
        self._begun, page = begun, _page_of(begun)
        if page is None:
            return None
        if not isinstance(page, str) or not page.startswith(("https://", "http://")):
            raise self.error
        message = _login_message(self.server, self._why, begun).render(self._session.caller.lang)
        # The id of the login, with that of the session.
        name = f"login-{self._session.key}-{begun['id']}"
        asked = {"mode": "url", "message": message, "url": page, "elicitationId": name}
        return Question("url", json.encode(asked))

    async def take(self, action: str, values: Members) -> None:
        """Raise LoginRequired if the user does not want to log in."""
        if action != "accept":
            raise self.error

    async def ended(self, seconds: float) -> bool | None:
        """Wait until no login at the server waits any more. Return whether the user is logged in.

        The login may also end by another client, or at the command line. Raises LoginRequired if it failed.
        """
        attempt = self._logins.attempts.of(self.server)
        if attempt is not None and attempt.waits and seconds > 0:
            await self._logins.wait(self._gateway.server(self.server), seconds)
            attempt = self._logins.attempts.of(self.server)
        if attempt is not None and attempt.waits:
            return None
        if attempt is not None and attempt.state == "failed":
            raise _login_failure(self.server, attempt.reason or say("it was given up"))
        return self._logins.needed(self.server) is None

    def elsewhere(self) -> float:
        """Raise LoginRequired: the text for a client that cannot be asked has the address of the page."""
        problem, url = self.error.message, _page_of(self._begun)
        code = self._begun.get("user_code")
        if isinstance(code, str):
            text = say(
                "{problem}\nOr open this page, enter the code {code}, log in, and call again: {url}",
                problem=problem, code=code, url=url)  # fmt: skip
        else:
            text = say(
                "{problem}\nOr open this page, log in, and call again: {url}", problem=problem, url=url
            )
        raise LoginRequired(text, self.server)


def _page_of(begun: Mapping[str, Any]) -> Any:
    return begun.get("url") or begun.get("verification_url")


def _login_message(server: str, why: Message | None, begun: Mapping[str, Any]) -> Message:
    """Return the text that asks the user to log in."""
    needed = (
        say("{server!n} requires a new login: {why}.", server=server, why=why)
        if why
        else say("{server!n} requires a login.", server=server)
    )
    code = begun.get("user_code")
    if isinstance(code, str):
        return say(
            "{needed} Open the page, enter the code {code}, and log in. The call then continues.",
            needed=needed, code=code)  # fmt: skip
    return say("{needed} Open the page and log in. The call then continues.", needed=needed)


def _login_failure(server: str, why: Message) -> LoginRequired:
    """Return the error of a request whose login has failed."""
    text = say(
        "The login at {server!n} failed: {why}. Run: tabane servers login {server!c}",
        server=server, why=why)  # fmt: skip
    return LoginRequired(text, server)

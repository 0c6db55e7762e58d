"""Requests about which the hub itself may ask their user, and that are made again then.

A client of the handshake era is asked during its request. A modern one gets ``input_required``, and repeats
its request with the answer. A request that a server answers only after a login is one of these: the client is
asked to open the page of the login. Approvals are the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Raw, Struct

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import START_LOGIN
from tabane.catalog.tools.tool import tool_failure
from tabane.errors import LoginRequired, TabaneError
from tabane.hub.clients.client_questions import CannotAsk, SessionClient
from tabane.hub.clients.questions.parked_files import LOGIN, CallBinding, RepeatedAnswer, digest_of
from tabane.hub.clients.questions.parking import HubQuestions, ParkedCalls
from tabane.messages import Message, say
from tabane.operations import LOCAL
from tabane.servers.server import Server
from tabane.upstreams.call import UpstreamReply
from tabane.upstreams.logins.logins import ServerLogins
from tabane.upstreams.server_requests import COMPLETE
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.questions import Question

log = logging.getLogger(__name__)

REPEATABLE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that are made again."""

LOOK = 0.01
"""Seconds between two looks whether a bridge has got all that was sent to it."""

SIGN = 10.0
"""Seconds between two messages of progress."""

MOST_ROUNDS = 3
"""Times that the hub asks about one request for the same reason. More would be a fault."""


RequestHandler = Callable[[Members, Members], Coroutine[Any, Any, None] | None]
"""Takes parameters and ``_meta`` of a request; returns a coroutine if answering takes a while."""


class RepeatableRequest(Struct):
    """A request that has not been answered, and its handler, with which it can be made once more.

    ``answer`` is what its user has answered, if the request came with that. ``rounds`` counts logins that
    were asked for, ``approvals`` approvals.
    """

    method: str
    params: Members
    meta: Members
    handler: RequestHandler
    answer: RepeatedAnswer | None = None
    rounds: int = 0
    approvals: int = 0

    def again(self) -> Coroutine[Any, Any, None] | None:
        """Make the request once more. Return a coroutine if answering takes a while."""
        return self.handler(self.params, self.meta)

    @property
    def name(self) -> str:
        """Return the name or URI in the request, as the client wrote it."""
        return json.text(self.params.get("name")) or json.text(self.params.get("uri")) or ""


class RepeatableRequests:
    """The requests of one client that are not answered yet."""

    __slots__ = ("_parked", "kept", "session")

    def __init__(self, session: SessionClient, parked: ParkedCalls) -> None:
        self.session, self._parked = session, parked
        self.kept: dict[bytes, RepeatableRequest] = {}

    def begun(
        self,
        request_id: Raw,
        method: str,
        params: Members,
        meta: Members,
        handler: RequestHandler,
    ) -> Members:
        """Keep a request until it is answered, and return its parameters for ``handler``.

        Raises ProtocolRefusal if it answers a question of the hub that is not open any more.
        """
        answer = None
        if "requestState" in params and self.session.era is Era.MODERN:
            answer = self._parked.answered(params, self._binding(method, params))
        if answer is not None:
            params = {key: params[key] for key in params if key not in ("requestState", "inputResponses")}
        self.kept[bytes(request_id)] = RepeatableRequest(method, params, meta, handler, answer)
        return params

    def get(self, key: bytes) -> RepeatableRequest | None:
        """Return a request that is not answered yet; None if there is none with that id."""
        return self.kept.get(key)

    def over(self, key: bytes) -> None:
        """Forget a request that was answered or canceled."""
        self.kept.pop(key, None)

    def clear(self) -> None:
        """Forget all requests: the client is gone."""
        self.kept.clear()

    def again(self, request_id: Raw, kept: RepeatableRequest) -> None:
        """Make a request once more."""
        self.session.no_longer_runs(request_id)
        later = kept.again()
        if later is not None:
            self.session.run(request_id, later)

    def hold(self, request_id: Raw) -> None:
        """Note that a request waits for a person, and that a hub that is lost meanwhile has not sent it."""
        self.session.outlet.hold(bytes(request_id), held=True)

    async def begin(self, request_id: Raw) -> None:
        """Note that a request is sent from now on. At the return, a bridge knows it, whatever happens."""
        outlet = self.session.outlet
        is_bridge = outlet.hold(bytes(request_id), held=False)
        while is_bridge and outlet.unsent and not outlet.closed:  # noqa: ASYNC110  (a channel sends no notice)
            await asyncio.sleep(LOOK)

    def fail(self, request_id: Raw | bytes, kept: RepeatableRequest, error: TabaneError) -> None:
        """Answer with a text: for a tool as its result, so that the model reads it."""
        self.over(bytes(request_id))
        if kept.method == "tools/call":
            self.session.answer(Raw(request_id), tool_failure(error, self.session.caller.lang))
        else:
            self.session.fail(request_id, error)

    def asking(self, kept: RepeatableRequest, question: Question, about: str) -> Raw:
        """Return the result that asks a modern client, which then makes its request again."""
        binding = self._binding(kept.method, kept.params)
        return self._parked.ask_to_repeat({about.partition("-")[0]: question}, binding, about)

    def put(
        self, key: bytes, kept: RepeatableRequest, server: str, question: Question, *, listed: bool = True
    ) -> tuple[asyncio.Future[UpstreamReply], Callable[[str], None]]:
        """Ask a client of the handshake era. Return its answer, and what withdraws the question.

        Raises CannotAsk.
        """
        questions = self.session.questions
        if questions is None or question.kind not in questions.features:
            raise CannotAsk("the client has not declared that it can ask its user")
        answer: asyncio.Future[UpstreamReply] = asyncio.get_running_loop().create_future()

        def answered(reply: UpstreamReply) -> None:
            if not answer.done():
                answer.set_result(reply)

        name = kept.name or kept.method
        return answer, questions.put(key, server, name, question, answered, listed=listed)

    def tell_progress(self, key: bytes, meta: Members, said: Message, count: int) -> None:
        """Tell a client that waits for its user, if it asked for progress."""
        token = meta.get("progressToken")
        if token is None:
            return
        # The server's own progress follows, and has to be larger.
        note = {"progress": count / 1e6, "message": said.render(self.session.caller.lang)}
        params = Raw(json.join({**json.fields(json.encode(note)), "progressToken": token}))
        self.session.tell(json.notification_line("notifications/progress", params), key)

    def _binding(self, method: str, params: Members) -> CallBinding:
        holder = self.session.caller.access.holder
        name = json.text(params.get("name")) or json.text(params.get("uri")) or ""
        return CallBinding(holder, method.encode(), name, digest_of(params))


def action_of(reply: UpstreamReply) -> tuple[str, Members]:
    """Return the action that a client's user chose, and the values of a form; "" if there is no answer."""
    try:
        members = json.fields(reply.result) if reply.result is not None else {}
        content = json.fields(members["content"]) if "content" in members else {}
    except InvalidJson:
        return "", {}
    return json.text(members.get("action")) or "", content


LONGEST = 600.0
"""Seconds that a request waits for a login."""

FIRST_PART = 20.0
"""Seconds that the authorization server has to begin a login."""

MOST_WAITING = 256
"""Requests of the whole hub that wait for logins. Further ones get the text at once."""


class LoginRequests:
    """The requests of one client that may turn out to need a login."""

    __slots__ = ("_gateway", "_hub", "_requests", "_session")

    def __init__(self, requests: RepeatableRequests, gateway: Gateway, hub: HubQuestions) -> None:
        self._requests, self._gateway, self._hub = requests, gateway, hub
        self._session = requests.session

    def takes(self, request_id: Raw | bytes, error: LoginRequired) -> bool:
        """Take a request that failed because of a missing login. Return whether it will be answered here."""
        kept = self._requests.get(bytes(request_id))
        if kept is None:
            return False
        if self._logins is None or not self._may_begin or self._hub.login_waits >= MOST_WAITING:
            self._requests.fail(request_id, kept, error)
        else:
            self._session.run(Raw(request_id), self._answer_request(Raw(request_id), kept, error))
        return True

    # -- what becomes of it ------------------------------------------------------------------------

    async def _answer_request(self, request_id: Raw, kept: RepeatableRequest, error: LoginRequired) -> None:
        """Answer a request with a question or a text, or make it again after the login."""
        self._hub.login_waits += 1
        try:
            asked = await self._log_in(bytes(request_id), kept, error)
        except TabaneError as refusal:
            self._requests.fail(request_id, kept, refusal)
            return
        finally:
            self._hub.login_waits -= 1
        if asked is not None:
            self._session.answer(request_id, bytes(asked))
            return
        self._requests.again(request_id, kept)

    async def _log_in(self, key: bytes, kept: RepeatableRequest, error: LoginRequired) -> Raw | None:
        """Return when the user has logged in, or the question for a modern client. Raises TabaneError."""
        server = self._gateway.server(error.server)
        if kept.answer is not None and kept.answer.about == LOGIN:
            if not kept.answer.agreed:  # nothing more is asked
                raise error
            kept.answer = None
            if await self._await_logins(key, kept, server):
                return None
        begun = await self._begin_login(kept, server, error)
        page = begun.get("url") or begun.get("verification_url")
        if page is None:  # a client that acts for itself is logged in at once
            return None
        if not isinstance(page, str) or not page.startswith(("https://", "http://")):
            raise error
        message = _login_message(server, error.why, begun).render(self._session.caller.lang)
        # The id of the login, with that of the session.
        name = f"login-{self._session.key}-{begun['id']}"
        asked = {"mode": "url", "message": message, "url": page, "elicitationId": name}
        question = Question("url", json.encode(asked))
        if self._session.era is Era.MODERN:
            if "url" not in self._session.features:
                raise _with_page(error, begun, page)
            return self._requests.asking(kept, question, LOGIN)
        try:
            if not await self._ask_and_await_login(key, kept, server, question):
                raise error
        except CannotAsk:
            raise _with_page(error, begun, page) from None
        return None

    async def _begin_login(
        self, kept: RepeatableRequest, server: Server, error: LoginRequired
    ) -> dict[str, Any]:
        """Begin a login, or join the one that waits. Raises ``error`` if none can begin."""
        assert self._logins is not None  # takes
        if kept.rounds >= MOST_ROUNDS:
            raise error
        kept.rounds += 1
        here = self._session.caller.access.holder == LOCAL.holder
        try:
            async with asyncio.timeout(FIRST_PART):
                return await self._logins.start(server, None, "local" if here else "hub", joins=True)
        except (TabaneError, TimeoutError) as why:
            log.info("%s: its login could not be begun for a call: %s", server.name, why)
            raise error from None

    async def _await_logins(self, key: bytes, kept: RepeatableRequest, server: Server) -> bool:
        """Wait until no login at the server waits any more. Return whether the user is logged in.

        Raises LoginRequired if the login has failed, or takes too long.
        """
        logins, loop = self._logins, asyncio.get_running_loop()
        assert logins is not None  # takes
        end, count = loop.time() + LONGEST, 0
        while (attempt := logins.attempts.of(server.name)) is not None and attempt.waits:
            if (left := end - loop.time()) <= 0:
                raise _login_failure(server, say("nobody finished it in time"))
            count += 1
            said = say("Waiting for the login at {server!n}", server=server.name)
            self._requests.tell_progress(key, kept.meta, said, count)
            await logins.wait(server, min(left, SIGN))
        if attempt is not None and attempt.state == "failed":
            raise _login_failure(server, attempt.reason)
        return logins.needed(server.name) is None

    async def _ask_and_await_login(
        self, key: bytes, kept: RepeatableRequest, server: Server, question: Question
    ) -> bool:
        """Ask a client of the handshake era, and wait for the login. Return False if the user declined.

        Raises CannotAsk, and LoginRequired if the login has failed.
        """
        answer, withdraw = self._requests.put(key, kept, server.name, question)
        waiting = asyncio.ensure_future(self._await_logins(key, kept, server))
        try:
            await asyncio.wait((answer, waiting), return_when=asyncio.FIRST_COMPLETED)
            # The login may also end without an answer: by another client, or at the command line.
            return (not answer.done() or action_of(answer.result())[0] == "accept") and await waiting
        finally:
            waiting.cancel()
            withdraw("the login has ended")
            if answer.done() and not answer.cancelled() and action_of(answer.result())[0] == "accept":
                about = Raw(json.join({"elicitationId": json.fields(question.params)["elicitationId"]}))
                self._session.tell(json.notification_line(COMPLETE, about), key)

    # -- who asks ----------------------------------------------------------------------------------

    @property
    def _logins(self) -> ServerLogins | None:
        return self._gateway.logins

    @property
    def _may_begin(self) -> bool:
        """Return whether the client's user may begin logins, which are those of the whole hub."""
        return self._session.caller.access.allows(START_LOGIN)


def _login_message(server: Server, why: Message | None, begun: Mapping[str, Any]) -> Message:
    """Return the text that asks the user to log in."""
    needed = (
        say("{server!n} requires a new login: {why}.", server=server.name, why=why)
        if why
        else say("{server!n} requires a login.", server=server.name)
    )
    code = begun.get("user_code")
    if isinstance(code, str):
        return say(
            "{needed} Open the page, enter the code {code}, and log in. The call then continues.",
            needed=needed, code=code)  # fmt: skip
    return say("{needed} Open the page and log in. The call then continues.", needed=needed)


def _with_page(error: LoginRequired, begun: Mapping[str, Any], page: str) -> LoginRequired:
    """Return the error for a client that cannot be asked: its text has the address of the page."""
    code = begun.get("user_code")
    if isinstance(code, str):
        text = say(
            "{problem}\nOr open this page, enter the code {code}, log in, and call again: {url}",
            problem=error.message, url=page, code=code)  # fmt: skip
    else:
        text = say(
            "{problem}\nOr open this page, log in, and call again: {url}", problem=error.message, url=page
        )
    return LoginRequired(text, error.server)


def _login_failure(server: Server, why: Message | None) -> LoginRequired:
    """Return the error of a request whose login has failed."""
    why = why or say("it was given up")
    text = say(
        "The login at {server!n} failed: {why}. Run: tabane servers login {server!c}",
        server=server.name, why=why)  # fmt: skip
    return LoginRequired(text, server.name)

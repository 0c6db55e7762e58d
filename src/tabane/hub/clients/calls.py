"""Calls of a client in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.errors import TabaneError
from tabane.hub.clients.client_questions import AskedInRounds, ClientQuestions, SessionClient, asks_for_input
from tabane.hub.clients.questions.parked_files import CallBinding, digest_of
from tabane.hub.clients.questions.parking import ParkedCall, ParkedCalls
from tabane.operations import LOCAL, UNMETERED, OpenCall, ended
from tabane.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.upstreams.connection import CallHolder
from tabane.upstreams.server_requests import COMPLETE
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import filtered, names_extensions
from tabane.wire.questions import (
    ASKING,
    NOTHING,
    Features,
    missing_capability,
    required_capabilities,
    urls_required,
    with_responses,
)

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream
    from tabane.wire.headers import HeaderMirror


DEFAULT_TIMEOUT = 30.0

MOST_UNREAD = 1 << 20
"""Unread bytes above which a client gets no progress of its calls, because answers are more important."""


class ClientCalls:
    """The requests of one client that upstreams work on.

    ``level`` is the index in LOG_LEVELS from which a legacy client wants log messages. None: the client
    never set it, and gets what the servers send. ``questions`` puts questions to a legacy client; it is None
    if the client has not introduced itself. Calls of a modern client are parked in ``parked``.
    """

    __slots__ = ("_parked", "_rounds", "_session", "in_flight", "level", "questions")

    def __init__(self, session: SessionClient, parked: ParkedCalls) -> None:
        self._session, self._parked = session, parked
        self.in_flight: dict[bytes, tuple[Call, CallHolder, OpenCall]] = {}
        self._rounds: dict[bytes, AskedInRounds] = {}
        self.level: int | None = None
        self.questions: ClientQuestions | None = None

    def __len__(self) -> int:
        return len(self.in_flight)

    def __contains__(self, key: bytes) -> bool:
        return key in self.in_flight

    def send(
        self,
        key: bytes,
        upstream: Upstream,
        method: bytes,
        params: Members,
        meta: Members,
        on_reply: Callable[[UpstreamReply], None],
        *,
        name: str = "",
        opened: OpenCall = UNMETERED,
        mirrored: tuple[HeaderMirror, ...] = (),
        safe: bool = False,
    ) -> Call | None:
        """Hand a request to an upstream. ``on_reply`` gets the answer, and has to end ``opened``.

        If the call is canceled, ``opened`` is ended here. ``name`` is the public name of what is called. A
        request that answers the questions of a parked call continues that call: then None is returned,
        otherwise the call. The task that has answered the request so far, if there is one, has to end then.
        """
        session, legacy = self._session, self._session.era is not Era.MODERN

        # It must not refer to the call, which refers to it: only the garbage collector frees a circle.
        def replied(reply: UpstreamReply) -> None:
            if legacy and reply.era is Era.MODERN and asks_for_input(reply):
                self._ask_in_rounds(key, name, reply)
                return
            sent = self.in_flight.pop(key, None)
            if self._rounds:
                self._rounds.pop(key, None)
            if not legacy and reply.error is not None:
                lacking = sent[0].lacking - session.features if sent else NOTHING
                binding = self._binding(method, params, name)
                reply = self._in_modern_words(binding, reply, reply.error, lacking)
            on_reply(reply)

        if opened.meta is not None:
            meta = {**meta, **opened.meta}

        if not legacy:
            meta = filtered(meta, session.carried) if names_extensions(meta) else meta
        if self.level is not None:
            meta = {**meta, eras.META_LOG_LEVEL: Raw(json.quote(eras.LOG_LEVELS[self.level]))}
        call = Call(
            method,
            params,
            meta,
            replied,
            lambda notice, about: self._pass_notice(key, meta, notice, about),
            upstream.server.timeout,
            on_question=lambda question: self._put_question(key, name, question),
            session=session.key,
            holder=session.caller.access.holder,
            client=session.caller.session,
            mirrored=mirrored,
            safe=safe,
            reader=session,
            marks=opened.marks,
            capabilities=self.questions.capabilities if self.questions is not None else b"{}",
        )
        if not legacy and "requestState" in params and self._resume_parked(key, call, name, opened):
            return None
        self.in_flight[key] = (call, upstream, opened)
        upstream.submit(call)
        return call

    def detach(self, key: bytes) -> None:
        """Let go of a call, which goes on without its client. Its reply needs another taker."""
        del self.in_flight[key]

    def continues(self, method: bytes, params: Members, name: str) -> bool:
        """Return whether a request can only continue a parked call, and is never sent as a new one."""
        if self._session.era is not Era.MODERN or "requestState" not in params:
            return False
        holder = self._session.caller.access.holder
        return self._parked.continues(params, CallBinding(holder, method, name, digest_of(params)))

    # -- questions of servers ----------------------------------------------------------------------

    def _put_question(self, key: bytes, name: str, request: ServerRequest) -> bool:
        """Put a legacy server's question during a call. Return whether the client can be asked."""
        if key not in self.in_flight:
            return False
        call, upstream, _ = self.in_flight[key]
        server = upstream.server.name
        if self.questions is not None:
            return self.questions.ask(key, server, name, request)
        if self._session.era is not Era.MODERN or call.method not in ASKING:
            return False
        caller = self._session.caller
        features = self._features
        binding = self._binding(call.method, call.params, name)
        parked = ParkedCall(self._parked, call, upstream, caller, server, name, binding, features)
        return parked.ask(request)

    def _resume_parked(self, key: bytes, call: Call, name: str, opened: OpenCall) -> bool:
        """Continue the parked call that a request belongs to. Return whether it has been dealt with."""
        binding = self._binding(call.method, call.params, name)
        if (kept := self._parked.is_kept(call.params, binding)) is not None:
            restoring = self._restore_parked(kept, binding, key, call, name, opened)
            self._session.run(Raw(key), restoring)
            return True
        try:
            parked = self._parked.claim(call.params, binding)
        except ProtocolRefusal as refusal:
            opened.end("failed", reason=refusal.message)
            self._session.refuse(key, refusal.code, refusal.message)
            return True
        if isinstance(parked, bool):
            if parked:
                call.params = with_responses(call.params, {}, None)
            return False
        self.in_flight[key] = (parked.call, parked.holder, opened)
        self._parked.resume(parked, call)
        return True

    async def _restore_parked(
        self, kept: str, binding: CallBinding, key: bytes, call: Call, name: str, opened: OpenCall
    ) -> None:
        """Take over a call that an earlier hub has parked, and continue it."""
        async with ended(opened):
            await self._parked.restore(kept, self._session.caller, name, binding, call.timeout)
        self._resume_parked(key, call, name, opened)

    def _in_modern_words(
        self, binding: CallBinding, reply: UpstreamReply, error: Raw, lacking: Features
    ) -> UpstreamReply:
        """Return an error for a modern client, which knows none that wants URLs to be opened first.

        ``lacking`` are features that the client did not declare, so that questions during the call were
        refused. No error of a legacy server says that.
        """
        urls = urls_required(error)
        if not urls:
            return UpstreamReply(error=Raw(missing_capability(lacking, error))) if lacking else reply
        if binding.method in ASKING and "url" in self._features:
            asked = self._parked.ask_to_repeat(urls, binding)
            return UpstreamReply(result=asked, era=Era.MODERN)
        needed = {"requiredCapabilities": required_capabilities(urls.values())}
        text = "the server needs the user to open a URL"
        return UpstreamReply(error=Raw(json.error_object(eras.MISSING_CAPABILITY, text, needed)))

    @property
    def _features(self) -> Features:
        """Return what a modern client can be asked. Folders of another machine are none of this one."""
        features = self._session.features
        return features if self._session.caller.access.holder == LOCAL.holder else features - {"roots"}

    def _binding(self, method: bytes, params: Members, name: str) -> CallBinding:
        return CallBinding(self._session.caller.access.holder, method, name, digest_of(params))

    def _ask_in_rounds(self, key: bytes, name: str, reply: UpstreamReply) -> None:
        """Ask the client what a modern server's result asks, and repeat the call with the answers."""
        assert reply.result is not None  # asks_for_input
        call, upstream, _ = self.in_flight[key]
        rounds = self._rounds.get(key)
        if rounds is None:

            def again(answers: dict[str, bytes], state: Raw | None) -> None:
                self._repeat_call(key, call, upstream, with_responses(call.params, answers, state))

            def fail(error: TabaneError) -> None:
                call.on_reply(UpstreamReply(failure=error))

            rounds = AskedInRounds(self.questions, key, upstream.server.name, name, again, fail)
            self._rounds[key] = rounds
        rounds.ask(reply.result)

    def _repeat_call(self, key: bytes, call: Call, upstream: CallHolder, params: Members) -> None:
        """Send a call again, which the client still waits for, with other parameters."""
        again = Call(
            call.method, params, call.meta, call.on_reply, call.on_notice, call.timeout,
            on_question=call.on_question, session=call.session, holder=call.holder, client=call.client,
            mirrored=call.mirrored, safe=call.safe, reader=call.reader, marks=call.marks,
            capabilities=call.capabilities,
        )  # fmt: skip
        _, _, opened = self.in_flight[key]
        self.in_flight[key] = (again, upstream, opened)
        upstream.submit(again)

    def cancel(self, key: bytes, reason: str) -> None:
        """Cancel a call; nothing comes back for it."""
        entry = self.in_flight.pop(key, None)
        if entry:
            call, upstream, opened = entry
            opened.end("cancelled")
            if (rounds := self._rounds.pop(key, None)) is not None:
                rounds.withdraw(reason)
            upstream.cancel(call, reason)

    def close(self) -> None:
        """Cancel all calls: the client is gone."""
        for key in list(self.in_flight):
            self.cancel(key, "the client is gone")

    def wants(self, params: Raw, level: int | None) -> bool:
        """Return whether a log message is at least as severe as the client asked for."""
        if level is None:
            return self._session.era is Era.LEGACY
        try:
            severity = json.text(json.fields(params).get("level"))
        except InvalidJson:
            return False
        return severity in eras.LOG_LEVELS and eras.LOG_LEVELS.index(severity) >= level

    def _pass_notice(self, key: bytes, meta: Members, method: str, params: Raw) -> None:
        if self._session.unsent > MOST_UNREAD:
            return
        if method == "notifications/progress":
            token = meta.get("progressToken")
            if token is None:
                return
            params = Raw(json.join({**json.fields(params), "progressToken": token}))
        elif method == COMPLETE:
            if self._session.era is Era.MODERN:  # which has no such notification
                return
        elif method != "notifications/message":
            if not self._session.caller.server:
                return  # the hub does not know it
            params = _with_subscription(params, key)
        elif not self.wants(params, eras.log_level(meta)):
            return
        self._session.tell(json.notification_line(method, params), key)


def _with_subscription(params: Raw, key: bytes) -> Raw:
    """Return the parameters of a notification with the client's own id, if they name the request."""
    members = json.fields(params)
    meta = eras.take_meta(members)
    if eras.META_SUBSCRIPTION not in meta:
        return params
    return Raw(eras.with_meta(members, {**meta, eras.META_SUBSCRIPTION: Raw(key)}))

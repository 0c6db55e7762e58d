"""Screening of calls for credentials: what a client sends to a server, and what it gets back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from tabane.servers.server import Server
from tabane.text.credentials import CredentialFinder, kinds_of, without_credentials
from tabane.upstreams.call import Call, UpstreamReply
from tabane.wire.channel import Later, at_once
from tabane.wire.json import text
from tabane.workers.time_slices import Pause, no_pause, thread_slices

log = logging.getLogger(__name__)

CredentialMode = Literal["off", "warn", "redact"]

AT_ONCE = 64 << 10
"""Bytes that are screened on the event loop; more in a thread."""

MOST_SCREENED = 16 << 20
"""Bytes of a message that are screened. What is longer passes as it is, which is logged."""

MOST_WAITING = 64 << 20
"""Bytes of long messages that wait to be screened. If more come, those that are only warned of pass."""

_WITH_ARGUMENTS = (b"tools/call", b"prompts/get")
_RESULTS = frozenset((b"tools/call", b"prompts/get", b"resources/read"))


def _ignore(server: str, name: str, where: str, kinds: tuple[str, ...], holder: str) -> None:
    """Record nothing."""


class CallScreening:
    """Screens the calls of all servers.

    ``mode`` applies to servers without an own ``credentials``. ``note`` is given server, name, where they
    were found (``arguments`` or ``result``), the kinds, and the holder of the call, never a value. What is
    only warned of waits for nothing: it is screened by ``later``, after it was passed on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, mode: CredentialMode = "warn") -> None:
        self._loop = loop
        self.later: Later = at_once
        self.mode = mode
        self.note: Callable[[str, str, str, tuple[str, ...], str], None] = _ignore
        self._finder = CredentialFinder()
        self._own: frozenset[str] = frozenset()
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._passed: list[tuple[Server, Call, str, Raw]] = []

    def know(self, own: Iterable[str]) -> None:
        """Recognize these secrets of the user by their value from now on."""
        known = frozenset(own)
        if known != self._own:
            self._own, self._finder = known, CredentialFinder(known)

    def submit(self, server: Server, call: Call, go: Callable[[Call], None]) -> None:
        """Screen a call, now or in a thread, and then send it with ``go``. Its answer is screened as well."""
        mode = server.credentials or self.mode
        if mode == "off" or call.method not in _RESULTS:
            go(call)
            return
        call.screen = partial(self._answered, server, mode)
        arguments = call.params.get("arguments") if call.method in _WITH_ARGUMENTS else None
        if arguments is None or len(arguments) <= 2:
            go(call)
        elif mode == "warn" and len(arguments) <= AT_ONCE:
            go(call)
            self._warn_later(server, call, "arguments", arguments)
        elif len(arguments) <= AT_ONCE:
            self._sent(server, call, mode, _look(self._finder, arguments), go)
        else:
            self._in_thread(mode, arguments, lambda seen: self._sent(server, call, mode, seen, go))

    def screen(self, server: Server, call: Call) -> None:
        """Screen the answer to a call, whoever takes it: a call that is parked gets another taker."""
        mode = server.credentials or self.mode
        if mode != "off" and call.method in _RESULTS:
            call.screen = partial(self._answered, server, mode)

    def _sent(
        self,
        server: Server,
        call: Call,
        mode: CredentialMode,
        seen: ScreenedText,
        go: Callable[[Call], None],
    ) -> None:
        if call.done:
            return
        self._noted(server, call, "arguments", seen.kinds, mode)
        if seen.redacted is not None and mode == "redact":
            call.params = {**call.params, "arguments": Raw(seen.redacted)}
        go(call)

    def _answered(self, server: Server, mode: CredentialMode, call: Call, reply: UpstreamReply) -> None:
        result = reply.result
        if result is None:
            call.on_reply(reply)
        elif mode == "warn":
            call.on_reply(reply)  # which need not wait
            if len(result) <= AT_ONCE:
                self._warn_later(server, call, "result", result)
            else:
                self._in_thread(
                    mode, result, lambda seen: self._noted(server, call, "result", seen.kinds, mode)
                )
        elif len(result) <= AT_ONCE:
            call.on_reply(self._screened(server, call, mode, reply, _look(self._finder, result)))
        else:
            self._in_thread(
                mode, result, lambda seen: call.on_reply(self._screened(server, call, mode, reply, seen))
            )

    def _warn_later(self, server: Server, call: Call, where: str, text: Raw) -> None:
        self._passed.append((server, call, where, text))
        if len(self._passed) == 1:
            self.later(self._warn)

    def _warn(self) -> None:
        """Screen what was passed on."""
        passed, self._passed = self._passed, []
        for server, call, where, given in passed:
            if found := self._finder.find(bytes(given)):
                self._noted(server, call, where, kinds_of(found), "warn")

    def _screened(
        self,
        server: Server,
        call: Call,
        mode: CredentialMode,
        reply: UpstreamReply,
        seen: ScreenedText,
    ) -> UpstreamReply:
        if seen.redacted is None or reply.result is None:
            return reply
        self._noted(server, call, "result", seen.kinds, mode)
        return replace(reply, result=Raw(seen.redacted))

    def _noted(
        self, server: Server, call: Call, where: str, kinds: tuple[str, ...], mode: CredentialMode
    ) -> None:
        if not kinds:
            return
        name = _name_of(call)
        log.warning(
            "%s: the %s of %s contain credentials (%s)" if where == "arguments"
            else "%s: the %s of %s contains credentials (%s)",
            server.name, where, name, ", ".join(kinds), extra={"server": server.name},
        )  # fmt: skip
        self.note(server.name, name, where, kinds, call.holder)
        if call.marks is not None:
            call.marks.credentials(where, kinds, mode == "redact")

    def _in_thread(self, mode: CredentialMode, text: Raw, then: Callable[[ScreenedText], None]) -> None:
        """Screen a long text, one after another: two threads that compute would hold up the event loop."""
        if len(text) > MOST_SCREENED:
            log.warning("a message of %d MiB is too long to be screened for credentials", len(text) >> 20)
            then(ScreenedText())
            return
        if mode == "warn" and self._waiting > MOST_WAITING:
            log.warning("a message is not screened for credentials: too many long ones came at once")
            then(ScreenedText())
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "credentials")
        self._waiting += len(text)
        looking = self._loop.run_in_executor(self._thread, _look, self._finder, text, thread_slices())

        def looked(done: asyncio.Future[ScreenedText]) -> None:
            self._waiting -= len(text)
            then(done.result() if done.exception() is None else ScreenedText())

        looking.add_done_callback(looked)


class ScreenedText(NamedTuple):
    """The kinds of credentials in a text, and the text without them; None if there are none."""

    kinds: tuple[str, ...] = ()
    redacted: bytes | None = None


def _look(finder: CredentialFinder, message: Raw, pause: Pause = no_pause) -> ScreenedText:
    text = bytes(message)
    found = finder.find(text, pause)
    return ScreenedText(kinds_of(found), without_credentials(text, found, pause)) if found else ScreenedText()


def _name_of(call: Call) -> str:
    """Return the name of what is called, as its server calls it, without control characters."""
    given = text(call.params.get("name")) or text(call.params.get("uri")) or call.method.decode()
    return given[:120]

"""`tabane mcp`: carries a client's standard input and output to the hub and back.

It has one thread and one poll, and uses only the standard library. Lines are forwarded unchanged. The
:class:`~tabane.hub.bridge.ledger.Ledger` knows which requests are open. So the client is still served
after the hub restarts, and gets an error for each lost request.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from tabane.hub.bridge.connections import (
    BridgeConnector,
    BridgeStopped,
    LinePeer,
    LocalBridgeConnector,
    Signals,
)
from tabane.hub.bridge.ledger import Ledger, client_heads, hub_heads, id_at_head
from tabane.hub.local.connector import HubConnection, HubUnreachable
from tabane.hub.local.endpoint import Endpoint, at_url
from tabane.hub.local.handshake import Hello, lang_of, say
from tabane.hub.local.stdio import waits

STDERR = 2
_LONGEST = 500  # characters: such a line is written as a whole or not at all

Debug = Callable[[str], None]


def debug_of(environ: Mapping[str, str]) -> Debug | None:
    """Return a function that writes a line; None if debugging is off."""
    level = environ.get("TABANE_LOG_LEVEL") or environ.get("LOG_LEVEL") or ""
    return _write if level.lower() in ("debug", "trace") else None


def _client_line(line: bytes) -> str:
    """Describe a client's line without its content: method and id."""
    return ", ".join(
        f"{head.method or 'answer'}{'' if head.id is None else ' ' + head.id.decode()}"
        for head in client_heads(line)
    )


def _hub_line(line: bytes) -> str:
    """Describe a hub's line without its content: the request that it answers, and its size."""
    answers = [
        f"{'error for' if each.failed else 'answer to'} {each.id.decode()}" for each in hub_heads(line)
    ]
    return f"{', '.join(answers) or 'notification'} ({len(line)} bytes)"


def _write(text: str) -> None:
    """Write a line to standard error. It may be a pipe that nobody reads: then the line is dropped."""
    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    line = f"{stamp} DEBUG tabane.mcp: {text[:_LONGEST]}\n".encode(errors="backslashreplace")
    if any(event & select.POLLOUT for _, event in poll.poll(0)):
        try:
            os.write(STDERR, line)
        except OSError:
            return


FULL = 1 << 20
"""Bytes that may wait for one side. Above it, the other side is not read."""

LAST_ANSWERS = 60.0
"""Seconds that answers in flight may take after the client has closed its input."""

FIRST_REQUEST = 5.0
"""Seconds to wait for a request, to answer it with an error, if no hub can be reached."""

FIRST_RETRY, LONGEST_RETRY = 0.1, 30.0
"""Seconds between attempts to connect while no request waits, and between failed starts."""

_FLUSH = 2.0
_IN, _OUT = select.POLLIN, select.POLLOUT
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Bridge:
    """A client on two descriptors, and the hub that serves it at the moment.

    Pipes and sockets are made non-blocking, and are restored at the end.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        connector: BridgeConnector,
        signals: Signals,
        debug: Debug | None = None,
    ) -> None:
        self._debug = debug
        self._client = LinePeer(read_fd, write_fd, 64 << 20)
        self._hub: LinePeer | None = None
        self._connector, self._signals = connector, signals
        self._lang = lang_of(connector.hello.lang)
        self._ledger = Ledger()
        self._poll = select.poll()
        self._masks: dict[int, int] = {}
        self._closing = self._unhindered = False
        self._deadline = float("inf")
        self._grace = 10.0
        self._retry, self._retry_at = FIRST_RETRY, 0.0
        self._unreachable: Mapping[str, str] = {}
        self._pid = 0

    def run(self) -> int:
        """Carry lines until the client has its last answer. Return the exit status."""
        fds = self._client.read_fd, self._client.write_fd
        blocking = [(fd, os.get_blocking(fd)) for fd in fds if waits(fd)]
        for fd, _ in blocking:
            os.set_blocking(fd, False)
        try:
            return self._run()
        finally:
            for fd, was in blocking:
                os.set_blocking(fd, was)

    def _run(self) -> int:
        try:
            self._take_connection(self._connector.reach())
        except HubUnreachable as error:
            return self.refuse_client(error)
        except BridgeStopped:
            return 0
        self._watch(self._signals.fd, _IN)
        try:
            while not self._is_over():
                self._turn()
        except BridgeStopped:
            pass
        lost = self._ledger.lost([])
        owed = [*lost.owed, *lost.unsent, *self._ledger.give_up()]
        if owed:
            self._fail(owed, self._end_texts())
        with contextlib.suppress(BridgeStopped):
            self._write_out()
        if self._hub is not None:
            self._hub.close()
        return 0

    def _end_texts(self) -> Mapping[str, str]:
        """Return the error for requests that are open at the end."""
        if self._ledger.ended:
            return say(
                "A person has disconnected this assistant on the page of Tabane. It is not known whether "
                "this request took effect. To connect again, restart the assistant or its server tabane."
            )
        return say("The connection to the hub closed before this request was answered.")

    # -- the loop --------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if not self._closing:
            return False
        done = not self._ledger.owing and not self._client.unsent
        return done or time.monotonic() >= self._deadline

    def _turn(self) -> None:
        client, ledger = self._client, self._ledger
        if self._hub is None and ledger.waiting:
            self._connect()
        unhindered = self._hub is not None and not self._hub.unsent and not client.unsent
        if not (unhindered and self._unhindered) or ledger.waiting_bytes:
            self._watch_all()
        self._unhindered = unhindered
        for fd, event in self._poll.poll(self._poll_timeout()):
            hub = self._hub
            if fd == client.read_fd:
                self._from_client()
            elif hub is not None and fd == hub.read_fd:
                if event & ~_OUT:
                    self._from_hub(hub)
            else:
                self._handle_event(fd, event)
        if client.unsent or (self._hub is not None and self._hub.unsent):
            self._flush()
        if self._hub is None:
            self._reconnect_if_due()
        elif ledger.draining and not ledger.in_flight:
            self._leave_drained()

    def _handle_event(self, fd: int, event: int) -> None:
        if fd == self._signals.fd:
            if len(os.read(self._signals.fd, 64)) > 1 or self._closing:
                raise BridgeStopped
            self._close(self._grace)
        elif event & _GONE:
            raise BridgeStopped

    def _watch_all(self) -> None:
        client, hub = self._client, self._hub
        held_back = self._ledger.waiting_bytes
        if hub is not None:
            held_back += hub.unsent
            wanted = _IN if client.unsent < FULL else 0
            self._watch(hub.read_fd, wanted | _OUT if hub.unsent else wanted)
        self._watch(client.read_fd, 0 if self._closing or held_back >= FULL else _IN)
        # Watched even without an event: an error there is the only sign that the client is gone.
        self._watch(client.write_fd, _OUT if client.unsent else 0, always=True)

    def _watch(self, fd: int, mask: int, *, always: bool = False) -> None:
        if self._masks.get(fd, -1) == mask:
            return
        if mask or always:
            self._poll.register(fd, mask)
            self._masks[fd] = mask
        else:
            self._forget(fd)

    def _forget(self, fd: int) -> None:
        if self._masks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _poll_timeout(self) -> float | None:
        """Return the milliseconds until the next timed action; None if there is none."""
        if self._hub is not None and not self._closing:
            return None
        until = self._deadline if self._hub else min(self._deadline, self._retry_at)
        return max(0.0, until - time.monotonic()) * 1000 + 1

    def _flush(self) -> None:
        try:
            self._client.flush()
        except OSError:
            raise BridgeStopped from None
        if self._hub is not None:
            try:
                self._hub.flush()
            except OSError:
                # It is gone. Its earlier lines still have to be read, and then its end of file.
                return

    # -- the client ------------------------------------------------------------------------------

    def _from_client(self) -> None:
        try:
            lines = self._client.read()
        except OSError:
            raise BridgeStopped from None
        if lines is None:
            self._to_hub([self._client.rest()])
            self._close(LAST_ANSWERS)
        else:
            self._to_hub(lines)

    def _to_hub(self, lines: list[bytes]) -> None:
        ledger, hub = self._ledger, self._hub
        for line in lines:
            if self._debug is not None and line:
                self._debug(f"from the client: {_client_line(line) or 'no JSON-RPC'}")
            passed = ledger.from_client(line) if line else None
            if passed is not None and hub is not None:
                hub.send(passed)
        if hub is not None and hub.translates:
            self._to_client(hub, hub.answered())
        if self._client.oversized:
            for head in self._client.oversized:
                found = id_at_head(head)
                self._fail([found or b"null"], say("The message is too long."), code=-32600)
            self._client.oversized.clear()

    def _close(self, limit: float) -> None:
        """Take nothing more from the client; what it is owed may come until then."""
        self._closing, self._unhindered = True, False
        self._deadline = time.monotonic() + limit

    def _fail(self, ids: Iterable[bytes], texts: Mapping[str, str], code: int = -32603) -> None:
        text = texts.get(self._lang) or texts.get("en", "")
        error = json.dumps({"code": code, "message": text, "data": {"reason": "hub"}}).encode()
        for name in ids:
            self._client.send(b'{"jsonrpc":"2.0","id":' + name + b',"error":' + error + b"}")

    # -- the hub ---------------------------------------------------------------------------------

    def _from_hub(self, hub: LinePeer) -> None:
        try:
            lines = hub.read()
        except OSError:
            lines = None
        if lines is not None:
            self._to_client(hub, lines)
        if lines is None or hub.ended:
            self._disconnect(hub)

    def _to_client(self, hub: LinePeer, lines: list[bytes]) -> None:
        ledger, client = self._ledger, self._client
        for line in lines:
            if self._debug is not None:
                self._debug(f"from the hub: {_hub_line(line)}")
            passed = ledger.from_hub(line)
            if passed is not None:
                client.send(passed)
        if hub.oversized:
            self._replace_oversized(hub)
        if ledger.ended:
            print("tabane: disconnected by a person on the page of Tabane", file=sys.stderr, flush=True)
            raise BridgeStopped

    def _replace_oversized(self, hub: LinePeer) -> None:
        ledger = self._ledger
        for head in hub.oversized:
            ids = [answer.id for answer in hub_heads(head) if ledger.from_hub(head)]
            self._fail(ids, say("The response is too long to be sent."))
        hub.oversized.clear()

    def _take_connection(self, connection: HubConnection) -> None:
        welcome = connection.welcome
        self._pid = welcome.pid
        hub = self._hub = self._connector.side(connection)
        self._unhindered = False
        if self._debug is not None:
            self._debug(f"connected to the hub {welcome.version} (process {welcome.pid or '?'})")
        self._client.limit(welcome.max_line)
        self._grace, self._retry = welcome.grace, FIRST_RETRY
        for line in self._ledger.arrived():
            hub.send(line)
        if connection.rest:
            self._to_client(hub, hub.feed(connection.rest))
        self._to_client(hub, hub.answered())

    def _leave_drained(self) -> None:
        """Leave a hub that drains and owes nothing more; reading goes on until it has closed."""
        if self._hub is not None:
            self._disconnect(self._hub)

    def _disconnect(self, hub: LinePeer) -> None:
        lost = self._ledger.lost(hub.not_begun())
        self._forget(hub.read_fd)
        hub.close()
        self._hub = None
        if self._debug is not None:
            self._debug("the connection to the hub has ended")
        self._retry_at = time.monotonic() + self._retry
        for name in lost.asked:
            self._client.send(
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % name
            )
        if lost.owed:
            self._fail(lost.owed, self._lost_texts())
        if lost.unsent:
            self._fail(lost.unsent, say(
                "The hub stopped while this call waited for an approval. The call was not sent. Call again."
            ))  # fmt: skip

    def _lost_texts(self) -> Mapping[str, str]:
        """Return the error for requests that a lost hub leaves unanswered."""
        if stacks := self._connector.stacks(self._pid):
            return say(
                "The hub stopped responding and was ended while this request was in flight. The request may "
                "have taken effect and is not sent again. The next request goes to a new hub. Stacks of the "
                "hub that was stuck: {path}", path=stacks)  # fmt: skip
        return say(

                "The hub stopped while this request was being handled. It is not known whether it "
                "took effect. The next request goes to a new hub.")  # fmt: skip

    def _connect(self) -> None:
        """Find or start a hub for the waiting requests, or answer them with the reason why there is none."""
        if self._unreachable and time.monotonic() < self._retry_at:
            self._fail(self._ledger.give_up(), self._unreachable)
            return
        self._flush()
        try:
            self._take_connection(self._connector.reach())
            self._unreachable = {}
        except HubUnreachable as error:
            self._unreachable = error.texts
            self._fail(self._ledger.give_up(), error.texts)
            self._schedule_retry()

    def _reconnect_if_due(self) -> None:
        """Try now and then to connect while no request waits, so that a hub that is back can notify."""
        if self._hub is not None or time.monotonic() < self._retry_at or self._ledger.waiting:
            return
        try:
            found = self._connector.connect()
        except HubUnreachable:
            found = None
        if found:
            self._take_connection(found)
        else:
            self._schedule_retry()

    def _schedule_retry(self) -> None:
        if self._debug is not None:
            self._debug(f"no hub; the next try in {self._retry:.1f} s")
        self._retry_at = time.monotonic() + self._retry
        self._retry = min(self._retry * 2, LONGEST_RETRY)

    # -- the end ---------------------------------------------------------------------------------

    def refuse_client(self, error: HubUnreachable) -> int:
        """Answer the client's requests with the reason why there is no hub; print it to standard error."""
        print(f"tabane: {error.text(self._lang)}", file=sys.stderr, flush=True)
        self._deadline = time.monotonic() + FIRST_REQUEST
        poll = select.poll()
        poll.register(self._client.read_fd, _IN)
        try:
            while not self._closing and not self._client.unsent and time.monotonic() < self._deadline:
                self._signals.pause(self._deadline - time.monotonic(), self._client.read_fd)
                if poll.poll(0):
                    self._from_client()
                self._fail(self._ledger.give_up(), error.texts)
            self._write_out()
        except BridgeStopped:
            pass
        return 1

    def _write_out(self) -> None:
        poll = select.poll()
        poll.register(self._client.write_fd, _OUT)
        deadline = time.monotonic() + _FLUSH
        while self._client.unsent and (left := deadline - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self._flush()


def run_bridge(
    client: tuple[int, int],
    hello: Hello,
    home: Endpoint,
    url: str | None,
    flags: Sequence[str],
    environ: Mapping[str, str],
    failure: HubUnreachable | None,
) -> int:
    """Carry the lines of a client on these descriptors until it ends. Return the exit status.

    ``url`` is the hub at an address, None for that of ``home``, which is started with ``flags`` if it does
    not run. After a ``failure``, the client is only told.
    """
    signals = Signals()
    connector: BridgeConnector = LocalBridgeConnector(home, hello, environ, None)
    try:
        if url:
            connector = connector_at(url, hello, home, signals, environ)
        else:
            connector = LocalBridgeConnector(home, hello, environ, flags, pause=signals.pause)
    except HubUnreachable as error:
        failure = error
    bridge = Bridge(*client, connector, signals, debug_of(environ))
    status = bridge.refuse_client(failure) if failure else bridge.run()
    return INTERRUPTED if signals.interrupted else status


INTERRUPTED = 130
"""The exit status after Ctrl+C."""


def connector_at(
    url: str, hello: Hello, home: Endpoint, signals: Signals, environ: Mapping[str, str]
) -> BridgeConnector:
    """Return the connector to the hub at a URL. Raises HubUnreachable if the URL is not valid."""
    if "://" in url:
        from tabane.hub.bridge.remote_connector import RemoteBridgeConnector, address_of

        address = address_of(url)
        if address is not None:
            return RemoteBridgeConnector(address, hello, home, environ, signals.pause)
    try:
        return LocalBridgeConnector(at_url(url, environ), hello, environ, None, pause=signals.pause)
    except ValueError:
        raise HubUnreachable(say(
            "{url}: not the address of a hub. Give ws://host:port, http://host:port, or "
            "unix:/path/to/its/TABANE_HOME. To use your own hub, omit --url and TABANE_URL.",
            url=url), "url") from None  # fmt: skip

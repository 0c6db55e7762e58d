"""Ledger of a client's requests: each is answered exactly once, even if the hub changes; pure.

A request *waits* until it is sent to a hub, and is *in flight* until it is answered. When a hub is
lost, waiting requests go to the next one, and each request in flight is owed an error. A request that the hub
*holds* until a person approves it was sent nowhere, so it goes to the next hub too. The bridge repeats the
client's session state (handshake, log level, subscriptions) to the next hub.

Of a message, the ledger reads only the head: id, method and kind.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from typing import Any, NamedTuple

from tabane.hub.local.handshake import BEGUN, DRAIN, DRAINING, END, HELD

LARGE = 64 << 10
"""Bytes above which a client's line is not decoded as a whole, if its two ends are enough."""

_PLAIN = re.compile(
    rb'\{"jsonrpc": ?"2\.0", ?"id": ?(0|[1-9][0-9]{0,17}), ?"method": ?"([A-Za-z0-9_/]+)"[,}]'
).match
_ID_LAST = re.compile(rb'[,{]\s*"id"\s*:\s*(-?[0-9]{1,18}|"(?:[^"\\]|\\.){0,512}")\s*\}\s*$')
_METHOD_FIRST = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:\s*("(?:[^"\\]|\\.){0,512}")\s*,'
)
_ID_FIRST = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?[0-9]{1,18}|"(?:[^"\\]|\\.){0,512}")\s*,'
)
_ANSWER = b'{"jsonrpc":"2.0","id":'
_AFTER = len(_ANSWER)


class ClientMessageHead(NamedTuple):
    """``id`` is canonical, None in a notification; ``method`` is None in an answer."""

    id: bytes | None
    method: str | None


class HubMessageHead(NamedTuple):
    """A message of the hub with an id: an answer, which may be an error, or a request of its own."""

    id: bytes
    asks: bool
    failed: bool


def canonical(value: object) -> bytes:
    """Return an id in the one spelling that ids are compared in, which is JSON itself."""
    return json.dumps(value).encode()


def plain_request(line: bytes) -> re.Match[bytes] | None:
    """Return id and method of a request in the form that nearly all have; None for any other line."""
    plain = _PLAIN(line)
    return plain if plain is not None and line.endswith(b"}") else None


def plain_result(line: bytes) -> bytes | None:
    """Return the id of an answer with a result, if that is a number; None for any other line."""
    if not line.startswith(_ANSWER):
        return None
    end = line.find(b",", _AFTER)
    name = line[_AFTER:end]
    return name if name.isdigit() and line.startswith(b',"result":', end) else None


def client_heads(line: bytes) -> list[ClientMessageHead]:
    """Return the messages in a client's line: one, or those of a batch; none if it is not JSON-RPC."""
    plain = plain_request(line)
    if plain is not None:
        return [ClientMessageHead(plain[1], plain[2].decode())]
    if len(line) > LARGE and line[:1] != b"[":
        # A name before the last brace belongs to the outermost object, with anything in between; quotes
        # within a string are escaped, so neither pattern can match inside of one.
        method = _METHOD_FIRST.match(line)
        last = _ID_LAST.search(line, max(0, len(line) - 1024))
        if method and last:
            return [ClientMessageHead(canonical(json.loads(last[1])), json.loads(method[1]))]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [_of_value(item) for item in (value if isinstance(value, list) else [value]) if _is_json_rpc(item)]


def id_at_head(head: bytes) -> bytes | None:
    """Return the id at the beginning of a cut line; None if it does not begin with one."""
    found = _ID_FIRST.match(head)
    return canonical(json.loads(found[1])) if found else None


def hub_heads(line: bytes) -> list[HubMessageHead]:
    """Return the answers and requests in a line of the hub; empty for a notification.

    Answers of a hub begin with ``{"jsonrpc":"2.0","id":``, so the rest of them is not read; an array
    is the answer to a batch.
    """
    if line[:1] != b"[" and not line.startswith(_ANSWER):
        return []
    try:
        if line[:1] != b"[":
            if line[_AFTER : _AFTER + 1] == b'"':
                end = _closing_quote(line, _AFTER + 1) + 1
                name = canonical(json.loads(line[_AFTER:end]))
            else:
                end = line.index(b",", _AFTER)
                name = line[_AFTER:end]
                if not name.isdigit():
                    name = canonical(json.loads(name))
            return [
                HubMessageHead(name, line.startswith(b',"method"', end), line.startswith(b',"error"', end))
            ]
        values = json.loads(line)
    except (ValueError, RecursionError):
        return []
    items = [item for item in values if _is_json_rpc(item) and "id" in item]
    return [HubMessageHead(canonical(item["id"]), "method" in item, "error" in item) for item in items]


def reason(line: bytes) -> str | None:
    """Return ``error.data.reason`` of an answer; None if it is not an error or has none."""
    try:
        found = json.loads(line)["error"]["data"]["reason"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _closing_quote(line: bytes, at: int) -> int:
    while True:
        at = line.index(b'"', at)
        back = at
        while line[back - 1 : back] == b"\\":
            back -= 1
        if (at - back) % 2 == 0:
            return at
        at += 1


def _is_json_rpc(value: object) -> bool:
    return isinstance(value, dict)


def _of_value(message: dict[str, Any]) -> ClientMessageHead:
    method = message.get("method")
    return ClientMessageHead(
        canonical(message["id"]) if "id" in message else None,
        method if isinstance(method, str) else None,
    )


KEPT = 64 << 10
"""Bytes of a request in flight that is kept, so that it can be sent to another hub. Longer ones are not."""

MAX_SETTLED = 256
"""Requests with session state that are repeated to the next hub; more are not remembered."""

_SETTLING = ("initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
_INITIALIZED = "notifications/initialized"
_CANCELLED = "notifications/cancelled"
_ENDLESS = "subscriptions/listen"


class _SentRequest(NamedTuple):
    method: str
    line: bytes | None


class LostRequests(NamedTuple):
    """Requests that a lost hub left open: those of the client, and the hub's own, which nobody awaits.

    ``unsent`` are those of the client that were sent nowhere, but cannot go to the next hub.
    """

    owed: list[bytes]
    asked: list[bytes]
    unsent: list[bytes]


class Ledger:
    """Takes the lines of both sides and returns those to forward.

    ``present``: a hub is connected. ``draining``: it asked for no more requests. ``ended``: a person has
    disconnected the client at the hub.
    """

    def __init__(self) -> None:
        self.present = self.draining = self.ended = False
        self.waiting_bytes = 0
        self._waiting: deque[bytes] = deque()
        self._in_flight: dict[bytes, _SentRequest] = {}
        self._held: set[bytes] = set()
        self._settled: dict[str, bytes] = {}
        self._initialized: bytes | None = None
        self._hub_requests: set[bytes] = set()
        self._swallow: set[bytes] = set()
        self._replays = 0

    @property
    def waiting(self) -> bool:
        """Return whether a request waits for a hub."""
        return bool(self._waiting)

    @property
    def owing(self) -> bool:
        """Return whether the client awaits an answer. Subscriptions do not count: they have none."""
        return bool(self._waiting) or any(sent.method != _ENDLESS for sent in self._in_flight.values())

    @property
    def in_flight(self) -> bool:
        """Whether a request of the client is not answered yet."""
        return bool(self._in_flight)

    def from_client(self, line: bytes) -> bytes | None:
        """Return the line to send to the hub now; None if it waits, or no hub needs it."""
        plain = plain_request(line)
        if plain is not None:
            if not self.present or self.draining:
                return self._keep_waiting(line)
            self._in_flight[plain[1]] = _SentRequest(plain[2].decode(), line if len(line) <= KEPT else None)
            return line
        found = client_heads(line)
        if not found:
            return line if self.present and not self.draining else self._keep_waiting(line)
        if any(head.id is not None and head.method is not None for head in found):
            return (
                self._note_sent(line, found)
                if self.present and not self.draining
                else self._keep_waiting(line)
            )
        if all(head.method is None for head in found):
            return self._client_answer(line, found)
        if found[0].method == _CANCELLED:
            return self._cancel(line)
        if found[0].method == _INITIALIZED:
            self._initialized = line
        return line if self.present else None

    def from_hub(self, line: bytes) -> bytes | None:
        """Return the line to send to the client; None if it was meant for the bridge."""
        name = plain_result(line)
        if name is not None:
            # A replay is not among them: its id is a string.
            sent = self._in_flight.pop(name, None)
            if self._held:
                self._held.discard(name)
            if sent is not None and sent.line is not None and sent.method in _SETTLING:
                self._remember(sent.method, sent.line)
            return line
        if line.startswith(b'{"tabane":'):
            self._take_note(line)
            return None
        for answer in hub_heads(line):
            if answer.asks:
                self._hub_requests.add(answer.id)
            elif answer.id in self._swallow:
                self._swallow.discard(answer.id)
                return None
            elif not self._close_by_answer(answer, line):
                return None
        return line

    def arrived(self) -> list[bytes]:
        """Note that a hub is connected. Return the lines to send to it first."""
        self.present, self.draining = True, False
        lines = []
        for method, line in self._settled.items():
            self._replays += 1
            name = f"tabane-replay-{self._replays}"
            self._swallow.add(canonical(name))
            again = json.dumps({**json.loads(line), "id": name}).encode()
            lines.extend(self._with_initialized(method, again))
        waiting, self._waiting, self.waiting_bytes = self._waiting, deque(), 0
        for line in waiting:
            found = client_heads(line)
            lines.extend(
                self._with_initialized(found[0].method if found else None, self._note_sent(line, found))
            )
        return lines

    def lost(self, unsent: list[bytes]) -> LostRequests:
        """Note that the hub is gone. ``unsent`` are lines that were not sent: they wait again."""
        self.present = self.draining = False
        again = [line for line in unsent if self._taken_back(line)]
        handshake = [s.line for s in self._in_flight.values() if s.method == "initialize" and s.line]
        held = {name: s.line for name, s in self._in_flight.items() if name in self._held}
        kept = {name: line for name, line in held.items() if line is not None and line[:1] != b"["}
        owed = [name for name, s in self._in_flight.items() if s.line not in handshake and name not in held]
        lines = [*handshake, *kept.values(), *again]
        self._waiting.extendleft(reversed(lines))
        self.waiting_bytes += sum(map(len, lines))
        asked = list(self._hub_requests)
        self._held.clear()
        self._in_flight.clear()
        self._hub_requests.clear()
        self._swallow.clear()
        return LostRequests(owed, asked, [name for name in held if name not in kept])

    def give_up(self) -> list[bytes]:
        """Drop the waiting requests, because no hub can be reached. Return their ids."""
        ids = [head.id for line in self._waiting for head in client_heads(line) if head.method]
        self._waiting.clear()
        self.waiting_bytes = 0
        return [name for name in ids if name is not None]

    def _take_note(self, line: bytes) -> None:
        """Take a line of the hub that is for the bridge. One that is not understood is ignored."""
        if line.startswith((HELD, BEGUN)):
            with contextlib.suppress(ValueError, KeyError):
                name = canonical(json.loads(line)["id"])
                if line.startswith(HELD) and name in self._in_flight:
                    self._held.add(name)
                else:
                    self._held.discard(name)
        elif line + b"\n" == DRAIN:
            self.draining = True
        elif line + b"\n" == END:
            self.ended = True

    def _keep_waiting(self, line: bytes) -> bytes | None:
        self._waiting.append(line)
        self.waiting_bytes += len(line)
        return None

    def _note_sent(self, line: bytes, found: list[ClientMessageHead]) -> bytes:
        for head in found:
            if head.id is not None and head.method is not None:
                self._in_flight[head.id] = _SentRequest(head.method, line if len(line) <= KEPT else None)
        return line

    def _client_answer(self, line: bytes, found: list[ClientMessageHead]) -> bytes | None:
        # An answer to a request of a lost hub must not reach the next one, whose ids start again.
        known = [head.id for head in found if head.id in self._hub_requests]
        self._hub_requests.difference_update(known)
        return line if known and self.present else None

    def _cancel(self, line: bytes) -> bytes | None:
        try:
            name = canonical(json.loads(line)["params"]["requestId"])
        except (ValueError, RecursionError, KeyError, TypeError):
            return line if self.present else None
        if self._in_flight.pop(name, None):
            self._held.discard(name)
            return line
        kept = [one for one in self._waiting if all(head.id != name for head in client_heads(one))]
        self._waiting, self.waiting_bytes = deque(kept), sum(map(len, kept))
        return None

    def _close_by_answer(self, answer: HubMessageHead, line: bytes) -> bool:
        """Close a request by its answer. Return False if another hub has to answer it instead."""
        sent = self._in_flight.pop(answer.id, None)
        self._held.discard(answer.id)
        if sent is None or sent.line is None:
            return True
        if answer.failed and self.draining and reason(line) == DRAINING:
            self._keep_waiting(sent.line)
            return False
        if sent.method in _SETTLING and not answer.failed:
            self._remember(sent.method, sent.line)
        return True

    def _remember(self, method: str, line: bytes) -> None:
        key = method
        if method.startswith("resources/"):
            params = json.loads(line).get("params")
            key = f"resources {params.get('uri') if isinstance(params, dict) else None}"
        if method == "resources/unsubscribe":
            self._settled.pop(key, None)
        elif key in self._settled or len(self._settled) < MAX_SETTLED:
            self._settled[key] = line

    def _with_initialized(self, method: str | None, line: bytes) -> list[bytes]:
        return [line, self._initialized] if method == "initialize" and self._initialized else [line]

    def _taken_back(self, line: bytes) -> bool:
        """Return whether an unsent line goes to the next hub: a request does, unless it is a replay."""
        found = client_heads(line)
        ids = [head.id for head in found if head.id is not None and head.method is not None]
        for name in ids:
            self._in_flight.pop(name, None)
        return not found or any(name not in self._swallow for name in ids)

"""The ledger under every order of events: each request is answered once, with a result or an error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tabane.hub.bridge.ledger import KEPT, Ledger
from tabane.hub.local.handshake import BEGUN, DRAIN, HELD
from tests.harness.bridge import INITIALIZE, answer, request


class Bridging(RuleBasedStateMachine):
    """A client, a ledger, and hubs that come, answer, drain, and die in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.asked: list[int] = []
        self.answers: list[int] = []
        self.outbox: list[bytes] = []
        self.at_hub: list[dict[str, Any]] = []
        self.began: set[int] = set()
        self.held: set[int] = set()
        self.shaken: bool | None = None
        self.session: list[str] = []

    @rule(large=st.booleans())
    def ask(self, large: bool) -> None:
        number = len(self.asked) + 1
        self.asked.append(number)
        self._from_client(request(number, text="x" * KEPT if large else ""))

    @precondition(lambda self: self.shaken is None)
    @rule()
    def shake_hands(self) -> None:
        self.shaken = False
        self.asked.append(0)
        self._from_client(request(0, "initialize", **INITIALIZE))

    @precondition(lambda self: self.shaken and "initialized" not in self.session)
    @rule()
    def finish_handshake(self) -> None:
        self.session.append("initialized")
        self._from_client(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    @precondition(lambda self: not self.ledger.present)
    @rule()
    def hub_arrives(self) -> None:
        self.outbox = list(self.ledger.arrived())
        self.at_hub, self.held = [], set()
        lines = [json.loads(line) for line in self.outbox]
        if self.shaken and lines:
            assert lines[0]["method"] == "initialize"

    @precondition(lambda self: self.outbox)
    @rule()
    def hub_reads(self) -> None:
        self.at_hub.append(json.loads(self.outbox.pop(0)))

    @precondition(lambda self: any(self._is_call(message) for message in self.at_hub))
    @rule(held=st.booleans(), data=st.data())
    def hub_holds_or_begins(self, held: bool, data: st.DataObject) -> None:
        calls = [message["id"] for message in self.at_hub if self._is_call(message)]
        number = data.draw(st.sampled_from(calls))
        (self.held.add if held else self.held.discard)(number)
        assert self.ledger.from_hub((HELD if held else BEGUN) + b"%d}" % number) is None

    @precondition(lambda self: any("id" in message for message in self.at_hub))
    @rule(refuse=st.booleans(), data=st.data())
    def hub_answers(self, refuse: bool, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from([message for message in self.at_hub if "id" in message]))
        self.at_hub.remove(message)
        self.held.discard(message["id"])
        if refuse and self.ledger.draining:
            error = {"code": -32603, "message": "", "data": {"reason": "draining"}}
            line = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_json(message["id"]), _json(error))
        else:
            line = answer(message["id"])
        passed = self.ledger.from_hub(line)
        if passed is not None:
            self.answers.append(message["id"])
            self.shaken = self.shaken or message["id"] == 0

    @precondition(lambda self: self.ledger.present)
    @rule()
    def hub_drains(self) -> None:
        assert self.ledger.from_hub(DRAIN.rstrip()) is None

    @precondition(lambda self: self.ledger.present)
    @rule()
    def hub_dies(self) -> None:
        lost = self.ledger.lost(self.outbox)
        # What no hub was given a byte of is not lost: only what was read is owed an error.
        assert {json.loads(name) for name in lost.owed} <= {message.get("id") for message in self.at_hub}
        # What the hub held goes to the next one, unless it is too long to be kept.
        assert not {json.loads(name) for name in lost.owed} & self.held
        assert {json.loads(name) for name in lost.unsent} <= self.held
        self.outbox, self.at_hub = [], []
        for name in (*lost.owed, *lost.unsent):
            self.answers.append(json.loads(name))

    @precondition(lambda self: not self.ledger.present)
    @rule()
    def no_hub_will_come(self) -> None:
        for name in self.ledger.give_up():
            self.answers.append(json.loads(name))

    @invariant()
    def nothing_is_answered_twice_or_unasked(self) -> None:
        assert len(self.answers) == len(set(self.answers))
        assert set(self.answers) <= set(self.asked)

    @invariant()
    def what_is_owed_is_known(self) -> None:
        assert self.ledger.owing == (set(self.answers) != set(self.asked))
        assert bool(self.ledger.waiting_bytes) == self.ledger.waiting

    def teardown(self) -> None:
        """At the end a hub comes that answers everything: nobody is left without."""
        if not self.ledger.present:
            self.hub_arrives()
        else:
            self.hub_dies()
            self.hub_arrives()
        for line in self.outbox:
            message = json.loads(line)
            if "id" in message:
                passed = self.ledger.from_hub(answer(message["id"]))
                if passed is not None:
                    self.answers.append(message["id"])
        assert sorted(self.answers) == sorted(self.asked)

    def _is_call(self, message: dict[str, Any]) -> bool:
        return message.get("method") == "tools/call"

    def _from_client(self, line: bytes) -> None:
        passed = self.ledger.from_client(line)
        if passed is not None:
            assert self.ledger.present
            self.outbox.append(passed)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


Bridging.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBridging = Bridging.TestCase


def settled(*exchanges: tuple[bytes, bytes]) -> Ledger:
    """A ledger whose client had these requests answered."""
    ledger = Ledger()
    ledger.arrived()
    for asked, answered in exchanges:
        assert ledger.from_client(asked) == asked
        assert ledger.from_hub(answered) == answered
    return ledger


def again(ledger: Ledger) -> list[tuple[str, Any]]:
    """What the next hub is told before anything else, as method and params."""
    ledger.lost([])
    return [(message["method"], message.get("params")) for message in map(json.loads, ledger.arrived())]


def test_what_was_settled_for_the_session_is_said_again() -> None:
    ledger = settled(
        (request(0, "initialize", **INITIALIZE), answer(0)),
        (request(1, "logging/setLevel", level="error"), answer(1)),
        (request(2, "resources/subscribe", uri="file:///a"), answer(2)),
        (request(3, "resources/subscribe", uri="file:///b"), answer(3)),
        (request(4, "resources/unsubscribe", uri="file:///a"), answer(4)),
        (request(5, "logging/setLevel", level="debug"), answer(5)),
        (request(6, "tools/call", name="x"), answer(6)),
    )
    expected = [
        ("initialize", INITIALIZE),
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "file:///b"}),
    ]
    assert again(ledger) == expected
    assert again(ledger) == expected


def test_what_a_hub_refused_is_not_said_again() -> None:
    ledger = Ledger()
    ledger.arrived()
    ledger.from_client(request(0, "initialize"))
    ledger.from_hub(b'{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}')
    assert again(ledger) == []


def test_a_subscription_is_no_reason_to_wait_for_its_end() -> None:
    ledger = Ledger()
    ledger.arrived()
    ledger.from_client(request(1, "subscriptions/listen"))
    assert ledger.in_flight
    assert not ledger.owing


def test_a_waiting_request_can_be_cancelled() -> None:
    ledger = Ledger()
    ledger.from_client(request(1))
    ledger.from_client(request(2))
    note = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    assert ledger.from_client(note) is None
    assert [json.loads(line)["id"] for line in ledger.arrived()] == [2]


def test_a_request_that_was_held_goes_to_the_next_hub_and_one_that_was_begun_does_not() -> None:
    ledger = settled()
    for number in (1, 2):
        ledger.from_client(request(number))
        assert ledger.from_hub(HELD + b"%d}" % number) is None
    ledger.from_hub(BEGUN + b"2}")
    assert ledger.lost([]).owed == [b"2"]
    assert ledger.arrived() == [request(1)]


def test_a_batch_that_was_held_is_not_sent_again_because_of_its_other_requests() -> None:
    ledger = settled()
    batch = b"[" + request(1) + b"," + request(2) + b"]"
    ledger.from_client(batch)
    ledger.from_hub(HELD + b"1}")
    lost = ledger.lost([])
    assert (lost.owed, lost.unsent) == ([b"2"], [b"1"])
    assert ledger.arrived() == []


def test_a_line_for_the_bridge_that_it_does_not_know_is_ignored() -> None:
    ledger = settled()
    for line in (b'{"tabane":"other"}', HELD + b"}", HELD + b"9}", BEGUN + b'"x"}'):
        assert ledger.from_hub(line) is None
    assert ledger.lost([]) == ([], [], [])

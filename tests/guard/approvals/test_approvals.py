"""Approvals as a state machine: whatever is asked, decided and used, a call is never made without one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as some
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from tabane.errors import ApprovalRefused, Forbidden, UnknownName
from tabane.guard.approvals.approvals import (
    LIFE,
    MOST,
    MOST_OF_ONE,
    Approval,
    ApprovalBinding,
    ApprovalReason,
    Approvals,
)
from tabane.messages import Message
from tabane.operations.door import CallVerdict

HOLDERS = ("local", "key:a", "key:b")


def binding(holder: str = "local", arguments: str = "1", definition: str = "d") -> ApprovalBinding:
    return ApprovalBinding(holder, "up__count", "up", definition, arguments)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def wanted(clock: Clock, of: ApprovalBinding, id: str) -> Approval:
    return Approval(id, of, clock.now, clock.now + LIFE)


class ApprovalMachine(RuleBasedStateMachine):
    """Compares approvals with what a person did: ``given`` are the approvals that may be used."""

    known: Bundle[str] = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.count = Clock(), 0
        self.approvals = Approvals(self.clock)
        self.given: dict[ApprovalBinding, tuple[str, float]] = {}
        self.used: set[str] = set()
        self.of: dict[str, ApprovalBinding] = {}

    @rule()
    def read_at_another_hub(self) -> None:
        """Another hub of a group goes on with what this one has written."""
        self.approvals = Approvals(self.clock, self.approvals.whole())

    @rule(target=known, holder=some.sampled_from(HOLDERS), arguments=some.sampled_from("123"))
    def ask(self, holder: str, arguments: str) -> str:
        self.count += 1
        of = binding(holder, arguments)
        try:
            found = self.approvals.ask(wanted(self.clock, of, f"id-{self.count}"))
        except ApprovalRefused:
            return "none"
        self.of[found.id] = of
        assert found.binding == of
        return found.id

    @rule(id=known, approved=some.booleans())
    def decide(self, id: str, approved: bool) -> None:
        try:
            decided = self.approvals.decide(id, approved=approved, by="local", way="page")
        except UnknownName:
            assert (
                self.of.get(id) is None or self.given.get(self.of[id], ("", 0))[0] != id or self.expired(id)
            )
            return
        assert id not in self.used
        if approved:
            self.given[decided.binding] = (id, self.clock.now + LIFE)
        else:
            self.given.pop(decided.binding, None)

    def expired(self, id: str) -> bool:
        return self.given[self.of[id]][1] <= self.clock.now

    @rule(id=known)
    def withdraw(self, id: str) -> None:
        found = self.approvals.withdraw(id)
        assert found is None or found.state == "withdrawn"

    @rule(holder=some.sampled_from(HOLDERS), arguments=some.sampled_from("123"), other=some.booleans())
    def call(self, holder: str, arguments: str, other: bool) -> None:
        of = binding(holder, arguments, "another" if other else "d")
        used = self.approvals.claim(of)
        id, until = self.given.pop(of, ("", 0.0))
        assert (used is not None) == (until > self.clock.now)
        if used is not None:
            assert used.id == id
            assert used.state == "used"
            assert used.id not in self.used
            self.used.add(used.id)

    @rule(seconds=some.sampled_from([1.0, LIFE / 2, LIFE]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def restart(self) -> None:
        self.approvals = Approvals(self.clock, self.approvals.kept())

    @invariant()
    def bounded(self) -> None:
        rows = self.approvals.listed()
        assert len({row.binding for row in rows}) == len(rows) <= MOST
        assert all(row.expires > self.clock.now for row in rows)
        assert not {row.id for row in rows} & self.used


TestApprovalMachine: Any = ApprovalMachine.TestCase


def test_a_call_that_waits_already_is_not_asked_about_twice() -> None:
    clock = Clock()
    approvals = Approvals(clock)
    first = approvals.ask(wanted(clock, binding(), "a"))
    assert approvals.ask(wanted(clock, binding(), "b")) == first


def test_a_call_that_was_refused_is_refused_for_ten_minutes_unless_the_person_approves_it() -> None:
    clock = Clock()
    approvals = Approvals(clock)
    approvals.ask(wanted(clock, binding(), "a"))
    approvals.decide("a", approved=False, by="local", way="page")
    with pytest.raises(ApprovalRefused, match="Do not repeat it"):
        approvals.ask(wanted(clock, binding(), "b"))
    approvals.decide("a", approved=True, by="local", way="command")
    assert approvals.claim(binding()) is not None
    with pytest.raises(UnknownName, match="was used already"):
        approvals.decide("a", approved=True, by="local", way="page")


def test_an_approval_expires() -> None:
    clock = Clock()
    approvals = Approvals(clock)
    approvals.ask(wanted(clock, binding(), "a"))
    approvals.decide("a", approved=True, by="local", way="page")
    clock.now += LIFE
    assert approvals.claim(binding()) is None
    with pytest.raises(UnknownName, match="has expired"):
        approvals.decide("a", approved=True, by="local", way="page")


@pytest.mark.parametrize(("holder", "most"), [("local", MOST), ("key:a", MOST_OF_ONE)])
def test_so_many_calls_of_one_caller_wait_and_no_more(holder: str, most: int) -> None:
    clock = Clock()
    approvals = Approvals(clock)
    for number in range(most):
        approvals.ask(wanted(clock, binding(holder, str(number)), f"id-{number}"))
    with pytest.raises(Forbidden, match=f"Too many calls wait for an approval \\({most}\\)"):
        approvals.ask(wanted(clock, binding(holder, "one more"), "more"))


def test_a_reason_outlives_the_hub_in_every_language() -> None:
    verdict = CallVerdict("ask", "confirm", Message("{server!n} wants {count} things.", server="up", count=3))
    assert ApprovalReason.of(verdict).message == verdict.reason

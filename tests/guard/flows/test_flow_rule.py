"""The rule of flows: what it asks about, what it refuses, and what a person lets pass."""

from __future__ import annotations

import pytest
from msgspec import structs

from tabane.guard.flows.flow_rule import FlowPolicy, FlowRule, broken_rule, trail_key
from tabane.guard.flows.trails import IDLE, Trails
from tabane.operations import Caller, CallTarget, Face
from tabane.servers.labels import (
    DESTRUCTIVE,
    EXTERNAL,
    NO_LABELS,
    PRIVATE,
    UNTRUSTED,
    CallLabels,
    label_bits,
)
from tests.harness.identities import GivenAccess

CALLER = Caller("local", Face.MCP, "1", client="claude", cwd="/work")
APPROVED = structs.replace(CALLER, approval="a person")

LABELS = {
    "mail__read": PRIVATE | UNTRUSTED,
    "mail__send": EXTERNAL | DESTRUCTIVE,
    "web__fetch": UNTRUSTED | EXTERNAL,
    "files__read": PRIVATE,
    "files__delete": DESTRUCTIVE,
    "calendar__create": EXTERNAL,
}


class Policy:
    """A rule over those tools."""

    def __init__(self, policy: FlowPolicy = "ask") -> None:
        self.allowed: set[str] = set()
        self.rule = FlowRule(
            policy, Trails(lambda: 1000.0), self.labels, lambda holder: self.allowed, lambda trail: None
        )

    def labels(self, target: CallTarget) -> CallLabels:
        given = ("attendees",) if target.name == "calendar__create" else ()
        return NO_LABELS.with_labels(LABELS.get(target.name, 0), "settings", given)

    def read(self, *names: str, caller: Caller = CALLER) -> None:
        for name in names:
            self.rule.answered(caller, target(name))

    def said(self, name: str, arguments: bytes = b"{}", caller: Caller = CALLER) -> str:
        verdict = self.rule.verdict(caller, target(name), arguments)
        return "" if verdict is None else f"{verdict.action} {verdict.pairs[0]}"


def target(name: str) -> CallTarget:
    server = name.partition("__")[0] if "__" in name else ""
    return CallTarget(name, server, source="" if server else "documents")


@pytest.mark.parametrize(
    ("read", "call", "ask", "strict"),
    [
        ("private untrusted", "external", "private-leaves", "private-leaves"),
        ("untrusted", "destructive", "untrusted-acts", "untrusted-acts"),
        ("untrusted", "external", None, "untrusted-leaves"),
        ("private", "external", None, None),
        ("private", "destructive", None, None),
        ("", "external destructive", None, None),
        ("private untrusted", "", None, None),
        ("private untrusted", "external destructive", "private-leaves", "private-leaves"),
    ],
)
def test_the_rules(read: str, call: str, ask: str | None, strict: str | None) -> None:
    before, labels = label_bits(read.split()), label_bits(call.split())
    assert broken_rule("ask", before, labels) == ask
    assert broken_rule("strict", before, labels) == strict
    assert broken_rule("off", before, labels) is None


def test_a_call_is_asked_about_after_what_must_not_come_before_it() -> None:
    policy = Policy()
    assert policy.said("mail__send") == ""
    policy.read("mail__read")
    assert policy.said("mail__send") == "ask mail>mail"
    assert policy.said("files__delete") == "ask mail>files"


def test_strict_refuses_and_asks_about_anything_that_leaves() -> None:
    policy = Policy("strict")
    policy.read("web__fetch")
    assert policy.said("web__fetch") == "ask web>web"
    assert policy.said("files__delete") == "refuse web>files"


def test_a_pair_that_was_approved_is_not_asked_about_again_in_the_trail() -> None:
    policy = Policy()
    policy.read("mail__read")
    assert policy.said("mail__send")
    policy.read("mail__send", caller=APPROVED)
    assert policy.said("mail__send") == ""
    assert policy.said("files__delete") == "ask mail>files"
    other = structs.replace(CALLER, client="cursor")
    policy.read("mail__read", caller=other)
    assert policy.said("mail__send", caller=other) == "ask mail>mail"


def test_an_approval_of_one_call_does_not_let_another_pass_that_was_asked_about() -> None:
    policy = Policy()
    policy.read("mail__read")
    assert policy.said("files__delete")
    assert policy.said("mail__send")
    policy.read("mail__send", caller=APPROVED)
    assert policy.said("files__delete") == "ask mail>files"
    assert policy.said("mail__send") == ""


def test_an_approval_of_another_rule_lets_nothing_pass() -> None:
    policy = Policy()
    policy.read("mail__read")
    policy.read("mail__send", caller=APPROVED)  # nobody was asked about the flow
    assert policy.said("mail__send") == "ask mail>mail"


def test_a_new_source_is_asked_about_although_another_was_approved() -> None:
    policy = Policy()
    policy.read("mail__read")
    assert policy.said("mail__send")
    policy.read("mail__send", caller=APPROVED)
    policy.read("web__fetch")
    assert policy.said("mail__send") == "ask web>mail"


def test_an_allowed_pair_is_not_asked_about() -> None:
    policy = Policy()
    policy.read("mail__read")
    policy.allowed.add("mail>mail")
    assert policy.said("mail__send") == ""
    assert policy.said("files__delete") == "ask mail>files"


def test_an_event_without_guests_leaves_the_machine_for_nobody() -> None:
    policy = Policy()
    policy.read("mail__read")
    assert policy.said("calendar__create", b'{"title":"x","attendees":[]}') == ""
    assert policy.said("calendar__create", b'{"title":"x"}') == ""
    assert policy.said("calendar__create", b'{"attendees":["a@b"]}') == "ask mail>calendar"
    assert policy.said("calendar__create", b"no JSON") == "ask mail>calendar"
    assert policy.said("calendar__create", b"[" * 300_000) == "ask mail>calendar"


def test_another_holder_client_or_folder_has_another_trail() -> None:
    policy = Policy()
    policy.read("mail__read")
    for other in (structs.replace(CALLER, client="cursor"), structs.replace(CALLER, cwd="/other")):
        assert policy.said("mail__send", caller=other) == ""
    assert policy.said("mail__send", caller=structs.replace(CALLER, session="2", pid=7)) == "ask mail>mail"


def test_a_person_at_the_web_page_is_not_judged() -> None:
    policy = Policy()
    person = structs.replace(CALLER, face=Face.WEB)
    policy.read("mail__read", caller=person)
    policy.read("mail__read")
    assert policy.said("mail__send", caller=person) == ""


def test_the_reason_names_what_was_read_and_how_to_allow_it() -> None:
    policy = Policy()
    policy.read("files__read", "web__fetch")
    verdict = policy.rule.verdict(CALLER, target("mail__send"), b"{}")
    assert verdict is not None
    text = str(verdict.reason)
    assert "web__fetch" in text
    assert "files__read" in text
    assert text.endswith("tabane policy allow 'web>mail'.")


def test_the_reason_of_a_key_allows_the_pair_for_that_key() -> None:
    policy = Policy()
    caller = structs.replace(CALLER, access=GivenAccess("key:a1b2"))
    policy.read("files__read", "web__fetch", caller=caller)
    for action in ("mail__send", "files__delete"):
        verdict = policy.rule.verdict(caller, target(action), b"{}")
        assert verdict is not None
        for lang in ("en", "ja"):
            said = verdict.reason.render(lang)
            assert f"tabane policy allow '{verdict.pairs[0]}' --holder key:a1b2" in said, said


def test_a_call_that_repeats_the_last_one_is_noted_again_once_the_trail_was_forgotten() -> None:
    policy, read = Policy(), target("mail__read")
    for _ in range(2):
        policy.rule.answered(CALLER, read)
    assert policy.said("mail__send") != ""
    policy.rule.trails.forget(lambda key: True)
    policy.rule.forget()
    assert policy.said("mail__send") == ""
    policy.rule.answered(CALLER, read)
    assert policy.said("mail__send") != ""


def test_a_call_that_repeats_the_last_one_keeps_its_trail() -> None:
    now = [1000.0]
    policy, read = Policy(), target("mail__read")
    policy.rule.trails = Trails(lambda: now[0])
    policy.rule.answered(CALLER, read)
    for _ in range(5):
        now[0] += IDLE - 1
        policy.rule.answered(CALLER, read)
    assert policy.said("mail__send") != ""


def test_calls_that_take_turns_are_noted_each() -> None:
    policy = Policy()
    other = structs.replace(CALLER, client="codex")
    mail, files = target("mail__read"), target("files__read")
    for caller, read in ((CALLER, files), (other, mail), (CALLER, mail), (other, files)):
        policy.rule.answered(caller, read)
    for caller in (CALLER, other):
        assert policy.said("mail__send", caller=caller) != ""
        assert len(policy.rule.trails.use(trail_key(caller)).private) == 2

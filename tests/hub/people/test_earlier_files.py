"""Files of guards in a home as Tabane 0.22.0 wrote them: what they say counts, and none of it is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabane.guard.approvals.letter import WHOLE, EarlierDecisions, letter_of, letter_text
from tabane.guard.flows.tool_roles import role_of_parameter
from tabane.hub.people.approvals.desk import ApprovalFile
from tabane.hub.people.approvals.past_decisions import PastDecisions, changed_fields
from tabane.hub.people.flows.flow_files import PairFile, TrailFile
from tabane.messages import Lang
from tabane.servers.labels import PRIVATE, UNTRUSTED

WRITTEN = json.loads(Path(__file__).with_name("files_of_0_22_0.json").read_text())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, value in WRITTEN.items():
        lines = value if name.endswith(".jsonl") else [value]
        path = tmp_path / name
        path.write_text("\n".join(map(json.dumps, lines)))
        path.chmod(0o600)
    return tmp_path


def test_a_pair_stays_beside_a_new_permission(home: Path) -> None:
    assert PairFile(home).allow("local", "mail__send_email>bob@example.com")
    assert PairFile(home).all() == {"local": {"mail>files", "mail__send_email>bob@example.com"}}
    assert PairFile(home).disallow("local", "mail>files")
    assert PairFile(home).of("local") == {"mail__send_email>bob@example.com"}


def test_a_trail_keeps_its_labels_and_sources(home: Path) -> None:
    trail = TrailFile(home).read()[-1]
    assert (trail.key.client, trail.key.folder) == ("test", "/home/ada/letters")
    assert trail.labels == PRIVATE | UNTRUSTED
    assert trail.private == trail.untrusted == {"mail": "mail__read_inbox"}


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_a_call_that_waits_is_a_letter_with_the_reason_that_it_had(home: Path, lang: Lang) -> None:
    """A hub of a group reads the same from the database."""
    asked, approved, refused = ApprovalFile(home).read()
    assert [one.state for one in (asked, approved, refused)] == ["open", "approved", "refused"]
    assert {one.targets for one in (asked, approved, refused)} == {()}
    letter = letter_of(asked, EarlierDecisions(), lang, WHOLE, asked.asked, role_of_parameter)
    text = letter_text(letter, lang, 100)
    assert "ada@example.com" in letter.sentence
    assert "mail__read_inbox" in text
    assert "waits for a person" in text
    assert letter.whole


def test_decisions_are_counted_and_their_calls_compared(home: Path) -> None:
    past = PastDecisions(home).of("mail__send_email")
    assert (past.approved, past.refused) == (1, 1)
    _, approved, refused = ApprovalFile(home).read()
    assert changed_fields(past, approved.arguments) == []
    assert changed_fields(past, refused.arguments) == ["to", "body"]

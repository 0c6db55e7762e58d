"""The states of servers have one word each, in both languages, everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabane.cli.output import ServerState, state_word
from tabane.messages import Lang
from tabane.messages.server_states import SERVER_STATES, state_of_row, words_of_state
from tabane.upstreams.connection import UpstreamState

ROOT = Path(__file__).parents[2]
OLD = (
    "circuit open",
    "failing",
    "Paused after failures",
    "Not started",
    "not started yet",
    "Restarting soon",
)


def test_every_state_has_words() -> None:
    others = {"disabled", "unable", "enabled"}
    assert SERVER_STATES.keys() == {state.value for state in UpstreamState} | others
    words = [each.words.render("en") for each in SERVER_STATES.values()]
    assert len(set(words)) == len(words)
    assert words_of_state("of a later version").words.render("en") == "of a later version"


@pytest.mark.parametrize(("page", "lang"), [("servers.md", "en"), ("servers.ja.md", "ja")])
def test_the_documents_have_the_same_words(page: str, lang: Lang) -> None:
    text = (ROOT / "docs" / page).read_text()
    for state, words in SERVER_STATES.items():
        value = "" if state == "unable" else f"`{state}`"
        assert re.search(rf"^\| {re.escape(words.words.render(lang))} \| {value} \|", text, re.MULTILINE), (
            state
        )


def test_no_part_of_tabane_has_words_of_its_own() -> None:
    for path in (ROOT / "src" / "tabane").rglob("*.*"):
        if path.suffix in (".py", ".html"):
            said = re.findall(r'say\("([^"]*)"\)', path.read_text())
            assert not set(OLD) & set(said), path


def test_a_server_that_cannot_start_is_shown_as_such() -> None:
    assert state_of_row({"state": "idle", "healthy": False, "switched_off": False}) == "unable"
    assert state_of_row({"state": "disabled", "healthy": True, "switched_off": False}) == "unable"
    assert state_of_row({"state": "disabled", "healthy": True, "switched_off": True}) == "disabled"


def test_a_job_that_waits_is_no_server_that_restarts() -> None:
    assert str(state_word("waiting")) == "waiting"
    assert words_of_state(ServerState("waiting")).words.render("en") == "restarting soon"

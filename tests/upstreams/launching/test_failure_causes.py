"""What failed starts wrote, and the cause and fix that are read from it.

``failed_starts.json`` has the output of real programs: launchers against a registry that refuses, real
servers without their keys, and small programs in Python, Node and sh. Hosts and paths are replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.messages import say
from tabane.upstreams.launching.failure_causes import (
    MOST_CHARACTERS,
    FailedStart,
    cause_in,
    failed_start,
    failure_cause,
)
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

STARTS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "failed_starts.json").read_text("utf-8"))
ENDED = say("it ended with exit status {code}", code=1)


@pytest.mark.parametrize("start", STARTS, ids=[start["name"] for start in STARTS])
def test_the_kind_of_a_real_failure_is_recognized(start: dict[str, Any]) -> None:
    command, *args = start["argv"]
    found = failure_cause("notes", command, args, start["stderr"], start["stdout"])
    assert (found.kind if found else "-") == start["kind"], found


def told(*lines: str, command: str = "notes-server", args: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return kind, line and fix in English."""
    found = failure_cause("notes", command, args, lines)
    assert found is not None
    return found.kind, found.line, str(found.fix or "")


def test_a_missing_variable_is_named_with_the_commands_that_set_it() -> None:
    kind, line, fix = told("ValueError: NOTES_API_KEY environment variable is required")
    assert (kind, line) == ("variable", "ValueError: NOTES_API_KEY environment variable is required")
    assert "tabane secrets set NOTES_API_KEY" in fix
    assert '"env": {"NOTES_API_KEY": "${NOTES_API_KEY}"}' in fix


@pytest.mark.parametrize("line", CASES["many_ways_to_ask_for_a_variable_are_understood"])
def test_many_ways_to_ask_for_a_variable_are_understood(line: str) -> None:
    kind, _, fix = told("Starting", line)
    assert kind == "variable"
    assert "tabane secrets set GITHUB_PERSONAL_ACCESS_TOKEN" in fix


def test_a_field_of_pydantic_settings_is_a_variable() -> None:
    kind, line, fix = told(
        "Traceback (most recent call last):",
        '  File "/srv/notes.py", line 3, in <module>',
        "    Settings()",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings",
        "api_key",
        "  Field required [type=missing, input_value={}, input_type=dict]",
        "    For further information visit https://errors.example/v/missing",
    )
    assert (kind, line.split(":")[0]) == ("variable", "api_key")
    assert "API_KEY" in fix


@pytest.mark.parametrize(
    ("command", "line", "variable"), CASES["an_unknown_authority_names_the_variable_of_that_program"]
)
def test_an_unknown_authority_names_the_variable_of_that_program(
    command: str, line: str, variable: str
) -> None:
    kind, _, fix = told(line, command=command)
    assert kind == "tls"
    assert variable in fix


@pytest.mark.parametrize(("line", "kind"), CASES["failures_of_docker_are_told_apart"])
def test_failures_of_docker_are_told_apart(line: str, kind: str) -> None:
    assert told(line, command="docker", args=("run", "-i", "acme/notes"))[0] == kind


def test_a_program_that_npx_should_have_installed_means_a_broken_cache() -> None:
    asked = ("-y", "@acme/notes")
    assert told("sh: 1: notes: not found", command="npx", args=asked)[0] == "cache"
    assert told("sh: 1: node: not found", command="npx", args=asked)[0] == "program"


def test_lines_that_only_mention_a_word_do_not_decide() -> None:
    kind, line, fix = told(
        "INFO loading the certificate store",
        "warning: OPTIONAL_KEY is not set, using default",
        "DEBUG connect ECONNREFUSED 127.0.0.1:9, trying the next",
        "certificate renewed, token refreshed",
        "RuntimeError: the index is from another version",
    )
    assert (kind, line) == ("error", "RuntimeError: the index is from another version")
    assert "tabane servers logs notes" in fix
    # the port is that of another program, not of the server
    assert told('FATAL: no database "inventory" (is PostgreSQL running on port 5433?)')[0] == "error"


def test_the_last_of_several_causes_counts() -> None:
    assert told("CACHE_FOLDER is not set", "OSError: [Errno 98] Address already in use")[0] == "port"


def test_untrusted_text_is_stripped_of_what_could_deceive_and_cut() -> None:
    found = failed_start(
        ENDED, "notes", "notes", (), ["Error: \x1b[31m\u202eNOTES_KEY is missing\u2066\x07 " + "x" * 5000], ()
    )
    assert isinstance(found, FailedStart)
    assert found.cause.line.startswith("Error: NOTES_KEY is missing xxx")
    assert len(found.cause.line) == MOST_CHARACTERS
    assert not set(str(found) + found.tail) & set("\x1b\u202e\u2066\x07")


def test_a_password_in_a_url_is_hidden() -> None:
    line = told("Error: cannot reach https://hana:secret@registry.example/simple")[1]
    assert line == "Error: cannot reach https://***@registry.example/simple"


def test_no_output_leaves_how_it_ended() -> None:
    assert failed_start(ENDED, "notes", "notes", (), ["", "  "], ()) == ENDED


def test_a_cause_is_found_in_the_message_around_it_and_said_in_japanese() -> None:
    why = failed_start(ENDED, "notes", "notes", (), ["NOTES_KEY is not set"], ())
    around = say("{server} does not work: {why}", server="notes", why=why)
    assert cause_in(around) is why
    assert cause_in(ENDED) is None
    assert str(why).startswith("NOTES_KEY is not set (it ended with exit status 1). It needs the variable")
    assert "tabane secrets set NOTES_KEY" in why.render("ja")
    assert why.render("ja") != why.render("en")


@given(st.lists(st.text(max_size=400), max_size=60))
def test_any_output_is_read(lines: list[str]) -> None:
    found = failure_cause("notes", "npx", ("-y", "notes"), lines)
    assert found is None or 0 < len(found.line) <= 2 * MOST_CHARACTERS + 2

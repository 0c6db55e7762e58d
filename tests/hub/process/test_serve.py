"""Flags of a hub's process, and which hub it replaces."""

from __future__ import annotations

import pytest

from tabane.errors import CallerError
from tabane.hub.bridge import mcp_command
from tabane.hub.local import connector
from tabane.hub.local.connector import LaunchOutcome
from tabane.hub.local.lock import BRIDGE, HAND, STANDALONE, LockHolder
from tabane.hub.process.daemon import LaunchOrigin
from tabane.hub.process.serve import inherited
from tabane.settings import load_settings
from tabane.settings.sources import flags_of


def test_the_flags_of_settings_are_read_back() -> None:
    given = {"lang": "ja", "grace": 2.5, "keyring": False, "log_size": 1 << 20}
    settings = load_settings(given, {"TABANE_HOME": "/x", "HOME": "/y"})
    again = load_settings(flags_of(settings.as_flags()), {"TABANE_HOME": "/x", "HOME": "/y"})
    assert again == settings


@pytest.mark.parametrize("flag", ["--nope=1", "lang=ja", "--lang", "--no-lang", "--no-keyring=1", ""])
def test_a_flag_that_is_none_is_refused(flag: str) -> None:
    with pytest.raises(CallerError):
        flags_of([flag])


def holder(started_by: str, ended: str | None, *flags: str) -> LockHolder:
    return LockHolder(1, "1", started_by, flags, ended=ended)


@pytest.mark.parametrize(
    ("last", "started_by", "flags"),
    [
        (None, BRIDGE, ("--lang=en",)),
        (holder(HAND, "stop", "--grace=1"), BRIDGE, ("--lang=en",)),
        (holder(HAND, "idle", "--grace=1"), BRIDGE, ("--lang=en",)),
        (holder(STANDALONE, None, "--grace=1"), BRIDGE, ("--lang=en",)),
        (holder(HAND, None, "--grace=1"), HAND, ("--grace=1", "--lang=en")),
        (holder(HAND, "restart", "--lang=ja", "--grace=1"), HAND, ("--lang=en", "--grace=1")),
        (holder(BRIDGE, "replace", "--lang=en"), BRIDGE, ("--lang=en",)),
    ],
)
def test_a_hub_stands_in_for_one_that_did_not_mean_to_end(
    last: LockHolder | None, started_by: str, flags: tuple[str, ...]
) -> None:
    origin = inherited(LaunchOrigin(BRIDGE, ["--lang=en"]), last)
    assert (origin.started_by, origin.flags) == (started_by, flags)


def test_a_hub_started_by_hand_stands_in_for_nobody() -> None:
    origin = inherited(LaunchOrigin(HAND, []), holder(BRIDGE, None, "--grace=1"))
    assert (origin.started_by, origin.flags) == (HAND, ())


def test_how_a_start_went_is_told_through_the_pipe() -> None:
    for outcome in (
        LaunchOutcome(connector.READY, {}, 7),
        LaunchOutcome(connector.FAILED, {"en": "no", "ja": "否"}),
    ):
        assert connector.read_outcome(outcome.encode()) == outcome


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b'{"state": "ready"}', b"null", b"\xff"])
def test_a_hub_that_says_nothing_readable_has_failed(said: bytes) -> None:
    assert connector.read_outcome(said) == LaunchOutcome(connector.FAILED, {})


def test_the_arguments_of_mcp() -> None:
    request = mcp_command.parse_arguments(
        ["--mode", "full", "--servers=/s.json", "--home", "/h"], {"TABANE_MODE": "light"}
    )
    assert request == mcp_command.BridgeOptions(
        "full", "", "/s.json", "/h", None, False, ("--home=/h", "--servers=/s.json")
    )
    assert mcp_command.parse_arguments(
        [], {"TABANE_SERVERS": "/t.json", "TABANE_MODE": "light"}
    ) == mcp_command.BridgeOptions("light", "", "/t.json", None, None, False, ())
    alone = mcp_command.parse_arguments(["--standalone", "--websocket", "unix:/h"], {})
    assert alone is not None
    assert (alone.standalone, alone.url) == (True, "unix:/h")
    work = mcp_command.parse_arguments(["--profile", "work"], {"TABANE_PROFILE": "home"})
    assert work is not None
    assert work.profile == "work"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--mode"], ["--mode=loud"], ["--standalone=1"], ["x"], ["--servers"], ["--bogus", "1"]],
)
def test_arguments_that_mcp_does_not_understand_are_left_to_the_command_line(arguments: list[str]) -> None:
    assert mcp_command.parse_arguments(arguments, {}) is None

"""`tabane servers add` tests a server before it saves it: real processes, with and without a hub."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import CHILD, Home, hub
from tests.harness.patience import LONG, wait_until
from tests.harness.ports import reserved_port
from tests.harness.servers.raw_http import legacy, serving

COMMAND = (sys.executable, str(CHILD))


@pytest.fixture(params=["without a hub", "with a hub"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    if request.param == "without a hub":
        yield home
    else:
        with hub(home):
            yield home


def test_a_server_that_works_is_kept_after_its_tools_were_shown(home: Home) -> None:
    added = home.run("servers", "add", "clock", "--", *COMMAND, "--name", "Clock")
    assert added.status == 0, added.err
    lines = added.out.splitlines()
    assert lines[0].startswith("Clock works and has ")
    assert any(line.startswith("  clock__echo(text?: string)") for line in lines)
    assert lines[-1] == f"Added clock to {home.servers}."
    assert home.read_servers() == {"clock": {"command": COMMAND[0], "args": [COMMAND[1], "--name", "Clock"]}}


def test_the_first_search_finds_its_tools_without_starting_it_again(home: Home, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    added = home.run("servers", "add", "clock", "--", *COMMAND, "--pids", str(starts))
    assert added.status == 0, added.err
    before = starts.read_text()
    with contextlib.ExitStack() as running:
        if not (home.tabane / "hub.sock").exists():
            running.enter_context(hub(home))
        deadline = time.monotonic() + LONG
        found = home.run("tools", "search", "echo", "--json").json
        while not found["results"] and time.monotonic() < deadline:  # the file is read again in a moment
            found = home.run("tools", "search", "echo", "--json").json
        assert found["results"][0]["name"] == "clock__echo"
        assert starts.read_text() == before
        assert home.run("tools", "call", "clock__echo", "text=hello").status == 0
        assert starts.read_text() != before


def test_a_program_is_told_the_tools_as_json(home: Home) -> None:
    added = home.run("servers", "add", "--json", "clock", "--", *COMMAND).json
    assert (added["status"], added["works"], added["about"]) == ("added", True, "child")
    assert added["tools"][0].startswith("clock__echo(")


def test_what_does_not_work_is_not_kept_and_says_why(home: Home) -> None:
    failed = home.run("servers", "add", "bad", "--", *COMMAND, "--exit", "3", "--stderr", "no such token")
    assert (failed.status, failed.out) == (1, "")
    assert "exit status 3" in failed.err
    assert "no such token" in failed.err
    assert "--force" in failed.err
    assert not home.servers.exists()


def test_the_line_that_says_why_comes_first_then_the_fix_then_the_rest(home: Home) -> None:
    said = "Loading plugins\\nError: NOTES_API_KEY is not set".replace("\\n", "\n")
    failed = home.run("servers", "add", "bad", "--", *COMMAND, "--exit", "1", "--stderr", said)
    places = [
        failed.err.index(words)
        for words in (
            "Error: NOTES_API_KEY is not set",
            "tabane secrets set NOTES_API_KEY",
            "Loading plugins",
        )
    ]
    assert failed.status == 1
    assert places == sorted(places), failed.err


def test_a_secret_in_what_it_says_as_it_fails_is_hidden(home: Home) -> None:
    secret = "sk-0123456789abcdef"
    failed = home.run(
        *("servers", "add", "bad", "--env", f"API_KEY={secret}", "--"),
        *(*COMMAND, "--exit", "3", "--stderr", f"refused: {secret}"),
    )
    assert failed.status == 1
    assert "refused: ***" in failed.err
    assert secret not in failed.err + failed.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--", "/nonexistent/server"], "/nonexistent/server"),
        (["--env", "NOWHERE", "--", *COMMAND], "NOWHERE"),
    ],
)
def test_what_cannot_be_started_is_not_kept(home: Home, options: list[str], words: str) -> None:
    failed = home.run("servers", "add", "bad", *options)
    assert (failed.status, failed.out) == (1, "")
    assert words in failed.err
    assert not home.servers.exists()


def test_force_keeps_what_does_not_work_and_still_says_why(home: Home) -> None:
    added = home.run("servers", "add", "--force", "bad", "--", *COMMAND, "--exit", "3")
    assert added.status == 0
    assert "exit status 3" in added.err
    assert list(home.read_servers()) == ["bad"]


def test_a_server_that_ends_at_a_question_of_another_era_is_given_a_second_chance(home: Home) -> None:
    added = home.run("servers", "add", "old", "--", *COMMAND, "--discover", "exit")
    assert added.status == 0, added.err
    assert "child works" in added.out


def test_nothing_of_a_server_that_was_tried_runs_on(home: Home, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    options = ("--pids", str(pids), "--grandchildren", "group,session", "--ignore-eof")
    added = home.run("servers", "add", "a", "--", *COMMAND, *options)
    assert added.status == 0, added.err
    home.run("servers", "disable", "a")  # a hub that follows the file is not to start it
    tried = [int(line.split()[1]) for line in pids.read_text().splitlines()[:3]]
    assert len(tried) == 3
    wait_until(lambda: not [pid for pid in tried if alive(pid)], "what was tried has ended")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_taken_name_is_told_before_anything_is_started(home: Home, tmp_path: Path) -> None:
    home.write_servers({"a": {"command": "x", "enabled": False}})
    pids = tmp_path / "pids"
    failed = home.run("servers", "add", "a", "--", *COMMAND, "--pids", str(pids))
    assert failed.status == 2
    assert not pids.exists()


def test_a_command_may_be_given_in_one_piece(home: Home) -> None:
    added = home.run("servers", "add", "a", " ".join(COMMAND) + " --name 'My clock'")
    assert added.status == 0, added.err
    assert "My clock works" in added.out
    assert home.read_servers()["a"]["args"] == [COMMAND[1], "--name", "My clock"]


def test_a_url_is_tried_like_a_command(home: Home) -> None:
    with serving(legacy) as server:
        added = home.run("servers", "add", "docs", server.url, "--header", "A=Bearer ${HOME}")
    assert added.status == 0, added.err
    assert "raw works and has 2 tools" in added.out
    assert home.read_servers()["docs"] == {
        "type": "http",
        "url": server.url,
        "headers": {"A": "Bearer ${HOME}"},
    }


def test_a_url_that_nobody_answers_at_is_not_kept(home: Home) -> None:
    url = f"http://127.0.0.1:{reserved_port(home)}/mcp"
    failed = home.run("servers", "add", "docs", url)
    assert failed.status == 1
    assert "cannot be reached: Connection refused" in failed.err
    assert not home.servers.exists()


def test_a_server_of_a_folder_is_tried_in_the_folder_of_the_user(home: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    given = ("servers", "add", "a", "--cwd", "${workspaceFolder}", "--", *COMMAND)
    assert home.run(*given, cwd=work).status == 0
    assert home.read_servers()["a"]["cwd"] == "${workspaceFolder}"


def test_the_settings_file_that_is_named_is_the_one_that_counts(tmp_path: Path) -> None:
    home, other = Home(tmp_path), tmp_path / "other.json"
    settings = tmp_path / "mine.toml"
    settings.write_text(f'servers = "{other}"\n')
    settings.chmod(0o600)
    added = home.run("servers", "add", "--config", str(settings), "a", "--", *COMMAND)
    assert added.status == 0, added.err
    assert '"a"' in other.read_text()


@pytest.mark.parametrize("option", ["--env", "--env=K=V", "--no-try"])
def test_an_option_after_the_command_is_never_given_to_the_server_silently(
    tmp_path: Path, option: str
) -> None:
    home = Home(tmp_path)
    done = home.run("servers", "add", "t", "uvx", "x", option, "K=V")
    assert done.status == 2
    assert option.partition("=")[0] in done.err
    assert "uvx" in done.err
    assert not home.servers.exists()
    assert home.run("servers", "add", "--no-try", "t", "--", "uvx", "x", option).status == 0
    assert home.read_servers() == {"t": {"command": "uvx", "args": ["x", option]}}

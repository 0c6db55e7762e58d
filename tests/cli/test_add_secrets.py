"""Keys that `tabane servers add` is given become secrets, and the server gets their values all the same."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_find_servers import registry, runnable  # noqa: F401
from tests.cli.test_secrets import KEYRING
from tests.harness.home import CHILD, Home, hub
from tests.harness.mcp_registry import LocalRegistry, entry, npm
from tests.harness.patience import LONG, wait_until
from tests.harness.servers.raw_http import legacy, serving
from tests.harness.terminal import on_terminal

COMMAND = (sys.executable, str(CHILD))
KEY = "sk-0123456789abcdef"


def added(home: Home, *options: str, name: str = "clock", **environment: str) -> Any:
    return home.run("servers", "add", name, *options, "--", *COMMAND, environment=environment).succeeded


def secrets(home: Home) -> dict[str, str]:
    """Return the content of secrets.env, whose values of the tests need no quotes."""
    file = home.tabane / "secrets.env"
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.split("=", 1) for line in lines)


def is_loaded(home: Home, server: str) -> bool:
    rows = {row["name"]: row["state"] for row in home.json("servers", "list")["results"]}
    return bool(rows[server] != "not loaded")


def environment_of(home: Home, server: str) -> dict[str, str]:
    """Return the environment in which the hub runs a server. It reads a changed file within a moment."""
    wait_until(lambda: is_loaded(home, server), f"the hub knows {server}")
    said = home.run("tools", "call", f"{server}__environment", "--json").succeeded.json
    found: dict[str, str] = json.loads(said["content"][0]["text"])
    return found


@pytest.mark.heavy("real commands, a hub and servers")
@pytest.mark.parametrize("running", [False, True], ids=["without a hub", "with a hub"])
def test_a_key_is_kept_as_a_secret_and_the_server_gets_its_value(home: Home, running: bool) -> None:
    options = ("--env", f"API_KEY={KEY}", "--env", "LEVEL=debug")
    if running:
        with hub(home):
            done = added(home, *options)
            assert environment_of(home, "clock")["API_KEY"] == KEY
    else:
        done = added(home, *options)
        with hub(home):
            assert environment_of(home, "clock")["API_KEY"] == KEY
    assert home.read_servers()["clock"]["env"] == {"API_KEY": "${API_KEY}", "LEVEL": "debug"}
    assert secrets(home) == {"API_KEY": KEY}
    assert stat.S_IMODE((home.tabane / "secrets.env").stat().st_mode) == 0o600
    assert "API_KEY" in done.err
    assert "--plain" in done.err
    assert KEY not in done.out + done.err + home.servers.read_text()


def test_the_test_of_the_server_has_the_value_before_it_is_kept(home: Home, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = tmp_path / "server.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"kept = pathlib.Path({str(home.tabane / 'secrets.env')!r}).exists()\n"
        f"pathlib.Path({str(seen)!r}).write_text(os.environ['API_KEY'] + f' {{kept}}')\n"
        f"os.execv(sys.executable, [sys.executable, {str(CHILD)!r}])\n"
    )
    done = home.run("servers", "add", "x", "--env", f"API_KEY={KEY}", "--", sys.executable, str(script))
    assert done.status == 0, done.err
    assert seen.read_text() == f"{KEY} False"


def test_a_key_is_recognized_by_its_form_and_in_arguments(home: Home) -> None:
    done = home.run(
        *("servers", "add", "db", "--no-try", "--env", "DATABASE_URL=postgres://me:hunter22@db/x", "--"),
        *("db-server", "--token", KEY),
    ).succeeded
    assert home.read_servers()["db"] == {
        "command": "db-server",
        "args": ["--token", "${DB_TOKEN}"],
        "env": {"DATABASE_URL": "${DATABASE_URL}"},
    }
    assert secrets(home) == {"DB_TOKEN": KEY, "DATABASE_URL": "postgres://me:hunter22@db/x"}
    assert KEY not in done.out + done.err


@pytest.mark.parametrize("given", ["Authorization: Bearer {}", "Authorization=Bearer {}"])
def test_a_header_keeps_its_scheme_and_is_sent_with_the_value(home: Home, given: str) -> None:
    with serving(legacy) as server:
        done = home.run("servers", "add", "docs", server.url, "--header", given.format(KEY)).succeeded
    assert home.read_servers()["docs"]["headers"] == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert secrets(home) == {"DOCS_TOKEN": KEY}
    assert {request.headers.get("authorization") for request in server.requests} == {f"Bearer {KEY}"}
    assert KEY not in done.out + done.err


def test_with_plain_the_value_is_written_as_it_is(home: Home) -> None:
    done = added(home, "--plain", "--no-try", "--env", f"API_KEY={KEY}")
    assert home.read_servers()["clock"]["env"] == {"API_KEY": KEY}
    assert secrets(home) == {}
    assert KEY not in done.out + done.err


def test_a_reference_stays_and_is_never_made_a_secret(home: Home) -> None:
    added(home, "--no-try", "--env", "API_KEY=${OTHER}", "--env", "TOKEN")
    assert home.read_servers()["clock"]["env"] == {"API_KEY": "${OTHER}", "TOKEN": "${TOKEN}"}
    assert secrets(home) == {}


def test_a_name_is_shared_by_the_same_value_and_never_by_another(home: Home) -> None:
    for name, value in (("a", "k-1111"), ("b", "k-2222"), ("c", "k-1111"), ("b-2", "k-3333")):
        added(home, "--no-try", "--env", f"API_KEY={value}", name=name)
    used = {name: server["env"]["API_KEY"] for name, server in home.read_servers().items()}
    assert used == {"a": "${API_KEY}", "b": "${API_KEY_B}", "c": "${API_KEY}", "b-2": "${API_KEY_B_2}"}
    assert secrets(home) == {"API_KEY": "k-1111", "API_KEY_B": "k-2222", "API_KEY_B_2": "k-3333"}


def test_a_server_that_waits_for_a_variable_does_not_get_the_key_of_another(home: Home) -> None:
    home.write_servers({"waits": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}})
    added(home, "--no-try", "--env", f"API_KEY={KEY}")
    assert home.read_servers()["clock"]["env"] == {"API_KEY": "${API_KEY_CLOCK}"}


def test_nothing_is_kept_for_a_server_that_does_not_work(home: Home) -> None:
    failed = home.run(
        *("servers", "add", "bad", "--env", f"DATABASE_URL=postgres://me:{KEY}@db/x", "--"),
        *(*COMMAND, "--exit", "3", "--stderr", f"refused: postgres://me:{KEY}@db/x"),
    )
    assert failed.status == 1
    assert "refused: ***" in failed.err
    assert KEY not in failed.out + failed.err
    assert secrets(home) == {}
    assert not home.servers.exists()


def test_what_was_kept_is_removed_if_the_server_cannot_be_added(home: Home, tmp_path: Path) -> None:
    """The server itself changes the file while it is tested: then its name is taken."""
    home.write_servers({})
    script = tmp_path / "server.py"
    text = json.dumps({"mcpServers": {"x": {"command": "other"}}})
    script.write_text(
        "import os, pathlib, sys\n"
        f"pathlib.Path({str(home.servers)!r}).write_text({text!r})\n"
        f"os.execv(sys.executable, [sys.executable, {str(CHILD)!r}])\n"
    )
    failed = home.run("servers", "add", "x", "--env", f"API_KEY={KEY}", "--", sys.executable, str(script))
    assert failed.status == 2
    assert "already exists" in failed.err
    assert secrets(home) == {}


def test_a_file_that_is_edited_by_hand_is_told_without_the_value(home: Home) -> None:
    home.write_servers('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    failed = home.run("servers", "add", "b", "--env", f"API_KEY={KEY}", "--", *COMMAND)
    assert failed.status == 1
    assert '"b"' in failed.err
    assert KEY not in failed.out + failed.err


@pytest.mark.parametrize(
    ("typed", "value", "kept"), [("\n", "${API_KEY}", {"API_KEY": KEY}), ("n\n", KEY, {})]
)
def test_on_a_terminal_the_user_is_asked(home: Home, typed: str, value: str, kept: dict[str, str]) -> None:
    wanted = ("servers", "add", "clock", "--no-try", "--env", f"API_KEY={KEY}", "--", *COMMAND)
    done = home.converse(*wanted, typed=typed)
    assert done.status == 0, done.out
    assert "clock: env.API_KEY" in done.out
    assert "secrets.env" in done.out
    assert KEY not in done.out
    assert home.read_servers()["clock"]["env"] == {"API_KEY": value}
    assert secrets(home) == kept


def test_a_program_gets_the_names(home: Home) -> None:
    done = home.run("servers", "add", "--json", "clock", "--no-try", "--env", f"API_KEY={KEY}", "x").json
    assert done["secrets"] == ["API_KEY"]
    assert KEY not in json.dumps(done)


def test_the_first_search_finds_its_tools_without_starting_it_again(home: Home, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    options = ("--pids", str(starts))
    done = home.run(
        *("servers", "add", "clock", "--env", f"DATABASE_URL=postgres://me:{KEY}@db/x", "--"),
        *(*COMMAND, *options),
    )
    assert done.status == 0, done.err
    before = starts.read_text()
    with hub(home):
        assert home.json("tools", "search", "echo")["results"][0]["name"] == "clock__echo"
        assert starts.read_text() == before


def test_with_the_setting_the_key_is_in_the_keyring_alone(home: Home, tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    ring.mkdir()
    (ring / "keyring.py").write_text(KEYRING)
    environ = {"PYTHONPATH": str(ring), "TABANE_KEYRING": "true"}
    done = added(home, "--env", f"API_KEY={KEY}", **environ)
    assert "the system's keyring: API_KEY" in done.err
    assert secrets(home) == {}
    assert KEY in (ring / "ring.json").read_text()
    failed = home.run(
        *("servers", "add", "bad", "--env", "TOKEN=k-567890", "--", *COMMAND, "--exit", "3"),
        environment=environ,
    )
    assert failed.status == 1
    assert "k-567890" not in (ring / "ring.json").read_text()


WEATHER = {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True}


def test_a_given_secret_of_a_registry_server_is_kept(
    home: Home,
    registry: LocalRegistry,  # noqa: F811
    runnable: Path,  # noqa: F811
) -> None:
    extra = "OTHER_TOKEN=k-567890"
    done = home.run(
        *("servers", "add", "--from-registry", "io.github.acme/weather"),
        *("--env", f"WEATHER_KEY={KEY}", "--env", extra),
    ).succeeded
    assert home.read_servers()["weather"]["env"] == {
        "WEATHER_KEY": "${WEATHER_KEY}",
        "OTHER_TOKEN": "${OTHER_TOKEN}",
    }
    assert json.loads(runnable.read_text())["key"] == KEY
    assert secrets(home) == {"WEATHER_KEY": KEY, "OTHER_TOKEN": "k-567890"}
    assert KEY not in done.out + done.err


def test_a_secret_of_a_registry_server_is_asked_for_without_showing_it(
    home: Home,
    registry: LocalRegistry,  # noqa: F811
    runnable: Path,  # noqa: F811
) -> None:
    registry.entries[:] = [
        entry("io.github.acme/weather", packages=[npm("weather-mcp", environmentVariables=[WEATHER])])
    ]
    home.write_servers({"other": {"command": "x", "env": {"A": "${WEATHER_KEY}"}}})
    with on_terminal(home, "servers", "add", "--from-registry", "io.github.acme/weather") as terminal:
        terminal.answer("WEATHER_KEY:", KEY, hidden=True)
        terminal.answer("[Y/n]", "")
        terminal.end(LONG)
    assert terminal.process.returncode == 0, terminal.out
    assert KEY not in terminal.out
    assert home.read_servers()["weather"]["env"] == {"WEATHER_KEY": "${WEATHER_KEY_WEATHER}"}
    assert secrets(home) == {"WEATHER_KEY_WEATHER": KEY}
    assert json.loads(runnable.read_text())["key"] == KEY

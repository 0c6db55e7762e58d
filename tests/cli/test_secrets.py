"""`tabane secrets` keeps values outside the servers file, and never prints one."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from tests.harness.home import CHILD, Home, Outcome, hub
from tests.harness.patience import wait_until
from tests.harness.terminal import on_terminal

VALUE = "s3cret value # 1"

KEYRING = """
import json, os
from types import SimpleNamespace
class KeyringError(Exception): pass
errors = SimpleNamespace(KeyringError=KeyringError)
FILE = os.path.join(os.path.dirname(__file__), "ring.json")
def _all():
    return json.load(open(FILE)) if os.path.exists(FILE) else {}
def get_password(service, name): return _all().get(name)
def set_password(service, name, value): json.dump({**_all(), name: value}, open(FILE, "w"))
def delete_password(service, name):
    kept = _all(); del kept[name]; json.dump(kept, open(FILE, "w"))
"""


def given(home: Home, name: str, value: str, **environ: str) -> Outcome:
    """Run `tabane secrets set` with a value on standard input."""
    return home.run("secrets", "set", name, stdin=value, environment=environ)


def test_a_secret_is_kept_in_a_private_file_and_shown_by_name_only(home: Home) -> None:
    home.write_servers({"one": {"command": "x", "env": {"A": "${API_KEY}"}}, "two": {"command": "${OTHER}"}})
    done = given(home, "API_KEY", f"{VALUE}\n")
    assert (done.status, VALUE in done.out + done.err) == (0, False)
    file = home.tabane / "secrets.env"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert file.read_text() == f"API_KEY='{VALUE}'\n"
    listed = home.run("secrets", "list", "--json")
    assert listed.json["results"] == [
        {"name": "API_KEY", "place": "secrets.env", "used_by": ["one"]},
        {"name": "OTHER", "place": None, "used_by": ["two"]},
    ]
    assert VALUE not in listed.out


def test_a_value_of_the_servers_own_env_is_no_secret_that_is_missing(home: Home) -> None:
    env = {"AUTH": "Bearer ${TOKEN}", "PLACE": "${PLACE}"}
    home.write_servers({"one": {"command": "x", "args": ["--header", "A:${AUTH}", "${PLACE}"], "env": env}})
    rows = home.run("secrets", "list", "--json").json["results"]
    assert [row["name"] for row in rows] == ["PLACE", "TOKEN"]


def test_a_value_is_asked_for_and_not_shown(home: Home) -> None:
    with on_terminal(home, "secrets", "set", "API_KEY") as terminal:
        terminal.answer("API_KEY (", "hidden-value", hidden=True)
        terminal.read_until("secrets.env")
    assert "hidden-value" not in terminal.out
    assert "hidden-value" in (home.tabane / "secrets.env").read_text()


def test_a_secret_that_is_removed_is_named_with_the_servers_that_use_it(home: Home) -> None:
    home.write_servers({"one": {"command": "x", "env": {"A": "${API_KEY}"}}})
    given(home, "API_KEY", VALUE)
    removed = home.run("secrets", "remove", "API_KEY")
    assert (removed.status, "one" in removed.err) == (0, True)
    assert (home.tabane / "secrets.env").read_text() == ""
    missing = home.run("secrets", "remove", "API_KEY")
    assert missing.status == 2


def test_a_value_is_refused_that_no_variable_can_have(home: Home) -> None:
    for value in ("", "\n", "a\0b", "x" * 70_000):
        assert given(home, "KEY", value).status == 2
    assert given(home, "NO NAME", "x").status == 2
    assert not (home.tabane / "secrets.env").exists()


def test_a_file_that_others_can_read_is_refused(home: Home) -> None:
    file = home.tabane / "secrets.env"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("A=1\n")
    file.chmod(0o644)
    done = given(home, "B", "2")
    assert (done.status, "chmod 600" in done.err, file.read_text()) == (1, True, "A=1\n")


def test_with_the_setting_a_secret_is_in_the_keyring_alone(home: Home, tmp_path: Path) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "keyring.py").write_text(KEYRING)
    environ = {"PYTHONPATH": str(tmp_path / "ring"), "TABANE_KEYRING": "true"}
    given(home, "API_KEY", "in the file")
    done = given(home, "API_KEY", VALUE, **environ)
    assert done.status == 0, done.err
    assert "API_KEY" not in (home.tabane / "secrets.env").read_text()
    home.environment.update(environ)
    assert home.run("secrets", "list", "--json").json["results"][0]["place"] == "keyring"
    assert home.run("secrets", "remove", "API_KEY").status == 0
    assert home.run("secrets", "list", "--json").json["results"] == []


def test_a_running_hub_uses_a_secret_at_once(home: Home) -> None:
    home.write_servers(
        {"clock": {"command": sys.executable, "args": [str(CHILD)], "env": {"A": "${API_KEY}"}}}
    )
    with hub(home):
        row = home.run("servers", "list", "--json").json["results"][0]
        assert (row["state"], "tabane secrets set API_KEY" in row["error"]) == ("disabled", True)
        given(home, "API_KEY", VALUE)
        wait_until(lambda: home.run("servers", "list", "--json").json["results"][0]["state"] != "disabled")

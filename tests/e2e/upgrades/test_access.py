"""A home of the last version without keys: what lets callers in, and what is set, stays as it was."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.build import this_build
from tests.e2e.upgrades.earlier import Earlier, Installed, earlier
from tests.harness.patience import LONG
from tests.harness.user import User, echo, said

SETTINGS = 'mode = "full"\nresult_tokens = 3000\nlist_wait = 1.5\n'
PROFILE = '\n[profiles.work]\nallow = ["small__*"]\n'


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    (found,) = (each for each in earlier() if each.version == "0.3.0")
    return found


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    set_to(user, SETTINGS)
    yield user
    user.close()


def set_to(user: User, text: str) -> None:
    path = user.servers.parent / "tabane.toml"
    path.write_text(text)
    path.chmod(0o600)


def posted(user: User, tabane: Installed, method: str, token: str) -> Any:
    """The answer to an operation over HTTP, with that token."""
    url = tabane.json("status")["http"].removesuffix("/mcp") + "/rpc"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=LONG) as answer:
        return json.load(answer)


def set_values(tabane: Installed) -> dict[str, Any]:
    rows = tabane.json("status", "--settings")["settings"]
    return {row["name"]: row["value"] for row in rows if row["source"] == "file"}


def test_token_settings_and_servers_stay_valid(user: User, tmp_path: Path, before: Earlier) -> None:
    old, now = Installed(user, before.unpacked(tmp_path / "code")), Installed(user)
    old.json("start")
    assistant = old.assistant()
    token = (user.tabane / "token").read_text().strip()
    assert "result" in posted(user, old, "list_tools", token)
    assert said(echo(assistant, 1, n=1)) == {"n": 1}
    chosen, servers = set_values(old), user.read_servers()
    old.json("stop")
    now.json("start")
    assert (user.tabane / "token").read_text().strip() == token
    assert set_values(now) == chosen
    assert user.read_servers() == servers
    now.json("servers", "test", "small")  # so that its tools are known
    rows = posted(user, now, "list_tools", token)["result"]["results"]
    assert [row["name"] for row in rows] == ["small__echo", "small__wait", "small__pid"]
    assert said(echo(now.assistant(), 2, n=2)) == {"n": 2}


def test_the_audit_begins_with_the_first_call_of_this_version(
    user: User, tmp_path: Path, before: Earlier
) -> None:
    old, now = Installed(user, before.unpacked(tmp_path / "code")), Installed(user)
    assert said(echo(old.assistant(), 1, n=1)) == {"n": 1}
    old.json("stop")
    assert said(echo(now.assistant(), 2, n=2)) == {"n": 2}
    lines = [
        line for file in (user.tabane / "audit").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    names = [entry["name"] for entry in map(json.loads, lines) if entry["type"] == "call"]
    assert [name for name in names if name.startswith("small__")] == ["small__echo"]
    assert now.run("audit", "verify").status == 0


def test_the_earlier_version_refuses_the_home_and_runs_there_if_its_user_insists(
    user: User, tmp_path: Path, before: Earlier
) -> None:
    """It does not know keys and profiles, and warns of them. What it cannot read, it leaves alone."""
    old, now = Installed(user, before.unpacked(tmp_path / "code")), Installed(user)
    set_to(user, SETTINGS + PROFILE)
    now.json("start")
    now.json("keys", "create", "reader", "--allow", "small__*", "--read-only")
    assistant = now.assistant()
    assert said(echo(assistant, 1, n=1)) == {"n": 1}
    assistant.close()  # a newer bridge would replace the older hub
    token = (user.tabane / "token").read_text().strip()
    now.json("stop")
    refused = old.run("start")
    assert refused.status == 1
    assert this_build().name in refused.err
    (user.tabane / "version").unlink()
    old.json("start")
    assert "profiles" in (user.tabane / "logs" / "hub.log").read_text(), "it warns of what it does not know"
    assert "result" in posted(user, old, "list_tools", token)
    assert said(echo(old.assistant(), 2, n=2)) == {"n": 2}
    old.json("stop")
    now.json("start")
    assert [key["name"] for key in now.json("keys", "list")["results"]] == ["reader"]
    assert now.run("audit", "verify").status == 0, "nothing was lost while the other one ran"

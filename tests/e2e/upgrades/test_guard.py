"""What people have decided and clients have read at an earlier hub counts at the hub of this version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.upgrades.earlier import Earlier, Installed, earlier
from tests.harness.labeled_servers import TOOLS, replayed
from tests.harness.patience import wait_until
from tests.harness.user import Assistant, User

LIMIT = 120.0
OLDEST = "0.9.0"
"""The first version with a flow policy and approvals."""

APPROVED = {"to": "eve@example.com", "body": "approved before"}
OPEN = {"to": "ada@example.com", "body": "waits for a person"}


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarding")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.environment["TABANE_APPROVAL_WAIT"] = "0"
    user.write_servers({name: replayed(tmp_path, name) for name in TOOLS})
    yield user
    user.close()


def guarding() -> list[Any]:
    *older, newest = earlier()[[each.version for each in earlier()].index(OLDEST) :]
    return [
        *(pytest.param(each, id=each.version) for each in older),
        pytest.param(newest, id=newest.version, marks=pytest.mark.core),
    ]


def held(line: Assistant, tool: str, arguments: dict[str, str]) -> bool:
    answer = line.ask("tools/call", name=tool, arguments=arguments)
    return "error" in answer or bool(answer["result"].get("isError"))


def waiting(tabane: Installed) -> dict[str, str]:
    """The ids of the calls that wait, by what they send."""
    rows = tabane.json("approve")["results"]
    return {json.loads(row["arguments"]).get("body", ""): row["id"] for row in rows if row["state"] == "open"}


@pytest.mark.parametrize("old", guarding())
def test_trails_permissions_and_approvals_of_an_earlier_hub_count(
    user: User, code: Path, old: Earlier
) -> None:
    before, now = Installed(user, old.unpacked(code)), Installed(user)
    before.json("start")
    for name in TOOLS:
        before.json("servers", "test", name)
    line = Assistant(before.assistant())
    line.call("mail__read_inbox")
    assert held(line, "mail__send_email", OPEN)
    assert held(line, "mail__send_email", APPROVED)
    before.json("approve", waiting(before)[APPROVED["body"]])
    assert held(line, "files__delete_file", {"path": "x"})
    before.json("policy", "allow", "mail>files")
    [trail] = before.json("policy", "trails")["results"]
    pid = user.holder.pid

    now.assistant()
    wait_until(lambda: user.runs and user.holder.pid != pid, "the newer hub runs", LIMIT)
    [kept] = [row for row in now.json("policy", "trails")["results"] if row["client"] == trail["client"]]
    read = ("holder", "cwd", "labels", "private", "untrusted", "since")
    assert {name: kept[name] for name in read} == {name: trail[name] for name in read}
    assert now.json("policy", "trails")["allowed"] == {"local": ["mail>files"]}
    assert not held(line, "files__delete_file", {"path": "x"})
    now.json("policy", "disallow", "mail>files")
    assert held(line, "files__delete_file", {"path": "y"}), "its assistant still has read the inbox"
    now.json("approve", waiting(now)[OPEN["body"]])
    for decided in (OPEN, APPROVED):
        assert not held(line, "mail__send_email", decided)
    home = {path.name for path in user.tabane.iterdir()}
    assert {"approvals.json", "approval-decisions.json", "flow-trails.jsonl"} <= home

"""Calls of a real bridge that wait for a person while the hub is killed: none is lost, none is sent twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.hub.bridge.ledger import KEPT
from tests.harness.bridge import INITIALIZE, BridgeClient, request
from tests.harness.official_client import Kind, definition
from tests.harness.patience import wait_until
from tests.harness.user import User

pytestmark = pytest.mark.heavy("a hub with real servers")

KIND = Kind("legacy", "stdio")
FORMS: dict[str, Any] = {"elicitation": {}}


class Confirmed(User):
    """A user whose server leaves a mark for each call that it gets, and whose calls need an approval."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment["TABANE_APPROVAL_WAIT"] = "600"
        self.write_servers({"up": definition(KIND, None, folder, "hub", confirm=["marks", "naps"])})
        assert self.run("servers", "test", "up").status == 0

    @property
    def sent(self) -> list[str]:
        """What the server got, over all hubs."""
        marks = self.folder / f"{KIND.name}.marks"
        return marks.read_text().splitlines() if marks.exists() else []

    def waiting(self) -> str:
        """The id of the one approval that is waited for, once it is asked for."""
        wait_until(lambda: len(self.json("approve")["results"]) == 1, "a call waits")
        return str(self.json("approve")["results"][0]["id"])

    def on_disk(self) -> bool:
        file = self.tabane / "approvals.json"
        return file.exists() and bool(json.loads(file.read_bytes()))

    def calling(self, client: BridgeClient, number: int = 1, tool: str = "marks", **more: Any) -> None:
        given = {"token": "mark", **more}
        client.send(request(number, name=f"up__{tool}", arguments=given))

    def killed(self) -> None:
        pid = self.kill_hub()
        wait_until(lambda: self.runs and self.holder.pid != pid, "there is another hub")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Confirmed]:
    user = Confirmed(tmp_path)
    yield user
    user.close()


def test_a_call_that_waits_when_the_hub_is_killed_waits_for_the_same_approval_again(user: Confirmed) -> None:
    client = user.assistant()
    user.calling(client)
    asked = user.waiting()
    wait_until(user.on_disk, "the approval is on disk")
    user.killed()
    assert user.waiting() == asked
    assert user.sent == []
    assert user.run("approve", asked).status == 0
    assert "result" in client.answer(1)
    assert user.sent == ["mark"]


def test_a_client_that_was_asked_is_asked_again_by_the_next_hub(user: Confirmed) -> None:
    client = asking(user)
    user.calling(client)
    first = asked_by(client)
    user.kill_hub()
    taken_back = client.next()
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"]["requestId"] == first["id"]
    second = asked_by(client)
    assert second["params"]["message"] == first["params"]["message"]
    client.send(json.dumps({"jsonrpc": "2.0", "id": second["id"], "result": {"action": "accept"}}).encode())
    assert "result" in client.answer(1)
    assert user.sent == ["mark"]


def test_a_call_that_was_sent_is_answered_with_an_error_and_not_sent_again(user: Confirmed) -> None:
    client = user.assistant()
    user.calling(client, tool="naps", seconds=600)
    assert user.run("approve", user.waiting()).status == 0
    wait_until(lambda: user.sent == ["mark"], "the call was sent")
    user.kill_hub()
    assert "It is not known whether it took effect" in client.answer(1)["error"]["message"]
    assert "result" in client.call(2, "tools/list")
    assert user.json("approve")["results"] == []
    assert user.sent == ["mark"]


def test_a_call_too_large_to_be_kept_gets_an_error_that_says_it_was_not_sent(user: Confirmed) -> None:
    client = user.assistant()
    user.calling(client, note="x" * KEPT)
    user.waiting()
    user.kill_hub()
    said = client.answer(1)["error"]
    assert "was not sent" in said["message"]
    assert user.sent == []


def test_a_call_that_is_cancelled_after_the_kill_is_gone(user: Confirmed) -> None:
    client = asking(user)
    user.calling(client)
    asked_by(client)
    user.killed()
    assert client.next()["method"] == "notifications/cancelled"
    asked_by(client)
    client.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    wait_until(lambda: user.json("approve")["results"] == [], "nothing waits")
    assert user.sent == []


def test_a_restart_of_the_hub_keeps_a_call_that_waits(user: Confirmed) -> None:
    client = user.assistant()
    user.calling(client)
    asked = user.waiting()
    wait_until(user.on_disk, "the approval is on disk")
    assert user.run("restart").status == 0
    assert user.waiting() == asked
    assert user.run("approve", asked).status == 0
    assert "result" in client.answer(1)
    assert user.sent == ["mark"]


def asking(user: Confirmed) -> BridgeClient:
    """A client that can ask its user, with its handshake done."""
    client = user.client()
    client.call(0, "initialize", **{**INITIALIZE, "capabilities": FORMS})
    client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return client


def asked_by(client: BridgeClient) -> Any:
    """The next question to the client."""
    while (message := client.next()).get("method") != "elicitation/create":
        assert "id" not in message, message
    return message

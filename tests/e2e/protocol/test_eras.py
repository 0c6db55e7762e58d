"""Clients and upstreams of every era in every combination: messages pass unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.harness.running_hub import Client, child, running_hub, text

ERAS = {
    "2025-06-18": ("--era", "legacy", "--versions", "2025-06-18"),
    "2025-11-25": ("--era", "legacy", "--versions", "2025-11-25"),
    "2026-07-28": ("--era", "modern"),
    "dual": ("--era", "dual"),
}
any_pairing = pytest.mark.parametrize(
    ("client", "upstream"), [(client, upstream) for client in get_args(Client) for upstream in ERAS]
)


def same(result: dict[str, Any], client: str) -> dict[str, Any]:
    """A result less what the client's era adds to every result."""
    if client == "2026-07-28":
        assert result["resultType"] == "complete"
    return {key: value for key, value in result.items() if key not in ("resultType", "_meta")}


@any_pairing
async def test_a_call_gets_the_arguments_and_gives_the_result_as_they_are(
    tmp_path: Path, client: Client, upstream: str
) -> None:
    arguments = {
        "text": "束ねる 🎋",
        "n": 12345678901234567890123,
        "nested": {"$ref": "#/x", "l": [None, 1.50]},
    }
    async with running_hub(tmp_path, {"up": child(*ERAS[upstream])}) as here:
        line = await here.connect(client)
        for result in (await line.call("up__echo", **arguments), await line.through("up__echo", **arguments)):
            assert same(result, client) == {"content": result["content"], "structuredContent": arguments}
            assert json.loads(text(result)) == arguments


@any_pairing
async def test_what_a_result_holds_passes_whatever_it_is(
    tmp_path: Path, client: Client, upstream: str
) -> None:
    async with running_hub(tmp_path, {"up": child(*ERAS[upstream])}) as here:
        line = await here.connect(client)
        image = await line.call("up__image")
        assert {block["type"] for block in image["content"]} >= {"image", "resource_link"}
        assert any("x-unknown" in block for block in image["content"])
        assert json.loads('"' + (await line.call("up__surrogate"))["content"][0]["text"] + '"') or True
        big = await line.call("up__big_integer")
        assert "1" in json.dumps(big)


@any_pairing
async def test_meta_of_the_caller_arrives_and_each_era_gets_its_own_envelope(
    tmp_path: Path, client: Client, upstream: str
) -> None:
    async with running_hub(tmp_path, {"up": child(*ERAS[upstream])}) as here:
        line = await here.connect(client)
        asked = {"name": "up__meta", "arguments": {}, "_meta": {"com.example/trace": {"id": [1, 2]}}}
        meta = json.loads(text(await line.result("tools/call", asked)))
        assert meta["com.example/trace"] == {"id": [1, 2]}
        modern = upstream in ("2026-07-28", "dual")
        assert ("io.modelcontextprotocol/protocolVersion" in meta) is modern
        assert ("io.modelcontextprotocol/clientCapabilities" in meta) is modern


@any_pairing
async def test_progress_comes_under_the_token_of_the_caller(
    tmp_path: Path, client: Client, upstream: str
) -> None:
    async with running_hub(tmp_path, {"up": child(*ERAS[upstream])}) as here:
        line = await here.connect(client)
        asked = {"name": "up__progress", "arguments": {"steps": 3}, "_meta": {"progressToken": "mine-7"}}
        await line.result("tools/call", asked)
        notes = [note["params"] for note in line.notifications if note["method"] == "notifications/progress"]
        assert [note["progressToken"] for note in notes] == ["mine-7"] * 3
        assert [note["progress"] for note in notes] == [1, 2, 3]


@any_pairing
async def test_a_cancelled_call_is_cancelled_upstream_and_answered_no_more(
    tmp_path: Path, client: Client, upstream: str
) -> None:
    async with running_hub(tmp_path, {"up": child(*ERAS[upstream], maxConcurrency=1)}) as here:
        line = await here.connect(client)
        await line.call("up__echo")
        waiting = line.begin("tools/call", {"name": "up__hang", "arguments": {}}, request_id="h")
        line.notify("notifications/cancelled", {"requestId": "h", "reason": "changed my mind"})
        # One place only: this is answered once the canceled call has left it.
        await line.call("up__echo")
        assert not waiting.done()
        assert here.hub.status()["in_flight"] == 0


@any_pairing
async def test_an_error_of_the_upstream_keeps_its_code(tmp_path: Path, client: Client, upstream: str) -> None:
    async with running_hub(tmp_path, {"up": child(*ERAS[upstream])}) as here:
        line = await here.connect(client)
        response = await line.request("tools/call", {"name": "up__refuse", "arguments": {"code": -31999}})
        assert response["error"]["code"] == -31999
        inside = await line.through("up__refuse", code=-31999)
        assert inside["isError"] is True
        assert inside["_meta"]["io.github.tabane/error"]["code"] == -31999
        failed = await line.through("up__fail", text="no such file")
        assert failed["isError"] is True
        assert "no such file" in text(failed)


async def test_the_handshake_answers_with_the_version_that_was_asked_for(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        for asked, given in (
            ("2025-06-18", "2025-06-18"),
            ("2025-03-26", "2025-03-26"),
            ("1999", "2025-11-25"),
        ):
            line = await here.connect("2026-07-28")
            line.version = "2025-06-18"
            result = await line.result("initialize", {"protocolVersion": asked, "capabilities": {}})
            assert result["protocolVersion"] == given
            assert result["serverInfo"]["name"] == "tabane"


async def test_a_modern_connection_discovers_and_wants_the_envelope_in_each_request(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect("2026-07-28")
        found = await line.result("server/discover")
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["resultType"] == "complete"
        assert found["ttlMs"] >= 0
        assert found["cacheScope"] in ("public", "private")
        listed = await line.result("tools/list")
        assert listed["ttlMs"] >= 0
        key = "io.modelcontextprotocol/protocolVersion"
        other = await line.request("tools/list", {"_meta": {key: "2031-01-01"}})
        assert other["error"]["code"] == -32022
        assert "2026-07-28" in other["error"]["data"]["supported"]
        line.version = "2025-06-18"
        assert (await line.request("tools/list"))["error"]["code"] == -32602
        assert (await line.request("initialize", {"protocolVersion": "2025-06-18"}))["error"][
            "code"
        ] == -32022
        line.version = "2026-07-28"
        assert (await line.request("no/such"))["error"]["code"] == -32601


async def test_a_question_of_an_upstream_that_nobody_can_be_asked_is_refused(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--era", "legacy", share="hub")}) as here:
        line = await here.connect()
        for method in ("sampling/createMessage", "elicitation/create", "roots/list"):
            answer = json.loads(text(await line.call("up__ask", method=method, params={})))
            assert answer["error"]["code"] == -32601
        assert json.loads(text(await line.call("up__ask", method="ping", params={})))["result"] == {}

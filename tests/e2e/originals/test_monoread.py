"""`read_url_content` as monoread's clients call it, and invalid URLs in each protocol revision."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.harness.bridge import BridgeClient
from tests.harness.home import Home, hub
from tests.harness.patience import LONG
from tests.harness.user import Assistant, assistant

BAD = ["not-a-url", "https://", "ftp://example.com/", ""]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with hub(Home(tmp_path_factory.mktemp("monoread"))) as found:
        yield found


def session(home: Home, version: str) -> Assistant:
    client = BridgeClient(home.environment)
    found = Assistant(client)
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    assert found.ask("initialize", **hello)["result"]["protocolVersion"] == version
    client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return found


def test_the_tool_is_monoreads(home: Home) -> None:
    with assistant(home) as found:
        tool = found.tools()["read_url_content"]
        assert tool["title"] == "Read URL Content"
        assert tool["inputSchema"]["required"] == ["url"]
        assert tool["inputSchema"]["properties"]["url"]["type"] == "string"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_a_bad_url_is_an_error_of_the_protocol_up_to_2025_06_18(home: Home, version: str) -> None:
    found = session(home, version)
    try:
        for url in BAD:
            error = found.ask("tools/call", name="read_url_content", arguments={"url": url})["error"]
            assert error["code"] == -32602
            assert "url" in error["message"]
        missing = found.ask("tools/call", name="read_url_content", arguments={})["error"]
        assert missing["code"] == -32602
        # What call_tool calls answers with results, whatever the revision: the model is to read them.
        through = found.call("call_tool", name="read_url_content", arguments={"url": "not-a-url"})
        assert through["isError"] is True
    finally:
        found.client.close()


def test_a_bad_url_is_a_result_from_2025_11_25_on(home: Home) -> None:
    found = session(home, "2025-11-25")
    try:
        for url in BAD:
            text = found.failure("read_url_content", url=url)
            assert text.startswith("Error: url: ")
    finally:
        found.client.close()


def test_a_bad_url_is_a_result_in_2026_07_28(home: Home) -> None:
    client = BridgeClient(home.environment)
    try:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        for number, url in enumerate(BAD):
            params = {"name": "read_url_content", "arguments": {"url": url}, "_meta": meta}
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            client.send(json.dumps(asked).encode())
            result = client.answer(number, LONG)["result"]
            assert result["isError"] is True
            assert "url" in result["content"][0]["text"]
    finally:
        client.close()


def test_json_rpc_names_the_parameter(home: Home) -> None:
    for url in BAD:
        done = home.run("rpc", "read_url_content", "--params", json.dumps({"url": url}), "--json")
        error = done.json["error"]
        assert error["code"] == -32602
        assert "url" in error["message"]
        assert error["data"] == {"parameter": "url"}


def test_a_failure_to_read_is_a_result_with_its_reason(home: Home) -> None:
    with assistant(home) as found:
        text = found.failure("read_url_content", url="http://127.0.0.1:1/")
        assert text.startswith("Error: ")

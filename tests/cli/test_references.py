"""Each hit of a search over everything can be opened as it says, on the face that found it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.home import LIMIT, Home, hub
from tests.posts.importing.archives import row, write_csv
from tests.reader.site import running

KINDS = {"posts", "documents", "pages", "tools", "docs"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Make a hub with a tool, a post, documents and a page on the same topic."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.environment["TABANE_MODEL"] = "none"
    home.write_servers({"up": home.child()})
    csv = write_csv(home.folder / "twilog.csv", [row(1609704062058496137, "an echo of a request")])
    with running() as site:
        home.environment["TABANE_READER_ALLOW"] = f"127.0.0.1:{site.port}"
        site.put("/echo.md", "# Echo\n\nHow an echo answers a request.\n", "text/markdown")
        with hub(home):
            for command in (
                ["servers", "test", "up"],
                ["posts", "import", csv],
                ["docs", "put", "-", "--id", "-dashed; rm -rf"],
                ["read", site.url("/echo.md")],
            ):
                done = home.run(*command, stdin="The echo of a request.")
                assert done.status == 0, (command, done.err)
            yield home


def found(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert {hit["kind"] for hit in rows} == KINDS
    return rows


@pytest.mark.heavy("real commands, a hub and servers")
def test_the_commands_of_the_command_line_open_what_was_found(home: Home) -> None:
    hits = found(
        home.run("search", "echo request tool", "--in", ",".join(KINDS), "--limit", "60", "--json").json[
            "results"
        ]
    )
    for hit in hits:
        command = shlex.split(hit["open"])
        assert command[0] == "tabane"
        opened = home.run(*command[1:])
        assert opened.status == 0, (command, opened.err)
        assert opened.out.strip()
    first = {hit["kind"]: hit["open"] for hit in reversed(hits)}
    assert "an echo of a request" in home.run(*shlex.split(first["posts"])[1:]).out
    assert "The echo of a request." in home.run(*shlex.split(first["documents"])[1:]).out


@pytest.mark.heavy("real commands, a hub and servers")
def test_the_methods_of_json_rpc_open_what_was_found(home: Home) -> None:
    asked = json.dumps({"query": "echo request tool", "in": sorted(KINDS), "top_k": 60})
    for hit in found(home.run("rpc", "search_everything", "--params", asked).json["results"]):
        reference = hit["open"]
        assert reference.keys() == {"method", "params"}
        opened = home.run("rpc", reference["method"], "--params", json.dumps(reference["params"]))
        assert opened.status == 0, (reference, opened.err)
        assert opened.json


def test_an_assistant_opens_what_was_found_directly_and_through_call_tool(home: Home) -> None:
    with Assistant(home) as assistant:
        asked = {"query": "echo request tool", "in": sorted(KINDS), "top_k": 60}
        answer = assistant.call("search_everything", asked)
        (block,) = answer["content"]
        for hit in found(answer["structuredContent"]["results"]):
            reference = hit["open"]
            assert reference.keys() == {"tool", "arguments"}
            assert f"[{hit['kind']}: {reference['tool']} " in block["text"]
            assert "tabane " not in json.dumps(reference)
            for name, arguments in (
                (reference["tool"], reference["arguments"]),
                ("call_tool", {"name": reference["tool"], "arguments": reference["arguments"]}),
            ):
                opened = assistant.call(name, arguments)
                assert not opened.get("isError"), (reference, opened)
                assert opened["content"][0]["text"].strip()
        text = assistant.call("get_post", {"post_id": "1609704062058496137"})["content"][0]["text"]
        assert "an echo of a request" in text


def test_a_page_of_the_documentation_is_read_whole_by_section_and_listed(home: Home) -> None:
    pages = home.run("manual").out.splitlines()
    assert "servers.md" in pages
    whole = home.run("manual", "servers.md").out
    section = home.run("manual", "servers.md:10", "--json").json
    assert section["text"] in whole
    unknown = home.run("manual", "nothing.md")
    assert unknown.status == 2
    assert "servers.md" in unknown.err


class Assistant:
    """A client of MCP in front of `tabane mcp`, one message per line."""

    def __init__(self, home: Home) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tabane", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=home.environment,
            cwd=home.folder,
            text=True,
        )
        self._number = 0

    def __enter__(self) -> Assistant:
        client = {"name": "test", "version": "1"}
        self.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(LIMIT)
        self._process.stdout.close()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                result: dict[str, Any] = answer["result"]
                return result
        raise AssertionError("the hub ended")

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.request("tools/call", name=name, arguments=arguments)

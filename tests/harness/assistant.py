"""An assistant that speaks MCP with `tabane mcp`, like the clients of the original servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.harness.bridge import BridgeClient
from tests.harness.home import Home

LONG = 60.0
"""Seconds that an answer may take on a busy machine."""


class Assistant:
    """A session with a bridge."""

    def __init__(self, client: BridgeClient) -> None:
        self.client = client
        self._count = 0

    def ask(self, method: str, **params: Any) -> Any:
        """Return the whole answer to a request."""
        self._count += 1
        self.client.send(
            json.dumps({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}).encode()
        )
        return self.client.answer(self._count, LONG)

    def tools(self) -> dict[str, Any]:
        return {tool["name"]: tool for tool in self.ask("tools/list")["result"]["tools"]}

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return the result of a tool."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        assert "result" in answer, answer
        return answer["result"]

    def text(self, name: str, /, **arguments: Any) -> str:
        """Return the text of a tool's result, which must not be an error."""
        result = self.call(name, **arguments)
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text

    def failure(self, name: str, /, **arguments: Any) -> str:
        """Return the text of a tool's result, which must be an error."""
        result = self.call(name, **arguments)
        assert result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text


@contextmanager
def assistant(home: Home, *flags: str, **variables: str) -> Iterator[Assistant]:
    """Connect a client of `tabane mcp FLAGS`, with its handshake done."""
    client = BridgeClient({**home.environment, **variables}, *flags)
    try:
        found = Assistant(client)
        client.initialize()
        yield found
    finally:
        client.close()

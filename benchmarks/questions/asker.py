"""A server that asks one question in each call: python -m benchmarks.questions.asker legacy|modern"""

from __future__ import annotations

import json
import sys
from typing import Any

VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Your name"}, "sure": {"type": "boolean"}},
    "required": ["name"],
}
QUESTION = {"mode": "form", "message": "What is your name, and are you sure?", "requestedSchema": SCHEMA}
ABOUT = {"name": "asker", "version": "1"}
DONE = {"content": [{"type": "text", "text": "hi"}], "resultType": "complete"}
LISTED = {
    "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "echo")],
    "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
}  # fmt: skip


class Asker:
    """Answers requests. ``asked`` are the calls by the ids of their questions."""

    def __init__(self, era: str) -> None:
        self._era, self._count = era, 0
        self._asked: dict[str, Any] = {}

    def line(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return what is sent after a message."""
        method, id = message.get("method"), message.get("id")
        if method is None:
            return {"id": self._asked.pop(str(id)), "result": DONE}
        if id is None:
            return None
        if method == "tools/call":
            return self._call(id, message["params"])
        result = self._known(method)
        return (
            {"id": id, "result": result}
            if result
            else {"id": id, "error": {"code": -32601, "message": method}}
        )

    def _known(self, method: str) -> dict[str, Any] | None:
        if method == "tools/list":
            return LISTED
        capabilities: dict[str, Any] = {"tools": {}}
        if method == "initialize" and self._era == "legacy":
            return {"protocolVersion": VERSIONS["legacy"], "capabilities": capabilities, "serverInfo": ABOUT}
        if method == "server/discover" and self._era == "modern":
            found = {"supportedVersions": [VERSIONS["modern"]], "capabilities": capabilities}
            return {**found, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return None

    def _call(self, id: Any, params: dict[str, Any]) -> dict[str, Any]:
        if params["name"] == "echo" or "inputResponses" in params:
            return {"id": id, "result": DONE}
        if self._era == "modern":
            asked = {"who": {"method": "elicitation/create", "params": QUESTION}}
            return {
                "id": id,
                "result": {"resultType": "input_required", "inputRequests": asked, "requestState": "s"},
            }
        self._count += 1
        self._asked[f"q{self._count}"] = id
        return {"id": f"q{self._count}", "method": "elicitation/create", "params": QUESTION}


def main(era: str) -> None:
    asker = Asker(era)
    for line in sys.stdin:
        said = asker.line(json.loads(line))
        if said is not None:
            print(json.dumps({"jsonrpc": "2.0", **said}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

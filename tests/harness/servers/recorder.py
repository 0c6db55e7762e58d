"""A small MCP server that records each request for one of its things, and marks each with a word of its own.

[sys.executable, RECORDER, NAME, FOLDER, TOOL, …]: a TOOL with ``!`` at its end changes something. Each tool,
prompt, resource and template has a word (:func:`word`) in its description and in what it answers. The
requests for them are appended to ``FOLDER/NAME.asked``. The tool ``announce`` answers, and then tells of
everything: a log message, changed lists, and each resource.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

Json = dict[str, Any]

PROMPTS = ("greet_ticket", "greet_tickets")
SHARED = "shared://notes"
"""A resource that every server lists."""


def word(server: str, thing: str) -> str:
    """Return a word that no other thing has, and no text that is not about this one."""
    return "zq" + hashlib.sha256(f"{server}/{thing}".encode()).hexdigest()[:12]


def uris(server: str) -> tuple[str, ...]:
    return (f"{server}://ticket/1", SHARED)


def template(server: str) -> str:
    return f"{server}://part/{{number}}"


class Recorder:
    """The server. ``tools`` are names, and whether each changes something."""

    def __init__(self, name: str, folder: str, tools: dict[str, bool]) -> None:
        self.name, self.tools = name, tools
        self._file = os.open(
            os.path.join(folder, f"{name}.asked"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message and "method" in message:
                self._answer(message)

    def _answer(self, message: Json) -> None:
        method, params = message["method"], message.get("params") or {}
        try:
            answer: Json = {"result": self._result(method, params)}
        except KeyError as error:
            answer = {"error": {"code": -32602, "message": f"{self.name} has no {error}"}}
        self._write({"id": message["id"], **answer})
        if method == "tools/call" and params.get("name") == "announce":
            self._announce()

    def _result(self, method: str, params: Json) -> Json:
        answers = {
            "initialize": self._initialize,
            "tools/list": self._tools,
            "tools/call": self._call,
            "prompts/list": self._prompts,
            "prompts/get": self._prompt,
            "resources/list": self._resources,
            "resources/templates/list": self._templates,
            "resources/read": self._read,
            "resources/subscribe": self._subscribe,
            "completion/complete": self._complete,
        }
        return answers[method](params) if method in answers else {}

    def _initialize(self, _: Json) -> Json:
        capabilities: Json = {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "completions": {},
            "logging": {},
        }
        about = {"name": self.name, "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}

    def _tools(self, _: Json) -> Json:
        return {"tools": [self._tool(name, changes) for name, changes in self.tools.items()]}

    def _tool(self, name: str, changes: bool) -> Json:
        mark = word(self.name, name)
        schema = {"type": "object", "properties": {f"p_{mark}": {"type": "string", "description": mark}}}
        return {
            "name": name,
            "description": f"Tells {mark} about tickets.",
            "inputSchema": schema | {"additionalProperties": False},
            "annotations": {"readOnlyHint": not changes},
        }

    def _call(self, params: Json) -> Json:
        self._note("tool", params["name"])
        assert params["name"] in self.tools
        return {"content": [{"type": "text", "text": f"done {word(self.name, params['name'])}"}]}

    def _prompts(self, _: Json) -> Json:
        return {
            "prompts": [
                {"name": name, "description": word(self.name, name), "arguments": [{"name": "who"}]}
                for name in PROMPTS
            ]
        }

    def _prompt(self, params: Json) -> Json:
        self._note("prompt", params["name"])
        content = {"type": "text", "text": f"done {word(self.name, params['name'])}"}
        return {"messages": [{"role": "user", "content": content}]}

    def _resources(self, _: Json) -> Json:
        return {"resources": [{"uri": uri, "name": word(self.name, uri)} for uri in uris(self.name)]}

    def _templates(self, _: Json) -> Json:
        form = template(self.name)
        return {"resourceTemplates": [{"uriTemplate": form, "name": word(self.name, form)}]}

    def _read(self, params: Json) -> Json:
        self._note("resource", params["uri"])
        if not params["uri"].startswith((f"{self.name}://", "shared:")):
            raise KeyError(params["uri"])
        text = f"done {word(self.name, params['uri'])} {word(self.name, 'text')}"
        return {"contents": [{"uri": params["uri"], "text": text}]}

    def _subscribe(self, params: Json) -> Json:
        self._note("subscribe", params["uri"])
        return {}

    def _complete(self, params: Json) -> Json:
        self._note("complete", params["ref"].get("name") or params["ref"].get("uri"))
        return {"completion": {"values": [word(self.name, "completion")]}}

    def _announce(self) -> None:
        self._notify("notifications/message", level="error", data=word(self.name, "log"))
        for kind in ("tools", "prompts", "resources"):
            self._notify(f"notifications/{kind}/list_changed")
        for uri in uris(self.name):
            self._notify("notifications/resources/updated", uri=uri)

    def _note(self, kind: str, name: str) -> None:
        os.write(self._file, f"{kind} {name}\n".encode())

    def _notify(self, method: str, **params: Any) -> None:
        self._write({"method": method, "params": params})

    def _write(self, message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def main(name: str, folder: str, *tools: str) -> None:
    Recorder(name, folder, {tool.rstrip("!"): tool.endswith("!") for tool in tools}).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])

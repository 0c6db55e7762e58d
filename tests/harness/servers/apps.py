"""A small MCP server with an app (MCP Apps), of the handshake era, standard library alone.

    [sys.executable, APPS, NAME, "--listed", "--uri", "ui://clock/page.html"]

NAME is in everything that it says, so that a mix-up shows.

--uri URI        the address of its page (default ui://shared/page.html, which several of these have)
--listed         lists the page as a resource. Without it, only the tool names it
--flat           names the page in the deprecated ``_meta["ui/resourceUri"]`` alone
--html FILE      the page; the default is written by hand, follows the specification, and shows NAME
--ask-tool NAME  the tool that the default page calls (default refresh)
--csp JSON       what its page may load (``_meta.ui.csp``)
--log FILE       a line with the name of each tool that is called, and with the client capabilities

Tools: ``show`` has the page, ``refresh`` is for the app alone, ``report`` for the model alone, ``plain`` has
nothing to do with apps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = """<!doctype html><meta charset="utf-8"><title>app</title>
<h1>@NAME@</h1><p id="input"></p><p id="result"></p><p id="refreshed"></p><p id="resource"></p>
<p id="theme"></p><p id="opened"></p><button id="link">link</button>
<script>
let next = 1;
const waiting = new Map();
function ask(method, params) {
  const id = next++;
  parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
  return new Promise((done, failed) => waiting.set(id, { done, failed }));
}
function put(id, value) {
  document.getElementById(id).textContent = typeof value === "string" ? value : JSON.stringify(value);
}
function show(id, asked, told) {
  asked.then((found) => put(id, told(found)), (error) => put(id, `refused: ${error.message}`));
}
const answer = (id) => parent.postMessage({ jsonrpc: "2.0", id, result: {} }, "*");
const say = (method, params) => parent.postMessage({ jsonrpc: "2.0", method, params }, "*");
addEventListener("message", async ({ source, data }) => {
  if (source !== parent) return;
  if (data.method === "ui/notifications/tool-input") put("input", data.params.arguments);
  if (data.method === "ui/resource-teardown") answer(data.id);
  if (data.method === "ui/notifications/host-context-changed") put("theme", data.params.theme);
  if (data.method === "ui/notifications/tool-result") {
    put("result", data.params.structuredContent);
    show("refreshed", ask("tools/call", { name: "@TOOL@", arguments: { n: 1 } }), (it) => it.content[0].text);
    show("resource", ask("resources/read", { uri: "@URI@" }), (it) => it.contents[0].uri);
  }
  const asked = data.method ? null : waiting.get(data.id);
  if (asked) data.error ? asked.failed(data.error) : asked.done(data.result);
});
document.getElementById("link").addEventListener("click", () =>
  show("opened", ask("ui/open-link", { url: "https://example.com/path?q=1" }), () => "opened"));
const about = { appInfo: { name: "app", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26" };
ask("ui/initialize", about).then(({ hostContext }) => {
  put("theme", hostContext.theme || "");
  say("ui/notifications/initialized", {});
  say("ui/notifications/size-changed", { height: 333 });
});
</script>
"""

TYPE = "text/html;profile=mcp-app"


class Server:
    """One connection."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    def tools(self) -> list[dict[str, Any]]:
        def tool(name: str, meta: dict[str, Any] | None) -> dict[str, Any]:
            shown = {
                "name": name,
                "description": f"{name} of {self.options.name}.",
                "inputSchema": {"type": "object"},
            }
            return shown | ({"_meta": meta} if meta is not None else {})

        uri = self.options.uri
        page = {"ui/resourceUri": uri} if self.options.flat else {"ui": {"resourceUri": uri}, "x-own": 1}
        return [
            tool("show", page),
            tool("refresh", {"ui": {"resourceUri": uri, "visibility": ["app"]}}),
            tool("report", {"ui": {"visibility": ["model"]}}),
            tool("plain", None),
        ]

    def html(self) -> str:
        if self.options.html:
            return Path(self.options.html).read_text()
        page = PAGE.replace("@NAME@", self.options.name).replace("@TOOL@", self.options.ask_tool)
        return page.replace("@URI@", self.options.uri)

    def read(self, uri: str) -> dict[str, Any]:
        if uri == self.options.uri:
            ui = {"ui": {"csp": json.loads(self.options.csp), "prefersBorder": True}}
            return {"contents": [{"uri": uri, "mimeType": TYPE, "text": self.html(), "_meta": ui}]}
        if uri == "ui://data/hidden":
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": self.options.name}]}
        raise LookupError(f"no resource {uri} at {self.options.name}")

    def call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, uri = params["name"], self.options.uri
        self.log(name)
        text = f"{name} of {self.options.name}"
        return {
            "content": [
                {"type": "text", "text": text},
                {"type": "resource_link", "uri": uri, "name": "page"},
                {"type": "resource", "resource": {"uri": uri, "mimeType": TYPE, "text": "ui://in/text"}},
            ],
            "structuredContent": {"server": self.options.name, "arguments": params.get("arguments") or {}},
            "_meta": {"ui": {"resourceUri": uri}},
            "isError": False,
        }

    def log(self, text: str) -> None:
        if self.options.log:
            with open(self.options.log, "a") as file:
                file.write(text + "\n")

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            self.log("capabilities " + json.dumps(params.get("capabilities")))
            about = {"name": self.options.name, "version": "1"}
            can: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
            return {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": about}
        listed = [{"uri": self.options.uri, "name": "page", "mimeType": TYPE}] if self.options.listed else []
        message = {
            "role": "user",
            "content": {"type": "resource_link", "uri": self.options.uri, "name": "page"},
        }
        answers: dict[str, Callable[[], dict[str, Any]]] = {
            "tools/list": lambda: {"tools": self.tools()},
            "tools/call": lambda: self.call(params),
            "resources/list": lambda: {"resources": listed},
            "resources/templates/list": lambda: {"resourceTemplates": []},
            "resources/read": lambda: self.read(params["uri"]),
            "prompts/list": lambda: {"prompts": [{"name": "look"}]},
            "prompts/get": lambda: {"messages": [message]},
            "ping": dict,
        }
        return answers[method]()

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" not in message or "method" not in message:
                continue
            given = {"jsonrpc": "2.0", "id": message["id"]}
            try:
                given["result"] = self.answer(message["method"], message.get("params") or {})
            except LookupError as error:
                given["error"] = {
                    "code": -32601 if isinstance(error, KeyError) else -32002,
                    "message": str(error),
                }
            sys.stdout.write(json.dumps(given) + "\n")
            sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--uri", default="ui://shared/page.html")
    parser.add_argument("--listed", action="store_true")
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--html", default="")
    parser.add_argument("--ask-tool", default="refresh")
    parser.add_argument("--csp", default="{}")
    parser.add_argument("--log", default="")
    Server(parser.parse_args()).serve()


if __name__ == "__main__":
    main()

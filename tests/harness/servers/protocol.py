"""The protocol side of child.py: both eras, one request at a time, slow tools in their own threads."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

from tests.harness.servers import mischief
from tests.harness.servers.answers import KEY, MODERN, Json, Raw, Refused
from tests.harness.servers.offers import Offers
from tests.harness.servers.redefinition import LOOK, Redefinition
from tests.harness.servers.skills import Skills
from tests.harness.servers.toolbox import Toolbox
from tests.harness.servers.unknown import UnknownExtension

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.harness.servers.options import Options


class Server:
    """One connection. ``modern`` is None until the first request has settled the era."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.modern: bool | None = {"legacy": False, "modern": True, "dual": None}[options.era]
        self.initialized: Json | None = None
        self.log_level: str | None = None
        self.subscriptions: dict[Any, Json] = {}
        self.running: dict[Any, threading.Event] = {}
        self.asked: dict[str, Callable[[Json], None]] = {}
        self.calls = 0
        self._answered_calls = 0
        self._writing = threading.RLock()
        self._stdout: int | None = 1
        self.offers = Offers(self)
        self.redefinition = Redefinition(self)
        self.skills = Skills(self)
        self.own_extension = UnknownExtension(self)
        self.toolbox = Toolbox(self)

    # Lines in and out

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            if not line.strip() or self.options.silent:
                continue
            message = json.loads(line)
            if "method" not in message:
                self._answered(message)
            elif "id" not in message:
                self._noticed(message["method"], message.get("params") or {})
            else:
                self._asked_for(message["id"], message["method"], message.get("params") or {})

    def _answered(self, message: Json) -> None:
        answered = self.asked.pop(message.get("id", ""), None)
        if answered is not None:
            answered(message)

    def write(self, message: Json) -> None:
        with self._writing:
            if self._stdout is None:
                return
            for noise in mischief.NOISE if self.options.noise else ():
                self._write_all(noise)
            self._write_all(_encode(message) + b"\n")

    def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        self.write(message | ({"params": params} if params is not None else {}))

    def ask(self, method: str, params: Json, answered: Callable[[Json], None]) -> None:
        """Put a question to the client; ``answered`` is given its whole response."""
        number = f"question-{len(self.asked) + 1}"
        self.asked[number] = answered
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._stdout is not None:
            view = view[os.write(self._stdout, view) :]

    # Requests

    def _asked_for(self, number: Any, method: str, params: Json) -> None:
        if self.modern is None:
            self.modern = method != "initialize" and KEY + "protocolVersion" in (params.get("_meta") or {})
        try:
            if self.modern:
                self._check_envelope(method, params)
            elif self.initialized is None and method not in ("initialize", "ping"):
                self._too_early(method)
                return
            self._handle(number, method, params)
        except Refused as refused:
            self.answer(number, error=refused.error)

    def _check_envelope(self, method: str, params: Json) -> None:
        meta = params.get("_meta") or {}
        version = (
            params.get("protocolVersion") if method == "initialize" else meta.get(KEY + "protocolVersion")
        )
        if version is None or (method != "initialize" and KEY + "clientCapabilities" not in meta):
            raise Refused(-32602, "the envelope lacks protocolVersion or clientCapabilities")
        if version != MODERN or method == "initialize":
            raise Refused(-32022, "unsupported version", {"supported": [MODERN], "requested": version})

    def _too_early(self, method: str) -> None:
        how = self.options.discover
        if how == "exit":
            print(f"{method} before initialize", file=sys.stderr, flush=True)
            os._exit(1)
        if how != "silent":
            code = -32601 if how == "error" else -32600
            raise Refused(code, f"{method} is not understood before initialize")

    def _handle(self, number: Any, method: str, params: Json) -> None:
        if method in ("initialize", "server/discover"):
            self._later(number, self.options.slow_start, lambda: self._introduce(params))
        elif method == "tools/call":
            self._call(number, params)
        elif method == "subscriptions/listen" and self.modern:
            self._listen(number, params)
        elif self.own_extension.later(number, method, params):
            return
        elif method == "tools/list" and self.options.list_after:
            threading.Thread(target=self._list_after, args=(number, params), daemon=True).start()
        else:
            self.answer(number, self._plain(method, params))

    def _list_after(self, number: Any, params: Json) -> None:
        while not os.path.exists(self.options.list_after):
            time.sleep(LOOK)
        self.answer(number, self._plain("tools/list", params))

    def _later(self, number: Any, delay: float, result: Callable[[], Json]) -> None:
        if delay:
            threading.Timer(delay, lambda: self.answer(number, result())).start()
        else:
            self.answer(number, result())

    def _introduce(self, params: Json) -> Json:
        tools: Json = {} if self.options.no_tools else {"tools": {"listChanged": True}}
        extras: Json = {"prompts": {}, "resources": {"subscribe": True}} if self.options.extras else {}
        redefined = self.redefinition.capabilities
        result: Json = {"capabilities": tools | extras | self.offers.capabilities | redefined}
        extensions = self.skills.extensions | self.own_extension.extensions
        if extensions:
            result["capabilities"] |= {"extensions": extensions} | self.own_extension.experimental
            result["capabilities"].setdefault("resources", {})
        if instructions := self.redefinition.get("instructions") or self.options.instructions:
            result["instructions"] = instructions
        if self.modern:
            return result | {"supportedVersions": [MODERN], "ttlMs": 60_000, "cacheScope": "public"}
        self.initialized = params
        known = self.options.versions
        version = params["protocolVersion"] if params["protocolVersion"] in known else known[-1]
        result["capabilities"]["logging"] = {}
        return result | {"protocolVersion": version, "serverInfo": self.introduction}

    @property
    def introduction(self) -> Json:
        return {"name": self.options.name, "version": "1.0.0"}

    def _plain(self, method: str, params: Json) -> Json:
        if (redefined := self.redefinition.answer(method)) is not None:
            return redefined | self._cached()
        if method == "tools/list" and not self.options.no_tools:
            return self._page(params.get("cursor")) | self._cached()
        if not self.modern and method == "ping":
            return {}
        if not self.modern and method == "logging/setLevel":
            self.log_level = params["level"]
            return {}
        for part in (self.skills, self.own_extension, self.offers):
            if (offered := part.answer(method, params)) is not None:
                return offered
        if self.options.extras and method in EXTRAS:
            return EXTRAS[method](params) | (self._cached() if method != "prompts/get" else {})
        raise Refused(-32601, f"Method not found: {method}")

    def _cached(self) -> Json:
        return {"ttlMs": 60_000, "cacheScope": "public"} if self.modern else {}

    def _page(self, cursor: str | None) -> Json:
        tools, size = self.toolbox.definitions(), self.options.page_size
        if not size:
            return {"tools": tools}
        if cursor is not None and not (cursor.isdigit() or cursor == ""):
            raise Refused(-32602, "no such cursor")
        start = int(cursor or 0)
        page: Json = {"tools": tools[start : start + size]}
        if self.options.endless_cursor:
            page["nextCursor"] = str((start + size) % len(tools))
        elif start + size < len(tools):
            page["nextCursor"] = str(start + size)
        return page

    # Calls

    def _call(self, number: Any, params: Json) -> None:
        self.calls += 1
        if self.options.crash_after is not None and self.calls > self.options.crash_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.redefinition.has_tool(params.get("name")):
            params = {**params, "name": "echo"}
        tool = self.toolbox.find(params.get("name"))
        if tool is None:
            raise Refused(-32602, f"Unknown tool: {params.get('name')}")
        cancelled = self.running[number] = threading.Event()

        def run() -> None:
            try:
                result = tool.run(params, cancelled)
            except Refused as refused:
                self._answer_call(number, cancelled, error=refused.error)
            else:
                self._answer_call(number, cancelled, result)

        if tool.slow:
            threading.Thread(target=run, daemon=True).start()
        else:
            run()

    def _answer_call(
        self,
        number: Any,
        cancelled: threading.Event,
        result: Json | Raw | None = None,
        error: Json | None = None,
    ) -> None:
        self.running.pop(number, None)
        if cancelled.is_set() and not self.options.deaf:
            return
        with self._writing:
            self.answer(number, result, error)
            self._answered_calls += 1
            if self._answered_calls == self.options.close_stdout:
                self._stdout = None
                os.close(1)

    def answer(self, number: Any, result: Json | Raw | None = None, error: Json | None = None) -> None:
        body: Json = {"error": error}
        if error is None:
            body = {"result": self._complete(result) if isinstance(result, dict) else result}
        if self.options.wrong_ids:
            number = f"nobody-{number}"
        message = {"jsonrpc": "2.0", "id": number, **body}
        if self.options.unasked:
            self.write({"jsonrpc": "2.0", "id": 987_654_321, "result": {"unasked": True}})
        for _ in range(2 if self.options.twice else 1):
            self.write(message)

    def _complete(self, result: Json) -> Json:
        if not self.modern:
            return result
        meta = {KEY + "serverInfo": self.introduction} | result.get("_meta", {})
        return {"resultType": "complete"} | result | {"_meta": meta}

    # Notifications and subscriptions

    def _noticed(self, method: str, params: Json) -> None:
        if method == "notifications/initialized" and self.options.ask_at_start:
            self.ask(self.options.ask_at_start, {}, lambda _: None)
        elif self.own_extension.noticed(method, params):
            return
        elif method == "notifications/cancelled" and not self.options.deaf:
            self.subscriptions.pop(params.get("requestId"), None)
            if running := self.running.get(params.get("requestId")):
                running.set()

    def _listen(self, number: Any, params: Json) -> None:
        granted = self.offers.listen(number, params)
        acknowledged = {"notifications": granted, "_meta": {KEY + "subscriptionId": number}}
        self.notify("notifications/subscriptions/acknowledged", acknowledged)

    def session(self) -> Json:
        """What this connection is, for the tool of that name."""
        return {
            "modern": self.modern,
            "initialize": self.initialized,
            "logLevel": self.log_level,
            "time": time.time(),
        }


def _encode(message: Json) -> bytes:
    """One line; a Raw result goes in as it stands."""
    result = message.get("result")
    if not isinstance(result, Raw):
        return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    head = json.dumps({key: value for key, value in message.items() if key != "result"})
    return f'{head[:-1]}, "result": {result}}}'.encode()


EXTRAS: dict[str, Callable[[Json], Json]] = {
    "prompts/list": lambda _: {
        "prompts": [
            {"name": "greet", "description": "Greets.", "arguments": [{"name": "who", "required": True}]}
        ]
    },
    "prompts/get": lambda params: {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": f"Greet {params['arguments']['who']}."}}
        ]
    },
    "resources/list": lambda _: {
        "resources": [{"uri": "memo://one", "name": "one", "mimeType": "text/plain"}]
    },
    "resources/templates/list": lambda _: {
        "resourceTemplates": [{"uriTemplate": "memo://{n}", "name": "memo"}]
    },
    "resources/read": lambda params: {
        "contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "remember"}]
    },
}

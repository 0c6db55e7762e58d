"""An extension that nobody knows, which the child has with ``--extension ID``.

example/echo {…}             its own parameters and the client's capabilities, as they came
example/stream {count}       so many notifications example/item, then its result (answers at the end)
example/ask {method, params} puts that request to its client, and answers with what came back (legacy)
example/say {method, params} sends that notification, belonging to no request
example/heard                the notifications of methods that it does not know
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.servers.answers import KEY, Json

if TYPE_CHECKING:
    from tests.servers.protocol import Server


class UnknownExtension:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._id: str | None = server.options.extension
        self.heard: list[Json] = []

    @property
    def extensions(self) -> Json:
        return {self._id: {"level": 3, "deep": {"kept": [9007199254740993, None]}}} if self._id else {}

    @property
    def experimental(self) -> Json:
        return {"experimental": {"example/channel": {}}} if self._id else {}

    def noticed(self, method: str, params: Json) -> bool:
        known = ("notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed")
        if self._id is None or method in known:
            return False
        self.heard.append({"method": method, "params": params})
        return True

    def answer(self, method: str, params: Json) -> Json | None:
        if self._id is None or not method.startswith("example/"):
            return None
        answers: dict[str, Callable[[Json], Json]] = {
            "example/echo": self._echo,
            "example/stream": self._stream,
            "example/say": self._say,
            "example/heard": lambda _: {"heard": self.heard},
        }
        return answers[method](params) if method in answers else None

    def later(self, number: Any, method: str, params: Json) -> bool:
        """Answer a request that waits for the client. Return whether it is one."""
        if self._id is None or method not in ("example/ask", "example/wait"):
            return False
        if method == "example/ask":
            self._server.ask(
                params["method"], params.get("params", {}), lambda reply: self._answered(number, reply)
            )
        else:
            self._server.running[number] = threading.Event()
        return True

    def _answered(self, number: Any, reply: Json) -> None:
        said = {key: value for key, value in reply.items() if key in ("result", "error")}
        self._server.answer(number, {"reply": said})

    def _echo(self, params: Json) -> Json:
        meta = params.get("_meta", {})
        capabilities = meta.get(KEY + "clientCapabilities")
        if not self._server.modern and self._server.initialized is not None:
            capabilities = self._server.initialized["capabilities"]
        return {"params": params, "capabilities": capabilities, "big": 9007199254740993}

    def _stream(self, params: Json) -> Json:
        meta = {KEY + "subscriptionId": params["number"]} if "number" in params else {}
        for index in range(params["count"]):
            self._server.notify("notifications/example/item", {"index": index, "_meta": meta})
        return {"sent": params["count"]}

    def _say(self, params: Json) -> Json:
        self._server.notify(params["method"], params.get("params", {}))
        return {}

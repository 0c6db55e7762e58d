"""An extension that nobody knows, which the child has with ``--extension ID``.

example/echo {…}             its own parameters and the client's capabilities, as they came
example/ask {method, params} puts that request to its client, and answers with what came back (legacy)
example/ask-later {…}        the same, but answers at once
example/flow {count}         never answers; notifications example/item name the request
example/say {method, params} sends that notification, belonging to no request
example/heard                the notifications of methods that it does not know, and replies that came later
"""

from __future__ import annotations

import threading

from tests.harness.servers.answers import KEY, Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.harness.servers.protocol import Server


class UnknownExtension:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._id: str | None = server.options.extension
        self.heard: list[Json] = []
        self.replies: list[Json] = []

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
            "example/say": self._say,
            "example/heard": lambda _: {"heard": self.heard, "replies": self.replies},
        }
        return answers[method](params) if method in answers else None

    def later(self, number: Any, method: str, params: Json) -> bool:
        """Answer a request in another way than at once. Return whether it is one of these."""
        if self._id is None or not method.startswith(("example/ask", "example/flow")):
            return False
        if method == "example/flow":
            self._flow(number, params["count"])
        elif method == "example/ask":
            self._ask(params, lambda reply: self._answered(number, reply))
        else:
            self._server.answer(number, {})
            self._ask(params, self.replies.append)
        return True

    def _ask(self, params: Json, answered: Callable[[Json], None]) -> None:
        self._server.ask(params["method"], params.get("params", {}), answered)

    def _flow(self, number: Any, count: int) -> None:
        self._server.running[number] = threading.Event()
        for index in range(count):
            params = {"index": index, "_meta": {KEY + "subscriptionId": number}}
            self._server.notify("notifications/example/item", params)

    def _answered(self, number: Any, reply: Json) -> None:
        said = {key: value for key, value in reply.items() if key in ("result", "error")}
        self._server.answer(number, {"reply": said})

    def _echo(self, params: Json) -> Json:
        meta = params.get("_meta", {})
        capabilities = meta.get(KEY + "clientCapabilities")
        if not self._server.modern and self._server.initialized is not None:
            capabilities = self._server.initialized["capabilities"]
        return {"params": params, "capabilities": capabilities, "big": 9007199254740993}

    def _say(self, params: Json) -> Json:
        self._server.notify(params["method"], params.get("params", {}))
        return {}

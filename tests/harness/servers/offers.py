"""What the child offers besides tools: prompts, resources, templates, and word of their changes.

It announces prompts and resources with ``--offers``. Its tools for that:

offer {kind, names}      offers those prompts, or resources (URIs), or templates alone from now on, and
                         says so unless ``--quiet-lists``
touch {uri}              the resource has changed: told to whom it may concern
subscriptions            URIs subscribed to (legacy), subscriptions with their wishes (modern), and how
                         often each list and subscription was asked for
end_listens              ends every subscription (modern), with its result
"""

from __future__ import annotations

import threading
from collections import Counter

from tests.harness.servers.answers import KEY, Json, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests.harness.servers.protocol import Server

WISHES = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Offers:
    """What the server lists besides tools. ``asked`` counts the requests by method."""

    def __init__(self, server: Server) -> None:
        self._server = server
        options = server.options
        self.names: dict[str, list[str]] = {
            "prompts": ["greet"],
            "resources": options.uris,
            "templates": options.templates,
        }
        self.subscribed: list[str] = []
        self.asked: Counter[str] = Counter()

    @property
    def capabilities(self) -> Json:
        if not self._server.options.offers:
            return {}
        announced = not self._server.options.quiet_lists
        return {
            "prompts": {"listChanged": announced},
            "resources": {"subscribe": True, "listChanged": announced},
            "completions": {},
        }

    def answer(self, method: str, params: Json) -> Json | None:
        """The result of a request about them; None for any other."""
        self.asked[method] += 1
        if not self._server.options.offers:
            return None
        if method in self._server.options.unknown:
            raise Refused(-32601, f"Method not found: {method}")
        if method in self._server.options.broken:
            raise Refused(-32603, f"{method} is broken")
        answers = {
            "prompts/list": self._prompts,
            "prompts/get": self._prompt,
            "resources/list": self._resources,
            "resources/templates/list": self._templates,
            "resources/read": self._read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
        }
        return answers[method](params) if method in answers else None

    def _prompts(self, _: Json) -> Json:
        arguments = [{"name": "who", "required": True}]
        listed: list[Any] = [
            {"name": name, "description": "Greets.", "arguments": arguments, "x-own": 1}
            for name in self.names["prompts"]
        ]
        return {"prompts": [*listed, *self._junk]} | self._held

    def _resources(self, _: Json) -> Json:
        listed: list[Any] = [
            {"uri": uri, "name": "one", "mimeType": "text/plain"} for uri in self.names["resources"]
        ]
        return {"resources": [*listed, *self._junk]} | self._held

    def _templates(self, _: Json) -> Json:
        listed: list[Any] = [{"uriTemplate": uri, "name": "some"} for uri in self.names["templates"]]
        return {"resourceTemplates": [*listed, *self._junk]} | self._held

    @property
    def _held(self) -> Json:
        ttl = self._server.options.ttl
        return {"ttlMs": ttl, "cacheScope": "public"} if self._server.modern else {}

    @property
    def _junk(self) -> list[Any]:
        return [7, {"name": 3}, {"uri": None}] if self._server.options.junk else []

    def _prompt(self, params: Json) -> Json:
        if params.get("name") not in self.names["prompts"]:
            raise Refused(-32602, f"Unknown prompt: {params.get('name')}")
        said = f"{self._server.options.name} greets {params['arguments']['who']}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}

    def _read(self, params: Json) -> Json:
        said = f"{self._server.options.name} has {params['uri']}"
        contents = [{"uri": params["uri"], "mimeType": "text/plain", "text": said}]
        return {"contents": contents} | self._held

    def _subscribe(self, params: Json) -> Json:
        if params["uri"] in self._server.options.secret:
            raise Refused(-32602, f"{params['uri']} is not to be watched")
        self.subscribed.append(params["uri"])
        return {}

    def _unsubscribe(self, params: Json) -> Json:
        self.subscribed.remove(params["uri"])
        return {}

    def _complete(self, params: Json) -> Json:
        ref = params["ref"]
        return {"completion": {"values": [ref.get("name") or ref.get("uri"), params["argument"]["value"]]}}

    # Changes

    def listen(self, number: Any, params: Json) -> Json:
        """Begin a subscription; what of the wishes is granted."""
        self.asked["subscriptions/listen"] += 1
        wanted = params.get("notifications") or {}
        granted: Json = {name: True for name in WISHES.values() if wanted.get(name)}
        uris = [
            uri for uri in wanted.get("resourceSubscriptions", ()) if uri not in self._server.options.secret
        ]
        if uris:
            granted["resourceSubscriptions"] = uris
        self._server.subscriptions[number] = granted
        return granted

    def changed(self, kind: str) -> None:
        """Say that a list is another: to each subscription that wants it, or, in legacy, to the client."""
        method = f"notifications/{kind}/list_changed"
        if not self._server.modern:
            self._server.notify(method)
        for number, wanted in self._server.subscriptions.items():
            if wanted.get(WISHES[kind]):
                self._server.notify(method, {"_meta": {KEY + "subscriptionId": number}})

    def offer(self, params: Json, _: threading.Event) -> Json:
        given = params["arguments"]
        self.names[given["kind"]] = given["names"]
        if not self._server.options.quiet_lists:
            self.changed("resources" if given["kind"] == "templates" else given["kind"])
        return {"content": []}

    def touch(self, params: Json, _: threading.Event) -> Json:
        uri = params["arguments"]["uri"]
        method = "notifications/resources/updated"
        if not self._server.modern and any(uri.startswith(watched) for watched in self.subscribed):
            self._server.notify(method, {"uri": uri})
        for number, wanted in self._server.subscriptions.items():
            if any(uri.startswith(watched) for watched in wanted.get("resourceSubscriptions", ())):
                self._server.notify(method, {"uri": uri, "_meta": {KEY + "subscriptionId": number}})
        return {"content": []}

    def state(self, params: Json, _: threading.Event) -> Json:
        state = {
            "subscribed": self.subscribed,
            "listens": list(self._server.subscriptions.values()),
            "asked": self.asked,
        }
        return {"content": [], "structuredContent": state}

    def end_listens(self, params: Json, _: threading.Event) -> Json:
        ended, self._server.subscriptions = list(self._server.subscriptions), {}
        for number in ended:
            self._server.answer(number, {"_meta": {KEY + "subscriptionId": number}})
        return {"content": []}

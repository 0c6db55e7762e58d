"""The subscriptions of a client to changed lists and updated resources, in either era."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from msgspec import Raw, Struct

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find
from tabane.errors import HubError, TabaneError
from tabane.hub.clients import document_resources
from tabane.hub.clients.client_questions import SessionClient
from tabane.messages import say
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members

LISTS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
"""Kinds of lists, and the members of a subscription that ask for their changes."""

MOST_LISTENS = 16
MOST_URIS = 1024


class ListenedTasks(Protocol):
    """Tasks of one subscriptions/listen, which send their changes to the client."""

    granted: list[str]

    def start(self) -> None: ...
    def close(self) -> None: ...


class _Listen(Struct, frozen=True):
    """One subscriptions/listen of a modern client: kinds of lists, URIs of resources, and tasks."""

    lists: frozenset[str]
    uris: frozenset[str]
    tasks: ListenedTasks | None


class ClientSubscriptions:
    """The subscriptions of one client of either era."""

    def __init__(self, session: SessionClient, gateway: Gateway) -> None:
        self._session, self._gateway = session, gateway
        self._listens: dict[bytes, _Listen] = {}
        self._uris: set[str] = set()
        self._of_documents: dict[str, set[str]] = {}  # by their keys

    # -- modern ------------------------------------------------------------------------------------

    def listen(self, request_id: bytes, params: Members, tasks: ListenedTasks | None = None) -> None:
        """Begin a subscription. It is acknowledged with what is granted, and answered when it ends."""
        if len(self._listens) >= MOST_LISTENS:
            raise HubError(say("Too many subscriptions on one connection."))
        try:
            wanted = json.fields(params["notifications"]) if "notifications" in params else {}
        except InvalidJson:
            raise ProtocolRefusal(eras.INVALID_PARAMS, "notifications: an object is required") from None
        lists = {kind for kind, name in LISTS.items() if bytes(wanted.get(name, b"")) == b"true"}
        uris = _uris(wanted)
        self._listens[request_id] = _Listen(frozenset(lists), frozenset(uris), tasks)
        if uris:
            self._session.run(Raw(request_id), self._watch_all(request_id, lists, uris))
        else:
            self._acknowledge(request_id, lists, [])

    async def _watch_all(self, request_id: bytes, lists: Collection[str], uris: list[str]) -> None:
        # Together: a modern server is asked for all of them at once.
        heard = await asyncio.gather(*map(self._watched, uris))
        watched = [uri for uri, told in zip(uris, heard, strict=True) if told]
        if request_id in self._listens:
            self._acknowledge(request_id, lists, watched)

    async def _watched(self, uri: str) -> bool:
        try:
            await self._watch(uri)
        except (TabaneError, ProtocolRefusal):
            return False
        return True

    def _acknowledge(self, request_id: bytes, lists: Collection[str], uris: list[str]) -> None:
        granted: dict[str, object] = {name: True for kind, name in LISTS.items() if kind in lists}
        if uris:
            granted["resourceSubscriptions"] = uris
        tasks = self._listens[request_id].tasks
        if tasks is not None:
            granted["taskIds"] = tasks.granted
        note = {"_meta": _subscription_meta(request_id), "notifications": Raw(json.encode(granted))}
        line = json.notification_line("notifications/subscriptions/acknowledged", json.join(note))
        self._session.tell(line, request_id)
        if tasks is not None:
            tasks.start()

    def end(self, request_id: bytes) -> bool:
        """End a subscription gracefully, with its result. Return whether there was one with that id."""
        listen = self._listens.pop(request_id, None)
        if listen is None:
            return False
        for uri in listen.uris:
            self._unwatch(uri)
        if listen.tasks is not None:
            listen.tasks.close()
        self._session.answer(Raw(request_id), b'{"_meta":' + bytes(_subscription_meta(request_id)) + b"}")
        return True

    @property
    def any_listen(self) -> bytes | None:
        """Return the id of a subscription of a modern client; None if it has none."""
        return next(iter(self._listens), None)

    def end_all(self) -> None:
        """Answer every subscriptions/listen, so that the client knows that it ends."""
        for request_id in list(self._listens):
            self.end(request_id)

    # -- legacy ------------------------------------------------------------------------------------

    async def subscribe(self, request_id: Raw, uri: str) -> None:
        """Answer resources/subscribe. Raises TabaneError if the server of the resource refuses."""
        if len(self._uris) >= MOST_URIS:
            raise HubError(say("Too many subscriptions on one connection."))
        await self._watch(uri)
        self._uris.add(uri)
        self._session.answer(request_id, b"{}")

    def unsubscribe(self, request_id: Raw, uri: str) -> None:
        """Answer resources/unsubscribe."""
        self._uris.discard(uri)
        self._unwatch(uri)
        self._session.answer(request_id, b"{}")

    # -- notifications -----------------------------------------------------------------------------

    def changed(self, kind: str) -> None:
        """Tell the client that a list of that kind has changed."""
        method = f"notifications/{kind}/list_changed"
        if self._session.era is Era.LEGACY:
            self._session.tell(json.notification_line(method), None)
        for request_id, listen in self._listens.items():
            if kind in listen.lists:
                note = json.join({"_meta": _subscription_meta(request_id)})
                self._session.tell(json.notification_line(method, note), request_id)

    def updated(self, key: str) -> None:
        """Tell the client that a document has changed or is gone, under the URI that it subscribed to."""
        for uri in self._of_documents.get(key, ()):
            self._updated(uri, Raw(json.encode({"uri": uri})))

    def _updated(self, watched: str, params: Raw) -> None:
        """Tell the client of a change. ``params`` name the resource, which may be below the watched one."""
        method = "notifications/resources/updated"
        if watched in self._uris:
            self._session.tell(json.notification_line(method, params), None)
        for request_id, listen in self._listens.items():
            if watched in listen.uris:
                note = json.join({**json.fields(params), "_meta": _subscription_meta(request_id)})
                self._session.tell(json.notification_line(method, note), request_id)

    async def _watch(self, uri: str) -> None:
        session, gateway = self._session, self._gateway
        key = document_resources.key_of(uri)
        if key is not None:  # the hub's own: it tells of every change, whoever asked
            if not may_find(session.caller, document_resources.READING):
                raise ProtocolRefusal(eras.INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})
            self._of_documents.setdefault(key, set()).add(uri)
            return
        sources = await gateway.lookup.sources(session.caller, uri)
        if not sources:
            raise ProtocolRefusal(eras.INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})
        await gateway.watches.watch(
            session.key, session.caller, sources[0], lambda shown, params: self._updated(uri, params)
        )

    def _unwatch(self, uri: str) -> None:
        if uri in self._uris or any(uri in listen.uris for listen in self._listens.values()):
            return
        key = document_resources.key_of(uri)
        if key is None:
            self._gateway.watches.unwatch(self._session.key, uri)
            return
        spelled = self._of_documents.get(key, set())
        spelled.discard(uri)
        if not spelled:
            self._of_documents.pop(key, None)


def _subscription_meta(request_id: bytes) -> Raw:
    return Raw(json.join({eras.META_SUBSCRIPTION: Raw(request_id)}))


def _uris(wanted: Members) -> list[str]:
    value = json.member(wanted, "resourceSubscriptions")
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(uri, str) for uri in value):
        raise ProtocolRefusal(eras.INVALID_PARAMS, "resourceSubscriptions: a list of URIs is required")
    if len(value) > MOST_URIS:
        raise ProtocolRefusal(eras.INVALID_PARAMS, f"resourceSubscriptions: {MOST_URIS} URIs at most")
    return list(dict.fromkeys(value))

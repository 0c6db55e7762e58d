"""Subscriptions of clients to changes of resources, on the instances that serve those clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from tabane.catalog.offers.resource_uris import address
from tabane.catalog.offers.resources import ResourceSource
from tabane.errors import CallerError, TabaneError
from tabane.messages import say
from tabane.operations import Caller
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.json import InvalidJson

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream


log = logging.getLogger(__name__)

MOST_OF_SESSION = 1024
MOST = 20_000
"""Maximum watched resources, of one session and of all."""

OnUpdated = Callable[[str, Raw], None]
"""Gets the watched URI as its client knows it, and the notification's params for that client."""


class InstanceRoute(Protocol):
    """The instance of a server that serves a caller. Raises TabaneError if none can."""

    def __call__(self, caller: Caller, server: str) -> Upstream: ...


class ResourceWatch:
    """One resource that one session watches."""

    def __init__(self, caller: Caller, source: ResourceSource, on_updated: OnUpdated) -> None:
        self.caller, self.source, self.on_updated = caller, source, on_updated
        self.instance: Upstream | None = None
        self._ended = False

    async def begin(self, instance: Upstream) -> None:
        if not self._ended:
            self.instance = instance
            await instance.watch(self.source.uri, self._updated)

    def end(self) -> None:
        self._ended = True
        if self.instance is not None:
            self.instance.offers.unwatch(self.source.uri, self._updated)

    def _updated(self, uri: str, params: Raw) -> None:
        self.on_updated(self.source.shown, renamed(params, self.source, uri))


class ResourceWatches:
    """The watched resources of all sessions, limited in number.

    If another instance of a server replaces one, they move to it. ``spawn`` runs background work.
    """

    def __init__(self, route: InstanceRoute, spawn: Callable[[Coroutine[None, None, None]], object]) -> None:
        self._route, self._spawn = route, spawn
        self._by_session: dict[str, dict[str, ResourceWatch]] = {}
        self._count = 0

    async def watch(
        self, session: str, caller: Caller, source: ResourceSource, on_updated: OnUpdated
    ) -> None:
        """Call ``on_updated`` whenever the resource changes; replaces the session's former watch.

        Raises TabaneError if its server cannot be reached or refuses, or there are too many.
        """
        watch = ResourceWatch(caller, source, on_updated)
        before = self._by_session.get(session, {}).get(source.shown)
        if before is None:
            self._check_room(session)
            self._count += 1
        self._by_session.setdefault(session, {})[source.shown] = watch
        try:
            await watch.begin(self._route(caller, source.server))
        except BaseException:
            self._forget(session, watch)
            raise
        finally:
            # The old watch ends after the new one began, so the subscription at the server continues.
            if before is not None:
                before.end()
        if self._by_session.get(session, {}).get(source.shown) is not watch:
            watch.end()

    def unwatch(self, session: str, uri: str) -> None:
        """Stop watching that URI, as the client knows it."""
        watch = self._by_session.get(session, {}).get(uri)
        if watch is not None:
            self._forget(session, watch)
            watch.end()

    def leave(self, session: str) -> None:
        """Stop watching for a session that has ended."""
        for uri in list(self._by_session.get(session, ())):
            self.unwatch(session, uri)

    def moved(self, server: str) -> None:
        """Watch again on the new instances, after instances of a server may have been replaced."""
        for watches in self._by_session.values():
            for watch in watches.values():
                if watch.source.server == server:
                    self._spawn(self._follow(watch))

    async def _follow(self, watch: ResourceWatch) -> None:
        try:
            instance = self._route(watch.caller, watch.source.server)
            if instance is not watch.instance:
                await watch.begin(instance)
        except TabaneError as error:
            log.info("%s: %s is no longer watched: %s", watch.source.server, watch.source.uri, error)

    def _check_room(self, session: str) -> None:
        if len(self._by_session.get(session, ())) >= MOST_OF_SESSION:
            raise CallerError(say(
                "{count} {count:resource is|resources are} already watched, the limit for one client.",
                count=MOST_OF_SESSION))  # fmt: skip
        if self._count >= MOST:
            raise CallerError(say(

                    "{count} {count:resource is|resources are} already watched, the limit for all "
                    "clients together.",
                count=MOST))  # fmt: skip

    def _forget(self, session: str, watch: ResourceWatch) -> None:
        watches = self._by_session.get(session, {})
        if watches.get(watch.source.shown) is watch:
            del watches[watch.source.shown]
            self._count -= 1
            if not watches:
                del self._by_session[session]


def renamed(params: Raw, source: ResourceSource, uri: str) -> Raw:
    """Return the notification for the client: with its own URI, without the hub's subscription id."""
    try:
        members = json.fields(params)
    except InvalidJson:
        return params
    meta = eras.take_meta(members)
    meta.pop(eras.META_SUBSCRIPTION, None)
    if uri == source.uri:
        shown = source.shown
    else:
        shown = uri if source.shown == source.uri else address(source.server, uri)
    return Raw(eras.with_meta({**members, "uri": Raw(json.quote(shown))}, meta))

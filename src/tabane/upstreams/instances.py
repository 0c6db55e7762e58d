"""Instances of servers (one for all callers, for each set of roots or for each client), and health checks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, cast

from msgspec import structs

from tabane.errors import UpstreamOverloaded, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.operations import LOCAL, Caller
from tabane.servers.server import Server, Share
from tabane.upstreams.connection import UpstreamContext, UpstreamState

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream


log = logging.getLogger(__name__)

Key = tuple[str, str]

_IN_PROJECT = "project"
"""Key of the instance that all clients of a project share. Like those of few clients, it ends when idle."""


class Instances:
    """All instances, by server and by the clients they serve.

    ``make`` builds an instance for a server whose placeholders are filled in. An instance of
    ``share: client`` ends with its client, or like one of ``share: roots`` after ten idle minutes.
    """

    def __init__(self, context: UpstreamContext, make: Callable[[Server], Upstream]) -> None:
        self._context, self._loop, self._make = context, context.loop, make
        self._by_key: dict[Key, Upstream] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._retiring: set[Upstream] = set()

    def get(self, server: Server, caller: Caller | None = None) -> Upstream:
        """Return the instance for that caller, made if there is none. Raises UpstreamOverloaded.

        Without a caller (for health checks and manual starts) return the instance that all share. Raises
        UpstreamUnavailable if the server works in a client's folder and none is known.
        """
        key = (server.name, _sharing_key(server, caller))
        instance = self._by_key.get(key)
        if instance is None:
            most = self._context.limits.instances
            if len(list(self.of(server.name))) >= most:
                raise UpstreamOverloaded(say(
                    "{server!n} already runs {count} {count:time|times}, once for each client or set of "
                    "folders. Close some of them.", server=server.name, count=most))  # fmt: skip
            instance = self._by_key[key] = self._make(_with_folders(server, caller))
        return instance

    def find(self, server: Server, caller: Caller) -> Upstream | None:
        """Return the instance for that caller; None if it does not exist."""
        return self._by_key.get((server.name, _sharing_key(server, caller)))

    def of(self, server: str) -> Iterator[Upstream]:
        """Yield the instances of one server."""
        return (instance for (name, _), instance in self._by_key.items() if name == server)

    def retiring(self, server: str) -> list[Upstream]:
        """Return the released instances of one server whose last calls have not been answered yet."""
        return [instance for instance in self._retiring if instance.server.name == server]

    def __iter__(self) -> Iterator[Upstream]:
        return iter(list(self._by_key.values()))

    def leave(self, session: str) -> None:
        """End the instances of a client that has gone. One with tasks of the client ends when it is idle."""
        for key in [key for key in self._by_key if key[1].startswith(_client_key(session))]:
            if not self._by_key[key].held:
                self._close(key)

    def expire(self) -> None:
        """End the instances that nobody has used for a while, unless all clients share them."""
        now, idle = self._loop.time(), self._context.limits.instance_idle
        for key, instance in list(self._by_key.items()):
            busy = instance.in_flight or instance.offers.watched or instance.held
            if key[1] and not busy and now - instance.vitals.used > idle:
                log.info("%s: ending an instance that was idle for %g s", key[0], idle)
                self._close(key)

    def retire(self, server: str, *, shared_only: bool = False) -> None:
        """Release the instances of one server: each ends when its calls in flight are answered.

        ``shared_only`` means the one that is shared by all.
        """
        few = ("", _IN_PROJECT)
        for key in [key for key in self._by_key if key[0] == server and (not shared_only or key[1] in few)]:
            instance = self._by_key.pop(key)
            self._retiring.add(instance)
            self._begin(self._retire(instance))

    async def _retire(self, instance: Upstream) -> None:
        try:
            await instance.retire()
        finally:
            self._retiring.discard(instance)

    async def close(self) -> None:
        """End all of them, together; also those that a person's answer would have kept for longer."""
        instances, self._by_key = [*self._by_key.values(), *self._retiring], {}
        await self._gather(instances)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _gather(self, instances: list[Upstream]) -> None:
        results = await asyncio.gather(*(i.close() for i in instances), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                log.error("ending an upstream failed: %s", result)

    def _close(self, key: Key) -> None:
        self._begin(self._gather([self._by_key.pop(key)]))

    def _begin(self, ending: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(ending)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _sharing_key(server: Server, caller: Caller | None) -> str:
    if caller is None or server.share == "hub":
        return _IN_PROJECT if server.project else ""
    if server.share == "client":
        return f"{_client_key(caller.session)}{caller.capabilities.decode()}"
    return "roots:" + "\n".join(_roots(caller))


def _client_key(session: str) -> str:
    """Return what the keys of a client's instances begin with. The rest is what the client can be asked."""
    return f"client:{session}\n"


def _roots(caller: Caller) -> tuple[str, ...]:
    """Return the folders a caller works in, as file URIs; its working directory if it names none.

    The folders of a caller that is not the user of this machine are not folders of this machine.
    """
    if not _is_local(caller):
        return ()
    if caller.roots or not caller.cwd:
        return tuple(sorted(caller.roots))
    from urllib.parse import quote

    return ("file://" + quote(caller.cwd),)


def _is_local(caller: Caller) -> bool:
    return caller.access.holder == LOCAL.holder


def _with_folders(server: Server, caller: Caller | None) -> Server:
    """Return the server with its clients' folders, filled in wherever its texts name one."""
    if caller is not None and server.share != "hub":
        server = structs.replace(server, roots=_roots(caller))
    if caller is not None and server.share == "client":
        server = structs.replace(server, capabilities=caller.capabilities)
    if not server.needs_folder:
        return server
    folder = _folder(caller)
    if not folder:
        raise UpstreamUnavailable(
            say("{server!n} runs in a client's folder, but no client has named one.", server=server.name)
        )
    return server.in_folder(folder)


def _folder(caller: Caller | None) -> str | None:
    if caller is None or not _is_local(caller):
        return None
    for root in caller.roots:
        if root.startswith("file://"):
            from urllib.parse import unquote, urlsplit

            return unquote(urlsplit(root).path)
    return caller.cwd


CLIENT_REQUESTS = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})
"""Requests of a server that no one can answer for all clients together."""

_EACH = {"roots": "set of folders", "client": "client"}


class ServerSharing:
    """Decides whether a server runs once for all clients, for each set of folders, or for each client.

    ``on_learned`` is called with a server and how it has to be shared from now on.
    """

    def __init__(self, on_learned: Callable[[Server, str], None]) -> None:
        self._on_learned = on_learned
        self.learned: dict[tuple[str, str], str] = {}

    def restore(self, learned: dict[tuple[str, str], str]) -> None:
        """Take what was learned in earlier runs: by name and fingerprint."""
        self.learned = learned

    def shared(self, server: Server) -> Server:
        """Return the server with its effective ``share``: the configured one takes precedence."""
        learned = self.learned.get((server.name, server.fingerprint))
        if learned is None or server.share_given or server.share != "hub":
            return server
        return structs.replace(server, share=cast("Share", learned))

    def learn(self, configured: Server | None, running: Server, method: str) -> None:
        """Note that a running server sent a request to its client. From now on it runs for that client."""
        share = "roots" if method == "roots/list" else "client"
        if configured is None or configured.share_given or method not in CLIENT_REQUESTS:
            return
        if running.share == "client" or self.shared(configured).share in (share, "client"):
            return
        self.learned[running.name, running.fingerprint] = share
        log.warning(
            '%s asked its client for %s, so it runs once for each %s from now on. "share" in the servers '
            "file decides otherwise.", running.name, method, _EACH[share],
        )  # fmt: skip
        self._on_learned(running, share)


class HealthChecks:
    """Checks the instances of all enabled servers.

    ``interval`` are the seconds between two regular checks, which ``spawn`` runs. ``obstacle`` returns why a
    server cannot be started, as far as files show; it blocks.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instances: Instances,
        enabled: Callable[[], list[Server]],
        obstacle: Callable[[Server], Message | None],
        interval: float,
        spawn: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self.timeout = 10.0
        self._loop, self._instances, self._enabled = loop, instances, enabled
        self._obstacle, self.interval, self._spawn = obstacle, interval, spawn
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check regularly from now on. Instances that nobody uses are ended at the same time."""
        self._timer = self._loop.call_later(self.interval, self._tick)

    def stop(self) -> None:
        """Check no more."""
        if self._timer:
            self._timer.cancel()

    async def check(self) -> dict[str, bool]:
        """Return at once whether every running instance answers; wait for those that are starting.

        A server that is not running counts as healthy unless it cannot be started (see :meth:`obstacles`). A
        server that is disabled or stopped is left out.
        """
        names = [server.name for server in self._enabled()]
        found = dict(zip(names, await asyncio.gather(*map(self._healthy, names)), strict=True))
        blocked = await self.obstacles()
        return {name: well and name not in blocked for name, well in found.items() if well is not None}

    async def obstacles(self) -> dict[str, Message]:
        """Return why servers that are not running cannot be started, as far as files show.

        Servers that already failed are left out.
        """
        idle = [server for server in self._enabled() if not self.tried(server.name)]
        found = await asyncio.to_thread(list, map(self._obstacle, idle))
        return {server.name: why for server, why in zip(idle, found, strict=True) if why is not None}

    def tried(self, name: str) -> bool:
        """Return whether the server is running, or the result of its last start is known."""
        return any(instance.state is not UpstreamState.IDLE for instance in self._instances.of(name))

    async def _healthy(self, name: str) -> bool | None:
        every = list(self._instances.of(name))
        instances = [instance for instance in every if instance.state is not UpstreamState.STOPPED]
        if not instances:
            return None if every else True
        starting = [instance for instance in instances if instance.state is UpstreamState.STARTING]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timeout):
                await asyncio.gather(*(each.ensure() for each in starting), return_exceptions=True)
        instances = [instance for instance in instances if instance.state is not UpstreamState.IDLE]
        results = await asyncio.gather(*(instance.check(self.timeout) for instance in instances))
        return all(results)

    def _tick(self) -> None:
        self.start()
        self._instances.expire()
        self._spawn(self._look_after())

    async def _look_after(self) -> None:
        running = [instance for instance in self._instances if instance.connection]
        await asyncio.gather(*(instance.look_after(self.timeout) for instance in running))

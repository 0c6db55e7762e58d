"""The state that the hubs of a group share, and the place of one hub in its group.

All times are those of the one place that keeps the state. So the clocks of the machines do not matter.

The place of one hub in its group: it joins, sends heartbeats, knows the others, and leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from tabane.errors import HubError, TabaneError
from tabane.group.signatures import new_id
from tabane.messages import Lang, say

MemberState = Literal["ready", "draining", "leaving"]
"""``draining``: it still answers, and no new clients should come. ``leaving``: others take its sessions."""

GONE_AFTER = 10.0
"""Seconds without a heartbeat after which a hub counts as gone."""

REMEMBERED = 86_400
"""Seconds for which a hub that is gone stays known, so that its handles are recognized."""

MOST_LEASES = 1_000
"""Servers whose hubs are looked at."""

MOST_MEMBERS = 256
"""Hubs that are looked at, those that are gone included."""

LARGEST_SESSION = 256 << 10
"""Bytes of the messages that bring another hub to the state of a session."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A hub as the others see it.

    ``id`` is of this run of the hub. ``mark`` is in its handles, and stays the same over restarts.
    ``address`` is where other hubs reach it.
    """

    id: str
    mark: str
    address: str
    version: str
    state: MemberState = "ready"
    age: float = 0.0
    """Seconds between its last heartbeat and the moment at which it was looked for."""

    @property
    def alive(self) -> bool:
        """Whether its last heartbeat is recent enough for the others to count on it."""
        return self.age < GONE_AFTER

    @property
    def serves(self) -> bool:
        """Return whether it answers requests for its sessions."""
        return self.alive and self.state != "leaving"


@dataclass(frozen=True, slots=True)
class GroupView:
    """The hubs of a group at one moment. ``now`` is in seconds since 1970, by the shared clock.

    ``changes`` is the number of the last change of what all hubs follow, such as API keys. ``leases`` are the
    ids of the hubs that run the servers which one hub runs for all, by server.
    """

    now: float
    members: tuple[GroupMember, ...]
    changes: int = 0
    leases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of an older client: what another hub needs to go on with it.

    ``digest`` is of its id. ``owner`` is the identity that began it, ``messages`` are the lines of the client
    that made the state of the session, ``hub`` is the hub that has it.
    """

    digest: str
    hub: str
    owner: str
    mode: str
    messages: tuple[bytes, ...]


class GroupState(Protocol):
    """Keeps what the hubs of a group share. Raises StoreError if it cannot be reached."""

    async def join(self, me: GroupMember) -> bytes:
        """Add a hub, and return the key of the group, which the first hub makes."""
        ...

    async def beat(self, me: GroupMember) -> GroupView:
        """Note that a hub is there, in this state, and return all of them."""
        ...

    async def keep_session(self, session: StoredSession) -> None:
        """Keep a session, or its changed state."""
        ...

    async def drop_session(self, digest: str, hub: str) -> None:
        """Forget a session that its hub has ended."""
        ...

    async def claim_session(self, digest: str, hub: str) -> StoredSession | None:
        """Give a session to a hub if the one that has it is gone or leaving; return it with the hub that has
        it then. None if it was never kept, or has ended.
        """
        ...

    async def lost_sessions(self, digests: list[str], hub: str) -> list[str]:
        """Return those of a hub's sessions that another hub has now."""
        ...

    async def claim_server(self, server: str, hub: str) -> str:
        """Give a server to a hub if the one that runs it is gone or leaving; return who runs it then.

        A hub has its servers for as long as its heartbeats are seen.
        """
        ...

    async def release_server(self, server: str, hub: str) -> None:
        """Give back a server that its hub does not run any more."""
        ...

    async def close(self) -> None:
        """Finish what was begun."""
        ...


log = logging.getLogger(__name__)

BEAT = 1.0
"""Seconds between two heartbeats, and so until a hub sees that another one comes, drains or goes."""

RETRY = 2.0
"""Seconds between two attempts to join."""

LAST_WORDS = 3.0
"""Seconds that a hub which ends may take to say so."""


SAFETY = 2.0
"""Seconds before others may take them in which a hub gives up the servers that it runs for all."""


class HubGroup:
    """A hub in its group. ``open_state`` connects to what the hubs share. ``clock`` returns seconds.

    ``on_lapse`` is called when the hub has been without a heartbeat for so long that others may have taken
    its sessions.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        mark: str,
        version: str,
        open_state: Callable[[], Awaitable[GroupState]],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._loop, self._open_state, self._clock = loop, open_state, clock or loop.time
        self.me = GroupMember(new_id(), mark, address.rstrip("/"), version)
        self.key = b""
        """The secret of the group; empty before this hub has joined."""
        self.problem: TabaneError | None = None
        """Why this hub cannot reach the others, or they cannot be told apart."""
        self.on_lapse: Callable[[], Awaitable[None]] | None = None
        self.follow: Callable[[], Awaitable[None]] | None = None
        """Copies what was changed elsewhere, such as API keys. This hub joins when it has all of it."""
        self.tidy: Callable[[], Awaitable[None]] | None = None
        """Called after heartbeats: tells the others what is new, and gives back what is not used here."""
        self.part: Callable[[], Awaitable[None]] | None = None
        """Called before this hub leaves: tells the others what it has not told yet."""
        self._followed = -1
        self._requests = 0
        self._following: asyncio.Task[None] | None = None
        self._state: GroupState | None = None
        self._view = GroupView(0.0, ())
        self._seen = 0.0
        self._by_id: dict[str, GroupMember] = {}
        self._by_mark: dict[str, GroupMember] = {}
        self._turn = asyncio.Lock()
        self._news: asyncio.Event = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to join."""
        self._running = self._loop.create_task(self._run())

    async def close(self) -> None:
        """Leave the group."""
        tasks = [task for task in (self._running, self._following) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        state, self._state = self._state, None
        if state is not None:
            await self._tell_last_words()
            await state.close()

    async def _tell_last_words(self) -> None:
        if self.part is None or not self.joined:
            return
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self.part()
        except (TimeoutError, TabaneError) as error:
            log.warning("the other hubs could not be told the last news of this one: %s", error)

    async def announce(self, state: MemberState) -> None:
        """Tell the others the state of this hub, if they can be told within seconds."""
        self.me = replace(self.me, state=state)
        if self._state is None:
            return
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self._beat(self._state)
        except (TimeoutError, TabaneError) as error:
            log.warning("the other hubs could not be told that this one is %s: %s", state, error)

    # -- what is known ---------------------------------------------------------------------------

    @property
    def joined(self) -> bool:
        """Whether this hub has the key of the group, which it gets when it joins."""
        return bool(self.key)

    @property
    def connected(self) -> bool:
        """Return whether this hub has joined, and has not left."""
        return self.joined and self._state is not None

    @property
    def keeps_sessions(self) -> bool:
        """Return whether the sessions of this hub are its own: others have them once it is leaving."""
        return self._state is not None and self.me.state != "leaving"

    @property
    def state(self) -> GroupState:
        """Return what the hubs share. This hub has joined."""
        assert self._state is not None
        return self._state

    @property
    def now(self) -> float:
        """Return the time by the shared clock."""
        return self._view.now + self._clock() - self._seen

    def next_number(self) -> int:
        """Return the number of the next request that this hub signs."""
        self._requests += 1
        return self._requests

    def member(self, id: str) -> GroupMember | None:
        """Return a hub by its id; None if it is not known any more."""
        return self._by_id.get(id)

    def marked(self, mark: str) -> GroupMember | None:
        """Return the hub whose handles have that mark, the one that is alive first."""
        return self._by_mark.get(mark)

    @property
    def marks(self) -> Container[str]:
        """Return the marks of the hubs that are known."""
        return self._by_mark

    @property
    def in_touch(self) -> bool:
        """Return whether the others have surely heard of this hub lately, and have not taken its servers."""
        return self._clock() - self._seen < GONE_AFTER - SAFETY

    def runner(self, server: str) -> str:
        """Return the id of the hub that runs a server for all, as it was seen last; empty if none does."""
        return self._view.leases.get(server, "")

    def another(self) -> GroupMember | None:
        """Return another hub that takes new clients."""
        others = (each for each in self._view.members if each.alive and each.state == "ready")
        return next((each for each in others if each.id != self.me.id), None)

    async def news(self) -> None:
        """Wait until the hubs of the group were looked for again."""
        await self._news.wait()

    def report(self, lang: Lang = "en") -> dict[str, Any]:
        """Return what status shows: the hubs that are there, and the problem as a text, empty if none."""
        rows = [
            {"id": one.id, "address": one.address, "version": one.version, "state": one.state,
             "this": one.id == self.me.id}
            for one in self._view.members
            if one.alive
        ]  # fmt: skip
        return {"hubs": rows, "problem": self.problem.text(lang) if self.problem else ""}

    # -- heartbeats ------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self.joined:
            try:
                await self._join()
            except TabaneError as error:
                self._note_problem(error)
                await asyncio.sleep(RETRY)
        while True:
            await asyncio.sleep(BEAT)
            try:
                assert self._state is not None
                await self._beat(self._state)
                if self._following is None or self._following.done():
                    self._following = self._loop.create_task(self._followed_to(self._view.changes))
                self._note_problem(self._duplicate_mark())
            except TabaneError as error:
                self._note_problem(error)

    async def _join(self) -> None:
        if self._state is None:
            self._state = await self._open_state()
        key = await self._state.join(self.me)
        await self._beat(self._state)
        await self._follow(self._view.changes)
        self.key = key
        self._note_problem(self._duplicate_mark())
        log.info("hub %s has joined its group at %s", self.me.id, self.me.address)

    async def _beat(self, state: GroupState) -> None:
        async with self._turn:
            before = self._clock()
            view = await state.beat(self.me)
            lapsed = self.joined and before - self._seen >= GONE_AFTER
            self._seen = (before + self._clock()) / 2
            self._view = view
            self._by_id = {each.id: each for each in view.members}
            # Of a hub that was restarted, the run that is there now comes last, and counts.
            self._by_mark = {each.mark: each for each in sorted(view.members, key=lambda one: -one.age)}
            news, self._news = self._news, asyncio.Event()
            news.set()
        if lapsed and self.on_lapse is not None:
            await self.on_lapse()

    async def _followed_to(self, changes: int) -> None:
        try:
            if changes != self._followed:
                await self._follow(changes)
            if self.tidy is not None:
                await self.tidy()
        except TabaneError as error:
            self._note_problem(error)

    async def _follow(self, changes: int) -> None:
        if self.follow is not None:
            await self.follow()
        self._followed = changes

    def _duplicate_mark(self) -> TabaneError | None:
        """Return the problem that another hub has the mark of this one, so that handles name both."""
        for each in self._view.members:
            if each.alive and each.mark == self.me.mark and each.address != self.me.address:
                message = say(
                    "The home of the hub at {address} is a copy of the home of this one. Delete the file "
                    "questions.key in one of them, and run there: tabane restart",
                    address=each.address,
                )
                return HubError(message)
        return None

    def _note_problem(self, problem: TabaneError | None) -> None:
        if problem is not None and str(problem) != str(self.problem):
            log.warning("in the group of hubs: %s", problem)
        self.problem = problem

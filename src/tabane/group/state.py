"""The state that the hubs of a group share: values, and the protocol of what keeps them.

All times are those of the one place that keeps the state. So the clocks of the machines do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

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

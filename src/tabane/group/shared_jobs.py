"""Jobs that the hubs of a group share, and the protocol of their storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LARGEST_STATE = 64 << 10
"""Bytes of a job's state in all languages. The result of a job is left out if it would be larger."""

MOST_ENDED = 100
"""Jobs that are over and stay known in the group; the oldest go first."""

FORGOTTEN_AFTER = 86_400
"""Seconds for which a job is known after its hub told of it for the last time."""


@dataclass(frozen=True, slots=True)
class SharedJob:
    """A job as its hub told of it.

    ``hub`` is the id of the hub, ``address`` where it is reached. ``state`` is JSON: the state of the job in
    each language. ``alive`` is whether the hub is there, and ``told`` the time of the last state in seconds
    since 1970; what keeps the job sets both.
    """

    hub: str
    address: str
    key: str
    running: bool
    state: bytes
    alive: bool = True
    told: float = 0.0


class SharedJobs(Protocol):
    """Keeps the jobs of a group of hubs. Raises StoreError if it cannot be reached."""

    async def tell(self, hub: str, jobs: list[SharedJob]) -> list[str]:
        """Keep the states of some of a hub's jobs. Return the keys of its jobs that are to be cancelled."""
        ...

    async def others(self, hub: str) -> list[SharedJob]:
        """Return the jobs of all other hubs."""
        ...

    async def find(self, hub: str, key: str) -> SharedJob | None:
        """Return a job of another hub; None if there is none with that key."""
        ...

    async def cancel(self, job: SharedJob) -> None:
        """Have its hub cancel a job."""
        ...

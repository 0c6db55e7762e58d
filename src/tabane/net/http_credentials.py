"""Protocol of the credentials that requests to a server carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class RequestCredentials(Protocol):
    """Credentials of one server, which may change between two requests."""

    def sends_none(self) -> bool:
        """Return whether requests carry none, as far as that is known without a wait."""
        ...

    async def headers(self) -> Mapping[str, str]:
        """Return the headers to send. Raises LoginRequired, and UpstreamUnavailable."""
        ...

    async def refused(
        self, used: Mapping[str, str], status: int, challenges: Sequence[str], *, again: bool
    ) -> bool:
        """Return whether to send a request that was refused (401 or 403) once more.

        ``used`` are the headers that it carried, ``challenges`` those that say what would be accepted.
        ``again``: it was sent once more already. Raises as :meth:`headers` does.
        """
        ...

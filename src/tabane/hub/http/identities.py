"""Identities over HTTP besides the hub's own token."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from msgspec import Struct

from tabane.operations.access import LOCAL, Access


class KeyFinder(Protocol):
    """Finds API keys. It takes the same time for a key that exists and for one that does not."""

    def find(self, secret: str) -> Access | None:
        """Return the access of a key; None if it is unknown, expired or revoked."""
        ...


class TokenVerifier(Protocol):
    """Verifies tokens of an OAuth server."""

    async def verify(self, token: str) -> Access:
        """Return the access of a token. Raises TabaneError if it is not valid for this hub."""
        ...


class ProfileShelf(Protocol):
    """The profiles of the settings."""

    def names(self) -> Collection[str]: ...

    def narrowed(self, access: Access, name: str) -> Access:
        """Return what an identity may do within a profile that exists."""
        ...


def _unheard(source: str, reason: str) -> None:
    return


def only_local(holder: str) -> Access | None:
    """Return the access of the local user, and of nobody else."""
    return LOCAL if holder == LOCAL.holder else None


class HttpIdentities(Struct, frozen=True):
    """Identities besides the hub's own token.

    ``exist`` returns whether there is any key, or OAuth is configured: without, nobody could come in from
    another machine. ``on_refused`` is called with the source and the reason of each failed attempt.
    ``restore`` returns the access of a holder whose key was shown before, None if it has ended.
    ``on_signed_in`` is called with the holder and the source of a browser that signed in.
    ``resource_metadata`` returns the OAuth metadata of the hub as a URL and a JSON document; None without
    OAuth.
    """

    keys: KeyFinder | None = None
    tokens: TokenVerifier | None = None
    profiles: ProfileShelf | None = None
    exist: Callable[[], bool] = lambda: False
    on_refused: Callable[[str, str], None] = _unheard
    resource_metadata: Callable[[], tuple[str, bytes] | None] = lambda: None
    restore: Callable[[str], Access | None] = only_local
    on_signed_in: Callable[[str, str], None] = _unheard

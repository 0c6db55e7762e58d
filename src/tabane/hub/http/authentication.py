"""Authentication and identities over HTTP: the hub's token, API keys, and tokens of an OAuth server."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Protocol

from tabane.access.oauth.refusals import AuthorizationServerUnavailable, ScopeMissing
from tabane.errors import TabaneError
from tabane.operations.caller import LOCAL, Access, CallTarget
from tabane.wire.http import same_token

if TYPE_CHECKING:
    from tabane.hub.http.sources import FailedAttempts

KEY_PREFIX = "tbn_"
"""Begins each API key."""

MOST_CREDENTIAL = 16 << 10
"""Characters of a bearer value that are looked at."""

Refusal = Literal["token", "key", "oauth"]

_ENDLESS = frozenset(("local", "loopback"))
_PRESENCE = CallTarget("ping", source="hub", kind="operation", changes=False)


class RefusedCredential(Exception):
    """Nobody is known by that value. ``retry_after`` is in seconds; 0 where another attempt may come now.

    ``why`` is what is wrong with an access token, or with the OAuth server. ``key``: the value has the form
    of an API key.
    """

    def __init__(
        self, retry_after: float = 0.0, why: TabaneError | None = None, *, key: bool = False
    ) -> None:
        super().__init__()
        self.retry_after, self.why, self.key = retry_after, why, key


class UncheckedCredential(Exception):
    """It cannot be known now whose value it is, for a reason that is not the client's."""


class Authenticator:
    """Tells whose bearer value it is. ``token`` is the hub's own; None if none is required."""

    def __init__(self, token: str | None, identities: HttpIdentities, attempts: FailedAttempts) -> None:
        self.token, self.identities, self.attempts = token, identities, attempts

    def known(self, credential: str) -> Access | None:
        """Return the access of the hub's token, or of an API key; None for anything else.

        Raises UncheckedCredential.
        """
        if len(credential) > MOST_CREDENTIAL:
            return None
        if self.token is not None and same_token(credential, self.token):
            return LOCAL
        keys = self.identities.keys
        if keys is None or not credential.startswith(KEY_PREFIX):
            return None
        try:
            return keys.find(credential)
        except TabaneError as error:  # the file of keys cannot be used
            raise UncheckedCredential(str(error)) from None

    async def identify(self, credential: str, source: str) -> Access:
        """Return the access of a bearer value from a source. Raises RefusedCredential, the later the more
        attempts of the source have failed.
        """
        access = self.known(credential)
        if access is not None:
            return access
        why: TabaneError | None = None
        reason: Refusal = "key" if credential.startswith(KEY_PREFIX) else "token"
        tokens = self.identities.tokens
        if tokens is not None and reason == "token" and 0 < len(credential) <= MOST_CREDENTIAL:
            if self.attempts.delay(source) and self.attempts.crowded(source):
                # Verifying takes work, here or at the OAuth server. Who failed so often waits for it.
                self.attempts.counts["limited"] += 1
                raise RefusedCredential(self.attempts.delay(source))
            try:
                return await tokens.verify(credential)
            except (AuthorizationServerUnavailable, ScopeMissing) as error:
                # Neither is an attempt with a wrong token.
                raise RefusedCredential(why=error) from None
            except TabaneError as error:
                reason, why = "oauth", error
        retry_after = await self.attempts.fail(source, reason) or 0.0
        raise RefusedCredential(retry_after, why, key=reason == "key")


def has_ended(access: Access) -> bool:
    """Return whether an access was revoked, or has expired: it allows nothing any more."""
    return access.holder not in _ENDLESS and not access.allows(_PRESENCE)


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


def only_local(holder: str) -> Access | None:
    """Return the access of the local user, and of nobody else."""
    return LOCAL if holder == LOCAL.holder else None


class HttpIdentities:
    """Identities besides the hub's own token. Without any, there is the local user alone."""

    def __init__(
        self,
        keys: KeyFinder | None = None,
        tokens: TokenVerifier | None = None,
        profiles: ProfileShelf | None = None,
    ) -> None:
        self.keys, self.tokens, self.profiles = keys, tokens, profiles

    def exist(self) -> bool:
        """Return whether anybody could come in from another machine: with a key, or by OAuth."""
        return self.keys is not None or self.tokens is not None

    def resource_metadata(self) -> tuple[str, bytes] | None:
        """Return the OAuth metadata of the hub as a URL and a JSON document; None without OAuth."""
        return None

    def restore(self, holder: str) -> Access | None:
        """Return the access of a holder whose key was shown before; None if it has ended."""
        return only_local(holder)

    def refused(self, source: str, reason: str) -> None:
        """Note a failed attempt of a source."""

    def signed_in(self, holder: str, source: str) -> None:
        """Note that a browser signed in."""

"""Authentication and identities over HTTP: the hub's token, API keys, and tokens of an OAuth server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from tabane.access.oauth.refusals import AuthorizationServerUnavailable, ScopeMissing
from tabane.errors import TabaneError
from tabane.hub.clients.server_access import ProjectAccess
from tabane.hub.hub import Hub
from tabane.hub.people.access import HubAccess
from tabane.hub.people.oauth import HubOAuth
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


class HubIdentities:
    """Identities of one hub. ``url`` returns the URL of MCP, None if it is not served."""

    def __init__(self, hub: Hub, url: Callable[[], str | None]) -> None:
        self._hub, self._url = hub, url
        self._oauth = HubOAuth(hub.context, self._resource)

    def over_http(self) -> HttpIdentities:
        """Return them as HTTP uses them. Failed attempts are recorded in the audit log."""
        access = self._hub.access
        return HttpIdentities(
            keys=KeysOnUse(access),
            tokens=self._oauth if self._oauth.active else None,
            profiles=ProfilesOnUse(access),
            exist=self._exist,
            on_refused=self._refused,
            resource_metadata=self._oauth.metadata,
            restore=self._restore,
            on_signed_in=self._signed_in,
        )

    async def close(self) -> None:
        await self._oauth.close()

    def _exist(self) -> bool:
        if self._hub.settings.advertise:
            return True  # the keys of the group come with it
        try:
            return self._oauth.active or self._hub.access.keys.exist()
        except TabaneError:
            return False  # the file of keys cannot be used, so no key is known

    def _restore(self, holder: str) -> Access | None:
        local = only_local(holder)
        if local is not None or not holder.startswith("key:"):
            return local
        try:
            found = self._hub.access.keys.with_id(holder.removeprefix("key:"))
        except TabaneError:
            return None  # the file of keys cannot be used, so no key is known
        # Whoever has a key works in no folder of this machine.
        return ProjectAccess(found, lambda: self._hub.gateway.servers) if found else None

    def _signed_in(self, holder: str, source: str) -> None:
        self._hub.audit.event("access", "sign_in", "ok", "web", holder=holder, source=source)

    def _refused(self, source: str, reason: str) -> None:
        self._hub.audit.event("access", "sign_in", "refused", reason, holder="", source=source)

    def _resource(self) -> str:
        public = self._hub.settings.public_url.rstrip("/")
        return f"{public}/mcp" if public else self._url() or ""


class KeysOnUse:
    """The API keys of a hub. They are loaded when somebody shows one."""

    def __init__(self, access: HubAccess) -> None:
        self._access = access

    def find(self, secret: str) -> Access | None:
        return self._access.keys.find(secret)


class ProfilesOnUse:
    """The profiles of a hub. They are loaded when somebody names one."""

    def __init__(self, access: HubAccess) -> None:
        self._access = access

    def names(self) -> Collection[str]:
        return self._access.profiles.names()

    def narrowed(self, access: Access, name: str) -> Access:
        return self._access.profiles.narrowed(access, name)

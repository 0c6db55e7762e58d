"""Identities that a hub knows over HTTP: its API keys, and the tokens of an authorization server."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tabane.errors import TabaneError
from tabane.hub.clients.project_access import ProjectAccess
from tabane.hub.http.identities import HttpIdentities, only_local
from tabane.hub.hub import Hub
from tabane.hub.people.access import HubAccess
from tabane.hub.people.oauth import HubOAuth
from tabane.operations import Access


class HubIdentities:
    """Identities of one hub. ``url`` returns the URL of MCP, None if it is not served."""

    def __init__(self, hub: Hub, url: Callable[[], str | None]) -> None:
        self._hub, self._url = hub, url
        self._oauth = HubOAuth(lambda: hub.settings, self._resource, hub.environment)

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

"""OAuth of a hub: access tokens of the authorization server that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tabane.errors import ConfigurationError, Unauthorized
from tabane.hub.context import HubContext
from tabane.messages import say
from tabane.operations import Access, Lazy
from tabane.servers.variables import variables_of
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.access.oauth.resource import OAuthResource


class HubOAuth:
    """Verifies access tokens. Nothing is imported while the setting oauth_issuer is empty.

    ``own_url`` returns the URL of MCP as clients see it. Raises ConfigurationError if oauth_scopes is wrong.
    """

    def __init__(self, context: HubContext, own_url: Callable[[], str]) -> None:
        self._context, self._own_url = context, own_url
        self._resource = Lazy(self._open_resource)
        if context.settings.oauth_scopes:
            from tabane.access.oauth.oauth_access import ScopeTable

            ScopeTable(context.settings.oauth_scopes)

    @property
    def active(self) -> bool:
        """Return whether an authorization server is named."""
        return bool(self._context.settings.oauth_issuer)

    async def verify(self, token: str) -> Access:
        """Return the access that a token gives.

        Raises Unauthorized (a TokenRefused), and AuthorizationServerUnavailable if that cannot be known now.
        """
        if not self.active:
            raise Unauthorized(say("This hub accepts no access tokens, because oauth_issuer is not set."))
        return await self._resource().verify(token)

    def metadata(self) -> tuple[str, bytes] | None:
        """Return the URL and the JSON document of the hub's metadata (RFC 9728); None without OAuth."""
        return self._resource().metadata() if self.active else None

    async def close(self) -> None:
        """Close every connection to the authorization server."""
        if self._resource.opened is not None:
            await self._resource.opened.close()

    def _open_resource(self) -> OAuthResource:
        from tabane.access.oauth.resource import OAuthResource

        return OAuthResource(
            lambda: self._context.settings, self._own_url, self._secret, self._context.environment
        )

    def _secret(self) -> str:
        """Return the client secret for introspection. Raises ConfigurationError if it is not set."""
        return client_secret(self._context.settings, self._context.environment)


def client_secret(settings: Settings, environment: Mapping[str, str]) -> str:
    """Return the client secret for introspection. Raises ConfigurationError if it is not set."""
    name = settings.oauth_client_secret.removeprefix("${").removesuffix("}")
    found = variables_of(settings, environment).get(name)
    if not found:
        raise ConfigurationError(
            say(
                "The variable {name} of the setting oauth_client_secret is not set. Add {name}=… to {path}.",
                name=name,
                path=settings.home / "secrets.env",
            )
        )
    return found

"""The hub as a resource of an authorization server: what the HTTP interface uses of OAuth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from tabane.access.oauth.claims import OAuthIssuer, issuer_of
from tabane.access.oauth.fetching import AuthorizationServerHttp
from tabane.access.oauth.oauth_access import OAuthAccess
from tabane.access.oauth.refusals import TokenRefused, challenge, metadata_url, resource_metadata
from tabane.access.oauth.verifier import OAuthVerifier, TokenClock
from tabane.settings import Settings
from tabane.settings.addresses import is_safe_url


class OAuthResource:
    """Verifies tokens as the settings say at that moment. Without the setting oauth_issuer it is not active.

    ``own_url`` returns the hub's URL of MCP, ``secret`` the client secret for introspection, and
    ``environment`` is the hub's.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        own_url: Callable[[], str],
        secret: Callable[[], str],
        environment: Mapping[str, str],
        clock: TokenClock = TokenClock(),  # noqa: B008  (it is frozen)
    ) -> None:
        self._settings, self._own_url, self._secret = settings, own_url, secret
        self._environment, self._clock = environment, clock
        self._read: tuple[Settings, str] | None = None
        self._issuer: OAuthIssuer | None = None
        self._verifier: OAuthVerifier | None = None
        self._requests: AuthorizationServerHttp | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> bool:
        """Whether tokens of an authorization server are accepted."""
        return self._current_issuer() is not None

    @property
    def resource(self) -> str:
        """The URL by which clients know the hub: the audience, if that is a URL of HTTP."""
        issuer = self._current_issuer()
        audience = issuer.audience if issuer else ""
        return audience if is_safe_url(audience) and not urlsplit(audience).fragment else self._own_url()

    async def verify(self, token: str) -> OAuthAccess:
        """Return the access that a token gives.

        Raises TokenRefused, and AuthorizationServerUnavailable if that cannot be known now.
        """
        issuer = self._current_issuer()
        if issuer is None:
            raise TokenRefused("issuer", "oauth_issuer is not set")
        return await self._verifier_of(issuer).verify(token)

    def metadata(self) -> tuple[str, bytes] | None:
        """Return the metadata of the hub as a resource, as its URL and a JSON document.

        None if OAuth is not set up.
        """
        issuer = self._current_issuer()
        if issuer is None:
            return None
        document = resource_metadata(self.resource, issuer.url, self._verifier_of(issuer).scopes.advertised)
        return metadata_url(self.resource), msgspec.json.encode(document)

    def challenge(self, refused: TokenRefused | None = None) -> str | None:
        """Return the header WWW-Authenticate for a client; None if OAuth is not set up."""
        return challenge(metadata_url(self.resource), refused) if self.active else None

    async def close(self) -> None:
        """Close every connection to the authorization server."""
        self._retire_verifier()
        if self._closing:
            await asyncio.wait(self._closing)

    def _current_issuer(self) -> OAuthIssuer | None:
        """Return the authorization server of the current settings."""
        settings, own_url = self._settings(), self._own_url()
        if self._read is None or self._read[0] is not settings or self._read[1] != own_url:
            issuer = issuer_of(settings, own_url)
            if issuer != self._issuer:
                self._retire_verifier()
            self._read, self._issuer = (settings, own_url), issuer
        return self._issuer

    def _verifier_of(self, issuer: OAuthIssuer) -> OAuthVerifier:
        if self._verifier is None:
            self._requests = AuthorizationServerHttp(issuer.timeout, issuer.ca, self._environment)
            self._verifier = OAuthVerifier(issuer, self._requests, self._secret, self._clock)
        return self._verifier

    def _retire_verifier(self) -> None:
        """Close the verifier of earlier settings. Its accesses allow nothing from now on."""
        verifier, requests = self._verifier, self._requests
        self._verifier = self._requests = None
        if verifier is not None and requests is not None:
            verifier.retire()
            task = asyncio.ensure_future(_close_both(verifier, requests))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close_both(verifier: OAuthVerifier, requests: AuthorizationServerHttp) -> None:
    await verifier.close()
    await requests.close()

"""The current keys of the authorization server: fetched when needed, and seldom."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

from tabane.access.oauth.discovery import discover_jwks_url
from tabane.access.oauth.fetching import AuthorizationServerRequests, FetchFailed
from tabane.access.oauth.issuer import OAuthIssuer
from tabane.access.oauth.refusals import AuthorizationServerUnavailable, TokenRefused, quoted
from tabane.access.oauth.signing_keys import SigningKey, SigningKeys, parse_signing_keys
from tabane.extras import extra_command

log = logging.getLogger(__name__)

MOST_JWKS = 256 << 10

FRESH = 300.0
"""Seconds after which the keys are fetched again in the background, when they are used."""

STALE = 3_600.0
"""Seconds after which keys that could not be fetched again are no longer trusted."""

UNKNOWN_KEY = 60.0
"""Least seconds between two fetches because of a key id that is not known: anybody can invent one."""

RETRY = 5.0
"""Least seconds between two fetches while there are no keys."""


class SigningKeyCache:
    """Holds the keys of one issuer. ``changed`` is called after each fetch, with the keys.

    ``ticks`` is a clock in seconds.
    """

    def __init__(
        self,
        issuer: OAuthIssuer,
        requests: AuthorizationServerRequests,
        changed: Callable[[SigningKeys], None],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._requests, self._changed, self._ticks = issuer, requests, changed, ticks
        self.keys = SigningKeys()
        self._fetched = self._attempted = -math.inf
        self._problem = ""
        self._fetching: asyncio.Task[None] | None = None

    async def fitting(self, key_id: str | None, algorithm: str) -> tuple[SigningKey, ...]:
        """Return the keys that may have signed a token.

        Raises TokenRefused if there is none, and AuthorizationServerUnavailable if that cannot be known.
        """
        await self._require()
        found = self.keys.fitting(key_id, algorithm)
        if not found and self._may_fetch(UNKNOWN_KEY):
            await self._fetch()
            if self._problem:
                raise self._unavailable()
            found = self.keys.fitting(key_id, algorithm)
        if not found:
            raise TokenRefused("key", f"kid {quoted(key_id)}, alg {algorithm}")
        return found

    def refresh(self) -> None:
        """Fetch the keys in the background if it is time to."""
        if self._age >= FRESH and self._may_fetch(UNKNOWN_KEY):
            self._begin()

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    @property
    def trusted(self) -> bool:
        """Return whether the keys are recent enough to be trusted."""
        return self._age < STALE

    @property
    def _age(self) -> float:
        return self._ticks() - self._fetched

    def _may_fetch(self, gap: float) -> bool:
        return self._under_way or self._ticks() - self._attempted >= gap

    @property
    def _under_way(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def _require(self) -> None:
        """Have keys that are trusted. Raises AuthorizationServerUnavailable."""
        if self.trusted:
            self.refresh()
            return
        if self._may_fetch(RETRY):
            await self._fetch()
        if not self.trusted:
            raise self._unavailable()

    def _unavailable(self) -> AuthorizationServerUnavailable:
        return AuthorizationServerUnavailable(self._problem, RETRY)

    async def _fetch(self) -> None:
        # Shielded: a client that goes away does not stop a fetch that others wait for.
        await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._attempted = self._ticks()
            self._fetching = asyncio.ensure_future(self._run())
        return self._fetching

    async def _run(self) -> None:
        """Fetch the keys. Never raises: see ``_problem``."""
        try:
            keys = await self._load()
        except FetchFailed as failed:
            self._problem = str(failed)
            log.warning("The keys of %s could not be fetched: %s", self._issuer.url, failed)
            return
        self._problem, self._fetched, self.keys = "", self._ticks(), keys
        log.debug("%s has %d keys", self._issuer.url, len(keys))
        self._changed(keys)

    async def _load(self) -> SigningKeys:
        url = self._issuer.jwks_url or await discover_jwks_url(self._issuer.url, self._requests)
        document = await self._requests.get(url, MOST_JWKS)
        try:
            # In a thread: parsing takes milliseconds, and the first time imports cryptography.
            keys = await asyncio.to_thread(parse_signing_keys, document, self._issuer.algorithms)
        except ValueError as error:
            raise FetchFailed(f"{url} has no JWKS: {error}") from None
        except ImportError:
            raise FetchFailed(
                f"the packages of tabane[oauth] are missing. Run: {extra_command('oauth')}"
            ) from None
        if not len(keys):
            raise FetchFailed(
                f"{url} has no key for signatures by {', '.join(sorted(self._issuer.algorithms))}"
            )
        return keys

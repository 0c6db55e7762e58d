"""Verification of access tokens: by signature, by introspection, or by both."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakValueDictionary

from tabane.access.oauth.claims import TokenClaims, check_claims, check_kind, parse_claims
from tabane.access.oauth.fetching import AuthorizationServerRequests
from tabane.access.oauth.introspection import TokenIntrospection
from tabane.access.oauth.issuer import OAuthIssuer
from tabane.access.oauth.jwt_format import MOST_TOKEN, UnverifiedJwt, is_bearer, is_jwt, parse_jwt
from tabane.access.oauth.key_cache import SigningKeyCache
from tabane.access.oauth.oauth_access import LiveToken, OAuthAccess, holder_of
from tabane.access.oauth.refusals import ScopeMissing, TokenRefused, quoted
from tabane.access.oauth.scopes import ScopePermission, ScopeTable
from tabane.access.oauth.signing_keys import SigningKey, SigningKeys
from tabane.access.oauth.token_cache import CheckedToken, TokenCache
from tabane.access.permissions import PermissionPatterns

log = logging.getLogger(__name__)

INTROSPECTED = 60.0
"""Most seconds for which an answer of introspection holds."""

UNLIMITED = 3_600.0
"""Seconds for which a session goes on without a request, if nothing says when its token expires."""

REFUSED = 30.0
"""Seconds for which a refusal by introspection holds."""


class TokenClock(NamedTuple):
    """``wall`` is the time of day, which tokens refer to; ``ticks`` measures intervals. Both in seconds."""

    wall: Callable[[], float] = time.time
    ticks: Callable[[], float] = time.monotonic


class VerifiedClaims(NamedTuple):
    """The claims of a token that was checked, and the key that signed them.

    The token is valid before ``end``, and has to be checked again at ``again``.
    """

    claims: TokenClaims
    end: float
    again: float
    key: SigningKey | None = None


class OAuthVerifier:
    """Verifies the tokens of one issuer.

    ``secret`` returns the hub's client secret for introspection. It may read a file, and is called in a
    thread.
    """

    def __init__(
        self,
        issuer: OAuthIssuer,
        requests: AuthorizationServerRequests,
        secret: Callable[[], str],
        clock: TokenClock = TokenClock(),  # noqa: B008  (it is frozen)
    ) -> None:
        self.issuer, self.scopes = issuer, ScopeTable(issuer.scopes)
        self._clock = clock
        self._keys = SigningKeyCache(issuer, requests, self._keys_changed, clock.ticks)
        self._introspection = (
            TokenIntrospection(issuer, requests, secret) if issuer.introspection_url else None
        )
        self._cache = TokenCache()
        self._accesses: WeakValueDictionary[tuple[object, ...], OAuthAccess] = WeakValueDictionary()
        self._under_way: dict[bytes, asyncio.Task[OAuthAccess]] = {}

    async def verify(self, token: str) -> OAuthAccess:
        """Return the access that a token gives.

        Raises TokenRefused, and AuthorizationServerUnavailable if that cannot be known now.
        """
        if len(token) > MOST_TOKEN:
            raise TokenRefused("malformed", f"it has more than {MOST_TOKEN} characters")
        if not is_bearer(token):
            raise TokenRefused("malformed", "it has characters that no bearer token has")
        digest = hashlib.sha256(token.encode("ascii")).digest()
        known = self._known(digest)
        if known is None:
            return await self._shared(digest, token)
        if isinstance(known, TokenRefused):
            raise known.with_traceback(None)
        return known

    def retire(self) -> None:
        """Let every access that was given allow nothing from now on."""
        for access in list(self._accesses.values()):
            access.end()

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._under_way.values():
            task.cancel()
        await self._keys.close()

    # -- results that are known ------------------------------------------------------------------

    def _known(self, digest: bytes) -> OAuthAccess | TokenRefused | None:
        """Return the result of an earlier check; None if the token has to be checked."""
        found = self._cache.get(digest, self._clock.wall())
        if found is None:
            return None
        if found.key is not None:
            self._keys.refresh()
            if not (self._keys.trusted and self._keys.keys.holds(found.key)):
                self._cache.drop(digest)
                return None
        return found.result

    def _keys_changed(self, keys: SigningKeys) -> None:
        for access in list(self._accesses.values()):
            access.keep_signed_by(keys)

    async def _shared(self, digest: bytes, token: str) -> OAuthAccess:
        """Check a token once, however many requests have it at the same time."""
        task = self._under_way.get(digest)
        if task is None:
            task = self._under_way[digest] = asyncio.ensure_future(self._check(digest, token))
            task.add_done_callback(lambda done: self._done(digest, done))
        return await asyncio.shield(task)

    def _done(self, digest: bytes, task: asyncio.Task[OAuthAccess]) -> None:
        self._under_way.pop(digest, None)
        if not task.cancelled():
            task.exception()  # Whoever waited may be gone.

    # -- checks ----------------------------------------------------------------------------------

    async def _check(self, digest: bytes, token: str) -> OAuthAccess:
        try:
            verified = await self._verified(token)
        except TokenRefused as refused:
            self._refused(digest, refused)
            raise
        access = self._access(verified.claims)
        access.keep(digest, LiveToken(verified.end, verified.key))
        self._cache.put(digest, CheckedToken(access, verified.again, verified.key))
        return access

    def _refused(self, digest: bytes, refused: TokenRefused) -> None:
        log.info("An access token was refused (%s): %s", refused.fault, refused.detail or "-")
        for access in list(self._accesses.values()):
            access.drop(digest)
        if refused.fault == "inactive":
            self._cache.put(digest, CheckedToken(refused, self._clock.wall() + REFUSED))

    async def _verified(self, token: str) -> VerifiedClaims:
        if is_jwt(token):
            return await self._by_signature(token)
        if self._introspection is None:
            raise TokenRefused("malformed", "it is no JWT, and oauth_introspection_url is not set")
        return await self._by_introspection(self._introspection, token)

    async def _by_signature(self, token: str) -> VerifiedClaims:
        jwt = parse_jwt(token, self.issuer.algorithms)
        key = _signer(jwt, await self._keys.fitting(jwt.key_id, jwt.algorithm))
        claims = parse_claims(jwt.payload)
        now = self._clock.wall()
        check_claims(claims, self.issuer, now)
        check_kind(claims, jwt.declared)
        end = self._end(claims, now)
        if self._introspection is None or not self.issuer.always_introspect:
            return VerifiedClaims(claims, end, end, key)
        asked = await self._introspection.claims(token, now)
        if asked.sub is not None and asked.sub != claims.sub:
            raise TokenRefused("subject", f"sub {quoted(claims.sub)}, by introspection {quoted(asked.sub)}")
        return VerifiedClaims(claims, end, min(end, now + INTROSPECTED), key)

    async def _by_introspection(self, introspection: TokenIntrospection, token: str) -> VerifiedClaims:
        now = self._clock.wall()
        claims = await introspection.claims(token, now)
        end = self._end(claims, now)
        return VerifiedClaims(claims, end, min(end, now + INTROSPECTED))

    def _end(self, claims: TokenClaims, now: float) -> float:
        return now + UNLIMITED if claims.exp is None else claims.exp + self.issuer.skew

    def _access(self, claims: TokenClaims) -> OAuthAccess:
        """Return the access of the user, client and scopes of a token, which may be in use already."""
        grants = self.scopes.grants(claims.scopes)
        if not grants:
            raise ScopeMissing(self.scopes.advertised, f"scope {quoted(sorted(claims.scopes))}")
        name: tuple[object, ...] = (holder_of(claims), claims.client, grants)
        access = self._accesses.get(name)
        if access is None:
            access = self._new_access(claims, grants)
            self._accesses[name] = access
        return access

    def _new_access(self, claims: TokenClaims, grants: tuple[PermissionPatterns, ...]) -> OAuthAccess:
        return OAuthAccess(claims, ScopePermission(grants), self.issuer.tier, self._clock.wall)


def _signer(jwt: UnverifiedJwt, keys: tuple[SigningKey, ...]) -> SigningKey:
    """Return the key that signed a token. Raises TokenRefused if none of them did."""
    for key in keys:
        if key.signed(jwt.algorithm, jwt.signed, jwt.signature):
            return key
    raise TokenRefused("signature", f"kid {quoted(jwt.key_id)}, alg {jwt.algorithm}")

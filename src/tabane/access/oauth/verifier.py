"""Verification of access tokens: by signature, by introspection (RFC 7662), or by both.

A JWT in compact form (RFC 7515, 7.1) is taken apart without trusting any of it. Results are kept by the
SHA-256 of the token: bounded, and only for as long as they hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from urllib.parse import quote_plus
from weakref import WeakValueDictionary

import msgspec

from tabane.access.oauth.claims import (
    OAuthIssuer,
    TokenClaims,
    check_audience,
    check_bearer,
    check_claims,
    check_kind,
    check_times,
    parse_claims,
)
from tabane.access.oauth.fetching import AuthorizationServerHttp, FetchFailed
from tabane.access.oauth.oauth_access import LiveToken, OAuthAccess, ScopePermission, ScopeTable, holder_of
from tabane.access.oauth.refusals import AuthorizationServerUnavailable, ScopeMissing, TokenRefused, quoted
from tabane.access.oauth.signing_keys import SigningKey, SigningKeyCache, SigningKeys
from tabane.errors import TabaneError

log = logging.getLogger(__name__)

MOST_RESULTS = 4_096


@dataclass(frozen=True, slots=True)
class CheckedToken:
    """The result of a check: an access, or why there is none. It holds before ``until``.

    ``key`` has signed the token, if it was checked by its signature.
    """

    result: OAuthAccess | TokenRefused
    until: float
    key: SigningKey | None = None


class TokenCache:
    """Keeps the results that were used last. Tokens themselves are never kept."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._results: OrderedDict[bytes, CheckedToken] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, digest: bytes, now: float) -> CheckedToken | None:
        """Return the result for a token, if there is one that still holds."""
        found = self._results.get(digest)
        if found is None:
            return None
        if now >= found.until:
            del self._results[digest]
            return None
        self._results.move_to_end(digest)
        return found

    def put(self, digest: bytes, checked: CheckedToken) -> None:
        """Keep the result for a token. The one that was used longest ago gives way."""
        self._results[digest] = checked
        self._results.move_to_end(digest)
        if len(self._results) > self._most:
            self._results.popitem(last=False)

    def drop(self, digest: bytes) -> None:
        """Forget the result for a token."""
        self._results.pop(digest, None)


MOST_ANSWER = 64 << 10

AT_ONCE = 8
"""Tokens that are introspected at the same time."""

MOST_WAITING = 64
"""Tokens that wait for their turn. With more, the next is refused at once."""

RETRY = 5.0


class TokenIntrospection:
    """Asks the authorization server about tokens.

    ``secret`` returns the hub's own client secret. It reads a file, and may raise TabaneError.
    """

    def __init__(
        self, issuer: OAuthIssuer, requests: AuthorizationServerHttp, secret: Callable[[], str]
    ) -> None:
        self._issuer, self._requests, self._secret = issuer, requests, secret
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def claims(self, token: str, now: float) -> TokenClaims:
        """Return the claims of a token that is active.

        Raises TokenRefused if it is not, or is not for this hub, and AuthorizationServerUnavailable.
        """
        try:
            document = await self._ask_server(token)
        except (FetchFailed, TabaneError) as failed:
            log.warning("%s did not introspect a token: %s", self._issuer.url, failed)
            raise AuthorizationServerUnavailable(str(failed), RETRY) from None
        claims = _parse_answer(document)
        if claims.active is not True:
            raise TokenRefused("inactive")
        if claims.iss is not None and claims.iss != self._issuer.url:
            raise TokenRefused("issuer", f"iss {quoted(claims.iss)}, not {quoted(self._issuer.url)}")
        check_audience(claims, self._issuer)
        check_times(claims, self._issuer.skew, now)
        check_bearer(claims)
        check_kind(claims, declared=True)
        return claims

    async def _ask_server(self, token: str) -> bytes:
        if self._waiting >= MOST_WAITING:
            raise FetchFailed(f"{MOST_WAITING} tokens wait already")
        self._waiting += 1
        try:
            async with self._turns:
                authorization = await asyncio.to_thread(self._basic_authorization)
                form = {"token": token, "token_type_hint": "access_token"}
                url = self._issuer.introspection_url
                return await self._requests.post(url, form, authorization, MOST_ANSWER)
        finally:
            self._waiting -= 1

    def _basic_authorization(self) -> str:
        # RFC 6749, 2.3.1: both are encoded as in a form first.
        pair = f"{quote_plus(self._issuer.client_id)}:{quote_plus(self._secret())}"
        return "Basic " + b64encode(pair.encode()).decode()


def _parse_answer(document: bytes) -> TokenClaims:
    try:
        return parse_claims(document)
    except TokenRefused as refused:
        # What is wrong here is the server's answer, not the token.
        raise AuthorizationServerUnavailable(f"the answer cannot be read: {refused.detail}", RETRY) from None


MOST_TOKEN = 16 << 10
"""Bytes of an access token."""

_MOST_KEY_ID = 512

_parts = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)").fullmatch

_bearer = re.compile(r"[A-Za-z0-9._~+/-]+=*").fullmatch

_ACCESS_TOKEN = ("at+jwt", "application/at+jwt")
_PLAIN = ("", "jwt", "application/jwt")


class JwtHeader(msgspec.Struct):
    """The header of a JWT. ``crit`` and ``b64`` would change the meaning of the rest."""

    alg: str
    kid: str | None = None
    typ: str = ""
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    b64: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    enc: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class UnverifiedJwt(NamedTuple):
    """A JWT whose signature was not checked yet. ``declared``: its type says that it is an access token."""

    algorithm: str
    key_id: str | None
    declared: bool
    signed: bytes
    payload: bytes
    signature: bytes


_header = msgspec.json.Decoder(JwtHeader)


def is_jwt(token: str) -> bool:
    """Return whether a token has the form of a JWT. Any other token is opaque."""
    return token.count(".") == 2 and token.startswith("ey")


def parse_jwt(token: str, allowed: frozenset[str]) -> UnverifiedJwt:
    """Take a JWT apart. Raises TokenRefused if it is malformed, no access token, or of another algorithm."""
    parts = _parts(token)
    if parts is None:
        raise TokenRefused("malformed", "three parts in base64url are expected")
    try:
        header = _header.decode(_decode_part(parts[1]))
        payload, signature = _decode_part(parts[2]), _decode_part(parts[3])
    except (ValueError, RecursionError) as error:
        raise TokenRefused("malformed", quoted(str(error))) from None
    if header.alg not in allowed:
        raise TokenRefused("algorithm", quoted(header.alg))
    if (header.crit, header.b64, header.enc) != (msgspec.UNSET,) * 3:
        raise TokenRefused("malformed", "its header has crit, b64 or enc, which are not supported")
    if header.kid is not None and len(header.kid) > _MOST_KEY_ID:
        raise TokenRefused("malformed", "its kid is too long")
    kind = header.typ.lower()
    if kind not in _ACCESS_TOKEN and kind not in _PLAIN:
        raise TokenRefused("type", f"typ {quoted(header.typ)}")
    signed = token[: parts.end(2)].encode("ascii")
    return UnverifiedJwt(header.alg, header.kid, kind in _ACCESS_TOKEN, signed, payload, signature)


def _decode_part(part: str) -> bytes:
    """Return the bytes of a part. Raises ValueError unless the part is the one encoding of them."""
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != part.encode("ascii"):
        raise ValueError("not the canonical base64url")
    return data


def is_bearer(token: str) -> bool:
    """Return whether a token has only characters of a bearer token (RFC 6750, 2.1)."""
    return _bearer(token) is not None


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
        requests: AuthorizationServerHttp,
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
        known = self._known_result(digest)
        if known is None:
            # Checked once, however many requests have it at the same time.
            task = self._under_way.get(digest)
            if task is None:
                task = self._under_way[digest] = asyncio.ensure_future(self._check_token(digest, token))
                task.add_done_callback(partial(self._end_check, digest))
            return await asyncio.shield(task)
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

    def _known_result(self, digest: bytes) -> OAuthAccess | TokenRefused | None:
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

    def _end_check(self, digest: bytes, task: asyncio.Task[OAuthAccess]) -> None:
        self._under_way.pop(digest, None)
        if not task.cancelled():
            task.exception()  # Whoever waited may be gone.

    # -- checks ----------------------------------------------------------------------------------

    async def _check_token(self, digest: bytes, token: str) -> OAuthAccess:
        try:
            verified = await self._verify_claims(token)
        except TokenRefused as refused:
            self._note_refusal(digest, refused)
            raise
        access = self._access_for(verified.claims)
        access.keep(digest, LiveToken(verified.end, verified.key))
        self._cache.put(digest, CheckedToken(access, verified.again, verified.key))
        return access

    def _note_refusal(self, digest: bytes, refused: TokenRefused) -> None:
        log.info("An access token was refused (%s): %s", refused.fault, refused.detail or "-")
        for access in list(self._accesses.values()):
            access.drop(digest)
        if refused.fault == "inactive":
            self._cache.put(digest, CheckedToken(refused, self._clock.wall() + REFUSED))

    async def _verify_claims(self, token: str) -> VerifiedClaims:
        if is_jwt(token):
            return await self._by_signature(token)
        if self._introspection is None:
            raise TokenRefused("malformed", "it is no JWT, and oauth_introspection_url is not set")
        now = self._clock.wall()
        claims = await self._introspection.claims(token, now)
        end = self._end_of_token(claims, now)
        return VerifiedClaims(claims, end, min(end, now + INTROSPECTED))

    async def _by_signature(self, token: str) -> VerifiedClaims:
        jwt = parse_jwt(token, self.issuer.algorithms)
        key = _find_signer(jwt, await self._keys.fitting(jwt.key_id, jwt.algorithm))
        claims = parse_claims(jwt.payload)
        now = self._clock.wall()
        check_claims(claims, self.issuer, now)
        check_kind(claims, jwt.declared)
        end = self._end_of_token(claims, now)
        if self._introspection is None or not self.issuer.always_introspect:
            return VerifiedClaims(claims, end, end, key)
        asked = await self._introspection.claims(token, now)
        if asked.sub is not None and asked.sub != claims.sub:
            raise TokenRefused("subject", f"sub {quoted(claims.sub)}, by introspection {quoted(asked.sub)}")
        return VerifiedClaims(claims, end, min(end, now + INTROSPECTED), key)

    def _end_of_token(self, claims: TokenClaims, now: float) -> float:
        return now + UNLIMITED if claims.exp is None else claims.exp + self.issuer.skew

    def _access_for(self, claims: TokenClaims) -> OAuthAccess:
        """Return the access of the user, client and scopes of a token, which may be in use already."""
        grants = self.scopes.grants(claims.scopes)
        if not grants:
            raise ScopeMissing(self.scopes.advertised, f"scope {quoted(sorted(claims.scopes))}")
        name: tuple[object, ...] = (holder_of(claims), claims.client, grants)
        access = self._accesses.get(name)
        if access is None:
            access = OAuthAccess(claims, ScopePermission(grants), self.issuer.tier, self._clock.wall)
            self._accesses[name] = access
        return access


def _find_signer(jwt: UnverifiedJwt, keys: tuple[SigningKey, ...]) -> SigningKey:
    """Return the key that signed a token. Raises TokenRefused if none of them did."""
    for key in keys:
        if key.signed(jwt.algorithm, jwt.signed, jwt.signature):
            return key
    raise TokenRefused("signature", f"kid {quoted(jwt.key_id)}, alg {jwt.algorithm}")

"""Public keys of an authorization server: their discovery, their checks, and a cache of the current ones.

They come from its JWKS (RFC 7517), which is found by discovery (RFC 8414 and OpenID Connect Discovery). It is
fetched when needed, and seldom. Other entries are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from tabane.access.oauth.claims import OAuthIssuer
from tabane.access.oauth.fetching import AuthorizationServerHttp, FetchFailed
from tabane.access.oauth.refusals import AuthorizationServerUnavailable, TokenRefused, quoted
from tabane.extras import extra_command
from tabane.settings.addresses import is_safe_url

if TYPE_CHECKING:
    from jwt.algorithms import Algorithm


log = logging.getLogger(__name__)

MOST_KEYS = 64
MOST_TRIED = 4
"""Keys that are tried for one token: each costs a check of its signature."""

RSA_BITS = range(2048, 8193)
"""Sizes of RSA keys that are safe and whose checks are fast."""

_MOST_EXPONENT = 1 << 32
_MOST_MEMBER = 2048
"""Characters of one number of a key: an RSA key of 8,192 bits has 1,366."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE = {
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""The members of a public key. Others are dropped, private ones before anything."""


@dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A public key, ready to be used. ``algorithms`` are those that it may be used with."""

    id: str | None
    algorithms: frozenset[str]
    key: Any
    members: tuple[tuple[str, str], ...]
    """The key itself as it was published: equal members are the same key."""

    def signed(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Return whether the signature of a message is by this key."""
        try:
            return _jwt_algorithms()[algorithm].verify(message, self.key, signature)
        except (ValueError, TypeError):
            return False


class SigningKeys:
    """The keys that an authorization server signs with at one moment."""

    def __init__(self, keys: Iterable[SigningKey] = ()) -> None:
        self._keys = tuple(keys)
        self._members = frozenset(key.members for key in self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def holds(self, key: SigningKey) -> bool:
        """Return whether a key of an earlier moment is still among the keys."""
        return key.members in self._members

    def fitting(self, key_id: str | None, algorithm: str) -> tuple[SigningKey, ...]:
        """Return the keys that may have signed a token. A token without a key id may be of any key."""
        return tuple(
            key for key in self._keys if algorithm in key.algorithms and (key_id is None or key.id == key_id)
        )[:MOST_TRIED]


def parse_signing_keys(document: bytes, allowed: frozenset[str]) -> SigningKeys:
    """Return the keys of a JWKS that sign with an allowed algorithm; the first :data:`MOST_KEYS` of them.

    Raises ValueError if the document is not a JWKS at all. It may need some milliseconds.
    """
    try:
        found = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ValueError('it has no list "keys"')
    keys: list[SigningKey] = []
    for entry in entries:
        key = _signing_key(entry, allowed) if isinstance(entry, dict) else None
        if key is not None:
            keys.append(key)
        if len(keys) == MOST_KEYS:
            break
    return SigningKeys(keys)


def _signing_key(entry: Mapping[str, Any], allowed: frozenset[str]) -> SigningKey | None:
    """Return a key of a JWKS, or None if it cannot be used for signatures."""
    kind, curve = entry.get("kty"), entry.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None) or not _is_for_signatures(entry):
        return None
    usable = _RSA if kind == "RSA" else _BY_CURVE.get((kind, curve or ""), ())
    declared = entry.get("alg")
    algorithms = allowed.intersection(usable)
    if declared is not None:
        # Tokens say EdDSA; RFC 9864 gives it the names of its curves.
        algorithms &= {"EdDSA" if declared in ("Ed25519", "Ed448") else str(declared)}
    members: dict[str, Any] = {name: entry.get(name) for name in _PUBLIC.get(kind, ())}
    if not algorithms or not all(isinstance(v, str) and len(v) <= _MOST_MEMBER for v in members.values()):
        return None
    key = _load_key(kind, members, next(iter(algorithms)))
    key_id = entry.get("kid")
    if key is None or not isinstance(key_id, str | None):
        return None
    return SigningKey(key_id, algorithms, key, (("kty", kind), *sorted(members.items())))


def _is_for_signatures(entry: Mapping[str, Any]) -> bool:
    operations = entry.get("key_ops")
    return entry.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def _load_key(kind: str, members: Mapping[str, Any], algorithm: str) -> Any:
    """Return the key as cryptography has it; None if it is broken, too weak, or too large."""
    from jwt.exceptions import PyJWTError

    try:
        key: Any = _jwt_algorithms()[algorithm].from_jwk({"kty": kind, **members})
    except (PyJWTError, ValueError, TypeError, KeyError, OverflowError):
        return None
    if kind == "RSA" and (key.key_size not in RSA_BITS or not 2 < key.public_numbers().e < _MOST_EXPONENT):
        return None
    return key


@cache
def _jwt_algorithms() -> dict[str, Algorithm]:
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()


MOST_METADATA = 128 << 10

_ABSENT = (400, 401, 403, 404, 405, 406, 410)
"""Statuses after which the next place is tried."""


class IssuerMetadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


_metadata = msgspec.json.Decoder(IssuerMetadata)


def places(issuer: str) -> tuple[str, ...]:
    """Return where an issuer may publish its metadata, in the order of MCP's authorization page."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    return tuple(dict.fromkeys(found))


async def discover_jwks_url(issuer: str, requests: AuthorizationServerHttp) -> str:
    """Return the URL of the keys. Raises FetchFailed if no place has metadata of that very issuer."""
    problem = FetchFailed("no metadata")
    for place in places(issuer):
        try:
            return _jwks_url(await requests.get(place, MOST_METADATA), issuer, place)
        except FetchFailed as failed:
            problem = failed
            if failed.status not in _ABSENT:
                break
    raise problem


def _jwks_url(document: bytes, issuer: str, place: str) -> str:
    try:
        found = _metadata.decode(document)
    except (ValueError, RecursionError) as error:
        raise FetchFailed(f"{place}: the metadata cannot be read ({error})") from None
    if found.issuer != issuer:
        # RFC 8414, 3.3: metadata of another issuer must not be used.
        raise FetchFailed(
            f"{place}: the metadata is of the issuer {ascii(found.issuer)[:200]}, not of {issuer}"
        )
    if not is_safe_url(found.jwks_uri):
        raise FetchFailed(f"{place}: jwks_uri must begin with https://, not {ascii(found.jwks_uri)[:200]}")
    return found.jwks_uri


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
        requests: AuthorizationServerHttp,
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
        await self._require_trusted_keys()
        found = self.keys.fitting(key_id, algorithm)
        if not found and self._may_fetch(UNKNOWN_KEY):
            await self._fetch_keys()
            if self._problem:
                raise self._unavailable_error()
            found = self.keys.fitting(key_id, algorithm)
        if not found:
            raise TokenRefused("key", f"kid {quoted(key_id)}, alg {algorithm}")
        return found

    def refresh(self) -> None:
        """Fetch the keys in the background if it is time to."""
        if self._seconds_since_fetch >= FRESH and self._may_fetch(UNKNOWN_KEY):
            self._begin_fetch()

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    @property
    def trusted(self) -> bool:
        """Whether the keys are recent enough to be trusted."""
        return self._seconds_since_fetch < STALE

    @property
    def _seconds_since_fetch(self) -> float:
        return self._ticks() - self._fetched

    def _may_fetch(self, gap: float) -> bool:
        return self._under_way or self._ticks() - self._attempted >= gap

    @property
    def _under_way(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def _require_trusted_keys(self) -> None:
        """Fetch the keys unless they are trusted. Raises AuthorizationServerUnavailable."""
        if self.trusted:
            self.refresh()
            return
        if self._may_fetch(RETRY):
            await self._fetch_keys()
        if not self.trusted:
            raise self._unavailable_error()

    def _unavailable_error(self) -> AuthorizationServerUnavailable:
        return AuthorizationServerUnavailable(self._problem, RETRY)

    async def _fetch_keys(self) -> None:
        # Shielded: a client that goes away does not stop a fetch that others wait for.
        await asyncio.shield(self._begin_fetch())

    def _begin_fetch(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._attempted = self._ticks()
            self._fetching = asyncio.ensure_future(self._run_fetch())
        return self._fetching

    async def _run_fetch(self) -> None:
        """Fetch the keys. Never raises: see ``_problem``."""
        try:
            keys = await self._load_keys()
        except FetchFailed as failed:
            self._problem = str(failed)
            log.warning("The keys of %s could not be fetched: %s", self._issuer.url, failed)
            return
        self._problem, self._fetched, self.keys = "", self._ticks(), keys
        log.debug("%s has %d keys", self._issuer.url, len(keys))
        self._changed(keys)

    async def _load_keys(self) -> SigningKeys:
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

"""Tokens and keys of the tests' own, and an authorization server in memory."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from tabane.access.oauth.claims import OAuthIssuer
from tabane.access.oauth.fetching import AuthorizationServerHttp, FetchFailed
from tabane.access.oauth.verifier import OAuthVerifier, TokenClock

ISSUER = "https://login.example.com"
AUDIENCE = "https://hub.example.com/mcp"
JWKS = f"{ISSUER}/jwks"
INTROSPECTION = f"{ISSUER}/introspection"
NOW = 1_800_000_000.0

_MAKERS: Mapping[str, Callable[[], Any]] = {
    "RS": lambda: rsa.generate_private_key(65537, 2048),
    "PS": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def part(value: object) -> str:
    """Return a value as a part of a JWT."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs tokens, with its id."""

    id: str | None
    algorithm: str
    key: Any

    def published(self, **members: Any) -> dict[str, Any]:
        """Return the public key as a member of a JWKS."""
        public = get_default_algorithms()[self.algorithm].to_jwk(self.key.public_key(), as_dict=True)
        named = {} if self.id is None else {"kid": self.id}
        return {**public, **named, "use": "sig", **members}

    def sign(self, claims: object, **header: Any) -> str:
        """Return a JWT with those claims. A header of None is left out."""
        given = {"alg": self.algorithm, "typ": "at+jwt", "kid": self.id, **header}
        signed = f"{part({k: v for k, v in given.items() if v is not None})}.{part(claims)}"
        signature = get_default_algorithms()[self.algorithm].sign(signed.encode(), self.key)
        return f"{signed}.{part(signature)}"


@cache
def private_key(key_id: str | None = "one", algorithm: str = "ES256") -> PrivateKey:
    """Return the key of that id: always the same."""
    make = _MAKERS.get(algorithm) or _MAKERS[algorithm[:2]]
    return PrivateKey(key_id, algorithm, make())


def claims(**changes: Any) -> dict[str, Any]:
    """Return good claims with changes. A claim of None is left out."""
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "client_id": "editor",
        "scope": "tabane:read",
        "iat": NOW - 10,
        "exp": NOW + 600,
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


@dataclass
class MemoryRequests(AuthorizationServerHttp):
    """An authorization server in memory. A failure is raised instead of answering."""

    keys: list[PrivateKey] = field(default_factory=lambda: [private_key()])
    documents: dict[str, bytes] = field(default_factory=dict)
    active: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: FetchFailed | None = None
    held: asyncio.Event | None = None
    """It does not answer before this is set."""
    asked: list[str] = field(default_factory=list)

    async def get(self, url: str, limit: int) -> bytes:
        document = await self._answer(url)
        if document is None:
            document = json.dumps({"keys": [key.published() for key in self.keys]}).encode()
        if len(document) > limit:
            raise FetchFailed("too long")
        return document

    async def post(self, url: str, form: Mapping[str, str], authorization: str, limit: int) -> bytes:
        document = await self._answer(url)
        found = self.active.get(form["token"])
        return document or json.dumps({"active": False} if found is None else found).encode()

    async def _answer(self, url: str) -> bytes | None:
        self.asked.append(url)
        if self.held is not None:
            await self.held.wait()
        if self.failure is not None:
            raise self.failure
        return self.documents.get(url)


@dataclass
class TestTime:
    """A clock that the test sets."""

    __test__ = False
    now: float = NOW

    @property
    def clock(self) -> TokenClock:
        return TokenClock(lambda: self.now, lambda: self.now)


def issuer(**changes: Any) -> OAuthIssuer:
    return OAuthIssuer(**{"url": ISSUER, "audience": AUDIENCE, "jwks_url": JWKS, **changes})


def verifier(requests: MemoryRequests, time: TestTime | None = None, **changes: Any) -> OAuthVerifier:
    """Return a verifier of tokens of that server, with changed settings."""
    return OAuthVerifier(issuer(**changes), requests, lambda: "secret", (time or TestTime()).clock)

"""The compact form of a JWT (RFC 7515, 7.1), taken apart without trusting any of it."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

import msgspec

from tabane.access.oauth.refusals import TokenRefused, quoted

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
        header = _header.decode(_decoded(parts[1]))
        payload, signature = _decoded(parts[2]), _decoded(parts[3])
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


def _decoded(part: str) -> bytes:
    """Return the bytes of a part. Raises ValueError unless the part is the one encoding of them."""
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != part.encode("ascii"):
        raise ValueError("not the canonical base64url")
    return data


def is_bearer(token: str) -> bool:
    """Return whether a token has only characters of a bearer token (RFC 6750, 2.1)."""
    return _bearer(token) is not None

"""Public keys of an authorization server, from its JWKS (RFC 7517). Other entries are ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from jwt.algorithms import Algorithm

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
            return _algorithms()[algorithm].verify(message, self.key, signature)
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
    if not isinstance(kind, str) or not isinstance(curve, str | None) or not _signs(entry):
        return None
    usable = _RSA if kind == "RSA" else _BY_CURVE.get((kind, curve or ""), ())
    declared = entry.get("alg")
    algorithms = allowed.intersection(usable)
    if declared is not None:
        algorithms = algorithms.intersection((_spelled(declared),))
    members: dict[str, Any] = {name: entry.get(name) for name in _PUBLIC.get(kind, ())}
    if not algorithms or not all(isinstance(v, str) and len(v) <= _MOST_MEMBER for v in members.values()):
        return None
    key = _loaded(kind, members, next(iter(algorithms)))
    key_id = entry.get("kid")
    if key is None or not isinstance(key_id, str | None):
        return None
    return SigningKey(key_id, algorithms, key, (("kty", kind), *sorted(members.items())))


def _signs(entry: Mapping[str, Any]) -> bool:
    operations = entry.get("key_ops")
    return entry.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def _spelled(algorithm: object) -> str:
    """Return the name of an algorithm as tokens have it: RFC 9864 gives EdDSA the names of its curves."""
    return "EdDSA" if algorithm in ("Ed25519", "Ed448") else str(algorithm)


def _loaded(kind: str, members: Mapping[str, Any], algorithm: str) -> Any:
    """Return the key as cryptography has it; None if it is broken, too weak, or too large."""
    from jwt.exceptions import PyJWTError

    try:
        key: Any = _algorithms()[algorithm].from_jwk({"kty": kind, **members})
    except (PyJWTError, ValueError, TypeError, KeyError, OverflowError):
        return None
    if kind == "RSA" and (key.key_size not in RSA_BITS or not 2 < key.public_numbers().e < _MOST_EXPONENT):
        return None
    return key


@cache
def _algorithms() -> dict[str, Algorithm]:
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()

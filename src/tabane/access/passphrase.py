"""A passphrase as it is kept: a salted scrypt hash, from which nobody gets it back; pure."""

from __future__ import annotations

import hashlib
import hmac
import os
import unicodedata

import msgspec

COST = 1 << 15
"""Of scrypt: 32 MiB and some 0.1 s for each attempt."""

SHORTEST, LONGEST = 8, 1000
"""Characters of a passphrase."""

_BLOCK, _MEMORY = 8, 64 << 20


class PassphraseRecord(msgspec.Struct, frozen=True):
    """The salt and hash of a passphrase, in hexadecimal digits, and the cost of the hash."""

    salt: str
    hash: str
    cost: int = COST


def record_of(passphrase: str) -> PassphraseRecord:
    """Return the record of a passphrase, with a new salt. Takes some 0.1 s."""
    salt = os.urandom(16)
    return PassphraseRecord(salt.hex(), _scrypt_hash(passphrase, salt, COST).hex())


def matches(passphrase: str, record: PassphraseRecord) -> bool:
    """Return whether it is the passphrase of a record. Takes some 0.1 s, whatever was typed."""
    found = _scrypt_hash(passphrase, bytes.fromhex(record.salt), record.cost)
    return hmac.compare_digest(found, bytes.fromhex(record.hash))


def _scrypt_hash(passphrase: str, salt: bytes, cost: int) -> bytes:
    given = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(given, salt=salt, n=cost, r=_BLOCK, p=1, maxmem=_MEMORY, dklen=32)

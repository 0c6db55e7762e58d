"""Secrets of API keys: their format, their checksum and their hash; pure.

A secret is ``tbn_``, 8 characters that name the key, ``_``, 43 random characters (256 bits) and 6 characters
of checksum. Prefix and checksum let a secret scanner recognize one with certainty.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

PREFIX = "tbn_"
LONGEST_SECRET = 62

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID, _RANDOM, _CHECK = 8, 43, 6

_shape = re.compile(rf"tbn_([0-9a-z]{{{_ID}}})_[0-9A-Za-z]{{{_RANDOM + _CHECK}}}").fullmatch


def new_secret() -> str:
    """Return a new secret."""
    name = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID))
    random = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM))
    body = f"{PREFIX}{name}_{random}"
    return body + checksum_of(body)


def id_in(secret: str) -> str | None:
    """Return the id of the key that a well-formed secret belongs to; None if it is not one."""
    found = _shape(secret) if len(secret) == LONGEST_SECRET and secret.isascii() else None
    if found is None or checksum_of(secret[:-_CHECK]) != secret[-_CHECK:]:
        return None
    return found[1]


def hash_of(secret: str) -> bytes:
    """Return what is kept of a secret. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).digest()


def checksum_of(body: str) -> str:
    """Return the checksum of a secret without it: CRC-32 in base 62, as other issuers of tokens do."""
    rest, letters = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK):
        rest, digit = divmod(rest, len(_LETTERS))
        letters = _LETTERS[digit] + letters
    return letters

"""Digests of arguments that do not depend on how their JSON is written; pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any


class _NoCanonicalForm(ValueError):
    """Programs may read the text differently."""


def argument_digest(arguments: bytes) -> bytes:
    """Return the SHA-256 of a JSON text in canonical form: order of members and white space do not count.

    A text that programs may read differently is hashed as it is: one with a name twice in an object, with a
    number that is not written as Python writes it, or one that is no JSON. So two texts of which a program
    may make different things never have the same digest. Takes time in proportion to the length.
    """
    try:
        value = json.loads(arguments, object_pairs_hook=_members, parse_float=_exact)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return hashlib.sha256(b"\0" + arguments).digest()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NoCanonicalForm
    return found


def _exact(digits: str) -> float:
    value = float(digits)
    if repr(value) != digits:
        raise _NoCanonicalForm
    return value

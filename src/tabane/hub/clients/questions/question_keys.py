"""Keys of questions in ``inputRequests``: the ids that a legacy server chose, or our own; pure.

A question of the modern era has a key, which its server chooses. A request of the handshake era has an id,
which its server chooses too: a number, which says nothing, or a string, which may name what is asked.
"""

from __future__ import annotations

import re
import sys

from tabane.wire.json import text

LONGEST_KEY = 64
"""Characters of an id that becomes a key. Each has 12 bytes at most in JSON, as a pair of surrogates."""

_own = re.compile(r"question-[0-9]+").fullmatch


def own_key(number: int) -> str:
    """Return the key of the question with that number in its call. All calls have the same ones."""
    return sys.intern(f"question-{number}")


def given_key(request_id: bytes) -> str | None:
    """Return the key in the id of a request, which is JSON; None if it has none that can be used."""
    if not request_id.startswith(b'"') or len(request_id) > 12 * LONGEST_KEY + 2:
        return None
    key = text(request_id)
    if not key or len(key) > LONGEST_KEY or not key.isprintable() or _own(key):
        return None
    return key

"""Challenges of servers for bearer tokens: the header WWW-Authenticate (RFC 9110, 11.6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from tabane.servers.oauth_keys import is_scope
from tabane.text.lazy_patterns import lazy_pattern

LONGEST = 16 << 10
"""Characters of a header that are read."""

MOST_SCOPES = 200

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART = lazy_pattern(
    rf'\s*(?:,\s*)*(?:(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>{_TOKEN}))'
    rf"|(?P<scheme>{_TOKEN})(?P<token68>\s+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$)))?(?=\s|,|$))"
)
_ESCAPED = re.compile(r"\\(.)")


class BearerChallenge(Struct, frozen=True):
    """What a server says about the token that it wants. Empty if it does not say it.

    ``metadata`` is the URL of its metadata (RFC 9728), ``error`` a code such as ``insufficient_scope``.
    """

    metadata: str = ""
    scopes: tuple[str, ...] = ()
    error: str = ""

    @property
    def wants_scopes(self) -> bool:
        """Return whether a token with more scopes would be accepted."""
        return self.error == "insufficient_scope"


def bearer_challenge(headers: Iterable[str]) -> BearerChallenge | None:
    """Return the first challenge for a bearer token; None if there is none."""
    for header in headers:
        for scheme, parameters in _challenges(header[:LONGEST]):
            if scheme == "bearer":
                return BearerChallenge(
                    parameters.get("resource_metadata", ""),
                    scopes_of(parameters.get("scope", "")),
                    parameters.get("error", ""),
                )
    return None


def scopes_of(text: object) -> tuple[str, ...]:
    """Return the scopes in a text with spaces, each once. Invalid ones are left out."""
    if not isinstance(text, str):
        return ()
    found = (word for word in text.split()[:MOST_SCOPES] if is_scope(word))
    return tuple(dict.fromkeys(found))


def _challenges(header: str) -> list[tuple[str, dict[str, str]]]:
    """Return each challenge with its scheme in lower case. A header that breaks off is read up to there."""
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while part := _PART.match(header, position):
        position = part.end()
        if part["scheme"]:
            found.append((part["scheme"].lower(), {}))
        elif found:
            quoted = part["quoted"]
            value = part["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
            found[-1][1].setdefault(part["name"].lower(), value)
    return found

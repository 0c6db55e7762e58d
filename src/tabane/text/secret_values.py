"""Values that look like secrets: by their name, such as API_KEY, or by their form, whatever their name."""

from __future__ import annotations

import re
from functools import cache

from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.secret_names import SecretNames, plain_name
from tabane.text.secret_patterns import hide_secrets

SHORTEST = 4
"""Characters of a secret. A shorter one could not be hidden in logs: it would be found everywhere."""

_LONGEST_NAME = 200

_WORDS = frozenset(
    (
        *(
            "true",
            "false",
            "yes",
            "no",
            "on",
            "off",
            "none",
            "null",
            "nil",
            "auto",
            "default",
            "always",
            "never",
        ),
        *("enabled", "disabled", "required", "optional", "changeme", "header", "cookie"),
        *("bearer", "basic", "digest", "oauth", "oauth2", "token", "apikey", "api_key", "api-key", "jwt"),
        *("key", "secret"),
    )
)
"""Values that say how something is done, or that somebody still has to fill in."""

_PLACEHOLDER = lazy_pattern(
    r"\*+|x+|\.+|…|<[^<>]*>|[\[{]+[\w .-]+[\]}]+|\$[A-Za-z_]\w*|%\w+%"
    r"|(?:your|insert|enter|replace|put|add)[-_ ].*(?:key|token|secret|password|here|value)"
    r"|.*[-_ ]here",
    re.IGNORECASE,
)
"""Texts that stand for a value, as in the examples of a README."""

_FACT = lazy_pattern(
    r"(?:file|filename|path|dir|directory|folder|url|uri|endpoint|host|hostname|port|type|mode|method|region"
    r"|ttl|expiry|expires|expiration|timeout|header|header_?name|prefix|name|algorithm|format|enabled|scopes?"
    r"|issuer|audience|provider)$"
)
"""Ends of names that say something about a secret: API_KEY_FILE, TOKEN_TTL."""

_WEAK = re.compile(r"(?:^|_)(?:keys?|sid|credentials?|secret)(?:_|$)")
"""Names of secrets, and of much else: KEY, SORT_KEY."""

_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_FOLDERS = lazy_pattern(
    r"(?:~|\.{1,2}|\$HOME)/\S*|[A-Za-z]:[\\/].*"
    r"|/(?:app|data|etc|home|mnt|opt|private|root|run|secrets|srv|tmp|Users|usr|var|Volumes|workspaces?)"
    r"(?:/.*)?",
    re.DOTALL,
)
"""Paths: relative ones, and those in folders that machines have. A key in base64 may begin with a slash."""

_RANDOM = lazy_pattern(r"(?=.*[0-9])(?=.*[A-Za-z])\S{12,}|\S{24,}")


def looks_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable, header, flag or query is likely to be a secret.

    The value has no variables of the servers file. Words such as "true", placeholders such as
    ``YOUR_API_KEY`` and paths are none.
    """
    text = value.strip()
    if len(text) < SHORTEST or text.casefold() in _WORDS or _PLACEHOLDER.fullmatch(text):
        return False
    if has_secret(text):
        return True
    name = name[:_LONGEST_NAME]
    plain = plain_name(name)
    if _FACT.search(plain) or _ADDRESS.fullmatch(text) or _FOLDERS.fullmatch(text):
        return False
    if name in _names():
        return True
    return _WEAK.search(plain) is not None and _RANDOM.fullmatch(text) is not None


def has_secret(text: str) -> bool:
    """Return whether a text has a secret of a known form: a service's key, a password in a URL, a JWT."""
    return hide_secrets(text, _names()) != text


@cache
def _names() -> SecretNames:
    return SecretNames()

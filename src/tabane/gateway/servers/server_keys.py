"""Keys of a server in the servers file, and their allowed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tabane.messages import Message, say
from tabane.text.nearest_names import nearest

TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
LONGEST_TIMEOUT = 86_400_000.0
MOST_CALLS = 1_024
LEAST_TOKENS = 1_000
MOST_TOKENS = 1_000_000


class InvalidKeyValue(ValueError):
    """A value that its key does not allow: what is allowed, and the position inside the value."""

    def __init__(self, allowed: Message, inside: str = "") -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.inside = inside


def text(value: object) -> str:
    """Return a text that can be passed to a process: no NUL, no lone surrogate."""
    if isinstance(value, str) and is_plain(value):
        return value
    raise InvalidKeyValue(say("a text in quotes"))


def is_plain(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidKeyValue(say("a list of texts"))
    return tuple(_inside(f"[{index}]", text, part) for index, part in enumerate(value))


def texts_by_name(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidKeyValue(say("an object of texts"))
    for name in value:
        if not name or "=" in name or not is_plain(name):
            raise InvalidKeyValue(say("an object whose names are not empty and hold no ="))
    return {name: _inside(f".{name}", text, part) for name, part in value.items()}


TLS_FILES = ("ca", "cert", "key")
"""Keys of the object "tls" that name files."""


def tls(value: object) -> Mapping[str, Any]:
    """Return the object "tls": files by name, and whether the server's certificate is verified."""
    if not isinstance(value, dict):
        raise InvalidKeyValue(say("an object with ca, cert, key or verify"))
    for name in value:
        if name not in (*TLS_FILES, "verify"):
            raise InvalidKeyValue(say("an object with ca, cert, key or verify"), f".{name}")
    found: dict[str, Any] = {
        name: _inside(f".{name}", text, value[name]) for name in TLS_FILES if name in value
    }
    if bool(found.get("cert")) < bool(found.get("key")):
        raise InvalidKeyValue(say("a file beside cert, not alone"), ".key")
    verify = value.get("verify", True)
    if not isinstance(verify, bool):
        raise InvalidKeyValue(say("true or false"), ".verify")
    return {**found, "verify": verify}


def switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidKeyValue(say("true or false"))


def timeout(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST_TIMEOUT:
        return float(value)
    raise InvalidKeyValue(say("a number of seconds greater than 0"))


def whole(lowest: int, highest: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        raise InvalidKeyValue(
            say("a whole number from {lowest} to {highest}", lowest=lowest, highest=highest)
        )

    return check


def one_of(*choices: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise InvalidKeyValue(say("one of {choices}", choices=", ".join(choices)))

    return check


def anything(value: object) -> object:
    return value


KEYS: Mapping[str, Callable[[object], Any]] = {
    "type": one_of(*TRANSPORTS),
    "command": text,
    "args": texts,
    "env": texts_by_name,
    "cwd": text,
    "url": text,
    "headers": texts_by_name,
    "ca": text,
    "tls": tls,
    "proxy": text,
    "enabled": switch,
    "disabled": switch,
    "description": text,
    "tags": texts,
    "category": text,
    "pin": texts,
    "allow": texts,
    "deny": texts,
    "prefix": text,
    "share": one_of("hub", "roots", "client"),
    "timeout": timeout,
    "maxConcurrency": whole(1, MOST_CALLS),
    "maxResultTokens": whole(LEAST_TOKENS, MOST_TOKENS),
    "cache": anything,
    "sandbox": anything,
    "oauth": anything,
}

SYNONYMS = {"serverUrl": "url", "httpUrl": "url"}
"""Other programs' names for keys of ours, with the same meaning."""

ELSEWHERE = {
    "disabledTools": "deny",
    "excludeTools": "deny",
    "enabledTools": "allow",
    "includeTools": "allow",
    "workingDirectory": "cwd",
    "transport": "type",
}
"""Other programs' keys for one of ours. In our own file they cause a warning, and have no effect."""


def unknown_key(key: str) -> Message:
    """Return the warning about a key that is none of ours, with the one that may have been meant."""
    near = (ELSEWHERE[key],) if key in ELSEWHERE else nearest(key, KEYS)
    if not near:
        return say('the key "{key}" is unknown and is ignored.', key=key)
    return say(
        'the key "{key}" is unknown and is ignored. Did you mean {near}?', key=key, near=", ".join(near)
    )


def _inside(where: str, check: Callable[[object], str], value: object) -> str:
    try:
        return check(value)
    except InvalidKeyValue as wrong:
        raise InvalidKeyValue(wrong.allowed, where + wrong.inside) from None

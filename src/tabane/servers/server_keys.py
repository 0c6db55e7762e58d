"""Keys of a server in the servers file, and their allowed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from msgspec import Struct

from tabane.messages import Message, say
from tabane.servers.key_values import InvalidKeyValue, is_plain
from tabane.servers.labels import LABELS_BY_NAME, NO_CHANGE, LabelChange, label_change
from tabane.servers.oauth_keys import oauth
from tabane.servers.sandbox_keys import sandbox
from tabane.servers.tool_overrides import read_overrides
from tabane.text.nearest_names import nearest

Checked = TypeVar("Checked")

TRANSPORTS = ("stdio", "http", "sse")
LONGEST_TIMEOUT = 86_400_000.0
MOST_CALLS = 1_024
LEAST_TOKENS = 1_000
MOST_TOKENS = 1_000_000


def text(value: object) -> str:
    """Return a text that can be passed to a process: no NUL, no lone surrogate."""
    if isinstance(value, str) and is_plain(value):
        return value
    raise InvalidKeyValue(say("a text in quotes"))


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidKeyValue(say("a list of texts"))
    return tuple(_inside(f"[{index}]", text, part) for index, part in enumerate(value))


def text_or_texts(value: object) -> tuple[str, ...]:
    """Return a list of texts, which may be given as a text if it is only one."""
    return (text(value),) if isinstance(value, str) else texts(value)


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


MOST_HINTS = 50
"""Texts of one list of hints."""


class ToolHints(Struct, frozen=True):
    """A person's words about the tools that ``pattern`` matches, for searching: never shown to an assistant.

    ``labels`` are for the flow policy.
    ``unknown`` are members of the object that have no meaning.
    """

    pattern: str
    description: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    labels: LabelChange = NO_CHANGE
    unknown: tuple[str, ...] = ()

    def fits(self, name: str) -> bool:
        """Return whether it is about the tool that its server calls by that name."""
        return fnmatchcase(name, self.pattern)


def hints(value: object) -> tuple[str, ...]:
    """Return a list of texts that are searched, without empty ones."""
    found = texts(value)
    if len(found) > MOST_HINTS:
        raise InvalidKeyValue(say("a list of at most {most} {most:text|texts}", most=MOST_HINTS))
    return tuple(text for text in found if text.strip())


def flow_labels(value: object) -> LabelChange:
    """Return the list "labels": names of flow labels, each with - in front to remove it."""
    try:
        return label_change(texts(value))
    except KeyError:
        names = ", ".join(LABELS_BY_NAME)
        raise InvalidKeyValue(
            say("a list of {names}, each with - in front to remove it", names=names)
        ) from None


def tool_hints(value: object) -> tuple[ToolHints, ...]:
    """Return the object "tools"."""
    if not isinstance(value, dict):
        raise InvalidKeyValue(say("an object of the server's own names of tools"))
    return tuple(_hints_of(name, given) for name, given in value.items())


def _hints_of(pattern: str, given: object) -> ToolHints:
    if not isinstance(given, dict):
        raise InvalidKeyValue(
            say("an object with description, tags, keywords, examples or labels"), f".{pattern}"
        )
    found = {
        key: _inside(f".{pattern}.{key}", check, given[key])
        for key, check in _HINTS.items()
        if given.get(key) is not None
    }
    return ToolHints(pattern, unknown=tuple(key for key in given if key not in _HINTS), **found)


_HINTS: Mapping[str, Callable[[object], Any]] = {
    "description": text,
    "tags": hints,
    "keywords": hints,
    "examples": hints,
    "labels": flow_labels,
}


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
    "inherit": texts,
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
    "keywords": hints,
    "examples": hints,
    "labels": flow_labels,
    "tools": tool_hints,
    "overrides": read_overrides,
    "pin": text_or_texts,
    "allow": texts,
    "deny": texts,
    "confirm": text_or_texts,
    "prefix": text,
    "share": one_of("hub", "roots", "client"),
    "run": one_of("hub", "group"),
    "changes": one_of("warn", "hold"),
    "timeout": timeout,
    "maxConcurrency": whole(1, MOST_CALLS),
    "maxResultTokens": whole(LEAST_TOKENS, MOST_TOKENS),
    "credentials": one_of("off", "warn", "redact"),
    "cache": anything,
    "sandbox": sandbox,
    "sandboxEnabled": switch,
    "image": text,
    "oauth": oauth,
}


def unknown_key(key: str, inside: str = "") -> Message:
    """Return the warning about a key that is none of ours, with the one that may have been meant.

    ``inside`` are the keys that it is in, such as ``tools.search.``.
    """
    near = nearest(key, _HINTS if inside else KEYS)
    key = inside + key
    if not near:
        return say('the key "{key}" is unknown and is ignored.', key=key)
    return say(
        'the key "{key}" is unknown and is ignored. Did you mean {near}?', key=key, near=", ".join(near)
    )


def _inside(where: str, check: Callable[[object], Checked], value: object) -> Checked:
    try:
        return check(value)
    except InvalidKeyValue as wrong:
        raise InvalidKeyValue(wrong.allowed, where + wrong.inside) from None

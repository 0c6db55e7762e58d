"""Parameters of the URLs that the setting vector_index takes; pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say

_NUMBER = re.compile(r"[0-9]{1,4}")
_WORDS = {"true": True, "false": False}

T = TypeVar("T")


class IndexParameters:
    """Parameters that are taken one by one. Each raises ConfigurationError, without its value."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def take(self, name: str, read: Callable[[str], T | None], default: T) -> T:
        if name not in self._given:
            return default
        found = read(self._given.pop(name))
        if found is None:
            raise ConfigurationError(
                say("{name} in the setting vector_index has an unknown value", name=name)
            )
        return found

    def end(self) -> None:
        """Raise if a parameter was not taken."""
        for name in self._given:
            raise ConfigurationError(say("the setting vector_index has no parameter {name}", name=name))


class IndexAddress(NamedTuple):
    """The parts of a URL. ``login`` is ``user:password``; empty: there is none."""

    parts: SplitResult
    host: str
    port: int
    login: str
    parameters: IndexParameters


def split_address(url: str, port: int) -> IndexAddress:
    """Split a URL. ``port`` is the default. Raises ConfigurationError, which contains no password."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host, found = parts.hostname or "", parts.port or port
    except ValueError:
        raise unreadable_index() from None
    if parts.fragment or len(dict(pairs)) < len(pairs):
        raise unreadable_index()
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return IndexAddress(parts, host, found, "" if login == ":" else login, IndexParameters(dict(pairs)))


def boolean(text: str) -> bool | None:
    return _WORDS.get(text)


def one_of(words: tuple[str, ...]) -> Callable[[str], str | None]:
    return lambda text: text if text in words else None


def matching(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    return lambda text: text if pattern.fullmatch(text) else None


def whole(least: int, most: int) -> Callable[[str], int | None]:
    return lambda text: int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None


def bracketed(host: str) -> str:
    """Return a host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def unreadable_index() -> ConfigurationError:
    """Return the error for a URL that cannot be read."""
    return ConfigurationError(
        say(
            "vector_index must be empty or a URL such as "
            "milvus://user:${{MILVUS_PASSWORD}}@host:19530/database, chroma+https://host:8000 "
            "or chroma:/folder"
        )
    )

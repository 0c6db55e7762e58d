"""Secrets in plain text in the definition of a server: found, and replaced by variables. Pure.

Values of ``env`` and ``headers``, arguments and URLs are searched. A text that already has a variable,
such as ``Bearer ${TOKEN}``, stays as it is.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from tabane.servers.foreign_keys import RENAMED
from tabane.servers.variables import NAME
from tabane.text.secret_values import has_secret, looks_secret

MASK = "***"

LONGEST = 64 * 1024
"""Characters of a value that can be kept as a secret."""

_MOST_ARGUMENTS = 1_000
_LONGEST_PART = 80

_AUTHORIZATION = ("authorization", "proxy-authorization")
_SCHEME = re.compile(r"\s*(?:bearer|basic|token|apikey|api-key|key|bot|digest)\s+", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9_-]{0,30}\s+")
_HEADER = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*):\s*")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=")
_PASSWORD = re.compile(r"://[^\s/?#@:]*:(?P<value>[^\s/?#@]+)@")
_USER = re.compile(r"://(?P<value>[^\s/?#@:]{16,})@")
_QUERY = re.compile(r"[?&](?P<name>[^\s=&#?]+)=(?P<value>[^\s&#]+)")

Place = tuple[str | int, ...]
"""Keys and indexes that lead to a text of a definition."""


class PlainSecret(Struct, frozen=True):
    """A secret in plain text: the text that has it, its position there, and its value.

    ``wanted`` is the name that suits its variable, such as API_KEY.
    """

    place: Place
    start: int
    end: int
    value: str
    wanted: str

    def __repr__(self) -> str:
        return f"PlainSecret({self.key!r})"

    @property
    def key(self) -> str:
        """Its place, for people: ``env.API_KEY``, ``args[2]``."""
        first, *rest = self.place
        return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def plain_secrets(server: str, definition: Mapping[str, Any]) -> tuple[PlainSecret, ...]:
    """Return the secrets in plain text of a definition, in its order. Never raises.

    ``server`` is its name, for names of variables.
    """
    return tuple(found for found in _all_secrets(server, definition) if len(found.value) <= LONGEST)


def with_variables(definition: Mapping[str, Any], names: Iterable[tuple[PlainSecret, str]]) -> dict[str, Any]:
    """Return the definition with each secret replaced by the variable of that name."""
    return _replaced(definition, [(secret, f"${{{name}}}") for secret, name in names])


def without_secrets(server: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition with each secret in plain text replaced by ``***``."""
    return _replaced(definition, [(secret, MASK) for secret in _all_secrets(server, definition)])


def _replaced(definition: Mapping[str, Any], texts: Iterable[tuple[PlainSecret, str]]) -> dict[str, Any]:
    made = dict(definition)
    # from the end, so that earlier positions in the same text stay right
    for found, replacement in sorted(texts, key=lambda pair: pair[0].start, reverse=True):
        key, *inner = found.place
        inside: Any = made if not inner else copy.copy(made[str(key)])
        last = inner[0] if inner else key
        text = inside[last]
        inside[last] = text[: found.start] + replacement + text[found.end :]
        if inner:
            made[str(key)] = inside
    return made


def variable_name(server: str, name: str) -> str:
    """Return a name for a variable of a server: GITHUB_TOKEN for ``github`` and ``token``."""
    prefix, own = words_of(server), words_of(name)
    whole = own if own == prefix or own.startswith(f"{prefix}_") else f"{prefix}_{own}"
    whole = whole.strip("_") or "SECRET"
    return whole if NAME.fullmatch(whole) else f"V_{whole}"


def words_of(text: str) -> str:
    """Return a text as a part of a variable's name; empty if it has no letters or digits of ASCII."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()[:_LONGEST_PART].strip("_")


def _all_secrets(server: str, definition: Mapping[str, Any]) -> Iterator[PlainSecret]:
    for key, value in definition.items():
        known = RENAMED.get(key, key)
        if known == "env" and isinstance(value, dict):
            for name, text in value.items():
                if (
                    isinstance(name, str)
                    and isinstance(text, str)
                    and not _refers_to_variable(text)
                    and looks_secret(name, text)
                ):
                    fits = NAME.fullmatch(name) and len(name) <= _LONGEST_PART
                    yield _secret_at((key, name), text, 0, name if fits else variable_name(server, name))
        elif known == "headers" and isinstance(value, dict):
            for name, text in value.items():
                yield from _header_secret(server, (key, name), name, text, 0)
        elif known == "oauth" and isinstance(value, dict):
            text = value.get("clientSecret")
            if isinstance(text, str) and text and not _refers_to_variable(text):
                yield _secret_at((key, "clientSecret"), text, 0, variable_name(server, "client_secret"))
        elif known == "args" and isinstance(value, list):
            before = ""
            for index, text in enumerate(value[:_MOST_ARGUMENTS]):
                if isinstance(text, str):
                    yield from _argument_secrets(server, (key, index), text, before)
                before = text if isinstance(text, str) else ""
        elif known in ("url", "proxy") and isinstance(value, str):
            yield from _address_secrets(server, (key,), value)


def _header_secret(
    server: str, place: Place, name: object, text: object, start: int
) -> Iterator[PlainSecret]:
    """Yield the secret of a header whose value begins at ``start``; the scheme before it stays."""
    if not isinstance(name, str) or not isinstance(text, str):
        return
    is_authorization = name.strip().lower() in _AUTHORIZATION
    scheme = (_ANY_SCHEME if is_authorization else _SCHEME).match(text, start)
    begin = scheme.end() if scheme else start
    value = text[begin:]
    if _refers_to_variable(value) or not (looks_secret(name, value) or has_secret(text[start:])):
        return
    own = re.sub(r"(?i)^x-", "", name)
    yield _secret_at(place, text, begin, variable_name(server, "token" if is_authorization else own))


def _argument_secrets(server: str, place: Place, text: str, before: str) -> Iterator[PlainSecret]:
    """Yield the secrets of an argument. ``before`` is the argument before it, which may be its flag."""
    flag, equals, _ = text.partition("=")
    if equals and text.startswith("-"):
        start = len(flag) + 1
        yield from _value_secrets(server, place, text, start, flag.lstrip("-"))
    elif (assigned := _ASSIGNMENT.match(text)) and looks_secret(assigned["name"], text[assigned.end() :]):
        if not _refers_to_variable(text):
            yield _secret_at(place, text, assigned.end(), assigned["name"])
    elif (
        (header := _HEADER.match(text))
        and before.startswith("-")
        and not text[header.end() :].startswith("//")
    ):
        yield from _header_secret(server, place, header["name"], text, header.end())
    elif text.startswith("-"):
        return
    else:
        yield from _value_secrets(
            server, place, text, 0, before.lstrip("-") if before.startswith("-") else ""
        )


def _value_secrets(server: str, place: Place, text: str, start: int, flag: str) -> Iterator[PlainSecret]:
    """Yield the secrets of a value that begins at ``start``: parts of an address, or the whole value."""
    value = text[start:]
    if "://" in value:
        yield from _address_secrets(server, place, text)
    elif (
        not _refers_to_variable(value)
        and not any(character.isspace() for character in value.strip())
        and looks_secret(flag, value)
    ):
        yield _secret_at(place, text, start, variable_name(server, flag or "key"))


def _address_secrets(server: str, place: Place, text: str) -> Iterator[PlainSecret]:
    for pattern, name in ((_PASSWORD, "password"), (_USER, "token"), (_QUERY, "")):
        for found in pattern.finditer(text):
            value = found["value"]
            if _refers_to_variable(value) or (not name and not looks_secret(found["name"], value)):
                continue
            if name and not looks_secret("password", value):
                continue  # a placeholder
            wanted = variable_name(server, name or found["name"])
            yield _secret_at(place, text, found.start("value"), wanted, found.end("value"))


def _secret_at(place: Place, text: str, start: int, wanted: str, end: int | None = None) -> PlainSecret:
    end = len(text) if end is None else end
    # a secret is put in as it is: what the file writes as $${ is ${
    return PlainSecret(place, start, end, text[start:end].replace("$${", "${"), wanted)


def _refers_to_variable(text: str) -> bool:
    """Return whether a text has a variable, or what should be one."""
    return "${" in text.replace("$${", "")

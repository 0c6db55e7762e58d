"""What identifies a server's configuration, and what in it is a secret by its name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tabane.gateway.servers.redaction import SHORTEST

_SECRET_NAME = re.compile(
    r"(?i)(?:^|[-_.])(?:keys?|tokens?|pass|pat|auth|authorization|cookies?|credentials?)$"
    r"|secret|password|passwd|api[-_]?key|access[-_]?key|token$"
)
_MASK = "***"


def fingerprint(transport: str, values: Mapping[str, Any]) -> str:
    """A hash of what decides which tools a server lists, as it is written: 32 hexadecimal digits.

    Variables enter by name, not by value, and a value whose name says that it is secret not at all, so
    that nothing can be learnt of a secret from the hash.
    """
    parts = [
        transport,
        values.get("command"),
        _masked_arguments(values.get("args", ())),
        _masked(values.get("env", {})),
        values.get("cwd"),
        values.get("url"),
        _masked(values.get("headers", {})),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def written_secrets(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The values that stand in clear under a name such as API_KEY, ``--token`` or Authorization."""
    named = (pair for key in ("env", "headers") for pair in values.get(key, {}).items())
    found = [value for name, value in named if is_secret_name(name)]
    found += [value for _, value, secret in _arguments(values.get("args", ())) if secret]
    return tuple(part for value in found for part in _parts(value))


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or flag of that name is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def _parts(value: str) -> Iterator[str]:
    """The value, and for ``Bearer abc`` the word after the scheme; nothing that is put in by a variable."""
    for part in dict.fromkeys((value, value.rpartition(" ")[2])):
        if "${" not in part and len(part) >= SHORTEST:
            yield part


def _masked(named: Mapping[str, str]) -> list[list[str]]:
    return sorted([name, _MASK if is_secret_name(name) else value] for name, value in named.items())


def _masked_arguments(args: tuple[str, ...]) -> list[str]:
    return [flag + (_MASK if secret else value) for flag, value, secret in _arguments(args)]


def _arguments(args: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Each argument as (what stands before the value, the value, whether that is a secret by name)."""
    before = ""
    for argument in args:
        flag, equals, value = argument.partition("=")
        if equals and argument.startswith("-"):
            yield flag + equals, value, is_secret_name(flag)
        else:
            secret = before.startswith("-") and is_secret_name(before) and not argument.startswith("-")
            yield "", argument, secret
        before = argument

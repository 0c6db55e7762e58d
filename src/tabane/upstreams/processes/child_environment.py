"""Environments of child processes: which variables of the hub a server gets, and which a download gets.

A program that Tabane starts for its user gets what the user's other programs need to reach the world, and no
secret that it was not given by name. Everything here is pure: environments in, environments and names out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from tabane.servers.redaction import is_secret_name
from tabane.upstreams.processes.variable_names import BASIC, VariableKind, has_secret_word, kind_of

LONGEST_VALUE = 64 << 10
"""Bytes of a value that is passed. A longer one stays out: Linux starts no program with one of 128 KiB."""

MOST_BYTES = 256 << 10
"""Bytes of all that is passed, names included, so that programs can be started on every system."""

_OWN = "TABANE_"
_USER_OF_URL = re.compile(r"://[^/?#\s]*@")
_USER = re.compile(r"(?:://|^|[\s,|])([^/\s]+)@")
_USER_ALONE_OF_SSH = re.compile(r"^ssh://[^/?#\s@:]*@[^@]*$")
_NODE_OPTIONS = re.compile(
    r"--(?:use-(?:system|openssl|bundled)-ca|use-env-proxy|tls-(?:min|max)-v[\d.]+"
    r"|dns-result-order=\w+|max-http-header-size=\d+|max-old-space-size=\d+)"
)
"""Options of Node.js about the network and memory. Others load code, or open a debugger."""


class EnvironmentNames(Struct, frozen=True):
    """Names of the hub's variables by who gets them, each sorted.

    ``passed``: the server and its download. ``download``: its download alone. ``withheld``: neither, because
    of what they are; ``inherit`` can name them. Variables that nothing is known about are in none.
    """

    passed: tuple[str, ...] = ()
    download: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


def child_environment(
    hub_env: Mapping[str, str], configured: Mapping[str, str], inherit: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of a running server: variables of the hub's, and what the configuration names.

    ``configured`` wins. ``inherit`` are patterns of further names (``AWS_*``), secret ones too. A value of
    the hub's that begins with ``()`` is a function exported by a shell, and is left out.
    """
    return {**_chosen(hub_env, inherit, download=False), **configured}


def download_environment(
    hub_env: Mapping[str, str], configured: Mapping[str, str], inherit: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of a download: that of the server, and credentials of proxies and registries."""
    return {**_chosen(hub_env, inherit, download=True), **configured}


def environment_names(
    hub_env: Mapping[str, str], configured: Mapping[str, str], inherit: Sequence[str] = ()
) -> EnvironmentNames:
    """Return which of the hub's variables a server gets, which its download, and which are withheld."""
    running = _chosen(hub_env, inherit, download=False)
    downloading = _chosen(hub_env, inherit, download=True)
    held = (
        name
        for name, value in hub_env.items()
        if name not in downloading and name not in configured and not name.startswith(_OWN)
        if is_withheld(name, value)
    )
    return EnvironmentNames(
        tuple(sorted(running.keys() - configured.keys())),
        tuple(sorted(downloading.keys() - running.keys() - configured.keys())),
        tuple(sorted(held)),
    )


def is_withheld(name: str, value: str) -> bool:
    """Return whether a rule keeps the variable from a server that does not inherit it by name."""
    kind = kind_of(name)
    if kind in (VariableKind.SESSION, VariableKind.SECRET):
        return True
    known = kind in (VariableKind.PLAIN, VariableKind.ADDRESS, VariableKind.DOWNLOAD)
    return known and not _is_passable(value)


def environment_secrets(
    hub_env: Mapping[str, str], configured: Mapping[str, str], inherit: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the values that a server or its download gets from the hub, and that no log may show."""
    found: list[str] = []
    for name, value in _chosen(hub_env, inherit, download=True).items():
        if name in configured:
            continue
        kind = kind_of(name)
        if kind is VariableKind.DOWNLOAD:
            continue
        if kind is VariableKind.CREDENTIAL or has_secret_word(name) or is_secret_name(name):
            found.append(value)
        elif has_credentials(name, value):
            found += _users(value)
    return tuple(dict.fromkeys(text for text in found if text))


def has_credentials(name: str, value: str) -> bool:
    """Return whether a proxy or registry variable holds more than an address: only a download gets it."""
    kind = kind_of(name)
    if kind is VariableKind.CREDENTIAL:
        return True
    if kind is VariableKind.ADDRESS:
        return "@" in value or "?" in value
    return (
        kind is VariableKind.PLAIN
        and name not in BASIC
        and _USER_OF_URL.search(value) is not None
        and not _USER_ALONE_OF_SSH.match(value)
    )


def inherits(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns names the variable. Tabane's own must be named as such."""
    own = name.startswith(_OWN)
    return any(fnmatchcase(name, p) for p in patterns if not own or p.startswith(_OWN))


def _chosen(hub_env: Mapping[str, str], inherit: Sequence[str], *, download: bool) -> dict[str, str]:
    """Return what is passed of the hub's variables. Beyond :data:`MOST_BYTES`, the last ones stay out."""
    chosen: dict[str, str] = {}
    left = MOST_BYTES
    for name, value in _offered(hub_env, inherit, download=download):
        size = len(name.encode("utf-8", "surrogateescape")) + _size(value) + 2
        if size <= left:
            chosen[name] = value
            left -= size
    return chosen


def _offered(
    hub_env: Mapping[str, str], inherit: Sequence[str], *, download: bool
) -> Iterator[tuple[str, str]]:
    """Yield what the rules pass: first the basic variables, then the other known ones, then the inherited."""
    usable = {name: value for name, value in hub_env.items() if _is_passable(value)}
    wanted = [name for name in usable if inherits(name, inherit)] if inherit else []
    yield from ((name, usable[name]) for name in BASIC if name in usable)
    for name, value in usable.items():
        if name in BASIC or name in wanted or not _passes(name, value, download=download):
            continue
        passed = passed_value(name, value)
        if passed is not None:
            yield name, passed
    yield from ((name, usable[name]) for name in wanted if name not in BASIC)


def _passes(name: str, value: str, *, download: bool) -> bool:
    kind = kind_of(name)
    if kind in (VariableKind.CREDENTIAL, VariableKind.DOWNLOAD):
        return download
    if kind not in (VariableKind.PLAIN, VariableKind.ADDRESS) or is_secret_name(name):
        return False
    return download or not has_credentials(name, value)


def _is_passable(value: str) -> bool:
    return not value.startswith("()") and "\0" not in value and _size(value) <= LONGEST_VALUE


def passed_value(name: str, value: str) -> str | None:
    """Return the value as servers get it: of NODE_OPTIONS, a part. None if nothing is left."""
    if name != "NODE_OPTIONS":
        return value
    return " ".join(part for part in value.split() if _NODE_OPTIONS.fullmatch(part)) or None


def _users(value: str) -> Iterator[str]:
    """Yield user and password of each address in a value, also as a program prints them: decoded."""
    from urllib.parse import unquote  # needed only where somebody has such an address

    for found in _USER.finditer(value):
        for text in (found[1], found[1].partition(":")[2]):
            yield text
            yield unquote(text)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))

"""The user's secrets: TABANE_HOME/secrets.env, and the system's keyring where it is wanted.

The file has lines ``NAME=value``, with comments after ``#``, an optional ``export`` before the name,
and values bare, in single quotes (as they stand) or in double quotes (with ``\\n``, ``\\t``, ``\\r``,
``\\"``, ``\\\\`` and ``\\$``). A quoted value may go over several lines. Nothing is expanded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module

from tabane.errors import ConfigurationError
from tabane.gateway.servers.variables import Variables
from tabane.messages import say
from tabane.settings.files import read_private

Lookup = Callable[[str], str | None]

SERVICE = "tabane"
"""The name under which the keyring holds Tabane's secrets."""

_ENTRY = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>(?!['"])(?:(?![ \t]\#)[^\n])*?) )
    [ \t]*(?:(?:(?<=[ \t='"])\#)[^\n]*)?(?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def load_variables(
    home: str | os.PathLike[str], environ: Mapping[str, str], keyring: Lookup | None = None
) -> Variables:
    """The variables as the hub sees them: secrets.env of ``home``, then ``keyring``, then ``environ``.

    Raises ConfigurationError where secrets.env may be read by others or a line of it is wrong.
    """
    path = os.path.join(home, "secrets.env")
    try:
        secrets = parse_secrets(_decoded(path, read_private(path)), path)
    except FileNotFoundError:
        secrets = {}
    return Variables(environ, secrets, keyring)


def parse_secrets(text: str, path: str) -> dict[str, str]:
    """The entries of a secrets file; of a name that stands twice, the last.

    Raises ConfigurationError with the line of the first that cannot be read, and without its content.
    """
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    entries: dict[str, str] = {}
    position = 0
    while position < len(text):
        if nothing := _NOTHING.match(text, position):
            position = nothing.end()
            continue
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise ConfigurationError(
                say(
                    "{path}:{line}: expected NAME=value. A value with # or line breaks stands in quotes.",
                    path=path,
                    line=text.count("\n", 0, position) + 1,
                )
            )
        entries[entry["name"]] = _value(entry)
        position = entry.end()
    return entries


def keyring_lookup() -> Lookup:
    """Asks the system's keyring, where the setting ``keyring`` is on.

    Raises ConfigurationError where the package is not installed; what it gives back raises it where
    the keyring cannot be read.
    """
    try:
        keyring = import_module("keyring")  # slow, and installed only where it is wanted
    except ImportError:
        raise ConfigurationError(
            say(
                "The setting keyring is on, but the Python package keyring is not installed. Install it "
                "beside tabane, or turn the setting off."
            )
        ) from None

    def lookup(name: str) -> str | None:
        try:
            found = keyring.get_password(SERVICE, name)
        except keyring.errors.KeyringError as error:
            raise ConfigurationError(
                say("The system's keyring cannot be read: {detail}.", detail=error)
            ) from None
        return None if found is None else str(found)

    return lookup


def _value(entry: re.Match[str]) -> str:
    if entry["single"] is not None:
        return entry["single"]
    if entry["double"] is not None:
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), entry["double"], flags=re.DOTALL)
    return entry["bare"].rstrip()


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not written in UTF-8.", path=path)) from None

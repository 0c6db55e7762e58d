"""The tables ``[profiles.NAME]`` of tabane.toml, and where they are wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabane.access.patterns import EVERY_TOOL
from tabane.access.permissions import PermissionPatterns
from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import Message, say
from tabane.settings.files import read_trusted
from tabane.text.nearest_names import nearest

MOST_PROFILES = 100
"""Profiles of one settings file."""

LONGEST_DESCRIPTION = 500
"""Characters of a description."""

KEYS = ("allow", "deny", "read_only", "description")

is_profile_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}").fullmatch
"""A name is part of an address (``/mcp/p/NAME``) and of an option."""


_part = re.compile(r"\"[^\"]*\"|'[^']*'|[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ProfileDefinition:
    """A profile as the settings file has it."""

    name: str
    patterns: PermissionPatterns
    description: str = ""


def read_profiles(path: Path) -> dict[str, ProfileDefinition]:
    """Return the profiles of the settings file by name; none if there is no file.

    Raises ConfigurationError that names file, line and key.
    """
    try:
        text = read_trusted(path).decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None
    return profiles_in(path, text)


def profiles_in(path: Path, text: str) -> dict[str, ProfileDefinition]:
    """Return the profiles in the text of a settings file. Raises ConfigurationError."""
    if "profiles" not in text:
        return {}
    import tomllib  # few have profiles

    try:
        tables = tomllib.loads(text).get("profiles", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            say("{where} is not valid TOML: {detail}.", where=path, detail=error)
        ) from None
    return _ProfileReader(path, text).read(tables)


class _ProfileReader:
    """Checks the tables, and finds their lines for errors."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._lines = path, text.splitlines()

    def read(self, tables: object) -> dict[str, ProfileDefinition]:
        if not isinstance(tables, dict):
            raise self._error("", "", say("profiles must be tables, such as [profiles.work]."))
        if len(tables) > MOST_PROFILES:
            raise self._error(
                "", "", say("there are more than {most} {most:profile|profiles}.", most=MOST_PROFILES)
            )
        return {name: self._definition(name, table) for name, table in tables.items()}

    def _definition(self, name: str, table: object) -> ProfileDefinition:
        if not is_profile_name(name):
            raise self._error(
                name,
                "",
                say(
                    "{name} is not the name of a profile: use 1 to 64 letters, digits, - and _.",
                    name=ascii(name[:100]),
                ),
            )
        if not isinstance(table, dict):
            raise self._error(name, "", say("profiles.{name} must be a table.", name=name))
        self._check_keys(name, table)
        return ProfileDefinition(name, self._patterns(name, table), table.get("description", ""))

    def _check_keys(self, name: str, table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            if key not in KEYS:
                raise self._error(name, key, _unknown_key(key))
            wrong = _wrong_value(key, value)
            if wrong is not None:
                raise self._error(name, key, wrong)

    def _patterns(self, name: str, table: Mapping[str, Any]) -> PermissionPatterns:
        try:
            return PermissionPatterns.checked(
                table.get("allow", [EVERY_TOOL]),
                table.get("deny", ()),
                read_only=table.get("read_only", False),
            )
        except BadArguments as error:
            raise self._error(name, error.parameter or "", error.message) from None

    def _error(self, name: str, key: str, what: Message) -> ConfigurationError:
        return ConfigurationError(
            say("{where}: {what}", where=f"{self._path}:{self._line(name, key)}", what=what)
        )

    def _line(self, name: str, key: str) -> int:
        """Return the number of the line of a key, else that of its table."""
        wanted = [part for part in ("profiles", name, key) if part]
        table: list[str] = []
        best, length = 1, 0
        for number, line in enumerate(self._lines, 1):
            words = _name_parts(line.partition("=")[0])
            if line.lstrip().startswith("["):
                table, words = words, []
            common = _common_length(wanted, table + words)
            if common > length:
                best, length = number, common
        return best


def _name_parts(text: str) -> list[str]:
    """Return the parts of a dotted name, quoted or not, in a line of TOML."""
    return [part[1:-1] if part[0] in "\"'" else part for part in _part.findall(text.partition("#")[0])]


def _common_length(wanted: list[str], found: list[str]) -> int:
    return next((n for n, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]),
                min(len(wanted), len(found)))  # fmt: skip


def _unknown_key(key: str) -> Message:
    near = nearest(key, KEYS, 1)
    if near:
        return say("a profile has no key {key}. Did you mean {near}?", key=key, near=near[0])
    return say("a profile has no key {key}. Its keys are {keys}.", key=key, keys=", ".join(KEYS))


def _wrong_value(key: str, value: object) -> Message | None:
    if key == "read_only":
        return None if isinstance(value, bool) else say("{key} must be true or false.", key=key)
    if key == "description":
        fits = isinstance(value, str) and len(value) <= LONGEST_DESCRIPTION
        return (
            None
            if fits
            else say(
                "{key} must be a text of at most {most} {most:character|characters}.",
                key=key,
                most=LONGEST_DESCRIPTION,
            )
        )
    fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return (
        None if fits else say('{key} must be a list of patterns, such as ["github__*", "@posts"].', key=key)
    )

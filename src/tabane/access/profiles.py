"""Profiles: named sets of servers and tools, which narrow whoever uses them.

They are the tables ``[profiles.NAME]`` of tabane.toml. A mistake in one is an error that names its place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabane.access.permissions import EVERY_TOOL, PermissionPatterns, PermissionRules, rules_of
from tabane.access.table import ListProfiles
from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.messages import Message, say
from tabane.operations.caller import Access, Caller, CallTarget
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
            raise self._profile_error("", "", say("profiles must be tables, such as [profiles.work]."))
        if len(tables) > MOST_PROFILES:
            raise self._profile_error(
                "", "", say("there are more than {most} {most:profile|profiles}.", most=MOST_PROFILES)
            )
        return {name: self._read_definition(name, table) for name, table in tables.items()}

    def _read_definition(self, name: str, table: object) -> ProfileDefinition:
        if not is_profile_name(name):
            raise self._profile_error(
                name,
                "",
                say(
                    "{name} is not the name of a profile: use 1 to 64 letters, digits, - and _.",
                    name=ascii(name[:100]),
                ),
            )
        if not isinstance(table, dict):
            raise self._profile_error(name, "", say("profiles.{name} must be a table.", name=name))
        for key, value in table.items():
            if key not in KEYS:
                raise self._profile_error(name, key, _unknown_key(key))
            wrong = _wrong_value(key, value)
            if wrong is not None:
                raise self._profile_error(name, key, wrong)
        try:
            patterns = PermissionPatterns.checked(
                table.get("allow", [EVERY_TOOL]),
                table.get("deny", ()),
                read_only=table.get("read_only", False),
            )
        except BadArguments as error:
            raise self._profile_error(name, error.parameter or "", error.message) from None
        return ProfileDefinition(name, patterns, table.get("description", ""))

    def _profile_error(self, name: str, key: str, what: Message) -> ConfigurationError:
        return ConfigurationError(
            say("{where}: {what}", where=f"{self._path}:{self._line_of_key(name, key)}", what=what)
        )

    def _line_of_key(self, name: str, key: str) -> int:
        """Return the number of the line of a key, else that of its table."""
        wanted = [part for part in ("profiles", name, key) if part]
        table: list[str] = []
        best, length = 1, 0
        for number, line in enumerate(self._lines, 1):
            words = [
                part[1:-1] if part[0] in "\"'" else part
                for part in _part.findall(line.partition("=")[0].partition("#")[0])
            ]
            if line.lstrip().startswith("["):
                table, words = words, []
            pairs = zip(wanted, table + words, strict=False)
            common = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
            if common > length:
                best, length = number, common
        return best


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


class Profile:
    """One profile. It is live: a change of the settings file applies to the sessions that use it.

    A profile that was removed from the file allows nothing.
    """

    def __init__(self, definition: ProfileDefinition) -> None:
        self.definition: ProfileDefinition | None = definition
        self.name = definition.name
        self.revision = 0
        self._rules = PermissionRules(definition.patterns)

    def allows(self, target: CallTarget) -> bool:
        """Return whether the profile allows a target."""
        return self.definition is not None and self._rules.allows(target)

    def sees_server(self, server: str) -> bool:
        """Return whether anything of a server may be allowed."""
        return self.definition is not None and self._rules.sees_server(server)

    @property
    def everything(self) -> bool:
        """Whether it narrows nothing."""
        return self.definition is not None and self._rules.everything

    def replace(self, definition: ProfileDefinition | None) -> None:
        """Put another definition in force; None if there is none any more."""
        if definition == self.definition:
            return
        self.definition = definition
        self.revision += 1
        if definition is not None:
            self._rules = PermissionRules(definition.patterns)


class NarrowedAccess(Access):
    """The intersection of an access and a profile."""

    def __init__(self, access: Access, profile: Profile) -> None:
        self._access, self.profile = access, profile

    @property
    def holder(self) -> str:
        return self._access.holder

    @property
    def label(self) -> str:
        return self._access.label

    @property
    def tier(self) -> str:
        return self._access.tier

    @property
    def everything(self) -> bool:
        return self.profile.everything and self._access.everything

    @property
    def revision(self) -> int:
        # Both only grow, so their sum changes with each of them.
        return self._access.revision + self.profile.revision

    def allows(self, target: CallTarget) -> bool:
        return self.profile.allows(target) and self._access.allows(target)

    def sees_server(self, server: str) -> bool:
        return self.profile.sees_server(server) and self._access.sees_server(server)


def narrowed(access: Access, profile: Profile) -> Access:
    """Return what both allow, never more than either."""
    return NarrowedAccess(access, profile)


class Profiles:
    """The profiles of the settings file. ``read`` reads them, and raises ConfigurationError."""

    def __init__(self, read: Callable[[], Mapping[str, ProfileDefinition]]) -> None:
        self._read = read
        self._profiles = {name: Profile(definition) for name, definition in read().items()}

    def reload(self) -> None:
        """Read them again. Raises ConfigurationError, and then changes nothing."""
        found = self._read()
        for name, profile in self._profiles.items():
            profile.replace(found.get(name))
        for name, definition in found.items():
            self._profiles.setdefault(name, Profile(definition))

    def find(self, name: str) -> Profile | None:
        """Return the profile of that name, also one that the file has no more and a session may use."""
        return self._profiles.get(name)

    def get(self, name: str) -> Profile:
        """Return the profile of that name. Raises UnknownName with the nearest names."""
        profile = self._profiles.get(name)
        if profile is None or profile.definition is None:
            raise self._unknown_profile(name)
        return profile

    def names(self) -> list[str]:
        """Return the names of the profiles that the file has."""
        return [profile.name for profile in self.all()]

    def narrowed(self, access: Access, name: str) -> Access:
        """Return what an identity may do within the profile of that name. Raises UnknownName."""
        return narrowed(access, self.get(name))

    def all(self) -> list[Profile]:
        """Return the profiles that the file has, in its order."""
        return [profile for profile in self._profiles.values() if profile.definition is not None]

    def _unknown_profile(self, name: str) -> UnknownName:
        names = self.names()
        near = nearest(name, names)
        if near:
            return UnknownName(
                say(
                    "There is no profile {name}. Did you mean {near}?", name=name[:100], near=", ".join(near)
                ),
                near,
            )
        if names:
            return UnknownName(
                say("There is no profile {name}. List them with: tabane profiles list", name=name[:100])
            )
        return UnknownName(
            say(
                "There is no profile {name}. To create it, add a table [profiles.{name}] with allow and "
                "deny to tabane.toml.",
                name=name[:100],
            )
        )


def usable(profiles: Iterable[Profile], access: Access, known: Iterable[CallTarget]) -> list[Profile]:
    """Return the profiles with which the caller may call anything of ``known``."""
    if access.everything:
        return list(profiles)
    targets = [target for target in known if access.allows(target)]
    return [profile for profile in profiles if any(map(profile.allows, targets))]


class ProfileOperations:
    """Lists profiles. ``known`` returns what can be called now."""

    def __init__(self, profiles: Profiles, known: Callable[[], Iterable[CallTarget]]) -> None:
        self._profiles, self._known = profiles, known

    async def profiles(self, caller: Caller, params: ListProfiles) -> dict[str, Any]:
        """List the profiles that the caller may use. Only the local user is shown their patterns.

        A row counts the tools that it allows, in all and by server, and the operations by source; ``of`` is
        how many there are. ``draft`` has the same of the patterns that were given. Raises BadArguments.
        """
        access, known = caller.access, list(self._known())
        visible = [target for target in known if access.everything or access.allows(target)]
        answer: dict[str, Any] = {
            "results": [
                _profile_row(profile, visible, whole=access.everything)
                for profile in usable(self._profiles.all(), access, visible)
            ]
        }
        if params.draft:
            rules = rules_of(params.allow or [EVERY_TOOL], params.deny, read_only=params.read_only)
            answer["draft"] = _allowed_counts(rules.allows, visible)
        return answer


def _profile_row(profile: Profile, visible: list[CallTarget], *, whole: bool) -> dict[str, Any]:
    definition = profile.definition
    assert definition is not None
    row: dict[str, Any] = {
        "name": profile.name,
        "description": definition.description or None,
        **_allowed_counts(profile.allows, visible),
    }
    if not whole:
        return row
    patterns = definition.patterns
    return row | {
        "allow": list(patterns.allow), "deny": list(patterns.deny), "read_only": patterns.read_only
    }  # fmt: skip


def _allowed_counts(allows: Callable[[CallTarget], bool], visible: list[CallTarget]) -> dict[str, Any]:
    """Return how many tools are allowed, in all and by server, and how many operations by source."""
    servers: dict[str, list[int]] = {}
    sources: dict[str, list[int]] = {}
    tools = 0
    for target in visible:
        if target.kind not in ("tool", "operation") or target.source == "hub":
            continue
        group = (
            servers.setdefault(target.server, [0, 0])
            if target.server
            else sources.setdefault(target.source or "admin", [0, 0])
        )
        allowed = allows(target)
        group[0] += allowed
        group[1] += 1
        tools += allowed and target.kind == "tool"

    def rows(of: dict[str, list[int]], count: str) -> list[dict[str, Any]]:
        return [{"name": name, count: got, "of": all} for name, (got, all) in sorted(of.items()) if got]

    return {"tools": tools, "servers": rows(servers, "tools"), "sources": rows(sources, "operations")}

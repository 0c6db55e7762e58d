"""The operation on profiles: its handler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tabane.access.parameters import NoProfileParameters
from tabane.access.profiles import Profile, Profiles, usable
from tabane.operations.access import CallTarget
from tabane.operations.caller import Caller


class ProfileOperations:
    """Lists profiles. ``known`` returns what can be called now."""

    def __init__(self, profiles: Profiles, known: Callable[[], Iterable[CallTarget]]) -> None:
        self._profiles, self._known = profiles, known

    async def profiles(self, caller: Caller, params: NoProfileParameters) -> dict[str, Any]:
        """List the profiles that the caller may use. Only the local user is shown their patterns."""
        access, known = caller.access, list(self._known())
        visible = [target for target in known if access.everything or access.allows(target)]
        tools = [target for target in visible if target.kind == "tool"]
        return {
            "results": [
                _profile_row(profile, tools, whole=access.everything)
                for profile in usable(self._profiles.all(), access, visible)
            ]
        }


def _profile_row(profile: Profile, tools: list[CallTarget], *, whole: bool) -> dict[str, Any]:
    definition = profile.definition
    assert definition is not None
    row: dict[str, Any] = {
        "name": profile.name,
        "description": definition.description or None,
        "tools": sum(map(profile.allows, tools)),
    }
    if not whole:
        return row
    patterns = definition.patterns
    return row | {
        "allow": list(patterns.allow), "deny": list(patterns.deny), "read_only": patterns.read_only
    }  # fmt: skip

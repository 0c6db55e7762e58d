"""Profiles in a group of hubs: one that is changed at a hub is so at every hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabane.access.profiles import ProfileDefinition, profiles_in
from tabane.group.profile_changes import FollowedChanges, GroupProfiles, ProfileChange
from tests.group.asking import ask, refused
from tests.harness.hub_group import hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer


async def test_a_profile_is_changed_and_removed_at_every_hub(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with hubs_in_group(tmp_path, postgres, "profiles", {}) as group:
        first, second = group.hubs

        async def has(*names: str) -> None:
            async def equal() -> bool:
                rows = (await ask(second, "profiles_list"))["results"]
                return [row["name"] for row in rows] == list(names)

            await until(equal, f"the other hub has {names}")

        await ask(first, "save_profile", name="work", allow=["git__*"], description="For work")
        await has("work")
        narrowed = second.hub.access.narrowed("work")
        assert not narrowed.sees_server("mail")
        assert narrowed.sees_server("git")
        await ask(first, "save_profile", name="work", allow=["mail__*"])
        await until(lambda: narrowed.sees_server("mail"), "it applies to what is open")
        assert not first.hub.settings.config.exists() or "work" not in first.hub.settings.config.read_text()
        await ask(second, "remove_profile", name="work")
        assert not narrowed.sees_server("mail")
        await has()
        assert "There is no profile work" in await refused(second, "remove_profile", name="work")


class Changes:
    """The changes of a group, in this process."""

    def __init__(self) -> None:
        self.changes: list[ProfileChange] = []

    async def save(self, change: ProfileChange) -> None:
        self.changes.append(change)

    async def changed(self, after: int) -> FollowedChanges:
        return FollowedChanges(self.changes[after:], len(self.changes))


def file(text: str) -> dict[str, ProfileDefinition]:
    return profiles_in(Path("tabane.toml"), text)


async def test_a_later_settings_file_comes_before_an_earlier_change(tmp_path: Path) -> None:
    deployed = file('[profiles.work]\nallow = ["git__*"]\n[profiles.home]\nallow = ["mail__*"]')
    changed = file('[profiles.work]\nallow = ["git__*", "wiki__*"]')["work"]
    profiles, applied = GroupProfiles(tmp_path), list[Any]()
    profiles.shared = Changes()
    await profiles.save("work", changed, deployed, lambda: applied.append(1))
    await profiles.save("home", None, deployed, lambda: applied.append(2))
    assert applied == [1, 2]
    assert profiles.over(deployed) == {"work": changed}
    # Also after a restart without the database.
    assert GroupProfiles(tmp_path).over(deployed) == {"work": changed}
    later = file('[profiles.work]\nallow = ["db__*"]')
    assert profiles.over(later) == later
    (tmp_path / "group_profiles.json").write_bytes(b"{")
    assert GroupProfiles(tmp_path).over(deployed) == deployed

"""Changes of settings and profiles through the door of a running hub."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import BadArguments, ConfigurationError, TabaneError, UnknownName
from tabane.hub.hub import Hub
from tabane.hub.process.administration import HubAdministration, table_of
from tabane.operations import Caller, Face
from tabane.settings import load_settings

TEXT = """\
# set up for the team
lang = "en"  # for now
list_wait = 5

[profiles.work]
allow = ["github__*"]  # nothing else
"""


class SettledHubAtDoor:
    """A hub in this process with a settings file, called through its door."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.file = folder / "config" / "tabane.toml"
        self.environment = {
            "HOME": str(folder), "TABANE_HOME": str(folder / "home"), "TABANE_CONFIG": str(self.file),
            "TABANE_HTTP": "false", "TABANE_MODEL": "none", **variables,
        }  # fmt: skip
        settings = load_settings({}, self.environment)
        self.hub = Hub(settings, self.environment, asyncio.get_running_loop())
        self.door = self.hub.door.over(table_of(self.hub, HubAdministration()))

    async def call(self, name: str, /, **params: Any) -> Any:
        caller = Caller("local", Face.RPC, "test")
        return await self.door.invoke(caller, name, json.dumps(params).encode())


@asynccontextmanager
async def settled_hub(
    tmp_path: Path, text: str | None = TEXT, variables: Mapping[str, str] | None = None
) -> AsyncIterator[SettledHubAtDoor]:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "config").mkdir(mode=0o700)
    if text is not None:
        file = tmp_path / "config" / "tabane.toml"
        file.write_text(text)
        file.chmod(0o600)
    served = SettledHubAtDoor(tmp_path, variables or {})
    try:
        yield served
    finally:
        await served.hub.close()


def row(listed: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in listed["results"] if each["name"] == name)
    return found


async def test_each_setting_has_what_a_form_needs(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        listed = await served.call("list_settings")
        assert listed["file"] == str(served.file)
        assert not listed["restart_needed"]
        lang = row(listed, "lang")
        assert (lang["value"], lang["source"]) == ("en", "file")
        assert lang["where"] == f"{served.file}:2"
        assert lang["choices"] == ["auto", "ja", "en"]
        assert lang["changeable"]
        wait = row(listed, "list_wait")
        assert (wait["value"], wait["default"], wait["lowest"], wait["highest"]) == ("5", "2", "0", "60")
        assert not row(listed, "http")["changeable"]  # a variable gives it
        assert not row(listed, "home")["changeable"]
        assert row(listed, "port")["restart"]


async def test_a_change_is_in_force_at_once_and_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        done = await served.call("change_setting", name="list_wait", value="7.5")
        assert (done["applies"], done["problem"], done["setting"]["value"]) == ("now", None, "7.5")
        assert served.hub.settings.list_wait == 7.5
        assert served.file.read_text() == TEXT.replace("list_wait = 5", "list_wait = 7.5")
        assert stat.S_IMODE(served.file.stat().st_mode) == 0o600
        assert served.file.with_suffix(".toml.bak").read_text() == TEXT
        again = await served.call("change_setting", name="list_wait", value=7.5)
        assert again["applies"] == "unchanged"


async def test_a_setting_of_the_next_start_is_pending_until_then(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        done = await served.call("change_setting", name="log_files", value=9)
        assert done["applies"] == "restart"
        assert (done["setting"]["value"], done["setting"]["pending"]) == ("5", "9")
        assert (await served.call("list_settings"))["restart_needed"]
        undone = await served.call("change_setting", name="log_files", value=None)
        assert "pending" not in undone["setting"]
        assert served.file.read_text() == TEXT


async def test_null_removes_a_setting_from_the_file(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        done = await served.call("change_setting", name="list_wait", value=None)
        assert (done["setting"]["value"], done["setting"]["source"]) == ("2", "default")
        assert "list_wait" not in served.file.read_text()
        assert (await served.call("change_setting", name="mode", value=None))["applies"] == "unchanged"


async def test_a_file_is_created_with_the_first_change(tmp_path: Path) -> None:
    async with settled_hub(tmp_path, text="") as served:
        await served.call("change_setting", name="mode", value="full")
        assert served.file.read_text() == 'mode = "full"\n'
        assert stat.S_IMODE(served.file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("list_wait", "61", "0 to 60"),
        ("list_wait", True, "0 to 60"),
        ("lang", "de", "auto, ja, en"),
        ("reader_allow", ["a\nb"], "reader_allow"),
        ("restart_first", 3000, "restart_max"),
        ("model_key", "sk-secret", "must be a variable"),
        ("origins", "nonsense", "origins"),
        ("vector_index", "chroma+http://host:8000", "no longer supported"),
        ("vector_index", "milvus://host?keywords=milvus", "no longer supported"),
    ],
)
async def test_a_wrong_value_is_refused_and_changes_nothing(
    tmp_path: Path, name: str, value: Any, words: str
) -> None:
    async with settled_hub(tmp_path) as served:
        with pytest.raises(TabaneError, match=words) as refused:
            await served.call("change_setting", name=name, value=value)
        assert "sk-secret" not in str(refused.value)
        assert served.file.read_text() == TEXT


async def test_what_a_variable_gives_cannot_be_changed_in_the_file(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        with pytest.raises(BadArguments, match="TABANE_HTTP"):
            await served.call("change_setting", name="http", value=True)
        with pytest.raises(BadArguments, match="TABANE_HOME"):
            await served.call("change_setting", name="home", value="/tmp/x")
        with pytest.raises(UnknownName, match="list_wait"):
            await served.call("change_setting", name="list_wiat", value=1)


async def test_a_broken_file_is_not_changed(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        served.file.write_text("lang = \n")
        with pytest.raises(ConfigurationError, match="not valid TOML"):
            await served.call("change_setting", name="list_wait", value=3)
        assert served.file.read_text() == "lang = \n"
        assert (await served.call("list_settings"))["problem"]


async def test_a_profile_is_created_changed_and_removed_at_once(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        await served.call("save_profile", name="home", allow=["@posts"], description="At home")
        await served.call("save_profile", name="work", allow=["github__*"], read_only=True)
        rows = (await served.call("profiles_list"))["results"]
        assert [(each["name"], each["allow"], each["read_only"]) for each in rows] == [
            ("work", ["github__*"], True),
            ("home", ["@posts"], False),
        ]
        assert "# nothing else" in served.file.read_text()
        await served.call("remove_profile", name="home")
        assert [each["name"] for each in (await served.call("profiles_list"))["results"]] == ["work"]
        with pytest.raises(UnknownName):
            await served.call("remove_profile", name="home")


@pytest.mark.parametrize(
    ("params", "words"), [({"name": "a b"}, "letters"), ({"name": "x", "allow": ["@nothing"]}, "nothing")]
)
async def test_a_wrong_profile_is_refused(tmp_path: Path, params: dict[str, Any], words: str) -> None:
    async with settled_hub(tmp_path) as served:
        with pytest.raises(BadArguments, match=words):
            await served.call("save_profile", **params)
        assert served.file.read_text() == TEXT


async def test_the_patterns_of_a_draft_are_counted_as_those_of_a_profile(tmp_path: Path) -> None:
    async with settled_hub(tmp_path) as served:
        draft = {"allow": ["@documents"], "read_only": True}
        await served.call("save_profile", name="home", **draft)
        found = await served.call("profiles_list", draft=True, **draft)
        [row] = [each for each in found["results"] if each["name"] == "home"]
        assert found["draft"] == {name: row[name] for name in ("tools", "servers", "sources")}
        [documents] = row["sources"]
        assert documents["name"] == "documents"
        assert 0 < documents["operations"] < documents["of"]  # those that change some are not allowed
        everything = (await served.call("profiles_list", draft=True))["draft"]
        assert "admin" not in [each["name"] for each in everything["sources"]]
        assert "draft" not in await served.call("profiles_list")
        with pytest.raises(BadArguments, match="nothing"):
            await served.call("profiles_list", draft=True, allow=["@nothing"])

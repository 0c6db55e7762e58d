"""Servers are added, changed and removed through a running hub, which has the new state at once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import json as codec

from tabane.errors import BadArguments, ConfigurationError, Forbidden, UnknownName, UpstreamError
from tabane.operations import Caller, Face
from tests.e2e.access.policies import Policy, PolicyAccess
from tests.harness.running_hub import CHILD, Json, RunningHub, child, running_hub

CHANGING: dict[str, Json] = {
    "add_server": {"name": "new", "definition": {"command": "touch"}},
    "change_server": {"name": "up", "definition": {"command": "touch"}},
    "remove_server": {"name": "up"},
    "enable_server": {"name": "up", "enabled": False},
}
READING: dict[str, Json] = {
    "show_definition": {"name": "up"},
    "check_definition": {"name": "new", "definition": {"command": "touch"}},
}


async def asked(here: RunningHub, name: str, /, policy: Policy | None = None, **params: Any) -> Any:
    """The answer that a program gets."""
    access = {"access": PolicyAccess(policy)} if policy else {}
    caller = Caller("local", Face.RPC, "test", **access)  # type: ignore[arg-type]
    return await here.hub.door.invoke(caller, name, json.dumps(params).encode())


def written(here: RunningHub) -> Json:
    found: Json = json.loads(here.hub.settings.servers.read_text())["mcpServers"]
    return found


@asynccontextmanager
async def hub_with(
    folder: Path, servers: dict[str, Json], text: str | None = None
) -> AsyncIterator[RunningHub]:
    """A hub with those servers, then with ``text`` as its file of servers."""
    async with running_hub(folder, servers) as here:
        if text is not None:
            here.hub.settings.servers.write_text(text)
            here.hub.follower.now()
        yield here


async def test_a_server_that_was_added_is_known_at_once_and_its_tools_can_be_called(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        answer = await asked(here, "add_server", name="new", definition=child(description="Echoes."))
        assert (answer["status"], answer["problem"], answer["warnings"]) == ("added", None, [])
        assert answer["server"]["name"] == "new"
        assert answer["server"]["description"] == "Echoes."
        assert [row["name"] for row in (await asked(here, "list_servers"))["results"]] == ["up", "new"]
        assert list(written(here)) == ["up", "new"]
        line = await here.connect()
        assert "hi" in json.dumps(await line.through("new__echo", text="hi"))


async def test_a_server_is_disabled_enabled_and_removed(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        off = await asked(here, "enable_server", name="up", enabled=False)
        assert (off["status"], off["server"]["state"]) == ("disabled", "disabled")
        assert written(here)["up"]["enabled"] is False
        on = await asked(here, "enable_server", name="up", enabled=True)
        assert (on["status"], on["remark"]) == ("enabled", None)
        assert on["server"]["state"] != "disabled"
        assert written(here)["up"] == child()
        gone = await asked(here, "remove_server", name="up")
        assert (gone["status"], gone["server"]) == ("removed", None)
        assert written(here) == {}
        with pytest.raises(UnknownName):
            await asked(here, "show_server", name="up")


COMMENTED = """{
  // my servers
  "mcpServers": {
    "up": {
      "command": COMMAND, // the interpreter
      "args": [CHILD, "--stderr", "hello"],
      "env": {"API_KEY": "sk-12345", "PLAIN": "${HOME}"},
      "unknown": 1
    }
  }
}
""".replace("COMMAND", json.dumps(sys.executable)).replace("CHILD", json.dumps(CHILD))


async def test_a_changed_server_keeps_secrets_comments_and_the_order_of_its_keys(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {}, COMMENTED) as here:
        shown = await asked(here, "show_definition", name="up")
        assert shown["definition"]["env"] == {"API_KEY": "***", "PLAIN": "${HOME}"}
        assert "sk-12345" not in repr(shown)
        assert ["unknown" in warning for warning in shown["warnings"]] == [True]
        edited = dict(reversed(shown["definition"].items())) | {"description": "Echoes."}
        edited["args"] = [*edited["args"], "--tools", "3"]
        answer = await asked(here, "change_server", name="up", definition=edited, version=shown["version"])
        assert answer["status"] == "changed"
        assert "sk-12345" not in repr(answer)
        text = here.hub.settings.servers.read_text()
        assert "// my servers" in text
        assert "// the interpreter" in text
        assert '"API_KEY": "sk-12345"' in text
        keys = ["command", "args", "env", "unknown", "description"]
        assert [key for key in keys if f'"{key}"' in text] == sorted(keys, key=lambda k: text.index(f'"{k}"'))
        again = await asked(here, "show_definition", name="up")
        assert again["definition"] == edited
        assert again["version"] != shown["version"]


async def test_a_change_that_somebody_else_made_first_is_not_overwritten(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        shown = await asked(here, "show_definition", name="up")
        change = {"name": "up", "definition": child(tags=["a"]), "version": shown["version"]}
        await asked(here, "change_server", **change)
        with pytest.raises(BadArguments, match="has changed since"):
            await asked(here, "change_server", **change)
        assert written(here)["up"]["tags"] == ["a"]


async def test_a_comment_that_would_be_lost_keeps_the_file_as_it_is(tmp_path: Path) -> None:
    text = '{"mcpServers": {"up": {"command": "x", "args": ["a", /* why */ "b"], "env": {"KEY": "sk-123"}}}}'

    async with hub_with(tmp_path, {}, text) as here:
        definition = {"command": "x", "args": ["a"], "env": {"KEY": "***"}}
        with pytest.raises(ConfigurationError, match="would be lost") as refused:
            await asked(here, "change_server", name="up", definition=definition)
        assert "sk-123" not in str(refused.value)
        assert here.hub.settings.servers.read_text() == text
        # what is not inside the list can be changed
        same = {"command": "y", "args": ["a", "b"], "env": {"KEY": "***"}}
        await asked(here, "change_server", name="up", definition=same)
        assert "/* why */" in here.hub.settings.servers.read_text()


@pytest.mark.parametrize(
    ("name", "definition", "parameter"),
    [
        ("up", {"command": "x"}, "name"),
        (" x", {"command": "x"}, "name"),
        ("a\nb", {"command": "x"}, "name"),
        ("new", {}, "definition.command"),
        ("new", {"command": "x", "args": "y"}, "definition.args"),
        ("new", {"command": "x", "timeout": -1}, "definition.timeout"),
        ("new", {"url": "ftp://example.com"}, "definition.url"),
        ("new", {"url": "http://example.com", "headers": {"X": "a\nb"}}, "definition.headers"),
        ("new", {"command": "x", "env": {"KEY": "***"}}, "env"),
        ("new", {"command": "x" * (1 << 17)}, "definition"),
    ],
)
async def test_what_cannot_be_added_is_refused_with_its_place(
    tmp_path: Path, name: str, definition: Json, parameter: str
) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        before = here.hub.settings.servers.read_bytes()
        with pytest.raises(BadArguments) as refused:
            await asked(here, "add_server", name=name, definition=definition)
        assert refused.value.parameter == parameter
        assert here.hub.settings.servers.read_bytes() == before
        if len(str(definition)) < 1000:
            checked = await asked(here, "check_definition", name=name, definition=definition)
            assert not checked["usable"]
            assert [found["key"] for found in checked["problems"]] == [parameter.removeprefix("definition.")]


async def test_a_check_names_every_fault_and_a_variable_without_a_value_is_a_warning(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        wrong = {"command": 1, "args": [1], "share": "x", "colour": "red"}
        checked = await asked(here, "check_definition", name="new", definition=wrong)
        assert [found["key"] for found in checked["problems"]] == ["command", "args", "share"]
        assert ["colour" in warning for warning in checked["warnings"]] == [True]
        unset = {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}}
        checked = await asked(here, "check_definition", name="new", definition=unset)
        assert checked["usable"]
        assert [(found["key"], found["blocks"]) for found in checked["problems"]] == [("env", False)]
        answer = await asked(here, "add_server", name="new", definition=unset)
        assert "NOT_SET_ANYWHERE" in answer["remark"]
        assert answer["server"]["state"] == "disabled"


async def test_a_changed_server_is_tried_with_the_secrets_of_the_written_one(tmp_path: Path) -> None:
    secret = child("--stderr", "sk-12345", "--exit", "1", env={"API_KEY": "sk-12345"})

    async with hub_with(tmp_path, {"up": secret}) as here:
        shown = (await asked(here, "show_definition", name="up"))["definition"]
        assert "sk-12345" not in repr(shown)
        with pytest.raises(UpstreamError, match=r"work: \*\*\* \(it ended"):
            await asked(here, "try_server", name="up", definition=shown, replaces="up")
        works = {**shown, "args": shown["args"][:1]}
        assert await asked(here, "try_server", name="up", definition=works, replaces="up")
        assert written(here) == {"up": secret}


async def test_a_change_that_is_not_in_force_says_why(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        here.hub.settings.config.parent.mkdir(parents=True, exist_ok=True)
        here.hub.settings.config.write_text("lang = 1")
        answer = await asked(here, "enable_server", name="up", enabled=False)
        assert str(here.hub.settings.config) in answer["problem"]
        assert written(here)["up"]["enabled"] is False


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize(
    "policy",
    [Policy(allow=("*",)), Policy(allow=("@tools",)), Policy(allow=("*", "@admin"), read_only=True)],
    ids=["everything", "tools", "read-only"],
)
async def test_only_administration_changes_servers(tmp_path: Path, name: str, policy: Policy) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        before = here.hub.settings.servers.read_bytes()
        with pytest.raises(Forbidden):
            await asked(here, name, policy, **CHANGING[name])
        assert here.hub.settings.servers.read_bytes() == before
        for reading, params in READING.items():
            if policy.read_only:
                assert await asked(here, reading, policy, **params)
            else:
                with pytest.raises(Forbidden):
                    await asked(here, reading, policy, **params)


async def test_two_changes_at_once_are_both_kept(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        names = [f"s{number}" for number in range(12)]
        answers = await asyncio.gather(
            *(asked(here, "add_server", name=name, definition=child(enabled=False)) for name in names)
        )
        assert {answer["server"]["state"] for answer in answers} == {"disabled"}
        assert set(written(here)) == {"up", *names}


async def test_a_running_server_reports_its_memory_uptime_calls_and_restarts(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child()}) as here:
        (row,) = (await asked(here, "list_servers"))["results"]
        assert (row["memory_mb"], row["uptime"], row["since"], row["restarts"]) == (None, None, None, 0)
        line = await here.connect()
        await line.through("up__echo", text="hi")
        (row,) = (await asked(here, "list_servers"))["results"]
        assert row["state"] == "ready"
        assert row["uptime"] >= 0
        assert row["since"] > 0
        assert (row["calls"], row["failed_calls"], row["retry_in"]) == (1, 0, None)
        if sys.platform == "linux":
            assert row["memory_mb"] > 1
        await asked(here, "restart_upstream", name="up")
        detail = await asked(here, "show_server", name="up")
        assert detail["restarts"] == 1
        assert codec.encode(detail)


async def test_new_lines_of_a_log_are_returned_once(tmp_path: Path) -> None:
    async with hub_with(tmp_path, {"up": child("--stderr", "hello")}) as here:
        assert (await asked(here, "server_logs", name="up"))["lines"] == []
        await asked(here, "start_upstream", name="up")
        first: Json = {"lines": []}
        while not first["lines"]:
            first = await asked(here, "server_logs", name="up", lines=10)
        assert ["hello" in line for line in first["lines"]] == [True]
        assert (await asked(here, "server_logs", name="up", after=first["cursor"]))["lines"] == []
        await asked(here, "restart_upstream", name="up")
        second: Json = {"lines": []}
        while not second["lines"]:
            second = await asked(here, "server_logs", name="up", after=first["cursor"])
        assert len(second["lines"]) == 1
        assert not second["missed"]

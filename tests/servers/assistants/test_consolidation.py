"""Setup and undo over the files of all assistants: byte for byte, or merged with what their user changed."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.servers.assistants.consolidation import (
    AppliedPlan,
    AssistantPlan,
    SetupOptions,
    SetupPlan,
    apply,
    plan_setup,
)
from tabane.servers.assistants.formats import at_path, format_of
from tabane.servers.assistants.installation import TabaneCommand
from tabane.servers.assistants.restoration import Backups, FileBackup, Restoration, undo
from tabane.servers.assistants.table import Client, UserMachine, client_named
from tests.servers.assistants.realistic_files import FILES, SECRET, SERVERS

COMMAND = TabaneCommand(("/opt/tabane/bin/tabane",), ("--home", "/data/tabane"))


class Desk:
    """A user's home with files of assistants; ``ours`` are the definitions in the servers file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = UserMachine("linux", folder, {})
        self.backups = Backups(folder / "data")
        self.ours: dict[str, Any] = {}

    def path(self, name: str) -> Path:
        file = client(name).user_file(self.machine)
        assert file is not None
        return file.path

    def write(self, name: str, text: str) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def plan(self, *names: str, **options: Any) -> SetupPlan:
        chosen = [client(name) for name in names]
        return plan_setup(
            self.machine, self.folder, COMMAND, self.ours, clients=chosen, options=SetupOptions(**options)
        )

    def set_up(self, *names: str, **options: Any) -> list[AppliedPlan]:
        planned = self.plan(*names, **options)
        self.ours |= planned.servers.definitions
        return [apply(part, self.backups) for part in planned.assistants]

    def undo(self, *names: str) -> list[Restoration]:
        return [undo(self.backups, each) for each in self.backups.all(names)]

    def value(self, name: str) -> Any:
        place = client(name).user
        assert place is not None
        return format_of(place.form).value(self.path(name).read_bytes().decode("utf-8-sig"))


def client(name: str) -> Client:
    found = client_named(name)
    assert found is not None
    return found


def part(planned: SetupPlan) -> AssistantPlan:
    (found,) = planned.assistants
    return found


def servers_in(desk: Desk, name: str) -> dict[str, Any]:
    place = client(name).user
    assert place is not None
    found = at_path(desk.value(name), place.key)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# -- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_setup_moves_all_servers_and_undo_restores_every_byte(desk: Desk, name: str) -> None:
    path = desk.write(name, FILES[name])
    path.chmod(0o640)
    before = desk.value(name)
    (done,) = desk.set_up(name)
    assert done.status == "installed"
    stays = {each.name for each in done.part.stays}
    assert set(servers_in(desk, name)) == {"tabane", *stays}
    assert SECRET not in path.read_text()
    assert path.read_text().startswith("\ufeff") == FILES[name].startswith("\ufeff")
    assert path.stat().st_mode & 0o777 == 0o640
    place = client(name).user
    assert place is not None
    rest = {key: part for key, part in desk.value(name).items() if key not in (place.key[0], "projects")}
    assert rest == {key: part for key, part in before.items() if key not in (place.key[0], "projects")}
    (undone,) = desk.undo()
    assert (undone.outcome, undone.remarks) == ("restored", ())
    assert path.read_bytes() == FILES[name].encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert not desk.backups.folder.exists()
    assert desk.undo() == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_setup_made_is_gone_after_undo(desk: Desk, name: str) -> None:
    (done,) = desk.set_up(name)
    assert (done.status, list(servers_in(desk, name))) == ("installed", ["tabane"])
    desk.undo()
    assert [path for path in desk.folder.iterdir() if path.name != "data"] == []


@pytest.mark.parametrize("name", FILES)
def test_a_second_setup_changes_nothing(desk: Desk, name: str) -> None:
    path = desk.write(name, FILES[name])
    desk.set_up(name)
    after = path.read_bytes()
    planned = desk.plan(name)
    assert (part(planned).status, part(planned).moves, part(planned).changes) == ("unchanged", (), False)
    (again,) = desk.set_up(name)
    assert (again.status, again.backup, path.read_bytes()) == ("unchanged", None, after)


def test_the_backup_is_private_and_names_what_moved(desk: Desk) -> None:
    desk.write("codex", FILES["codex"])
    (done,) = desk.set_up("codex")
    assert done.backup is not None
    assert done.backup.stat().st_mode & 0o777 == 0o600
    assert done.backup.parent.stat().st_mode & 0o777 == 0o700
    saved = json.loads(done.backup.read_text())
    assert saved["version"] == 1
    assert saved["before"] == FILES["codex"]
    moved = {row["server"]: row["limits"] for row in saved["changes"] if row["server"]}
    assert moved["github"] == {"allow": ["get_issue", "list_issues"]}


def test_several_setups_add_up(desk: Desk) -> None:
    path = desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor")
    added = json.loads(path.read_bytes().decode("utf-8-sig"))
    added["mcpServers"]["new"] = {"command": "new"}
    path.write_text(json.dumps(added, indent=2))
    (again,) = desk.set_up("cursor")
    assert [move.server for move in again.moves] == ["new"]
    desk.undo()
    assert set(servers_in(desk, "cursor")) == {*SERVERS, "new"}


def test_each_assistant_can_be_undone_alone(desk: Desk) -> None:
    for name in ("cursor", "windsurf"):
        desk.write(name, FILES[name])
    desk.set_up("cursor", "windsurf")
    (undone,) = desk.undo("cursor")
    assert undone.client == "cursor"
    assert list(servers_in(desk, "windsurf")) == ["tabane"]


# -- what stays ----------------------------------------------------------------------------------

STAYING: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("cursor", {"a": {"command": "twilog-mcp-server"}}, {}, "twilog"),
    ("cursor", {"a": {"note": "nothing"}}, {}, "neither command nor url"),
    ("cursor", {"a": {"command": "x", "permissions": ["read"]}}, {}, "cannot translate"),
    ("cursor", {"a": {"command": "x", "disabledTools": ["rm"]}}, {"a": {"command": "x"}}, "allows more"),
    ("cursor", {"a": {"command": "x", "disabled": True}}, {"b": {"command": "x"}}, "on in Tabane"),
]


@pytest.mark.parametrize(("name", "servers", "ours", "why"), STAYING)
def test_what_the_hub_would_lose_stays_and_says_why(
    desk: Desk, name: str, servers: dict[str, Any], ours: dict[str, Any], why: str
) -> None:
    desk.write(name, json.dumps({"mcpServers": servers}))
    desk.ours = ours
    planned = part(desk.plan(name))
    assert planned.moves == ()
    assert why in " ".join(each.why.render("en") for each in planned.stays)
    desk.set_up(name)
    assert servers_in(desk, name).items() >= servers.items()


@pytest.mark.parametrize("off", ["cursor", "windsurf"])
def test_a_server_that_one_assistant_uses_is_on_and_its_disabled_entry_stays(desk: Desk, off: str) -> None:
    for name in ("cursor", "windsurf"):
        entry = {"command": "x", **({"disabled": True} if name == off else {})}
        desk.write(name, json.dumps({"mcpServers": {"a": entry}}))
    desk.set_up("cursor", "windsurf")
    assert desk.ours == {"a": {"command": "x"}}
    assert {name: "a" in servers_in(desk, name) for name in ("cursor", "windsurf")} == {
        "cursor": off == "cursor",
        "windsurf": off == "windsurf",
    }


def test_programs_own_extensions_stay(desk: Desk) -> None:
    for name, staying in {"zed": "mcp-server-puppeteer", "goose": "developer"}.items():
        desk.write(name, FILES[name])
        (done,) = desk.set_up(name)
        assert [each.name for each in done.part.stays] == [staying]


def test_a_broken_file_is_named_and_left_alone(desk: Desk) -> None:
    path = desk.write("cursor", "{")
    planned = part(desk.plan("cursor"))
    assert planned.problem is not None
    assert not planned.changes
    assert path.read_text() == "{"


def test_files_of_a_project_stay(desk: Desk) -> None:
    project = desk.folder / "shop"
    project.mkdir()
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"shared": {"command": "x"}}}))
    planned = plan_setup(desk.machine, project, COMMAND, {}, clients=[client("claude-code")])
    assert [each.name for each in part(planned).stays] == ["shared"]
    assert planned.servers.definitions == {}


def test_withheld_servers_stay(desk: Desk) -> None:
    from tabane.messages import say

    desk.write("cursor", FILES["cursor"])
    planned = desk.plan("cursor").withheld({"github": say("nobody answered")})
    assert "github" not in [move.server for move in part(planned).moves]
    assert ("github", "nobody answered") in [
        (each.name, each.why.render("en")) for each in part(planned).stays
    ]


def test_a_profile_in_tabanes_entry_stays_and_a_hub_elsewhere_is_not_touched(desk: Desk) -> None:
    own = {"command": "tabane", "args": ["mcp", "--mode", "search", "--profile", "work", "--home", "/x"]}
    desk.write("cursor", json.dumps({"mcpServers": {"tabane": own}}))
    (done,) = desk.set_up("cursor")
    assert done.status == "updated"
    args = ["mcp", "--mode", "full", "--home", "/data/tabane", "--profile", "work"]
    assert servers_in(desk, "cursor")["tabane"] == {"command": COMMAND.words[0], "args": args}
    there = {"tabane": {"url": "http://127.0.0.1:8765/mcp"}, "a": {"command": "x"}}
    desk.write("windsurf", json.dumps({"mcpServers": there}))
    desk.set_up("windsurf")
    assert servers_in(desk, "windsurf") == there


def test_one_entry_a_server_where_the_assistant_needs_it(desk: Desk) -> None:
    path = desk.write("codex", FILES["codex"])
    desk.write("cursor", FILES["cursor"])
    desk.set_up("codex", "cursor", by_server=True)
    found = servers_in(desk, "codex")
    assert set(found) == {"tabane", "github", "時計"}
    assert found["github"]["args"][-2:] == ["--server", "github"]
    assert "env" not in found["github"]
    assert list(servers_in(desk, "cursor")) == ["tabane"]
    assert not part(desk.plan("codex", by_server=True)).changes
    desk.undo()
    assert path.read_bytes() == FILES["codex"].encode()


def test_entries_can_be_kept(desk: Desk) -> None:
    desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor", keep=True)
    assert set(servers_in(desk, "cursor")) == {"tabane", *SERVERS}
    assert "github" in desk.ours


# -- limits --------------------------------------------------------------------------------------


def test_limits_of_claude_codes_settings_move_with_the_server(desk: Desk) -> None:
    desk.write(
        "claude-code", json.dumps({"mcpServers": {"my files": {"command": "x"}, "b": {"command": "y"}}})
    )
    settings = desk.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    rules = {"deny": ["mcp__my_files__delete_*", "Bash(rm *)"], "ask": ["mcp__b"], "allow": ["mcp__b__z"]}
    settings.write_text(json.dumps({"permissions": rules}))
    desk.set_up("claude-code")
    assert desk.ours == {
        "my files": {"command": "x", "deny": ["delete_*"]},
        "b": {"command": "y", "confirm": ["*"]},
    }


def test_a_server_that_gemini_cli_switched_off_is_off(desk: Desk) -> None:
    table = {"My Files": {"command": "x"}, "b": {"command": "y"}}
    path = desk.write("gemini-cli", json.dumps({"mcpServers": table}))
    off = {"my files": {"enabled": False}, "b": {"enabled": True}}
    path.with_name("mcp-server-enablement.json").write_text(json.dumps(off))
    desk.set_up("gemini-cli")
    assert desk.ours == {"My Files": {"command": "x", "enabled": False}, "b": {"command": "y"}}


def test_limits_of_cursors_cli_and_of_goose_move_with_the_server(desk: Desk) -> None:
    desk.write("cursor", json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    rules = {"permissions": {"deny": ["Mcp(a:delete)", "Mcp(*, wipe)", "Shell(rm)"]}}
    (desk.folder / ".cursor" / "cli-config.json").write_text(json.dumps(rules))
    desk.write("goose", "extensions:\n  b: {type: stdio, cmd: y, enabled: true}\n")
    permission = desk.path("goose").with_name("permission.yaml")
    permission.write_text("user:\n  always_allow: []\n  ask_before: [b__write]\n  never_allow: [b__rm]\n")
    desk.set_up("cursor", "goose")
    assert desk.ours["a"]["deny"] == ["delete", "wipe"]
    assert (desk.ours["b"]["deny"], desk.ours["b"]["confirm"]) == (["rm"], ["write"])


def test_a_broken_file_of_limits_is_not_ignored(desk: Desk) -> None:
    desk.write("claude-code", json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    (desk.folder / ".claude").mkdir()
    (desk.folder / ".claude" / "settings.json").write_text("{")
    assert part(desk.plan("claude-code")).problem is not None


@pytest.mark.parametrize(
    ("member", "rules"),
    [
        ({"disabledMcpServers": ["a"]}, {}),
        ({}, {"deny": ["mcp__a__delete"]}),
        ({}, {"deny": ["mcp__a"]}),
        ({}, {"ask": ["mcp__*__delete"]}),
    ],
)
def test_a_server_that_a_project_limits_stays_and_is_not_imported(
    desk: Desk, member: dict[str, Any], rules: dict[str, Any]
) -> None:
    project, other = desk.folder / "shop", desk.folder / "other"
    (project / ".claude").mkdir(parents=True)
    other.mkdir()
    (project / ".claude" / "settings.local.json").write_text(json.dumps({"permissions": rules}))
    table = {"a": {"command": "x"}, "b": {"command": "y"}}
    document = {"mcpServers": table, "projects": {str(project): member, str(other): {}}}
    desk.write("claude-code", json.dumps(document))
    desk.set_up("claude-code")
    moved = ["b"] if "mcp__*__delete" not in rules.get("ask", ()) else []
    assert list(desk.ours) == moved
    assert set(servers_in(desk, "claude-code")) == {"tabane", "a", "b"} - set(moved)


@pytest.mark.parametrize(
    ("name", "limit", "kept"),
    [
        ("cursor", {"alwaysAllow": ["t"]}, {}),
        ("cursor", {"disabledTools": ["t"]}, {"deny": ["t"]}),
        ("cline", {"autoApprove": ["t"], "disabledTools": ["u"]}, {"deny": ["u"]}),
        (
            "gemini-cli",
            {"includeTools": ["t", "u"], "excludeTools": ["u"]},
            {"allow": ["t", "u"], "deny": ["u"]},
        ),
        ("cursor", {"enabled_tools": []}, {"deny": ["*"]}),
        ("cursor", {"disabled": True}, {"enabled": False}),
    ],
)
def test_limits_of_an_entry_move_with_it(
    desk: Desk, name: str, limit: dict[str, Any], kept: dict[str, Any]
) -> None:
    desk.write(name, json.dumps({"mcpServers": {"a": {"command": "x", **limit}}}))
    (done,) = desk.set_up(name)
    assert [move.limits for move in done.moves] == [kept]


def test_an_entry_that_changes_while_setup_asks_stays(desk: Desk) -> None:
    table = {"a": {"command": "x"}, "b": {"command": "y"}}
    path = desk.write("cursor", json.dumps({"mcpServers": table}))
    planned = desk.plan("cursor")
    table["a"]["disabledTools"] = ["delete"]  # type: ignore[assignment]
    path.write_text(json.dumps({"mcpServers": table}))
    done = apply(part(planned), desk.backups)
    assert [move.name for move in done.moves] == ["b"]
    assert servers_in(desk, "cursor")["a"] == table["a"]
    desk.undo()
    assert json.loads(path.read_text())["mcpServers"] == table


# -- merging -------------------------------------------------------------------------------------

Edit = Callable[[str, Client], str]


def _with_server(text: str, own: Client) -> str:
    assert own.user is not None
    entry: dict[str, Any] = (
        {"command": ["new"], "type": "local"} if own.user.shape == "opencode" else {"command": "new"}
    )
    if own.user.shape == "goose":
        entry = {"type": "stdio", "cmd": "new", "name": "new", "enabled": True}
    return format_of(own.user.form).with_entry(text, (*own.user.key, "new"), entry)


def _without_ours(text: str, own: Client) -> str:
    assert own.user is not None
    return format_of(own.user.form).without_entry(text, (*own.user.key, "tabane"))


def _with_our_change(text: str, own: Client) -> str:
    assert own.user is not None
    return format_of(own.user.form).with_entry(text, (*own.user.key, "tabane"), {"note": "mine"})


def _with_setting(text: str, own: Client) -> str:
    for old, new in (('"dark"', '"light"'), ("gpt-6", "gpt-7"), ("MODEL: claude", "MODEL: other")):
        text = text.replace(old, new)
    return text.replace('"One Light"', '"Two"').replace("config.json", "other.json")


def _reformatted(text: str, own: Client) -> str:
    assert own.user is not None
    value = format_of(own.user.form).value(text)
    if own.user.form in ("json", "jsonc"):
        return json.dumps(value, indent=7)
    if own.user.form == "yaml":
        import yaml

        return yaml.safe_dump(value)
    import tomlkit

    return tomlkit.dumps(value)


EDITS: dict[str, Edit] = {
    "adds a server": _with_server,
    "removes our entry": _without_ours,
    "changes our entry": _with_our_change,
    "changes a setting": _with_setting,
    "reformats the file": _reformatted,
}


@pytest.mark.parametrize("what", EDITS)
@pytest.mark.parametrize("name", FILES)
def test_edits_after_the_setup_are_merged(desk: Desk, name: str, what: str) -> None:
    path, own = desk.write(name, FILES[name]), client(name)
    assert own.user is not None
    editing = format_of(own.user.form)
    desk.set_up(name)
    now = path.read_bytes().decode("utf-8-sig")
    path.write_bytes(EDITS[what](now, own).encode())
    wanted = editing.value(FILES[name].removeprefix("\ufeff"))
    if what in ("adds a server", "changes a setting"):
        wanted = editing.value(EDITS[what](FILES[name].removeprefix("\ufeff"), own))
    (undone,) = desk.undo()
    assert desk.value(name) == wanted
    assert undone.outcome in ("merged", "restored")
    assert bool(undone.remarks) == (what == "changes our entry")
    assert desk.undo() == []


@pytest.mark.parametrize("name", [name for name, text in FILES.items() if text.count("\n") > 9])
def test_a_change_elsewhere_in_the_file_leaves_every_other_byte(desk: Desk, name: str) -> None:
    path = desk.write(name, FILES[name])
    desk.set_up(name)
    path.write_bytes(_with_setting(path.read_bytes().decode(), client(name)).encode())
    desk.undo()
    assert path.read_bytes().decode() == _with_setting(FILES[name], client(name))


def test_a_table_that_setup_made_is_removed_again(desk: Desk) -> None:
    path = desk.write("windsurf", '{"theme": "dark"}')
    desk.set_up("windsurf")
    path.write_text(path.read_text().replace("dark", "light"))
    desk.undo()
    assert desk.value("windsurf") == {"theme": "light"}


def test_a_file_of_any_length_is_restored_exactly(desk: Desk) -> None:
    many = {"command": "x", "args": [str(number) for number in range(6000)]}
    text = json.dumps({"mcpServers": {"a": many, "stays": {}}}, indent=1).replace('"1"', '"\\u0031"')
    path = desk.write("windsurf", text)
    desk.set_up("windsurf")
    desk.undo()
    assert path.read_text() == text


def test_a_deleted_file_is_not_made_again_and_its_backup_stays(desk: Desk) -> None:
    path = desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor")
    path.unlink()
    (undone,) = desk.undo()
    assert (undone.outcome, path.exists()) == ("gone", False)
    assert undone.kept is not None
    assert SECRET in undone.kept.read_text()
    assert desk.undo() == []


def test_a_newer_entry_of_the_same_name_wins(desk: Desk) -> None:
    path = desk.write("windsurf", json.dumps({"mcpServers": {"a": {"command": "old"}}}, indent=2))
    desk.set_up("windsurf")
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "new"}}}))
    (undone,) = desk.undo()
    assert servers_in(desk, "windsurf") == {"a": {"command": "new"}}
    assert "newer entry a" in undone.remarks[0].render("en")
    assert undone.kept is not None
    assert "old" in undone.kept.read_text()


def test_a_file_that_is_broken_now_is_left_alone(desk: Desk) -> None:
    path = desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor")
    path.write_text("{ broken")
    (undone,) = desk.undo()
    assert (undone.outcome, path.read_text()) == ("failed", "{ broken")
    assert undone.kept is not None
    assert undone.kept.exists()


def test_comments_of_moved_entries_come_back_with_them(desk: Desk) -> None:
    text = '{"context_servers": {"a": {"command": "x" /* mine */},\n"b": {"command": "y"}}}'
    path = desk.write("zed", text)
    desk.set_up("zed")
    value = desk.value("zed")
    path.write_text(json.dumps({**value, "theme": "x"}))
    desk.undo()
    assert "/* mine */" in path.read_text()
    assert desk.value("zed") == {
        "context_servers": {"a": {"command": "x"}, "b": {"command": "y"}},
        "theme": "x",
    }


_NAMES = st.sampled_from(["a", "b", "c", "tabane", "あ"])
_ENTRIES = st.fixed_dictionaries({"command": st.sampled_from(["one", "two"])})
_SETTINGS = st.dictionaries(st.sampled_from(["theme", "size", "font"]), st.integers() | st.text(max_size=3))
_INDENTS = st.sampled_from([None, 2, "\t"])


@given(data=st.data())
def test_undo_is_the_users_edits_on_the_original(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    servers = data.draw(st.dictionaries(_NAMES.filter(lambda name: name != "tabane"), _ENTRIES))
    original: dict[str, Any] = {**data.draw(_SETTINGS), "mcpServers": servers}
    path = desk.write("windsurf", json.dumps(original, indent=data.draw(_INDENTS)))
    desk.set_up("windsurf")
    edited, wanted = desk.value("windsurf"), copy.deepcopy(original)
    for name in data.draw(st.lists(st.sampled_from(["n", "m"]), unique=True)):
        new = data.draw(_ENTRIES)
        edited["mcpServers"][name] = new
        wanted["mcpServers"][name] = new
    for key, value in data.draw(_SETTINGS).items():
        edited[key] = wanted[key] = value
    for key in data.draw(st.lists(st.sampled_from(["theme", "size"]), unique=True)):
        edited.pop(key, None)
        wanted.pop(key, None)
    if data.draw(st.booleans()):
        edited["mcpServers"].pop("tabane", None)
    path.write_text(json.dumps(edited, indent=data.draw(_INDENTS)))
    desk.undo()
    assert desk.value("windsurf") == wanted


# -- interruptions -------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


class KilledBackups(Backups):
    """Backups of a process that is killed right after it has saved one."""

    def save(self, backup: FileBackup) -> Path:
        super().save(backup)
        raise Killed


@pytest.mark.parametrize("name", ["cursor", "codex", "goose", "zed"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_setup_that_is_killed_before_it_writes_the_file_can_be_undone(
    desk: Desk, name: str, earlier: bool
) -> None:
    path = desk.write(name, FILES[name])
    if earlier:
        desk.set_up(name)
        path.write_text(_with_server(path.read_bytes().decode("utf-8-sig"), client(name)))
    now = path.read_bytes()
    planned = desk.plan(name)
    with pytest.raises(Killed):
        apply(part(planned), KilledBackups(desk.folder / "data"))
    assert path.read_bytes() == now
    again = desk.backups.all()
    desk.undo()
    assert (len(again), desk.backups.all()) == (1, [])
    if earlier:
        names = {*servers_in(desk, name)}
        assert "new" in names
        assert "tabane" not in names
    else:
        assert path.read_bytes() == FILES[name].encode()


def test_an_undo_that_is_killed_before_it_removes_the_backup_can_be_repeated(desk: Desk) -> None:
    path = desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor")
    (saved,) = desk.backups.all()
    desk.undo()
    desk.backups.save(saved)
    assert [each.outcome for each in desk.undo()] == ["restored"]
    assert path.read_bytes() == FILES["cursor"].encode()
    assert desk.backups.all() == []


def test_a_file_that_cannot_be_written_is_as_before(desk: Desk) -> None:
    path = desk.write("cursor", FILES["cursor"])
    planned = desk.plan("cursor")
    path.unlink()
    path.mkdir()  # what cannot be read or written, also by root
    with pytest.raises(ConfigurationError, match="cannot be"):
        apply(part(planned), desk.backups)
    assert path.is_dir()


def test_an_undo_that_cannot_write_one_file_restores_the_others(desk: Desk) -> None:
    paths = {name: desk.write(name, FILES[name]) for name in ("cursor", "windsurf")}
    desk.set_up(*paths)
    (desk.path("cursor")).unlink()
    (desk.path("cursor")).mkdir()  # what cannot be read or written, also by root
    assert [each.outcome for each in desk.undo()] == ["failed", "restored"]
    assert paths["windsurf"].read_bytes() == FILES["windsurf"].encode()
    assert [each.client for each in desk.backups.all()] == ["cursor"]


def test_an_undo_uses_the_backup_of_a_setup_that_came_between(desk: Desk) -> None:
    path = desk.write("cursor", json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    desk.set_up("cursor")
    (seen,) = desk.backups.all()
    path.write_text(json.dumps({"mcpServers": {**servers_in(desk, "cursor"), "b": {"command": "y"}}}))
    desk.set_up("cursor")
    assert undo(desk.backups, seen).outcome == "restored"
    assert set(servers_in(desk, "cursor")) == {"a", "b"}
    assert undo(desk.backups, seen).outcome == "restored"  # another undo was first
    assert set(servers_in(desk, "cursor")) == {"a", "b"}


def test_a_home_that_is_away_keeps_its_backups_for_a_later_undo(desk: Desk) -> None:
    path = desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor")
    away = path.parent.rename(desk.folder / "away")
    assert [each.outcome for each in desk.undo()] == ["gone"]
    away.rename(path.parent)
    assert [each.outcome for each in desk.undo()] == ["restored"]
    assert path.read_bytes() == FILES["cursor"].encode()


def test_a_file_of_many_megabytes_is_set_up_in_seconds(desk: Desk) -> None:
    """Claude Code keeps its history beside its servers: a walk over its characters takes a minute."""
    history = [{"display": "x" * 400} for _ in range(5_000)]
    document = {"mcpServers": {f"s{n}": {"command": f"x{n}"} for n in range(5)}, "history": history}
    path = desk.write("claude-code", json.dumps(document, indent=2))
    before, began = path.read_bytes(), time.process_time()
    desk.set_up("claude-code")
    desk.undo()
    assert path.read_bytes() == before
    assert time.process_time() - began < 3


@pytest.mark.parametrize("content", ['{"version": 2}', "no backup", ""])
def test_a_backup_that_cannot_be_used_hinders_no_other(desk: Desk, content: str) -> None:
    for name in ("cursor", "windsurf"):
        desk.write(name, FILES[name])
    desk.set_up("cursor", "windsurf")
    (damaged,) = desk.backups.folder.glob("cursor-*.json")
    newer = damaged.read_text().replace('"version": 1', '"version": 2')
    damaged.write_text(newer if "version" in content else content)
    assert [each.outcome for each in desk.undo()] == ["restored"]
    assert desk.path("windsurf").read_bytes() == FILES["windsurf"].encode()
    (problem,) = desk.backups.unreadable()
    assert (problem.client, problem.outcome, problem.kept) == ("cursor", "failed", damaged)
    assert desk.backups.unreadable(["windsurf"]) == []
    with pytest.raises(Exception, match=r"backup|newer version"):  # a setup does not replace it
        apply(part(desk.plan("cursor", mode="code")), desk.backups)


def test_what_a_killed_setup_left_half_written_goes_with_the_undo(desk: Desk) -> None:
    desk.write("cursor", FILES["cursor"])
    desk.set_up("cursor")
    part, now = (desk.backups.folder / f".cursor-1234abcd.json.{name}.part" for name in ("1", "2"))
    for path in (part, now):
        path.write_text(SECRET)
    os.utime(part, (0, 0))
    desk.undo()
    assert list(desk.backups.folder.iterdir()) == [now]


def test_one_setup_at_a_time_imports_servers(desk: Desk) -> None:
    ended: list[str] = []

    def other() -> None:
        with Backups(desk.folder / "data").importing():
            ended.append("other")

    thread = threading.Thread(target=other)
    with desk.backups.importing():
        thread.start()
        thread.join(0.1)
        ended.append("first")
    thread.join(10)
    assert ended == ["first", "other"]

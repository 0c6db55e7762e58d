"""Shell completion: the scripts, and the answers when a user presses Tab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.arguments import completed_pairs
from tests.conftest import absent
from tests.harness.home import CHILD, Home, hub
from tests.harness.patience import LONG


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write_servers(
        {
            "clock": {"command": sys.executable, "args": [str(CHILD)]},
            "off": {"command": "x", "enabled": False},
        }
    )
    return home


def completed(home: Home, *words: str) -> list[str]:
    """What ``tabane WORDS`` would be completed to, the last word being incomplete."""
    environment = {
        "_TABANE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("tabane", *words)),
        "COMP_CWORD": str(len(words)),
    }
    answered = home.run(environment=environment)
    assert answered.err == ""
    return [line.partition(",")[2] for line in answered.out.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(home: Home, shell: str) -> None:
    printed = home.run("completion", shell)
    assert (printed.status, printed.err) == (0, "")
    assert "_TABANE_COMPLETE" in printed.out
    assert home.run("completion", shell, "--json").json == {"shell": shell, "script": printed.out[:-1]}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_takes_its_script(home: Home, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        absent(shell)
    script = tmp_path / "completion"
    script.write_text(home.run("completion", shell).out)
    checked = subprocess.run([shell, "-n", script], capture_output=True, timeout=LONG, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


def test_bash_completes_a_command_and_a_server(home: Home, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(home.run("completion", "bash").out)
    program = tmp_path / "bin" / "tabane"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tabane "$@"\n')
    program.chmod(0o755)
    press = (
        f"PATH={program.parent}:$PATH; source {script}; "
        'COMP_WORDS=(tabane servers show c); COMP_CWORD=3; _tabane_completion tabane; echo "${COMPREPLY[@]}"'
    )
    pressed = subprocess.run(
        ["bash", "--norc", "-c", press], env=home.environment, capture_output=True, text=True, timeout=LONG
    )
    assert pressed.stdout.split() == ["clock"], pressed.stderr


def test_commands_and_options_are_completed(home: Home) -> None:
    assert completed(home, "st") == ["status", "start", "stop"]
    assert completed(home, "servers", "re") == ["reject", "remove", "restart"]
    assert "--dry-run" in completed(home, "servers", "import", "--")
    assert completed(home, "servers", "import", "cu") == ["cursor"]
    assert completed(home, "docs", "put", "note", "--fi") == ["--file-type"]
    assert completed(home, "read", "--format", "m") == ["markdown"]


def test_the_last_of_several_kinds_to_search_among_is_completed(home: Home) -> None:
    assert completed(home, "search", "x", "--in", "doc") == ["documents", "docs"]
    assert completed(home, "search", "x", "--in", "documents,pa") == ["documents,pages"]
    assert completed(home, "search", "x", "--in", "pages,docs,p") == ["pages,docs,posts"]


@pytest.mark.parametrize("command", ["get", "delete", "list"])
def test_documents_are_completed_where_a_hub_runs_and_none_is_started_for_it(
    home: Home, command: str
) -> None:
    home.environment["TABANE_MODEL"] = "none"
    assert completed(home, "docs", command, "no") == []
    assert not home.tabane.joinpath("hub.lock").exists()
    with hub(home):
        assert completed(home, "docs", command, "no") == []
        for name in ("notes/b", "notes/a", "plan"):
            assert home.run("docs", "put", "-", "--id", name, stdin="Something.").status == 0
        assert completed(home, "docs", command, "no") == ["notes/a", "notes/b"]
        assert completed(home, "docs", command, "") == ["notes/a", "notes/b", "plan"]


@pytest.mark.parametrize(
    "words", [("servers", "show"), ("servers", "logs"), ("tools", "list", "--server"), ("logs", "--server")]
)
def test_servers_are_completed(home: Home, words: tuple[str, ...]) -> None:
    assert completed(home, *words, "cl") == ["clock"]
    assert not home.tabane.joinpath("hub.lock").exists()


@pytest.mark.parametrize("words", [("tools", "show"), ("tools", "call")])
def test_tools_are_completed_with_a_hub_and_from_memory_without_one(
    home: Home, words: tuple[str, ...]
) -> None:
    assert completed(home, *words, "clock__c") == []
    assert not home.tabane.joinpath("hub.lock").exists()
    with hub(home):
        assert home.run("servers", "start", "clock").status == 0
        listed = completed(home, *words, "clock__c")
        assert listed == sorted(listed)
        assert "clock__count" in listed
    assert completed(home, *words, "clock__c") == listed
    assert home.run("status").status == 1
    home.write_servers({})
    assert completed(home, *words, "clock__c") == []


def test_profiles_are_completed_without_a_hub(home: Home) -> None:
    (home.servers.parent / "tabane.toml").write_text("[profiles.work]\n[profiles.web]\n[profiles.docs]\n")
    assert completed(home, "mcp", "--profile", "w") == ["work", "web"]
    assert completed(home, "keys", "create", "x", "--profile", "d") == ["docs"]
    assert not home.tabane.joinpath("hub.lock").exists()
    (home.servers.parent / "tabane.toml").write_text("[profiles.")
    assert completed(home, "mcp", "--profile", "w") == []


@pytest.mark.parametrize(
    "words",
    [("keys", "show"), ("keys", "revoke"), ("policy", "explain"), ("audit", "--key"), ("usage", "--key")],
)
def test_keys_are_completed_where_a_hub_runs_and_none_is_started_for_it(
    home: Home, words: tuple[str, ...]
) -> None:
    assert completed(home, *words, "c") == []
    assert not home.tabane.joinpath("hub.lock").exists()
    with hub(home):
        for name in ("ci", "cat", "phone"):
            assert home.run("keys", "create", name, "--allow", "*").status == 0
        assert completed(home, *words, "c") == ["cat", "ci"]


def test_a_broken_file_completes_nothing_and_says_nothing(home: Home) -> None:
    home.write_servers("{")
    assert completed(home, "servers", "show", "c") == []
    assert completed(home, "tools", "show", "c") == []


PAIRED = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "default": 5},
        "zone": {"enum": ["UTC", "Asia/Tokyo"]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "whole": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "kind": {"$ref": "#/$defs/kind"},
    },
    "required": ["zone"],
    "$defs": {"kind": {"enum": [1, 2]}},
}


@pytest.mark.parametrize(
    ("given", "incomplete", "offered"),
    [
        ([], "", ["zone=", "limit=", "tags=", "whole=", "kind="]),
        (["zone=UTC", "tags=a"], "", ["limit=", "tags=", "whole=", "kind="]),
        ([], "zone=", ["zone=UTC", "zone=Asia/Tokyo"]),
        ([], "tags=", ["tags=a", "tags=b"]),
        ([], "whole=", ["whole=true", "whole=false"]),
        ([], "kind=", ["kind=1", "kind=2"]),
        ([], "limit=", ["limit=5"]),
        ([], "other=", []),
    ],
)
def test_arguments_of_a_tool_are_completed_by_its_schema(
    given: list[str], incomplete: str, offered: list[str]
) -> None:
    assert completed_pairs(PAIRED, given, incomplete) == offered


def test_a_schema_of_any_kind_completes_without_an_error() -> None:
    schemas: list[dict[str, Any]] = [{}, {"properties": []}, {"properties": {"a": True}, "required": "a"}]
    for schema in schemas:
        assert isinstance(completed_pairs(schema, [], ""), list)
        assert isinstance(completed_pairs(schema, [], "a="), list)


def test_arguments_of_a_tool_are_completed_where_a_hub_runs(home: Home) -> None:
    assert completed(home, "tools", "call", "clock__wait", "") == []
    assert not home.tabane.joinpath("hub.lock").exists()
    with hub(home):
        assert home.run("servers", "start", "clock").status == 0
        assert completed(home, "tools", "call", "clock__wait", "se") == ["seconds="]
        assert completed(home, "tools", "call", "clock__wait", "seconds=1", "") == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("settings", "set", "mode", ""), ["search", "light", "full", "code"]),
        (("settings", "set", "http", "t"), ["true"]),
        (("settings", "set", "log_size", ""), ["10 MiB"]),
        (("keys", "create", "x", "--tier", "pre"), ["premium"]),
        (("models", "use", "no"), ["none"]),
        (("manual", "servers.m"), ["servers.md"]),
        (("ls", "--js"), ["--json"]),
    ],
)
def test_values_are_completed_without_a_hub(home: Home, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(home, *words) == offered
    assert not home.tabane.joinpath("hub.lock").exists()


def test_bash_divides_an_argument_of_a_tool_and_gets_the_part_behind(home: Home) -> None:
    assert completed(home, "settings", "set", "mode", "=", "fu") == []
    assert completed(home, "keys", "create", "x", "--tier", "=", "pre") == ["premium"]


def test_what_goes_wrong_at_tab_says_nothing(home: Home) -> None:
    home.environment["COMP_TYPE"] = "9"
    answered = home.run(
        environment={"_TABANE_COMPLETE": "bash_complete", "COMP_WORDS": "tabane 'x", "COMP_CWORD": "y"}
    )
    assert (answered.out, answered.err) == ("", "")

"""Commands change the servers file without losing anything of it."""

from __future__ import annotations

import json
import multiprocessing
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.servers.configuration import read_configuration
from tabane.servers.editing import (
    add_server,
    add_servers,
    check_addable,
    enable_server,
    folder_lock,
    remove_server,
)
from tabane.servers.variables import Variables

TEXT = """{
  "note": [1, 2.5, null],
  "mcpServers": {
    "日本": {
      "zzz": true,
      "command": "x",
      "args": []
    },
    "b": {
      "command": "y"
    }
  }
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mcp-servers.json"
    path.write_text(TEXT)
    path.chmod(0o644)
    return path


def names(path: Path) -> list[str]:
    return [server.name for server in read_configuration(path, Variables({})).servers]


def test_a_server_is_added_at_the_end_and_the_rest_stays(path: Path) -> None:
    add_server(path, "c", {"command": "z"})
    added = TEXT.replace('"y"\n    }\n', '"y"\n    },\n    "c": {\n      "command": "z"\n    }\n')
    assert path.read_text() == added


def test_the_former_file_is_kept_and_both_are_closed_to_others(path: Path) -> None:
    remove_server(path, "b")
    backup = path.with_name("mcp-servers.json.bak")
    assert backup.read_text() == TEXT
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, backup)] == [0o600, 0o600]
    assert names(path) == ["日本"]


def test_adding_and_removing_gives_the_file_of_before(path: Path) -> None:
    add_server(path, "c", {"command": "z", "env": {"A": "${A}"}})
    remove_server(path, "c")
    assert path.read_text() == TEXT


def test_switching_off_and_on_gives_the_file_of_before(path: Path) -> None:
    enable_server(path, "b", False)
    off = read_configuration(path, Variables({})).get("b")
    assert off is not None
    assert off.disabled is not None
    enable_server(path, "b", True)
    assert path.read_text() == TEXT


def test_switching_on_takes_the_other_programs_key_away(path: Path) -> None:
    path.write_text('{"servers": {"a": {"command": "x", "disabled": true}}}')
    enable_server(path, "a", True)
    assert json.loads(path.read_text()) == {"servers": {"a": {"command": "x"}}}


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "config" / "tabane" / "mcp-servers.json"
    add_server(path, "a", {"command": "x"})
    assert json.loads(path.read_text()) == {"mcpServers": {"a": {"command": "x"}}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["mcp-servers.json"]


def test_the_servers_of_a_vs_code_file_stay_under_its_key(path: Path) -> None:
    path.write_text('{"inputs": [], "servers": {}}')
    add_server(path, "a", {"command": "x"})
    assert json.loads(path.read_text()) == {"inputs": [], "servers": {"a": {"command": "x"}}}


COMMENTED = """\
// mine
{
  "mcpServers": {
    // the clock
    "time": {
      "command": "uvx", // run
      "args": ["mcp-server-time"],
    },
    "b": {"command": "y"}, /* b */
  },
}
"""


def test_comments_stay_where_they_are(path: Path) -> None:
    path.write_text(COMMENTED)
    add_server(path, "new", {"command": "x"})
    added = COMMENTED.replace("/* b */\n", '/* b */\n    "new": {\n      "command": "x"\n    },\n')
    assert path.read_text() == added
    assert path.with_name("mcp-servers.json.bak").read_text() == COMMENTED
    enable_server(path, "time", False)
    assert path.read_text() == added.replace(
        '["mcp-server-time"],\n', '["mcp-server-time"],\n      "enabled": false,\n'
    )
    enable_server(path, "time", True)
    remove_server(path, "new")
    assert path.read_text() == COMMENTED


def test_what_cannot_be_changed_without_a_loss_is_left_alone_and_the_lines_shown(path: Path) -> None:
    text = '{"mcpServers": {"a": 1, "a": {"command": "x"}}} // mine'
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        add_server(path, "b", {"command": "x"})
    assert '"b": {\n  "command": "x"\n}' in str(raised.value)
    assert path.read_text() == text
    assert not path.with_name("mcp-servers.json.bak").exists()


def test_a_trailing_comma_is_no_comment(path: Path) -> None:
    path.write_text('{"mcpServers": {"a": {"command": "//x",},},}')
    enable_server(path, "a", False)
    assert json.loads(path.read_text()) == {"mcpServers": {"a": {"command": "//x", "enabled": False}}}


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
        '{"mcpServers": {"a": {"command": "x", "command": "y"}}}',
        '{"mcpServers": {"a": {}}, "mcpServers": {}}',
    ],
)
def test_a_file_with_doubled_keys_is_left_alone(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="a key twice"):
        add_server(path, "c", {"command": "z"})
    assert path.read_text() == text


def test_a_name_that_is_taken_is_refused(path: Path) -> None:
    with pytest.raises(BadArguments, match="The server b already exists"):
        add_server(path, "b", {"command": "z"})
    with pytest.raises(BadArguments, match="needs a name"):
        add_server(path, "", {"command": "z"})
    assert path.read_text() == TEXT


def test_a_name_that_is_not_there_is_refused_with_the_nearest(path: Path) -> None:
    add_server(path, "filesystem", {"command": "x"})
    with pytest.raises(UnknownName) as raised:
        remove_server(path, "filesytem")
    assert raised.value.near == ("filesystem",)
    with pytest.raises(UnknownName, match=r"no server zzzz\.$"):
        enable_server(path, "zzzz", True)


def test_a_broken_file_is_left_alone(path: Path) -> None:
    path.write_text('{"mcpServers": {')
    with pytest.raises(ConfigurationError, match=":1:17: expected"):
        add_server(path, "c", {"command": "z"})
    assert path.read_text() == '{"mcpServers": {'


def test_a_link_to_a_kept_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    remove_server(link, "b")
    assert link.is_symlink()
    assert names(path) == ["日本"]


def test_half_a_surrogate_pair_survives(path: Path) -> None:
    path.write_text('{"mcpServers": {"a": {"x": "\\ud83d", "command": "y"}}}')
    enable_server(path, "a", False)
    assert json.loads(path.read_text())["mcpServers"]["a"]["x"] == "\ud83d"


def is_fit(name: str) -> bool:
    """Whether a server may be named so."""
    return name.isprintable() and name.strip() == name and not name.startswith("-")


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(is_fit),
        st.dictionaries(st.sampled_from("xyz"), st.none() | st.integers() | st.text(max_size=4), max_size=3),
        max_size=4,
    )
)
def test_whatever_is_added_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, servers: dict[str, dict[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("edit") / "mcp-servers.json"
    for name, definition in servers.items():
        add_server(path, name, definition)
    written = json.loads(path.read_text())["mcpServers"] if servers else {}
    assert written == servers
    assert list(written) == list(servers)


@pytest.mark.parametrize("name", ["", "-x", "--help", " a", "a\n", "a\x1b[31m", "a\u202eb", "a\u200bb"])
def test_a_name_that_misleads_is_refused(path: Path, name: str) -> None:
    before = path.read_bytes()
    with pytest.raises(BadArguments):
        add_server(path, name, {"command": "x"})
    assert path.read_bytes() == before


def test_a_change_waits_for_another_and_loses_nothing_of_it(path: Path) -> None:
    names = [f"s{number}" for number in range(20)]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(add_server, [(path, name, {"command": name}) for name in names])
    table = json.loads(path.read_text())["mcpServers"]
    assert set(table) == {"日本", "b", *names}


def test_a_change_gives_up_where_another_does_not_end(path: Path) -> None:
    with (
        folder_lock(path),
        pytest.raises(ConfigurationError, match="Another program"),
        folder_lock(path, limit=0.05),
    ):
        pass
    with folder_lock(path, limit=0):
        pass


def test_several_servers_are_added_at_once_or_not_at_all(path: Path) -> None:
    with pytest.raises(BadArguments):
        add_servers(path, {"new": {"command": "x"}, "b": {"command": "y"}})
    assert path.read_text() == TEXT
    add_servers(path, {"new": {"command": "x"}, "c": {"command": "y"}})
    assert list(json.loads(path.read_text())["mcpServers"]) == ["日本", "b", "new", "c"]


def test_whether_servers_can_be_added_is_told_without_adding_them(path: Path, tmp_path: Path) -> None:
    check_addable(path, {"c": {"command": "x"}})
    check_addable(tmp_path / "none" / "mcp-servers.json", {"c": {"command": "x"}})
    assert path.read_text() == TEXT
    assert not (tmp_path / "none").exists()
    with pytest.raises(BadArguments):
        check_addable(path, {"b": {"command": "x"}})
    path.write_text('{"mcpServers": {"a": 1, "a": 2}}')
    with pytest.raises(ConfigurationError, match="twice"):
        check_addable(path, {"c": {"command": "x"}})

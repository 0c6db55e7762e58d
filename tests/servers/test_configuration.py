"""The servers file in the forms that assistants write; an error in one entry affects only that entry."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from tabane.errors import ConfigurationError
from tabane.servers.configuration import ServersConfiguration, read_configuration
from tabane.servers.redaction import Redactor
from tabane.servers.server import Server
from tabane.servers.server_keys import KEYS, ToolHints
from tabane.servers.variables import Variables, parse_secrets
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("servers.md", "servers.ja.md")]


def read(folder: Path, text: str | bytes, **environ: str) -> ServersConfiguration:
    """The configuration of a servers file of that content."""
    path = folder / "mcp-servers.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return read_configuration(path, Variables({"HOME": "/home/hana", **environ}))


def one(folder: Path, definition: str, **environ: str) -> Server:
    """The only server of a file, defined so, without any warning."""
    configuration = read(folder, f'{{"mcpServers": {{"a": {definition}}}}}', **environ)
    assert configuration.warnings == ()
    (server,) = configuration.servers
    return server


def why_disabled(folder: Path, definition: str, **environ: str) -> str:
    server = one(folder, definition, **environ)
    assert server.disabled is not None
    begin = f"The server a is disabled ({folder / 'mcp-servers.json'}:"
    assert str(server.disabled).startswith(begin)
    return str(server.disabled)[len(begin) :].replace("): ", " ", 1)


def warnings(folder: Path, text: str) -> list[str]:
    where = str(folder / "mcp-servers.json")
    return [str(warning).replace(where, "FILE") for warning in read(folder, text).warnings]


def test_a_server_is_read_with_all_its_keys(tmp_path: Path) -> None:
    server = one(
        tmp_path,
        """{"type": "stdio", "command": "npx", "args": ["-y", "${PACKAGE}"], "env": {"KEY": "${KEY}"},
            "cwd": "sub", "enabled": true, "disabled": false, "description": "説明", "tags": ["x"],
            "category": "c", "pin": ["p"], "allow": ["a*"], "deny": ["b*"], "prefix": "", "share": "client",
            "timeout": 5.5, "maxConcurrency": 3, "maxResultTokens": 5000,
            "sandbox": false, "cache": null, "oauth": false}""",
        PACKAGE="server",
        KEY="sk-12345",
    )
    assert server == Server(
        name="a",
        command="npx",
        args=("-y", "server"),
        env={"KEY": "sk-12345"},
        cwd=str(tmp_path / "sub"),
        cwd_given=True,
        description="説明",
        tags=("x",),
        category="c",
        pin=("p",),
        allow=("a*",),
        deny=("b*",),
        prefix="",
        share="client",
        share_given=True,
        transport_given=True,
        timeout=5.5,
        max_concurrency=3,
        max_result_tokens=5_000,
        oauth=False,
        secrets=("server", "sk-12345"),
        fingerprint=server.fingerprint,
    )


def test_words_for_searching_are_read_for_the_server_and_for_its_tools(tmp_path: Path) -> None:
    server = one(
        tmp_path,
        """{"command": "x", "keywords": ["課題", " "], "examples": ["what is open?"], "tools": {
            "create_*": {"description": "Report a bug", "examples": ["バグを報告する"]},
            "export": {"tags": ["slow"], "keywords": ["表"], "description": null}}}""",
    )
    assert (server.keywords, server.examples) == (("課題",), ("what is open?",))
    assert server.hints == (
        ToolHints("create_*", "Report a bug", examples=("バグを報告する",)),
        ToolHints("export", tags=("slow",), keywords=("表",)),
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('"keywords": "x"', '2) "keywords" must be a list of texts.'),
        ('"examples": [1]', '2) "examples[0]" must be a text in quotes.'),
        ('"tools": "x"', '2) "tools" must be an object of the server\'s own names of tools.'),
        (
            '"tools": {"a": []}',
            '2) "tools.a" must be an object with description, tags, keywords, examples or labels.',
        ),
        ('"tools": {"a": {"examples": ["x", {}]}}', '2) "tools.a.examples[1]" must be a text in quotes.'),
        (
            f'"tools": {{"a": {{"keywords": {["x"] * 51}}}}}'.replace("'", '"'),
            '2) "tools.a.keywords" must be a list of at most 50 texts.',
        ),
    ],
)
def test_words_for_searching_of_a_wrong_type_are_named_with_their_place(
    tmp_path: Path, given: str, why: str
) -> None:
    assert why_disabled(tmp_path, f'{{"command": "x",\n{given}}}').replace(" ", ") ", 1) == why


def test_unknown_words_about_a_tool_are_named(tmp_path: Path) -> None:
    found = warnings(
        tmp_path,
        '{"mcpServers": {"a": {"command": "x", "tools": {"b": {"example": ["c"], "name": "d"}}}}}',
    )
    assert found == [
        'FILE:1: server a: the key "tools.b.example" is unknown and is ignored. Did you mean examples?',
        'FILE:1: server a: the key "tools.b.name" is unknown and is ignored.',
    ]


def test_defaults_are_those_of_a_server_in_the_files_folder(tmp_path: Path) -> None:
    server = one(tmp_path, '{"command": "x"}')
    assert server == Server("a", command="x", cwd=str(tmp_path), fingerprint=server.fingerprint)


def test_servers_keep_the_order_of_the_file(tmp_path: Path) -> None:
    text = '{"mcpServers": {"b": {"command": "x"}, "日本": {"command": "x"}, "a": {"command": "x"}}}'
    assert [server.name for server in read(tmp_path, text).servers] == ["b", "日本", "a"]


def test_comments_trailing_commas_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    text = '\ufeff// 設定\n{"mcpServers": {/* x */ "a": {"command": "x", "args": ["//", "/*",],},},}'
    (server,) = read(tmp_path, text).servers
    assert server.args == ("//", "/*")


def test_a_home_is_put_for_the_tilde_of_command_and_cwd_alone(tmp_path: Path) -> None:
    server = one(tmp_path, '{"command": "~/bin/x", "args": ["~/y"], "cwd": "~"}')
    assert (server.command, server.args, server.cwd) == ("/home/hana/bin/x", ("~/y",), "/home/hana")


def test_the_files_of_other_programs_are_understood(tmp_path: Path) -> None:
    text = """{"inputs": [{"id": "x"}], "$schema": "s", "servers": {
        "local": {"type": "stdio", "command": "x", "env": {"A": "${env:A}"}},
        "ask": {"command": "x", "env": {"A": "${input:x}"}},
        "web": {"serverUrl": "https://example.com/mcp"},
        "streaming": {"type": "streamable-http", "url": "https://example.com/mcp"},
        "events": {"type": "sse", "url": "https://example.com/sse"}}}"""
    configuration = read(tmp_path, text, A="1")
    assert configuration.warnings == ()
    local, ask, *others = configuration.servers
    assert (local.env, local.disabled) == ({"A": "1"}, None)
    assert "${input:x} asks for an input" in str(ask.disabled)
    assert [server.transport for server in others] == ["http", "http", "sse"]
    assert [server.disabled for server in others] == [None, None, None]
    assert [server.transport_given for server in others] == [False, True, True]
    assert others[0].url == "https://example.com/mcp"


@pytest.mark.parametrize("off", ['"enabled": false', '"disabled": true', '"enabled": true, "disabled": true'])
def test_a_server_can_be_switched_off(tmp_path: Path, off: str) -> None:
    why = why_disabled(tmp_path, f'{{"command": "x", {off}, "args": ["${{MISSING}}"]}}')
    assert why == "1 it is disabled in the servers file. Enable it with: tabane servers enable a"


def test_a_missing_variable_disables_only_its_server(tmp_path: Path) -> None:
    text = """{"mcpServers": {
        "a": {"command": "x", "env": {"K": "${ABSENT}"},
              "args": ["${ALSO_ABSENT}", "${ALSO_ABSENT}"]},
        "b": {"command": "x"}}}"""
    first, second = read(tmp_path, text).servers
    assert str(first.disabled) == (
        f"The server a is disabled ({tmp_path / 'mcp-servers.json'}:3): not set: ALSO_ABSENT. Run: "
        "tabane secrets set ALSO_ABSENT. Or set it in the environment in which the hub is started."
    )
    assert first.args == ("${ALSO_ABSENT}", "${ALSO_ABSENT}")
    assert second.disabled is None


@pytest.mark.parametrize(
    ("definition", "why"), CASES["a_definition_that_is_wrong_disables_its_server_with_line_and_reason"]
)
def test_a_definition_that_is_wrong_disables_its_server_with_line_and_reason(
    tmp_path: Path, definition: str, why: str
) -> None:
    found = why_disabled(tmp_path, definition)
    assert found == why if why else "${a b} is not a variable" in found


def test_a_wrong_server_leaves_the_others_alone(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": 1, "b": {"command": 1}, "c": {"command": "x"}}}'
    assert [server.disabled is None for server in read(tmp_path, text).servers] == [False, False, True]


def test_unknown_keys_are_named_with_server_line_and_the_nearest(tmp_path: Path) -> None:
    text = """{"mcpServers": {"a": {"command": "x",
        "Args": [], "max-concurrency": 1, "autoApprove": ["x"], "zzzz": 1}},
        "mcpservers": {}, "zzzz": {}}"""
    assert warnings(tmp_path, text) == [
        'FILE:3: the key "mcpservers" is unknown and is ignored. Write servers under mcpServers.',
        'FILE:3: the key "zzzz" is unknown and is ignored. Write servers under mcpServers.',
        'FILE:2: server a: the key "Args" is unknown and is ignored. Did you mean args?',
        'FILE:2: server a: the key "max-concurrency" is unknown and is ignored. Did you mean maxConcurrency?',
        'FILE:2: server a: "autoApprove" has no effect here.',
        'FILE:2: server a: the key "zzzz" is unknown and is ignored.',
    ]


def test_a_variable_without_braces_is_named(tmp_path: Path) -> None:
    given = {"env": {"A": "$TOKEN", "B": "$5", "C": "x$TOKEN"}, "headers": {"D": "Bearer $TOKEN"}}
    text = json.dumps({"mcpServers": {"a": {"command": "x", **given}}})
    assert warnings(tmp_path, text) == [
        f'FILE:1: server a: "{key}" is the text $TOKEN, and no variable. For the variable, write ${{TOKEN}}.'
        for key in ("env.A", "headers.D")
    ]


@pytest.mark.parametrize(("written", "expected"), CASES["an_entry_of_another_program_works_when_pasted"])
def test_an_entry_of_another_program_works_when_pasted(tmp_path: Path, written: str, expected: str) -> None:
    server = read(tmp_path, f'{{"mcpServers": {{"a": {written}}}}}', TOKEN="t", HOME="/home/hana").servers[0]
    assert server.disabled is None
    found = json.loads(expected)
    assert json.loads(msgspec.json.encode({key: getattr(server, key) for key in found})) == found


def test_a_value_of_env_is_put_in_where_the_server_names_it(tmp_path: Path) -> None:
    server = one(
        tmp_path,
        """{"command": "npx", "args": ["mcp-remote", "--header", "Authorization:${AUTH}", "${ROOM}${/}x"],
            "env": {"AUTH": "Bearer ${TOKEN}", "TOKEN": "${TOKEN}", "ROOM": "${BASE}/r", "BASE": "/b"}}""",
        TOKEN="sk-1",
        BASE="/outside",
    )
    assert server.args == ("mcp-remote", "--header", "Authorization:Bearer sk-1", "/b/r/x")
    assert server.env == {"AUTH": "Bearer sk-1", "TOKEN": "sk-1", "ROOM": "/b/r", "BASE": "/b"}
    assert "sk-1" in server.secrets


def test_values_of_env_that_grow_or_lead_too_far_are_refused(tmp_path: Path) -> None:
    doubled = {f"A{n}": f"${{A{n + 1}}}" * 64 for n in range(12)} | {"A12": "x" * 64}
    assert "a text of more than 131072 characters" in why_disabled(
        tmp_path, json.dumps({"command": "x", "env": doubled})
    )
    chained = {f"A{n}": f"${{A{n + 1}}}" for n in range(40)} | {"A40": "x"}
    assert 'more than 16 values of "env"' in why_disabled(
        tmp_path, json.dumps({"command": "x", "env": chained})
    )


def test_a_timeout_that_must_be_milliseconds_is_taken_so(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x", "timeout": 60000}, "b": {"command": "x", "timeout": 999}}}'
    assert [server.timeout for server in read(tmp_path, text).servers] == [60, 999]
    assert warnings(tmp_path, text) == [
        "FILE:1: server a: timeout is in seconds, so 60000 is read as milliseconds. Write 60."
    ]


def test_a_cache_is_said_not_to_be_there(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x", "cache": {"ttl": 5}}}}'
    assert warnings(tmp_path, text) == [
        "FILE:1: server a: caching of results is not supported yet. This server works without it."
    ]
    assert read(tmp_path, text).servers[0].disabled is None


def test_what_stands_twice_is_named_and_the_last_one_counts(tmp_path: Path) -> None:
    text = """{"mcpServers": {
        "a": {"command": "x"},
        "a": {"command": "y",
              "command": "z"},
        "a": {"command": "w"}}}"""
    (server,) = read(tmp_path, text).servers
    assert server.command == "w"
    assert warnings(tmp_path, text) == [
        "FILE:3: the server a is defined here and in line 2; this one is used.",
        'FILE:4: server a: "command" appears twice; the last one is used.',
        "FILE:5: the server a is defined here and in line 3; this one is used.",
    ]


def test_a_server_without_a_usable_name_is_passed_over(tmp_path: Path) -> None:
    text = '{"mcpServers": {"": {"command": "x"}, "\\ud800": {"command": "x"}}}'
    assert read(tmp_path, text).servers == ()
    assert warnings(tmp_path, text) == ["FILE:1: a server has no usable name."] * 2


def test_an_empty_list_of_allowed_tools_allows_none(tmp_path: Path) -> None:
    assert one(tmp_path, '{"command": "x", "allow": []}').deny == ("*",)
    assert one(tmp_path, '{"command": "x"}').deny == ()


def test_a_server_that_uses_the_clients_folder_runs_once_for_each(tmp_path: Path) -> None:
    server = one(
        tmp_path,
        """{"command": "~/x", "args": ["${workspaceFolder}/$${y}", "${A}"], "cwd": "${workspaceFolder}/sub",
            "env": {"NAME": "${workspaceFolderBasename}"}}""",
        A="${workspaceFolder}",
    )
    assert (server.share, server.needs_folder) == ("roots", True)
    placed = server.in_folder("/src/日本")
    assert placed.command == "/home/hana/x"
    assert placed.args == ("/src/日本/${y}", "${workspaceFolder}")
    assert (placed.cwd, placed.env) == ("/src/日本/sub", {"NAME": "日本"})
    assert not placed.needs_folder
    assert placed.in_folder("/other") is placed


def test_folders_whose_names_look_like_variables_are_folders(tmp_path: Path) -> None:
    folder = tmp_path / "${workspaceFolder}"
    folder.mkdir()
    server = one(folder, '{"command": "~/x", "args": ["${workspaceFolder}"]}', HOME="/${userHome}")
    placed = server.in_folder("/src")
    assert (placed.command, placed.cwd) == ("/${userHome}/x", str(folder))
    assert one(folder, '{"command": "~/x"}', HOME="/${userHome}").cwd == str(folder)


def test_a_folder_server_shared_by_the_hub_is_a_contradiction_that_is_named(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "${workspaceFolder}/x", "share": "hub"}}}'
    assert read(tmp_path, text).servers[0].share == "roots"
    assert warnings(tmp_path, text) == [
        "FILE:1: server a: because of ${workspaceFolder}, it runs "
        'once for each folder, as with share "roots".'
    ]
    assert one(tmp_path, '{"command": "${workspaceFolder}/x", "share": "client"}').share == "client"


def test_a_server_runs_once_for_a_group_only_if_all_clients_share_its_process(tmp_path: Path) -> None:
    server = one(tmp_path, '{"command": "x", "run": "group"}')
    assert (server.run, server.share, server.share_given) == ("group", "hub", True)
    for keys in ('"command": "x", "share": "client"', '"url": "http://x"', '"command": "${workspaceFolder}"'):
        text = f'{{"mcpServers": {{"a": {{{keys}, "run": "group"}}}}}}'
        assert read(tmp_path, text).servers[0].run == "hub"
        assert "programs that all clients share" in warnings(tmp_path, text)[0]


def test_secrets_are_known_by_variable_and_by_name(tmp_path: Path) -> None:
    server = one(
        tmp_path,
        """{"command": "x", "args": ["--token", "arg-secret", "--api-key=eq-secret", "--verbose", "plain"],
            "env": {"API_KEY": "env-secret", "HOST": "${HOST_NAME}", "PLAIN": "visible", "TOKEN": "${T}"}}""",
        HOST_NAME="host-secret",
        T="variable-secret",
    )
    assert set(server.secrets) == {"arg-secret", "eq-secret", "env-secret", "host-secret", "variable-secret"}
    shown = Redactor(server.secrets).text(f"{server.args} {server.env}")
    assert "secret" not in shown
    assert "visible" in shown
    assert not any(secret in repr(server) for secret in server.secrets)


def test_headers_are_secret_with_and_without_their_scheme(tmp_path: Path) -> None:
    server = one(tmp_path, '{"url": "https://x", "headers": {"Authorization": "Bearer abcdef"}}')
    assert server.secrets == ("Bearer abcdef", "abcdef")


def test_the_fingerprint_follows_what_the_server_lists_and_no_secret(tmp_path: Path) -> None:
    def of(definition: str, **environ: str) -> str:
        return one(tmp_path, definition, **environ).fingerprint

    base = '{"command": "x", "args": ["--token", "one1"], "env": {"A_KEY": "two2", "B": "${V}"}}'
    first = of(base, V="1")
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert of(base.replace("one1", "other").replace("two2", "other"), V="2") == first
    assert of(base.replace("}}", '}, "timeout": 5, "description": "y"}'), V="1") == first
    for changed in ('"x"', "--token", "A_KEY", "${V}"):
        assert of(base.replace(changed, changed[:-1] + "z" + changed[-1]), V="1", Vz="") != first


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('// 設定\n{"mcpServers": {\n  "日本" {}}}', '3:8: expected ":" after the name, but found {'),
        ('\ufeff{"mcpServers": }', "1:16: expected a value, but found }"),
        ("", "1:1: expected a value, but the text ends"),
        ("[]", '1:1: expected an object such as {"mcpServers": {}}'),
        ('{\n"mcpServers": []}', '2:1: expected an object after "mcpServers"'),
        ('{"a": "日本\n'.encode() + '語"'.encode("shift_jis"), "2:1: expected UTF-8"),
    ],
)
def test_a_broken_file_is_named_with_line_and_column(tmp_path: Path, text: str | bytes, place: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, text)
    assert str(raised.value) == f"{tmp_path / 'mcp-servers.json'}:{place}."


def test_a_broken_file_shows_no_more_of_itself_than_a_character(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, '{"mcpServers": {"a": {"env": {"KEY": sk-secret}}}}')
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "mcp-servers.json"
    path.write_text("{}")
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"chmod go-w {path}"):
        read_configuration(path, Variables({}))


def test_without_a_file_there_are_no_servers_and_a_word_on_how_to_add_one(tmp_path: Path) -> None:
    configuration = read_configuration(tmp_path / "absent.json", Variables({}))
    assert configuration.servers == ()
    assert "tabane servers add" in str(configuration.warnings[0])


def test_a_file_that_was_named_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no servers file"):
        read_configuration(tmp_path / "absent.json", Variables({}), required=True)


def test_a_file_without_servers_says_where_they_belong(tmp_path: Path) -> None:
    assert warnings(tmp_path, "{}") == ['FILE has no servers. Write them in an object under "mcpServers".']


def test_a_relative_path_is_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(tmp_path, '{"mcpServers": {"a": {"command": "x"}}}')
    monkeypatch.chdir(tmp_path)
    configuration = read_configuration("mcp-servers.json", Variables({}))
    assert configuration.path == tmp_path / "mcp-servers.json"
    assert configuration.servers[0].cwd == str(tmp_path)


EXAMPLES = [
    pytest.param(example, id=f"{page.name}-{number}")
    for page in PAGES
    for number, example in enumerate(re.findall(r"```jsonc?\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_page_are_read_without_a_warning(tmp_path: Path, example: str) -> None:
    configuration = read(tmp_path, example, GITHUB_TOKEN="x", SEARCH_KEY="x", ROBOT_SECRET="x")
    assert configuration.warnings == ()
    assert configuration.servers
    for server in configuration.servers:
        assert (server.disabled is None) == (server.name != "old-notes"), server.disabled


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_secrets_of_the_page_are_read(page: Path) -> None:
    (example,) = re.findall(r"```sh\n(# secrets\.env.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert list(parse_secrets(example, "page")) == ["GITHUB_TOKEN", "SEARCH_KEY", "PRIVATE_KEY"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_tells_of_every_key(page: Path) -> None:
    text = page.read_text("utf-8")
    assert [key for key in KEYS if f"`{key}`" not in text and f'"{key}"' not in text] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp-servers.json"
    path.write_text("{}")
    path.chmod(0o600)
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigurationError, match="belongs to #12345"):
        read_configuration(path, Variables({}))


def test_a_file_of_authorities_is_looked_for_beside_the_servers_file(tmp_path: Path) -> None:
    server = one(tmp_path, '{"url": "https://x", "ca": "own.pem", "proxy": "http://${P}:1"}', P="place")
    assert (server.ca, server.proxy) == (str(tmp_path / "own.pem"), "http://place:1")


def test_a_secret_in_a_url_is_known_and_not_part_of_what_identifies_the_server(tmp_path: Path) -> None:
    url = "https://me:passwordly@x/mcp?api_key=querysecret&page=first"
    server = one(tmp_path, f'{{"url": "{url}"}}')
    assert {"passwordly", "querysecret"} <= set(server.secrets)
    assert "first" not in server.secrets
    other = one(tmp_path, f'{{"url": "{url.replace("passwordly", "q").replace("querysecret", "r")}"}}')
    assert other.fingerprint == server.fingerprint
    assert one(tmp_path, f'{{"url": "{url}2"}}').fingerprint != server.fingerprint

"""Text of servers, files and clients cannot steer a terminal, whichever command prints it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home, Outcome, hub
from tests.harness.patience import wait_until
from tests.harness.servers import escapes

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]|\r(?!\n)"
)
STYLE = re.compile("\x1b\\[(?:0|1|2|4|3[1-7])m")
"""What Tabane writes itself, to a terminal alone: colors, bold, dim, underlined."""

COMMANDS = (
    ("servers", "list"), ("servers", "show", "evil"), ("servers", "test", "evil"),
    ("servers", "logs", "evil"),
    ("servers", "show", "broken"), ("servers", "test", "broken"), ("servers", "logs", "broken"),
    ("tools", "list"), ("tools", "search", "steal"), ("tools", "show", "evil__steal"),
    ("tools", "show", "evil__steal", "--full"), ("tools", "call", "evil__steal"),
    ("tools", "call", "evil__fail"), ("tools", "call", "evil__steal", "text=1", "more=1"),
    ("docs", "list"), ("docs", "get", "note"), ("docs", "search", "secret"), ("docs", "stats"),
    ("search", "secret"), ("posts", "search", "猫"), ("posts", "stats"), ("posts", "users"),
    ("posts", "export"), ("audit",), ("usage",), ("health",), ("status",), ("status", "--settings"),
    ("logs",), ("doctor",), ("jobs", "list"), ("keys", "list"), ("models", "list"), ("limits",),
    ("rpc", "list_servers"), ("rpc", "no\x1b[31msuch"), ("tools", "show", "no\x9b31m"),
    ("docs", "get", "\u202eno"),
)  # fmt: skip
"""Every command that reads."""

POSTS = f'"1","https://x.com/evil/status/1","2024-01-02 03:04:05","猫 {escapes.ATTACK}","1"\n'


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A hub with a hostile server, one that fails with hostile words, and a hostile document and archive."""
    home = Home(tmp_path_factory.mktemp("home"))
    words = f"import sys; sys.stderr.write({escapes.ATTACK!r} + 'bad'); sys.exit(3)"
    home.write_servers(
        {
            "evil": {"command": sys.executable, "args": [str(Path(escapes.__file__))]},
            "broken": {"command": sys.executable, "args": ["-c", words], "description": escapes.ATTACK},
        }
    )
    home.environment["TABANE_POISONED_DEFINITIONS"] = "warn"  # its definition would be held
    archive = home.folder / "posts.csv"
    archive.write_text(POSTS)
    with hub(home):
        for filepath in ("note", "note\x1b[31m"):
            given = json.dumps({"filepath": filepath, "text": f"secret {escapes.ATTACK} words"})
            put = home.run("rpc", "put_document", "--params", given)
            assert put.status == 0, put.err
        imported = home.run("posts", "import", str(archive))
        assert imported.status == 0, imported.err
        wait_until(lambda: home.run("tools", "call", "evil__steal").status == 0, "the server is known")
        yield home


def check(found: Outcome, what: tuple[str, ...], *, styled: bool) -> None:
    out = STYLE.sub("", found.out) if styled else found.out
    for name, text in (("stdout", out), ("stderr", found.err)):
        wrong = FORBIDDEN.search(text)
        assert wrong is None, (
            f"{what} wrote {wrong[0]!r} to {name}: {text[max(0, wrong.start() - 80) :][:200]!r}"
        )


@pytest.mark.parametrize("command", COMMANDS, ids=ascii)
def test_no_command_prints_what_steers_a_terminal(filled: Home, command: tuple[str, ...]) -> None:
    exported = command == ("posts", "export")  # a pipe gets the data as it is
    if not exported:
        check(filled.run(*command), command, styled=False)
    check(filled.run_on_terminal(*command), command, styled=True)
    if not exported:
        machine = filled.run(*command, *(() if command[0] == "rpc" else ("--json",)))
        check(machine, command, styled=False)
        assert machine.out, machine.err
        json.loads(machine.out)


def test_json_has_the_text_as_it_is(filled: Home) -> None:
    result = filled.json("tools", "call", "evil__steal")
    assert result["content"][0]["text"] == f"result {escapes.ATTACK}"


def test_the_words_of_a_result_are_printed(filled: Home) -> None:
    printed = filled.run("tools", "call", "evil__steal").succeeded.out
    assert printed == "result gnp.exex ab\ufffdover\ufffd\ufffd\n"


def test_the_lines_that_a_server_wrote_are_printed(filled: Home) -> None:
    lines = filled.run("servers", "logs", "evil").succeeded.out.splitlines()
    assert lines
    assert {line[-4:] for line in lines} == {"over"}  # what a terminal would show of the line

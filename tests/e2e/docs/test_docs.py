"""The documents are true: commands exist and run, configuration is read, links work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path

import click
import pytest

from tabane.cli.main import main
from tabane.messages import Lang
from tabane.servers.configuration import read_configuration
from tabane.servers.variables import Variables
from tests.e2e.docs.command_pages import LANGUAGES, made
from tests.e2e.docs.pages import PAGES, ROOT, Block, blocks, commands, links, shape
from tests.harness.patience import LONG


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_to_a_file(page: Path) -> None:
    inside = [target.partition("#")[0] for target in links(page) if not re.match(r"[a-z]+:", target)]
    assert [target for target in inside if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("index", ["README.md", "README.ja.md"])
def test_the_index_names_every_page_in_the_language_of_its_reader(index: str) -> None:
    folder = ROOT / "docs"
    names = {page.name for page in folder.glob("*.md")} - {"README.md", "README.ja.md"}
    translated = {name for name in names if name.endswith(".ja.md")}
    if index == "README.md":
        wanted = names - translated
    else:
        wanted = names - {name.replace(".ja.md", ".md") for name in translated}
    assert wanted - set(links(folder / index)) == set()


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_the_readme_is_short(name: str) -> None:
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= 180


def test_both_readmes_and_both_indexes_are_built_alike() -> None:
    for english in (ROOT / "README.md", ROOT / "docs" / "README.md"):
        found = [shape(english), shape(english.with_name("README.ja.md"))]
        assert [(levels, columns) for _, levels, columns in found[:1]] == [
            (levels, columns) for _, levels, columns in found[1:]
        ]


@pytest.mark.parametrize(
    "block", [block for block in blocks() if block.kind == "json"], ids=lambda block: block.name
)
def test_every_json_block_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("servers"), ids=lambda block: block.name)
def test_every_servers_file_shown_is_read_without_a_complaint(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "mcp-servers.json"
    file.write_text(block.text, encoding="utf-8")
    file.chmod(0o600)
    configuration = read_configuration(file, Variables({"GITHUB_TOKEN": "t"}, {}))
    assert [str(warning) for warning in configuration.warnings] == []
    assert [server.name for server in configuration.servers if server.disabled] == []
    assert len(configuration.servers) >= 2


@pytest.mark.parametrize("block", blocks("client"), ids=lambda block: block.name)
def test_what_a_client_is_told_to_start_exists(block: Block) -> None:
    configured = json.loads(block.text)["mcpServers"]["tabane"]
    assert configured["command"] == "tabane"
    assert command_fault(configured["args"]) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    faults = {
        command: fault
        for command in commands(page)
        for words in spelt_out(command)
        if (fault := command_fault(words)) is not None
    }
    assert not faults, faults


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_pages_of_commands_are_those_of_the_help(name: Lang) -> None:
    page = ROOT / "docs" / LANGUAGES[name].file
    again = "write it again: python -m tests.e2e.docs.command_pages"
    assert page.read_text("utf-8") == made(name), again
    shown = {tuple(words[: depth(words)]) for command in commands(page) for words in spelt_out(command)}
    assert sorted(every_command() - shown) == []


def test_both_readmes_show_the_same_blocks() -> None:
    def shape(name: str) -> list[tuple[str, str | None]]:
        return [(block.kind, block.mark) for block in blocks() if block.page.name == name]

    assert shape("README.md") == shape("README.ja.md")


@pytest.mark.heavy("runs what a document says")
@pytest.mark.parametrize("block", blocks("run"), ids=lambda block: block.name)
def test_the_commands_of_a_page_run(block: Block, tmp_path: Path) -> None:
    """Line by line, in a home of their own. uvx is played by the same servers, installed already."""
    programs = tmp_path / "programs"
    programs.mkdir()
    here = Path(sys.executable).parent
    (programs / "tabane").symlink_to(here / "tabane")
    script(programs / "uvx", f'exec "{here}/$1"')
    settings = tmp_path / "tabane.toml"
    settings.write_text("list_wait = 60\n")
    settings.chmod(0o600)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TABANE_")} | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "TABANE_HOME": str(tmp_path / "home"),
        "TABANE_HTTP": "false",
        "TABANE_CONFIG": str(settings),
    }
    try:
        for line in block.text.splitlines():
            done = subprocess.run(
                ["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=LONG, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            if "search" in line or "show" in line:
                assert "get_current_time" in done.stdout
            if "call" in line:
                assert "Asia/Tokyo" in done.stdout
    finally:
        subprocess.run(
            [str(here / "tabane"), "stop"], env=environment, capture_output=True, timeout=LONG, check=False
        )


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def spelt_out(command: str) -> list[list[str]]:
    """The commands that a line of usage stands for: alternatives apart, brackets off, no comment."""
    command = re.sub(r"\s+#.*|[…]", "", command).replace("[", " ").replace("]", " ")
    parts = [part.strip() for part in re.split(r" \| ", command.removeprefix("tabane "))]
    found = []
    for part in parts:
        words = shlex.split(part)
        if "://" in words[0]:
            words = ["read", *words]  # which a URL stands for
        choices = [
            word.split("|") if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word) else [word] for word in words
        ]
        found += [list(chosen) for chosen in product(*choices)]
    return found


def walk(words: list[str]) -> list[click.Command]:
    """The group of all commands, and the commands that the words lead to, as far as they do."""
    found: list[click.Command] = [main]
    for word in words:
        inner = member(found[-1], word)
        if inner is None:
            break
        found.append(inner)
    return found


def member(command: click.Command, name: str) -> click.Command | None:
    return command.get_command(click.Context(command), name) if isinstance(command, click.Group) else None


def depth(words: list[str]) -> int:
    """How many of the words are the names of commands."""
    return len(walk(words)) - 1


def command_fault(words: list[str]) -> str | None:
    """Return what is wrong: no such command, or options that neither it nor a group above has."""
    path = walk(words)
    rest = words[len(path) - 1 :]
    if len(path) == 1 or (isinstance(path[-1], click.Group) and rest and rest[0][0] != "-"):
        return f"no such command: {words}"
    own = rest[: rest.index("--")] if "--" in rest else rest
    given = {word.partition("=")[0] for word in own if word.startswith("--")}
    known = {
        name
        for command in path
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
    }
    unknown = given - known - {"--help"}
    return f"no such options: {sorted(unknown)}" if unknown else None


def every_command() -> set[tuple[str, ...]]:
    """The names of all commands that are shown in the help, groups as their members."""
    found: set[tuple[str, ...]] = set()
    waiting: list[tuple[tuple[str, ...], click.Command]] = [((), main)]
    while waiting:
        names, command = waiting.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
            waiting += [((*names, name), one) for name, one in inner if one and not one.hidden]
        else:
            found.add(names)
    return found

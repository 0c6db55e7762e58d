"""What a model is told before it asks for anything: instructions, and definitions of the hub's own tools."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tabane.hub.clients.disclosure import LISTED, Disclosure, definition
from tabane.hub.process.administration import whole_table
from tabane.messages import say
from tabane.operations import LOCAL, Face, Operation
from tabane.servers.server import Server
from tabane.settings import Mode

TABLE = asyncio.run(whole_table())
OWN = [each for each in TABLE.with_face(Face.MCP) if not each.alias_of]
FIRST = 512  # characters of the instructions that every client shows
LONGEST = 2048  # characters of a description that every client shows


def told(mode: Mode, *servers: Server) -> str:
    """Return the instructions of a hub with these servers."""
    gateway: Any = SimpleNamespace(
        servers={server.name: server for server in servers}, sees=lambda access, server: True
    )
    return Disclosure(TABLE, gateway).instructions(mode, LOCAL)


@pytest.mark.parametrize("mode", ["search", "light", "full"])
def test_the_beginning_of_the_instructions_is_enough_alone(mode: Mode) -> None:
    beginning = told(mode, *(Server(f"server-{number}") for number in range(70)))[:FIRST]
    assert "before saying that you cannot" in beginning
    assert "server__tool" in beginning
    assert {"posts", "documents", "pages"} <= set(beginning.replace(":", " ").replace(",", " ").split())
    named = {"search_everything", "put_document", "read_url_content"}
    wanted = named | ({"search_tools", "describe_tools", "call_tool"} if mode == "search" else set())
    assert all(name in beginning for name in wanted)


def test_a_few_servers_are_named_those_with_a_description_first() -> None:
    servers = [Server(f"server-{number}") for number in range(70)]
    servers[50] = Server("bank", description="Accounts and transfers.\nOf the family.")
    said = told("search", *servers)
    assert "Servers: bank (Accounts and transfers. Of the family), server-0, " in said
    assert said.endswith(" and 64 more.")
    assert len(said) <= FIRST


def test_without_servers_none_are_named() -> None:
    assert "Servers" not in told("search")
    assert "Servers" not in told("search", Server("off", disabled=say("Off.")))


@pytest.mark.parametrize("operation", OWN, ids=lambda each: each.name)
def test_every_own_tool_has_a_title_and_says_what_it_does_to_data(operation: Operation) -> None:
    shown = definition(operation)
    hints: Any = shown["annotations"]
    assert shown["title"]
    assert hints.get("readOnlyHint", False) is operation.read_only
    assert operation.read_only or "destructiveHint" in hints
    assert len(operation.description) <= LONGEST


def test_the_list_leaves_out_what_is_seldom_needed_and_programs_alone_use() -> None:
    def parameters(name: str, **how: bool) -> set[str]:
        shown: Any = definition(next(each for each in OWN if each.name == name), **how)
        return set(shown["inputSchema"]["properties"])

    assert parameters("put_document", brief=True) == {"text", "filepath"}
    assert parameters("put_document") == {"text", "filepath", "file_type", "metadata"}
    assert parameters("search_everything") == {"query", "in", "top_k"}
    assert "match" not in parameters("search_tools")


def test_the_list_of_mode_search_says_no_more_than_definitions_do() -> None:
    for operation in (each for each in OWN if each.name in LISTED):
        brief, whole = ({**definition(operation, brief=brief)} for brief in (True, False))
        schemas: list[Any] = [shown.pop("inputSchema") for shown in (brief, whole)]
        assert brief == whole
        properties, every = (schema.pop("properties") for schema in schemas)
        assert properties.items() <= every.items()
        assert schemas[0] == schemas[1]

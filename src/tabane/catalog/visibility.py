"""Visibility of what upstreams offer: a caller finds what it may call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tabane.catalog.offers.prompts import Prompt
from tabane.catalog.tools.tool import Tool
from tabane.operations import Access, Caller, CallTarget
from tabane.servers.server import Server

START_LOGIN = CallTarget("start_login", source="admin", kind="operation")
"""Stands for the beginning of a login at a server, which is the business of the hub's user."""


class NamedTools(Protocol):
    """Tools by their public names."""

    @property
    def names(self) -> list[str]: ...

    def get(self, alias: str) -> Tool | None: ...


def prompt_target(prompt: Prompt) -> CallTarget:
    """Return a prompt as what a caller wants to call."""
    return CallTarget(prompt.alias, prompt.server, kind="prompt", changes=False, others=prompt.others)


def resource_target(server: str, uri: str) -> CallTarget:
    """Return a resource as what a caller wants to read. ``uri`` is its server's own."""
    return CallTarget(f"{server}__{uri}", server, kind="resource", changes=False)


def method_target(server: str, method: str) -> CallTarget:
    """Return a method that the hub does not know as what a caller wants to call."""
    return CallTarget(f"{server}__{method}", server, kind="method")


def may_find(caller: Caller, target: CallTarget) -> bool:
    """Return whether the caller may find what it could call."""
    return caller.access.everything or caller.access.allows(target)


def sees(access: Access, server: Server, tools: Iterable[Tool] = ()) -> bool:
    """Return whether a server may be shown. ``tools`` are those that are known of it."""
    return (
        access.everything
        or access.sees_server(server.name)
        or (bool(server.namespace) and access.sees_server(server.namespace))
        or any(access.allows(tool.target) for tool in tools)
    )


def visible_tools(access: Access, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that may be called."""
    return [tool for tool in tools if access.everything or access.allows(tool.target)]


def visible_names(access: Access, tools: NamedTools) -> list[str]:
    """Return the public names of the tools that may be called."""
    if access.everything:
        return tools.names
    return [name for name in tools.names if (tool := tools.get(name)) and access.allows(tool.target)]

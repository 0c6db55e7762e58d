"""Analysis of usage: unused tools and their cost, slow tools, failing tools, and use by client; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

LEAST_CALLS = 5
"""Calls of a tool before its latency or its failures say something."""

BYTES_OF_A_TOKEN = 4
"""Bytes of a result that are about one token."""


class OfferedTool(NamedTuple):
    """A tool of a server. ``tokens`` is what its definition costs in a conversation that loads it."""

    name: str
    server: str
    tokens: int


Groups = Iterable[Mapping[str, Any]]


def analyzed(
    offered: list[OfferedTool], used: Set[str], tools: Groups, clients: Groups, most: int
) -> dict[str, Any]:
    """Return the analysis.

    ``used`` are the names of tools that were called, ``tools`` and ``clients`` the usage by each. ``most`` is
    the limit of each list.
    """
    unused = sorted((tool for tool in offered if tool.name not in used), key=lambda t: (-t.tokens, t.name))
    return {
        "offered": {"tools": len(offered), "tokens": sum(tool.tokens for tool in offered)},
        "unused": {"tools": len(unused), "tokens": sum(tool.tokens for tool in unused)},
        "unused_servers": _unused_servers(offered, used)[:most],
        "unused_tools": [tool._asdict() for tool in unused[:most]],
        **_judged([tool for tool in tools if tool["calls"] >= LEAST_CALLS], most),
        "clients": [_client(group) for group in clients][:most],
    }


def _unused_servers(offered: list[OfferedTool], used: Set[str]) -> list[dict[str, Any]]:
    """Return the servers of which no tool was called, the most expensive first."""
    servers: dict[str, list[OfferedTool]] = {}
    for tool in offered:
        servers.setdefault(tool.server, []).append(tool)
    rows = [
        {"server": server, "tools": len(tools), "tokens": sum(tool.tokens for tool in tools)}
        for server, tools in servers.items()
        if not any(tool.name in used for tool in tools)
    ]
    return sorted(rows, key=lambda row: (-int(row["tokens"]), row["server"]))


def _judged(tools: list[Mapping[str, Any]], most: int) -> dict[str, Any]:
    timed = [tool for tool in tools if tool["p95_ms"] is not None]
    slowest = sorted(timed, key=lambda tool: (-tool["p95_ms"], tool["tool"]))[:most]
    failing = sorted(
        (tool for tool in tools if tool["errors"]),
        key=lambda tool: (-tool["errors"] / tool["calls"], -tool["errors"], tool["tool"]),
    )[:most]
    return {
        "slowest": [{name: tool[name] for name in ("tool", "calls", "p50_ms", "p95_ms")} for tool in slowest],
        "failing": [
            {name: tool[name] for name in ("tool", "calls", "errors")}
            | {"share": round(tool["errors"] / tool["calls"], 4)}
            for tool in failing
        ],
    }


def _client(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "client": group["client"],
        "calls": group["calls"],
        "tokens": group["bytes"] // BYTES_OF_A_TOKEN,
        "saved": group["saved"],
    }

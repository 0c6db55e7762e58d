"""Every way of reaching or seeing a thing, as a request of a client; and those that name nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tabane.code.signatures import identifier
from tests.e2e.access.world import DOCUMENT, DOCUMENT_WORD, NOT_RUNNING, SERVERS, Thing
from tests.harness.running_hub import Json

ESCAPED = DOCUMENT.replace("/", "%2F")
MATCHES = ("relevance", "partial", "prefix", "exact", "fuzzy")


@dataclass(frozen=True)
class Way:
    """A request. ``names`` are the texts in it that its answer may repeat.

    ``reaches``: if the thing is allowed, the answer holds its word. ``changes``: only for a thing that
    changes something it is not so (call_readonly_tool).
    """

    method: str
    params: Json
    names: tuple[str, ...] = ()
    reaches: bool = False


def _tool(name: str, arguments: Json | None = None) -> Json:
    return {"name": name, "arguments": arguments or {}}


def spellings(thing: Thing) -> tuple[str, ...]:
    """Return the names by which a tool or prompt is found."""
    return tuple(dict.fromkeys((thing.shown, f"{thing.server}.{thing.own}", f"{thing.server}__{thing.own}")))


def near(name: str) -> tuple[str, ...]:
    """Return names of nothing that are near this one."""
    return (name[:-1], name + "s_", name.replace("_", "-"), name.upper(), name.replace("e", "é"))


def script_way(thing: Thing) -> Way:
    """Return the request of a script that calls a tool."""
    module, function = identifier(thing.server, "server"), identifier(thing.own, "tool")
    code = f"from tools import {module}\nstr(await {module}.{function}())"
    names = (*spellings(thing), f"{module}.{function}", function, thing.own, module, thing.server)
    return Way("tools/call", _tool("run_script", {"code": code}), names, reaches=True)


def tool_ways(thing: Thing) -> Iterator[Way]:
    """Yield the requests of MCP that are about a tool."""
    for name in spellings(thing):
        yield Way("tools/call", _tool(name), (name,), reaches=True)
        yield Way("tools/call", _tool("call_tool", _tool(name)), (name,), reaches=True)
        yield Way("tools/call", _tool("call_readonly_tool", _tool(name)), (name,), reaches=not thing.changes)
        yield Way("tools/get", {"name": name}, (name,), reaches=True)
        yield Way("tools/call", _tool("describe_tools", {"names": [name]}), (name,), reaches=True)
    if not thing.changes:  # others ask first
        yield script_way(thing)
    full = {"names": [thing.shown, "no_such_tool"], "detail": "full"}
    yield Way("tools/call", _tool("describe_tools", full), (thing.shown,), reaches=True)
    yield Way("tools/call", _tool(thing.shown, {"wrong": 1}), (thing.shown,))
    yield Way("tools/call", _tool("call_tool", _tool(thing.shown, {"wrong": 1})), (thing.shown,))
    nested = _tool("call_tool", _tool("call_tool", _tool(thing.shown)))
    yield Way("tools/call", nested, (thing.shown,))
    for name in near(thing.shown):
        yield Way("tools/call", _tool(name), (name,))
        yield Way("tools/call", _tool("call_tool", _tool(name)), (name,))
        yield Way("tools/call", _tool("describe_tools", {"names": [name]}), (name,))
        yield Way("tools/get", {"name": name}, (name,))
    for params in _searches(thing):
        yield Way("tools/call", _tool("search_tools", params), _texts(params))
    for query in (thing.word, thing.own):
        yield Way("tools/call", _tool("search_everything", {"query": query}), (query,))
        only = {"query": query, "in": ["tools"]}
        yield Way("tools/call", _tool("search_everything", only), (query,))


def _searches(thing: Thing) -> Iterator[Json]:
    for match in MATCHES:
        for query in (thing.word, thing.own, thing.shown, thing.shown[:-1]):
            yield {"query": query, "match": match}
    yield {"query": thing.own, "server": thing.server}
    yield {"query": f"{thing.server}.{thing.own}", "limit": 50}


def prompt_ways(thing: Thing) -> Iterator[Way]:
    for name in spellings(thing):
        yield Way("prompts/get", {"name": name, "arguments": {"who": "x"}}, (name,), reaches=True)
        yield Way("completion/complete", _completion("prompt", "name", name), (name,))
    for name in near(thing.shown):
        yield Way("prompts/get", {"name": name}, (name,))
        yield Way("completion/complete", _completion("prompt", "name", name), (name,))


def resource_ways(thing: Thing, *, modern: bool = False) -> Iterator[Way]:
    escaped = f"tabane://upstream/%{ord(thing.server[0]):x}{thing.server[1:]}/{thing.own}"
    for uri in dict.fromkeys(
        (thing.shown, thing.address, thing.address.replace("tabane://u", "TABANE://U"), escaped)
    ):
        yield Way("resources/read", {"uri": uri}, (uri,), reaches=True)
        yield Way("completion/complete", _completion("resource", "uri", uri), (uri,))
        if not modern:
            yield Way("resources/subscribe", {"uri": uri}, (uri,))
    yield Way("resources/read", {"uri": thing.own}, (thing.own,))
    yield Way("resources/read", {"uri": f"{thing.server}://unlisted"}, (f"{thing.server}://unlisted",))


def template_ways(thing: Thing) -> Iterator[Way]:
    for uri in (thing.shown, f"tabane://upstream/{thing.server}/{thing.own}"):
        yield Way("completion/complete", _completion("resource", "uri", uri), (uri,))
    part = thing.own.replace("{number}", "7")
    yield Way("resources/read", {"uri": part}, (part,))


def ways(thing: Thing, *, modern: bool = False) -> Iterator[Way]:
    """Yield every request of MCP about that thing."""
    if thing.kind == "tool":
        yield from tool_ways(thing)
    elif thing.kind == "prompt":
        yield from prompt_ways(thing)
    elif thing.kind == "resource":
        yield from resource_ways(thing, modern=modern)
    else:
        yield from template_ways(thing)


def _completion(kind: str, key: str, name: str) -> Json:
    return {"ref": {"type": f"ref/{kind}", key: name}, "argument": {"name": "who", "value": "z"}}


UNNAMED: Sequence[Way] = (
    *(Way(f"{kind}/list", {}) for kind in ("tools", "prompts", "resources", "resources/templates")),
    Way("tools/call", _tool("search_tools", {"query": ""})),
    Way("tools/call", _tool("search_tools", {"query": "tickets", "limit": 50})),
    Way("tools/call", _tool("search_everything", {"query": "tickets", "top_k": 50})),
    Way("tools/call", _tool("search_everything", {"query": DOCUMENT_WORD}), (DOCUMENT_WORD,)),
    Way("tools/call", _tool("call_tool", _tool("get_document", {"filepath": DOCUMENT})), (DOCUMENT,)),
    Way("tools/call", _tool("search", {"query": DOCUMENT_WORD}), (DOCUMENT_WORD,)),
    Way("tools/call", _tool("search_documents", {"query": DOCUMENT_WORD}), (DOCUMENT_WORD,)),
    Way("tools/call", _tool("list_documents")),
    Way("tools/call", _tool("get_documents_by_prefix", {"prefix": "notes/"})),
    Way("resources/read", {"uri": f"tabane://documents/{DOCUMENT}"}, (DOCUMENT,)),
    Way("resources/read", {"uri": f"TABANE://documents/{ESCAPED}"}, (ESCAPED,)),
    Way("completion/complete", _completion("resource", "uri", "tabane://documents/{key}")),
    Way("completion/complete", _completion("resource", "uri", "tabane://documents/n")),
)  # fmt: skip
"""Requests that name no thing of a server."""


def program_ways(thing: Thing) -> Iterator[Way]:
    """Yield the operations of programs that are about a tool."""
    for name in spellings(thing):
        yield Way("call_tool", _tool(name), (name,), reaches=True)
        yield Way("call_readonly_tool", _tool(name), (name,), reaches=not thing.changes)
        yield Way("execute_parallel", {"requests": [_tool(name), _tool("nobody")]}, (name,), reaches=True)
        # It also tells the server's own name of the tool, which is part of the name that was asked for.
        yield Way("get_tool", {"name": name}, (name, thing.own), reaches=True)
        yield Way("describe_tools", {"names": [name]}, (name,), reaches=True)
    yield Way("call_tool", _tool(thing.shown, {"wrong": 1}), (thing.shown,))
    for name in near(thing.shown):
        yield Way("call_tool", _tool(name), (name,))
        yield Way("execute_parallel", {"requests": [_tool(name)]}, (name,))
        yield Way("get_tool", {"name": name}, (name,))
        yield Way("describe_tools", {"names": [name]}, (name,))
    for params in _searches(thing):
        yield Way("search_tools", params, _texts(params))
    yield Way("search_everything", {"query": thing.word}, (thing.word,))


def server_ways() -> Iterator[Way]:
    """Yield the operations of programs that are about servers, or about nothing."""
    for server in (*SERVERS, *NOT_RUNNING):
        for name in (server, server[:-1]):
            for operation in ("show_server", "server_logs"):
                yield Way(operation, {"name": name}, (name,))
            yield Way("list_tools", {"server": name}, (name,))
            yield Way("call_tool", _tool(f"{name}__nothing"), (f"{name}__nothing",))
    for operation in (
        "list_tools",
        "list_servers",
        "health_check",
        "list_jobs",
        "list_tasks",
        "hub_status",
        "list_watched",
    ):
        yield Way(operation, {})
    yield Way("hub_status", {"settings": True})
    yield Way("search_everything", {"query": "tickets"})
    yield Way("search_tools", {"query": "tickets"})
    yield Way("list_documents", {})
    yield Way("search", {"query": DOCUMENT_WORD}, (DOCUMENT_WORD,))
    yield Way("get_document", {"filepath": DOCUMENT}, (DOCUMENT,))


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of parameters, the longest first."""
    found = [part for part in json.loads(json.dumps(list(value.values()))) if isinstance(part, str)]
    return tuple(sorted(found, key=len, reverse=True))

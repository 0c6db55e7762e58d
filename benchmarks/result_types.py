"""Types learned from results: python -m benchmarks.result_types [--write]

Each tool of real servers and of the hub itself is called three times, with other arguments each time. Servers
that are not installed are left out. The cost of learning is measured apart from the calls, on one thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.report import Goal, goals, machine, publish
from msgspec import Raw
from tests.harness.patience import until
from tests.harness.running_hub import RunningHub, child, running_hub

from tabane.catalog.tools.tool import Tool
from tabane.code.result_types import ALL, LearnedType, ToolKey
from tabane.code.script_values import ToolFailed, tool_value
from tabane.code.signatures import TypeScope, unwrapped
from tabane.errors import TabaneError
from tabane.operations import Caller, Face
from tabane.wire.json import fields

COMMAND = "python -m benchmarks.result_types"
LOCAL = Caller("local", Face.RPC, "program")
NODE = Path(__file__).parents[1] / "build" / "node"
EACH = 3
ROUNDS = 21
CALLS = 400
"""Calls of one round."""

EMPTY = frozenset({"Any", "dict[str, Any]", "list[Any]", "list[dict[str, Any]]"})
"""Types that say nothing of what is in a result."""

Arguments = dict[str, Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts = asyncio.run(typed(Path(folder)))
        costs = asyncio.run(measured(Path(folder) / "costs"))
    called, declared, usable, alone = (counts[name] for name in ("called", "declared", "usable", "alone"))
    page = [
        "## Learned types of results",
        machine(COMMAND),
        goals(
            [
                Goal(
                    "tools with a usable type of results after 3 calls",
                    100 * usable / called,
                    90,
                    " %",
                    least=True,
                ),
                Goal("learning, as a share of the same call without it", costs["share"], 3, " %", digits=2),
            ]
        ),
        f"{called} tools of {counts['servers']} and of the hub were called {EACH} times. {declared} of them "
        f"have a usable type that their server declares. With learned types, {usable} have one; of "
        f"{counts['texts']} it is `str`. If no server declared any, learning alone would give one to "
        f"{alone}. A type is usable if it says what is in the result: `dict[str, Any]` and `list[Any]` are "
        "not.",
        f"A call without learning takes {costs['direct']:.0f} µs of CPU time in the hub, without what its "
        f"server needs. Learning takes {costs['learning']:.1f} µs for each of {CALLS} calls of one tool on "
        f"average. Each of the first {ALL} results is looked at, after its answer, in {costs['first']:.0f} "
        f"µs. Figures are those of the best of {ROUNDS} rounds, because the machine was loaded.",
    ]
    publish("result_types", page, write="--write" in sys.argv)
    print("without a usable type:", ", ".join(counts["missing"]) or "none", file=sys.stderr)
    print("not called three times:", ", ".join(counts["uncalled"]) or "none", file=sys.stderr)


# -- how many tools have a type ------------------------------------------------------------------------


async def typed(folder: Path) -> dict[str, Any]:
    notes, repository = made_notes(folder / "notes"), made_repository(folder / "repository")
    servers = installed(folder, notes, repository)
    found: dict[str, Any] = dict.fromkeys(("called", "declared", "usable", "alone", "texts"), 0)
    found |= {"missing": [], "uncalled": [], "servers": ", ".join(servers)}
    async with running_hub(folder / "hub", servers, list_wait=60, flow_policy="off") as here:
        await here.hub.gateway.wait_listed(LOCAL)
        catalogue = here.hub.gateway.catalogue
        given = arguments(notes, repository)
        for tool in (*catalogue.tools, *catalogue.own):
            alone = await taught(here, tool, given.get(tool.alias, ()))
            if alone is None:
                found["uncalled"].append(tool.alias)
                continue
            declares = says_something(declared(tool))
            learned = None if declares else await shown(here, tool)
            kind = declares or says_something(learned)
            found["called"] += 1
            found["texts"] += learned == {"type": "string"}
            found["declared"] += declares
            found["usable"] += kind
            found["alone"] += says_something(alone)
            if not kind:
                found["missing"].append(tool.alias)
    return found


async def taught(here: RunningHub, tool: Tool, given: tuple[Arguments, ...]) -> Mapping[str, Any] | None:
    """Call a tool three times. Return what was learned of that here; None if it cannot be called."""
    alone = LearnedType(ToolKey("", "", "", ""))
    for each in given:
        body = json.dumps({"name": tool.alias, "arguments": each}).encode()
        try:
            result = bytes(await here.hub.door.invoke(LOCAL, "call_tool", body))
            value = tool_value(Raw(result))
        except (TabaneError, ToolFailed) as failure:
            print(f"{tool.alias}: {failure}", file=sys.stderr)
            return None
        alone.learn(alone.observed(value, hash(result)), hash(result))
    return (alone.schema or {}) if len(given) == EACH else None


async def shown(here: RunningHub, tool: Tool) -> Any:
    """Return the schema that the hub has learned, after it has looked at all results."""
    if declared(tool) is not None:
        return None
    found: list[Any] = []

    def is_known() -> bool:
        learned = here.hub.tools.result_types.of(LOCAL, tool)
        if learned is None or learned.results < EACH:
            return False
        found.append(learned.schema)
        return True

    try:
        await until(is_known, seconds=5)
    except AssertionError:
        return None
    return found[0]


def declared(tool: Tool) -> Any:
    written = fields(tool.definition).get("outputSchema")
    return None if written is None else unwrapped(msgspec.json.decode(written))


def says_something(schema: Any) -> bool:
    return bool(schema) and TypeScope(schema).type_of(schema, "Result") not in EMPTY


# -- what learning costs -------------------------------------------------------------------------------


async def measured(folder: Path) -> dict[str, float]:
    """Return the microseconds of a call, and of learning from it with what the hub does for that."""
    content = [{"type": "text", "text": json.dumps(ISSUES)}]
    result = msgspec.json.encode({"content": content, "structuredContent": ISSUES, "isError": False})
    body = json.dumps({"name": "up__echo", "arguments": ISSUES}).encode()
    direct, first, all_calls = [], [], []
    async with running_hub(folder, {"up": child()}, learn_result_types=False) as here:
        await here.hub.door.invoke(LOCAL, "call_tool", body)
        for _ in range(ROUNDS):
            started = time.thread_time()
            for _ in range(CALLS):
                await here.hub.door.invoke(LOCAL, "call_tool", body)
            direct.append((time.thread_time() - started) / CALLS)
    async with running_hub(folder, {"up": child()}, audit="off") as here:
        await here.hub.gateway.wait_listed(LOCAL)
        tool = here.hub.gateway.catalogue.find("up__echo")
        assert tool is not None
        for number in range(ROUNDS):
            idle = await turns(CALLS, lambda: None)
            note = partial(here.hub.tools.result_types.returned, tool.target, f"key:{number}", result)
            early = await turns(ALL, note)
            later = await turns(CALLS - ALL, note)
            first.append(max(0.0, early / ALL - idle / CALLS))
            all_calls.append(max(0.0, early + later - idle) / CALLS)
    alone, cost = min(direct), min(all_calls)
    return {
        "direct": alone * 1e6,
        "learning": cost * 1e6,
        "share": 100 * cost / alone,
        "first": min(first) * 1e6,
    }


async def turns(count: int, work: Callable[[], None]) -> float:
    """Do something so often, with turns of the loop for what it leaves to be done. Return the CPU time."""
    started = time.thread_time()
    for _ in range(count):
        work()
        for _ in range(3):
            await asyncio.sleep(0)
    return time.thread_time() - started


ISSUES = {
    "total": 5,
    "items": [
        {"id": n, "title": f"Issue {n}", "user": {"login": "ann", "id": n}, "labels": [{"name": "bug"}]}
        for n in range(5)
    ],
}


# -- servers and arguments -----------------------------------------------------------------------------


def installed(folder: Path, notes: Path, repository: Path) -> dict[str, dict[str, Any]]:
    """Return the servers that are installed for the tests."""
    python, node = Path(sys.executable).parent, NODE / "bin"
    path = {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    memory = path | {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    servers: dict[str, dict[str, Any]] = {
        "time": {"command": str(python / "mcp-server-time"), "args": ["--local-timezone", "Asia/Tokyo"]},
        "git": {"command": str(python / "mcp-server-git"), "args": ["--repository", str(repository)]},
        "filesystem": {"command": str(node / "mcp-server-filesystem"), "args": [str(notes)], "env": path},
        "memory": {"command": str(node / "mcp-server-memory"), "env": memory},
        "everything": {"command": str(node / "mcp-server-everything"), "env": path},
    }
    return {name: server for name, server in servers.items() if Path(server["command"]).exists()}


def made_notes(folder: Path) -> Path:
    folder.mkdir()
    for number in range(EACH):
        (folder / f"note{number}.txt").write_text(f"Note {number}\n" * (number + 1))
        (folder / f"folder{number}").mkdir()
        (folder / f"folder{number}" / "inner.txt").write_text("inside\n")
    return folder


def made_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for number in range(EACH + 1):
        (folder / "diary.txt").write_text(f"Day {number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"Day {number}")
        git(folder, "branch", f"day{number}")
    return folder


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    subprocess.run(["git", "-C", str(folder), *author, *words], check=True)


def arguments(notes: Path, repository: Path) -> dict[str, tuple[Arguments, ...]]:
    """Return the arguments of three calls of each tool."""
    return {
        name: tuple(make(number) for number in range(EACH))
        for group in (of_files(notes), of_git(str(repository)), OF_MEMORY, OF_OTHERS, OF_HUB)
        for name, make in group.items()
    }


def of_files(notes: Path) -> dict[str, Any]:
    def file(n: int) -> str:
        return str(notes / f"note{n}.txt")

    def folder(n: int) -> str:
        return str(notes / f"folder{n}")

    edits = [{"oldText": "Note", "newText": "Text"}]
    return {
        "filesystem__read_file": lambda n: {"path": file(n)},
        "filesystem__read_text_file": lambda n: {"path": file(n)},
        "filesystem__read_media_file": lambda n: {"path": file(n)},
        "filesystem__read_multiple_files": lambda n: {"paths": [file(n), file((n + 1) % EACH)]},
        "filesystem__write_file": lambda n: {"path": str(notes / f"new{n}.txt"), "content": "x"},
        "filesystem__edit_file": lambda n: {"path": file(n), "edits": edits, "dryRun": True},
        "filesystem__create_directory": lambda n: {"path": str(notes / f"made{n}")},
        "filesystem__list_directory": lambda n: {"path": folder(n) if n else str(notes)},
        "filesystem__list_directory_with_sizes": lambda n: {"path": folder(n) if n else str(notes)},
        "filesystem__directory_tree": lambda n: {"path": folder(n) if n else str(notes)},
        "filesystem__move_file": lambda n: {
            "source": str(notes / f"new{n}.txt"), "destination": str(notes / f"moved{n}.txt"),
        },
        "filesystem__search_files": lambda n: {"path": str(notes), "pattern": f"**/*{n}*"},
        "filesystem__get_file_info": lambda n: {"path": file(n)},
        "filesystem__list_allowed_directories": lambda n: {},
    }  # fmt: skip


def of_git(path: str) -> dict[str, Any]:
    at = {"repo_path": path}
    return {
        "git__git_status": lambda n: at,
        "git__git_diff_unstaged": lambda n: {**at, "context_lines": n},
        "git__git_diff_staged": lambda n: {**at, "context_lines": n},
        "git__git_diff": lambda n: {**at, "target": f"day{n}"},
        "git__git_add": lambda n: {**at, "files": ["diary.txt"]},
        "git__git_reset": lambda n: at,
        "git__git_log": lambda n: {**at, "max_count": n + 1},
        "git__git_create_branch": lambda n: {**at, "branch_name": f"made{n}"},
        "git__git_checkout": lambda n: {**at, "branch_name": f"day{n}"},
        "git__git_show": lambda n: {**at, "revision": f"day{n}"},
        "git__git_branch": lambda n: {**at, "branch_type": "local"},
    }


OF_MEMORY: dict[str, Any] = {
    "memory__create_entities": lambda n: {
        "entities": [{"name": f"Person {n}", "entityType": "person", "observations": [f"likes {n}"]}]
    },
    "memory__create_relations": lambda n: {
        "relations": [{"from": f"Person {n}", "to": "Person 0", "relationType": f"knows{n}"}]
    },
    "memory__add_observations": lambda n: {
        "observations": [{"entityName": f"Person {n}", "contents": ["is here"]}]
    },
    "memory__read_graph": lambda n: {},
    "memory__search_nodes": lambda n: {"query": f"Person {n}"},
    "memory__open_nodes": lambda n: {"names": [f"Person {n}"]},
    "memory__delete_observations": lambda n: {
        "deletions": [{"entityName": f"Person {n}", "observations": ["is here"]}]
    },
    "memory__delete_relations": lambda n: {
        "relations": [{"from": f"Person {n}", "to": "Person 0", "relationType": f"knows{n}"}]
    },
    "memory__delete_entities": lambda n: {"entityNames": [f"Person {n + 9}"]},
}

OF_OTHERS: dict[str, Any] = {
    "time__get_current_time": lambda n: {"timezone": ("UTC", "Asia/Tokyo", "Europe/Paris")[n]},
    "time__convert_time": lambda n: {
        "source_timezone": "UTC", "time": f"1{n}:00", "target_timezone": "Asia/Tokyo",
    },
    "everything__echo": lambda n: {"message": f"{n}"},
    "everything__get-annotated-message": lambda n: {"messageType": ("error", "success", "debug")[n]},
    "everything__get-env": lambda n: {},
    "everything__get-resource-links": lambda n: {"count": n + 1},
    "everything__get-resource-reference": lambda n: {"resourceType": "Text", "resourceId": n + 1},
    "everything__get-structured-content": lambda n: {"location": ("New York", "Chicago", "Los Angeles")[n]},
    "everything__get-sum": lambda n: {"a": n, "b": 1},
    "everything__get-tiny-image": lambda n: {},
    "everything__toggle-simulated-logging": lambda n: {},
    "everything__toggle-subscriber-updates": lambda n: {},
    "everything__trigger-long-running-operation": lambda n: {"duration": 0.1, "steps": n + 1},
}  # fmt: skip

OF_HUB: dict[str, Any] = {
    "put_document": lambda n: {"filepath": f"notes/{n}", "text": f"About bees, part {n}."},
    "put_documents": lambda n: {"documents": [{"filepath": f"more/{n}", "text": f"About ants {n}."}]},
    "search_documents": lambda n: {"query": ("bees", "ants", "part")[n]},
    "get_document": lambda n: {"filepath": f"more/{n}"},
    "get_documents_by_prefix": lambda n: {"prefix": ("notes", "more", "")[n]},
    "list_documents": lambda n: {"limit": n + 1},
    "get_document_stats": lambda n: {},
    "search_everything": lambda n: {"query": ("bees", "commits", "time")[n]},
    "get_documentation": lambda n: {"section": ("modes.md", "servers.md", "documents.md")[n]},
    "search_posts_by_text": lambda n: {"search_term": f"{n}"},
    "get_status": lambda n: {},
    "get_database_stats": lambda n: {},
    "get_user_stats": lambda n: {},
    "suggest_users": lambda n: {"user_list": [f"user{n}"]},
    "hello": lambda n: {"name": f"name{n}"},
    "get_rate_limit_stats": lambda n: {},
    "delete_document": lambda n: {"filepath": f"notes/{n}"},
}


if __name__ == "__main__":
    main()

"""Files of the benchmark: sets of tools with queries, and tasks over real servers; read and checked.

The tasks are in a folder. It has ``servers.json`` (the servers, and the workplace that each task begins
with), any number of files with tasks, and optionally ``distractors.json``: tools that are listed but do
nothing. Text in braces stands for a place: ``{folder}``, ``{notes}``, ``{repository}``, ``{memory}``. See
docs/bench.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from tabane.errors import CallerError
from tabane.messages import Message, say

Kind = TypeVar("Kind")

MOST_BYTES = 64 << 20
"""Limit of a file."""

_KINDS: Mapping[type, Message] = {str: say("a string"), list: say("an array"), dict: say("an object")}


class DataFileError(CallerError):
    """A file of a benchmark is missing or wrong. The message names the file and the place in it."""


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises DataFileError."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise wrong(file, say("it is larger than {count} {count:byte|bytes}", count=MOST_BYTES))
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise wrong(file, say("{reason}", reason=error.strerror or str(error))) from None
    except (ValueError, RecursionError) as error:
        raise wrong(file, say("it is not JSON: {reason}", reason=str(error))) from None
    if not isinstance(found, dict):
        raise wrong(file, say("it is not a JSON object"))
    return found


def wrong(file: Path, reason: Message) -> DataFileError:
    """Return the error for a file."""
    return DataFileError(say("{file}: {reason}", file=str(file), reason=reason))


class Entry:
    """An object in a file, with its place, such as ``tools[3]``. Members are checked when they are read."""

    def __init__(self, file: Path, place: str, value: Any) -> None:
        self.file, self.place = file, place
        if not isinstance(value, dict):
            raise self.error(say("{place} must be an object", place=place))
        self.value: dict[str, Any] = value

    def get(self, key: str, kind: type[Kind], default: Kind | None = None) -> Kind:
        """Return a member of that type. Raises DataFileError if it is missing or has another type."""
        found = self.value.get(key, default)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            wanted = _KINDS.get(kind, kind.__name__)
            raise self.error(say("{place}.{key} must be {kind}", place=self.place, key=key, kind=wanted))
        return found

    def text(self, key: str) -> str:
        """Return a string that is not empty."""
        found = self.get(key, str)
        if not found.strip():
            raise self.error(say("{place}.{key} must not be empty", place=self.place, key=key))
        return found

    def entries(self, key: str, *, least: int = 1) -> list[Entry]:
        """Return the objects of an array with at least that many."""
        found = self.get(key, list)
        if len(found) < least:
            raise self.error(say("{place}.{key} must not be empty", place=self.place, key=key))
        return [Entry(self.file, f"{self.place}.{key}[{n}]", value) for n, value in enumerate(found)]

    def strings(self, key: str, *, least: int = 1) -> list[str]:
        """Return the strings of an array with at least that many."""
        found: list[Any] = self.get(key, list)
        if len(found) < least or not all(isinstance(each, str) for each in found):
            raise self.error(say("{place}.{key} must be an array of strings", place=self.place, key=key))
        return found

    def error(self, reason: Message) -> DataFileError:
        """Return the error that the file is wrong, with the reason."""
        return wrong(self.file, reason)


Definitions = Mapping[str, Sequence[Mapping[str, Any]]]
"""Definitions of tools as their server lists them, by server."""

MOST_TOOLS, MOST_QUERIES = 20_000, 50_000


@dataclass(frozen=True, slots=True)
class SetQuery:
    """A query, and its gold entries: the ids of the tools that meet each."""

    text: str
    gold: Sequence[frozenset[str]]

    def recall(self, found: Sequence[str], cut: int) -> float:
        """Return the share of gold entries that the first ``cut`` ids meet."""
        first = set(found[:cut])
        return sum(bool(first & ids) for ids in self.gold) / len(self.gold)


@dataclass(frozen=True, slots=True)
class ToolSet:
    """A set. ``ids`` has the id of a tool by its server and name, as they are in ``servers``."""

    name: str
    servers: Definitions
    ids: Mapping[tuple[str, str], str]
    queries: Sequence[SetQuery]


def read_set(file: Path) -> ToolSet:
    """Return the set in a file. Raises DataFileError."""
    root = Entry(file, "$", read_object(file))
    tools, queries = root.entries("tools"), root.entries("queries")
    if len(tools) > MOST_TOOLS or len(queries) > MOST_QUERIES:
        raise root.error(
            say(
                "it has more than {tools} {tools:tool|tools} or {queries} {queries:query|queries}",
                tools=MOST_TOOLS,
                queries=MOST_QUERIES,
            )
        )
    places: dict[str, dict[str, Mapping[str, Any]]] = {}
    ids: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    for entry in tools:
        server, name = _place(entry, places)
        given = entry.text("id")
        if given in used:
            raise entry.error(say("{place}.id is used twice: {id}", place=entry.place, id=given))
        used.add(given)
        ids[server, name] = given
        schema = entry.get("inputSchema", dict, {})
        if not schema:
            members = entry.get("params", dict, {})
            schema = {
                "properties": {
                    key: (value if isinstance(value, dict) else {"description": str(value)})
                    for key, value in members.items()
                }
            }
        places.setdefault(server, {})[name] = {
            "name": name,
            "description": entry.get("description", str, ""),
            "inputSchema": {"type": "object", **schema},
        }
    servers = {server: list(found.values()) for server, found in places.items()}

    return ToolSet(file.stem, servers, ids, [_query(entry, used) for entry in queries])


def _place(entry: Entry, places: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Return a server name that a servers file takes and that has no tool of this name yet, and the name."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", entry.text("server")).strip("-_")[:40] or "server"
    name, server, number = entry.text("name"), plain, 1
    while name in places.get(server, {}):
        number += 1
        server = f"{plain}-{number}"
    return server, name


def _query(entry: Entry, known: set[str]) -> SetQuery:
    gold = []
    for each in entry.entries("gold"):
        ids = frozenset(each.strings("ids"))
        if unknown := sorted(ids - known):
            raise each.error(say("{place}.ids names no tool: {id}", place=each.place, id=unknown[0]))
        gold.append(ids)
    return SetQuery(entry.text("query"), gold)


BUILT_IN = Path(__file__).with_name("data")
"""The tasks that come with Tabane."""

OWN_SERVER = "tabane"
"""The server of the hub's own tools, in the names of expected tools."""

SERVERS, DISTRACTORS = "servers.json", "distractors.json"

Facts = Mapping[str, Any]
TaskLanguage = Literal["en", "ja"]


@dataclass(frozen=True, slots=True)
class TaskStep:
    """A tool to find and call. ``search`` is asked, one of ``tools`` (server/tool) is right.

    ``facts`` are the values that the task gives for it.
    """

    search: str
    tools: Sequence[str]
    facts: Facts


@dataclass(frozen=True, slots=True)
class BenchTask:
    """A task. ``prompt`` is what a user asks. ``checks`` judge the state and the answer at its end.

    ``setup`` adds to the workplace before it begins.
    """

    id: str
    lang: TaskLanguage
    prompt: str
    steps: Sequence[TaskStep]
    checks: Sequence[Mapping[str, Any]]
    setup: Mapping[str, Any] = field(default_factory=dict)

    @property
    def servers(self) -> frozenset[str]:
        """Return the servers that it needs, without the hub itself."""
        names = {tool.partition("/")[0] for step in self.steps for tool in step.tools[:1]}
        return frozenset(names - {OWN_SERVER})

    @property
    def several(self) -> bool:
        """Return whether it needs several calls."""
        return len(self.steps) > 1


@dataclass(frozen=True, slots=True)
class TaskSet:
    """All tasks of a folder, their servers as a servers file has them, and tools that only are listed."""

    tasks: Sequence[BenchTask]
    servers: Mapping[str, Mapping[str, Any]]
    workplace: Mapping[str, Any]
    distractors: Definitions

    def chosen(self, ids: Sequence[str]) -> list[BenchTask]:
        """Return the tasks whose id is or begins with one of ``ids``; all if there are none."""
        return [task for task in self.tasks if not ids or any(task.id.startswith(each) for each in ids)]


def read_tasks(folder: Path) -> TaskSet:
    """Return the tasks in a folder. Raises DataFileError."""
    file = folder / SERVERS
    setting = Entry(file, "$", read_object(file))
    servers = setting.get("servers", dict)
    for name, value in servers.items():
        Entry(file, f"$.servers.{name}", value).text("command")
    tasks: dict[str, BenchTask] = {}
    for path in sorted(folder.glob("*.json")):
        if path.name in (SERVERS, DISTRACTORS):
            continue
        for entry in Entry(path, "$", read_object(path)).entries("tasks"):
            lang = entry.text("lang")
            if lang not in ("en", "ja"):
                raise entry.error(say("{place}.lang must be en or ja", place=entry.place))
            checks = entry.entries("checks")
            for check in checks:
                if len(CHECKED & check.value.keys()) != 1:
                    names = ", ".join(sorted(CHECKED))
                    raise check.error(
                        say("{place} needs exactly one of: {names}", place=check.place, names=names)
                    )
                if (
                    "file" in check.value
                    and not {"equals", "contains", "lacks", "absent"} & check.value.keys()
                ):
                    raise check.error(say("{place} does not say what the file must be", place=check.place))
            task = BenchTask(
                id=entry.text("id"),
                lang=cast(TaskLanguage, lang),
                prompt=entry.text("prompt"),
                steps=[_step(each, servers) for each in entry.entries("steps")],
                checks=[check.value for check in checks],
                setup=entry.get("setup", dict, {}),
            )
            if task.id in tasks:
                raise entry.error(say("{place}.id is used twice: {id}", place=entry.place, id=task.id))
            tasks[task.id] = task
    if not tasks:
        raise wrong(folder, say("it has no file with tasks"))
    workplace = setting.get("workplace", dict, {})
    return TaskSet(list(tasks.values()), servers, workplace, _distractors(folder / DISTRACTORS))


def _step(entry: Entry, servers: Mapping[str, Any]) -> TaskStep:
    tools = entry.strings("tools")
    for tool in tools:
        server, slash, name = tool.partition("/")
        if not slash or not name or (server not in servers and server != OWN_SERVER):
            raise entry.error(
                say("{place}.tools: {tool} is not SERVER/TOOL of a server", place=entry.place, tool=tool)
            )
    return TaskStep(entry.text("search"), tools, entry.get("facts", dict, {}))


CHECKED = frozenset({"file", "folder", "git", "answer", "document"})
"""Subjects of a check: exactly one of these is a member of it."""


def _distractors(file: Path) -> Definitions:
    if not file.exists():
        return {}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in Entry(file, "$", read_object(file)).entries("tools"):
        definition = {key: value for key, value in entry.value.items() if key != "server"}
        found.setdefault(entry.text("server"), []).append({"inputSchema": {"type": "object"}} | definition)
    return found


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with the places in all its texts filled in."""
    text = json.dumps(value, ensure_ascii=False)
    for name, path in places.items():
        text = text.replace(f"{{{name}}}", json.dumps(path, ensure_ascii=False)[1:-1])
    return json.loads(text)

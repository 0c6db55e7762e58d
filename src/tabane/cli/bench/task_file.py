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
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from tabane.errors import CallerError
from tabane.messages import Message, say

Kind = TypeVar("Kind")

MOST_BYTES = 64 << 20
"""Limit of a file."""


class DataFileError(CallerError):
    """A file of a benchmark is missing or wrong. The message names the file and the place in it."""


def read_data(file: Path, kind: type[Kind]) -> Kind:
    """Return the JSON object of a file. Raises DataFileError that names the place of what is wrong."""
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
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise wrong(file, say("{reason}", reason=str(error))) from None


def wrong(file: Path, reason: Message) -> DataFileError:
    """Return the error for a file."""
    return DataFileError(say("{file}: {reason}", file=str(file), reason=reason))


Text = Annotated[str, Meta(pattern=r"\S")]
Definitions = Mapping[str, Sequence[Mapping[str, Any]]]
"""Definitions of tools as their server lists them, by server."""

MOST_TOOLS, MOST_QUERIES = 20_000, 50_000


class ToolEntry(Struct, frozen=True):
    """A tool of a set. ``params`` are texts or schemas by name, for sets without ``inputSchema``."""

    id: Text
    server: Text
    name: Text
    description: str = ""
    inputSchema: dict[str, Any] = {}
    params: dict[str, Any] = {}

    @property
    def definition(self) -> dict[str, Any]:
        """Return the tool as a server lists it."""
        schema = self.inputSchema or {
            "properties": {
                key: value if isinstance(value, dict) else {"description": str(value)}
                for key, value in self.params.items()
            }
        }
        schema = {"type": "object", **schema}
        return {"name": self.name, "description": self.description, "inputSchema": schema}


class GoldEntry(Struct, frozen=True):
    """Tools of which one has to be found."""

    ids: Annotated[frozenset[str], Meta(min_length=1)]


class SetQuery(Struct, frozen=True):
    """A query, and its gold entries: the ids of the tools that meet each."""

    query: Text
    gold: Annotated[list[GoldEntry], Meta(min_length=1)]

    def recall(self, found: Sequence[str], cut: int) -> float:
        """Return the share of gold entries that the first ``cut`` ids meet."""
        first = set(found[:cut])
        return sum(bool(first & each.ids) for each in self.gold) / len(self.gold)


class SetFile(Struct, frozen=True):
    """A file with a set."""

    tools: Annotated[list[ToolEntry], Meta(min_length=1, max_length=MOST_TOOLS)]
    queries: Annotated[list[SetQuery], Meta(min_length=1, max_length=MOST_QUERIES)]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """A set. ``ids`` has the id of a tool by its server and name, as they are in ``servers``."""

    name: str
    servers: Definitions
    ids: Mapping[tuple[str, str], str]
    queries: Sequence[SetQuery]


def read_set(file: Path) -> ToolSet:
    """Return the set in a file. Raises DataFileError."""
    found = read_data(file, SetFile)
    places: dict[str, dict[str, Mapping[str, Any]]] = {}
    ids: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    for number, tool in enumerate(found.tools):
        if tool.id in used:
            place = f"$.tools[{number}]"
            raise wrong(file, say("{place}.id is used twice: {id}", place=place, id=tool.id))
        used.add(tool.id)
        server = _server_of(tool, places)
        ids[server, tool.name] = tool.id
        places.setdefault(server, {})[tool.name] = tool.definition
    for number, query in enumerate(found.queries):
        for at, gold in enumerate(query.gold):
            if unknown := sorted(gold.ids - used):
                place = f"$.queries[{number}].gold[{at}]"
                raise wrong(file, say("{place}.ids names no tool: {id}", place=place, id=unknown[0]))
    servers = {server: list(tools.values()) for server, tools in places.items()}
    return ToolSet(file.stem, servers, ids, found.queries)


def _server_of(tool: ToolEntry, places: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a server name that a servers file takes and that has no tool of this name yet."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", tool.server).strip("-_")[:40] or "server"
    server, number = plain, 1
    while tool.name in places.get(server, {}):
        number += 1
        server = f"{plain}-{number}"
    return server


BUILT_IN = Path(__file__).with_name("data")
"""The tasks that come with Tabane."""

OWN_SERVER = "tabane"
"""The server of the hub's own tools, in the names of expected tools."""

SERVERS, DISTRACTORS = "servers.json", "distractors.json"

Facts = Mapping[str, Any]
TaskLanguage = Literal["en", "ja"]


class TaskStep(Struct, frozen=True):
    """A tool to find and call. ``search`` is asked, one of ``tools`` (server/tool) is right.

    ``facts`` are the values that the task gives for it.
    """

    search: Text
    tools: Annotated[list[Annotated[str, Meta(pattern="^[^/]*/.")]], Meta(min_length=1)]
    facts: dict[str, Any] = {}


class BenchTask(Struct, frozen=True):
    """A task. ``prompt`` is what a user asks. ``checks`` judge the state and the answer at its end.

    ``setup`` adds to the workplace before it begins.
    """

    id: Text
    lang: TaskLanguage
    prompt: Text
    steps: Annotated[list[TaskStep], Meta(min_length=1)]
    checks: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    setup: dict[str, Any] = {}

    @property
    def servers(self) -> frozenset[str]:
        """Return the servers that it needs, without the hub itself."""
        names = {tool.partition("/")[0] for step in self.steps for tool in step.tools[:1]}
        return frozenset(names - {OWN_SERVER})

    @property
    def several(self) -> bool:
        """Return whether it needs several calls."""
        return len(self.steps) > 1

    def check(self, file: Path, place: str, servers: Mapping[str, Any]) -> None:
        """Raise DataFileError for a check without a subject, and for a tool of an unknown server."""
        for number, check in enumerate(self.checks):
            at = f"{place}.checks[{number}]"
            if len(CHECKED & check.keys()) != 1:
                names = ", ".join(sorted(CHECKED))
                raise wrong(file, say("{place} needs exactly one of: {names}", place=at, names=names))
            if "file" in check and not {"equals", "contains", "lacks", "absent"} & check.keys():
                raise wrong(file, say("{place} does not say what the file must be", place=at))
        for number, step in enumerate(self.steps):
            for tool in step.tools:
                if tool.partition("/")[0] not in {*servers, OWN_SERVER}:
                    at = f"{place}.steps[{number}]"
                    raise wrong(
                        file, say("{place}.tools: {tool} is not SERVER/TOOL of a server", place=at, tool=tool)
                    )


CHECKED = frozenset({"file", "folder", "git", "answer", "document"})
"""Subjects of a check: exactly one of these is a member of it."""


class TaskServers(Struct, frozen=True):
    """The servers of tasks as a servers file has them, and what each task begins with."""

    servers: dict[str, dict[str, Any]]
    workplace: dict[str, Any] = {}


class TasksFile(Struct, frozen=True):
    """A file with tasks."""

    tasks: Annotated[list[BenchTask], Meta(min_length=1)]


class DistractorsFile(Struct, frozen=True):
    """A file with tools that only are listed."""

    tools: Annotated[list[dict[str, Any]], Meta(min_length=1)]


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
    setting = read_data(folder / SERVERS, TaskServers)
    for name, server in setting.servers.items():
        command = server.get("command")
        if not command or not isinstance(command, str):
            place = f"$.servers.{name}.command"
            raise wrong(folder / SERVERS, say("{place} must be a string that is not empty", place=place))
    tasks: dict[str, BenchTask] = {}
    for path in sorted(folder.glob("*.json")):
        if path.name in (SERVERS, DISTRACTORS):
            continue
        for number, task in enumerate(read_data(path, TasksFile).tasks):
            place = f"$.tasks[{number}]"
            task.check(path, place, setting.servers)
            if task.id in tasks:
                raise wrong(path, say("{place}.id is used twice: {id}", place=place, id=task.id))
            tasks[task.id] = task
    if not tasks:
        raise wrong(folder, say("it has no file with tasks"))
    return TaskSet(
        list(tasks.values()), setting.servers, setting.workplace, _distractors(folder / DISTRACTORS)
    )


def _distractors(file: Path) -> Definitions:
    if not file.exists():
        return {}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for number, tool in enumerate(read_data(file, DistractorsFile).tools):
        if not isinstance(server := tool.pop("server", None), str):
            place = f"$.tools[{number}].server"
            raise wrong(file, say("{place} must be a string that is not empty", place=place))
        found.setdefault(server, []).append({"inputSchema": {"type": "object"}} | tool)
    return found


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with the places in all its texts filled in."""
    text = json.dumps(value, ensure_ascii=False)
    for name, path in places.items():
        text = text.replace(f"{{{name}}}", json.dumps(path, ensure_ascii=False)[1:-1])
    return json.loads(text)

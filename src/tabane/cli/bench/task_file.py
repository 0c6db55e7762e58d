"""Tasks over real servers: read from a folder, and checked.

A folder has ``servers.json`` (the servers, and the workplace that each task begins with), any number of
files with tasks, and optionally ``distractors.json``: tools that are listed but do nothing. Text in braces
stands for a place: ``{folder}``, ``{notes}``, ``{repository}``, ``{memory}``. See docs/bench.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from tabane.cli.bench.data_file import Entry, read_object, wrong
from tabane.cli.bench.tool_set import Definitions
from tabane.messages import say

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
            task = _task(entry, servers)
            if task.id in tasks:
                raise entry.error(say("{place}.id is used twice: {id}", place=entry.place, id=task.id))
            tasks[task.id] = task
    if not tasks:
        raise wrong(folder, say("it has no file with tasks"))
    workplace = setting.get("workplace", dict, {})
    return TaskSet(list(tasks.values()), servers, workplace, _distractors(folder / DISTRACTORS))


def _task(entry: Entry, servers: Mapping[str, Any]) -> BenchTask:
    lang = entry.text("lang")
    if lang not in ("en", "ja"):
        raise entry.error(say("{place}.lang must be en or ja", place=entry.place))
    checks = entry.entries("checks")
    for check in checks:
        _check(check)
    return BenchTask(
        id=entry.text("id"),
        lang=cast(TaskLanguage, lang),
        prompt=entry.text("prompt"),
        steps=[_step(each, servers) for each in entry.entries("steps")],
        checks=[check.value for check in checks],
        setup=entry.get("setup", dict, {}),
    )


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


def _check(entry: Entry) -> None:
    if len(CHECKED & entry.value.keys()) != 1:
        names = ", ".join(sorted(CHECKED))
        raise entry.error(say("{place} needs exactly one of: {names}", place=entry.place, names=names))
    if "file" in entry.value and not {"equals", "contains", "lacks", "absent"} & entry.value.keys():
        raise entry.error(say("{place} does not say what the file must be", place=entry.place))


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

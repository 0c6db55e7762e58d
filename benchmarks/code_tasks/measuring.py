"""Does tasks in both modes, and counts the tokens that reach the context of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.code_tasks.task import CodeTask
from benchmarks.code_tasks.world import World
from benchmarks.code_tasks.world_hub import WorldHub

from tabane.cli.bench.temporary_hub import Assistant, NoAnswer
from tabane.cli.bench.tokens import PromptTokens, compact

MANY = 10
"""Calls of a task that has many."""

_HANDLE = re.compile(r'read_more \{"handle": "([^"]+)"\}')
_NOTE = re.compile(r"\n\[(?:[\d,]+ of [\d,]+ bytes|This is the last of) .*\]$")


class TaskFailed(Exception):
    """A call of a task has failed."""


@dataclass(slots=True)
class Spent:
    """Tokens of a task in one mode: what is known before, found by searches, written, and read."""

    listed: float = 0
    searching: float = 0
    written: float = 0
    read: float = 0
    calls: int = 0

    @property
    def whole(self) -> float:
        return self.listed + self.searching + self.written + self.read

    @property
    def without_list(self) -> float:
        return self.whole - self.listed


@dataclass(slots=True)
class TaskRun:
    """A task in both modes. ``failures`` says what went wrong, by mode."""

    task: CodeTask
    direct: Spent = field(default_factory=Spent)
    code: Spent = field(default_factory=Spent)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def saving(self) -> float:
        """The share of tokens that mode code saves."""
        return 1 - self.code.whole / self.direct.whole

    @property
    def saving_of_calls(self) -> float:
        """The same without the lists of tools, which are read once in a conversation."""
        return 1 - self.code.without_list / self.direct.without_list


class Places:
    """Puts the places of a world into texts, and takes them out of texts that are counted."""

    def __init__(self, world: World) -> None:
        self._real = {
            "/NOTES": str(world.notes),
            "/REPOSITORY": str(world.repository),
            "http://SITE": world.site,
        }
        self._usual = {
            str(world.notes): "/home/mia/notes",
            str(world.repository): "/home/mia/repository",
            world.site: "https://shop.example",
        }

    def filled(self, text: str) -> str:
        return _replaced(text, self._real)

    def counted(self, text: str) -> str:
        return _replaced(text, self._usual)


def _replaced(text: str, by: dict[str, str]) -> str:
    for old, new in by.items():
        text = text.replace(old, new)
    return text


class ModeClient:
    """A client in one mode, which counts for one task after the other."""

    def __init__(self, client: Assistant, count: PromptTokens, places: Places) -> None:
        self._client, self._count, self._places = client, count, places
        self._listed = count(client.tools()[0]) + count(client.instructions)
        self.spent = Spent()

    def begin(self) -> Spent:
        self.spent = Spent(self._listed)
        return self.spent

    def search(self, queries: Iterable[str]) -> str:
        several = list(queries)
        asked = {"query": several[0]} if len(several) == 1 else {"queries": several}
        written, text = self._ask("search_tools", asked)
        self.spent.searching += written + self._count(self._places.counted(text))
        return text

    def ask(self, tool: str, arguments: dict[str, Any]) -> str:
        """Return the text of a result. Raises TaskFailed."""
        written, text = self._ask(tool, arguments)
        self.spent.written += written
        self.spent.read += self._count(self._places.counted(text))
        return text

    def _ask(self, tool: str, arguments: dict[str, Any]) -> tuple[float, str]:
        filled = json.loads(self._places.filled(json.dumps(arguments, ensure_ascii=False)))
        answer = self._client.call(tool, filled)
        if answer.failed:
            raise TaskFailed(f"{tool}: {answer.text[:600]}")
        asked = self._places.counted(compact({"name": tool, "arguments": filled}))
        return self._count(asked), answer.text


class OneByOne:
    """Calls tools through call_tool, and reads long results to their end."""

    def __init__(self, client: ModeClient) -> None:
        self._client = client

    def __call__(self, name: str, /, **arguments: Any) -> str:
        self._client.spent.calls += 1
        text = self._client.ask("call_tool", {"name": name, "arguments": arguments})
        parts = []
        while more := _HANDLE.search(text):
            parts.append(_NOTE.sub("", text).rstrip("\n"))
            self._client.spent.calls += 1
            text = self._client.ask("read_more", {"handle": more[1]})
        return "\n".join([*parts, _NOTE.sub("", text).rstrip("\n")]) if parts else text


class CodeTaskRunner:
    """Does tasks in a hub."""

    def __init__(self, hub: WorldHub, count: PromptTokens) -> None:
        places = Places(hub.world)
        self._hub = hub
        self._direct, self._code = (ModeClient(hub.modes[mode], count, places) for mode in ("search", "code"))

    def run(self, task: CodeTask) -> TaskRun:
        found = TaskRun(task)
        found.direct = self._direct.begin()
        found.code = self._code.begin()
        wanted = task.outcome(self._hub.world)
        for mode, do in (("direct", self._one_by_one), ("code", self._scripted)):
            self._hub.reset()
            if problem := self._problem(task, wanted, do):
                found.failures[mode] = problem
        return found

    def _problem(self, task: CodeTask, wanted: Any, do: Callable[[CodeTask], Any]) -> str:
        try:
            got = do(task)
        except (TaskFailed, NoAnswer) as error:
            return str(error)
        except (LookupError, TypeError, ValueError, SyntaxError) as error:
            return f"{type(error).__name__}: {error}"
        if got != wanted:
            return f"{got!r} instead of {wanted!r}"
        return "" if task.changed(self._hub) else "not changed as the task says"

    def _one_by_one(self, task: CodeTask) -> Any:
        self._direct.search(task.searches)
        return task.direct(OneByOne(self._direct))

    def _scripted(self, task: CodeTask) -> Any:
        """Run the scripts of a task. What the last one returns is the answer."""
        self._code.search(task.searches)
        text = ""
        for script in task.scripts:
            text = self._code.ask("run_script", {"code": script})
        return task.answer(text)

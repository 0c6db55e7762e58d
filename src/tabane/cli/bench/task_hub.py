"""A hub over the servers of tasks, with the workplace that they share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType

from tabane.cli.bench.checks import documents_in
from tabane.cli.bench.task_file import OWN_SERVER, BenchTask, TaskSet, placed
from tabane.cli.bench.temporary_hub import BenchModel, TemporaryFolder, TemporaryHub
from tabane.cli.bench.tool_site import ToolSite
from tabane.cli.bench.workplace import Workplace, found_servers, names_of

_FOLDER = "/bench"
"""Stands for the temporary folder in texts whose tokens are counted."""


@dataclass(frozen=True, slots=True)
class OpenedTasks:
    """The tasks that can be run, and why the others cannot. ``expected``: public names by server/tool."""

    tasks: Sequence[BenchTask]
    skipped: Mapping[str, str]
    expected: Mapping[str, str]
    tools: int


class TaskHub:
    """The hub, the workplace and the tools that are only listed, while the block runs."""

    def __init__(self, tasks: TaskSet, model: BenchModel) -> None:
        self._set, self._model = tasks, model
        self._stack = ExitStack()

    def __enter__(self) -> TaskHub:
        with ExitStack() as stack:
            self.folder = stack.enter_context(TemporaryFolder())
            site = stack.enter_context(ToolSite(self._set.distractors))
            self.workplace = Workplace(self.folder, self._set.workplace)
            self.workplace.prepare({})
            found, self._missing = found_servers(self._set.servers, self.workplace.places, os.environ)
            self.servers = len(found)
            hub = TemporaryHub(self.folder, found | site.definitions, self._model)
            self.hub = stack.enter_context(hub)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def opened(self, tasks: Sequence[BenchTask]) -> OpenedTasks:
        """Wait for the servers to list their tools, and say which of the tasks can be run."""
        aliases = self.hub.aliases()
        listed = {server for server, _ in aliases}
        skipped: dict[str, str] = {}
        for task in tasks:
            wanted = sorted(task.servers)
            if lacking := names_of(self._missing, wanted):
                skipped[task.id] = lacking
            elif failed := [server for server in wanted if server not in listed]:
                skipped[task.id] = ", ".join(failed)
        expected = {f"{server}/{name}": alias for (server, name), alias in aliases.items()}
        tools = (tool.partition("/") for task in tasks for step in task.steps for tool in step.tools)
        expected |= {f"{server}/{name}": name for server, _, name in tools if server == OWN_SERVER}
        left = [task for task in tasks if task.id not in skipped]
        self.hub.settle([step.search for task in left for step in task.steps])
        return OpenedTasks(left, skipped, expected, len(aliases))

    def prepare(self, task: BenchTask) -> None:
        """Make the workplace as the task begins with it, without documents of the tasks before."""
        self.workplace.prepare(task.setup)
        if any("document" in check for check in task.checks):
            for name in documents_in("", self.hub.call):
                self.hub.call("delete_document", {"filepath": name})

    def placed(self, task: BenchTask) -> BenchTask:
        """Return the task with the places of the workplace filled in."""
        places = self.workplace.places
        steps = [
            replace(step, search=placed(step.search, places), facts=placed(dict(step.facts), places))
            for step in task.steps
        ]
        return replace(task, prompt=placed(task.prompt, places), steps=steps)

    def canonical(self, text: str) -> str:
        """Return a text without the name of the temporary folder, which differs from run to run."""
        return text.replace(str(self.folder), _FOLDER)

"""The scripted agent: no model, deterministic. It sees only what the hub returns.

For each step it searches with the step's words, and takes the first tool of the answer whose required
parameters the facts of the task fill, as describe_tools shows them. A tool that takes none of the facts is
passed over; one without parameters is called if no other fits. The agent measures "right tool found,
arguments valid", and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tabane.cli.bench.agent_results import ScriptedOutcome, StepOutcome
from tabane.cli.bench.answer_texts import names_in, parameters_in
from tabane.cli.bench.arguments import UnfilledParameter, arguments_for
from tabane.cli.bench.assistant import AssistantReply, MethodRefused
from tabane.cli.bench.task_file import BenchTask, TaskStep

CANDIDATES = 3
"""Tools of an answer that the agent reads, one after the other, until the facts fill one."""


_SHOWN = 300


class ToolCaller(Protocol):
    """Calls a tool of the hub's list."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> AssistantReply: ...


class ScriptedAgent:
    """``expected`` maps server/tool to the public name of that tool."""

    def __init__(self, hub: ToolCaller, expected: Mapping[str, str]) -> None:
        self._hub, self._expected = hub, expected

    def run(self, task: BenchTask) -> ScriptedOutcome:
        """Do all steps of a task, also after one that failed."""
        return ScriptedOutcome(task, [self._step(step) for step in task.steps])

    def _step(self, step: TaskStep) -> StepOutcome:
        right = {self._expected[tool] for tool in step.tools if tool in self._expected}
        try:
            found = names_in(self._hub.call("search_tools", {"query": step.search}).text)
            place = next((number for number, name in enumerate(found, 1) if name in right), 0)
            name, arguments = self._chosen(found[:CANDIDATES], step)
            if not name:
                return StepOutcome(place, "", False, False, "no tool that the facts fill")
            answer = self._hub.call("call_tool", {"name": name, "arguments": arguments})
        except MethodRefused as error:
            return StepOutcome(0, "", False, False, error.text())
        error_text = answer.text[:_SHOWN] if answer.failed else ""
        return StepOutcome(place, name, name in right, not answer.failed, error_text)

    def _chosen(self, found: Sequence[str], step: TaskStep) -> tuple[str, dict[str, Any]]:
        """Return the first tool that takes facts, with its arguments; else the first without parameters."""
        without = ""
        for name in found:
            page = self._hub.call("describe_tools", {"names": [name]}).text
            parameters = parameters_in(page, name)
            if not parameters:
                without = without or name
                continue
            try:
                arguments = arguments_for(parameters, step.facts)
            except UnfilledParameter:
                continue
            if arguments or not step.facts:
                return name, arguments
        return without, {}

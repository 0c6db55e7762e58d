"""Tokens of a task by mode: what a model reads and writes on the way of the expected tools.

The same way shows whether a task can be solved at all: its checks must hold at the end.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabane.cli.bench.answer_texts import parameters_in
from tabane.cli.bench.arguments import UnfilledParameter, arguments_for
from tabane.cli.bench.assistant import MethodRefused
from tabane.cli.bench.scripted_agent import ToolCaller
from tabane.cli.bench.task_file import BenchTask, TaskStep
from tabane.cli.bench.tokens import PromptTokens, compact

MODES = ("search", "light", "full")

Canonical = Callable[[str], str]
"""Returns a text without what differs from run to run: the name of the temporary folder."""


@dataclass(frozen=True, slots=True)
class ModeBasis:
    """The tokens that a model reads before a task: the list of tools, and the instructions."""

    listed: float
    instructions: float

    @property
    def tokens(self) -> float:
        return self.listed + self.instructions


@dataclass(frozen=True, slots=True)
class ExpectedWay:
    """A task done with its expected tools: tokens by tool of the hub, and what the servers answered.

    ``problem`` is why it cannot be done; empty if it was.
    """

    task: BenchTask
    searching: float
    describing: float
    calling: float
    answers: str
    problem: str = ""

    def tokens(self, mode: str, basis: ModeBasis) -> float:
        """Return the tokens of the task in a mode, with list and instructions.

        In light mode nothing is searched; in full mode nothing is described either.
        """
        described = self.describing if mode != "full" else 0
        return basis.tokens + self.calling + described + (self.searching if mode == "search" else 0)


class ExpectedPath:
    """Does tasks with the expected tools. ``expected`` maps server/tool to the public name of that tool."""

    def __init__(
        self, hub: ToolCaller, expected: Mapping[str, str], count: PromptTokens, canonical: Canonical
    ) -> None:
        self._hub, self._expected, self._count, self._canonical = hub, expected, count, canonical

    def run(self, task: BenchTask) -> ExpectedWay:
        sums = {"search_tools": 0.0, "describe_tools": 0.0, "call_tool": 0.0}
        answers, problem = [], ""
        for step in task.steps:
            try:
                answers.append(self._step(step, sums))
            except (UnfilledParameter, MethodRefused, LookupError) as error:
                problem = f"{step.tools[0]}: {error}"
                break
        return ExpectedWay(
            task, sums["search_tools"], sums["describe_tools"], sums["call_tool"], "\n".join(answers), problem
        )

    def _step(self, step: TaskStep, sums: dict[str, float]) -> str:
        name = next((self._expected[tool] for tool in step.tools if tool in self._expected), None)
        if name is None:
            raise LookupError("no such tool")
        self._ask("search_tools", {"query": step.search}, sums)
        page = self._ask("describe_tools", {"names": [name]}, sums)
        arguments = arguments_for(parameters_in(page, name), step.facts)
        return self._ask("call_tool", {"name": name, "arguments": arguments}, sums)

    def _ask(self, tool: str, arguments: Mapping[str, Any], sums: dict[str, float]) -> str:
        answer = self._hub.call(tool, arguments)
        if answer.failed:
            raise LookupError(answer.text[:300])
        asked = self._count(self._canonical(compact({"name": tool, "arguments": arguments})))
        sums[tool] += asked + self._count(self._canonical(answer.text))
        return answer.text


def mode_costs(ways: Sequence[ExpectedWay], bases: Mapping[str, ModeBasis]) -> dict[str, dict[str, int]]:
    """Return the mean tokens of a task by mode: of all, with one tool and with several; and of the list."""
    found = {}
    for mode, basis in bases.items():
        one = [way.tokens(mode, basis) for way in ways if not way.task.several]
        several = [way.tokens(mode, basis) for way in ways if way.task.several]
        found[mode] = {
            "list": round(basis.listed),
            "instructions": round(basis.instructions),
            "task": _mean([*one, *several]),
            "task_with_one_tool": _mean(one),
            "task_with_several_tools": _mean(several),
        }
    return found


def _mean(values: Sequence[float]) -> int:
    return round(statistics.fmean(values)) if values else 0

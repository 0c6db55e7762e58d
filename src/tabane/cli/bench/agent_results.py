"""Results of agents, task by task, and their sums by language."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tabane.cli.bench.task_file import BenchTask

ModelEnd = Literal["answered", "turns", "tokens"]


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """A step of the scripted agent. ``place`` is that of the first right tool in the answer, 0 without one.

    ``chosen`` was called, and ``right`` if it was expected. ``valid``: its arguments were accepted, and the
    call succeeded.
    """

    place: int
    chosen: str
    right: bool
    valid: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class ScriptedOutcome:
    """A task of the scripted agent. It says nothing about success of a task: there is no model."""

    task: BenchTask
    steps: Sequence[StepOutcome]

    @property
    def passed(self) -> bool:
        """Return whether each step called a right tool with valid arguments."""
        return all(step.right and step.valid for step in self.steps)

    def as_object(self) -> dict[str, Any]:
        return {"task": self.task.id, "passed": self.passed, "steps": [asdict(step) for step in self.steps]}


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """A task of a real model. ``failed`` are the checks that failed; ``ended`` says why it ended."""

    task: BenchTask
    failed: Sequence[str]
    ended: ModelEnd
    turns: int
    calls: int
    malformed: int
    tokens: float

    @property
    def success(self) -> bool:
        return self.ended == "answered" and not self.failed

    def as_object(self) -> dict[str, Any]:
        fields = {key: value for key, value in asdict(self).items() if key != "task"}
        return {"task": self.task.id, "success": self.success, **fields}


def scripted_sums(outcomes: Sequence[ScriptedOutcome]) -> dict[str, dict[str, int]]:
    """Return the counts of the scripted agent: by language, and of all."""
    return {name: _scripted(part) for name, part in _parts(outcomes)}


def model_sums(outcomes: Sequence[ModelOutcome]) -> dict[str, dict[str, float]]:
    """Return the counts of a model: by language, and of all. Turns and tokens are means over tasks."""
    return {name: _model(part) for name, part in _parts(outcomes)}


def _parts(outcomes: Sequence[Any]) -> Iterable[tuple[str, list[Any]]]:
    for name in ("en", "ja"):
        if part := [each for each in outcomes if each.task.lang == name]:
            yield name, part
    yield "all", list(outcomes)


def _scripted(outcomes: Sequence[ScriptedOutcome]) -> dict[str, int]:
    steps = [step for each in outcomes for step in each.steps]
    several = [each for each in outcomes if each.task.several]
    return {
        "tasks": len(outcomes),
        "passed": sum(each.passed for each in outcomes),
        "tasks_with_several_tools": len(several),
        "passed_with_several_tools": sum(each.passed for each in several),
        "steps": len(steps),
        "right_tool_first": sum(step.place == 1 for step in steps),
        "right_tool_in_answer": sum(step.place > 0 for step in steps),
        "right_tool_valid_arguments": sum(step.right and step.valid for step in steps),
    }


def _model(outcomes: Sequence[ModelOutcome]) -> dict[str, float]:
    several = [each for each in outcomes if each.task.several]
    return {
        "tasks": len(outcomes),
        "task_success": sum(each.success for each in outcomes),
        "tasks_with_several_tools": len(several),
        "task_success_with_several_tools": sum(each.success for each in several),
        "turns": round(_mean(each.turns for each in outcomes), 2),
        "calls": round(_mean(each.calls for each in outcomes), 2),
        "malformed_calls": sum(each.malformed for each in outcomes),
        "tokens": round(_mean(each.tokens for each in outcomes)),
    }


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.fmean(found) if found else 0.0

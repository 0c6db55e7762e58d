"""The benchmark of disclosure: recall on sets, tasks with the scripted agent, tasks with a real model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tabane.cli.bench.agent_results import ModelOutcome, ScriptedOutcome, model_sums, scripted_sums
from tabane.cli.bench.checks import failed_checks
from tabane.cli.bench.endpoint import ChatEndpoint, ChatService
from tabane.cli.bench.model_agent import ConversationLimits, ModelAgent
from tabane.cli.bench.recall import RecallFigures, measure
from tabane.cli.bench.replay import ReplayDifference, ReplayedModel
from tabane.cli.bench.scripted_agent import ScriptedAgent
from tabane.cli.bench.task_costs import MODES, ExpectedPath, ExpectedWay, ModeBasis, mode_costs
from tabane.cli.bench.task_file import BUILT_IN, BenchTask, read_tasks
from tabane.cli.bench.task_hub import OpenedTasks, TaskHub
from tabane.cli.bench.temporary_hub import BenchModel
from tabane.cli.bench.tokens import PromptTokens, compact
from tabane.cli.bench.tool_set import read_set
from tabane.cli.bench.transcripts import ChatModel, TranscriptWriter, read_transcript
from tabane.errors import CallerError, ModelError
from tabane.messages import Message, say

Progress = Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Which tasks are run, and the limits of a model's conversations. ``mode`` is what it is shown."""

    folder: Path = BUILT_IN
    only: Sequence[str] = ()
    mode: str = "search"
    limits: ConversationLimits = field(default_factory=ConversationLimits)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """A real model: a service, or the transcript of one. ``record`` is where a transcript is written."""

    service: ChatService | None = None
    replay: Path | None = None
    record: Path | None = None


@dataclass(slots=True)
class TaskReport:
    """Measurements with tasks. ``skipped`` has what is missing by task, ``tools`` is a count.

    ``error`` is why the model did not answer any more; the tasks before it were measured.
    """

    total: int
    tools: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    scripted: list[ScriptedOutcome] = field(default_factory=list)
    ways: list[ExpectedWay] = field(default_factory=list)
    bases: dict[str, ModeBasis] = field(default_factory=dict)
    modelled: list[ModelOutcome] = field(default_factory=list)
    differences: list[ReplayDifference] | None = None
    model: str = ""
    error: ModelError | None = None

    @property
    def ran(self) -> bool:
        """Return whether any task was run."""
        return bool(self.scripted or self.modelled)

    @property
    def unsolved(self) -> dict[str, str]:
        """Return why tasks cannot be done with their expected tools, by task."""
        return {way.task.id: way.problem for way in self.ways if way.problem}

    @property
    def costs(self) -> dict[str, dict[str, int]]:
        """Return the tokens of a task by mode, of the tasks that can be done."""
        return mode_costs([way for way in self.ways if not way.problem], self.bases)

    def as_object(self) -> dict[str, Any]:
        run = self.total - len(self.skipped)
        found: dict[str, Any] = {
            "total": self.total,
            "run": run,
            "skipped": self.skipped,
            "tools": self.tools,
        }
        if self.bases:
            found["scripted_agent"] = {
                "measures": "right tool found, arguments valid",
                "sums": scripted_sums(self.scripted),
                "tasks": [outcome.as_object() for outcome in self.scripted],
            }
            found["tokens_per_task"] = self.costs
            found["unsolved_with_expected_tools"] = self.unsolved
        if self.model:
            found["model_agent"] = {
                "model": self.model,
                "measures": "task success",
                "sums": model_sums(self.modelled),
                "tasks": [outcome.as_object() for outcome in self.modelled],
            }
        if self.error is not None:
            found["ended_early"] = self.error.text()
        if self.differences is not None:
            found["replay_differences"] = [each.as_object() for each in self.differences]
        return found


def recall_of(
    files: Sequence[Path], model: BenchModel, count: PromptTokens, progress: Progress
) -> list[RecallFigures]:
    """Measure sets. All files are read first. Raises DataFileError."""
    sets = [read_set(file) for file in files]
    found = []
    for each in sets:
        progress(say("Measuring recall on {name}", name=each.name))
        found.append(measure(each, model, count))
    return found


class TaskRun:
    """A run of tasks. Raises DataFileError if a file is wrong, CallerError if no task is chosen."""

    def __init__(
        self, options: TaskOptions, model: BenchModel, count: PromptTokens, progress: Progress
    ) -> None:
        self._options, self._model, self._count, self._progress = options, model, count, progress
        self._set = read_tasks(options.folder)
        self._tasks = self._set.chosen(options.only)
        if not self._tasks:
            raise CallerError(say("No task has an id that begins with {ids}.", ids=", ".join(options.only)))

    def scripted(self) -> TaskReport:
        """Run the scripted agent, and count the tokens of each task done with its expected tools."""
        with TaskHub(self._set, self._model) as bench:
            opened, report = self._open(bench)
            report.bases = self._bases(bench)
            assistant = bench.hub.assistant("--mode", "search")
            agent = ScriptedAgent(assistant, opened.expected)
            path = ExpectedPath(assistant, opened.expected, self._count, bench.canonical)
            for number, task in enumerate(opened.tasks, 1):
                self._say(number, opened, task)
                bench.prepare(task)
                report.scripted.append(agent.run(bench.placed(task)))
                bench.prepare(task)
                report.ways.append(_checked(path.run(bench.placed(task)), bench))
            return report

    def modelled(self, options: ModelOptions) -> TaskReport:
        """Run a real model, or replay its transcript.

        Raises ModelError, and DataFileError if a transcript cannot be read or written.
        """
        with TaskHub(self._set, self._model) as bench, ExitStack() as stack:
            opened, report = self._open(bench)
            model, report.model = _chat_model(options, bench, stack)
            replayed = model if isinstance(model, ReplayedModel) else None
            assistant = bench.hub.assistant("--mode", self._options.mode)
            listed = assistant.tools()[0]
            about = {
                "model": report.model,
                "mode": self._options.mode,
                "instructions": assistant.instructions,
                "tools": listed,
            }
            writer = None
            if options.record is not None:
                writer = TranscriptWriter(options.record, str(bench.folder), about)
                stack.callback(writer.close)
            if replayed is not None:
                replayed.compare_setting(about)
            limits = self._options.limits
            agent = ModelAgent(model, assistant, listed, assistant.instructions, self._count, limits, writer)
            for number, task in enumerate(opened.tasks, 1):
                if replayed is not None and not replayed.has(task.id):
                    report.skipped[task.id] = "not in the transcript"
                    continue
                self._say(number, opened, task)
                try:
                    report.modelled.append(_conversation(agent, task, bench))
                except ModelError as error:
                    # What was measured before is worth something: a run may take hours.
                    if not report.modelled:
                        raise
                    report.error = error
                    break
            report.differences = replayed.differences if replayed is not None else None
            return report

    def _open(self, bench: TaskHub) -> tuple[OpenedTasks, TaskReport]:
        self._progress(say("Starting {count} {count:server|servers}", count=bench.servers))
        opened = bench.opened(self._tasks)
        return opened, TaskReport(len(self._tasks), opened.tools, dict(opened.skipped))

    def _bases(self, bench: TaskHub) -> dict[str, ModeBasis]:
        found = {}
        for mode in MODES:
            assistant = bench.hub.assistant("--mode", mode)
            listed = bench.canonical(compact({"tools": assistant.tools()[0]}))
            found[mode] = ModeBasis(self._count(listed), self._count(assistant.instructions))
        return found

    def _say(self, number: int, opened: OpenedTasks, task: BenchTask) -> None:
        total = len(opened.tasks)
        self._progress(say("Task {number} of {total}: {id}", number=number, total=total, id=task.id))


def _conversation(agent: ModelAgent, task: BenchTask, bench: TaskHub) -> ModelOutcome:
    bench.prepare(task)
    talk = agent.run(task.id, bench.placed(task).prompt)
    failed = failed_checks(task, bench.workplace, talk.answer, bench.hub.call)
    return ModelOutcome(task, failed, talk.ended, talk.turns, talk.calls, talk.malformed, talk.tokens)


def _checked(way: ExpectedWay, bench: TaskHub) -> ExpectedWay:
    """Return the way, with failed checks as its problem. What the servers answered is taken as the answer."""
    if way.problem:
        return way
    failed = failed_checks(way.task, bench.workplace, way.answers, bench.hub.call)
    return replace(way, problem="; ".join(failed))


def _chat_model(options: ModelOptions, bench: TaskHub, stack: ExitStack) -> tuple[ChatModel, str]:
    if options.replay is not None:
        transcript = read_transcript(options.replay, str(bench.folder))
        return ReplayedModel(transcript), str(transcript.about.get("model") or "?")
    if options.service is None:
        raise CallerError(say("Neither an endpoint nor a transcript was given."))
    return stack.enter_context(ChatEndpoint(options.service)), options.service.model


def summary(
    sets: Sequence[RecallFigures], tasks: TaskReport | None, setting: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that was measured as one object."""
    found: dict[str, Any] = {**setting}
    if sets:
        found["sets"] = [each.as_object() for each in sets]
    if tasks is not None:
        found["tasks"] = tasks.as_object()
    return found

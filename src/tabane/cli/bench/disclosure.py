"""The benchmark of disclosure: recall on sets, tasks with the scripted agent, tasks with a real model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tabane.cli.bench.model_agent import (
    ChatEndpoint,
    ChatModel,
    ChatService,
    ConversationLimits,
    ModelAgent,
    ReplayDifference,
    ReplayedModel,
    TranscriptWriter,
    read_transcript,
)
from tabane.cli.bench.scripted_agent import (
    ModelOutcome,
    ScriptedAgent,
    ScriptedOutcome,
    ToolCaller,
    UnfilledParameter,
    arguments_for,
    model_sums,
    parameters_in,
    scripted_sums,
)
from tabane.cli.bench.task_file import BUILT_IN, BenchTask, ToolSet, read_set, read_tasks
from tabane.cli.bench.task_hub import OpenedTasks, TaskHub, ToolSite, failed_checks
from tabane.cli.bench.temporary_hub import BenchModel, MethodRefused, TemporaryFolder, TemporaryHub
from tabane.cli.bench.tokens import PromptTokens, compact
from tabane.errors import CallerError, ModelError
from tabane.messages import Message, say

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
        """The list and the instructions together."""
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
        """Do a task with its expected tools, and return answers, the tokens of each tool and the problem."""
        sums = {"search_tools": 0.0, "describe_tools": 0.0, "call_tool": 0.0}
        answers, problem = [], ""
        for step in task.steps:
            try:
                name = next((self._expected[tool] for tool in step.tools if tool in self._expected), None)
                if name is None:
                    raise LookupError("no such tool")
                self._ask("search_tools", {"query": step.search}, sums)
                page = self._ask("describe_tools", {"names": [name]}, sums)
                arguments = arguments_for(parameters_in(page, name), step.facts)
                answers.append(self._ask("call_tool", {"name": name, "arguments": arguments}, sums))
            except (UnfilledParameter, MethodRefused, LookupError) as error:
                problem = f"{step.tools[0]}: {error}"
                break
        return ExpectedWay(
            task, sums["search_tools"], sums["describe_tools"], sums["call_tool"], "\n".join(answers), problem
        )

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


CUTS = (1, 5, 10)
SAMPLE = 200
"""Queries whose answers, as an assistant gets them, are counted in tokens; of a larger set every n-th."""

MOST_MISSES = 20
"""Queries without any right tool that a result names."""


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """Recall by cut, and tokens of a search: of the query and the answer with the default limit.

    ``ms`` is the median time of a search. ``missed`` are queries without a right tool in the first ten.
    """

    name: str
    tools: int
    queries: int
    recall: Mapping[int, float]
    tokens: float
    ms: float
    missed: Sequence[str] = field(default_factory=tuple)

    def as_object(self) -> dict[str, Any]:
        """Return the figures for ``--json``."""
        recall = {str(cut): round(value, 4) for cut, value in self.recall.items()}
        return {
            "set": self.name,
            "tools": self.tools,
            "queries": self.queries,
            "recall": recall,
            "tokens_per_search": round(self.tokens, 1),
            "median_ms": round(self.ms, 2),
            "missed": list(self.missed),
        }


def measure(given: ToolSet, model: BenchModel, count: PromptTokens) -> RecallFigures:
    """Measure a set with a hub of its own."""
    with (
        TemporaryFolder() as folder,
        ToolSite(given.servers) as site,
        TemporaryHub(folder, site.definitions, model) as hub,
    ):
        ids = {alias: given.ids.get(place, "") for place, alias in hub.aliases().items()}
        hub.settle([query.query for query in given.queries])
        return _measured(given, hub, ids, count)


def _measured(
    given: ToolSet, hub: TemporaryHub, ids: Mapping[str, str], count: PromptTokens
) -> RecallFigures:
    scores: list[list[float]] = []
    times: list[float] = []
    missed: list[str] = []
    for query in given.queries:
        began = time.perf_counter()
        answer = hub.call("search_tools", {"query": query.query, "limit": max(CUTS)})
        found = [ids.get(row["name"], "") for row in answer["results"]]
        times.append((time.perf_counter() - began) * 1e3)
        scores.append([query.recall(found, cut) for cut in CUTS])
        if not scores[-1][-1] and len(missed) < MOST_MISSES:
            missed.append(query.query)
    means = (statistics.fmean(column) for column in zip(*scores, strict=True))
    return RecallFigures(
        name=given.name,
        tools=len(given.ids),
        queries=len(given.queries),
        recall=dict(zip(CUTS, means, strict=True)),
        tokens=_tokens(given, hub, count),
        ms=statistics.median(times),
        missed=missed,
    )


def _tokens(given: ToolSet, hub: TemporaryHub, count: PromptTokens) -> float:
    assistant = hub.assistant("--mode", "search")
    step = -(-len(given.queries) // SAMPLE)
    sizes = []
    for query in given.queries[::step]:
        arguments = {"query": query.query}
        answer = assistant.call("search_tools", arguments).text
        sizes.append(count({"name": "search_tools", "arguments": arguments}) + count(answer))
    return statistics.fmean(sizes)


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
        """Return the report for ``--json``."""
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
            found["replay_differences"] = [asdict(each) for each in self.differences]
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
                    bench.prepare(task)
                    talk = agent.run(task.id, bench.placed(task).prompt)
                    failed = failed_checks(task, bench.workplace, talk.answer, bench.hub.call)
                    report.modelled.append(
                        ModelOutcome(
                            task, failed, talk.ended, talk.turns, talk.calls, talk.malformed, talk.tokens
                        )
                    )
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

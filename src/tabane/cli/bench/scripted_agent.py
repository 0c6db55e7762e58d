"""The scripted agent: no model, deterministic. It sees only what the hub returns.

For each step it searches with the step's words, and takes the first tool of the answer whose required
parameters the facts of the task fill, as describe_tools shows them. A tool that takes none of the facts is
passed over; one without parameters is called if no other fits. The agent measures "right tool found,
arguments valid", and nothing else.

The results of agents and their sums are here too.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from tabane.cli.bench.task_file import BenchTask, TaskStep
from tabane.cli.bench.temporary_hub import AssistantReply, MethodRefused

_NAME = re.compile(r"^\W*(?:\d+(?:\.\d+)?\W+)?(?P<name>[^\W\d][\w.\-/]*)\(")
_ALSO = re.compile(r"^\w+[:：] ?(?P<names>[^\s,]+(?:, [^\s,]+)*)$")
_PARAMETER = re.compile(
    r"^(?P<indent> *)(?P<name>[^\s:?(→…\[]+)(?P<optional>\?)?(?:: (?P<type>\S.*)| — .*)?$"
)
_TYPED = re.compile(r"^ *[^\s:?]+\??: (?:string|number|integer|boolean|object|array|any|null|[\"{\[(\d-])")
_TYPE_END = re.compile(r" = | — | \(>=| \(<=| <|\d?\.\.| [>≥<≤]")
_HEAD = re.compile(r"[\s:]*(?:\[[^\]]*\])?[\s:]*")
_STRING = "string"
"""The type that is meant if a parameter has none."""


def names_in(answer: str) -> list[str]:
    """Return the tools that an answer of search_tools names, best first.

    They are at the start of a line, before their parameters; others may follow in one line.
    """
    lines = answer.splitlines()
    found = [each["name"] for line in lines if (each := _NAME.match(line))]
    if found:
        more = (each["names"].split(", ") for line in lines if (each := _ALSO.match(line)))
        found += [name for names in more for name in names]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class ReadParameter:
    """A parameter as describe_tools shows it. ``members`` are those of an object, or of objects in a list."""

    name: str
    type: str
    required: bool
    members: Sequence[ReadParameter] = field(default_factory=tuple)


def parameters_in(page: str, name: str) -> list[ReadParameter]:
    """Return the parameters in an answer of describe_tools to this one name.

    The first line is the name or the description. If it is the name alone, the description follows.
    """
    lines = page.splitlines()
    if lines and _HEAD.sub("", lines[0].removeprefix(name)) == "":
        lines = lines[1:]
    if lines and not _TYPED.match(lines[0]):
        lines = lines[1:]
    found = (_PARAMETER.match(line) for line in lines)
    return _level([each for each in found if each], 0)


def _level(lines: Sequence[re.Match[str]], indent: int) -> list[ReadParameter]:
    found = []
    for number, line in enumerate(lines):
        if len(line["indent"]) != indent:
            if len(line["indent"]) < indent:
                break
            continue
        inner = lines[number + 1 :]
        deeper = len(inner[0]["indent"]) if inner and len(inner[0]["indent"]) > indent else 0
        end = next((n for n, each in enumerate(inner) if len(each["indent"]) <= indent), len(inner))
        members = _level(inner[:end], deeper) if deeper else ()
        kind = _TYPE_END.split(line["type"] or _STRING, maxsplit=1)[0].strip()
        found.append(ReadParameter(line["name"], kind, not line["optional"], tuple(members)))
    return found


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
        """Return the outcome for ``--json``."""
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
        """Return the outcome for ``--json``."""
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


_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_MISSING = object()
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "any", "null"})


class UnfilledParameter(Exception):
    """The facts have no value for a required parameter."""


def arguments_for(parameters: Sequence[ReadParameter], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments. Raises UnfilledParameter."""
    left = dict(facts)
    found: dict[str, Any] = {}
    for step in (_by_name, _by_words, _by_type):
        for parameter in parameters:
            if parameter.name in found or (step is not _by_name and not parameter.required):
                continue
            key = step(parameter, left, [each for each in parameters if each.name not in found])
            if key is not None:
                found[parameter.name] = _cast(parameter, left.pop(key))
    for parameter in parameters:
        if parameter.required and parameter.name not in found:
            if not parameter.members or not left:
                raise UnfilledParameter(parameter.name)
            value = arguments_for(parameter.members, left)
            found[parameter.name] = [value] if _is_list(parameter.type) else value
    return {each.name: found[each.name] for each in parameters if each.name in found}


def _by_name(
    parameter: ReadParameter, left: Mapping[str, Any], open_parameters: Sequence[ReadParameter]
) -> str | None:
    wanted = _words(parameter.name)
    return next((key for key in left if _words(key) == wanted and _takes(parameter, left[key])), None)


def _by_words(
    parameter: ReadParameter, left: Mapping[str, Any], open_parameters: Sequence[ReadParameter]
) -> str | None:
    def common(key: str) -> float:
        mine, given = set(_words(parameter.name)), set(_words(key))
        return len(mine & given) / len(mine | given)

    fitting = [key for key in left if common(key) > 0 and _takes(parameter, left[key])]
    return max(fitting, key=common, default=None)


def _by_type(
    parameter: ReadParameter, left: Mapping[str, Any], open_parameters: Sequence[ReadParameter]
) -> str | None:
    fitting = [key for key in left if _takes(parameter, left[key])]
    rivals = (
        [each for each in open_parameters if each.required and _takes(each, left[fitting[0]])]
        if fitting
        else []
    )
    return fitting[0] if len(fitting) == len(rivals) == 1 else None


def _takes(parameter: ReadParameter, value: Any) -> bool:
    """Return whether a parameter of this type takes the value, alone or as the only item of a list."""
    return _cast(parameter, value) is not _MISSING


def _cast(parameter: ReadParameter, value: Any) -> Any:
    kind = parameter.type
    if _is_list(kind):
        items = value if isinstance(value, list) else [value]
        item = ReadParameter(parameter.name, kind[:-2], True, parameter.members)
        cast = [_cast(item, each) for each in items]
        return _MISSING if _MISSING in cast else cast
    if isinstance(value, dict):
        if not parameter.members:
            return dict(value) if parameter.type.startswith(("object", "{", "any")) else _MISSING
        try:
            return arguments_for(parameter.members, value)
        except UnfilledParameter:
            return _MISSING
    options = kind.split("|")
    return value if any(_fits(option.strip(), value) for option in options) else _MISSING


def _fits(kind: str, value: Any) -> bool:
    """Return whether a value has that type. A word that is no type is the value of an enum."""
    if kind not in _TYPES:
        return str(value) == kind.strip('"')
    if isinstance(value, bool):
        return kind in ("boolean", "any")
    if isinstance(value, int):
        return kind in ("integer", "number", "any")
    if isinstance(value, float):
        return kind in ("number", "any")
    return isinstance(value, str) and kind in ("string", "any")


def _is_list(kind: str) -> bool:
    return kind.endswith("[]")


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name))


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

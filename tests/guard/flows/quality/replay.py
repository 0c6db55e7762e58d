"""Replay of tasks and attacks against the flow policy, with labels guessed from names and descriptions."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabane.guard.flows.flow_rule import FlowRule
from tabane.guard.flows.tool_labels import DescribedTool, LabelTable, ServerFacts, labels_of_tool
from tabane.guard.flows.trails import Trails
from tabane.operations import Caller, CallTarget, Face
from tabane.servers.labels import CallLabels

FOLDER = Path(__file__).parent
Calls = Sequence[str]
"""Calls of one task: "tool" or "tool parameter,parameter"."""


@dataclass(frozen=True)
class Suite:
    """One suite: its tools, and what is replayed over them."""

    name: str
    tools: dict[str, DescribedTool]
    strangers: frozenset[str]
    benign: list[Calls]
    outward: list[Calls]
    attacks: list[Calls]

    def pairs(self) -> Iterator[tuple[Calls, Calls]]:
        """Yield each task up to its first result of a stranger, with each attack that may follow it."""
        starts = {tuple(start) for task in (*self.benign, *self.outward) if (start := self.start_of(task))}
        for start in sorted(starts):
            for attack in self.attacks:
                yield start, attack

    def start_of(self, task: Calls) -> Calls:
        """Return a task up to the first result that a stranger could have written."""
        for place, call in enumerate(task):
            if call.split()[0] in self.strangers:
                return task[: place + 1]
        return ()


@dataclass(frozen=True)
class Replayed:
    """What became of the tasks and pairs of one file. The lists name what was not as it should be."""

    pairs: int
    missed: list[str]
    benign: int
    asked: list[str]
    outward: int
    outward_asked: int
    questions: int

    @property
    def stopped(self) -> float:
        return 1 - len(self.missed) / self.pairs

    @property
    def asked_share(self) -> float:
        """Return the share of all tasks, outward ones included, that a person is asked about."""
        return (len(self.asked) + self.outward_asked) / (self.benign + self.outward)


def read_suites(file: str) -> list[Suite]:
    found = tomllib.loads((FOLDER / file).read_text())
    return [_suite(each) for each in found["suite"]]


def _suite(given: dict[str, Any]) -> Suite:
    tools = dict(map(_tool, given["tools"]))
    suite = Suite(
        given["name"], tools, frozenset(given["strangers"]), given["benign"], given.get("outward", []),
        given["attacks"],
    )  # fmt: skip
    calls = [call for task in (*suite.benign, *suite.outward, *suite.attacks) for call in task]
    assert all(call.split()[0] in tools for call in calls), suite.name
    return suite


def _tool(text: str) -> tuple[str, DescribedTool]:
    name, description, parameters = (part.strip() for part in text.split("|"))
    return name, DescribedTool(name, "", description, tuple(filter(None, parameters.split(","))))


def replay(suites: Sequence[Suite]) -> Replayed:
    """Replay everything, each task and pair as a client of its own."""
    missed: list[str] = []
    asked: list[str] = []
    pairs = questions = outward_asked = 0
    for suite in suites:
        for start, attack in suite.pairs():
            pairs += 1
            if not _run(suite, [*start, *attack], ordered=len(start)):
                missed.append(f"{suite.name}: {' → '.join((*start, '!', *attack))}")
        for task in suite.benign:
            count = _run(suite, task)
            questions += count
            if count:
                asked.append(f"{suite.name}: {' → '.join(task)}")
        for task in suite.outward:
            count = _run(suite, task, ordered=len(suite.start_of(task)))
            questions += count
            outward_asked += count > 0
    return Replayed(
        pairs,
        missed,
        sum(len(suite.benign) for suite in suites),
        asked,
        sum(len(suite.outward) for suite in suites),
        outward_asked,
        questions,
    )


ORDERED, OWN = "eve31@evil.example", "ann@example.org"
"""What a stranger names in each of its texts, and what the user names."""


def _run(suite: Suite, calls: Calls, ordered: int | None = None) -> int:
    """Make calls as one client, whose user approves everything. Return how often the user was asked.

    Calls from ``ordered`` on do what a stranger wrote, the others what the user said.
    """
    rule = rule_of(suite)
    caller, approved = (
        Caller("local", Face.MCP, "1", client="replay", approval=approval) for approval in ("", "1")
    )
    count = 0
    for place, call in enumerate(calls):
        name, _, given = call.partition(" ")
        target = CallTarget(name, suite.name)
        value = OWN if ordered is None or place < ordered else ORDERED
        arguments = json.dumps(dict.fromkeys(filter(None, given.split(",")), value)).encode()
        held = rule.verdict(caller, target, arguments) is not None
        count += held
        text = f"Do it for {ORDERED}." if name in suite.strangers else "Done."
        result = json.dumps({"content": [{"type": "text", "text": text}]}).encode()
        rule.answered(approved if held else caller, target, arguments, result)
    return count


def rule_of(suite: Suite) -> FlowRule:
    """Return the rule over the tools of a suite, with nothing read yet."""
    table, server = LabelTable(), ServerFacts(suite.name)
    kept: dict[str, CallLabels] = {}

    def labels(target: CallTarget) -> CallLabels:
        if target.name not in kept:
            kept[target.name] = labels_of_tool(suite.tools[target.name], server, table)
        return kept[target.name]

    return FlowRule("ask", Trails(lambda: 1000.0), labels, lambda holder: frozenset(), lambda trail: None)

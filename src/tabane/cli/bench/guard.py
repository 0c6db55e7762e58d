"""The run of `tabane bench guard`: what the scanner finds and what the flow rule asks on sets of others.

Nothing is started and nothing is sent: the scanner reads the definitions, and the rule judges the calls of a
trace with the labels that a hub would give its tools.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import structs

from tabane.cli.bench.guard_set import DefinitionItem, GuardSet, Trace, encoded, read_guard_set
from tabane.cli.output import Terminal, text
from tabane.guard.flows.flow_rule import FlowPolicy, FlowRule
from tabane.guard.flows.tool_labels import LabelTable, ServerFacts, labels_of_tool
from tabane.guard.flows.tool_roles import ToolRoles, roles_of_tool
from tabane.guard.flows.trails import Trails
from tabane.guard.scanner.findings import Finding
from tabane.guard.scanner.scanner import DefinitionScanner
from tabane.hub.people.flows.labels import described_tool
from tabane.messages import Message, say
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.door import CallVerdict
from tabane.servers.labels import CallLabels

CALLER = Caller("local", Face.MCP, "bench", client="bench")
PACE = 2.0
"""Seconds between two calls of a trace, for what the rule counts by time."""

LONGEST_EXCERPT = 160
_DEVIATION = 1.96
"""Standard deviations on each side of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class ScannedItem:
    """A definition of a set, and what was found in it."""

    place: Message
    item: DefinitionItem
    findings: tuple[Finding, ...]

    @property
    def label(self) -> str:
        """The kind of attack that the set gives."""
        return self.item.label

    @property
    def severe(self) -> bool:
        """Whether a hub would hold the definition."""
        return any(finding.severity == "high" for finding in self.findings)


@dataclass(slots=True)
class ReplayedTrace:
    """A trace, and what the rule asked: the tool of each call that did not simply begin, and why.

    ``stopped``: a call of the attacker was asked about or refused. ``approved``: the person approved a wanted
    call before the attacker's last one.
    """

    trace: Trace
    held: list[tuple[str, CallVerdict]] = field(default_factory=list)
    stopped: bool = False
    approved: bool = False

    @property
    def label(self) -> str:
        """The kind of attack that the set gives."""
        return self.trace.item.label

    @property
    def name(self) -> str:
        """The id of the trace, or the place where it is written."""
        return self.trace.item.id or text(self.trace.place)

    @property
    def refused(self) -> int:
        """The calls that nobody may approve."""
        return len(self.held) - self.questions

    @property
    def questions(self) -> int:
        """The questions to the person. A refused call asks nothing."""
        return sum(verdict.action == "ask" for _, verdict in self.held)


Case = TypeVar("Case", ScannedItem, ReplayedTrace)


def scan_definitions(items: Iterable[tuple[Message, DefinitionItem]]) -> Iterator[ScannedItem]:
    """Yield what the scanner finds in each definition."""
    scanner = DefinitionScanner()
    for place, item in items:
        given = item.definition
        body = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else encoded(given)
        own = [name for tool in item.tools if isinstance(name := tool.get("name"), str)]
        found = scanner.scan(item.server, item.kind, item.name, body, item.others, own)
        yield ScannedItem(place, item, found)


def run_traces(traces: Iterable[Trace], policy: FlowPolicy = "ask") -> Iterator[ReplayedTrace]:
    """Yield what the rule says to the calls of each trace, each of them in a conversation of its own.

    The person refuses every call of the attacker that is asked about, and approves every other one.
    """
    table = LabelTable()
    kept: dict[int, KnownTool] = {}  # traces of a suite share their tools
    for trace in traces:
        known: dict[CallTarget, KnownTool] = {}
        for _, tool in trace.calls:
            if id(tool) not in kept:
                described, server = described_tool(tool), ServerFacts(tool.server)
                labels, roles = (
                    labels_of_tool(described, server, table),
                    roles_of_tool(described, server, table),
                )
                kept[id(tool)] = KnownTool(labels, roles)
            known[tool.target] = kept[id(tool)]
        yield _replayed(trace, policy, known)


class KnownTool(NamedTuple):
    """A tool of a set, with its labels and roles."""

    labels: CallLabels
    roles: ToolRoles


class _Clock:
    """Seconds since 1970 of a trace."""

    seconds = 1e9

    def __call__(self) -> float:
        return self.seconds


def _replayed(trace: Trace, policy: FlowPolicy, known: Mapping[CallTarget, KnownTool]) -> ReplayedTrace:
    clock = _Clock()
    rule = FlowRule(
        policy,
        Trails(clock),
        lambda target: known[target].labels,
        lambda holder: (),
        lambda trail: None,
        roles=lambda target: known[target].roles,
    )
    done = ReplayedTrace(trace)
    approved = structs.replace(CALLER, approval="bench")
    last = max((at for at, (call, _) in enumerate(trace.calls) if call.attack), default=-1)
    for at, (call, tool) in enumerate(trace.calls):
        clock.seconds += PACE
        arguments = encoded(call.arguments)
        verdict = rule.verdict(CALLER, tool.target, arguments)
        if verdict is not None:
            done.held.append((tool.alias, verdict))
            if call.attack:
                done.stopped = True
                continue
            if verdict.action == "refuse":
                continue
            done.approved = done.approved or at < last
        caller = CALLER if verdict is None else approved
        rule.answered(caller, tool.target, arguments, call.result_json)
    return done


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a number of cases, with the 95 % interval of Wilson."""

    count: int
    total: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The bounds of the share that would be seen on more cases of the same kinds; None without cases."""
        if not self.total:
            return None
        share, square = self.count / self.total, _DEVIATION**2
        whole = 1 + square / self.total
        middle = (share + square / (2 * self.total)) / whole
        spread = share * (1 - share) / self.total + square / (4 * self.total**2)
        half = _DEVIATION * math.sqrt(spread) / whole
        return max(0.0, middle - half), min(1.0, middle + half)

    @property
    def shown(self) -> str:
        """The share as a cell of a table: ``18/20 90.0% (70–97%)``."""
        if (bounds := self.interval) is None:
            return "-"
        low, high = (round(bound * 100) for bound in bounds)
        return f"{self.count}/{self.total} {self.count / self.total:.1%} ({low}–{high}%)"

    @property
    def row(self) -> dict[str, Any]:
        """The share as JSON."""
        bounds = self.interval
        return {
            "count": self.count,
            "total": self.total,
            "interval": None if bounds is None else [round(bound, 4) for bound in bounds],
        }


def share_of(flags: Iterable[bool]) -> Share:
    """Return the share of those that are true."""
    known = list(flags)
    return Share(sum(known), len(known))


@dataclass(frozen=True, slots=True)
class GuardFigures:
    """The figures of one set, or of all sets together. CPU time is in milliseconds."""

    name: str
    scanned: tuple[ScannedItem, ...]
    replayed: tuple[ReplayedTrace, ...]
    scan_ms: float
    call_ms: float

    def definitions(self, attack: bool) -> list[ScannedItem]:
        """The attacks among the definitions, or the honest ones."""
        return [one for one in self.scanned if one.item.attack is attack]

    def traces(self, attack: bool) -> list[ReplayedTrace]:
        """The attacks among the traces, or the benign ones."""
        return [one for one in self.replayed if one.trace.item.attack is attack]

    @property
    def calls(self) -> int:
        """The number of calls in all traces."""
        return sum(len(one.trace.calls) for one in self.replayed)

    def row(self, show_missed: int) -> dict[str, Any]:
        """Return the figures as JSON, with up to ``show_missed`` wrong cases of each kind."""
        attacks, honest = self.definitions(True), self.definitions(False)
        bad, good = self.traces(True), self.traces(False)
        row: dict[str, Any] = {"set": self.name}
        if self.scanned:
            row["definitions"] = {
                "attacks": _found_row(attacks),
                "labels": {label: _found_row(some) for label, some in _by_label(attacks)},
                "honest": _found_row(honest),
                "ms_per_definition": round(self.scan_ms / len(self.scanned), 3),
            }
        if self.replayed:
            row["traces"] = {
                "stopped": _share_stopped(bad).row,
                "stopped_after_approvals": _share_stopped(_approved(bad)).row,
                "labels": {label: _share_stopped(some).row for label, some in _by_label(bad)},
                "benign_asked": _share_asked(good).row,
                "questions": sum(one.questions for one in good),
                "refused": sum(one.refused for one in good),
                "ms_per_call": round(self.call_ms / max(1, self.calls), 3),
            }
        if show_missed:
            row["missed"] = [case._asdict() for case in wrong_cases(self, show_missed)]
        return row


def measure(found: GuardSet, policy: FlowPolicy) -> GuardFigures:
    """Return the figures of a set."""
    for _ in scan_definitions(found.definitions[:1]):  # loads what is loaded on first use
        pass
    began = time.process_time()
    scanned = tuple(scan_definitions(found.definitions))
    between = time.process_time()
    replayed = tuple(run_traces(found.traces, policy))
    ended = time.process_time()
    return GuardFigures(found.name, scanned, replayed, (between - began) * 1000, (ended - between) * 1000)


def run_guard(terminal: Terminal, sets: Sequence[Path], policy: FlowPolicy, show_missed: int) -> None:
    """Measure the guard on sets, and print the figures."""
    read = [read_guard_set(file) for file in sets]
    with terminal.working(say("Measuring")):
        figures = [measure(each, policy) for each in read]
    if terminal.show_json({"policy": policy, "sets": [each.row(show_missed) for each in figures]}):
        return
    _print_definitions(terminal, figures)
    _print_traces(terminal, figures)
    for each in figures:
        for case in wrong_cases(each, show_missed):
            terminal.say(case.line(each.name))


def _print_definitions(terminal: Terminal, figures: Sequence[GuardFigures]) -> None:
    rows: list[Sequence[object]] = []
    for attack, kind in ((True, say("attacks")), (False, say("honest"))):
        for name, cases in _with_sum((each.name, each.definitions(attack)) for each in figures):
            rows.append((name, kind, *_found(cases)))
            if attack and isinstance(name, str):
                rows.extend((name, label, *_found(some)) for label, some in _by_label(cases))
    terminal.table((say("set"), say("definitions"), say("found"), say("severe")), rows)
    if scanned := sum(len(each.scanned) for each in figures):
        ms = f"{sum(each.scan_ms for each in figures) / scanned:.2f}"
        terminal.note(say("Scanner: {ms} ms of CPU time per definition.", ms=ms))


def _with_sum(sets: Iterable[tuple[str, list[Case]]]) -> list[tuple[Message | str, list[Case]]]:
    """Return the sets that have cases, and all of them together at the end if there are several."""
    found: list[tuple[Message | str, list[Case]]] = [(name, cases) for name, cases in sets if cases]
    if len(found) > 1:
        found.append((say("all"), [case for _, cases in found for case in cases]))
    return found


def _found(items: Sequence[ScannedItem]) -> tuple[str, str]:
    return _share_found(items).shown, _share_severe(items).shown


def _share_found(items: Sequence[ScannedItem]) -> Share:
    return share_of(bool(one.findings) for one in items)


def _share_severe(items: Sequence[ScannedItem]) -> Share:
    return share_of(one.severe for one in items)


def _by_label(items: Sequence[Case]) -> list[tuple[str, list[Case]]]:
    """Return the cases of each label, if the set gives any; none for all sets together."""
    labels = sorted({one.label for one in items if one.label})
    return [(label, [one for one in items if one.label == label]) for label in labels]


def _print_traces(terminal: Terminal, figures: Sequence[GuardFigures]) -> None:
    rows: list[Sequence[object]] = []
    for name, cases in _with_sum((each.name, each.traces(True)) for each in figures):
        rows.append((name, say("attacks"), *_stopped(cases)))
        if isinstance(name, str):
            rows.extend((name, label, *_stopped(some)) for label, some in _by_label(cases))
    terminal.table(
        (say("set"), say("traces"), say("attacks stopped"), say("attacks stopped after approvals")), rows
    )
    benign = [
        (
            name,
            _share_asked(cases).shown,
            f"{sum(one.questions for one in cases) / len(cases):.2f}",
            sum(one.refused for one in cases),
        )
        for name, cases in _with_sum((each.name, each.traces(False)) for each in figures)
    ]
    asked = (say("set"), say("benign traces asked"), say("questions per trace"), say("refused calls"))
    terminal.table(asked, benign)
    if calls := sum(each.calls for each in figures):
        ms = f"{sum(each.call_ms for each in figures) / calls:.2f}"
        terminal.note(say("Flow rule: {ms} ms of CPU time per call.", ms=ms))


def _stopped(traces: Sequence[ReplayedTrace]) -> tuple[str, str]:
    return _share_stopped(traces).shown, _share_stopped(_approved(traces)).shown


def _share_stopped(traces: Sequence[ReplayedTrace]) -> Share:
    return share_of(one.stopped for one in traces)


def _share_asked(traces: Sequence[ReplayedTrace]) -> Share:
    return share_of(bool(one.held) for one in traces)


def _approved(traces: Sequence[ReplayedTrace]) -> list[ReplayedTrace]:
    return [one for one in traces if one.approved]


class WrongCase(NamedTuple):
    """A case in which the guard was wrong. ``text`` is the definition, what was found, asked, or called."""

    wrong: Literal["missed-definition", "false-alarm", "missed-trace", "benign-asked"]
    place: str
    label: str
    text: str

    def line(self, name: str) -> Message:
        """Return a line about the case, which is in the set ``name``."""
        given = {"set": name, "place": self.place, "text": self.text}
        match self.wrong:
            case "missed-definition":
                return say("{set}, {place}: nothing was found in {text}", **given)
            case "false-alarm":
                return say("{set}, {place}: found in an honest definition: {text}", **given)
            case "missed-trace":
                return say("{set}, {place}: the attack was not stopped: {text}", **given)
            case "benign-asked":
                return say("{set}, {place}: asked in a benign trace: {text}", **given)


def wrong_cases(figures: GuardFigures, most: int) -> Iterator[WrongCase]:
    """Yield up to ``most`` cases of each kind in which the guard was wrong."""
    for one in [one for one in figures.definitions(True) if not one.findings][:most]:
        given = one.item.definition
        written = given if isinstance(given, str) else encoded(given).decode("utf-8", "replace")
        yield WrongCase("missed-definition", text(one.place), one.label, written[:LONGEST_EXCERPT])
    for one in [one for one in figures.definitions(False) if one.findings][:most]:
        yield WrongCase("false-alarm", text(one.place), one.label, one.findings[0].excerpt)
    for case in [case for case in figures.traces(True) if not case.stopped][:most]:
        wanted = ", ".join(tool.alias for call, tool in case.trace.calls if call.attack)
        yield WrongCase("missed-trace", case.name, case.label, wanted)
    for case in [case for case in figures.traces(False) if case.held][:most]:
        yield WrongCase("benign-asked", case.name, case.label, text(case.held[0][1].reason))


def _found_row(items: Sequence[ScannedItem]) -> dict[str, Any]:
    return {"found": _share_found(items).row, "severe": _share_severe(items).row}

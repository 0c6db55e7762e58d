"""Sets of `tabane bench guard`: definitions and traces of calls that others wrote, read and checked.

A set is a file of JSON Lines, a JSON array, or a JSON object with ``items``. See docs/bench.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tabane.catalog.tools.tool import Tool, read_tool
from tabane.cli.bench.task_file import MOST_BYTES, DataFileError, wrong
from tabane.guard.scanner.findings import Kind
from tabane.messages import Message, say
from tabane.servers.server import Server

Item = TypeVar("Item")

UNNAMED = "server"
"""The server of what names none."""


class DefinitionItem(Struct, frozen=True):
    """A definition as its server lists it, or a text of instructions or of a skill.

    ``others`` are names of tools of other servers, ``tools`` the other tools of the same server.
    """

    definition: dict[str, Any] | str
    attack: bool
    kind: Kind = "tool"
    server: str = UNNAMED
    others: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    label: str = ""

    @property
    def name(self) -> str:
        """Return its name, or its address; empty if it has none."""
        given = self.definition if isinstance(self.definition, dict) else {}
        found = next((given[key] for key in ("name", "uri", "uriTemplate") if key in given), "")
        return found if isinstance(found, str) else ""


class TraceCall(Struct, frozen=True):
    """A call of a trace and what the tool returned. ``attack``: the attacker wants it, not the user."""

    tool: str
    server: str = ""
    arguments: dict[str, Any] = {}
    result: Any = ""
    attack: bool = False

    @property
    def result_json(self) -> bytes:
        """Return the result as a server gives it: a text, and a value that is no text as structured content.

        An object with a list ``content`` is a result already.
        """
        given = self.result
        if isinstance(given, dict) and isinstance(given.get("content"), list):
            return encoded(given)
        if isinstance(given, str):
            return encoded({"content": [{"type": "text", "text": given}]})
        text = json.dumps(given, ensure_ascii=False, indent=2)
        structured = given if isinstance(given, dict) else {"result": given}
        return encoded({"content": [{"type": "text", "text": text}], "structuredContent": structured})


class TraceItem(Struct, frozen=True):
    """The calls of one conversation. Without ``tools`` it uses those that the set gives for its suite."""

    calls: tuple[TraceCall, ...]
    attack: bool
    id: str = ""
    label: str = ""
    suite: str = ""
    tools: tuple[dict[str, Any], ...] | UnsetType = UNSET


class SuiteTools(Struct, frozen=True):
    """The tools of all traces of a suite."""

    tools: tuple[dict[str, Any], ...]
    suite: str = ""


class TraceTools:
    """The tools of a trace, found by name, and by server if the call says which."""

    def __init__(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        self._tools: dict[tuple[str, str], Tool] = {}
        for given in definitions:
            server = given.get("server", UNNAMED)
            name, owner = given.get("name"), server if isinstance(server, str) and server else UNNAMED
            tool = read_tool(encoded(given), Server(owner), f"{owner}__{name}")
            if tool is not None:
                self._tools[owner, tool.name] = tool
        self._by_name = {name: tool for (_, name), tool in reversed(self._tools.items())}

    def find(self, call: TraceCall) -> Tool | None:
        """Return the tool of a call; None if there is none."""
        return self._tools.get((call.server, call.tool)) if call.server else self._by_name.get(call.tool)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace with its tools, and the place where it is written."""

    place: Message
    item: TraceItem
    calls: tuple[tuple[TraceCall, Tool], ...]


@dataclass(slots=True)
class GuardSet:
    """A set, and where each of its definitions is written."""

    name: str
    definitions: list[tuple[Message, DefinitionItem]] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)


def read_guard_set(file: Path) -> GuardSet:
    """Return the set in a file. Raises DataFileError that names the line or the item, and the member."""
    found = GuardSet(file.stem)
    suites: dict[str, TraceTools] = {}
    traces: list[tuple[Message, TraceItem]] = []
    for place, given in _items(file):
        if not isinstance(given, dict):
            raise _at(file, place, say("expected a JSON object"))
        if "definition" in given:
            found.definitions.append((place, _converted(file, place, given, DefinitionItem)))
        elif "calls" in given:
            traces.append((place, _converted(file, place, given, TraceItem)))
        elif "tools" in given:
            shared = _converted(file, place, given, SuiteTools)
            suites[shared.suite] = TraceTools(shared.tools)
        else:
            raise _at(file, place, say("expected a member “definition”, “calls” or “tools”"))
    found.traces.extend(_trace(file, place, item, suites) for place, item in traces)
    if not found.definitions and not found.traces:
        raise wrong(file, say("it holds no definitions and no traces"))
    return found


def encoded(value: object) -> bytes:
    """Return a value as JSON. Lone surrogates stay, as servers may send them."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _items(file: Path) -> Iterator[tuple[Message, Any]]:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise wrong(file, say("it is larger than {count} {count:byte|bytes}", count=MOST_BYTES))
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise wrong(file, say("{reason}", reason=error.strerror or str(error))) from None
    except ValueError as error:
        raise wrong(file, say("it is not UTF-8: {reason}", reason=str(error))) from None
    whole = _whole(file, text)
    if whole is not None:
        for number, item in enumerate(whole, 1):
            yield say("item {number}", number=number), item
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = say("line {number}", number=number)
            try:
                item = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _at(file, place, say("it is not JSON: {reason}", reason=str(error))) from None
            yield place, item


def _whole(file: Path, text: str) -> list[Any] | None:
    """Return the items of a file that is one JSON value; None if it is JSON Lines."""
    start = text.lstrip()[:1]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if start == "[":
            raise wrong(file, say("it is not JSON: {reason}", reason=str(error))) from None
        return None
    if isinstance(found, dict):
        found = found.get("items")
    return found if isinstance(found, list) else None


def _converted(file: Path, place: Message, given: Mapping[str, Any], kind: type[Item]) -> Item:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _at(file, place, say("{reason}", reason=str(error))) from None


def _trace(file: Path, place: Message, item: TraceItem, suites: Mapping[str, TraceTools]) -> Trace:
    tools = suites.get(item.suite) if item.tools is UNSET else TraceTools(item.tools)
    if tools is None:
        raise _at(file, place, say("it has no tools, and the set gives none for its suite"))
    if item.attack != any(call.attack for call in item.calls):
        if item.attack:
            raise _at(file, place, say("it is an attack, but none of its calls has “attack”: true"))
        raise _at(file, place, say("it is no attack, but one of its calls has “attack”: true"))
    calls: list[tuple[TraceCall, Tool]] = []
    for number, call in enumerate(item.calls):
        tool = tools.find(call)
        if tool is None:
            where = f"$.calls[{number}].tool"
            raise _at(file, place, say("there is no tool {name} - at `{where}`", name=call.tool, where=where))
        calls.append((call, tool))
    return Trace(place, item, tuple(calls))


def _at(file: Path, place: Message, reason: Message) -> DataFileError:
    return wrong(file, say("{place}: {reason}", place=place, reason=reason))

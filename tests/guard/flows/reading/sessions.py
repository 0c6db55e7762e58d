"""Replay of reading sessions against the flow policy: ordinary ones, and ones in which data is carried out.

A step is "who | what is given | what comes back". Lines of the result end with a space and "/ " in the file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tabane.errors import ReadError
from tabane.guard.flows.flow_rule import FlowPolicy, FlowRule, labels_of_operation
from tabane.guard.flows.tool_labels import DescribedTool, LabelTable, ServerFacts, labels_of_tool
from tabane.guard.flows.trails import Trails
from tabane.operations import Caller, CallTarget, Face
from tabane.reader.guard import target as reader_target
from tabane.servers.labels import UNTRUSTED, CallLabels

FOLDER = Path(__file__).parent


class Kind(NamedTuple):
    """A tool: its name, its own source or its server, and how an argument becomes its arguments."""

    name: str
    source: str
    arguments: Callable[[str], dict[str, Any]]


def _one(parameter: str, **more: Any) -> Callable[[str], dict[str, Any]]:
    return lambda given: {parameter: given, **more}


KINDS = {
    "notes": Kind("search_documents", "documents", _one("query")),
    "all": Kind("search_everything", "hub", _one("query")),
    "posts": Kind("search_similar", "posts", _one("query")),
    "doc": Kind("get_document", "documents", _one("filepath")),
    "save": Kind("put_document", "documents", _one("text", filepath="new.md")),
    "read": Kind("read_url_content", "pages", _one("url")),
    "more": Kind("read_url_content", "pages", _one("url", cursor="c")),
    "refresh": Kind("read_url_content", "pages", _one("url", refresh=True)),
    "keep": Kind("remember_url", "pages", _one("url")),
    "web": Kind("brave_web_search", "brave", _one("query", count=10)),
    "fetch": Kind("fetch", "fetch", _one("url", max_length=5000)),
    "extract": Kind("tavily-extract", "tavily", lambda given: {"urls": given.split()}),
    "post": Kind("playwright_post", "playwright", lambda given: {"url": given.split()[0], "value": given}),
    "inbox": Kind("read_inbox", "mail", _one("folder")),
    "file": Kind("read_text_file", "files", _one("path")),
    "write": Kind("write_file", "files", _one("content", path="x.txt")),
    "echo": Kind("convert", "tools", _one("text")),
}  # fmt: skip
DESCRIBED = {
    "brave_web_search": "Searches the web.", "read_inbox": "Reads the messages of the inbox.",
    "read_text_file": "Reads a file of the user.", "write_file": "Writes a file.",
    "convert": "Decodes or joins texts.",
}  # fmt: skip
PACKAGES = {
    "brave": "@brave/brave-search-mcp-server", "fetch": "mcp-server-fetch", "tavily": "tavily-mcp",
    "playwright": "@executeautomation/playwright-mcp-server",
}  # fmt: skip


class Step(NamedTuple):
    kind: str
    given: str
    result: str
    stranger: bool


@dataclass(frozen=True)
class Session:
    """``stranger`` results of the hub's own sources are documents that hold something untrusted."""

    name: str
    steps: tuple[Step, ...]


def read_sessions(file: str) -> list[Session]:
    """Return the sessions of a file. Those of a list of addresses are one for each."""
    found = tomllib.loads((FOLDER / file).read_text("utf-8"))
    return [_session(each["name"], each["steps"]) for each in found["session"]] + [
        _session(f"{each['name']}: {value}", [step.replace("{}", value) for step in each["steps"]])
        for each in found.get("each", ())
        for value in each["values"]
    ]


def _session(name: str, steps: list[str]) -> Session:
    return Session(name, tuple(_step(step) for step in steps))


def _step(text: str) -> Step:
    kind, given, result = ([*f"{text} | | ".split("|"), "", ""])[:3]
    kind = kind.strip()
    return Step(kind.rstrip("!"), given.strip(), result.strip().replace(" / ", "\n"), kind.endswith("!"))


class Replay:
    """One hub, whose callers make the calls of sessions."""

    def __init__(self, policy: FlowPolicy = "ask") -> None:
        self._table = LabelTable()
        self.rule = FlowRule(
            policy, Trails(lambda: 1000.0), self._labels, lambda holder: (), lambda trail: None, sent
        )

    def stopped(self, session: Session) -> list[int]:
        """Return which steps of a session a person would be asked about; those are not made."""
        caller = Caller("local", Face.MCP, "1", client=session.name)
        return [number for number, step in enumerate(session.steps) if self._is_stopped(caller, step)]

    def _is_stopped(self, caller: Caller, step: Step) -> bool:
        kind = KINDS[step.kind]
        own = step.kind in ("notes", "all", "posts", "doc", "save", "read", "more", "refresh", "keep")
        target = CallTarget(kind.name if own else f"{kind.source}__{kind.name}", "" if own else kind.source,
                            source=kind.source if own else "")  # fmt: skip
        arguments = json.dumps(kind.arguments(step.given), ensure_ascii=False).encode()
        if self.rule.verdict(caller, target, arguments) is not None:
            return True
        if step.stranger:
            self.rule.note(caller, UNTRUSTED, "documents", "a document")
        content = [{"type": "text", "text": step.result}]
        body = json.dumps({"content": content}, ensure_ascii=len(step.result) % 2 == 0).encode()
        self.rule.answered(caller, target, arguments, body)
        return False

    def _labels(self, target: CallTarget) -> CallLabels:
        if not target.server:
            return labels_of_operation(target)
        name = target.name.removeprefix(f"{target.server}__")
        facts = ServerFacts(target.server, (PACKAGES.get(target.server, ""),))
        return labels_of_tool(DescribedTool(name, "", DESCRIBED.get(name, "")), facts, self._table)


def sent(address: str) -> str:
    """Return an address as the reader sends it."""
    try:
        return reader_target(address).url
    except ReadError:
        return ""


def stopped(sessions: list[Session]) -> Iterator[tuple[Session, list[int]]]:
    """Yield the sessions that are stopped, each a client of its own, and the steps that are not made."""
    for session in sessions:
        if steps := Replay().stopped(session):
            yield session, steps

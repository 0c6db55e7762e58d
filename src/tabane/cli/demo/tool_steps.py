"""Steps with the tools of real servers: listed, searched, described and called."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabane.cli.bench.assistant import Assistant, AssistantReply, NoAnswer
from tabane.cli.demo.sample_servers import COMMITS
from tabane.cli.demo.steps import DemoPage, StepFunction, duration, lacking, step
from tabane.messages import Message, say

LISTING = 90.0
"""Time limit for all servers to start and list their tools, in seconds."""

DIARY = "束ねる日記: the hub wrote this. 🎋\n"

SEARCHES = (
    ("ファイルを書く", "filesystem__write_file"),
    ("write a file", "filesystem__write_file"),
    ("今何時", "time__get_current_time"),
    ("what time is it in Tokyo", "time__get_current_time"),
    ("リポジトリの履歴", "git__git_log"),
    ("commit history of a repository", "git__git_log"),
    ("覚えたことを検索", "memory__search_nodes"),
    ("add two numbers", "everything__get-sum"),
)
"""Queries, and the tool that must be among the results."""


class ToolsChapter:
    """Shows the tools of ``servers``, whose data is in ``folder``.

    ``explain`` returns the reason if a server lists no tools.
    """

    def __init__(
        self,
        page: DemoPage,
        assistant: Assistant,
        servers: list[str],
        folder: Path,
        explain: Callable[[str], str] = lambda server: "",
    ) -> None:
        self._page = page
        self._assistant = assistant
        self._servers = servers
        self._folder = folder
        self._explain = explain
        self._times: list[float] = []

    def listing(self, whole: Assistant) -> None:
        """Wait until every server has listed its tools, and compare the list with search mode's.

        ``whole`` is connected in full mode.
        """
        began = time.monotonic()
        tools, answer, counts = self._wait_for_lists(whole, began + LISTING)
        for name in self._servers:
            if counts[name]:
                self._page.done(name, say("{count} {count:tool|tools}", count=counts[name]))
            else:
                self._page.failed(name, say("listed no tools within {seconds:.0f} s", seconds=LISTING))
                self._page.aside(self._explain(name))
        if all(counts.values()):
            self._page.aside(say("all lists after {time}", time=duration(time.monotonic() - began)))
        self._page.chapter(say("Size of the assistant's context (tokens are estimated as bytes/4)"))
        self._savings(len(tools), answer.size)

    def searches(self) -> None:
        """Ask in Japanese and English; each time the right tool must be among the five answers."""
        self._page.chapter(say("It searches, in Japanese and in English"))
        for query, expected in SEARCHES:
            if self._has(expected):
                self._step(
                    f"「{query}」" if not query.isascii() else f'"{query}"', self._search(query, expected)
                )

    def schema(self) -> None:
        """Read the schema of the first tool there is."""
        self._page.chapter(say("It reads the schema of the tool it found"))
        name = next((name for _, name in SEARCHES if self._has(name)), "")
        if name:
            self._step("describe_tools", self._describe(name))

    def calls(self) -> None:
        """Call one or two tools of each server, and check the results."""
        self._page.chapter(say("It calls tools and checks their effects"))
        for server, tell in (
            ("filesystem", self._files),
            ("time", self._clock),
            ("git", self._history),
            ("memory", self._memory),
            ("everything", self._sum),
        ):
            if server in self._servers:
                tell()
        self._slip()
        if self._times:
            median = duration(statistics.median(self._times))
            line = say(
                "{count} {count:call|calls}: median {median}, slowest {slowest}",
                count=len(self._times),
                median=median,
                slowest=duration(max(self._times)),
            )
            self._page.aside(line)

    def _wait_for_lists(
        self, whole: Assistant, deadline: float
    ) -> tuple[list[dict[str, Any]], AssistantReply, dict[str, int]]:
        while True:
            tools, answer = whole.tools()
            names = [tool["name"] for tool in tools]
            counts = {server: sum(n.startswith(f"{server}__") for n in names) for server in self._servers}
            if all(counts.values()) or time.monotonic() > deadline:
                return tools, answer, counts
            time.sleep(0.2)

    def _savings(self, count: int, size: int) -> None:
        tools, answer = self._assistant.tools()
        self._page.done(say("every tool, with its schema").render(self._page.lang), _cost(count, size))
        self._page.done(say("Tabane's search mode").render(self._page.lang), _cost(len(tools), answer.size))
        saved = say("{share:.0%} less, in each assistant, at each turn", share=1 - answer.size / size)
        self._page.aside(saved)

    def _search(self, query: str, expected: str) -> Callable[[], tuple[str, float]]:
        def run() -> tuple[str, float]:
            answer = self._assistant.ask("search_tools", {"query": query})
            found = next((line for line in answer.text.splitlines() if f"{expected}(" in line), None)
            if found is None:
                raise lacking(expected, answer)
            return found[found.index(expected) :], answer.seconds

        return run

    def _describe(self, name: str) -> Callable[[], tuple[Message, float]]:
        def run() -> tuple[Message, float]:
            # Asked by its other name, because the page of a tool does not repeat the name that was asked.
            answer = self._assistant.ask("describe_tools", {"names": [name.replace("__", ".", 1)]})
            if name not in answer.text:
                raise lacking(name, answer)
            self._page.aside(answer.text)
            return say(
                "{tool}, ~{tokens} {tokens:token|tokens}", tool=name, tokens=len(answer.text.encode()) // 4
            ), answer.seconds

        return run

    def _files(self) -> None:
        path = self._folder / "notes" / "diary.txt"

        def write() -> tuple[Message, float]:
            answer = self._call("filesystem__write_file", {"path": str(path), "content": DIARY})
            if path.read_text(encoding="utf-8") != DIARY:
                raise NoAnswer(say("The file does not contain what was written."))
            return say("wrote {file}; it is on the disk", file=path.name), answer.seconds

        def read() -> tuple[Message, float]:
            answer = self._call("filesystem__read_text_file", {"path": str(path)})
            if answer.text != DIARY:
                raise NoAnswer(
                    say(
                        "The text that was read differs from the text that was written: {text}",
                        text=answer.text,
                    )
                )
            return say(
                "read it back: equal, {size} {size:byte|bytes}", size=len(DIARY.encode())
            ), answer.seconds

        self._step("filesystem__write_file", write)
        self._step("filesystem__read_text_file", read)

    def _clock(self) -> None:
        zones = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}

        def convert() -> tuple[Message, float]:
            answer = self._call("time__convert_time", zones)
            target = json.loads(answer.text)["target"]["datetime"]
            if "T00:30" not in target:
                raise NoAnswer(say("09:30 in Tokyo became {target}.", target=target))
            return say("09:30 in Tokyo is {target}", target=target), answer.seconds

        self._step("time__convert_time", convert)

    def _history(self) -> None:
        def log() -> tuple[Message, float]:
            answer = self._call("git__git_log", {"repo_path": str(self._folder / "garden")})
            if missing := [message for message in COMMITS if message not in answer.text]:
                raise NoAnswer(say("The log does not show {commits}.", commits=", ".join(missing)))
            return say(
                "{count} {count:commit|commits}: {commits}", count=len(COMMITS), commits=" · ".join(COMMITS)
            ), answer.seconds

        self._step("git__git_log", log)

    def _memory(self) -> None:
        entity = {"name": "竹", "entityType": "plant", "observations": ["grows in bundles"]}

        def create() -> tuple[Message, float]:
            answer = self._call("memory__create_entities", {"entities": [entity]})
            if json.loads(answer.text) != [entity]:
                raise NoAnswer(say("The returned content differs: {text}", text=answer.text))
            return say("remembers {name}", name=entity["name"]), answer.seconds

        def recall() -> tuple[Message, float]:
            answer = self._call("memory__open_nodes", {"names": ["竹"]})
            if json.loads(answer.text)["entities"] != [entity]:
                raise NoAnswer(say("The returned content differs: {text}", text=answer.text))
            return say("remembers the same text: {what}", what=entity["observations"][0]), answer.seconds

        self._step("memory__create_entities", create)
        self._step("memory__open_nodes", recall)

    def _sum(self) -> None:
        def add() -> tuple[str, float]:
            answer = self._call("everything__get-sum", {"a": 2, "b": 40})
            if "42" not in answer.text:
                raise NoAnswer(say("2 + 40 became {text}.", text=answer.text))
            return answer.text, answer.seconds

        self._step("everything__get-sum", add)

    def _slip(self) -> None:
        """Check that the answer to a misspelled name contains the right one."""
        name = next((name for _, name in SEARCHES if self._has(name)), None)
        if name is None:
            return
        misspelt = name[:-3] + name[-2] + name[-3] + name[-1]

        def slip() -> tuple[str, float]:
            answer = self._assistant.call("call_tool", {"name": misspelt, "arguments": {}})
            if not answer.failed or name not in answer.text:
                raise lacking(name, answer)
            return answer.text.splitlines()[0], answer.seconds

        self._step(misspelt, slip)

    def _has(self, tool: str) -> bool:
        return tool.partition("__")[0] in self._servers

    def _call(self, name: str, arguments: dict[str, Any]) -> AssistantReply:
        answer = self._assistant.ask("call_tool", {"name": name, "arguments": arguments})
        self._times.append(answer.seconds)
        return answer

    def _step(self, name: str, run: StepFunction) -> None:
        step(self._page, name, run)


def _cost(tools: int, size: int) -> Message:
    return say(
        "{tools:>3} {tools:tool|tools}  {size:>7,} {size:byte|bytes}  ~{tokens:>6,} {tokens:token|tokens}",
        tools=tools,
        size=size,
        tokens=size // 4,
    )

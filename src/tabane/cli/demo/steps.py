"""Steps of the demo, and those with tools: sample servers are written, listed, searched and called.

A step is run, checked, and printed with its time.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tabane.cli.bench.temporary_hub import MARK, Assistant, AssistantReply, NoAnswer, write_private_text
from tabane.cli.output import clear_line, emit
from tabane.cli.terminal_text import StyledText, cells, clean, fitted
from tabane.messages import Lang, Message, say

NAME_WIDTH = 30
LONGEST = 1000
"""Longest reason in columns; it may take several lines of a terminal."""

SIGNS = {"done": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


class DemoPage:
    """Prints steps to standard output in one language, and keeps them for ``--json``.

    With ``silent``, nothing is printed. Characters that the output cannot encode become question marks.
    """

    def __init__(self, lang: Lang, silent: bool = False) -> None:
        self.lang = lang
        self.steps: list[dict[str, Any]] = []
        self._silent = silent
        self._chapter = 0
        self._pending = False
        self._width = shutil.get_terminal_size((110, 24)).columns
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")

    @property
    def failures(self) -> int:
        """The number of steps that failed."""
        return sum(step["outcome"] == "failed" for step in self.steps)

    def say(self, message: Message) -> None:
        """Print a line."""
        self._print(message.render(self.lang))

    def blank(self) -> None:
        """Print an empty line."""
        self._print("")

    def chapter(self, title: Message) -> None:
        """Print the title of the next chapter."""
        self._chapter += 1
        self._print("")
        self._print(StyledText(f"{self._chapter}. {title.render(self.lang)}", "bold"))

    def done(self, name: str, text: str | Message = "", seconds: float | None = None) -> None:
        """Print a step that was run and checked."""
        self._step("done", name, self._rendered(text), seconds)

    def failed(self, name: str, reason: str | Message) -> None:
        """Print a step that failed, with the reason."""
        self._step("failed", name, self._rendered(reason), None)

    def skipped(self, name: str, reason: Message) -> None:
        """Print a step that was not run, with the reason."""
        self._step("skipped", name, self._rendered(reason), None)

    def aside(self, text: str | Message) -> None:
        """Print a received text or a remark, indented below the steps."""
        for line in self._rendered(text).splitlines():
            self._print(StyledText("       " + fitted(clean(line), self._width - 8), "dim"))

    def waiting(self, names: list[str]) -> None:
        """Show what is being waited for, on a terminal, in a line that the next output replaces."""
        if sys.stdout.isatty() and not self._silent:
            self._clear()
            emit(StyledText("   … " + fitted(clean(", ".join(names)), self._width - 6), "dim"), nl=False)
            self._pending = True

    def _step(self, outcome: str, name: str, text: str, seconds: float | None) -> None:
        self.steps.append({"name": name, "outcome": outcome, "text": text, "seconds": seconds})
        sign, color = SIGNS[outcome]
        label = name + " " * max(0, NAME_WIDTH - cells(name))
        room = max(20, self._width - cells(label) - 17)
        text = fitted(" ".join(clean(text).splitlines()), room if outcome == "done" else LONGEST)
        took = "" if seconds is None else " " * (room - cells(text) + 1) + f"{duration(seconds):>9}"
        self._print("   ", StyledText(sign, color), f" {label} {text}{took}")

    def _print(self, *line: str | StyledText) -> None:
        if not self._silent:
            self._clear()
            emit(*line)

    def _clear(self) -> None:
        if self._pending:
            clear_line()
            self._pending = False

    def _rendered(self, text: str | Message) -> str:
        return text if isinstance(text, str) else text.render(self.lang)


def duration(seconds: float) -> str:
    """Format a duration: 0.0031 as ``3.1 ms``, 2.5 as ``2.5 s``."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


StepFunction = Callable[..., tuple[str, float]] | Callable[..., tuple[Message, float]]
"""Runs a step and returns the text to print and the seconds it took. Raises NoAnswer if it fails."""

RunCommand = Callable[..., Any]
"""Runs a command of tabane with ``--json`` and returns its output. Raises NoAnswer."""

_RETRY = 0.3  # seconds between two attempts


def step(page: DemoPage, name: str, run: StepFunction, *arguments: str) -> None:
    """Run a step with its arguments and print its result. A step that fails does not end the demo."""
    try:
        text, seconds = run(*arguments)
    except NoAnswer as error:
        page.failed(name, error.message)
    except (OSError, ValueError, LookupError, TypeError) as error:
        # The answer was not of the shape that is given here.
        page.failed(name, f"{type(error).__name__}: {error}")
    else:
        page.done(name, text, seconds)


def model_there(page: DemoPage, run: RunCommand, name: str) -> bool:
    """Return whether a model is available; if not, print the step ``name`` as skipped."""
    try:
        state = run("models", "show")["state"]
    except NoAnswer as error:
        page.failed(name, error.message)
        return False
    if state in ("none", "absent"):
        page.skipped(
            name,
            say("there is no model on this machine, so results match keywords only; see: tabane models pull"),
        )
        return False
    return True


def awaited(
    page: DemoPage, query: str, expected: str, ask: Callable[[], AssistantReply], patience: float
) -> float:
    """Ask until ``expected`` is in the answer, while a model may still be loading or at work.

    Returns the seconds that answer took. Raises NoAnswer after ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        answer = ask()
        if not answer.failed and expected in answer.text:
            return answer.seconds
        if time.monotonic() > deadline:
            raise lacking(expected, answer)
        page.waiting([query])
        time.sleep(_RETRY)


def must(right: bool, text: object) -> None:
    """Raise NoAnswer, with the text that was returned, if the step did not do what it is to do."""
    if not right:
        raise NoAnswer(say("The returned content differs: {text}", text=text))


def lacking(expected: str, answer: AssistantReply) -> NoAnswer:
    """Return the error for an answer that does not contain ``expected``."""
    return NoAnswer(say("{tool} is not in the answer: {answer}", tool=expected, answer=answer.text))


COMMITS = ("Plant the first seeds", "Water the garden")


@dataclass(frozen=True, slots=True)
class SampleServer:
    """A server, its registry and pinned version, and the reason if it cannot run here.

    ``command`` starts it, ``fetch`` downloads it.
    """

    name: str
    package: str
    registry: Literal["PyPI", "npm"]
    command: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    tags: tuple[str, ...] = ()
    missing: Message | None = None

    @property
    def program(self) -> str:
        """Return the package without registry, scope and version: ``server-memory``."""
        return self.package.rpartition("/")[2].replace("==", "@").partition("@")[0]

    @property
    def version(self) -> str:
        """The version of the package."""
        return self.package.replace("==", "@").rpartition("@")[2]


def sample_servers(folder: Path, path: str) -> list[SampleServer]:
    """Return the servers of the demo, with programs found on ``path`` and sample data in ``folder``."""
    git = None if shutil.which("git", path=path) else say("git is not installed on this machine")
    garden, notes = str(folder / "garden"), str(folder / "notes")
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return [
        _pypi(folder, path, "time", "mcp-server-time==2026.10.19", ("--local-timezone", "Asia/Tokyo")),
        _pypi(folder, path, "git", "mcp-server-git==2026.10.19", ("--repository", garden), git),
        _npm(path, "filesystem", "2026.8.31", (notes,)),
        _npm(path, "memory", "2026.8.31", (), memory, ("覚える", "記憶")),
        _npm(path, "everything", "2026.8.31", ()),
    ]


def _pypi(
    folder: Path,
    path: str,
    name: str,
    package: str,
    arguments: tuple[str, ...],
    missing: Message | None = None,
) -> SampleServer:
    program = package.partition("==")[0]
    beside = Path(sys.executable).with_name("uvx")
    uvx = str(beside) if beside.exists() else shutil.which("uvx", path=path)
    if uvx:
        run: tuple[str, ...] = (uvx, "--quiet", "--python", sys.executable, package.replace("==", "@"))
        return SampleServer(name, package, "PyPI", (*run, *arguments), (*run, "--help"), missing=missing)
    # Without uv: an environment of its own for each, made by what every Python has.
    home = folder / f"python-{name}"
    script = f'"{sys.executable}" -m venv "{home}" && "{home}/bin/pip" install -q "{package}"'
    command = (str(home / "bin" / program), *arguments)
    return SampleServer(name, package, "PyPI", command, ("sh", "-c", script), missing=missing)


def _npm(
    path: str,
    name: str,
    version: str,
    arguments: tuple[str, ...],
    env: Mapping[str, str] | None = None,
    tags: tuple[str, ...] = (),
) -> SampleServer:
    package = f"@modelcontextprotocol/server-{name}@{version}"
    npx = shutil.which("npx", path=path)
    if not npx or not shutil.which("node", path=path):
        missing = say("Node.js with npx is not on this machine (nodejs.org, 18 or newer)")
        return SampleServer(name, package, "npm", missing=missing)
    command = (npx, "--yes", "--prefer-offline", package, *arguments)
    fetch = (npx, "--yes", f"--package={package}", "--", "node", "--eval", "0")
    return SampleServer(name, package, "npm", command, fetch, env, tags)


def write_samples(folder: Path) -> None:
    """Create the sample data: a folder of notes, and a small git repository if git is installed."""
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("束ね, to bundle.\n", encoding="utf-8")
    if shutil.which("git"):
        _make_repository(folder / "garden")


def _make_repository(folder: Path) -> None:
    def git(*arguments: str) -> None:
        # The user's own configuration (signing, hooks, templates) has no say in the sample.
        settings = (
            "-c",
            "user.name=Tabane",
            "-c",
            "user.email=demo@example.invalid",
            "-c",
            "commit.gpgsign=false",
        )
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "-C", str(folder), *settings, *arguments], env=environ, check=True)

    folder.mkdir()
    git("init", "--quiet")
    for number, message in enumerate(COMMITS):
        (folder / "diary.txt").write_text(f"Day {number + 1}\n", encoding="utf-8")
        git("add", "diary.txt")
        git("commit", "--quiet", "--message", message)


def write_servers_file(file: Path, samples: list[SampleServer], mark: str) -> None:
    """Write mcp-servers.json as a user would have it, with each server marked as the demo's."""
    servers = {
        sample.name: {
            "command": sample.command[0],
            "args": list(sample.command[1:]),
            "env": {**(sample.env or {}), MARK: mark},
            "tags": list(sample.tags),
        }
        for sample in samples
    }
    write_private_text(file, json.dumps({"mcpServers": servers}, ensure_ascii=False, indent=2))


LIMIT = 120.0
"""Seconds that one server may take to be downloaded."""


@dataclass(frozen=True, slots=True)
class SampleDownload:
    """A download that has ended: its time in seconds, and the reason if it failed."""

    sample: SampleServer
    seconds: float
    failure: Message | None = None


class Download:
    """A running download. Its output goes to ``log``."""

    def __init__(self, sample: SampleServer, log: Path, environ: Mapping[str, str]) -> None:
        self.sample = sample
        self._log = log
        self._began = time.monotonic()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                sample.fetch,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> SampleDownload | None:
        """Return the result, or None while it runs."""
        seconds = time.monotonic() - self._began
        status = self._process.poll()
        if status is None and seconds < LIMIT:
            return None
        if status == 0:
            return SampleDownload(self.sample, seconds)
        self.stop()
        if status is None:
            return SampleDownload(
                self.sample, seconds, say("not downloaded within {limit:.0f} s", limit=LIMIT)
            )
        lines = self._log.read_text("utf-8", "replace").strip().splitlines() or ["no word why"]
        errors = [line for line in lines if "error" in line.lower()]
        reason = (errors or lines)[-1].strip()[:200]
        return SampleDownload(self.sample, seconds, say("the download failed: {reason}", reason=reason))

    def stop(self) -> None:
        """Kill the download and its children, if it still runs."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        finally:
            self._process.wait()


def fetch(
    samples: list[SampleServer],
    folder: Path,
    environ: Mapping[str, str],
    waiting: Callable[[list[str]], None],
) -> Iterator[SampleDownload]:
    """Download all servers in parallel, and yield each when it is done. Stops the rest if the caller stops.

    ``waiting`` is called ten times per second with the names of the running downloads.
    """
    running = [Download(sample, folder / f"{sample.name}.log", environ) for sample in samples]
    try:
        while running:
            waiting([download.sample.program for download in running])
            for download in list(running):
                if fetched := download.poll():
                    running.remove(download)
                    yield fetched
            time.sleep(0.1)
    finally:
        for download in running:
            download.stop()


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
        count, size = len(tools), answer.size
        tools, answer = self._assistant.tools()
        self._page.done(say("every tool, with its schema").render(self._page.lang), _cost(count, size))
        self._page.done(say("Tabane's search mode").render(self._page.lang), _cost(len(tools), answer.size))
        saved = say("{share:.0%} less, in each assistant, at each turn", share=1 - answer.size / size)
        self._page.aside(saved)

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

            def run() -> tuple[Message, float]:
                # Asked by its other name, because the page of a tool does not repeat the name that was asked.
                answer = self._assistant.ask("describe_tools", {"names": [name.replace("__", ".", 1)]})
                if name not in answer.text:
                    raise lacking(name, answer)
                self._page.aside(answer.text)
                tokens = len(answer.text.encode()) // 4
                said = say("{tool}, ~{tokens} {tokens:token|tokens}", tool=name, tokens=tokens)
                return said, answer.seconds

            self._step("describe_tools", run)

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

    def _search(self, query: str, expected: str) -> Callable[[], tuple[str, float]]:
        def run() -> tuple[str, float]:
            answer = self._assistant.ask("search_tools", {"query": query})
            found = next((line for line in answer.text.splitlines() if f"{expected}(" in line), None)
            if found is None:
                raise lacking(expected, answer)
            return found[found.index(expected) :], answer.seconds

        return run

    def _files(self) -> None:
        path = self._folder / "notes" / "diary.txt"

        def written(text: str) -> Message:
            if path.read_text(encoding="utf-8") != DIARY:
                raise NoAnswer(say("The file does not contain what was written."))
            return say("wrote {file}; it is on the disk", file=path.name)

        def read(text: str) -> Message:
            if text != DIARY:
                raise NoAnswer(
                    say("The text that was read differs from the text that was written: {text}", text=text)
                )
            return say("read it back: equal, {size} {size:byte|bytes}", size=len(DIARY.encode()))

        self._checked("filesystem__write_file", {"path": str(path), "content": DIARY}, written)
        self._checked("filesystem__read_text_file", {"path": str(path)}, read)

    def _clock(self) -> None:
        def converted(text: str) -> Message:
            target = json.loads(text)["target"]["datetime"]
            if "T00:30" not in target:
                raise NoAnswer(say("09:30 in Tokyo became {target}.", target=target))
            return say("09:30 in Tokyo is {target}", target=target)

        zones = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}
        self._checked("time__convert_time", zones, converted)

    def _history(self) -> None:
        def logged(text: str) -> Message:
            if missing := [message for message in COMMITS if message not in text]:
                raise NoAnswer(say("The log does not show {commits}.", commits=", ".join(missing)))
            commits = " · ".join(COMMITS)
            return say("{count} {count:commit|commits}: {commits}", count=len(COMMITS), commits=commits)

        self._checked("git__git_log", {"repo_path": str(self._folder / "garden")}, logged)

    def _memory(self) -> None:
        entity = {"name": "竹", "entityType": "plant", "observations": ["grows in bundles"]}

        def created(text: str) -> Message:
            must(json.loads(text) == [entity], text)
            return say("remembers {name}", name=entity["name"])

        def recalled(text: str) -> Message:
            must(json.loads(text)["entities"] == [entity], text)
            return say("remembers the same text: {what}", what=entity["observations"][0])

        self._checked("memory__create_entities", {"entities": [entity]}, created)
        self._checked("memory__open_nodes", {"names": ["竹"]}, recalled)

    def _sum(self) -> None:
        def added(text: str) -> str:
            if "42" not in text:
                raise NoAnswer(say("2 + 40 became {text}.", text=text))
            return text

        self._checked("everything__get-sum", {"a": 2, "b": 40}, added)

    def _slip(self) -> None:
        """Check that the answer to a misspelled name contains the right one."""
        name = next((name for _, name in SEARCHES if self._has(name)), None)
        if name is None:
            return
        misspelled = name[:-3] + name[-2] + name[-3] + name[-1]

        def slip() -> tuple[str, float]:
            answer = self._assistant.call("call_tool", {"name": misspelled, "arguments": {}})
            if not answer.failed or name not in answer.text:
                raise lacking(name, answer)
            return answer.text.splitlines()[0], answer.seconds

        self._step(misspelled, slip)

    def _has(self, tool: str) -> bool:
        return tool.partition("__")[0] in self._servers

    def _checked(
        self, name: str, arguments: dict[str, Any], told: Callable[[str], Message] | Callable[[str], str]
    ) -> None:
        """Call a tool as a step. ``told`` checks the text of the answer, and says it in a few words."""

        def call() -> tuple[Any, float]:
            answer = self._assistant.ask("call_tool", {"name": name, "arguments": arguments})
            self._times.append(answer.seconds)
            return told(answer.text), answer.seconds

        self._step(name, call)

    def _step(self, name: str, run: StepFunction) -> None:
        step(self._page, name, run)


def _cost(tools: int, size: int) -> Message:
    return say(
        "{tools:>3} {tools:tool|tools}  {size:>7,} {size:byte|bytes}  ~{tokens:>6,} {tokens:token|tokens}",
        tools=tools,
        size=size,
        tokens=size // 4,
    )

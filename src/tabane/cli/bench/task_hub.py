"""A hub over the servers of tasks: their workplace, the checks of it, and servers whose tools do nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from tabane.cli.bench.task_file import OWN_SERVER, BenchTask, DataFileError, Definitions, TaskSet, placed
from tabane.cli.bench.temporary_hub import BenchModel, TemporaryFolder, TemporaryHub
from tabane.messages import say

_DATE = "2026-01-05T09:00:00+0900"
"""The date of all commits of a setup, so that their hashes are the same in each run."""


class Workplace:
    """Makes the files of a setup in ``folder``. The paths are the same for all tasks, as servers know them.

    A setup is ``{"notes": {path: text}, "commits": [{"message": …, "files": {path: text}}], "branches":
    [name], "changes": {path: text}, "memory": [line of the memory's file]}``.
    """

    def __init__(self, folder: Path, basis: Mapping[str, Any]) -> None:
        self._folder = folder / "work"
        self._basis = basis
        self.places = {
            "folder": str(self._folder),
            "notes": str(self._folder / "notes"),
            "repository": str(self._folder / "repository"),
            "memory": str(self._folder / "memory.jsonl"),
        }
        self._folder.mkdir()
        (self._folder / "notes").mkdir()
        (self._folder / "repository").mkdir()

    def file(self, path: str) -> Path:
        """Return a path below the workplace, such as ``notes/a.txt``."""
        return self._folder / path

    def prepare(self, setup: Mapping[str, Any]) -> None:
        """Make the workplace as the basis and this setup describe it; nothing else is left in it."""
        whole = {key: _joined(self._basis.get(key), setup.get(key)) for key in (*self._basis, *setup)}
        whole = placed(whole, self.places)
        notes, repository = self._folder / "notes", self._folder / "repository"
        # The folders themselves stay: servers have them open.
        _empty(notes)
        _empty(repository)
        _write(notes, whole.get("notes", {}))
        memory = "".join(f"{line}\n" for line in whole.get("memory", []))
        Path(self.places["memory"]).write_text(memory, encoding="utf-8")
        self._commit(repository, whole)

    def git(self, *arguments: str) -> str:
        """Return the output of git in the repository. Raises CalledProcessError."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        dates = {"GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
        done = subprocess.run(
            ["git", "-C", self.places["repository"], *_IDENTITY, *arguments],
            env=plain | dates | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout

    def _commit(self, repository: Path, setup: Mapping[str, Any]) -> None:
        commits = setup.get("commits", [])
        if not commits or not shutil.which("git"):
            return
        try:
            self.git("init", "--quiet", "--initial-branch=main")
            # What a server commits has an author too, on a machine without any configuration of git.
            self.git("config", "user.name", "Tabane")
            self.git("config", "user.email", "bench@example.invalid")
            for commit in commits:
                _write(repository, commit["files"])
                self.git("add", ".")
                self.git("commit", "--quiet", "--message", commit["message"])
            for branch in setup.get("branches", []):
                self.git("branch", branch)
            _write(repository, setup.get("changes", {}))
        except (subprocess.CalledProcessError, KeyError) as error:
            raise DataFileError(
                say("The repository of a task cannot be made: {reason}", reason=str(error))
            ) from None


_IDENTITY = ("-c", "user.name=Tabane", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false")


def programs_path(environ: Mapping[str, str]) -> str:
    """Return where programs of servers are searched for: PATH, then beside this Python."""
    return os.pathsep.join((environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def found_servers(
    servers: Mapping[str, Mapping[str, Any]], places: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the definitions of servers whose program is installed, and the missing program of the others."""
    path = programs_path(environ)
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for name, definition in placed(dict(servers), places).items():
        needed = (definition["command"], *definition.pop("needs", ()))
        absent = next((program for program in needed if not shutil.which(program, path=path)), None)
        if absent:
            missing[name] = absent
            continue
        command = shutil.which(definition["command"], path=path)
        found[name] = {**definition, "command": command, "env": {"PATH": path, **definition.get("env", {})}}
    return found, missing


def _joined(basis: Any, more: Any) -> Any:
    if isinstance(basis, dict) and isinstance(more, dict):
        return {**basis, **more}
    if isinstance(basis, list) and isinstance(more, list):
        return [*basis, *more]
    return basis if more is None else more


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def names_of(missing: Mapping[str, str], wanted: Sequence[str]) -> str:
    """Return the programs that are missing for these servers."""
    return ", ".join(sorted({missing[name] for name in wanted if name in missing}))


HubCall = Callable[[str, Mapping[str, Any]], Any]
"""Calls an operation of the hub."""

_MOST_DOCUMENTS = 1000


def failed_checks(task: BenchTask, workplace: Workplace, answer: str, call: HubCall) -> list[str]:
    """Return a description of each check that fails. ``answer`` is what the user was told at the end."""
    checks = placed(list(task.checks), workplace.places)
    return [
        ", ".join(f"{key} {value!r}" for key, value in check.items())
        for check in checks
        if not _holds(check, workplace, answer, call)
    ]


def _holds(check: Mapping[str, Any], workplace: Workplace, answer: str, call: HubCall) -> bool:
    if "answer" in check:
        return all(_said(each, answer) for each in check["answer"])
    if "folder" in check:
        return workplace.file(check["folder"]).is_dir() is not check.get("absent", False)
    if "git" in check:
        return _fits(check, _git(workplace, check["git"]))
    if "document" in check:
        return any(_fits(check, text) for text in documents_in(check["document"], call).values())
    file = workplace.file(check["file"])
    if check.get("absent"):
        return not file.exists()
    try:
        return _fits(check, file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _fits(check: Mapping[str, Any], text: str) -> bool:
    """Compare without line ends at the end: servers add and remove them."""
    if "equals" in check and text.rstrip("\n") != check["equals"].rstrip("\n"):
        return False
    if "contains" in check and not all(part in text for part in _list(check["contains"])):
        return False
    return not any(part in text for part in _list(check.get("lacks", [])))


def _said(wanted: Any, answer: str) -> bool:
    """Return whether the answer contains the text, or one of several spellings of it."""
    folded = answer.casefold()
    return any(each.casefold() in folded for each in _list(wanted))


def _git(workplace: Workplace, arguments: list[str]) -> str:
    try:
        return workplace.git(*arguments)
    except subprocess.CalledProcessError:
        return ""


def documents_in(prefix: str, call: HubCall) -> dict[str, str]:
    """Return the texts of the documents in the hub, by name."""
    rows = call("list_documents", {"prefix": prefix, "limit": _MOST_DOCUMENTS})["documents"]
    names = [str(row["filepath"]) for row in rows]
    return {name: str(call("get_document", {"filepath": name})["document"]) for name in names}


def _list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


_MOST_BYTES = 1 << 20
_ABOUT = {"name": "listed-tools", "version": "1"}
_CACHED = {"ttlMs": 3_600_000, "cacheScope": "public"}
_COMPLETE = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": _ABOUT}}
REFUSAL = "This tool is only listed in the benchmark. It cannot do anything."


class ToolSite:
    """Serves each server of ``servers`` at its own URL while the block runs."""

    def __init__(self, servers: Definitions) -> None:
        class Handler(ListedTools):
            lists = {name: list(tools) for name, tools in servers.items()}

        self._names = list(servers)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="listed tools", daemon=True)

    def __enter__(self) -> ToolSite:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def definitions(self) -> dict[str, dict[str, Any]]:
        """The servers as a servers file has them."""
        port = self._server.server_address[1]
        return {name: {"url": f"http://127.0.0.1:{port}/{name}"} for name in self._names}


class ListedTools(BaseHTTPRequestHandler):
    """Answers MCP of both eras. ``lists`` are the tools by the path."""

    protocol_version = "HTTP/1.1"
    lists: Mapping[str, list[Any]]

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MOST_BYTES:
            self._send(413, b"")
            return
        message = json.loads(self.rfile.read(size))
        if "id" not in message:
            self._send(202, b"")
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], **self._answer(message)}
        self._send(200, json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(405, b"")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        match message.get("method"):
            case "server/discover":
                versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                return {"result": _COMPLETE | _CACHED | versions}
            case "initialize":
                return {
                    "result": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": _ABOUT,
                    }
                }
            case "tools/list":
                return {"result": _COMPLETE | _CACHED | {"tools": self.lists.get(self.path[1:], [])}}
            case "tools/call":
                content = [{"type": "text", "text": REFUSAL}]
                return {"result": _COMPLETE | {"content": content, "isError": True}}
            case "ping":
                return {"result": {}}
        return {"error": {"code": -32601, "message": "no such method"}}

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_FOLDER = "/bench"
"""Stands for the temporary folder in texts whose tokens are counted."""


@dataclass(frozen=True, slots=True)
class OpenedTasks:
    """The tasks that can be run, and why the others cannot. ``expected``: public names by server/tool."""

    tasks: Sequence[BenchTask]
    skipped: Mapping[str, str]
    expected: Mapping[str, str]
    tools: int


class TaskHub:
    """The hub, the workplace and the tools that are only listed, while the block runs."""

    def __init__(self, tasks: TaskSet, model: BenchModel) -> None:
        self._set, self._model = tasks, model
        self._stack = ExitStack()

    def __enter__(self) -> TaskHub:
        with ExitStack() as stack:
            self.folder = stack.enter_context(TemporaryFolder())
            site = stack.enter_context(ToolSite(self._set.distractors))
            self.workplace = Workplace(self.folder, self._set.workplace)
            self.workplace.prepare({})
            found, self._missing = found_servers(self._set.servers, self.workplace.places, os.environ)
            self.servers = len(found)
            hub = TemporaryHub(self.folder, found | site.definitions, self._model)
            self.hub = stack.enter_context(hub)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def opened(self, tasks: Sequence[BenchTask]) -> OpenedTasks:
        """Wait for the servers to list their tools, and say which of the tasks can be run."""
        aliases = self.hub.aliases()
        listed = {server for server, _ in aliases}
        skipped: dict[str, str] = {}
        for task in tasks:
            wanted = sorted(task.servers)
            if lacking := names_of(self._missing, wanted):
                skipped[task.id] = lacking
            elif failed := [server for server in wanted if server not in listed]:
                skipped[task.id] = ", ".join(failed)
        expected = {f"{server}/{name}": alias for (server, name), alias in aliases.items()}
        tools = (tool.partition("/") for task in tasks for step in task.steps for tool in step.tools)
        expected |= {f"{server}/{name}": name for server, _, name in tools if server == OWN_SERVER}
        left = [task for task in tasks if task.id not in skipped]
        self.hub.settle([step.search for task in left for step in task.steps])
        return OpenedTasks(left, skipped, expected, len(aliases))

    def prepare(self, task: BenchTask) -> None:
        """Make the workplace as the task begins with it, without documents of the tasks before."""
        self.workplace.prepare(task.setup)
        if any("document" in check for check in task.checks):
            for name in documents_in("", self.hub.call):
                self.hub.call("delete_document", {"filepath": name})

    def placed(self, task: BenchTask) -> BenchTask:
        """Return the task with the places of the workplace filled in."""
        places = self.workplace.places
        steps = [
            replace(step, search=placed(step.search, places), facts=placed(dict(step.facts), places))
            for step in task.steps
        ]
        return replace(task, prompt=placed(task.prompt, places), steps=steps)

    def canonical(self, text: str) -> str:
        """Return a text without the name of the temporary folder, which differs from run to run."""
        return text.replace(str(self.folder), _FOLDER)

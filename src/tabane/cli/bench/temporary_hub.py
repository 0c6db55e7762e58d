"""A hub with a home of its own in a temporary folder; its processes and folder are gone at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tabane.build import this_build
from tabane.cli.bench.assistant import Assistant
from tabane.cli.bench.marked_processes import MARK, kill, marked, wait_until_gone
from tabane.hub.local.client import HubClient, unreachable
from tabane.hub.local.connector import HubConnector, HubUnreachable
from tabane.hub.local.endpoint import Endpoint
from tabane.hub.local.handshake import Hello

BenchModel = Literal["words", "auto"]
"""``words``: no embedding model. ``auto``: the model that is installed on this machine."""

LISTING = 180.0
"""Time limit for all servers to list their tools, in seconds."""

SETTLED, LONGEST_SETTLING = 5.0, 300.0
"""With a model, answers must be the same for so many seconds before anything is measured: until then the hub
may still make vectors. After the longest time they are taken as they are."""

_PROBES = 8
_TABANE = (sys.executable, "-m", "tabane")
_STOPPING = 30.0
_OPENING = 60.0


class TemporaryHub:
    """A hub over some servers, while the block runs. ``definitions`` are those of a servers file.

    Nothing of the user's own settings is used, except models that are installed. No model is downloaded.
    """

    def __init__(
        self, folder: Path, definitions: Mapping[str, Mapping[str, Any]], model: BenchModel = "words"
    ) -> None:
        self.folder = folder
        self._model = model
        self._mark = f"{folder.name}-{os.getpid()}"
        self.environ = self._environment(model)
        self._servers = list(definitions)
        self._assistants: list[Assistant] = []
        self._client: HubClient | None = None
        # One assistant does all tasks in a row, as nobody does, and nobody is there to approve a call.
        _write_private(folder / "tabane.toml", 'list_wait = 60\nflow_policy = "off"\n')
        marked_servers = {name: self._with_mark(each) for name, each in definitions.items()}
        text = json.dumps({"mcpServers": marked_servers}, ensure_ascii=False)
        _write_private(folder / "mcp-servers.json", text)

    def __enter__(self) -> TemporaryHub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def assistant(self, *options: str) -> Assistant:
        """Return a connected client: `tabane mcp` with these options. Raises NoAnswer."""
        log = str(self.folder / "bridge.log")
        found = Assistant((*_TABANE, "mcp", *options), self.environ, log, name="tabane-bench")
        self._assistants.append(found)
        found.open(timeout=_OPENING)
        return found

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call an operation of the hub. Raises HubError and CallerError."""
        if self._client is None:
            self._client = self._connect()
        return self._client.call(method, params)

    def aliases(self) -> dict[tuple[str, str], str]:
        """Return the public name of each tool, by server and name, once all servers have listed theirs.

        Servers that failed have no tools.
        """
        deadline = time.monotonic() + LISTING
        while True:
            found = self.call("list_tools")
            if not found["waiting"] or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        names = (row["name"] for row in found["results"])
        details = (self.call("get_tool", {"name": name}) for name in names)
        return {(each["server"], each["original"]): each["name"] for each in details}

    def settle(self, queries: Sequence[str]) -> None:
        """Wait until searches find the same again and again: a model may still make vectors of tools."""
        deadline = time.monotonic() + (LONGEST_SETTLING if self._model != "words" else 0)
        last, since = None, time.monotonic()
        while (now := time.monotonic()) < deadline and now - since < SETTLED:
            params = ({"query": query, "limit": 10} for query in queries[:_PROBES])
            found = [self.call("search_tools", each)["results"] for each in params]
            if found != last:
                last, since = found, now
            time.sleep(0.2)

    def close(self) -> None:
        """Stop the hub and all that it started. Another Ctrl+C does not interrupt this."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if self._client is not None:
                self._client.close()
                self._client = None
            for assistant in self._assistants:
                assistant.close()
            self._assistants.clear()
            if marked(self._mark):
                self._stop()
                kill(wait_until_gone(self._mark, _STOPPING))
        finally:
            signal.signal(signal.SIGINT, before)

    def _connect(self) -> HubClient:
        home = self.environ["TABANE_HOME"]
        build = this_build()
        hello = Hello(
            version=build.name,
            role="rpc",
            home=home,
            pid=os.getpid(),
            cwd=str(self.folder),
            lang="en",
            client="tabane bench",
            servers=self.environ["TABANE_SERVERS"],
            code=build.code,
        )
        connector = HubConnector(Endpoint(home, self.environ), hello, self.environ, (), "hand")
        try:
            return HubClient(connector.reach())
        except HubUnreachable as error:
            raise unreachable(error, "en") from None

    def _stop(self) -> None:
        try:
            subprocess.run(
                [*_TABANE, "stop"], env=self.environ, capture_output=True, timeout=_STOPPING, check=False
            )
        except subprocess.TimeoutExpired:
            return

    def _environment(self, model: BenchModel) -> dict[str, str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TABANE_")}
        home = self.folder / "home"
        home.mkdir(mode=0o700)
        local = ",".join(filter(None, (environ.get("NO_PROXY", environ.get("no_proxy")), "127.0.0.1")))
        return environ | {
            "TABANE_HOME": str(home),
            "TABANE_CONFIG": str(self.folder / "tabane.toml"),
            "TABANE_SERVERS": str(self.folder / "mcp-servers.json"),
            "TABANE_HTTP": "false",
            "TABANE_LANG": "en",
            "TABANE_MODEL": "none" if model == "words" else "auto",
            "TABANE_MODEL_OFFLINE": "true",
            "NO_PROXY": local,
            "no_proxy": local,
            MARK: self._mark,
        }

    def _with_mark(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        if "command" not in definition:
            return dict(definition)
        return {**definition, "env": {**definition.get("env", {}), MARK: self._mark}}


class TemporaryFolder:
    """A folder that is deleted at the end of the block, also after Ctrl+C."""

    def __enter__(self) -> Path:
        # resolved, because servers compare paths with those that they were given
        self._path = Path(tempfile.mkdtemp(prefix="tabane-bench-")).resolve()
        return self._path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")

"""An ordinary day: a home with its default settings, a person, an assistant, servers, and the web.

A session is data: who, which face, and steps. Each step does one thing and says what must and must not come
back. See sessions/README.md.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.ordinary.sites import Sites
from tests.harness.home import Home
from tests.harness.patience import LONG, wait_until
from tests.harness.user import Assistant, assistant

FOLDER = Path(__file__).parent
REPLAYED = FOLDER.parents[1] / "harness" / "servers" / "replayed.py"
NEVER = (
    "Traceback (most recent call last)",
    "KeyError",
    "Internal error",
    "a person has to approve",
    "tabane approve",
)
"""What nobody is to see on an ordinary day, unless the step says it with ``allows``."""
SLOW = 20.0
"""Seconds; a step that takes longer has waited for something. The wait for an approval is 45 s."""
STEPS = ("call", "rpc", "run", "page", "write", "rename", "remove", "lost", "servers", "tools", "new")

Step = dict[str, Any]


def load_sessions() -> dict[str, dict[str, Any]]:
    """Return every session by its id: file and name."""
    found = {}
    for file in sorted((FOLDER / "sessions").glob("*.toml")):
        for session in tomllib.loads(file.read_text(encoding="utf-8"))["session"]:
            found[f"{file.stem}: {session['name']}"] = session
    return found


class Seen:
    """What came back: the text as the person or the model sees it, and whether it is a failure."""

    def __init__(self, text: str, failed: bool = False) -> None:
        self.text, self.failed = text, failed


class Day:
    """One session as it runs: its home, its web, and its assistant."""

    def __init__(self, folder: Path, session: dict[str, Any], sites: Sites) -> None:
        self.session, self.sites = session, sites
        self.language: str = session.get("language", "en")
        self.folder = folder
        self.home = Home(folder)
        for name in ("TABANE_LIST_WAIT", "TABANE_PROBE_TIMEOUT"):
            del self.home.environment[name]  # default settings
        self.home.environment |= {
            "LANG": "ja_JP.UTF-8" if self.language == "ja" else "en_US.UTF-8",
            "TABANE_HTTP": "true",
            "TABANE_PORT": "0",
            "TABANE_READER_PROXY": sites.proxy,
        }
        self.kept: dict[str, str] = {
            "home": str(folder),
            "python": sys.executable,
            "child": self.home.child()["args"][0],
            "replayed": str(REPLAYED),
        }
        self.home.write_servers({name: _stock()[name] for name in session.get("servers", [])})
        self._open: contextlib.ExitStack = contextlib.ExitStack()
        self._assistant: Assistant | None = None

    def close(self) -> None:
        self._open.close()
        self.home.run("stop")

    def do(self, step: Step) -> None:
        """Do a step (with ``until``, again until it is right). Raise AssertionError if it is wrong."""
        step = self._filled(step)
        (kind,) = [name for name in STEPS if name in step]

        def done() -> tuple[Seen, float, str | None]:
            begun = time.monotonic()
            seen: Seen = getattr(self, f"_{kind}")(step)
            return seen, time.monotonic() - begun, self._judge(step, seen)

        if step.get("until"):
            wait_until(lambda: done()[2] is None, f"it is right: {step}", pause=0.1)
        seen, took, wrong = done()
        assert wrong is None, f"{wrong}\nstep: {step}\nseen: {seen.text[:3000]}"
        assert took <= step.get("within", SLOW), f"took {took:.1f} s: {step}"
        for name, pattern in step.get("keeps", {}).items():
            match = re.search(pattern, seen.text)
            assert match, f"nothing like {pattern} to keep in {seen.text[:2000]}"
            self.kept[name] = match[1]

    def _judge(self, step: Step, seen: Seen) -> str | None:
        """Return what is wrong with what was seen; None if nothing is."""
        allowed = step.get("allows", [])
        if seen.failed != step.get("fails", False):
            return "it failed" if seen.failed else "it did not fail"
        for text in step.get("shows", []):
            if text not in seen.text:
                return f"does not show {text!r}"
        if (any_of := step.get("any")) and not any(text in seen.text for text in any_of):
            return f"shows none of {any_of}"
        for text in [*NEVER, *self.session.get("hides", []), *step.get("hides", [])]:
            if text in seen.text and text not in allowed:
                return f"shows {text!r}"
        return None

    def _filled(self, value: Any) -> Any:
        """Replace @name@ by what is kept under that name."""
        if isinstance(value, str):
            return re.sub(r"@(\w+)@", lambda found: self.kept.get(found[1], found[0]), value)
        if isinstance(value, dict):
            return {self._filled(name): self._filled(each) for name, each in value.items()}
        return [self._filled(each) for each in value] if isinstance(value, list) else value

    @property
    def assistant(self) -> Assistant:
        """The assistant: connected at its first step, by the bridge or over HTTP."""
        if self._assistant is None:
            flags = ("--mode", self.session["mode"]) if "mode" in self.session else ()
            if self.session.get("over", "bridge") == "http":
                self._assistant = _OverHttp(self.home)
            else:
                self._assistant = self._open.enter_context(assistant(self.home, *flags))
        return self._assistant

    def _new(self, step: Step) -> Seen:
        """The person begins a new conversation: another client connects."""
        self._open.close()
        self._assistant = None
        return Seen("")

    def _call(self, step: Step) -> Seen:
        answer = self.assistant.ask("tools/call", name=step["call"], arguments=step.get("with", {}))
        if "error" in answer:
            return Seen(json.dumps(answer["error"], ensure_ascii=False), failed=True)
        result = answer["result"]
        texts = [part.get("text", json.dumps(part)) for part in result.get("content", [])]
        return Seen("\n".join(texts), failed=bool(result.get("isError")))

    def _tools(self, step: Step) -> Seen:
        tools = self.assistant.ask("tools/list")["result"]["tools"]
        return Seen(json.dumps(tools, ensure_ascii=False))

    def _rpc(self, step: Step) -> Seen:
        done = self.home.run("rpc", step["rpc"], "--params", json.dumps(step.get("with", {})), "--json")
        return Seen(done.out + done.err, failed="error" in json.loads(done.out or "{}") or done.status != 0)

    def _run(self, step: Step) -> Seen:
        done = self.home.run(*step["run"], stdin=step.get("types", ""), cwd=self.folder)
        return Seen(done.out + done.err, failed=done.status != 0)

    def _page(self, step: Step) -> Seen:
        return _Visitor(self.home).read(step["page"], self.language)

    def _write(self, step: Step) -> Seen:
        path = self.folder / step["write"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step["text"], encoding=step.get("encoding", "utf-8"))
        path.chmod(0o600)
        return Seen("")

    def _servers(self, step: Step) -> Seen:
        """The person pastes a whole servers file."""
        self.home.write_servers(step["servers"])
        return Seen("")

    def _rename(self, step: Step) -> Seen:
        old, new = step["rename"]
        (self.folder / old).rename(self.folder / new)
        return Seen("")

    def _remove(self, step: Step) -> Seen:
        path = self.folder / step["remove"]
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return Seen("")

    def _lost(self, step: Step) -> Seen:
        self.sites.lost = step["lost"]
        return Seen("")


class _OverHttp(Assistant):
    """A client of /mcp, of revision 2025-06-18."""

    def __init__(self, home: Home) -> None:
        home.run("start")
        self._url = urlsplit(home.json("status")["http"])
        self._headers = {
            "authorization": f"Bearer {(home.tabane / 'token').read_text().strip()}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        self._count = 0
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "day", "version": "1"},
        }
        self.ask("initialize", **hello)
        self._send({"method": "notifications/initialized"})

    def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        return self._send({"id": self._count, "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=LONG)
        body = json.dumps({"jsonrpc": "2.0", **message})
        connection.request("POST", self._url.path, body, self._headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if session := answer.getheader("mcp-session-id"):
            self._headers["mcp-session-id"] = session
        connection.close()
        lines = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
        found = [json.loads(line) for line in (lines or [text])] if text.strip() else []
        return next((each for each in found if each.get("id") == message.get("id")), None)


class _Visitor:
    """A browser that is signed in, as `tabane open` does it."""

    def __init__(self, home: Home) -> None:
        home.run("start")
        link = urlsplit(home.run("open").succeeded.out.strip())
        self._host, self._port = link.hostname or "", link.port
        origin = {"origin": f"http://{self._host}:{self._port}", "content-type": "application/json"}
        answer, body = self._ask("POST", "/sign-in", json.dumps({"code": link.fragment}), origin)
        self._headers = {
            "cookie": (answer.getheader("set-cookie") or "").partition(";")[0],
            "tabane-page": json.loads(body)["page"],
            "hx-request": "true",
            "accept": "text/html",
        }

    def read(self, path: str, language: str) -> Seen:
        answer, body = self._ask("GET", path, None, {**self._headers, "accept-language": language})
        return Seen(body, failed=answer.status >= 400)

    def _ask(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, str]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=LONG)
        connection.request(method, path, body, {"sec-fetch-site": "same-origin", **headers})
        answer = connection.getresponse()
        return answer, answer.read().decode()


def _stock() -> dict[str, dict[str, Any]]:
    """Return the servers that sessions name: recorded answers of the kinds of servers people have."""
    table = tomllib.loads((FOLDER / "servers.toml").read_text(encoding="utf-8"))
    return {name: _replayed(name, row) for name, row in table.items()}


def _replayed(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": [str(REPLAYED), "-", json.dumps(row)],
        **row.get("definition", {}),
    }


@contextlib.contextmanager
def ordinary_day(folder: Path, session: dict[str, Any]) -> Iterator[Day]:
    """Prepare a session, and end everything that it started."""
    with Sites() as sites:
        day = Day(folder, session, sites)
        try:
            yield day
        finally:
            day.close()

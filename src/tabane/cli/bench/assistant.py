"""An assistant's side of MCP over a child process, one request at a time, with the time each took."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tabane import __version__
from tabane.errors import TabaneError
from tabane.messages import say

PROTOCOL = "2025-11-25"
MAX_WAITING = 1000
"""Limit of lines that wait to be read."""

CLOSING = 10.0
"""Time limit for a child to end after its input is closed, in seconds."""


class NoAnswer(TabaneError):
    """The child ended, did not answer in time, or answered with a protocol error."""


class MethodRefused(NoAnswer):
    """The child answered with a protocol error."""


@dataclass(frozen=True, slots=True)
class AssistantReply:
    """The result of a request, the size of its line in bytes, and the time in seconds."""

    result: dict[str, Any]
    size: int
    seconds: float

    @property
    def text(self) -> str:
        """Return the text blocks of a tool's result."""
        blocks = self.result.get("content", [])
        return "\n".join(block["text"] for block in blocks if block.get("type") == "text")

    @property
    def failed(self) -> bool:
        return bool(self.result.get("isError"))


class Assistant:
    """An MCP client of the child process ``command``, over its standard streams.

    The child has its own session, so that Ctrl+C reaches only this process, which then closes the child. Its
    stderr goes to the file ``log``. ``instructions`` are those for a model, empty until :meth:`open`.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], log: str, *, name: str = "tabane-demo"
    ) -> None:
        self.instructions = ""
        self._name = name
        self._began = time.perf_counter()
        self._number = 0
        self._lines: queue.Queue[bytes] = queue.Queue(MAX_WAITING)
        with open(log, "ab") as errors:
            self._child = subprocess.Popen(
                command,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        threading.Thread(target=self._read, name="assistant", daemon=True).start()

    def open(self, timeout: float) -> float:
        """Shake hands. Returns the seconds from the start of the child to its first answer."""
        opened = self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": self._name, "version": __version__},
            },
            timeout,
        )
        seconds = time.perf_counter() - self._began
        self.instructions = str(opened.result.get("instructions") or "")
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return seconds

    def request(self, method: str, params: Mapping[str, Any], timeout: float = 60.0) -> AssistantReply:
        """Ask and wait for the answer. Raises NoAnswer."""
        self._number += 1
        began = time.perf_counter()
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            line = self._next(method, began + timeout)
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                return self._answer(method, message, len(line), time.perf_counter() - began)
            if "method" in message and "id" in message:
                self._refuse(message["id"])

    def call(self, name: str, arguments: Mapping[str, Any]) -> AssistantReply:
        """Call a tool of the list. Raises NoAnswer; a tool's own failure is in the answer."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def ask(self, name: str, arguments: Mapping[str, Any]) -> AssistantReply:
        """Call a tool that must not fail. Raises NoAnswer."""
        answer = self.call(name, arguments)
        if answer.failed:
            raise NoAnswer(say("{tool} failed: {text}", tool=name, text=answer.text))
        return answer

    def tools(self) -> tuple[list[dict[str, Any]], AssistantReply]:
        """Return the whole list, and the last page's reply with the sizes and times of all pages."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        size, seconds = 0, 0.0
        while True:
            page = self.request("tools/list", params)
            found += page.result["tools"]
            size, seconds = size + page.size, seconds + page.seconds
            if page.result.get("nextCursor") is None:
                return found, AssistantReply(page.result, size, seconds)
            params = {"cursor": page.result["nextCursor"]}

    def close(self) -> bool:
        """Close the child's input and wait for its end; it is killed after ten seconds.

        Returns whether it ended by itself.
        """
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(CLOSING)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            return False
        return True

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _next(self, method: str, deadline: float) -> bytes:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.perf_counter()))
        except queue.Empty:
            raise NoAnswer(say("{method} got no answer in time.", method=method)) from None
        if not line:
            self._lines.put(b"")
            raise NoAnswer(say("tabane mcp ended before it answered {method}.", method=method))
        return line

    def _answer(self, method: str, message: dict[str, Any], size: int, seconds: float) -> AssistantReply:
        if "error" in message:
            reason = message["error"].get("message", "")
            raise MethodRefused(say("{method} was refused: {reason}", method=method, reason=reason))
        return AssistantReply(message["result"], size, seconds)

    def _refuse(self, identifier: object) -> None:
        error = {"code": -32601, "message": "This client answers no questions."}
        self._write({"jsonrpc": "2.0", "id": identifier, "error": error})

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        assert self._child.stdin is not None
        try:
            os.write(self._child.stdin.fileno(), line)
        except BrokenPipeError:
            raise NoAnswer(say("tabane mcp ended too early.")) from None

"""One real call through an assistant's entry: its command is started as a desktop program would start it.

A terminal's PATH hides the commonest fault: an entry that works in a shell, and in no graphical program.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.servers.foreign_keys import our_definition

LIMIT = 30.0
"""Seconds for start, list and call. A list in mode full waits some seconds for servers that start."""

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_KEPT = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")
_KEPT_TOO = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE")
_HARMLESS: Mapping[str, dict[str, Any]] = {
    "search_tools": {"query": "status", "limit": 1},
    "get_status": {},
}
_VERSION = "2025-11-25"
_END = 2.0


class EntryCheck(Struct, frozen=True):
    """The result: seconds from the start to the answer, the number of tools, and the tool that was called.

    ``called`` is None if no tool was called: it offers none that is known to be harmless. ``problem`` says
    why it does not work.
    """

    seconds: float = 0.0
    tools: int = 0
    called: str | None = None
    problem: Message | None = None


def check_entry(
    definition: Mapping[str, Any], environ: Mapping[str, str], limit: float = LIMIT
) -> EntryCheck:
    """Start the command of an entry, list its tools, and call one that only reads. Blocks; raises nothing.

    ``definition`` is the entry as :func:`tabane.servers.assistants.formats.definition` returns it.
    """
    ours = our_definition(definition.items()).values
    words = [str(ours.get("command", "")), *map(str, ours.get("args") or ())]
    env = ours.get("env")
    variables = desktop_environment(environ) | (env if isinstance(env, dict) else {})
    began = time.monotonic()
    try:
        with _Conversation(words, variables, began + limit) as conversation:
            tools, called = _walk(conversation)
    except _NoReply as error:
        return EntryCheck(time.monotonic() - began, problem=error.message)
    except OSError as error:
        why = say("{command} cannot be started: {reason}.", command=words[0], reason=error.strerror)
        return EntryCheck(problem=why)
    return EntryCheck(time.monotonic() - began, tools, called)


def desktop_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a graphical program passes on: a short PATH, and nothing of a shell."""
    kept = {name: environ[name] for name in (*_KEPT, *_KEPT_TOO) if name in environ}
    return kept | {"PATH": environ.get("PATH", "") if sys.platform == "win32" else _PATH}


class _NoReply(TabaneError):
    """The command does not do what an assistant needs."""


def _walk(conversation: _Conversation) -> tuple[int, str | None]:
    client = {"name": "tabane-setup", "version": "1"}
    conversation.ask("initialize", protocolVersion=_VERSION, capabilities={}, clientInfo=client)
    conversation.tell("notifications/initialized")
    listed = conversation.ask("tools/list").get("tools")
    names = [tool.get("name") for tool in listed] if isinstance(listed, list) else []
    called = next((name for name in _HARMLESS if name in names), None)
    if called is not None:
        answer = conversation.ask("tools/call", name=called, arguments=_HARMLESS[called])
        if answer.get("isError"):
            raise _NoReply(say("its tool {tool} failed", tool=called))
    return len(names), called


class _Conversation:
    """JSON-RPC with a process over its pipes, until a deadline."""

    def __init__(self, words: Sequence[str], variables: Mapping[str, str], end: float) -> None:
        self._words, self._variables, self._end = words, variables, end
        self._rest = b""
        self._id = 0

    def __enter__(self) -> _Conversation:
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(self._variables),
            cwd=self._variables.get("HOME") or None,
        )
        return self

    def __exit__(self, *failure: object) -> None:
        process = self._process
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def tell(self, method: str, **params: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        while True:
            answer = self._next()
            if not isinstance(answer, dict) or answer.get("id") != self._id or "method" in answer:
                continue
            error, result = answer.get("error"), answer.get("result")
            if isinstance(error, dict):
                raise _NoReply(say("it answered: {why}", why=str(error.get("message"))))
            return result if isinstance(result, dict) else {}

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _next(self) -> Any:
        while b"\n" not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            return None

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, self._end - time.monotonic())):
                raise _NoReply(say("it did not answer in time"))
        data = os.read(self._process.stdout.fileno(), 1 << 16)
        if not data:
            raise self._ended()
        return data

    def _ended(self) -> _NoReply:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END)
        return _NoReply(say("it ended with status {status}", status=self._process.returncode))

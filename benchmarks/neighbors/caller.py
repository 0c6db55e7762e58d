"""An assistant that calls one tool repeatedly: python -m benchmarks.neighbors.caller CALL AT_ONCE

CALL is the JSON of the parameters of tools/call. It prints `ready` after its handshake, then calls until its
standard input is closed, and prints the number of answers. Answers are counted, not parsed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "caller", "version": "1"},
}


HEAD = 256
"""Bytes of a line in which a notification or a question shows itself."""


class Caller:
    """A bridge, and the bytes that come from it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tabane", "mcp"]
        self.bridge = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.bridge.stdin is not None
        assert self.bridge.stdout is not None
        self._head = b""
        self._out, self._in = self.bridge.stdin.fileno(), self.bridge.stdout.fileno()

    def send(self, number: int, method: str, params: object) -> None:
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        rest = memoryview(json.dumps(body).encode() + b"\n")
        while rest:
            rest = rest[os.write(self._out, rest) :]

    def answers(self) -> int:
        """Wait for bytes, and return how many answers end in them; -1 at the end of bridge or input."""
        ready, _, _ = select.select([self._in, 0], [], [])
        if 0 in ready:
            return -1
        chunk = os.read(self._in, 1 << 20)
        if not chunk:
            return -1
        *ended, rest = chunk.split(b"\n")
        heads = [line[:HEAD] for line in ended]
        if heads:
            heads[0] = (self._head + heads[0])[:HEAD]
            self._head = b""
        self._head = (self._head + rest[:HEAD])[:HEAD]
        return sum(b'"method"' not in head for head in heads)


def main() -> None:
    call, at_once = json.loads(sys.argv[1]), int(sys.argv[2])
    caller = Caller()
    caller.send(0, "initialize", INITIALIZE)
    while caller.answers() == 0:
        pass
    print("ready", flush=True)
    number = came = 0
    free = threading.Semaphore(at_once)

    def ask() -> None:
        nonlocal number
        while True:
            free.acquire()
            number += 1
            caller.send(number, "tools/call", call)

    threading.Thread(target=ask, daemon=True).start()
    while (answers := caller.answers()) >= 0:
        came += answers
        for _ in range(answers):
            free.release()
    print(came, flush=True)
    caller.bridge.kill()
    os._exit(0)


if __name__ == "__main__":
    main()

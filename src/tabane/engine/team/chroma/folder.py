"""A folder of Chroma, in a process of its own.

Chroma's library holds Python's lock while it writes, so in the hub it would stop the event loop for seconds.
In a process of its own it stops nothing, its memory is not the hub's, and a call that hangs is ended.
Requests are answered in their order. So writes go in small parts, and searches pass between them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from tabane.engine.team.chroma.service import (
    CONFIGURATION,
    LONGEST,
    ChromaCollection,
    ChromaService,
    ChromaUrl,
    DamagedCollection,
)
from tabane.errors import StoreError
from tabane.extras import extra_command
from tabane.messages import Message, say

_TOGETHER = 100  # vectors of a request
_STARTING = 60.0  # seconds until the process has imported Chroma and opened the folder
_ENDING = 5.0  # seconds until it has ended what it was asked
_MOST_WAITING = 200  # requests
_PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
_WORKER = Path(__file__).with_name("folder_worker.py")

Answer = dict[str, Any]


class _Process:
    """A process that answers requests, with a thread that writes to it and one that reads its answers."""

    def __init__(self, python: str, folder: str) -> None:
        self._child = subprocess.Popen(
            [python, "-P", str(_WORKER), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",  # Chroma reads settings from a file .env
            env={name: os.environ[name] for name in _PASSED if name in os.environ},
        )
        self._requests: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._gate, self._waiting, self._number = threading.Lock(), dict[int, Future[Answer]](), 0
        self._ended_reading = False
        self.begun: Future[Answer] = Future()
        self._waiting[0] = self.begun
        for work in (self._write_requests, self._read_answers):
            threading.Thread(target=work, name="chroma", daemon=True).start()

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def ask(self, request: Answer) -> Future[Answer]:
        """Send a request soon. Raises EOFError if the process has ended."""
        answer: Future[Answer] = Future()
        with self._gate:
            if self._ended_reading or len(self._waiting) >= _MOST_WAITING:
                raise EOFError("its process has ended" if self._ended_reading else "too many requests wait")
            self._number += 1
            self._waiting[self._number] = answer
            self._requests.put_nowait(json.dumps({"number": self._number, **request}).encode() + b"\n")
        return answer

    def _write_requests(self) -> None:
        pipe = _require_pipe(self._child.stdin)
        with contextlib.suppress(OSError):
            while line := self._requests.get():
                pipe.write(line)
                pipe.flush()
        with contextlib.suppress(OSError):
            pipe.close()

    def _read_answers(self) -> None:
        for line in _require_pipe(self._child.stdout):
            found = json.loads(line)
            with self._gate:
                answered = self._waiting.pop(found.get("number", 0), None)
            if answered is not None:
                answered.set_result(found)
        self._child.wait()
        with self._gate:
            self._ended_reading = True
            left, self._waiting = self._waiting, {}
        for each in left.values():
            each.set_exception(EOFError("its process has ended"))
        with contextlib.suppress(queue.Full):
            self._requests.put_nowait(None)

    def finish(self) -> None:
        """Let the process end what it was asked. Kill it if it does not end."""
        with contextlib.suppress(queue.Full):
            self._requests.put_nowait(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_ENDING)
        self.kill()

    def kill(self) -> None:
        self._child.kill()


def _require_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


class ChromaFolder(ChromaService):
    """The protocol :class:`~tabane.engine.team.chroma.service.ChromaService`, by several threads.

    ``python``: the interpreter of the process, which has Chroma.
    """

    def __init__(self, url: ChromaUrl, python: str = sys.executable) -> None:
        self._url, self._python = url, python
        self._gate = threading.Lock()
        self._process: _Process | None = None

    def version(self) -> str:
        with self._gate:
            if self._process is None or self._process.ended:
                self._process = _Process(self._python, self._url.folder)
            process = self._process
        with self._awaiting_answer(process):
            begun = process.begun.result(_STARTING)
        if "error" in begun:
            self._end_process(process)
            raise StoreError(self._opening_problem(begun))
        found = self._ask_process("version", seconds=LONGEST)
        return str(found["version"])

    def find(self, name: str) -> ChromaCollection | None:
        found = self._ask_process("find", name=name)
        if found["id"] is None:
            return None
        return ChromaCollection(found["id"], found["dimension"], found["metadata"])

    def create(self, name: str, metadata: Mapping[str, str]) -> None:
        self._ask_process("create", name=name, metadata=metadata, configuration=CONFIGURATION)

    def drop(self, name: str) -> None:
        self._ask_process("drop", name=name)

    def note(self, name: str, id: str, metadata: Mapping[str, str]) -> None:
        self._ask_process("note", name=name, id=id, metadata=metadata)

    def put(self, name: str, id: str, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        for first in range(0, len(rows), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            self._ask_process(
                "put", name=name, id=id, rows=rows[part], vectors=[*map(_packed, vectors[part])]
            )

    def remove(self, name: str, id: str, rows: Sequence[int]) -> None:
        for first in range(0, len(rows), _TOGETHER):
            self._ask_process("remove", name=name, id=id, rows=rows[first : first + _TOGETHER])

    def nearest(self, name: str, id: str, vector: bytes, most: int, seconds: float) -> list[int]:
        found = self._ask_process(
            "nearest", name=name, id=id, vector=_packed(vector), most=most, seconds=seconds
        )
        rows: list[int] = found["rows"]
        return rows

    def close(self) -> None:
        """End the process. What it has answered is in its files."""
        with self._gate:
            process, self._process = self._process, None
        if process is not None:
            process.finish()

    def _ask_process(self, do: str, *, seconds: float = LONGEST, **needed: Any) -> Answer:
        process = self._process
        if process is None:
            raise StoreError(self._problem_message("its process has ended"))
        with self._awaiting_answer(process, ends=seconds >= LONGEST):
            found = process.ask({"do": do, **needed}).result(seconds)
        if "error" in found:
            error = DamagedCollection if found["error"] == "damaged" else StoreError
            raise error(self._problem_message(str(found["detail"])))
        return found

    @contextlib.contextmanager
    def _awaiting_answer(self, process: _Process, *, ends: bool = True) -> Iterator[None]:
        """End a process that does not answer, if it ``ends`` it. :meth:`version` starts another."""
        try:
            yield
        except TimeoutError:
            if ends:
                self._end_process(process)
            raise StoreError(self._problem_message("it has not answered in time")) from None
        except (OSError, EOFError, ValueError) as error:
            self._end_process(process)
            raise StoreError(self._problem_message(str(error))) from error

    def _end_process(self, process: _Process) -> None:
        with self._gate:
            if self._process is process:
                self._process = None
        process.kill()

    def _opening_problem(self, begun: Answer) -> Message:
        match begun["error"]:
            case "missing":
                return say(
                    "the setting vector_index needs another package. Install it with: {command}",
                    command=extra_command("chroma"),
                )
            case "used":
                return say(
                    "{place} is used by another hub. Several hubs of one database need a Chroma server",
                    place=self._url.place,
                )
            case _:
                return self._problem_message(str(begun["detail"]))

    def _problem_message(self, detail: str) -> Message:
        return say("{place} cannot be used ({detail})", place=self._url.place, detail=detail[:300])


def _packed(vector: bytes) -> str:
    return base64.b64encode(vector).decode()

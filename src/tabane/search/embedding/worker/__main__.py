"""The embedding process: ``python -m tabane.search.embedding.worker``, its orders on descriptor 0.

Queries run beside the bulk, not after it. The process ends with the pipe that its orders come by, in
the middle of a batch too: nobody waits for the rest.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import BinaryIO

from tabane.search.embedding.batching import batches
from tabane.search.embedding.frames import (
    Ask,
    Begun,
    Done,
    Failed,
    Ready,
    Refused,
    Report,
    Spec,
    length,
    order,
    pack,
)
from tabane.search.embedding.worker.model import Model


class Desk:
    """Takes orders, and answers them in two threads: one for queries, one for the rest."""

    def __init__(self, orders: BinaryIO, reports: BinaryIO) -> None:
        self._orders, self._reports = orders, reports
        self._saying = threading.Lock()
        self._urgent: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        self._bulk: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        self._busy = 0
        self._idle = threading.Condition()

    def run(self) -> None:
        """Load the model that the first order names, then answer until there is nothing more to do."""
        spec = self._next()
        if not isinstance(spec, Spec):
            return
        model = self._load(spec)
        if model is None:
            return
        for line in (self._urgent, self._bulk):
            threading.Thread(target=self._work, args=(model, spec.budget, line), daemon=True).start()
        threading.Thread(target=self._read, daemon=True).start()
        self._wait(spec.idle)

    def _load(self, spec: Spec) -> Model | None:
        from tabane.search.embedding.worker.loading import load

        try:
            model = load(spec)
        except ImportError as error:
            self._say(Failed(str(error), error.name or ""))
        except Exception as error:  # whatever a runtime makes of a file that is not as it should be
            self._say(Failed(f"{type(error).__name__}: {error}"))
        else:
            self._say(Ready(model.dimension))
            return model
        return None

    def _read(self) -> None:
        try:
            while isinstance(asked := self._next(), Ask):
                with self._idle:
                    self._busy += 1
                (self._urgent if asked.urgent else self._bulk).put(asked)
        finally:
            os._exit(0)  # the hub has gone, or wants nothing more

    def _wait(self, idle: float) -> None:
        """Return after ``idle`` seconds without work; 0: never."""
        with self._idle:
            while True:
                if self._busy or not idle:
                    self._idle.wait()
                elif not self._idle.wait(idle) and not self._busy:
                    return

    def _work(self, model: Model, budget: int, line: queue.SimpleQueue[Ask]) -> None:
        while True:
            asked = line.get()
            self._say(self._answer(model, budget, asked))
            with self._idle:
                self._busy -= 1
                self._idle.notify()

    def _answer(self, model: Model, budget: int, asked: Ask) -> Report:
        try:
            tokens = model.tokens(asked.texts, asked.query)
            width = model.dimension * 4
            found = bytearray(len(tokens) * width)
            for batch in batches([len(text) for text in tokens], budget):
                self._say(Begun(asked.id))
                rows = model.vectors([tokens[position] for position in batch])
                for position, row in zip(batch, rows, strict=True):
                    found[position * width : (position + 1) * width] = row.tobytes()
        except Exception as error:  # the runtime's own kinds; the process can go on
            return Refused(asked.id, f"{type(error).__name__}: {error}")
        return Done(asked.id, bytes(found))

    def _next(self) -> object:
        """Return the next order; None at the end of input, or if it ends within an order."""
        head = self._orders.read(4)
        if len(head) < 4:
            return None
        size = length(head)
        body = self._orders.read(size)
        return order(body) if len(body) == size else None

    def _say(self, report: Report) -> None:
        frame = pack(report)
        with self._saying:
            try:
                self._reports.write(frame)
                self._reports.flush()
            except BrokenPipeError:
                os._exit(0)  # nobody listens any more


def main() -> None:
    """Descriptor 1 is for reports alone: what a library prints goes where its errors go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the hub ends first, and the pipe with it
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Desk(os.fdopen(0, "rb"), reports).run()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

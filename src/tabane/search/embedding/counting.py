"""The hub's end of the process that counts tokens with a model's own tokenizer. It blocks.

Tokenizers stay out of the hub: one of many languages takes more memory than the hub itself.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

import msgspec

from tabane.search.embedding.batching import slices
from tabane.search.embedding.embedder import clean
from tabane.search.embedding.frames import length

IDLE = 60.0
"""Seconds without a text after which the process ends."""

_SILENCE = 60.0  # seconds in which a part is counted, or the process is taken to hang
_TEXTS, _CHARACTERS = 4096, 500_000  # of a part
_RUN = (sys.executable, "-I", "-m", "tabane.search.embedding.worker.counting")


class Counter:
    """Counts with the tokenizer in this file. The process is started when it is needed, and ends by itself.

    May be used by several threads: they take turns. ``errors`` is the descriptor its stderr goes to.
    """

    def __init__(
        self,
        tokenizer: str,
        environ: Mapping[str, str],
        errors: int | None = None,
        *,
        idle: float = IDLE,
        silence: float = _SILENCE,
    ) -> None:
        self._run = (*_RUN, tokenizer, str(idle))
        self._environ = {**environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._errors, self._silence = errors, silence
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that was started last, if it has not ended."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, without special ones. Raises OSError where they cannot be had."""
        found = [0] * len(texts)
        for part in slices([len(text) for text in texts], _TEXTS, _CHARACTERS):
            body = msgspec.msgpack.encode([clean(texts[place]) for place in part])
            with self._turn:
                tokens = self._again(len(body).to_bytes(4, "big") + body, len(part))
            for place, size in zip(part, tokens, strict=True):
                found[place] = size
        return found

    def close(self) -> None:
        """End the process. What is being counted fails."""
        self._closed = True
        self._end()

    def _again(self, frame: bytes, size: int) -> list[int]:
        """Ask, and once more where the process was just about to end."""
        try:
            return self._ask(frame, size)
        except OSError:
            self._end()
            return self._ask(frame, size)

    def _ask(self, frame: bytes, size: int) -> list[int]:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        alarm = threading.Timer(self._silence, child.kill)
        alarm.start()
        try:
            child.stdin.write(frame)
            child.stdin.flush()
            body = _exactly(child.stdout, length(_exactly(child.stdout, 4)))
            found = msgspec.msgpack.decode(body, type=list[int])
        except ValueError as error:  # no numbers at all, or a pipe that was closed
            raise OSError(f"{type(error).__name__}: {error}") from None
        finally:
            alarm.cancel()
        if len(found) != size:
            raise OSError(f"{len(found)} numbers for {size} texts")
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise OSError("closed")
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._child = subprocess.Popen(
                self._run,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if self._errors is None else self._errors,
                env=self._environ,
            )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    body = pipe.read(size)
    if len(body) != size:
        raise OSError("the process that counts tokens has ended")
    return body

"""The hub's end of the embedding process: starts it when it is asked, and again when it has died.

What had been asked is asked again then. A request that was under way in three deaths is given up, since
it is likely to be what they came of; so is everything that waits after three deaths without an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tabane.errors import ModelError, ModelMissing, ModelUnavailable
from tabane.messages import say
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
    pack,
    report,
)

_DEATHS = 3
_PAUSE = 0.1  # seconds after the first death without an answer, doubled by the next
_ENDING = 5.0  # seconds a process has to end by itself
_SILENCE = 600.0

_RUN = (sys.executable, "-I", "-m", "tabane.search.embedding.worker")


@dataclass(slots=True)
class _Asked:
    frame: bytes
    answer: asyncio.Future[bytes]
    begun: bool = False
    deaths: int = 0


class Process:
    """A process that runs one model, while there is something to run it for.

    ``silence`` is the seconds after which a process that owes an answer and says nothing is taken to
    hang, and killed. ``errors`` is the descriptor its stderr goes to, None for nowhere. To be used on
    one event loop.
    """

    def __init__(
        self, spec: Spec, environ: Mapping[str, str], *, silence: float = _SILENCE, errors: int | None = None
    ) -> None:
        self.spec = spec
        self._environ = _environment(environ, spec.threads)
        self._silence, self._errors = silence, errors
        self._asked: dict[int, _Asked] = {}
        self._last = 0
        self._dimension = 0
        self._keeping: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._ready = False
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        return self._child.pid if self._child else None

    @property
    def busy(self) -> bool:
        """Whether it is at texts that somebody waits for."""
        return any(asked.begun for asked in self._asked.values())

    async def dimension(self) -> int:
        """The components of a vector: known once the model was loaded, which this waits for."""
        if not self._dimension:
            await self.ask((), urgent=True)
        return self._dimension

    async def ask(self, texts: Sequence[str], *, urgent: bool = False, query: str = "") -> bytes:
        """The vectors of the texts, one after the other. ``urgent`` ones do not wait for others.

        A model that scores gives one component each: of the text, read together with ``query``.

        Raises ModelMissing where a package is not installed, ModelUnavailable where the process keeps
        dying, ModelError where the model cannot be loaded or refuses the texts.
        """
        if self._closed:
            raise ModelUnavailable(say("The embedding process is being ended."))
        self._last += 1
        number = self._last
        frame = pack(Ask(number, list(texts), urgent, query))
        asked = _Asked(frame, asyncio.get_running_loop().create_future())
        self._asked[number] = asked
        self._wake(asked)
        try:
            return await asked.answer
        finally:
            self._asked.pop(number, None)

    async def close(self) -> None:
        """End the process; what was asked of it fails."""
        self._closed = True
        self._give_up(ModelUnavailable(say("The embedding process is being ended.")))
        if self._child and self._child.stdin:
            self._child.stdin.close()
        if self._keeping:
            await asyncio.wait({self._keeping}, timeout=_ENDING)
            self._kill()
            await asyncio.wait({self._keeping})

    def _wake(self, asked: _Asked) -> None:
        if self._ready:
            self._send(asked)
        elif self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Live after life, until nothing is asked any more."""
        barren = 0
        try:
            while self._asked and barren < _DEATHS:
                barren = 0 if await self._live() else barren + 1
                if barren and self._asked:
                    await asyncio.sleep(_PAUSE * 2 ** (barren - 1))
        except ModelError as error:
            self._give_up(error)
        except (OSError, ValueError) as error:
            self._give_up(ModelError(say("The embedding process cannot be used: {reason}.", reason=error)))
        finally:  # what is left now, whatever happened: nobody waits for ever
            self._give_up(ModelUnavailable(say("The embedding process ended {times} times.", times=_DEATHS)))

    async def _live(self) -> bool:
        """One process from its start to its end. True where it answered something, or ended as it should."""
        child = self._child = await asyncio.create_subprocess_exec(
            *_RUN,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if self._errors is None else self._errors,
            env=self._environ,
        )
        answered = ready = False
        try:
            assert child.stdin is not None
            child.stdin.write(pack(self.spec))
            self._watch()
            if self._closed:
                return True
            while (told := await self._told(child)) is not None:
                answered |= self._take(told)
                ready |= self._ready
            await child.wait()
        finally:
            await self._bury(child)
        self._count_deaths()
        return answered or (ready and child.returncode == 0)

    async def _bury(self, child: asyncio.subprocess.Process) -> None:
        self._ready = False
        self._hush()
        self._kill()
        await child.wait()
        if child.stdin:
            child.stdin.close()
        self._child = None

    async def _told(self, child: asyncio.subprocess.Process) -> Report | None:
        assert child.stdout is not None
        try:
            return report(await child.stdout.readexactly(length(await child.stdout.readexactly(4))))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def _take(self, told: Report) -> bool:
        """Act on a report; True where it is an answer."""
        if isinstance(told, Failed):
            raise _failure(told)
        if isinstance(told, Ready):
            self._begin(told.dimension)
            return False
        asked = self._asked.get(told.id)
        if asked and isinstance(told, Begun):
            asked.begun = True
        elif asked and not asked.answer.done():
            self._asked.pop(told.id)
            _settle(asked.answer, told)
        self._hush()
        self._watch()
        return not isinstance(told, Begun)

    def _begin(self, dimension: int) -> None:
        if self._dimension not in (0, dimension):
            raise ModelError(say("The embedding model gives vectors of another dimension than before."))
        self._dimension = dimension
        self._ready = True
        for asked in self._asked.values():
            self._send(asked)

    def _send(self, asked: _Asked) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        with contextlib.suppress(ConnectionError):  # it has died: asked again in its next life
            self._child.stdin.write(asked.frame)
        self._watch()

    def _count_deaths(self) -> None:
        for number, asked in list(self._asked.items()):
            asked.deaths += asked.begun
            asked.begun = False
            if asked.deaths >= _DEATHS and not asked.answer.done():
                self._asked.pop(number)
                asked.answer.set_exception(
                    ModelError(say("The embedding process died {times} times of these texts.", times=_DEATHS))
                )

    def _give_up(self, error: ModelError) -> None:
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(error)
        self._asked.clear()

    def _watch(self) -> None:
        if self._asked and self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._silence, self._kill)

    def _hush(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None

    def _kill(self) -> None:
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()


def _settle(answer: asyncio.Future[bytes], told: Report) -> None:
    if isinstance(told, Done):
        answer.set_result(told.vectors)
    elif isinstance(told, Refused):
        answer.set_exception(
            ModelError(say("The embedding model refused the texts: {reason}.", reason=told.reason))
        )


def _failure(told: Failed) -> ModelError:
    if told.missing:
        return ModelMissing(
            say(
                "The package {package}, which the embedding model needs, is not installed.",
                package=told.missing,
            )
        )
    return ModelError(say("The embedding model cannot be loaded: {reason}.", reason=told.reason))


def _environment(environ: Mapping[str, str], threads: int) -> dict[str, str]:
    """The process's: libraries that count the cores for themselves are told how many are theirs."""
    counts = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    quiet = {"TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**environ, **counts, **quiet}


def cores() -> int:
    """Threads for a model where nobody says how many: at most four, one for each core of this process."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, 4)

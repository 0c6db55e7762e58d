"""Pages made of bytes, in a process of their own.

Parsers of HTML, PDF and images are written in C, are given what strangers made, and take what memory and time
it makes them take. One child process does it, page after page: where it dies, hangs or swells it is ended and
another started, and what the hub loses is one page.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping

import msgspec

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.page import Page
from tabane.reader.worker.frames import Ask, Failed, Report, length, pack, report

_DEADLINE = 30.0
_IDLE = 300.0
_MEMORY = 1_500_000_000  # bytes of address space: libraries that are mapped and never touched count too
_LARGEST = 64_000_000  # bytes of a body
_WAITING = 256_000_000  # bytes of bodies that wait for their turn
_ENDING = 5.0  # seconds a process has to end by itself

_TOLD = frozenset({
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
})  # fmt: skip
"""What the process knows of the environment: not the keys and tokens that are kept there."""

_RUN = (sys.executable, "-I", "-m", "tabane.reader.worker")


class _Died(Exception):
    """The process ended before it had answered."""


class Conversion:
    """Makes pages, one after the other, in a process that is started with the first.

    ``deadline`` is the seconds a page may take, ``idle`` those after which a process without work is ended,
    ``memory`` the bytes of address space it may have (Linux), ``errors`` the descriptor its stderr goes to,
    None for nowhere. To be used on one event loop.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        deadline: float = _DEADLINE,
        idle: float = _IDLE,
        memory: int = _MEMORY,
        errors: int | None = None,
    ) -> None:
        known = {name: value for name, value in environ.items() if name in _TOLD}
        self._environ = {**known, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        self._deadline, self._idle, self._memory, self._errors = deadline, idle, memory, errors
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        return self._child.pid if self._child else None

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        """The page that these bytes are.

        Raises ReadError: ``type`` where nothing here reads it, ``broken`` where it cannot be read, took the
        process with it twice or took too long, ``large`` where it is or would become too large, ``rate``
        where too much waits already.
        """
        if len(body) > _LARGEST:
            raise ReadError(say("A body of {size} bytes is too large to be read.", size=len(body)), "large")
        if self._waiting + len(body) > _WAITING:
            raise ReadError(say("Too many pages wait to be read: try again."), "rate", wait=1.0)
        ask = Ask(body, url, media_type, charset, name, seconds=int(self._deadline * 2))
        self._waiting += len(body)
        try:
            async with self._turn:
                return await self._made(ask)
        finally:
            self._waiting -= len(body)

    async def close(self) -> None:
        """End the process; a page that is being made fails."""
        self._closed = True
        if self._turn.locked():
            self._kill()
        async with self._turn:
            self._retire()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _made(self, ask: Ask) -> Page:
        """The page. Only one is being made at a time: a process that died did so of it, or was killed."""
        for _ in range(2):
            if self._closed:
                break
            with contextlib.suppress(_Died):
                told = await self._answer(ask)
                if isinstance(told, Failed):
                    raise ReadError(told.message, told.cause)
                return told.page
        if self._closed:
            raise ReadError(say("The reader is being ended."), "broken")
        raise ReadError(say("The page made the converting process end, twice."), "broken")

    async def _answer(self, ask: Ask) -> Report:
        child = await self._ready()
        try:
            async with asyncio.timeout(self._deadline):
                told = await self._exchange(child, ask)
        except TimeoutError:
            await self._bury()
            raise ReadError(
                say("The page took longer than {seconds} seconds to convert.", seconds=self._deadline),
                "broken",
            ) from None
        except BaseException:
            await asyncio.shield(self._bury())
            raise
        if isinstance(told, Failed) and told.ending:
            await self._bury()
        else:
            self._rest()
        return told

    async def _ready(self) -> asyncio.subprocess.Process:
        """The process, started where none runs. It may have ended by itself after its last page."""
        if self._timer:
            self._timer.cancel()
        if self._child is not None and (self._child.returncode is not None or _at_end(self._child)):
            await self._bury()
        if self._child is None:
            try:
                self._child = await asyncio.create_subprocess_exec(
                    *_RUN,
                    str(self._memory),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL if self._errors is None else self._errors,
                    env=self._environ,
                    limit=1 << 20,
                )
            except OSError as error:
                raise ReadError(
                    say("The converting process cannot be started: {reason}", reason=error), "broken"
                ) from None
        return self._child

    async def _exchange(self, child: asyncio.subprocess.Process, ask: Ask) -> Report:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(pack(ask))
            await child.stdin.drain()
            size = length(await child.stdout.readexactly(4))
            return report(await child.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, msgspec.DecodeError) as error:
            raise _Died from error

    def _rest(self) -> None:
        """Wait for more work, for a while."""
        self._timer = asyncio.get_running_loop().call_later(self._idle, self._retire)

    def _retire(self) -> None:
        """Let the process end, where it is not at work."""
        if self._timer:
            self._timer.cancel()
        child, self._child = self._child, None
        if child is not None:
            ending = asyncio.get_running_loop().create_task(_end(child))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _bury(self) -> None:
        self._kill()
        child, self._child = self._child, None
        if child is not None:
            await _end(child)

    def _kill(self) -> None:
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()


def _at_end(child: asyncio.subprocess.Process) -> bool:
    return child.stdout is None or child.stdout.at_eof()


async def _end(child: asyncio.subprocess.Process) -> None:
    """Close its questions, and wait for it; it is killed where it does not end."""
    if child.stdin:
        child.stdin.close()
    try:
        async with asyncio.timeout(_ENDING):
            await child.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()

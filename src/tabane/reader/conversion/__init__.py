"""Conversion of bytes into pages, in separate processes.

Parsers of HTML, PDF and images are written in C and read untrusted data, which can make them use any amount
of memory and time. If one crashes, hangs or grows too large, the hub loses only one page: another process
converts the others meanwhile. If a page takes too much CPU time, its result is plain text.

Requests and results are frames of MessagePack; ``python -m tabane.reader.conversion`` is the process.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from tabane.errors import ReadError, WorkerBusy, WorkerEnded, WorkerError, WorkerSpent
from tabane.messages import Message, say
from tabane.reader.page import Page
from tabane.reader.url_reader import shown
from tabane.workers import frames
from tabane.workers.frames import LONGEST
from tabane.workers.pool import Budget, Capacity, Lane, Pool
from tabane.workers.worker import Program, environment, module

_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"GIF8", b"BM")
_SECONDS = 10.0  # of CPU time
_LONG_BODY = 500_000  # bytes of a page that may take a while
_LONGEST_BODY = 2_000_000  # bytes of a page that will be slow
_QUICK = 1.0  # seconds of CPU time after which a page is slow
_DEADLINE = 40.0
_PICTURES = 35.0  # seconds more for what may be pictures of text, which another process reads (OCR)
_PLAIN = 60.0  # seconds for the text alone, by the clock: a machine may be busy
_IDLE = 300.0
_MEMORY = 1_500_000_000  # bytes of address space: libraries that are mapped and never touched count too
_LARGEST = 64_000_000  # bytes of a body
_WAITING = 256_000_000  # bytes of bodies that wait or are being converted
_MOST_WAITING = 256
_WORKERS = 3
_OF_A_SITE = 2
_SLOW = 2  # slow pages at once, at most: one worker is left to the others
_LONG = 50_000  # characters of a page that take longer to clean than to send


class ConversionRequest(msgspec.Struct, frozen=True, tag="ConversionRequest"):
    """Bytes to convert into a page, and their metadata.

    ``plain``: return only their text, in one pass; without ``scripts``, include what browsers without
    scripts show.
    """

    body: bytes
    url: str
    media_type: str = ""
    charset: str | None = None
    name: str = ""
    plain: bool = False
    scripts: bool = True


class CleaningRequest(msgspec.Struct, frozen=True, tag="CleaningRequest"):
    """A page to make readable for a person. ``raw``: it is source text, and its comments are kept."""

    page: Page
    raw: bool = False


class ConvertedPage(msgspec.Struct, frozen=True, tag="ConvertedPage"):
    """The page."""

    page: Page


class ConversionFailure(msgspec.Struct, frozen=True, tag="ConversionFailure"):
    """No page, and why: the members of a ReadError. ``ending``: the process ends itself after this."""

    message: Message
    cause: str
    ending: bool = False


ConversionResult = ConvertedPage | ConversionFailure

_ENCODER = msgspec.msgpack.Encoder(enc_hook=frames.encode_message)
_ASKS: msgspec.msgpack.Decoder[ConversionRequest | CleaningRequest] = msgspec.msgpack.Decoder(
    ConversionRequest | CleaningRequest, dec_hook=frames.decode_message
)
_REPORTS: msgspec.msgpack.Decoder[ConversionResult] = msgspec.msgpack.Decoder(
    ConversionResult, dec_hook=frames.decode_message
)


def pack(message: ConversionRequest | CleaningRequest | ConversionResult) -> bytes:
    """Return a message as bytes. Raises ValueError if it is too long for a frame."""
    body = _ENCODER.encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"a frame of {len(body)} bytes")
    return body


def decode_request(body: bytes) -> ConversionRequest | CleaningRequest:
    """Decode a request to the process."""
    return _ASKS.decode(body)


def decode_result(body: bytes) -> ConversionResult:
    """Decode an answer of the process. Raises msgspec.DecodeError for anything else."""
    return _REPORTS.decode(body)


class PageConverter:
    """Converts pages in processes that are started on demand: three at once, two of one site.

    One that is large or takes long is in a slow lane, which leaves a worker and, if there are several, a core
    to others. One worker is reserved for sites whose last page was quick.

    ``seconds`` is the CPU time of a page, ``deadline`` its time by the clock, ``idle`` the seconds after
    which a process without work is ended, ``memory`` the bytes of address space it may have (Linux),
    ``errors`` the descriptor its stderr goes to, None for nowhere. Use it on one event loop only.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        seconds: float = _SECONDS,
        deadline: float = _DEADLINE,
        idle: float = _IDLE,
        memory: int = _MEMORY,
        errors: int | None = None,
    ) -> None:
        program = Program(module("tabane.reader.conversion"), environment(environ), memory, errors)
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        capacity = Capacity(
            turns=_WORKERS,
            each=_OF_A_SITE,
            waiting=_MOST_WAITING,
            size=_WAITING,
            slow=max(1, min(_SLOW, cores - 1)),
            reserved=1,
        )
        self._pool = Pool(program, capacity, idle=idle)
        self._whole = Budget(seconds, deadline, quick=_QUICK)
        self._pictures = Budget(seconds, deadline + _PICTURES, quick=_QUICK)
        self._plain = Budget(max(seconds, _SECONDS), min(deadline, _PLAIN), tries=1, quick=_QUICK)

    @property
    def pids(self) -> list[int]:
        """Return the ids of the running processes."""
        return self._pool.pids

    @property
    def busy(self) -> list[int]:
        """Return the ids of those that convert a page."""
        return self._pool.busy

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        """Convert bytes into a page; return its plain text if the conversion takes too long.

        Raises ReadError: ``type`` if the type is not supported, ``broken`` if the page cannot be read,
        crashed its process twice or took too long, ``large`` if it is or would become too large, ``rate`` if
        too much is waiting already.
        """
        if len(body) > _LARGEST:
            raise ReadError(
                say("The body is too large to read: {size} {size:byte|bytes}.", size=len(body)), "large"
            )
        ask = ConversionRequest(body, url, media_type, charset, name)
        # A PDF or an image, by its signature, may have to be recognized.
        may_be_scanned = b"%PDF-" in body[:1024] or body.startswith(_IMAGES) or body[8:12] == b"WEBP"
        try:
            result = await self._convert(ask, self._pictures if may_be_scanned else self._whole)
        except WorkerSpent as error:
            return await self._text(ask, ReadError(error.message, "broken"))
        except WorkerEnded:
            return await self._text(
                ask, ReadError(say("The conversion process crashed twice on this page."), "broken")
            )
        if isinstance(result, ConversionFailure):
            if result.ending:
                return await self._text(ask, ReadError(result.message, result.cause))
            raise ReadError(result.message, result.cause)
        return result.page

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        """Return all the text that HTML shows to browsers without scripts. Raises ReadError as page does."""
        return await self._without_fallback(
            ConversionRequest(body, url, media_type, charset, plain=True, scripts=False)
        )

    async def shown(self, page: Page, *, raw: bool = False) -> Page:
        """Return the page as a person sees it (:func:`tabane.reader.url_reader.shown`). Raises ReadError."""
        if len(page.markdown) <= _LONG:
            return await asyncio.to_thread(shown, page, raw=raw)
        return await self._without_fallback(CleaningRequest(page, raw))

    async def close(self) -> None:
        """End the processes; pages that are being made fail."""
        await self._pool.close()

    async def _text(self, ask: ConversionRequest, why: ReadError) -> Page:
        """Return the plain text, or the beginning of a document. Raises ``why`` if that fails too."""
        try:
            result = await self._convert(structs.replace(ask, plain=True), self._plain)
        except (WorkerSpent, WorkerEnded):
            raise why from None
        if isinstance(result, ConversionFailure):
            raise why
        if result.page.way != "plain":  # the page says itself that this is its beginning
            return result.page
        warning = say(
            "The page could not be analyzed. This is its plain text without structure. {reason}",
            reason=why.message,
        )
        return replace(result.page, warnings=(warning, *result.page.warnings))

    async def _without_fallback(self, ask: ConversionRequest | CleaningRequest) -> Page:
        """Return the result of a request that has no fallback."""
        try:
            result = await self._convert(ask, self._whole)
        except WorkerError as error:
            raise ReadError(error.message, "broken") from None
        if isinstance(result, ConversionFailure):
            raise ReadError(result.message, result.cause)
        return result.page

    async def _convert(self, ask: ConversionRequest | CleaningRequest, budget: Budget) -> ConversionResult:
        url = ask.url if isinstance(ask, ConversionRequest) else ask.page.url
        try:
            body = pack(ask)
            size = len(body)
            if size > _LONGEST_BODY:
                lane = Lane.SLOW
            elif size > _LONG_BODY:
                lane = Lane.NEW
            else:
                lane = Lane.PROVEN
            try:
                site = urlsplit(url).netloc  # "" for files, which take turns with each other
            except ValueError:
                site = ""
            return decode_result(await self._pool.ask(body, budget, key=site, lane=lane))
        except WorkerBusy:
            raise ReadError(
                say("Too many pages are waiting to be read. Try again later."), "rate", wait=1.0
            ) from None
        except (WorkerSpent, WorkerEnded):
            raise
        except WorkerError as error:
            raise ReadError(error.message, "broken") from None
        except (ValueError, msgspec.DecodeError):
            raise WorkerEnded(say("The worker process ended.")) from None

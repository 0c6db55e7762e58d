"""Responses: headers as values, bodies decompressed piece by piece within a limit, and errors.

An error of the network or of an HTTP status is a cause and a sentence that says what to do.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import re
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.wire.http import retry_after

_SPENT = frozenset({"content-encoding", "content-length", "transfer-encoding", "set-cookie", "set-cookie2"})
"""Headers that are wrong for a decompressed body, and cookies, which nobody else needs."""

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+*-]{1,127}")  # RFC 6838, 4.2


def lowered(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; repeated ones are joined by commas, cookies by lines (RFC 9110)."""
    gathered: dict[str, list[str]] = {}
    for name, value in raw:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        gathered.setdefault(name.decode("ascii", "replace").lower(), []).append(text.strip())
    return {name: ("\n" if name == "set-cookie" else ", ").join(values) for name, values in gathered.items()}


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that are still right for the decompressed body."""
    return {name: value for name, value in headers.items() if name not in _SPENT}


def media(value: str) -> tuple[str, str | None]:
    """Return media type and charset of a Content-Type, in lower case; "" and None if they are missing.

    An invalid media type counts as missing, because it is shown and decides how the body is read.
    """
    kind, *parameters = value.split(";")
    charset = None
    for parameter in parameters:
        name, _, value_of_parameter = parameter.partition("=")
        if name.strip().lower() == "charset" and charset is None:
            charset = value_of_parameter.strip().strip("\"'").strip().lower() or None
    kind = kind.strip().lower()
    return (kind if _MEDIA_TYPE.fullmatch(kind) else ""), charset


def declared(headers: Mapping[str, str]) -> int | None:
    """Return the declared length of a body, in bytes as transferred."""
    length = headers.get("content-length", "").partition(",")[0].strip()
    return int(length[:20]) if length.isascii() and length.isdigit() else None


def seconds_to_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait, by Retry-After, else by the reset of a spent X-RateLimit.

    ``now`` is the time as seconds since 1970. None if both are missing.
    """
    seconds = retry_after(headers.get("retry-after"), now)
    if seconds is not None:
        return seconds
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(0.0, float(reset[:12]) - now)
    return None


PIECE = 256 * 1024
"""The most bytes that come out at once: a millisecond or so of work."""

_ZSTD_WINDOW = 23  # 2^23 bytes, the most that HTTP allows (RFC 9659)


class DamagedEncoding(Exception):
    """The body is not compressed as its header says."""


class UnknownEncoding(Exception):
    """The compression is not supported; the text of the error is its name."""


class Decompressor(Protocol):
    """One body being unpacked."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes, ``data``, decompress to: pieces of about PIECE bytes at most. Raises
        DamagedEncoding.
        """
        ...

    def done(self) -> bool:
        """Return whether the end was reached, as a whole body has it."""
        ...


def accepted() -> str:
    """Return the value of Accept-Encoding: the encodings that can be decompressed here."""
    brotli = ", br" if importlib.util.find_spec("brotli") else ""  # not imported before it is needed
    return f"gzip, deflate{brotli}" + (", zstd" if _zstd_module() is not None else "")


def unpacking(encoding: str) -> Decompressor | None:
    """Return the decompressor for a Content-Encoding; None if none is needed. Raises UnknownEncoding."""
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if not names:
        return None
    if names in (["gzip"], ["x-gzip"]):
        return _Gzip()
    if names == ["deflate"]:
        return _Deflate()
    if names == ["br"] and (brotli := _load_module("brotli")) is not None:
        return _Brotli(brotli)
    if names == ["zstd"] and (zstd := _zstd_module()) is not None:
        return _Zstd(zstd)
    raise UnknownEncoding(", ".join(names)[:80])


class _Gzip:
    """One gzip member or several; trailing bytes that are not a member are ignored, as by all clients."""

    def __init__(self) -> None:
        self._state, self._whole, self._begun = zlib.decompressobj(wbits=31), True, False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._whole and self._begun and not data.startswith(b"\x1f"):
                return
            self._begun, self._whole = True, False
            yield from _inflate(self._state, data)
            data = b""
            if self._state.eof:
                data, self._state, self._whole = self._state.unused_data, zlib.decompressobj(wbits=31), True

    def done(self) -> bool:
        return self._whole


class _Deflate:
    """zlib's format, or the bare one that some servers mean (RFC 9110, 8.4.1.2)."""

    def __init__(self) -> None:
        self._state: Any = None
        self._first = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._state is None:
            self._first += data
            if len(self._first) < 2:
                return
            data, first = self._first, int.from_bytes(self._first[:2], "big")
            dressed = first >> 8 & 15 == 8 and first % 31 == 0
            self._state = zlib.decompressobj() if dressed else zlib.decompressobj(wbits=-15)
        if not self._state.eof:
            yield from _inflate(self._state, data)

    def done(self) -> bool:
        return self._state is None or bool(self._state.eof)


def _inflate(state: Any, data: bytes) -> Iterator[bytes]:
    while True:
        try:
            piece: bytes = state.decompress(data, PIECE)
        except zlib.error as error:
            raise DamagedEncoding(str(error)) from None
        yield piece
        data = state.unconsumed_tail
        if state.eof or (not data and len(piece) < PIECE):
            return


class _Brotli:
    def __init__(self, brotli: Any) -> None:
        self._state, self._broken, self._begun = brotli.Decompressor(), brotli.error, False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._state.is_finished():
            return
        self._begun = True
        while True:
            try:
                piece: bytes = self._state.process(data, output_buffer_limit=PIECE)
            except self._broken as error:
                raise DamagedEncoding(str(error)) from None
            yield piece
            data = b""
            if self._state.is_finished() or self._state.can_accept_more_data():
                return

    def done(self) -> bool:
        return not self._begun or bool(self._state.is_finished())


class _Zstd:
    def __init__(self, zstd: Any) -> None:
        self._zstd, self._whole = zstd, True
        self._state = self._new_stream()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            self._whole = False
            yield from self._unpack(data)
            data = b""
            if self._state.eof:
                data, self._state, self._whole = self._state.unused_data, self._new_stream(), True

    def done(self) -> bool:
        return self._whole

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        while True:
            try:
                piece: bytes = self._state.decompress(data, PIECE)
            except self._zstd.ZstdError as error:
                raise DamagedEncoding(str(error)) from None
            yield piece
            data = b""
            if self._state.eof or self._state.needs_input:
                return

    def _new_stream(self) -> Any:
        widest = {self._zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW}
        return self._zstd.ZstdDecompressor(options=widest)


def _zstd_module() -> Any | None:
    """Return the standard library's module (Python 3.14 and later), or its backport if that is installed."""
    return _load_module("compression.zstd", "backports.zstd")


def _load_module(*names: str) -> Any | None:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


async def body(
    stream: AsyncIterator[bytes],
    headers: Mapping[str, str],
    limit: int,
    *,
    cut: bool = False,
    until: float | None = None,
) -> bytes:
    """Return the whole body, decompressed.

    ``limit`` applies to the bytes as transferred and as decompressed. Beyond it, ReadError ``large`` is
    raised at once; with ``cut``, the bytes within the limit are returned. Raises ReadError ``broken`` if the
    body is not compressed as its headers say. Raises UnfinishedBody at the time ``until`` of the event loop.
    """
    length = declared(headers)
    if length is not None and length > limit and not cut:
        raise _too_large(limit)
    whole = bytearray()
    try:
        async with (
            asyncio.timeout_at(until) as timer,
            aclosing(_read_pieces(stream, headers.get("content-encoding", ""), limit)) as pieces,
        ):
            async for piece in pieces:
                whole += piece
                if len(whole) > limit:
                    raise _BodyTooLarge
    except TimeoutError:
        if timer.expired():
            raise UnfinishedBody(bytes(whole)) from None
        raise
    except _BodyTooLarge:
        if not cut:
            raise _too_large(limit) from None
    except DamagedEncoding as error:
        raise _damaged_error(str(error)) from None
    except UnknownEncoding as error:
        raise ReadError(
            say("the page is compressed as {encoding}, which is not supported.", encoding=error), "broken"
        ) from None
    del whole[limit:]
    return bytes(whole)


class UnfinishedBody(Exception):
    """The time was over before the end of a body. ``data`` is what came until then."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self.data = data


class _BodyTooLarge(Exception):
    """More than the limit."""


async def _read_pieces(stream: AsyncIterator[bytes], encoding: str, limit: int) -> AsyncGenerator[bytes]:
    packed, count = unpacking(encoding), 0
    async for data in stream:
        if (count := count + len(data)) > limit:
            raise _BodyTooLarge
        if packed is None:
            yield data
            continue
        for piece in packed.pieces(data):
            yield piece
            await asyncio.sleep(0)  # a bomb is unpacked between other work
    if packed is not None and not packed.done():
        raise _damaged_error(say("it ends too early"))


def _damaged_error(why: Message | str) -> ReadError:
    return ReadError(say("the page cannot be decompressed: {why}.", why=why), "broken")


def _too_large(limit: int) -> ReadError:
    return ReadError(
        say(

                "the page is larger than the limit of {limit:g} MB. The setting reader_size can "
                "raise it.", limit=limit / 1_000_000,
        ),
        "large",
    )  # fmt: skip


def refusal(status: int, host: str, wait: float | None) -> ReadError:
    """Return the ReadError for ``status``: cause ``rate`` if a retry may succeed later, else ``status``.

    ``wait`` is the number of seconds that ``host`` asks to wait, or None. A 403 with a wait is a rate limit:
    APIs whose limit is spent answer so.
    """
    timely = status in (429, 503) or (status == 403 and wait is not None)
    return ReadError(
        _rate_message(status, host, wait) if timely else _status_message(status, host),
        "rate" if timely else "status",
        status=status,
        wait=wait,
    )


def walled(status: int, host: str, vendor: str) -> ReadError:
    """Return the error for a page that checks for bots; ``vendor`` makes the check, "" if unknown."""
    if vendor:
        message = say(
            "{host} shows a bot check ({vendor}) instead of the page (HTTP {status}). Ask the user to "
            "open the "
            "page in a browser, or to import that browser's cookies: tabane reader cookies HOST FILE.",
            host=host,
            vendor=vendor,
            status=status,
        )
    else:
        message = say(
            "{host} shows a bot check instead of the page (HTTP {status}). Ask the user to open the "
            "page in a "
            "browser, or to import that browser's cookies: tabane reader cookies HOST FILE.",
            host=host,
            status=status,
        )
    return ReadError(message, "wall", status=status)


def _rate_message(status: int, host: str, wait: float | None) -> Message:
    if wait:
        return say(
            "{host} asks Tabane to wait for {seconds:.0f} s (HTTP {status}). Try again after that.",
            host=host,
            seconds=wait,
            status=status,
        )
    return say("{host} is too busy (HTTP {status}). Try again later.", host=host, status=status)


def _status_message(status: int, host: str) -> Message:
    if status in (401, 407):
        return say("{host} requires a login for this page (HTTP {status}).", host=host, status=status)
    if status == 403:
        return say(
            "{host} does not allow programs to read this page, or requires a login (HTTP {status}).",
            host=host,
            status=status,
        )
    if status in (404, 410):
        return say("{host} has nothing at this URL (HTTP {status}).", host=host, status=status)
    if status >= 500:
        return say("{host} has an internal error (HTTP {status}). Try again later.", host=host, status=status)
    return say("{host} does not accept this request (HTTP {status}).", host=host, status=status)


_EXPIRED, _EARLY, _NAME, _ADDRESS = 10, 9, 62, 64  # X509_V_ERR_… of OpenSSL


class TransientFetchError(Exception):
    """A failure that a retry may fix. ``wait`` is the number of seconds to wait, if the server gave one."""

    def __init__(self, error: ReadError, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.wait = error, wait


def lookup(error: Exception, host: str) -> ReadError | TransientFetchError:
    """Return a name that was not found, or could not be looked up."""
    number = getattr(error, "errno", None)
    if number == socket.EAI_AGAIN:
        return TransientFetchError(
            ReadError(
                say(
                    "the name {host} cannot be resolved now. Check the connection, or try again later.",
                    host=host,
                ),
                "dns",
            )
        )
    return ReadError(say("the name {host} does not exist. Check its spelling.", host=host), "dns")


def connecting(error: BaseException, host: str, port: int) -> TransientFetchError:
    """Nobody answers at an address."""
    where = f"{host}:{port}"
    number = next((e.errno for e in chain(error) if isinstance(e, OSError) and (e.errno or 0) > 0), None)
    if number is None:
        return TransientFetchError(ReadError(say("{host} cannot be reached.", host=where), "connect"))
    return TransientFetchError(
        ReadError(
            say("{host} cannot be reached: {error}.", host=where, error=os.strerror(number)),
            "connect",
        )
    )


def by_proxy(error: BaseException, host: str) -> ReadError:
    """Return the proxy of the settings refused."""
    return ReadError(
        say(
            "the proxy of the setting reader_proxy does not connect to {host}: {error}.",
            host=host,
            error=_first_reason(error),
        ),
        "connect",
    )


def tls(error: BaseException, host: str) -> ReadError | None:
    """Return the fault of the certificate or the handshake; None if the error is not of TLS."""
    problem = next((e for e in chain(error) if isinstance(e, ssl.SSLError)), None)
    if problem is None:
        return None
    if isinstance(problem, ssl.SSLCertVerificationError):
        return ReadError(_certificate_message(problem, host), "tls")
    return ReadError(
        say(
            "no TLS connection to {host}: {error}. The server may support only http://, not https://.",
            host=host,
            error=(problem.reason or "handshake").lower().replace("_", " "),
        ),
        "tls",
    )


def _certificate_message(error: ssl.SSLCertVerificationError, host: str) -> Message:
    if error.verify_code == _EXPIRED:
        return say("the certificate of {host} has expired. The site's owner must renew it.", host=host)
    if error.verify_code == _EARLY:
        return say("the certificate of {host} is not valid yet. Check the clock of this computer.", host=host)
    if error.verify_code in (_NAME, _ADDRESS):
        return say(
            "the certificate of {host} is for another host, so this may not be the right site.", host=host
        )
    return say(
        "the certificate of {host} is not trusted ({error}). If your own authority signed "
        "it, set reader_ca to its PEM file.",
        host=host,
        error=error.verify_message,
    )


def broken(error: BaseException, host: str) -> TransientFetchError:
    """Return the error for a connection that broke after it was open, or an answer that is not HTTP."""
    return TransientFetchError(
        ReadError(
            say(
                "the response of {host} ended too early or is not HTTP ({error}).",
                host=host,
                error=_first_reason(error),
            ),
            "broken",
        )
    )


def late(phase: Message, seconds: float) -> ReadError:
    """Return the error for a timeout. ``phase`` says which step took too long."""
    return ReadError(
        say(
            "{phase} took more than {seconds:g} s and was stopped. The setting reader_timeout "
            "can allow more.",
            phase=phase,
            seconds=seconds,
        ),
        "timeout",
    )


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes: the connection library passes causes as arguments."""
    seen: list[BaseException] = [error]
    for one in seen:
        yield one
        inner = [one.__cause__, *one.args, *getattr(one, "exceptions", ())]
        seen += [e for e in inner if isinstance(e, BaseException) and e not in seen][:8]


def _first_reason(error: BaseException) -> str:
    text = next((str(e) for e in chain(error) if str(e)), type(error).__name__)
    return " ".join(text.split())[:120].rstrip(".")

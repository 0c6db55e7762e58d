"""Files over HTTP that are large and whose checksum is known: again after a break, from where it was."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from tabane.errors import ModelError, ModelMissing, ModelUnavailable
from tabane.messages import say
from tabane.search.embedding.hub_cache import HubPlace
from tabane.search.embedding.patience import AGAIN, asked_pause

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

_CHUNK = 1 << 20
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at the hub. ``checksum`` is SHA-256 for large files, else git's SHA-1 of the blob."""

    path: str
    size: int
    checksum: str


class _Declined(Exception):
    """The server wants to be asked again, after so many seconds."""

    def __init__(self, status: int, pause: float) -> None:
        super().__init__(f"HTTP {status}")
        self.pause = pause


class Fetching:
    """Requests to one hub. ``pause`` is the seconds after the first that failed, doubled by each.

    ``attempts`` is how many in a row may bring nothing.
    """

    def __init__(self, place: HubPlace, pause: float, timeout: float, attempts: int) -> None:
        self._place, self._pause, self._timeout, self._attempts = place, pause, timeout, attempts
        self._opened: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def read(self, model: str, path: str, limit: int) -> bytes:
        """A small answer, whole. Raises ModelMissing, ModelUnavailable; ValueError beyond ``limit``."""

        async def work(_: Callable[[], None]) -> bytes:
            async with await self._request(model, path, {}) as answer:
                body = bytearray()
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    body += chunk
                    if len(body) > limit:
                        raise ValueError(f"more than {limit} bytes")
                return bytes(body)

        return await self._persist(work)

    async def download(
        self, model: str, path: str, remote: Remote, place: str, here: Callable[[int], None]
    ) -> None:
        """Bring a file to ``place``, checked. ``here`` is told the bytes of it that are there.

        Raises ModelMissing, ModelUnavailable, OSError, and ModelError where its checksum is wrong.
        """
        part, furthest = f"{place}.incomplete", 0

        async def work(gained: Callable[[], None]) -> None:
            def further(size: int) -> None:
                nonlocal furthest
                if size > furthest:  # a server that breaks off at the same place each time gets no further
                    furthest = size
                    gained()
                here(size)

            with await asyncio.to_thread(open, part, "ab") as file:
                if file.tell() > remote.size:
                    _empty(file)
                while file.tell() < remote.size:
                    await self._append(model, path, remote, file, further)

        await self._persist(work)
        if not await asyncio.to_thread(_right, part, remote):
            os.unlink(part)
            raise ModelError(
                say("{path} of {model} came with a wrong checksum: try again.", path=remote.path, model=model)
            )
        os.replace(part, place)

    async def _append(
        self, model: str, path: str, remote: Remote, file: BinaryIO, further: Callable[[int], None]
    ) -> None:
        start = file.tell()
        async with await self._request(model, path, {"Range": f"bytes={start}-"} if start else {}) as answer:
            if start and not _continues(answer.headers.get("Content-Range", ""), start, answer.status):
                _empty(file)
                start = 0
            if answer.status != (206 if start else 200):
                raise _Declined(answer.status, 0)
            async for chunk in answer.content.iter_chunked(_CHUNK):
                if file.tell() + len(chunk) > remote.size:
                    raise ModelError(
                        say("{path} of {model} is longer than promised.", path=remote.path, model=model)
                    )
                await asyncio.to_thread(file.write, chunk)
                further(file.tell())
        if file.tell() < remote.size:
            raise _Declined(answer.status, 0)

    async def _request(self, model: str, path: str, headers: dict[str, str]) -> aiohttp.ClientResponse:
        answer = await self._session().get(f"{self._place.endpoint}{path}", headers=headers)
        if answer.status in (200, 206, 416):
            return answer
        answer.close()
        if answer.status in AGAIN:
            raise _Declined(answer.status, asked_pause(answer.headers))
        if answer.status in (401, 403):
            raise ModelMissing(
                say(
                    "{endpoint} does not give {model} to everyone (HTTP {status}): set HF_TOKEN.",
                    endpoint=self._place.endpoint,
                    model=model,
                    status=answer.status,
                )
            )
        raise ModelMissing(
            say(
                "{endpoint} has no {model} (HTTP {status}).",
                endpoint=self._place.endpoint,
                model=model,
                status=answer.status,
            )
        )

    async def _persist(self, work: Callable[[Callable[[], None]], Awaitable[T]]) -> T:
        """Do ``work`` until it is done; it says when it got further, from where attempts count anew."""
        import aiohttp

        barren, reason = 0, ""

        def gained() -> None:
            nonlocal barren
            barren = 0

        while barren < self._attempts:
            pause = 0.0
            try:
                return await work(gained)
            except _Declined as declined:
                reason, pause = str(declined), declined.pause
            except (aiohttp.ClientError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            barren += 1
            if barren < self._attempts:
                await asyncio.sleep(min(max(pause, self._pause * 2 ** (barren - 1)), _LONGEST_PAUSE))
        raise ModelUnavailable(
            say("{endpoint} does not answer: {reason}.", endpoint=self._place.endpoint, reason=reason)
        )

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            import aiohttp

            token = self._place.token
            limits = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=self._timeout)
            headers = {"Accept-Encoding": "identity"}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            self._opened = aiohttp.ClientSession(headers=headers, timeout=limits, trust_env=True)
        return self._opened


@contextlib.asynccontextmanager
async def held(path: str) -> AsyncIterator[None]:
    """Hold a lock that other programs respect; waits for as long as one of them has it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with await asyncio.to_thread(open, path, "a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


def _continues(content_range: str, start: int, status: int) -> bool:
    found = re.match(r"bytes (\d+)-", content_range)
    return status == 206 and found is not None and int(found[1]) == start


def _right(path: str, remote: Remote) -> bool:
    """Whether a file is what it should be; it is on the disk then."""
    digest = hashlib.sha256() if len(remote.checksum) == 64 else hashlib.sha1(usedforsecurity=False)
    if len(remote.checksum) == 40:
        digest.update(f"blob {remote.size}\0".encode())  # git counts the head of a blob in
    with open(path, "rb+") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
        os.fsync(file.fileno())
    return digest.hexdigest() == remote.checksum

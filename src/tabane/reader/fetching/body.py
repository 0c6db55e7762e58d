"""A body, read to its end and no further than is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.headers import declared
from tabane.reader.fetching.unpacking import Damaged, Unknown, unpacking


async def body(
    stream: AsyncIterator[bytes], headers: Mapping[str, str], limit: int, *, cut: bool = False
) -> bytes:
    """All of it, unpacked.

    ``limit`` holds for the bytes that come and for those that they unpack to. Beyond it ReadError ``large``
    is raised as soon as that is known; or, with ``cut``, what fits is returned. Raises ReadError ``broken``
    where it is not packed as its headers say.
    """
    said = declared(headers)
    if said is not None and said > limit and not cut:
        raise _large(limit)
    whole = bytearray()
    try:
        async with aclosing(_pieces(stream, headers.get("content-encoding", ""), limit)) as pieces:
            async for piece in pieces:
                whole += piece
                if len(whole) > limit:
                    raise _TooMuch
    except _TooMuch:
        if not cut:
            raise _large(limit) from None
    except Damaged as error:
        raise _damaged(str(error)) from None
    except Unknown as error:
        raise ReadError(
            say("the page comes compressed as {encoding}, which is not read here.", encoding=error), "broken"
        ) from None
    del whole[limit:]
    return bytes(whole)


class _TooMuch(Exception):
    """More than the limit."""


async def _pieces(stream: AsyncIterator[bytes], encoding: str, limit: int) -> AsyncGenerator[bytes]:
    packed, came = unpacking(encoding), 0
    async for data in stream:
        if (came := came + len(data)) > limit:
            raise _TooMuch
        if packed is None:
            yield data
            continue
        for piece in packed.pieces(data):
            yield piece
            await asyncio.sleep(0)  # a bomb is unpacked between other work
    if packed is not None and not packed.done():
        raise _damaged(say("it ends too early"))


def _damaged(why: Message | str) -> ReadError:
    return ReadError(say("the page cannot be decompressed: {why}.", why=why), "broken")


def _large(limit: int) -> ReadError:
    return ReadError(
        say(
            "the page is larger than {limit:g} MB, which is the most that is read; the setting "
            "reader_size allows more.", limit=limit / 1_000_000,
        ),
        "large",
    )  # fmt: skip

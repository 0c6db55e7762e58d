"""Bodies of answers of model servers, read up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


async def bounded_body(answer: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Return the body of an answer; None if it has more than ``most`` bytes. Raises aiohttp.ClientError."""
    body = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)

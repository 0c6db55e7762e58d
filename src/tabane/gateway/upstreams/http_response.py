"""Protocol of the response to an HTTP request, whichever client has sent it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class ResponseHeaders(Protocol):
    """Headers by name, in any case."""

    def __contains__(self, name: object, /) -> bool: ...

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the first value of a header."""
        ...

    def getall(self, name: str, default: Any = None, /) -> Sequence[str]:
        """Return all values of a header."""
        ...


class ResponseContent(Protocol):
    """The body of a response, unpacked, as it arrives."""

    def at_eof(self) -> bool:
        """Return whether the whole body was read."""
        ...

    async def readany(self) -> bytes:
        """Return what has arrived, or what arrives next; empty at the end."""
        ...


class UpstreamHttpResponse(Protocol):
    """A response whose body may still be on its way. Whoever has it releases or closes it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> ResponseHeaders: ...

    @property
    def content(self) -> ResponseContent: ...

    @property
    def content_length(self) -> int | None:
        """Return the announced length of the body in bytes, before it is unpacked."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def release(self) -> Any:
        """Give back the connection, which ends if the body was not received to its end."""
        ...

    def close(self) -> None: ...

"""Protocol of the response to an HTTP request, whichever client has sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from multidict import MultiMapping


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
    def headers(self) -> MultiMapping[str]:
        """Return the headers by name, in any case."""
        ...

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

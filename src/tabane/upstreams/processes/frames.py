"""Frames between the hub and its keeper: dictionaries, encoded by ``marshal``.

Both ends run the same interpreter and trust each other. The json module would cost the keeper a megabyte, and
cannot encode the bytes of an environment.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pack(message: dict[str, Any]) -> bytes:
    """Return a frame: four bytes of length, big-endian, and the message."""
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "big") + body


class KeeperFrames:
    """Collects bytes and returns the messages that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the dictionaries that are complete with this data."""
        self._buffer += data
        messages = []
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                break
            messages.append(marshal.loads(self._buffer[4:end]))
            del self._buffer[:end]
        return messages

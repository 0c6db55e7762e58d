"""Fault of a value that its key in the servers file does not allow."""

from __future__ import annotations

from tabane.messages import Message


class InvalidKeyValue(ValueError):
    """A value that its key does not allow: what is allowed, and the position inside the value."""

    def __init__(self, allowed: Message, inside: str = "") -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.inside = inside

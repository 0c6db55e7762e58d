"""Values of keys in the servers file that are not allowed, and checks of texts."""

from __future__ import annotations

from tabane.messages import Message


class InvalidKeyValue(ValueError):
    """A value that its key does not allow: what is allowed, and the position inside the value."""

    def __init__(self, allowed: Message, inside: str = "") -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.inside = inside


def is_plain(value: str) -> bool:
    """Return whether a text can be passed to a process: no NUL, no lone surrogate."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)

"""Patterns in which ``*`` stands for any characters, as LIKE of PostgreSQL takes them."""

from __future__ import annotations


def like(pattern: str) -> str:
    """Return a pattern for LIKE with the escape character ``\\``."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, f"\\{special}")
    return storable(pattern.replace("*", "%"))


def storable(text: str) -> str:
    """Return a text as PostgreSQL can store it: without NUL and lone surrogates."""
    if "\0" not in text and text.isascii():
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()

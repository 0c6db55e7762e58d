"""Custom properties: inherited, and put in place of var(), with limits on depth and length."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CALL = re.compile(r"\b(?:var|env)\(\s*")
_NAME = re.compile(r"(--[^\s,()]+|[a-z-]+)\s*")
_DEEP = 12
_LONGEST = 2000
_MOST = 200


class CustomProperties:
    """Custom properties where an element is. Equal only to itself, so that states compare quickly."""

    __slots__ = ("_outer", "_own")

    def __init__(self, own: Mapping[str, str] | None = None, outer: CustomProperties | None = None) -> None:
        self._own = own or {}
        self._outer = outer

    def with_those_of(self, specified: Mapping[str, str]) -> CustomProperties:
        """Return these with the custom properties that are set for an element."""
        own = {name: value for name, value in specified.items() if name.startswith("--")}
        return CustomProperties(own, self) if own else self

    def get(self, name: str) -> str | None:
        at: CustomProperties | None = self
        while at is not None:
            value = at._own.get(name)
            if value is not None and value not in ("inherit", "unset"):
                return None if value == "initial" else value
            at = at._outer
        return None


def resolved(value: str, variables: CustomProperties) -> str | None:
    """Return a value with its variables replaced, in lower case; None if one is missing or there are too
    many.
    """
    left = [_MOST]
    found = _resolved(value, variables, 0, left)
    return None if found is None else " ".join(found.lower().replace("!important", "").split())


def _resolved(value: str, variables: CustomProperties, depth: int, left: list[int]) -> str | None:
    if depth > _DEEP:
        return None
    pieces: list[str] = []
    at = 0
    while call := _CALL.search(value, at):
        left[0] -= 1
        end = _closing(value, call.end())
        name = _NAME.match(value, call.end())
        if left[0] < 0 or end < 0 or name is None:
            return None
        pieces.append(value[at : call.start()])
        rest = value[name.end() : end].strip()
        inner = variables.get(name[1])
        text = _resolved(inner, variables, depth + 1, left) if inner is not None else None
        if text is None:
            if not rest.startswith(","):
                return None
            text = _resolved(rest[1:].strip(), variables, depth + 1, left)
        if text is None or sum(map(len, pieces)) + len(text) > _LONGEST:
            return None
        pieces.append(text)
        at = end + 1
    return "".join((*pieces, value[at:]))


def _closing(value: str, at: int) -> int:
    depth = 1
    for sign in re.finditer(r"[()]", value[at:]):
        depth += 1 if sign[0] == "(" else -1
        if not depth:
            return at + sign.start()
    return -1

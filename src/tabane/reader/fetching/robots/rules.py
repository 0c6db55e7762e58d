"""What a robots.txt says, read and asked. Pure, and linear in what it is given.

Patterns are matched by finding their pieces one after the other, since a regular expression made of a
stranger's pattern can be made to take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_letters, digits
from urllib.parse import quote

_UNRESERVED = frozenset(ascii_letters + digits + "-._~")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_PRODUCT = re.compile(r"[A-Za-z_-]+")
_LINES = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one program: (allowed, pattern), the longest pattern first, allowing before forbidding."""

    lines: tuple[tuple[bool, str], ...] = ()

    def allow(self, path: str) -> bool:
        """Whether ``path``, with its query, may be read: the longest pattern that matches says so."""
        path = _plain(path)
        if path == "/robots.txt":
            return True
        return next((allowed for allowed, pattern in self.lines if matches(pattern, path)), True)


def rules(text: str, product: str) -> Rules:
    """Those for ``product`` in a robots.txt: of all groups that name it, else of those for everybody."""
    groups: dict[str, list[tuple[bool, str]]] = {}
    agents: list[str] = []
    begun = True
    for key, value in _lines(text):
        if key == "user-agent":
            agents, begun = ([] if begun else agents), False
            agents.append(_name(value))
            groups.setdefault(agents[-1], [])
        elif key in ("allow", "disallow"):
            begun = True
            for agent in dict.fromkeys(agents):
                if value:
                    groups[agent].append((key == "allow", _plain(value)))
    found = groups.get(product.lower(), groups.get("*", []))
    return Rules(tuple(sorted(set(found), key=lambda rule: (-len(rule[1]), not rule[0], rule[1]))))


def matches(pattern: str, path: str) -> bool:
    """Whether ``path`` begins as ``pattern`` says: ``*`` is anything, ``$`` at the end is the end."""
    ends = pattern.endswith("$")
    begin, *rest = (pattern[:-1] if ends else pattern).split("*")
    if not path.startswith(begin):
        return False
    at = len(begin)
    if not rest:
        return not ends or at == len(path)
    for piece in rest[:-1]:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    if ends:
        return path.endswith(rest[-1]) and len(path) - len(rest[-1]) >= at
    return path.find(rest[-1], at) >= 0


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in _LINES.split(text.removeprefix("\ufeff")):
        key, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _name(value: str) -> str:
    """The product that a line of User-agent names: a version after it is not part of it."""
    if value.startswith("*"):
        return "*"
    found = _PRODUCT.match(value)
    return found[0].lower() if found else ""


def _plain(path: str) -> str:
    """A path or pattern with one spelling for each octet (RFC 9309, 2.2.2)."""
    return _ENCODED.sub(_octet, quote(path, safe="/:@!$&'()*+,;=~%-._?[]|#"))


def _octet(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()

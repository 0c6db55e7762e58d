"""Python names of servers, tools and parameters; pure.

A name of MCP may have any characters. Its identifier keeps letters, digits and underscores; each run of other
characters becomes one underscore. Keywords get an underscore at the end. No identifier begins with an
underscore, because a script cannot import such a name.
"""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Collection, Iterable

LONGEST = 80
"""Characters of an identifier, without its suffix."""


def identifier(name: str, prefix: str) -> str:
    """Return the identifier of one name. One that would begin with a digit, or be empty, gets ``prefix_``."""
    plain = unicodedata.normalize("NFKC", name)
    kept = "".join(each if f"a{each}".isidentifier() else " " for each in plain)
    found = "_".join(kept.split()).strip("_")[:LONGEST]
    if not found.isidentifier():
        found = f"{prefix}_{found}".rstrip("_")
    return f"{found}_" if keyword.iskeyword(found) else found


def identifiers(
    names: Iterable[str], prefix: str, taken: Iterable[str] = (), reserved: Collection[str] = ()
) -> dict[str, str]:
    """Return a different identifier for each name.

    A name that is an identifier already keeps it. Names that collide get a number as a suffix, in the order
    of the names: the answer depends on the set of names alone. No name gets an identifier of ``taken``.
    One of ``reserved`` gets an underscore at the end, as a keyword does.
    """
    used, found = set(taken), dict[str, str]()
    for name in sorted(set(names), key=lambda name: (identifier(name, prefix) != name, name)):
        wanted = identifier(name, prefix)
        wanted = free = f"{wanted}_" if wanted in reserved else wanted
        number = 1
        while free in used:
            number += 1
            free = f"{wanted}_{number}"
        used.add(free)
        found[name] = free
    return found

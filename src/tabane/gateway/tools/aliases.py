"""Public names of tools: ``server__tool``, short, plain, and never the same for two tools.

Clients accept different names, so aliases use only what all of them accept: a letter, then at most 47
letters, digits, ``_`` or ``-``. A name that fits is used unchanged; any other is made safe and gets a short
hash of the original. Assigned names are kept, so that they never change between starts. They are looked up,
never split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping

LONGEST = 48
"""Characters of an alias: a client that prefixes it with the hub's own name stays within 64."""

SEPARATOR = "__"
MOST = 20_000
"""Names an AliasMap remembers; beyond that the oldest are forgotten."""

Entry = tuple[str, str, str]
"""(server, original name, namespace)"""

_VALID = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{LONGEST - 1}}}")
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_HASH = 6


def is_alias(name: str) -> bool:
    """Return whether every client accepts that name."""
    return _VALID.fullmatch(name) is not None


def alias(namespace: str, original: str, taken: Container[str], owner: str | None = None) -> str:
    """Return the public name of the tool that its server calls ``original``; none of ``taken``.

    Without a namespace it is the original name if that is valid and free. ``owner`` is the server, if two
    servers have the same namespace. The result depends on ``taken`` only if the name would otherwise be
    another tool's, so not on the order in which servers start.
    """
    plain = namespace + SEPARATOR + original if namespace else original
    if is_alias(plain) and plain not in taken and _splits_back(plain, namespace):
        return plain
    safe = _safe(namespace, original)
    attempt = 0
    while True:
        digits = _digest(namespace if owner is None else owner, namespace, original, str(attempt))
        name = _fitted(safe, digits)
        if name not in taken:
            return name
        attempt += 1


class AliasMap:
    """The alias of each tool of each server. Immutable: assigning names returns a new map.

    ``reserved`` are names of the hub's own tools, never given to another. A tool whose namespace was
    changed gets a new alias and is still found by the old one. ``entries`` maps each alias to (server,
    original name, namespace), the oldest first.
    """

    __slots__ = ("_by_parts", "_given", "entries", "reserved")

    def __init__(self, entries: Mapping[str, Entry] | None = None, reserved: Iterable[str] = ()) -> None:
        self.reserved = frozenset(reserved)
        self.entries: Mapping[str, Entry] = {
            name: entry for name, entry in (entries or {}).items() if name not in self.reserved
        }
        self._given = {entry: name for name, entry in self.entries.items()}
        self._by_parts: dict[tuple[str, str], str] | None = None

    def with_names(self, server: str, namespace: str, originals: Iterable[str]) -> AliasMap:
        """Return the map in which these tools of the server have aliases; earlier aliases stay unchanged."""
        new = {name for name in originals if (server, name, namespace) not in self._given}
        if not new:
            return self
        entries = dict(self.entries)
        taken = {*self.reserved, *entries}
        # Names that fit unchanged come first, so that no generated name can take one of theirs.
        for original in sorted(new, key=lambda name: (not is_alias(name), name)):
            name = alias(namespace, original, taken, server)
            entries[name] = (server, original, namespace)
            taken.add(name)
        for oldest in list(entries)[: max(0, len(entries) - MOST)]:
            del entries[oldest]
        return AliasMap(entries, self.reserved)

    def alias_of(self, server: str, namespace: str, original: str) -> str | None:
        """Return the alias of a tool; None if it was given none."""
        return self._given.get((server, original, namespace))

    def original_of(self, name: str) -> tuple[str, str] | None:
        """Return the (server, original name) that an alias stands for; None if it is no alias."""
        entry = self.entries.get(name)
        return (entry[0], entry[1]) if entry else None

    def resolve(self, name: str) -> str | None:
        """Return the alias that a person or a model meant; None if no tool has that name.

        Accepted are the alias itself, and ``server__tool`` and ``server.tool`` with the server's own names,
        even if the alias differs.
        """
        if name in self.entries:
            return name
        if self._by_parts is None:
            self._by_parts = _by_parts(self.entries)
        for parts in _splits(name):
            if parts in self._by_parts:
                return self._by_parts[parts]
        return None


def _by_parts(entries: Mapping[str, Entry]) -> dict[tuple[str, str], str]:
    """Map (server or namespace, original) to alias; a server's own name wins over another's namespace."""
    found = {(namespace, original): name for name, (_, original, namespace) in entries.items()}
    found.update({(server, original): name for name, (server, original, _) in entries.items()})
    return found


def _splits(name: str) -> Iterator[tuple[str, str]]:
    for separator in (SEPARATOR, "."):
        position = name.find(separator)
        while position >= 0:
            yield name[:position], name[position + len(separator) :]
            position = name.find(separator, position + 1)


def _splits_back(plain: str, namespace: str) -> bool:
    """Return whether the first separator is between namespace and name, so that the split is unique."""
    return not namespace or plain.find(SEPARATOR) == len(namespace)


def _safe(namespace: str, original: str) -> str:
    """Return a readable name of what is left of both in plain letters, not yet unique."""
    tool = _plain(original) or "tool"
    name = f"{_plain(namespace) or 'server'}{SEPARATOR}{tool}" if namespace else tool
    return name if name[0].isalpha() else f"t_{name}"


def _plain(part: str) -> str:
    return _ODD.sub("_", part).strip("_-")


def _fitted(safe: str, digits: str) -> str:
    """Return the safe name with its hash at the end, or in the middle if it is too long."""
    if len(safe) + 1 + len(digits) <= LONGEST:
        return f"{safe}_{digits}"
    half = (LONGEST - len(digits) - 2) // 2
    return f"{safe[:half]}_{digits}_{safe[-half:]}"


def _digest(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:_HASH]

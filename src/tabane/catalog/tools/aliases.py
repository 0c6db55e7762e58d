"""Public names of tools: ``server__tool``, short, plain, and never the same for two tools.

Clients accept different names, so aliases use only what all of them accept: a letter, then at most 47
letters, digits, ``_`` or ``-``. A name that fits is used unchanged. A server whose name begins with a digit
gets ``s-`` before it. Any other name is made safe and gets a short hash: of the server in its part, if only
that is odd, else at the end. In a name that is too long, the part of the server is abbreviated. The tool's
own name is cut only if it is too long alone, and only at its end. Assigned names are kept, so that they never
change between starts. They are looked up, never split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping

from msgspec import Struct

ENTRY = 9
"""Characters of Tabane's entry in the configuration of a host. ``tabane install`` writes ``tabane``."""


class HostNaming(Struct, frozen=True):
    """The names of tools in one kind of hosts.

    ``form`` is how ``{entry}`` and ``{tool}`` are joined, ``limit`` the characters of the result.
    """

    hosts: str
    form: str
    limit: int

    def room(self, entry: int = ENTRY) -> int:
        """Return the characters that are left for the name of a tool."""
        return self.limit - len(self.form.format(entry="x" * entry, tool=""))


HOSTS = (
    # Some models take 128, but its references to tools are limited to 64.
    HostNaming("Claude Code, Codex", "mcp__{entry}__{tool}", 64),
    HostNaming("Claude Desktop", "{entry}:{tool}", 64),
    HostNaming("Cursor", "{entry}{tool}", 60),
    HostNaming("VS Code", "mcp_{entry}_{tool}", 64),
    HostNaming("Gemini CLI", "mcp_{entry}_{tool}", 64),
    HostNaming("Copilot CLI", "{entry}-{tool}", 64),
)
"""Forms and limits in 2026, from the documentation and the issues of the hosts."""

LONGEST = min(host.room() for host in HOSTS)
"""Characters of a name that all hosts take. One name serves all, since policies and transcripts repeat it."""

_GENERIC_WORDS = """
mcp server servers service modelcontextprotocol the official api tool tools plugin connector com org net io
dev www http https stdio sse remote local npm npx uvx docker latest main
"""
"""Words of a server's name that say nothing about its tools."""

_GENERIC = frozenset(_GENERIC_WORDS.split())
_WORDS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+[a-z]*")
_SHORTEST = 3  # characters of a word


def abbreviated(name: str, tool: str, room: int) -> str:
    """Return a name of at most ``room`` characters for a server, in letters, digits and ``-``.

    First, words without content are left out, then repetitions and words that the name of the tool repeats.
    After that, the longest words are shortened at their ends. The name is returned unchanged if it fits.
    """
    if len(name) <= room:
        return name
    for words in _reduced(_WORDS.findall(name), tool.casefold()):
        if len(short := "-".join(words)) <= room:
            return short
    return short[:room].rstrip("-")


def _reduced(words: list[str], tool: str) -> Iterator[list[str]]:
    """Yield the words of a name, fewer and shorter each time."""
    words = [word for word in words if word.casefold() not in _GENERIC] or words
    yield words
    words = list({word.casefold(): word for word in reversed(words)}.values())[::-1]
    yield words
    said = [word for word in words if word.casefold() not in tool]
    # The first word often is the vendor, so it is kept if the tool repeats everything.
    words = said or words[:1]
    yield words
    while max(map(len, words), default=0) > _SHORTEST:
        longest = max(range(len(words)), key=lambda at: (len(words[at]), at))
        words = [word[:-1] if at == longest else word for at, word in enumerate(words)]
        yield words
    while len(words) > 1:
        words = words[:-1]
        yield words


SEPARATOR = "__"
MOST = 20_000
"""Names an AliasMap remembers; beyond that the oldest are forgotten."""

Entry = tuple[str, str, str]
"""(server, original name, namespace)"""

_VALID = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{LONGEST - 1}}}")
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_HASH = 6
_SERVER_HASH = 4
_SHORT_SERVER = 8  # characters of the server's part, if the tool's name has to be cut
_LEAST_SERVER = 2
_LONGEST_BEFORE = 48  # of the names that versions before 0.7.0 cut in the middle
_DIGIT_FIRST = re.compile(r"[0-9][A-Za-z0-9_-]*")
_BEFORE_DIGIT = "s-"
_LOOKS_PREFIXED = re.compile(_BEFORE_DIGIT + "[0-9]")  # a server's own name like that is not used unchanged


def is_alias(name: str) -> bool:
    """Return whether every client accepts that name."""
    return _VALID.fullmatch(name) is not None


def alias(namespace: str, original: str, taken: Container[str], owner: str | None = None) -> str:
    """Return the public name of the tool that its server calls ``original``; none of ``taken``.

    Without a namespace it is the original name if that is valid and free. ``owner`` is the server, if two
    servers have the same namespace. The result depends on ``taken`` only if the name would otherwise be
    another tool's, so not on the order in which servers start.
    """
    plain = _plain_alias(namespace, original)
    if plain is not None and plain not in taken:
        return plain
    attempt = 0
    while True:
        name = _make_alias(namespace, original, namespace if owner is None else owner, attempt)
        if name not in taken:
            return name
        attempt += 1


def other_names(server: str, namespace: str, original: str, name: str) -> tuple[str, ...]:
    """Return what else the tool with that alias may be called in a pattern of permissions.

    These are the whole name ``server__tool``, the alias that a new installation gives, and those that earlier
    versions gave. Empty if the alias is the whole name.
    """
    plain = namespace + SEPARATOR + original
    if name == plain or not namespace or SEPARATOR in namespace:
        return ()
    others = (plain, *_given_forms(server, namespace, original))
    return tuple(dict.fromkeys(other for other in others if other != name))


def may_belong(name: str, server: str, namespace: str) -> bool:
    """Return whether a tool of that name may be one of a server that never listed its tools."""
    begins = (namespace + SEPARATOR, _BEFORE_DIGIT + namespace + SEPARATOR, server + ".")
    return name.startswith(begins) or f"-{_server_digits(server, namespace)}{SEPARATOR}" in name


class AliasMap:
    """The alias of each tool of each server. Immutable: assigning names returns a new map.

    ``reserved`` are names of the hub's own tools, never given to another. A tool whose namespace was
    changed gets a new alias and is still found by the old one. ``entries`` maps each alias to (server,
    original name, namespace), the oldest first.
    """

    __slots__ = ("_by_parts", "_given", "_renamed", "entries", "reserved")

    def __init__(self, entries: Mapping[str, Entry] | None = None, reserved: Iterable[str] = ()) -> None:
        self.reserved = frozenset(reserved)
        self.entries: Mapping[str, Entry] = {
            name: entry for name, entry in (entries or {}).items() if name not in self.reserved
        }
        self._given = {entry: name for name, entry in self.entries.items()}
        self._by_parts: dict[tuple[str, str], str] | None = None
        self._renamed: dict[str, str] | None = None

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
        even if the alias differs. A tool is also found by the names that a new installation and earlier
        versions give it.
        """
        if name in self.entries:
            return name
        if self._by_parts is None:
            self._by_parts = _by_parts(self.entries)
        for parts in _splits(name):
            if parts in self._by_parts:
                return self._by_parts[parts]
        if self._renamed is None:
            self._renamed = _renamed(self.entries)
        return self._renamed.get(name)


def _by_parts(entries: Mapping[str, Entry]) -> dict[tuple[str, str], str]:
    """Map (server or namespace, original) to alias; a server's own name wins over another's namespace."""
    found = {(namespace, original): name for name, (_, original, namespace) in entries.items()}
    found.update({(server, original): name for name, (server, original, _) in entries.items()})
    return found


def _renamed(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Map the names that another version of Tabane gives to each alias that is not the whole name."""
    return {
        other: name
        for name, (server, original, namespace) in entries.items()
        if name not in (original, namespace + SEPARATOR + original)
        for other in _given_forms(server, namespace, original)
        if other != name
    }


def _splits(name: str) -> Iterator[tuple[str, str]]:
    for separator in (SEPARATOR, "."):
        position = name.find(separator)
        while position >= 0:
            yield name[:position], name[position + len(separator) :]
            position = name.find(separator, position + 1)


def _plain_alias(namespace: str, original: str) -> str | None:
    """Return the name that needs no hash: it is that of no other tool, and every client accepts it."""
    plain = namespace + SEPARATOR + original if namespace else original
    if namespace and _DIGIT_FIRST.fullmatch(namespace):
        plain = _BEFORE_DIGIT + plain
    elif _LOOKS_PREFIXED.match(namespace):
        return None
    # The first separator must be between namespace and name, so that the split is unique.
    splits_back = not namespace or plain.find(SEPARATOR) == len(plain) - len(SEPARATOR + original)
    return plain if splits_back and is_alias(plain) else None


def _given_forms(server: str, namespace: str, original: str) -> tuple[str, ...]:
    """Return the aliases of a tool that is not called by its whole name: of this version, and of earlier."""
    return (
        _plain_alias(namespace, original) or _make_alias(namespace, original, server, 0),
        _make_alias(namespace, original, server, 0, before_0_19=True),
        _alias_before_0_7(namespace, original, server),
    )


def _make_alias(namespace: str, original: str, owner: str, attempt: int, *, before_0_19: bool = False) -> str:
    """Return the name for a tool whose plain name cannot be used. Of two attempts, one is free.

    A hash in the server's part stands for the server, one at the end for server and tool.
    """
    tool = _plain(original) or "tool"
    digits = _digest(owner, namespace, original, str(attempt))
    safe = _safe(namespace, tool, "t_" if before_0_19 or not namespace else _BEFORE_DIGIT)
    if len(safe) + 1 + len(digits) <= LONGEST and (before_0_19 or tool != original or not namespace):
        return f"{safe}_{digits}"
    if not namespace:
        return _joined(safe, digits, LONGEST)
    of_server = _server_digits(owner, namespace, attempt)
    room = LONGEST - len(tool) - len(SEPARATOR) - 1 - len(of_server)
    if tool == original and room >= _LEAST_SERVER:
        return f"{_server_part(namespace, tool, room)}-{of_server}{SEPARATOR}{tool}"
    room = max(_SHORT_SERVER, LONGEST - len(tool) - len(SEPARATOR) - 1 - len(digits))
    server = _server_part(namespace, tool, room)
    return f"{server}{SEPARATOR}{_joined(tool, digits, LONGEST - len(server) - len(SEPARATOR))}"


def _server_digits(owner: str, namespace: str, attempt: int = 0) -> str:
    return _digest(owner, namespace, str(attempt))[:_SERVER_HASH]


def _server_part(namespace: str, tool: str, room: int) -> str:
    plain = _plain(namespace) or "server"
    if plain[0].isalpha():
        return abbreviated(plain, tool, room)
    if room > len(_BEFORE_DIGIT):
        return _BEFORE_DIGIT + abbreviated(plain, tool, room - len(_BEFORE_DIGIT))
    return "s"


def _joined(tool: str, digits: str, room: int) -> str:
    """Return the name of a tool with its hash at the end, cut to that many characters."""
    return f"{tool[: room - 1 - len(digits)].rstrip('_-')}_{digits}"


def _alias_before_0_7(namespace: str, original: str, owner: str) -> str:
    """Return the name that versions before 0.7.0 gave: a long one was cut in the middle."""
    safe = _safe(namespace, _plain(original) or "tool", "t_")
    digits = _digest(owner, namespace, original, "0")
    if len(safe) + 1 + len(digits) <= _LONGEST_BEFORE:
        return f"{safe}_{digits}"
    half = (_LONGEST_BEFORE - len(digits) - 2) // 2
    return f"{safe[:half]}_{digits}_{safe[-half:]}"


def _safe(namespace: str, tool: str, before_digit: str) -> str:
    """Return a readable name of what is left of both in plain letters, not yet unique."""
    name = f"{_plain(namespace) or 'server'}{SEPARATOR}{tool}" if namespace else tool
    return name if name[0].isalpha() else before_digit + name


def _plain(part: str) -> str:
    return _ODD.sub("_", part).strip("_-")


def _digest(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:_HASH]

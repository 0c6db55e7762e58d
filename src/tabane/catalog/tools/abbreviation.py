"""Short forms of server names, which stay readable; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

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

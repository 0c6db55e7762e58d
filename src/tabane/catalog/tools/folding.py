"""Tools that are the same on several servers, folded into the best of them; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tabane.search.analysis import identifier_tokens, tokens

_SAME = 0.96  # the cosine of two definitions that say the same


class ToolFacts(NamedTuple):
    """Server, the server's own name of the tool, and the key of its definition's text."""

    server: str
    name: str
    gist: bytes


def folded(
    query: str,
    numbers: Sequence[int],
    facts: Mapping[int, ToolFacts],
    similarity: Callable[[int, int], float],
    called: Collection[int],
) -> dict[int, int]:
    """Return tool → the better tool that it is the same as. ``numbers`` are in order, the best first.

    Both have the same name on two servers, and the same or nearly the same description. A tool that the query
    names, or whose server it names, is kept.
    """
    said = {*tokens(query), *identifier_tokens(query)}
    kept: dict[tuple[str, ...], list[int]] = {}
    found: dict[int, int] = {}
    for number in numbers:
        server, name, _ = facts[number]
        alike = kept.setdefault(tuple(identifier_tokens(name)), [])
        named = number in called or said.issuperset(identifier_tokens(server))
        same = None if named else next((one for one in alike if _same(facts, number, one, similarity)), None)
        if same is None:
            alike.append(number)
        else:
            found[number] = same
    return found


def _same(
    facts: Mapping[int, ToolFacts], one: int, other: int, similarity: Callable[[int, int], float]
) -> bool:
    first, second = facts[one], facts[other]
    # The hub's own tools have no server: nothing is folded into them.
    if first.server == second.server or not first.server or not second.server:
        return False
    return first.gist == second.gist or similarity(one, other) >= _SAME

"""How what several sources say of a post becomes one post; pure.

No source takes away what another gave: what it leaves empty stays. Where two differ, the larger log_type
wins, then what came earlier in the same import; against what an earlier import brought, this one wins.
Importing the same sources again therefore changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tabane.posts.importing.model_results import ModelResult
from tabane.posts.post import SPACES, Post, cleaned


def merged(stored: Post | None, given: Post, level: int) -> Post:
    """The post of what is stored and what a row gives.

    ``level`` is the largest log_type that this import gave of it so far, 0 before the first.
    """
    if stored is None:
        return given
    wins = given.log_type > level and given.log_type >= stored.log_type
    return _filled(given, stored) if wins else _filled(stored, given)


def _filled(first: Post, second: Post) -> Post:
    """The first post, and the second's word where the first says nothing."""
    dated = first if first.timestamp or not second.timestamp else second
    signed = first if first.user or not second.user else second  # the address goes with the user it names
    return msgspec.structs.replace(
        first,
        content=first.content or second.content,
        timestamp=dated.timestamp,
        at=dated.at,
        url=signed.url or first.url or second.url,
        user=signed.user,
        log_type=max(first.log_type, second.log_type),
        reasoning=first.reasoning or second.reasoning,
        summary=first.summary or second.summary,
        tags=first.tags or second.tags,
    )


def enriched(post: Post, result: ModelResult | None) -> Post:
    """The post with what a model wrote of it."""
    if result is None:
        return post
    return msgspec.structs.replace(
        post,
        reasoning=result.reasoning or post.reasoning,
        summary=result.summary or post.summary,
        tags=result.tags or post.tags,
    )


def kept(before: Post, after: Post, vectors: Mapping[str, bytes]) -> dict[str, bytes]:
    """The vectors whose text, as it is embedded, is what it was."""
    same = {
        space
        for space in SPACES
        if (old := getattr(before, space)) == (new := getattr(after, space)) or cleaned(old) == cleaned(new)
    }
    return {space: vector for space, vector in vectors.items() if space in same}

"""What a search of posts means, in plain Python over a list: slow, and right at a glance."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.posts.archive import Filed, Vector

SINGLE = ("content", "reasoning", "summary")
KINDS = {"post": 1, "like": 2, "bookmark": 3}


@dataclass(frozen=True)
class Hit:
    post_id: int
    score: float


def similar(
    filed: Sequence[Filed],
    meaning: Vector | None,
    includes: Sequence[str],
    excludes: Sequence[str],
    mode: str,
    limits: Mapping[str, Any],
    weights: Sequence[float] | None,
    top_k: int | None,
) -> list[Hit]:
    """``top_k`` None: all of them, twins included, as vector_search gives them."""
    source = mode if mode in SINGLE else "content"
    meant = [
        each
        for each in filed
        if limited(each, filed, limits)
        and all(spelled(term) in spelled(getattr(each.post, source)) for term in includes)
        and not any(spelled(term) in spelled(getattr(each.post, source)) for term in excludes)
    ]
    scored = [(each, score(each, meaning, mode, weights)) for each in meant]
    known = [(each, found) for each, found in scored if found is not None]
    if top_k is not None:
        known = [pair for pair in known if not any(older(other, pair[0]) for other, _ in known)]
    if meaning is None:
        known.sort(key=lambda pair: (-age(pair[0]) if age(pair[0]) < math.inf else math.inf, key(pair[0])))
    else:
        known.sort(key=lambda pair: (-round(pair[1], 6), key(pair[0])))
    return [Hit(each.post.post_id, found) for each, found in known[:top_k]]


def spelled(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def key(filed: Filed) -> str:
    return str(filed.post.post_id)


def age(filed: Filed) -> float:
    return math.inf if filed.post.at is None else filed.post.at


def older(one: Filed, other: Filed) -> bool:
    """Whether it says the same, of the same user, and was there before."""
    same = name(one) == name(other) and one.post.content == other.post.content
    return same and (age(one), key(one)) < (age(other), key(other))


def name(filed: Filed) -> str:
    return filed.post.user.casefold()


def limited(each: Filed, filed: Sequence[Filed], limits: Mapping[str, Any]) -> bool:
    users = limits.get("user_filter") or {}
    dates = limits.get("date_filter") or {}
    count = sum(name(other) == name(each) for other in filed) if name(each) else 0
    named = {given.removeprefix("@").casefold() for given in users.get("includes") or ()}
    not_named = {given.removeprefix("@").casefold() for given in users.get("excludes") or ()}
    at = each.post.at
    return (
        (name(each) in named if named else name(each) not in not_named)
        and count >= (users.get("threshold_min") or 0)
        and count <= (math.inf if users.get("threshold_max") is None else users["threshold_max"])
        and ("from" not in dates or (at is not None and at >= day(dates["from"])))
        and ("to" not in dates or (at is not None and at < day(dates["to"]) + 86_400))
        and (not limits.get("tags") or bool(set(limits["tags"]) & set(each.post.tags)))
        and (
            not limits.get("log_type")
            or each.post.log_type in [KINDS.get(kind, kind) for kind in limits["log_type"]]
        )
    )


def day(text: str) -> int:
    """Seconds of a day of January 1970, in UTC."""
    found = re.fullmatch("1970-01-([0-9]{2})", text)
    assert found is not None
    return (int(found[1]) - 1) * 86_400


def score(each: Filed, meaning: Vector | None, mode: str, weights: Sequence[float] | None) -> float | None:
    if meaning is None:
        return 1.0
    wanted = [mode] if mode in SINGLE else list(SINGLE)
    if any(space not in each.vectors for space in wanted):
        return None
    cosines = [cosine(meaning, each.vectors[space]) for space in wanted]
    if mode == "maximum":
        return max(cosines)
    if mode == "minimum":
        return min(cosines)
    if mode == "product":
        return math.prod(cosines)
    if mode in ("average", "weighted"):
        weights = weights or ([1, 1, 1] if mode == "average" else [0.7, 0.2, 0.1])
        return sum(w * c for w, c in zip(weights, cosines, strict=True)) / sum(weights)
    return cosines[0]


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))

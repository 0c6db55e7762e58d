"""Tasks on the archive of posts."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world import World

TOPICS = ("coffee", "trains", "gardens", "bicycles", "rain")
_LOOK = """from tools import search_posts_by_text
await search_posts_by_text(search_term="coffee", limit=1)"""
SEARCH = "search my posts for a word"


def _found(call: DirectCalls, topic: str, **more: Any) -> list[tuple[str, str]]:
    """Return author and month of the posts of a topic."""
    text = call("search_posts_by_text", search_term=topic, limit=100, **more)
    return re.findall(r"^\d+\. @(\w+) \((\d{4}-\d\d)", text, re.M)


def _of(world: World, topic: str) -> list[tuple[str, str]]:
    return [(post.author, post.time[:7]) for post in world.records.posts if topic in post.text]


def _by_author(call: DirectCalls) -> Any:
    return {topic: dict(Counter(author for author, _ in _found(call, topic))) for topic in TOPICS}


def _by_month(call: DirectCalls) -> Any:
    months = [month for topic in TOPICS[:3] for _, month in _found(call, topic)]
    return dict(Counter(months))


def _newest(call: DirectCalls) -> Any:
    found = {}
    for topic in TOPICS:
        text = call("search_posts_by_text", search_term=topic, limit=1)
        found[topic] = re.search(r"@(\w+)", text)[1]  # type: ignore[index]
    return found


def _newest_author(world: World, topic: str) -> str:
    return max(
        (post for post in world.records.posts if topic in post.text), key=lambda post: post.time
    ).author


TASKS = (
    CodeTask(
        "topics-by-author", f"How many posts does each author have about {', '.join(TOPICS)}? Count posts with the word.",
        (), (SEARCH,), _by_author,
        (_LOOK, f"""from collections import Counter
from tools import search_posts_by_text
counts = {{}}
for topic in {TOPICS!r}:
    found = await search_posts_by_text(search_term=topic, limit=100)
    counts[topic] = dict(Counter(p["user"] for p in found["results"]))
counts"""),
        lambda world: {topic: dict(Counter(author for author, _ in _of(world, topic))) for topic in TOPICS},
    ),
    CodeTask(
        "posts-by-month", "coffee、trains、gardens のどれかを含む投稿を、月ごとに数えてください。",
        (), ("投稿を言葉で検索する",), _by_month,
        (_LOOK, """from collections import Counter
from tools import search_posts_by_text
months = Counter()
for topic in ("coffee", "trains", "gardens"):
    found = await search_posts_by_text(search_term=topic, limit=100)
    months.update(p["timestamp"][:7] for p in found["results"])
dict(months)"""),
        lambda world: dict(Counter(month for topic in TOPICS[:3] for _, month in _of(world, topic))),
    ),
    CodeTask(
        "newest-posts", f"Who wrote the newest post about each of {', '.join(TOPICS)}?",
        (), (SEARCH,), _newest,
        (_LOOK, f"""from tools import search_posts_by_text
found = {{}}
for topic in {TOPICS!r}:
    found[topic] = (await search_posts_by_text(search_term=topic, limit=1))["results"][0]["user"]
found"""),
        lambda world: {topic: _newest_author(world, topic) for topic in TOPICS},
    ),
)  # fmt: skip

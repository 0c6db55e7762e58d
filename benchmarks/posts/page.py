"""The section of the performance page about the archive of posts; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.report import Goal, goals, latencies, machine, megabytes, spread, table
from benchmarks.sections.blocks import Block, Plot
from benchmarks.sections.plots import bars

_KINDS = {
    "content": "search_similar",
    "average": "average of three",
    "weighted": "weighted, of three",
    "hybrid": "hybrid: words and meaning",
    "V|T frequent ja": "V\\|T, a frequent term, Japanese",
    "V|T frequent en": "V\\|T, a frequent term, English",
    "V|T rare ja": "V\\|T, a rare term, Japanese",
    "V|T rare en": "V\\|T, a rare term, English",
    "|T frequent": "\\|T alone, a frequent term, newest first",
    "dates": "in three months of dates",
    "users": "of three users",
    "get_user_stats": "get_user_stats",
    "get_database_stats": "get_database_stats",
    "get_status": "get_status",
}
_GOALS = {
    "content": 8.0, "average": 25.0, "weighted": 25.0, "V|T frequent ja": 15.0, "V|T frequent en": 15.0,
    "V|T rare ja": 15.0, "V|T rare en": 15.0, "get_user_stats": 2.0, "get_database_stats": 2.0,
}  # fmt: skip

_METHOD = """
- {posts:,} posts of about 35 words, each with a reasoning of 40 and a summary of 20, half Japanese, half
  English, by {users} users over three years; each of the three has a vector of {dimension} numbers, around
  2,000 centres (`benchmarks/posts/sources.py`).
- The hub is `tabane start` with a folder of its own; the client is another process, with the library
  `websockets` and its usual limits, on the same cores. Milliseconds are from before a question is written
  until its answer is read as JSON.
- Each question is another; its vector is in the hub's cache, where `embed_text` put it. What embeds is a
  server on loopback that knows the vectors: no model is in any figure. The first hundred of a kind do not
  count: a hub that has just started finds the files in no page of its own yet.
- Frequent terms are the commonest words of the texts, rare ones are the 12,000th and those after it.
- “CPU” is what the hub used for one question: that, unlike the rest, is the same beside other work.
- Parts of vector_search come as they are received; “read as JSON” is by a client that reads each before
  it receives the next, in Python, on a core that the hub wants too.
- A start is from `tabane start` until check_init says that all can be asked; the page cache is warm. The
  import is `tabane posts import` with the vectors' folders, until the command ends.
- Resident memory holds pages of the files that are mapped, which the system takes back where it needs them;
  the rest is the hub's own.
""".strip()


@dataclass(frozen=True, slots=True)
class Import:
    """Posts that were new, seconds, the hub's seconds of CPU, and its memory afterwards."""

    posts: int
    seconds: float
    cpu: float
    memory: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """``brought`` is None where the archive was there already; memory is resident and its own, in MB."""

    brought: Import | None
    starts: Sequence[float]
    idle: tuple[float, float]
    asked: Mapping[str, Any]
    busy: tuple[float, float]
    disk: float


def page(found: Measured, posts: int, users: int, dimension: int) -> list[Block | str]:
    return [
        "## The archive of posts",
        machine("python -m benchmarks.posts"),
        "### Against the goals",
        goals(_goals(found)),
        "### Questions, one after the other",
        latencies(_KINDS, found.asked),
        questions_plot(found.asked),
        "### All similarities, and many clients",
        table(("", "p50", "p95"), _streams(found.asked)),
        _together(found.asked["together"]),
        "### Import, memory, disk",
        table(("", ""), _totals(found)),
        "### How it was measured",
        _METHOD.format(posts=posts, users=users, dimension=dimension),
    ]


def questions_plot(asked: Mapping[str, Any]) -> Plot:
    """Return the median of each kind of question, and the hub's CPU for one."""
    names = {kind: name.replace("\\|", "|") for kind, name in _KINDS.items()}
    time, cpu = "time, p50", "CPU of the hub"
    values = {
        time: {name: statistics.median(asked[kind]["ms"]) for kind, name in names.items()},
        cpu: {name: asked[kind]["cpu"] for kind, name in names.items()},
    }
    title = "Questions to the archive of posts"
    return bars("posts-questions", title, "ms (less is better)", values, (time, cpu), logarithmic=True)


def _goals(found: Measured) -> Iterator[Goal]:
    asked = found.asked
    parts, together = asked["parts"], asked["together"]
    for kind, most in _GOALS.items():
        yield _most(_KINDS[kind], asked[kind]["ms"], most, " ms")
    yield _most("vector_search, first part", parts["first"], 60, " ms")
    yield _most("vector_search, all", parts["ms"], 400, " ms")
    answered = together["rate"] if not together["errors"] else 0
    yield Goal("queries a second, 64 clients", answered, 350, least=True)
    yield Goal("start with the archive", statistics.median(found.starts), 1.5, " s", 1)
    if found.brought:
        yield _most("import, vectors given", [found.brought.seconds], 60, " s")


def _most(name: str, values: Sequence[float], most: float, unit: str) -> Goal:
    return Goal(name, statistics.median(values), most, unit, 1, limit_digits=0)


def _streams(asked: Mapping[str, Any]) -> list[tuple[str, ...]]:
    parts = asked["parts"]
    rows = {
        "first part": parts["first"],
        f"all, {parts['bytes'] / 1e6:.1f} MB": parts["ms"],
        "all, read as JSON": asked["parts, read"]["ms"],
        "one of 64 clients at once": asked["together"]["ms"],
    }
    return [(name, *(f"{each:.1f}" for each in spread(values)[:2])) for name, values in rows.items()]


def _together(together: Mapping[str, Any]) -> str:
    errors = f"{together['errors']} errors" + (f" ({together['error'][0]})" if together["error"] else "")
    return (
        f"64 clients: {together['rate']:,.0f} queries a second, {errors}; CPU {together['cpu']:.2f} ms each. "
        f"The processes that the hub starts for them take {together['helpers']:.0f} MB."
    )


def _totals(found: Measured) -> list[tuple[str, str]]:
    rows = [
        ("memory after the start, resident (without files)", megabytes(found.idle)),
        ("memory after all questions", megabytes(found.busy)),
        ("on disk", f"{found.disk:,.0f} MB"),
        ("starts", ", ".join(f"{each:.2f}" for each in found.starts) + " s"),
    ]
    if (brought := found.brought) is not None:
        each = brought.cpu / max(1, brought.posts) * 1e3
        rows += [
            ("import", f"{brought.seconds:.0f} s, {brought.posts / brought.seconds:,.0f} posts a second"),
            ("its CPU", f"{brought.cpu:.0f} s, {each:.2f} ms a post"),
            ("memory after it", megabytes(brought.memory)),
        ]
    return rows

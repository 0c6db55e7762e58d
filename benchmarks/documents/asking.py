"""What a client asks of a hub's documents, and what was measured of it."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.documents.sources import SECTIONS, Sources
from benchmarks.posts.archive_hub import ArchiveHub
from benchmarks.posts.asking import Client, Figures, connected, latencies

Params = dict[str, Any]

TOGETHER = 8
"""Documents of one put_documents: so few that they are embedded within it."""

_LARGEST = 64 * 2**20  # bytes of an answer: one with whole texts is large
_WARM = 20  # puts that do not count
_LONGEST_WAIT = 180.0  # seconds


@asynccontextmanager
async def client_of(hub: ArchiveHub) -> AsyncIterator[Client]:
    """One that may do everything, and takes large answers."""
    async with connected(hub.socket, hub.token, _LARGEST) as connection:
        yield Client(connection)


async def searched(hub: ArchiveHub, sources: Sources, documents: int) -> dict[str, Figures]:
    """Figures of searches by kind; the vector of each question is in the hub's cache before."""
    questions = sources.questions()
    async with client_of(hub) as client:
        for text in questions:
            await client.ask("search_documents", {"query": text, "mode": "vector", "top_k": 1})
        found = {}
        for kind, several in _kinds(questions).items():
            asked = [_asked(client, "search_documents", params) for params in several]
            found[kind] = await latencies(asked, lambda: hub.cpu)
        parts = [{"filepath": f"corpus/{number % documents:05}.md"} for number, _ in enumerate(questions)]
        found["get_document"] = await latencies(
            [_asked(client, "get_document", each) for each in parts], lambda: hub.cpu
        )
    return found


def _kinds(questions: Iterable[str]) -> dict[str, list[Params]]:
    kinds: dict[str, Params] = {
        "hybrid": {},
        "vector": {"mode": "vector"},
        "lexical": {"mode": "lexical"},
        "filtered": {"filters": {"section": 3 % SECTIONS}},
        "twenty": {"top_k": 20},
        "texts": {"include_documents": True},
    }
    return {
        kind: [{"query": text, "include_documents": False} | params for text in questions]
        for kind, params in kinds.items()
    }


async def put(hub: ArchiveHub, sources: Sources, count: int) -> dict[str, Figures]:
    """Figures of putting one document after the other; of some again, edited, and searched for at once."""
    puts = sources.puts()
    new, there, later = puts[:count], puts[: count // 5], puts[count : count + count // 5]
    edited = [each | {"text": _edited(each["text"])} for each in there]
    gone = [{"filepath": each["filepath"]} for each in there]
    async with client_of(hub) as client:
        pairs = zip(later, itertools.cycle(sources.questions()), strict=False)
        asked = {
            "new": [_asked(client, "put_document", each) for each in new],
            "same": [_asked(client, "put_document", each) for each in there],
            "edited": [_asked(client, "put_document", each) for each in edited],
            "found": [_put_and_asked(client, each, text) for each, text in pairs],
            "deleted": [_asked(client, "delete_document", each) for each in gone],
        }
        return {kind: await latencies(several, lambda: hub.cpu, _WARM) for kind, several in asked.items()}


async def filled(hub: ArchiveHub, batches: Iterable[list[Params]]) -> Figures:
    """Seconds, and the hub's CPU, of put_documents; how many documents and chunks there are then."""
    async with client_of(hub) as client:
        before, began = hub.cpu, time.perf_counter()
        for batch in batches:
            await good(client, "put_documents", {"documents": batch})
        seconds, cpu = time.perf_counter() - began, hub.cpu - before
        stats = await _settled(client)
    return {"seconds": seconds, "cpu": cpu, "documents": stats["documents"], "chunks": stats["chunks"]}


async def _settled(client: Client) -> Any:
    """The numbers, when all vectors there are can be compared. Without a model there are none.

    Raises RuntimeError where that takes too long.
    """
    until = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < until:
        stats = await good(client, "get_document_stats", {})
        if stats["embedded_chunks"] in (stats["chunks"], 0):
            return stats
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{stats['embedded_chunks']} of {stats['chunks']} chunks are embedded")


async def good(client: Client, method: str, params: Params) -> Any:
    """The answer. Raises RuntimeError where it is a failure."""
    answer = await client.ask(method, params)
    if answer["status"] == "error":
        raise RuntimeError(answer["message"])
    return answer


def _asked(client: Client, method: str, params: Params) -> Callable[[], Awaitable[Any]]:
    return lambda: good(client, method, params)


def _put_and_asked(client: Client, document: Params, text: str) -> Callable[[], Awaitable[Any]]:
    """A put and a search behind it, which has to see what was put."""

    async def both() -> None:
        await good(client, "put_document", document)
        question = {"query": text, "mode": "lexical", "include_documents": False}
        await good(client, "search_documents", question)

    return both


def _edited(text: str) -> str:
    """The text with a word more in its middle."""
    half = text.index(" ", len(text) // 2) if " " in text[len(text) // 2 :] else len(text) // 2
    return f"{text[:half]} edited{random.randrange(10**6)}{text[half:]}"

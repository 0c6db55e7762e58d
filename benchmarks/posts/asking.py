"""A client of the hub, in a process of its own: ``python -m benchmarks.posts.asking URL SOURCES HUB``.

It is the library ``websockets`` with its usual limits, as clients of twilog have it. ``HUB`` is the process
asked. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import websockets
from benchmarks.gateway.processes import family, own_cpu
from benchmarks.posts.sources import Sources

Figures = dict[str, Any]
Params = dict[str, Any]

SECONDS = 5.0  # of one kind of question
_FEWEST = 20
_WARM = 100  # questions that do not count; half of fewer
_STREAMS = 8
CLIENTS = 64
TOGETHER = 10.0  # seconds that they all ask


class Client:
    """A connection that asks one thing after the other."""

    def __init__(self, connection: websockets.ClientConnection) -> None:
        self._connection = connection

    async def ask(self, method: str, params: Params) -> Any:
        """The result, read as JSON. Raises RuntimeError where it is an error."""
        await self._send(method, params)
        answer = json.loads(await self._connection.recv())
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    async def stream(self, method: str, params: Params, *, read: bool) -> tuple[float, float, int]:
        """Seconds to the first part and to the last one, and bytes. ``read``: each as JSON, as it comes."""
        began = time.perf_counter()
        await self._send(method, params)
        first, size, more = 0.0, 0, True
        while more:
            part = await self._connection.recv(decode=False)
            first = first or time.perf_counter() - began
            size += len(part)
            # What is said beside the result stands at an end of the message.
            more = json.loads(part).get("more", False) if read else b'"more":true' in part[:200] + part[-200:]
        return first, time.perf_counter() - began, size

    async def _send(self, method: str, params: Params) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await self._connection.send(json.dumps(request))


def kinds(sources: Sources) -> dict[str, tuple[str, list[Params]]]:
    """What is asked one by one, by kind: the method and the parameters of each question."""
    questions = sources.questions()
    found: dict[str, tuple[str, list[Params]]] = {}
    for mode in ("content", "average", "weighted", "hybrid"):
        found[mode] = ("search_similar", [{"query": text, "mode": mode} for text in questions])
    for kind, terms in sources.terms().items():
        asked = zip(questions, itertools.cycle(terms), strict=False)
        both: list[Params] = [{"query": f"{text}|{term}"} for text, term in asked]
        found[f"V|T {kind}"] = ("search_similar", both)
    frequent = [term for kind, terms in sources.terms().items() if "frequent" in kind for term in terms]
    found["|T frequent"] = ("search_similar", [{"query": f"|{term}"} for term in frequent])
    dates = {"from": "2024-01-01", "to": "2024-03-31"}
    found["dates"] = ("search_similar", [{"query": text, "date_filter": dates} for text in questions])
    users = {"includes": ["user3", "user20", "user100"]}
    found["users"] = ("search_similar", [{"query": text, "user_filter": users} for text in questions])
    for method in ("get_user_stats", "get_database_stats", "get_status"):
        found[method] = (method, [{}] * 200)
    return found


async def measured(url: str, sources: Sources, hub: int) -> Figures:
    """Milliseconds of all that is asked, by kind, and seconds of the hub's CPU for one question of it."""
    figures: Figures = {}
    async with connected(url) as connection:
        client = Client(connection)
        for text in sources.questions():
            await client.ask("embed_text", {"text": text})  # its vector is in the cache from now on
        for kind, (method, several) in kinds(sources).items():
            asked = [lambda params=params, method=method: client.ask(method, params) for params in several]
            figures[kind] = await latencies(asked, lambda: _cpu(hub))
        for name, read in (("parts", False), ("parts, read", True)):
            figures[name] = await _streams(client, sources.questions(), read=read)
    figures["together"] = await _together(url, sources.questions(), hub)
    return figures


def connected(url: str, token: str = "", max_size: int = 2**20) -> websockets.connect:
    """A client: with the library's usual limit of an answer, and no token, where none is given."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return websockets.connect(url, proxy=None, max_size=max_size, additional_headers=headers)


async def latencies(
    several: Iterable[Callable[[], Awaitable[Any]]], cpu: Callable[[], float], most_warm: int = _WARM
) -> Figures:
    """Milliseconds of each, and of CPU for one: for some seconds, after some that do not count."""
    asked = list(several)
    warm = min(most_warm, len(asked) // 2)
    for ask in asked[:warm]:
        await ask()
    found: list[float] = []
    before = cpu()
    for ask in asked[warm:]:
        began = time.perf_counter()
        await ask()
        found.append((time.perf_counter() - began) * 1e3)
        if sum(found) > SECONDS * 1e3 and len(found) >= _FEWEST:
            break
    return {"ms": sorted(found), "cpu": (cpu() - before) / len(found) * 1e3}


async def _streams(client: Client, questions: Iterable[str], *, read: bool) -> Figures:
    took = [
        await client.stream("vector_search", {"query": text}, read=read)
        for text in itertools.islice(questions, _STREAMS)
    ][1:]
    first, whole, sizes = zip(*took, strict=True)
    return {
        "first": sorted(1e3 * each for each in first),
        "ms": sorted(1e3 * each for each in whole),
        "bytes": sizes[0],
    }


async def _together(url: str, questions: list[str], hub: int) -> Figures:
    """All clients at once, each with the next question as soon as it has the answer to its last."""
    coming = itertools.cycle(questions)
    found: list[float] = []
    errors: list[str] = []

    async def one(client: Client, until: float) -> None:
        while (began := time.perf_counter()) < until:
            try:
                await client.ask("search_similar", {"query": next(coming)})
                found.append((time.perf_counter() - began) * 1e3)
            except (RuntimeError, websockets.WebSocketException) as error:
                errors.append(str(error))

    connections = [await connected(url) for _ in range(CLIENTS)]
    before, began = _cpu(hub), time.perf_counter()
    await asyncio.gather(*(one(Client(each), began + TOGETHER) for each in connections))
    seconds, cpu = time.perf_counter() - began, _cpu(hub) - before
    helpers = _helpers(hub)
    await asyncio.gather(*(each.close() for each in connections))
    return {
        "ms": sorted(found),
        "rate": len(found) / seconds,
        "cpu": cpu / max(1, len(found)) * 1e3,
        "helpers": helpers,
        "errors": len(errors),
        "error": errors[:1],
    }


def _helpers(hub: int) -> float:
    """MB of the processes that the hub started under load, without pages of mapped files."""
    found = [each.memory_info() for each in psutil.Process(hub).children(recursive=True)]
    return float(sum(each.rss - getattr(each, "shared", 0) for each in found) / 1e6)


def _cpu(hub: int) -> float:
    return own_cpu(family(hub, "hub"))


if __name__ == "__main__":
    address, folder, process = sys.argv[1:]
    print(json.dumps(asyncio.run(measured(address, Sources(Path(folder)), int(process)))))

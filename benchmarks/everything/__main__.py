"""Is the right kind of thing first? ``python -m benchmarks.everything [--model M] [--model-url URL]``.

Asks :func:`search_everything` the queries of ``queries.json`` about the things of ``world.json``. Every third
query was held out while the ranking was tuned. ``--all`` lists each query with its first hit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.everything.world import FOLDER, WorldHub, filled
from benchmarks.hub import free_port
from benchmarks.posts.asking import Client, connected
from benchmarks.report import machine, publish, table

_DEPTH = 10


@dataclass(frozen=True, slots=True)
class Question:
    """A query, the kind of what it asks for, and the keys of what is right."""

    text: str
    kind: str
    right: frozenset[str]
    held_out: bool

    def kinds(self, hit: Mapping[str, Any]) -> bool:
        """Return whether a hit is of the right kind."""
        return self.kind in (hit["kind"], *(other["kind"] for other in hit.get("also", ())))

    def meets(self, hit: Mapping[str, Any]) -> bool:
        """Return whether a hit is right: a page by the path of its URL, the manual by its page."""
        return self.kinds(hit) and _key(self.kind, hit["key"]) in self.right


def _key(kind: str, key: str) -> str:
    if kind == "pages":
        return urlsplit(key).path
    return key.partition(":")[0] if kind == "docs" else key


def questions() -> list[Question]:
    given = json.loads((FOLDER / "queries.json").read_text("utf-8"))
    return [
        Question(each["q"], each["kind"], frozenset(each["right"]), number % 3 == 2)
        for number, each in enumerate(given)
    ]


Answers = Sequence[Sequence[Mapping[str, Any]]]


async def asked(hub: WorldHub, several: Sequence[Question]) -> Answers:
    """Return the hits of each question."""
    async with connected(hub.socket, hub.token, 16 * 2**20) as connection:
        client = Client(connection)
        params = ({"query": each.text, "top_k": _DEPTH, "explain": True} for each in several)
        return [(await client.ask("search_everything", each))["results"] for each in params]


def told(several: Sequence[Question], answers: Answers) -> str:
    """Return the shares of right kinds and right hits as a table, by the part of the questions."""
    pairs = list(zip(several, answers, strict=True))
    parts = {
        "all": pairs,
        "tuned on": [pair for pair in pairs if not pair[0].held_out],
        "held out": [pair for pair in pairs if pair[0].held_out],
        "English": [pair for pair in pairs if pair[0].text.isascii()],
        "Japanese": [pair for pair in pairs if not pair[0].text.isascii()],
    }
    rows = []
    for name, part in parts.items():
        shares = (
            sum(bool(hits) and question.kinds(hits[0]) for question, hits in part),
            sum(any(map(question.meets, hits[:1])) for question, hits in part),
            sum(any(map(question.meets, hits[:3])) for question, hits in part),
        )
        rows.append((name, str(len(part)), *(f"{share / len(part):.2f}" for share in shares)))
    return table(("queries", "number", "right kind first", "right hit first", "right hit @3"), rows)


async def measured(model: str, url: str) -> Answers:
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as name:
        folder = Path(name)
        hub = WorldHub(folder, free_port(), model, url)
        hub.start()
        try:
            await filled(hub, folder, embeds=model != "none")
            return await asked(hub, questions())
        finally:
            hub.stop()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.everything")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--model-url", default="")
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--all", action="store_true", help="list each query that was tuned on")
    options = parser.parse_args(arguments)
    answers = asyncio.run(measured(options.model, options.model_url))
    if options.all:
        for question, hits in zip(questions(), answers, strict=True):
            if not question.held_out:
                first = f"{hits[0]['score']} {hits[0]['kind']} {hits[0]['key']}" if hits else "nothing"
                right = "right" if any(map(question.meets, hits[:1])) else question.kind
                print(f"{question.text}: {first} ({right})")
    publish(
        "everything",
        [
            "## Search over everything",
            machine(f"python -m benchmarks.everything --model {options.model}"),
            "60 queries (31 English, 29 Japanese) about a small world of posts, notes, pages, tools and the\n"
            "manual, written by the author of the ranking before it was tuned. Every third was held out.",
            told(questions(), answers),
        ],
        write=options.write,
    )


if __name__ == "__main__":
    main(sys.argv[1:])

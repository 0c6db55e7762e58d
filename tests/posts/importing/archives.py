"""Archives to be imported, written as their programs write them; and a collection to import them into."""

from __future__ import annotations

import asyncio
import csv
import html
import json
import struct
import zipfile
from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, TypeVar

from tabane.engine.embedded.store import Store
from tabane.messages import Message
from tabane.posts.importing.import_report import PostsImportReport
from tabane.posts.importing.importer import PostSources, import_posts, plan
from tabane.posts.post import SHAPE, SPACES, Post, post_of
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING

FIRST = 1_500_000_000_000_000_000
MODEL = "cl-nagoya/ruri-v3-30m"
DIMENSION = 4

T = TypeVar("T")


class Told:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int | None]] = []
        self.notes: list[str] = []

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        self.told.append((done, total))
        self.notes.append(str(note))


def row(post: int, content: str = "", **parts: Any) -> list[str]:
    """One row of twilog.csv; ``user``, ``timestamp``, ``log_type`` and ``url`` may be given."""
    user = parts.get("user", "alice")
    return [
        str(post),
        parts.get("url", f"https://x.com/{user}/status/{post}"),
        parts.get("timestamp", "2024-03-15 14:30:25"),
        html.escape(content, quote=False),
        str(parts.get("log_type", 1)),
    ]


def write_csv(path: Path, rows: Iterable[Sequence[str]], *, begin: str = "") -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(begin)
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return str(path)


def vector(*numbers: float) -> bytes:
    return array("f", numbers).tobytes()


def write_results(path: Path, results: Iterable[Mapping[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in results), "utf-8")
    return str(path)


def write_vectors(
    folder: Path, vectors: Mapping[int, bytes], *, dtype: str = "F32", dimension: int = DIMENSION, **meta: Any
) -> str:
    """A folder of vectors: two a file. ``meta`` is put into its metadata; None leaves one out."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {"model": MODEL, "embedding_dim": dimension, "total_posts": len(vectors), "chunk_size": 2}
    described |= meta
    kept = {name: value for name, value in described.items() if value is not None}
    (folder / "meta.json").write_text(json.dumps(kept))
    ids = list(vectors)
    for number, first in enumerate(range(0, max(1, len(ids)), 2)):
        part = {post: vectors[post] for post in ids[first : first + 2]}
        (folder / f"{number:04}.safetensors").write_bytes(safetensors(part, dtype, dimension))
    return str(folder)


def safetensors(vectors: Mapping[int, bytes], dtype: str, dimension: int) -> bytes:
    rows, data = len(vectors), b"".join(vectors.values())
    header = json.dumps(
        {
            "__metadata__": {"format": "np"},
            "post_ids": {"dtype": "I64", "shape": [rows], "data_offsets": [0, 8 * rows]},
            "vectors": {
                "dtype": dtype,
                "shape": [rows, dimension],
                "data_offsets": [8 * rows, 8 * rows + len(data)],
            },
        }
    ).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack(f"<{rows}q", *vectors) + data


def write_zip(path: Path, **lists: Any) -> str:
    """X's archive: ``tweets=[…]``, ``note_tweet=[…]``; bytes are put in as they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("data/manifest.js", "window.__THAR_CONFIG = {}")
        for name, entries in lists.items():
            named, part = name.replace("_", "-"), f"window.YTD.{name}.part0 = "
            text = entries if isinstance(entries, bytes) else (part + json.dumps(entries, indent=2)).encode()
            file.writestr(f"data/{named}.js", text)
    return str(path)


def with_store(home: Path, work: Callable[[Collection], Awaitable[T]]) -> T:
    """Do work with the collection of posts in that folder."""

    async def run() -> T:
        store = await Store.open(str(home), "posts")
        try:
            return await work(await store.collection(SHAPE))
        finally:
            await store.close()

    home.mkdir(exist_ok=True)
    return asyncio.run(run())


def do_import(
    home: Path,
    sources: PostSources | Sequence[str],
    progress: Told | None = None,
    zone: tzinfo = UTC,
    **options: Any,
) -> PostsImportReport:
    """Import into the collection of that folder."""
    found = sources if isinstance(sources, PostSources) else plan(sources)
    return with_store(
        home, lambda collection: import_posts(collection, found, progress or Told(), zone, **options)
    )


def posts_in(home: Path) -> dict[int, Post]:
    return {post: found for post, (found, _) in all_in(home).items()}


def all_in(home: Path) -> dict[int, tuple[Post, dict[str, bytes]]]:
    """Every post with its vectors."""

    async def read(collection: Collection) -> dict[int, tuple[Post, dict[str, bytes]]]:
        found: dict[int, tuple[Post, dict[str, bytes]]] = {}
        after: str | None = None
        while True:
            page = await collection.select(EVERYTHING, after=after, limit=1000)
            keys = [stored.record.key for stored in page.records]
            there = [space.name for space in collection.spaces if space.name in SPACES]
            vectors = {name: await collection.vectors(keys, name) for name in there}
            for number, stored in enumerate(page.records):
                of_post = {name: each for name in there if (each := vectors[name][number]) is not None}
                found[int(stored.record.key)] = post_of(stored.record), of_post
            after = page.after
            if after is None:
                return found

    return with_store(home, read)


def outcome(report: PostsImportReport) -> dict[str, int]:
    """What a report counts, without what is 0."""
    counted = report.plain("en", rows=False)
    names = ("new", "changed", "unchanged", "removed", "duplicates", "bad", "vectors")
    return {name: counted[name] for name in names if counted[name]}

"""A home as somebody has it after years: 220,000 posts with vectors, documents, pages and tools.

Made once by a hub with the model of the default installation, and kept in the user's cache; each run gets a
copy. It takes about an hour on two cores: ``python -m benchmarks.web.large_home [--posts 220000]``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.documents.sources import made as made_documents
from benchmarks.everything.world import served
from benchmarks.hub import HubProcess
from benchmarks.posts.asking import Client, connected
from benchmarks.posts.sources import made as made_posts
from benchmarks.search.generator import Generator

VERSION = 1
POSTS, DOCUMENTS, PAGES = 220_000, 2_000, 300
UPSTREAM = str(Path(__file__).parents[1] / "gateway" / "upstream.py")
SERVERS: Mapping[str, str] = {
    f"{kind}{number}": kind for kind in ("chat", "files", "sql", "web") for number in range(1, 5)
}
"""Names of servers, and the kind of each: 460 tools in all."""

_SEED = 20261130
_LARGEST = 64 << 20  # bytes of an answer
_BATCH = 100  # documents
_PATIENCE = 4 * 3600.0  # seconds until everything is embedded


class LargeHub(HubProcess):
    """A hub with the default model over a folder with such a home. ``model`` may be none."""

    def __init__(self, folder: Path, model: str = "auto") -> None:
        super().__init__(
            folder,
            TABANE_MODEL=model,
            TABANE_HTTP="true",
            TABANE_READER_ALLOW="127.0.0.1",
            TABANE_READER_ROBOTS="never",
        )
        self.configure(
            {
                name: {"command": sys.executable, "args": ["-S", UPSTREAM, kind]}
                for name, kind in SERVERS.items()
            }
        )

    @property
    def socket(self) -> str:
        """The address for JSON-RPC."""
        return self.url.replace("http", "ws", 1).removesuffix("mcp")

    @property
    def page(self) -> str:
        """The beginning of the addresses of pages."""
        return self.url.removesuffix("/mcp")


def kept(posts: int = POSTS) -> Path:
    """Return the folder of the home with so many posts, which is made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tabane-benchmarks"
    folder = cache / f"home-{VERSION}-{posts}"
    if not folder.exists():
        print(f"making a home with {posts:,} posts", file=sys.stderr)
        partial = folder.with_name(folder.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        fill(partial, posts)
        partial.rename(folder)
    return folder


def copied(folder: Path, target: Path) -> LargeHub:
    """Return a hub over a copy of a home that was kept."""
    shutil.copytree(
        folder, target, ignore=lambda _, names: [name for name in names if name.endswith(".sock")]
    )
    return LargeHub(target)


def fill(folder: Path, posts: int) -> None:
    """Import posts, put documents and read pages, until all of it is embedded."""
    hub = LargeHub(folder)
    hub.start()
    try:
        sources = made_posts(posts, vectors=False)
        hub.tabane("posts", "import", str(sources.posts), "--json")
        hub.tabane("tools", "list")
        asyncio.run(_filled(hub))
    finally:
        hub.stop()


async def _filled(hub: LargeHub) -> None:
    async with connected(hub.socket, hub.token, _LARGEST) as connection:
        client = Client(connection)
        for batch in made_documents(DOCUMENTS, 0).batches(_BATCH):
            await client.ask("put_documents", {"documents": batch})
        pages = _pages()
        with served(pages) as site:
            for path in pages:
                await client.ask("read_url_content", {"url": site + path})
        await client.ask("search_everything", {"query": "manual", "in": ["docs"]})
        await _embedded(client)


def _pages() -> dict[str, tuple[str, str]]:
    """Return pages by path: title and text, half of them Japanese."""
    generator = Generator(_SEED)
    pages: dict[str, tuple[str, str]] = {}
    for number, language in zip(range(PAGES), itertools.cycle(("ja", "en")), strict=False):
        title = " ".join(generator.text(language, 40).split())
        size = {"ja": 800, "en": 2_000}[language]
        pages[f"/{number:04}"] = (title, generator.text(language, size))
    return pages


async def _embedded(client: Client) -> None:
    """Wait until no source says that it is still being embedded."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        found: dict[str, Any] = await client.ask("search_everything", {"query": "everything"})
        if "warning" not in found:
            return
        print(json.dumps(found["warning"], ensure_ascii=False), file=sys.stderr)
        await asyncio.sleep(20)
    raise RuntimeError(found["warning"])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web.large_home")
    parser.add_argument("--posts", type=int, default=POSTS)
    print(kept(parser.parse_args(arguments).posts))


if __name__ == "__main__":
    main(sys.argv[1:])

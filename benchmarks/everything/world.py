"""A hub that knows the world of the queries: posts, documents, pages, tools, and its manual."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.hub import HubProcess
from benchmarks.posts.asking import Client, connected

FOLDER = Path(__file__).parent
WORLD = FOLDER / "world.json"
_LONGEST_WAIT = 300  # seconds
_LARGEST = 16 * 2**20  # bytes of an answer


class WorldHub(HubProcess):
    """A hub with the world. ``model`` and ``url`` are the settings of those names."""

    def __init__(self, folder: Path, port: int, model: str, url: str = "") -> None:
        super().__init__(
            folder,
            TABANE_PORT=str(port),
            TABANE_MODEL=model,
            TABANE_MODEL_URL=url,
            TABANE_READER_ALLOW="127.0.0.1",
            TABANE_READER_ROBOTS="never",
        )
        self.socket = f"ws://127.0.0.1:{port}/"
        tools = world()["tools"]
        script = str(FOLDER / "tool_server.py")
        self.configure(
            {name: {"command": sys.executable, "args": [script, name, str(WORLD)]} for name in tools}
        )


def world() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads(WORLD.read_text("utf-8"))
    return loaded


async def filled(hub: WorldHub, folder: Path, *, embeds: bool) -> None:
    """Give the hub everything of the world, and wait until its tools are listed and its texts embedded."""
    known = world()
    async with connected(hub.socket, hub.token, _LARGEST) as connection:
        client = Client(connection)
        for name, text in known["documents"].items():
            await client.ask("put_document", {"filepath": name, "text": text})
        with served(known["pages"]) as site:
            for path in known["pages"]:
                await client.ask("read_url_content", {"url": site + path})
        archive = _archive(folder / "posts.csv", known["posts"])
        job = await client.ask("import_posts", {"files": [str(archive)]})
        await _done(client, job)
        for server in known["tools"]:
            await client.ask("test_server", {"name": server})
        await client.ask("search_everything", {"query": "manual", "in": ["docs"]})
        if embeds:
            await _embedded(client)


async def _done(client: Client, job: dict[str, Any]) -> None:
    while job["status"] == "running":
        waits = {"job": job["job"], "version": job["version"], "wait": 20}
        job = await client.ask("follow_job", waits)
    if job["status"] != "done":
        raise RuntimeError(str(job))


async def _embedded(client: Client) -> None:
    for _ in range(_LONGEST_WAIT):
        found = await client.ask("search_everything", {"query": "everything"})
        if "warning" not in found:
            return
        await asyncio.sleep(1)
    raise RuntimeError(found["warning"])


def _archive(path: Path, posts: Mapping[str, tuple[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        for number, (time, text) in posts.items():
            writer.writerow([number, f"https://x.com/kei/status/{number}", time, text, "1"])
    return path


@contextmanager
def served(pages: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Serve the pages on loopback, and return the beginning of their URLs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            title, text = pages.get(self.path, ("", ""))
            body = f"# {title}\n\n{text}\n".encode()
            self.send_response(200 if title else 404)
            self.send_header("content-type", "text/markdown; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()

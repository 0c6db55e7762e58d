"""A registry of MCP servers on this computer, with the documented API and schema, and as it should not be.

Source: openapi.yaml of the registry's API (2025-12-01) and server.schema.json (2025-12-11).
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

OFFICIAL = "io.modelcontextprotocol.registry/official"

Json = dict[str, Any]


def entry(
    name: str,
    *,
    version: str = "1.0.0",
    description: str = "A server of the tests",
    status: str = "active",
    **server: Any,
) -> Json:
    """Return a ServerResponse. ``server`` are further members of its server.json."""
    meta = {"status": status, "publishedAt": "2026-01-02T03:04:05Z", "isLatest": True}
    meta |= {"statusMessage": message} if (message := server.pop("status_message", None)) else {}
    shown = {"name": name, "description": description, "version": version, **server}
    return {"server": shown, "_meta": {OFFICIAL: meta}}


def npm(identifier: str = "weather-mcp", version: str = "1.0.0", **package: Any) -> Json:
    """Return a package of npm."""
    return {
        "registryType": "npm",
        "identifier": identifier,
        "version": version,
        "transport": {"type": "stdio"},
        **package,
    }


@dataclass
class Answer:
    """An answer instead of the documented one. ``wait`` holds it back until the registry closes."""

    body: bytes = b""
    status: int = 200
    wait: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class LocalRegistry:
    """Serves ``entries``. ``instead`` may answer a request (path and query) in another way."""

    def __init__(self, entries: list[Json]) -> None:
        self.entries = entries
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.instead: Callable[[str, dict[str, str]], Answer | None] = lambda path, query: None
        self.closing = threading.Event()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def use_tls(self, certificate: str, key: str) -> None:
        """Serve over TLS with the PEM files. To be called before the registry runs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = self.url.replace("http://", "https://", 1)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append((parts.path, query, headers))
        answer = self.instead(parts.path, query) or self._documented(parts.path, query, headers)
        if answer.wait:
            self.closing.wait(60)
            return
        try:
            handler.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(answer.body)))
            handler.end_headers()
            handler.wfile.write(answer.body)
        except OSError:
            return  # the client had enough

    def _documented(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Answer:
        if path == "/v0.1/servers":
            body = json.dumps(self._list(query)).encode()
            etag = f'"{len(body)}"'
            if headers.get("if-none-match") == etag:
                return Answer(b"", 304)
            return Answer(body, headers={"ETag": etag})
        _, _, rest = path.partition("/v0.1/servers/")
        name, _, version = rest.partition("/versions/")
        for found in self.entries:
            is_shown = found["_meta"][OFFICIAL]["status"] != "deleted"
            wanted = version in ("latest", found["server"]["version"])
            if is_shown and wanted and found["server"]["name"] == unquote(name):
                return Answer(json.dumps(found).encode())
        return Answer(b'{"error": "Server not found"}', 404)

    def _list(self, query: dict[str, str]) -> Json:
        search = query.get("search", "").lower()
        found = [
            each
            for each in self.entries
            if search in (each["server"]["name"] + each["server"].get("description", "")).lower()
        ]
        start, limit = int(query.get("cursor", "0")), int(query.get("limit", "30"))
        page = found[start : start + limit]
        after = start + limit
        metadata = {"count": len(page)} | ({"nextCursor": str(after)} if after < len(found) else {})
        return {"servers": page, "metadata": metadata}

    @contextmanager
    def running(self) -> Iterator[LocalRegistry]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            thread.join()

    def stop(self) -> None:
        """Answer no more. It may be called twice."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

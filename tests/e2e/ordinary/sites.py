"""Web sites of an ordinary day: an HTTP proxy on loopback answers for every host, so no name is resolved."""

from __future__ import annotations

import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_PAGES = tomllib.loads((Path(__file__).parent / "sites.toml").read_text(encoding="utf-8"))
_FRAME = '<!doctype html><html lang="{lang}"><title>{title}</title><body><main>{body}</main></body></html>'


class Sites:
    """Serves the pages of sites.toml at ``proxy`` while the block runs. ``lost``: the network is gone."""

    def __init__(self) -> None:
        sites = self
        self.lost = False

        class Handler(_Pages):
            world = sites

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="sites", daemon=True)

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Sites:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Pages(BaseHTTPRequestHandler):
    world: Sites
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.world.lost:
            self.close_connection = True  # as a proxy that has lost its network
            self._answer(502, "text/plain", b"no route")
            return
        parts = urlsplit(self.path)
        page = _PAGES.get(parts.hostname or "", {}).get(unquote(parts.path))
        if page is None:
            self._answer(404, "text/html", b"<title>Not found</title><p>Not found.")
            return
        self._answer(200, page.get("type", "text/html; charset=utf-8"), _written(page))

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def _written(page: dict[str, Any]) -> bytes:
    if "raw" in page:
        return str(page["raw"]).encode()
    paragraphs = "".join(f"<p>{text}</p>" for text in page["text"])
    links = "".join(
        f'<p><a href="{target}">{label}</a></p>' for label, target in page.get("links", {}).items()
    )
    body = f"<h1>{page['title']}</h1>{paragraphs * page.get('times', 1)}{links}"
    return _FRAME.format(lang=page.get("lang", "en"), title=page["title"], body=body).encode()

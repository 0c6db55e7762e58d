"""A registry of packages on the loopback interface that can be slow or stall."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class PackageRegistry:
    """Answers each request after ``delay`` seconds. A package takes ``slowness`` more, in ten pieces.

    ``stalls`` holds every package back until it is cleared.
    """

    def __init__(self, *, delay: float = 0.0, slowness: float = 0.0) -> None:
        self.delay, self.slowness = delay, slowness
        self.stalls = threading.Event()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError

    def send(self, request: BaseHTTPRequestHandler, body: bytes, kind: str) -> None:
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def send_slowly(self, request: BaseHTTPRequestHandler, data: bytes) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        step = len(data) // 10 + 1
        for at in range(0, len(data), step):
            while self.stalls.is_set():
                time.sleep(0.05)
            request.wfile.write(data[at : at + step])
            request.wfile.flush()
            time.sleep(self.slowness / 10)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stalls.clear()
        self._server.shutdown()
        self._server.server_close()

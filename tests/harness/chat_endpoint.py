"""An OpenAI-compatible chat completions endpoint on loopback that plays a scripted conversation."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """An answer over HTTP as it is sent."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


Part = Json | Reply | Callable[[Json], Json | Reply]
"""A message of the model, a whole answer, or what makes one from the request."""


def says(text: str) -> Json:
    return {"role": "assistant", "content": text}


def calls(name: str, arguments: Any, *, id: str = "c1") -> Json:
    """A message with one call; arguments that are no string are sent as JSON in a string."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": text}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@dataclass
class ChatServer:
    """Plays ``script``, its last part again and again. ``requests`` are those it got, ``headers`` theirs."""

    script: Sequence[Part]
    requests: list[Json] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, request: Json, headers: dict[str, str]) -> Reply:
        self.requests.append(request)
        self.headers.append(headers)
        part = self.script[min(len(self.requests), len(self.script)) - 1]
        found = part(request) if callable(part) else part
        if isinstance(found, Reply):
            return found
        body = {"choices": [{"index": 0, "message": found}], "usage": {"total_tokens": 100}}
        return Reply(200, json.dumps(body).encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat: ChatServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/v1/chat/completions"
        reply = self.chat.answer(request, {name.lower(): value for name, value in self.headers.items()})
        self.send_response(reply.status)
        for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def chat_server(*script: Part) -> Iterator[ChatServer]:
    """Serve a conversation while the block runs."""
    chat = ChatServer(script)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"chat": chat}))
    server.daemon_threads = True
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()

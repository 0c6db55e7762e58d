"""A server over HTTP that misbehaves in one way: `python hostile_http.py NAME` prints its port.

It speaks streamable HTTP of the handshake era, byte for byte by hand. Misbehaviors are registered as in
``stdio_server``; ``ANY`` is each request, CALL a call of the tool `hit`, GET the stream of the server.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.harness.servers.hostile_entry import Entry

Json = dict[str, Any]
HIT: Json = {"name": "hit", "description": "Hit it.", "inputSchema": {"type": "object"}}
TEXT = {"content": [{"type": "text", "text": "done"}], "isError": False}
STORM = 20_000
MB = 1 << 20
MOST_BODY = 64 * MB
JSON, EVENTS = "application/json", "text/event-stream"
ENTRIES: dict[str, Entry] = {}
HOOKS: dict[str, tuple[str, Callable[[Peer], None]]] = {}
Hook = Callable[["Peer"], None]


class Peer:
    """One connection, and the request that is answered on it."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.file = peer.makefile("rb")
        self.method, self.target = "", ""
        self.headers: dict[str, str] = {}
        self.message: Json = {}

    def next(self) -> bool:
        """Read a request. Returns False at the end of the connection."""
        first = self.file.readline(1 << 16).decode("latin-1").split()
        if len(first) != 3:
            return False
        self.method, self.target, _ = first
        self.headers = {}
        while (line := self.file.readline(1 << 16).decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        length = min(int(self.headers.get("content-length", 0)), MOST_BODY)
        body = self.file.read(length)
        self.message = json.loads(body) if body.startswith(b"{") else {}
        return True

    @property
    def rpc(self) -> str:
        return str(self.message.get("method", ""))

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def head(self, *lines: str, status: str = "200 OK") -> None:
        self.raw("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1"))

    def whole(self, body: bytes, *lines: str, status: str = "200 OK", kind: str = JSON) -> None:
        self.head(f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines, status=status)
        self.raw(body)

    def stream(self) -> None:
        self.head(f"Content-Type: {EVENTS}", "Transfer-Encoding: chunked")

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def answer(self, result: Any = None) -> bytes:
        body = {"jsonrpc": "2.0", "id": self.message.get("id"), "result": TEXT if result is None else result}
        return json.dumps(body).encode()

    def event(self, data: bytes) -> bytes:
        return b"event: message\ndata: " + data + b"\n\n"

    def reset(self) -> None:
        """Close the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        raise ConnectionResetError

    def hold(self) -> None:
        """Keep the connection open, and say nothing, until the client hangs up."""
        while self.file.read(1 << 16):
            pass
        raise ConnectionResetError


def register(moment: str, **how: Any) -> Callable[[Hook], Hook]:
    """Register a misbehavior at a moment: any, call, list, initialize, get, connect."""

    def take(hook: Hook) -> Hook:
        ENTRIES[hook.__name__] = Entry(hook.__name__, moment, **how)
        HOOKS[hook.__name__] = moment, hook
        return hook

    return take


# -- streams of events ---------------------------------------------------------------------------


@register("call", ends="failure", shown=True, timeout=3)
def comments_without_end(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b": comment\n" * 2000)


@register("call", ends="failure", shown=True, timeout=3)
def empty_lines_without_end(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b"\n" * 20_000)


@register("call", ends="failure", shown=True, timeout=3)
def ids_and_retries_without_end(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b"id: 1\nretry: 1\n\n" * 2000)


@register("call", ends="failure", shown=True, timeout=3)
def events_of_unknown_names_without_end(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b"event: x\ndata: y\n\n" * 1000)


@register("call", ends="failure", shown=True, timeout=3)
def empty_events_without_end(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b"data:\n\n" * 2000)


@register("call", ends="failure", shown=True, timeout=3)
def notifications_without_end(peer: Peer) -> None:
    peer.stream()
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
    while True:
        peer.chunk(peer.event(note) * 200)


@register("call", ends="failure", shown=True, timeout=3)
def questions_without_end(peer: Peer) -> None:
    peer.stream()
    ask = b'{"jsonrpc":"2.0","id":"q%d","method":"sampling/createMessage","params":{}}'
    for number in itertools.count():
        peer.chunk(peer.event(ask % number))


@register("call", ends="failure", shown=True, timeout=5)
def an_event_of_70_megabytes(peer: Peer) -> None:
    peer.stream()
    peer.chunk(b"data: " + b"x" * (70 * MB) + b"\n\n")
    peer.hold()


@register("call", ends="failure", shown=True, timeout=3)
def an_event_without_an_end(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b"data: " + b"x" * 100_000 + b"\n")


@register("call", ends="failure", shown=True, timeout=5)
def a_line_without_an_end(peer: Peer) -> None:
    peer.stream()
    peer.chunk(b"data: ")
    while True:
        peer.chunk(b"x" * MB)


@register("call", ends="result")
def a_byte_in_each_chunk(peer: Peer) -> None:
    peer.stream()
    for byte in peer.event(peer.answer({**TEXT, "filler": "x" * 20_000})):
        peer.chunk(bytes([byte]))
    peer.raw(b"0\r\n\r\n")


@register("call", ends="result")
def an_answer_in_ten_thousand_lines_of_data(peer: Peer) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": peer.message["id"], "result": TEXT}, indent=1)
    text = text.replace("{\n", "{" + "\n" * 10_000, 1)
    lines = b"".join(b"data: " + line.encode() + b"\n" for line in text.split("\n"))
    peer.stream()
    peer.chunk(lines + b"\n")
    peer.raw(b"0\r\n\r\n")


@register("call", ends="result")
def carriage_returns_alone(peer: Peer) -> None:
    peer.stream()
    peer.chunk(b"\xef\xbb\xbf: hello\r\r" + peer.event(peer.answer()).replace(b"\n", b"\r"))
    peer.raw(b"0\r\n\r\n")


@register("call")
def a_lone_surrogate_in_an_event_of_20_megabytes(peer: Peer) -> None:
    text = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % peer.message["id"]
    peer.stream()
    peer.chunk(peer.event(text + b"x" * (20 * MB) + rb'\ud800"}]}}'))
    peer.raw(b"0\r\n\r\n")


@register("call", ends="failure", shown=True, timeout=3)
def answers_to_others(peer: Peer) -> None:
    peer.stream()
    for number in range(2000):
        other = json.dumps({"jsonrpc": "2.0", "id": 10**6 + number, "result": TEXT}).encode()
        peer.chunk(peer.event(other))
    peer.hold()


@register("call", ends="failure", shown=True)
def a_stream_that_ends_without_an_answer(peer: Peer) -> None:
    peer.stream()
    peer.raw(b"0\r\n\r\n")


@register("call", ends="failure", shown=True, timeout=5)
def a_stream_cut_again_and_again(peer: Peer) -> None:
    peer.stream()
    peer.chunk(b"id: 1\nretry: 0\ndata:\n\n")
    peer.reset()


@register("call", ends="failure", shown=True, timeout=3)
def a_retry_of_a_thousand_years(peer: Peer) -> None:
    peer.stream()
    peer.chunk(b"id: 1\nretry: 99999999999999\ndata:\n\n")
    peer.raw(b"0\r\n\r\n")


@register("get", ends="result")
def a_flood_on_the_stream_of_the_server(peer: Peer) -> None:
    peer.stream()
    note = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    while True:
        peer.chunk(peer.event(note) * 200)


@register("get", ends="result")
def comments_on_the_stream_of_the_server(peer: Peer) -> None:
    peer.stream()
    while True:
        peer.chunk(b": \n" * 5000)


# -- heads ---------------------------------------------------------------------------------------


@register("call", ends="failure", shown=True, timeout=3)
def a_head_that_never_ends(peer: Peer) -> None:
    peer.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        peer.raw(b"X-Header: " + b"x" * 1000 + b"\r\n")


@register("call", ends="failure", shown=True, timeout=5)
def a_million_headers(peer: Peer) -> None:
    peer.raw(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1_000_000 + b"\r\n")
    peer.hold()


@register("call", ends="failure", shown=True, timeout=5)
def a_header_of_20_megabytes(peer: Peer) -> None:
    peer.raw(b"HTTP/1.1 200 OK\r\nA: " + b"x" * (20 * MB) + b"\r\n\r\n")
    peer.hold()


@register("call", ends="failure", shown=True, timeout=3)
def a_head_a_byte_at_a_time(peer: Peer) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n":
        peer.raw(bytes([byte]))
        time.sleep(0.5)


@register("call", ends="failure", shown=True, timeout=3)
def informational_answers_without_end(peer: Peer) -> None:
    while True:
        peer.raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 500)


@register("call", ends="failure", shown=True, timeout=5)
def rubbish_instead_of_http(peer: Peer) -> None:
    peer.raw(b"\x16\x03\x01\x02\x00 what is this \x00\xff\r\n\r\n" * 100)
    peer.hold()


@register("call", ends="failure", shown=True, timeout=5)
def a_status_of_999(peer: Peer) -> None:
    peer.whole(b"{}", status="999 What")


@register("call", timeout=5)
def a_session_id_of_control_characters(peer: Peer) -> None:
    peer.whole(peer.answer(), "Mcp-Session-Id: a\x01b\x7f")


@register("initialize")
def a_session_id_of_60_kilobytes(peer: Peer) -> None:
    peer.whole(peer.answer(introduction()), "Mcp-Session-Id: " + "s" * 60_000)


@register("call")
def another_session_id_with_each_answer(peer: Peer) -> None:
    peer.whole(peer.answer(), f"Mcp-Session-Id: {os.urandom(8).hex()}")


@register("call", ends="failure", shown=True, timeout=10)
def a_session_that_is_always_over(peer: Peer) -> None:
    peer.whole(b"", status="404 Not Found")


@register("any", ends="failure", shown=True)
def wrong_mcp_headers(peer: Peer) -> None:
    peer.whole(b"{}", "Mcp-Protocol-Version: \xff\xfe", "Mcp-Session-Id: ", status="400 Bad Request")


# -- redirects, refusals -------------------------------------------------------------------------


@register("any", ends="failure", shown=True)
def a_redirect_to_itself(peer: Peer) -> None:
    peer.whole(b"", f"Location: {peer.target}", status="307 Temporary Redirect")


@register("any", ends="failure", shown=True)
def redirects_without_end(peer: Peer) -> None:
    peer.whole(b"", f"Location: /{os.urandom(8).hex()}", status="308 Permanent Redirect")


@register("any", ends="failure", shown=True)
def a_redirect_to_another_host(peer: Peer) -> None:
    peer.whole(b"", "Location: http://127.0.0.2:9/mcp", status="307 Temporary Redirect")


@register("call", ends="failure", shown=True, timeout=10)
def redirects_of_a_call(peer: Peer) -> None:
    peer.whole(b"", "Location: file:///etc/passwd", status="302 Found")


@register("any", ends="failure", shown=True)
def a_login_that_never_works(peer: Peer) -> None:
    peer.whole(b"", "WWW-Authenticate: Bearer " + "x" * 5000, status="401 Unauthorized")


@register("call", ends="failure", shown=True, timeout=10)
def failures_500(peer: Peer) -> None:
    peer.whole(b"oops " * 100_000, status="500 Internal Server Error", kind="text/plain")


@register("call", ends="failure", shown=True, timeout=10)
def failures_503_that_say_at_once(peer: Peer) -> None:
    peer.whole(b"", "Retry-After: 0", status="503 Service Unavailable")


@register("call", ends="failure", shown=True, timeout=3)
def a_retry_after_a_thousand_years(peer: Peer) -> None:
    peer.whole(b"", "Retry-After: 99999999999", status="429 Too Many Requests")


@register("call", ends="failure", shown=True, timeout=3)
def a_retry_after_that_is_no_number(peer: Peer) -> None:
    peer.whole(b"", "Retry-After: -1e999", status="503 Service Unavailable")


# -- bodies --------------------------------------------------------------------------------------


@register("call", ends="failure", shown=True, timeout=10)
def a_gzip_bomb(peer: Peer) -> None:
    bomb = gzip.compress(b"\0" * (200 * MB), 1)
    peer.whole(bomb, "Content-Encoding: gzip")


@register("call", ends="failure", shown=True, timeout=10)
def a_gzip_bomb_in_a_stream(peer: Peer) -> None:
    bomb = gzip.compress(b": comment\n" * (20 * MB), 1)
    peer.head(f"Content-Type: {EVENTS}", "Content-Encoding: gzip", f"Content-Length: {len(bomb)}")
    peer.raw(bomb)
    peer.hold()


@register("call", ends="failure", shown=True, timeout=5)
def an_encoding_that_is_a_lie(peer: Peer) -> None:
    peer.whole(peer.answer(), "Content-Encoding: gzip")


@register("call", timeout=5)
def a_content_type_that_is_wrong(peer: Peer) -> None:
    peer.whole(peer.answer(), kind="image/png")


@register("call", ends="failure", shown=True, timeout=5)
def a_page_of_html(peer: Peer) -> None:
    peer.whole(b"<html><title>Sign in</title>" + b"<p>x" * 100_000, kind="text/html")


@register("call", ends="failure", shown=True, timeout=3)
def a_length_that_is_too_long(peer: Peer) -> None:
    peer.head(f"Content-Type: {JSON}", "Content-Length: 100000")
    peer.raw(peer.answer())
    peer.hold()


@register("call", ends="failure", shown=True, timeout=5)
def a_length_that_is_too_short(peer: Peer) -> None:
    peer.head(f"Content-Type: {JSON}", "Content-Length: 10")
    peer.raw(peer.answer())


@register("call", ends="failure", shown=True, timeout=5)
def a_length_of_a_petabyte(peer: Peer) -> None:
    peer.head(f"Content-Type: {JSON}", f"Content-Length: {1 << 50}")
    while True:
        peer.raw(b" " * MB)


@register("call", ends="failure", shown=True, timeout=5)
def a_negative_length(peer: Peer) -> None:
    peer.head(f"Content-Type: {JSON}", "Content-Length: -5")
    peer.raw(peer.answer())


@register("call", ends="failure", shown=True, timeout=5)
def chunks_that_are_none(peer: Peer) -> None:
    peer.head(f"Content-Type: {JSON}", "Transfer-Encoding: chunked")
    peer.raw(b"zzz\r\n" + peer.answer() + b"\r\n0\r\n\r\n")


@register("call", ends="failure", shown=True, timeout=5)
def a_request_that_is_accepted(peer: Peer) -> None:
    peer.whole(b"", status="202 Accepted")


@register("call", ends="failure", shown=True, timeout=5)
def a_body_that_is_empty(peer: Peer) -> None:
    peer.whole(b"")


@register("call", ends="failure", shown=True, timeout=3)
def a_body_a_byte_at_a_time(peer: Peer) -> None:
    body = peer.answer()
    peer.head(f"Content-Type: {JSON}", f"Content-Length: {len(body)}")
    for byte in body:
        peer.raw(bytes([byte]))
        time.sleep(0.5)


@register("call")
def a_body_of_60_megabytes_with_a_surrogate(peer: Peer) -> None:
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % peer.message["id"]
    peer.whole(head + b"x" * (60 * MB) + rb'\ud800"}]}}')


@register("call", ends="failure", shown=True, timeout=5)
def the_answer_to_another(peer: Peer) -> None:
    peer.message["id"] += 1000
    peer.whole(peer.answer())


@register("call")
def not_a_number(peer: Peer) -> None:
    peer.whole(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"n":NaN}}' % peer.message["id"])


@register("call", timeout=5)
def a_depth_of_100_000(peer: Peer) -> None:
    depth = b"[" * 100_000 + b"]" * 100_000
    peer.whole(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":%b}}' % (peer.message["id"], depth))


@register("list")
def pages_without_end(peer: Peer) -> None:
    peer.whole(peer.answer({"tools": [HIT], "nextCursor": os.urandom(8).hex()}))


@register("list")
def large_pages_without_end(peer: Peer) -> None:
    tool = {**HIT, "description": "x" * (8 * MB)}
    peer.whole(peer.answer({"tools": [tool], "nextCursor": os.urandom(8).hex()}))


# -- connections ---------------------------------------------------------------------------------


@register("connect", ends="failure", shown=True)
def connections_that_are_reset(peer: Peer) -> None:
    peer.reset()


@register("connect", ends="failure", shown=True)
def connections_that_are_silent(peer: Peer) -> None:
    peer.hold()


@register("call", ends="failure", shown=True, timeout=5)
def a_reset_of_a_call(peer: Peer) -> None:
    peer.reset()


@register("call", ends="failure", shown=True, timeout=3)
def a_connection_closed_by_half(peer: Peer) -> None:
    peer.socket.shutdown(socket.SHUT_WR)
    peer.hold()


@register("call", ends="result")
def a_connection_for_each_answer(peer: Peer) -> None:
    peer.whole(peer.answer(), "Connection: keep-alive")
    peer.socket.shutdown(socket.SHUT_RDWR)


@register("connect", ends="failure", shown=True)
def a_greeting_of_another_protocol(peer: Peer) -> None:
    peer.raw(b"220 mail.example ESMTP ready\r\n" * 3)
    peer.hold()


@register("call", ends="failure", shown=True, timeout=3)
def silence(peer: Peer) -> None:
    peer.hold()


@register("call", ends="failure", shown=True, timeout=3, bulk=8 * MB)
def an_argument_that_is_not_read(peer: Peer) -> None:
    peer.hold()


# -- well-behaved otherwise ----------------------------------------------------------------------


def introduction() -> Json:
    server = {"name": "hostile", "version": "1"}
    return {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": server,
    }


def moment_of(peer: Peer) -> str:
    if peer.method == "GET":
        return "get"
    return {"initialize": "initialize", "tools/list": "list", "tools/call": "call"}.get(peer.rpc, "")


def respond(peer: Peer) -> None:
    when, hook = HOOKS[sys.argv[1]]
    moment = moment_of(peer)
    if when in ("any", moment):
        hook(peer)
    elif peer.method != "POST":
        peer.whole(b"", status="405 Method Not Allowed")
    elif "id" not in peer.message or "method" not in peer.message:
        peer.whole(b"", status="202 Accepted")
    else:
        behave(peer, moment)


def behave(peer: Peer, moment: str) -> None:
    if moment == "initialize":
        peer.whole(peer.answer(introduction()), "Mcp-Session-Id: s1")
    elif moment == "list":
        peer.whole(peer.answer({"tools": [HIT]}))
    elif moment == "call":
        peer.whole(peer.answer())
    elif peer.rpc == "ping":
        peer.whole(peer.answer({}))
    else:
        error = {"code": -32601, "message": "unknown method"}
        body = {"jsonrpc": "2.0", "id": peer.message["id"], "error": error}
        peer.whole(json.dumps(body).encode(), status="200 OK")


def serve(connection: socket.socket) -> None:
    peer = Peer(connection)
    try:
        if HOOKS[sys.argv[1]][0] == "connect":
            HOOKS[sys.argv[1]][1](peer)
        while peer.next():
            respond(peer)
    except (OSError, ValueError):
        pass  # it hung up, as it may
    finally:
        peer.file.close()
        connection.close()


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()

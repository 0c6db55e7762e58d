"""Chroma servers that answer what a real one answers rarely."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tabane.engine.candidate_index import IndexedVector
from tabane.engine.team.chroma.index import ChromaIndex
from tabane.engine.team.chroma.server import ChromaServer
from tabane.engine.team.chroma.service import parsed
from tabane.errors import StoreError
from tabane.search.records import EVERYTHING, Shape
from tests.harness.ports import reserved_port

SHAPE = Shape("posts")
SET = {"id": "1234", "dimension": 2, "metadata": {"tabane_mark": "m", "tabane_layout": "1"}}
Answering = Callable[[str, bytes], tuple[int, bytes]]


class FakeChroma(ThreadingHTTPServer):
    """Answers each request by a function of its path and body, and keeps what was asked."""

    daemon_threads = True

    def __init__(self, answer: Answering) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[tuple[str, str, bytes]] = []
        self.headers: dict[str, str] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeChroma

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, body))
        self.server.headers = dict(self.headers)
        status, answer = self.server.answer(self.path, body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _do

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def fake(
    answer: Answering, address: str = "chroma+http://{host}"
) -> Iterator[tuple[FakeChroma, ChromaIndex]]:
    server = FakeChroma(answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = parsed(address.format(host=f"127.0.0.1:{server.server_port}"))
    index = ChromaIndex(url, ChromaServer(url))
    try:
        yield server, index
    finally:
        index.close()
        server.shutdown()
        server.server_close()


def usual(path: str, body: bytes) -> tuple[int, bytes]:
    if path.endswith("pre-flight-checks"):
        return 200, b'{"max_batch_size": 3}'
    if path.endswith("version"):
        return 200, b'"1.0.0"'
    return 200, json.dumps(SET).encode()


def test_calls_are_as_large_as_the_server_wants_them_and_carry_the_login() -> None:
    vectors = [IndexedVector(row, bytes(8)) for row in range(7)]
    with fake(usual, "chroma+http://{host}/archive?tenant=team&token=abc") as (server, index):
        assert index.version().server == "Chroma 1.0.0"
        index.put("a_1_0", vectors, SHAPE)
        index.remove("a_1_0", range(4))
    sent = [json.loads(body) for _, path, body in server.asked if path.endswith(("upsert", "delete"))]
    assert [len(each["ids"]) for each in sent] == [3, 3, 1, 3, 1]
    assert sent[0]["embeddings"][0] == [0.0, 0.0]
    assert server.asked[-1][1].startswith("/api/v2/tenants/team/databases/archive/collections/1234/")
    assert server.headers["X-Chroma-Token"] == "abc"


def test_a_collection_that_cannot_be_searched_has_no_mark_and_is_filled_again() -> None:
    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        if path.endswith("query"):
            return 500, b'{"error": "InternalError", "message": "Error loading hnsw index"}'
        return usual(path, body)

    with fake(answer) as (_, index):
        assert index.mark("a_1_0", SHAPE) is None
        with pytest.raises(StoreError, match="500 Error loading hnsw index"):
            index.nearest("a_1_0", bytes(8), EVERYTHING, SHAPE, 10, "1234")


def test_a_server_that_is_too_old_is_refused() -> None:
    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        return (200, b'"0.6.3"') if path.endswith("version") else usual(path, body)

    with fake(answer) as (_, index), pytest.raises(StoreError, match="too old"):
        index.version()


def test_a_busy_server_keeps_its_mark() -> None:
    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        return (503, b"<html>") if path.endswith("query") else usual(path, body)

    with fake(answer) as (_, index), pytest.raises(StoreError, match="503"):
        index.mark("a_1_0", SHAPE)


def test_a_server_that_is_away_is_an_error_of_the_index() -> None:
    url = parsed(f"chroma+http://127.0.0.1:{reserved_port(usual)}")
    with pytest.raises(StoreError, match="cannot be used"):
        ChromaIndex(url, ChromaServer(url)).version()


def test_a_server_that_does_not_answer_is_left_in_time() -> None:
    silent = threading.Event()

    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        silent.wait(60)
        return usual(path, body)

    with fake(answer, "chroma+http://{host}?timeout=1") as (_, index):
        with pytest.raises(StoreError, match="not answered in time"):
            index.nearest("a_1_0", bytes(8), EVERYTHING, SHAPE, 10, "1234")
        silent.set()


@pytest.mark.parametrize(
    "answer", [b"[]", b"{", b"[" + b" " * 9_000_000 + b"]"], ids=["other", "cut", "huge"]
)
def test_an_answer_that_cannot_be_read_is_an_error_of_the_index(answer: bytes) -> None:
    with (
        fake(lambda path, body: (200, answer)) as (_, index),
        pytest.raises(StoreError, match="cannot be used"),
    ):
        index.nearest("a_1_0", bytes(8), EVERYTHING, SHAPE, 10, "1234")

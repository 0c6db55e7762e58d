"""A Chroma server, spoken to in JSON over HTTP, by our own code.

Chroma's package for that is 100 MB, and cannot be installed beside the one that reads folders.
https://docs.trychroma.com/reference/server-api
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from tabane.engine.team.chroma.service import (
    CONFIGURATION,
    LONGEST,
    ChromaCollection,
    ChromaService,
    ChromaUrl,
    DamagedCollection,
)
from tabane.errors import StoreError
from tabane.messages import say

_THREADS = 8  # that make calls, because the resolution of a name has no time limit
_MOST_IDLE = 4  # connections that are kept
_LARGEST = 8_000_000  # bytes of an answer
_PIECE = 65_536
_MOST_TOGETHER = 100  # vectors in a call, so that it ends long before its time limit
_MOST_BYTES = 4_000_000  # of vectors in a call
_LATE = "it has not answered in time"


class ChromaServer(ChromaService):
    """The protocol :class:`~tabane.engine.team.chroma.service.ChromaService`, by several threads."""

    def __init__(self, url: ChromaUrl) -> None:
        self._url = url
        database = f"/api/v2/tenants/{quote(url.tenant)}/databases/{quote(url.database)}"
        self._collections = f"{database}/collections"
        self._headers = {"Content-Type": "application/json", **_login(url)}
        self._idle: list[http.client.HTTPConnection] = []
        self._gate = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, "chroma")
        self._together, self._packed = 1, False
        self._tls: ssl.SSLContext | None = None

    def version(self) -> str:
        found = self._call_server("GET", "/api/v2/version")
        limits = self._call_server("GET", "/api/v2/pre-flight-checks")
        with self._convert_errors():
            self._together = min(limits.get("max_batch_size") or _MOST_TOGETHER, _MOST_TOGETHER)
            self._packed = bool(limits.get("supports_base64_encoding"))
        self._call_server(
            "GET", f"{self._collections}?limit=1"
        )  # whether the database and the login are right
        return str(found)

    def find(self, name: str) -> ChromaCollection | None:
        found = self._call_server("GET", f"{self._collections}/{name}", absent=True)
        if found is None:
            return None
        with self._convert_errors():
            return ChromaCollection(found["id"], found.get("dimension"), found.get("metadata") or {})

    def create(self, name: str, metadata: Mapping[str, str]) -> None:
        given = {"name": name, "metadata": metadata, "configuration": CONFIGURATION, "get_or_create": True}
        self._call_server("POST", self._collections, given)

    def drop(self, name: str) -> None:
        self._call_server("DELETE", f"{self._collections}/{name}", absent=True)

    def note(self, name: str, id: str, metadata: Mapping[str, str]) -> None:
        self._call_server("PUT", f"{self._collections}/{id}", {"new_metadata": metadata})

    def put(self, name: str, id: str, rows: Sequence[int], vectors: Sequence[bytes]) -> None:
        size = max(1, min(self._together, _MOST_BYTES // len(vectors[0])))
        written = _packed if self._packed else _numbers
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            given = {"ids": [*map(str, rows[part])], "embeddings": [*map(written, vectors[part])]}
            self._call_server("POST", f"{self._collections}/{id}/upsert", given)

    def remove(self, name: str, id: str, rows: Sequence[int]) -> None:
        for first in range(0, len(rows), self._together):
            given = {"ids": [*map(str, rows[first : first + self._together])]}
            self._call_server("POST", f"{self._collections}/{id}/delete", given)

    def nearest(self, name: str, id: str, vector: bytes, most: int, seconds: float) -> list[int]:
        given = {"query_embeddings": [_numbers(vector)], "n_results": most, "include": []}
        found = self._call_server("POST", f"{self._collections}/{id}/query", given, seconds=seconds)
        with self._convert_errors():
            return [int(row) for row in found["ids"][0]]

    def close(self) -> None:
        with self._gate:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # Calls

    def _call_server(
        self, method: str, path: str, body: Any = None, *, absent: bool = False, seconds: float = LONGEST
    ) -> Any:
        """Return the answer; None if the server has no such thing and ``absent`` is given."""
        sent = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        with self._convert_errors():
            call = self._threads.submit(self._send_with_kept, method, path, sent, time.monotonic() + seconds)
            try:
                status, text = call.result(seconds)
            except TimeoutError:
                call.cancel()
                raise TimeoutError(_LATE) from None
            if status == 404 and absent:
                return None
            if status >= 300:
                error = DamagedCollection if status == 500 else StoreError
                raise error(self._problem(f"{status} {_detail(text)}"))
            return json.loads(text) if text else None

    def _send_with_kept(
        self, method: str, path: str, body: bytes | None, deadline: float
    ) -> tuple[int, bytes]:
        """Ask over a connection that is kept, or a new one. Each call may be repeated."""
        with self._gate:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._send_request(kept, method, path, body, deadline)
            except (http.client.HTTPException, ConnectionError):
                kept.close()  # the server has closed it meanwhile
        return self._send_request(self._connection(), method, path, body, deadline)

    def _send_request(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        deadline: float,
    ) -> tuple[int, bytes]:
        try:
            _limit_wait(connection, deadline)
            connection.request(method, path, body, self._headers)
            _limit_wait(connection, deadline)
            response = connection.getresponse()
            found = bytearray()
            while piece := response.read(_PIECE):
                found += piece
                _limit_wait(connection, deadline)
                if len(found) > _LARGEST:
                    raise http.client.HTTPException("the answer is too large")
        except BaseException:
            connection.close()
            raise
        with self._gate:
            is_kept = len(self._idle) < _MOST_IDLE and connection.sock is not None
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
        return response.status, bytes(found)

    def _connection(self) -> http.client.HTTPConnection:
        if not self._url.tls:
            return http.client.HTTPConnection(self._url.host, self._url.port)
        with self._gate:
            if self._tls is None:
                self._tls = ssl.create_default_context()
        return http.client.HTTPSConnection(self._url.host, self._url.port, context=self._tls)

    @contextlib.contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            self.close()
            raise StoreError(self._problem(str(error) or type(error).__name__)) from error

    def _problem(self, detail: str) -> Any:
        return say("{place} cannot be used ({detail})", place=self._url.place, detail=detail[:300])


def _limit_wait(connection: http.client.HTTPConnection, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(_LATE)
    connection.timeout = left
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _login(url: ChromaUrl) -> dict[str, str]:
    if url.token:
        return {"X-Chroma-Token": url.token, "Authorization": f"Bearer {url.token}"}
    if url.login:
        return {"Authorization": f"Basic {base64.b64encode(url.login.encode()).decode()}"}
    return {}


def _packed(vector: bytes) -> str:
    return base64.b64encode(vector).decode()


def _numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


def _detail(text: bytes) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get("message", "")) if isinstance(found, dict) else ""
